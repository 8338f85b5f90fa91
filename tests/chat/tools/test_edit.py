import os
import stat

import pytest


def known(hands, path, content):
    """A file that was read in this session."""
    file = hands.write(path, content)
    hands.do("Read", file_path=path)
    return file


# ── Write ────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_file_is_written_with_its_folders_after_the_diff_was_seen(hands):
    assert hands.do("Write", file_path="a/b/c.py", content="x = 1\n") == "a/b/c.py was written (+1 -0)."
    assert (hands.root / "a/b/c.py").read_text() == "x = 1\n"
    (request,) = hands.requests
    assert (request.tool, request.what, request.key, request.kind) == (
        "Write",
        "write a/b/c.py (+1 -0)",
        "writing in a/b",
        "edit",
    )
    assert request.detail == "--- a/b/c.py\n+++ a/b/c.py\n@@ -0,0 +1 @@\n+x = 1\n"


def test_what_was_written_can_be_edited_without_reading_it_again(hands):
    hands.do("Write", file_path="a.py", content="x = 1\n")
    assert hands.do("Edit", file_path="a.py", old_string="1", new_string="2") == "a.py was changed (+1 -1)."
    assert (hands.root / "a.py").read_text() == "x = 2\n"


def test_a_file_that_was_not_read_is_not_overwritten(hands):
    file = hands.write("a.py", "theirs")
    said = "a.py has not been read in this conversation, or not since its last compaction. Read it first."
    assert hands.fails("Write", file_path="a.py", content="ours") == said
    assert hands.fails("Edit", file_path="a.py", old_string="theirs", new_string="ours") == said
    assert (file.read_text(), hands.requests) == ("theirs", [])


def test_a_file_that_changed_since_is_not_overwritten_even_where_time_and_size_are_the_same(hands):
    file = known(hands, "a.py", "one")
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hands.fails("Write", file_path="a.py", content="x") == (
        "a.py has changed since it was read. Read it again."
    )
    hands.do("Read", file_path="a.py")
    hands.do("Write", file_path="a.py", content="x")
    assert file.read_text() == "x"


def test_a_file_that_changes_while_the_person_is_asked_is_left_alone(hands):
    file = known(hands, "a.py", "one")

    def meanwhile(request):
        file.write_text("theirs")
        return "once"

    hands.says = meanwhile
    assert hands.fails("Write", file_path="a.py", content="x") == (
        "a.py changed while the user was asked; nothing was written. Read it again."
    )
    assert file.read_text() == "theirs"


def test_a_file_that_appears_while_the_person_is_asked_is_left_alone(hands):
    def meanwhile(request):
        hands.write("new.py", "theirs")
        return "once"

    hands.says = meanwhile
    assert "changed while the user was asked" in hands.fails("Write", file_path="new.py", content="x")
    assert (hands.root / "new.py").read_text() == "theirs"


def test_no_leaves_everything_as_it_was(hands):
    hands.says = "no"
    said = hands.fails("Write", file_path="a/b.py", content="x")
    assert said.startswith("the user said no to: write a/b.py (+1 -0).")
    assert list(hands.root.iterdir()) == []


def test_read_only_refuses_every_write_wherever_it_goes(hands, elsewhere):
    hands.permissions.mode = "read only"
    for path in ("a.py", ".env", ".git/config", str(elsewhere / "a.py")):
        assert hands.fails("Write", file_path=path, content="x").startswith("the session is read only")
    assert (hands.requests, list(hands.root.iterdir()), list(elsewhere.iterdir())) == ([], [], [])


def test_always_covers_the_folder_and_no_other(hands):
    hands.says = "always"
    for path in ("a/1.py", "a/2.py", "b/1.py", "a/c/1.py"):
        hands.do("Write", file_path=path, content="x")
    assert [request.key for request in hands.requests] == ["writing in a", "writing in b", "writing in a/c"]


