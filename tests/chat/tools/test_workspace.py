import os

from everturn.chat.tools.files.workspace import ResolvedPath


def test_a_path_is_inside_however_it_is_spelled(hands):
    hands.write("src/a.py", "x")
    inside = ResolvedPath(str(hands.root), "src/a.py", "src/a.py", is_inside=True)
    spellings = ("src/a.py", "./src/../src/a.py", str(hands.root / "src/a.py"))
    assert [hands.workspace.resolve(path) for path in spellings] == [inside] * 3


def test_a_folder_whose_name_begins_like_the_workspace_is_outside(hands):
    assert not hands.workspace.resolve(f"{hands.root}-2/a.py").is_inside


def test_reading_elsewhere_is_asked_about_with_the_real_path(hands, elsewhere):
    (elsewhere / "a.txt").write_text("hello\n")
    os.symlink(elsewhere, hands.root / "link")
    assert hands.do("Read", file_path="link/a.txt") == "     1\thello"
    real = os.path.realpath(elsewhere)
    (request,) = hands.requests
    assert (request.tool, request.what, request.key, request.kind) == (
        "Read",
        f"look at {real}/a.txt (outside the workspace)",
        f"looking into {real}",
        "look",
    )


def test_a_link_out_of_the_workspace_is_not_followed_when_the_person_says_no(hands, elsewhere):
    (elsewhere / "a.txt").write_text("hello\n")
    os.symlink(elsewhere / "a.txt", hands.root / "b.txt")
    hands.says = "no"
    for tool, fields in (
        ("Read", {}),
        ("Write", {"content": "gone"}),
        ("Edit", {"old_string": "", "new_string": "x"}),
    ):
        assert hands.fails(tool, file_path="b.txt", **fields)
    assert (elsewhere / "a.txt").read_text() == "hello\n"


def test_a_folder_swapped_for_a_link_while_the_person_was_asked_is_not_followed(hands, elsewhere):
    (elsewhere / "a.txt").write_text("theirs\n")
    hands.write("src/a.txt", "ours\n")
    hands.do("Read", file_path="src/a.txt")

    def swap(request):
        os.rename(hands.root / "src", hands.root / "old")
        os.symlink(elsewhere, hands.root / "src")
        return "once"

    hands.says = swap
    said = hands.fails("Edit", file_path="src/a.txt", old_string="ours", new_string="mine")
    assert said.startswith("src/a.txt:")
    assert (elsewhere / "a.txt").read_text() == "theirs\n"


def test_a_new_file_does_not_go_through_a_link_put_there_meanwhile(hands, elsewhere):
    def swap(request):
        os.symlink(elsewhere, hands.root / "new")
        return "once"

    hands.says = swap
    assert hands.fails("Write", file_path="new/a.txt", content="x").startswith("new/a.txt:")
    assert list(elsewhere.iterdir()) == []


def test_secrets_are_asked_about_by_name_also_in_the_workspace(hands):
    hands.write(".env", "KEY=1\n")
    hands.permissions.mode = "accept edits"
    hands.do("Read", file_path=".env")
    hands.do("Write", file_path="deep/id_rsa", content="x")
    hands.do("Write", file_path=".git/hooks/pre-commit", content="x")
    hands.do("Write", file_path="plain.py", content="x")
    assert [(request.what, request.kind) for request in hands.requests] == [
        ("read .env (its name suggests that it contains secrets)", "look"),
        ("write deep/id_rsa (+1 -0)", "guarded edit"),
        ("write .git/hooks/pre-commit (+1 -0, programs run or obey it by themselves)", "guarded edit"),
    ]


def test_paths_that_no_disk_could_have_are_refused_in_words(hands):
    assert hands.fails("Read", file_path="a\0b") == (
        "'a\\\\x00b' is not a valid path: it contains a character that no name can have."
    )
    assert (
        hands.fails("Read", file_path="x" * 300) == f"{'x' * 300}: its name is too long. Find it with Glob."
    )


def test_links_in_a_circle_end(hands):
    os.symlink("b", hands.root / "a")
    os.symlink("a", hands.root / "b")
    assert hands.fails("Read", file_path="a").startswith("a: ")