def test_the_mode_is_kept_and_nothing_is_left_beside(hands):
    file = known(hands, "run.sh", "old\n")
    file.chmod(0o755)
    hands.do("Read", file_path="run.sh")
    hands.do("Write", file_path="run.sh", content="new\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    assert os.listdir(hands.root) == ["run.sh"]


def test_a_link_inside_the_workspace_stays_a_link(hands):
    hands.write("real.py", "x = 1\n")
    os.symlink("real.py", hands.root / "link.py")
    hands.do("Read", file_path="link.py")
    hands.do("Edit", file_path="link.py", old_string="1", new_string="2")
    assert os.readlink(hands.root / "link.py") == "real.py"
    assert (hands.root / "real.py").read_text() == "x = 2\n"


def test_a_disk_that_refuses_leaves_the_old_file_and_nothing_beside(hands, monkeypatch):
    file = known(hands, "a.py", "old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert hands.fails("Write", file_path="a.py", content="new") == ("a.py: No space left on device.")
    assert (file.read_text(), os.listdir(hands.root)) == ("old", ["a.py"])


def test_the_same_content_is_no_change_and_nobody_is_asked(hands):
    known(hands, "a.py", "x")
    assert hands.do("Write", file_path="a.py", content="x") == (
        "a.py already has exactly this content; nothing was changed."
    )
    assert hands.requests == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"file_path": "src", "content": "x"}, "src: it is a directory. List it with Glob and path 'src'."),
        (
            {"file_path": "src/a.py/b", "content": "x"},
            "src/a.py/b: it does not exist: a part of its path is not a directory.",
        ),
        ({"file_path": "a.py"}, "Write needs `content`: a string."),
        ({"content": "x"}, "Write needs `file_path`: a non-empty string."),
        (
            {"file_path": "a.py", "content": "\ud800"},
            "The text for a.py contains '\\ud800', a lone surrogate. Remove it.",
        ),
    ],
)
def test_what_cannot_be_written_is_said(hands, fields, said):
    hands.write("src/a.py", "x")
    assert hands.fails("Write", **fields) == said


# ── Edit ─────────────────────────────────────────────────────────────────────────────────────────


def test_one_place_is_replaced(hands):
    file = known(hands, "a.py", "a = 1\nb = 2\n")
    assert hands.do("Edit", file_path="a.py", old_string="b = 2", new_string="b = 3") == (
        "a.py was changed (+1 -1)."
    )
    assert file.read_text() == "a = 1\nb = 3\n"
    assert hands.requests[-1].detail == "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n+b = 3\n"


def test_text_that_is_there_more_than_once_is_replaced_only_when_asked(hands):
    file = known(hands, "a.py", "x\ny\nx\nx\n")
    assert hands.fails("Edit", file_path="a.py", old_string="x", new_string="z") == (
        "`old_string` occurs 3 times in a.py (lines 1, 3, 4). "
        "Include more of the surrounding text, or set `replace_all`."
    )
    hands.do("Edit", file_path="a.py", old_string="x", new_string="z", replace_all=True)
    assert file.read_text() == "z\ny\nz\nz\n"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("     1\tdef f():", "It matches without the line numbers: leave them out."),
        (
            "def f():\n  return 2",
            "Line 1 equals its first line, but whitespace or the following lines differ. Read it again.",
        ),
        ("class", "Read the file again and copy the text exactly."),
    ],
)
def test_text_that_is_not_there_gets_a_hint(hands, old, hint):
    known(hands, "a.py", "def f():\n    return 2\n")
    said = hands.fails("Edit", file_path="a.py", old_string=old, new_string="x")
    assert said == f"`old_string` was not found in a.py. {hint}"


def test_line_ends_and_bytes_that_are_no_text_survive(hands):
    file = known(hands, "a.txt", b"one\r\ntwo\r\ncaf\xe9\r\n")
    hands.do("Edit", file_path="a.txt", old_string="one\ntwo", new_string="1\n2")
    assert file.read_bytes() == b"1\r\n2\r\ncaf\xe9\r\n"


def test_an_empty_old_string_fills_an_empty_or_new_file_only(hands):
    known(hands, "full.py", "x")
    assert hands.fails("Edit", file_path="full.py", old_string="", new_string="y") == (
        "`old_string` is empty, but full.py is not. Give the text to replace."
    )
    hands.do("Edit", file_path="new.py", old_string="", new_string="y")
    assert (hands.root / "new.py").read_text() == "y"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"file_path": "gone.py", "old_string": "a", "new_string": "b"},
            "File not found: gone.py. Create it with Write.",
        ),
        (
            {"file_path": "a.bin", "old_string": "a", "new_string": "b"},
            "a.bin is a binary file; Edit only changes text.",
        ),
        (
            {"file_path": "a.bin", "old_string": "a", "new_string": "a"},
            "`old_string` and `new_string` are identical; nothing to change.",
        ),
        ({"file_path": "a.bin", "old_string": "a"}, "Edit needs `new_string`: a string."),
        (
            {"file_path": "a.py", "old_string": "a", "new_string": "b", "replace_all": "often"},
            "`replace_all` of Edit must be true or false; it was 'often'.",
        ),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused(hands, fields, said):
    known(hands, "a.py", "a")
    hands.write("a.bin", b"a\xff\x00b")
    with pytest.raises(Exception, match="binary"):
        hands.do("Read", file_path="a.bin")
    assert hands.fails("Edit", **fields) == said


def test_after_the_conversation_was_cleared_a_file_must_be_read_again(hands):
    known(hands, "a.py", "a")
    hands.workspace.forget()
    assert "has not been read" in hands.fails("Edit", file_path="a.py", old_string="a", new_string="b")
