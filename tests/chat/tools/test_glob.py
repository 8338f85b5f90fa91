import os
import subprocess

import pytest

from everturn.chat.tools.search.glob import MAX_NAMES


def git(folder, *words):
    subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *words], cwd=folder, check=True, capture_output=True
    )


def test_files_that_match_are_listed_those_changed_last_first(hands):
    for path, changed in (("old.py", 1), ("src/new.py", 3), ("b.py", 2), ("a.py", 2), ("other.txt", 4)):
        os.utime(hands.write(path, "x"), (changed, changed))
    assert hands.do("Glob", pattern="*.py") == "src/new.py\na.py\nb.py\nold.py"


def test_what_git_ignores_is_left_out_and_new_files_are_not(hands):
    git(hands.root, "init")
    for path in (".gitignore", "kept.py", "tracked.py", "out/made.py", "src/deep/new.py"):
        hands.write(path, "out/\n" if path == ".gitignore" else "x")
    git(hands.root, "add", "tracked.py")
    os.unlink(hands.root / "tracked.py")
    assert sorted(hands.do("Glob", pattern="**/*.py").splitlines()) == ["kept.py", "src/deep/new.py"]
    assert hands.do("Glob", pattern="*.py", path="src") == "src/deep/new.py"


def test_an_ignored_folder_that_is_named_is_walked(hands):
    git(hands.root, "init")
    hands.write(".gitignore", "out/\n")
    hands.write("out/made.py", "x")
    assert hands.do("Glob", pattern="*.py", path="out") == "out/made.py"


def test_a_repository_cannot_have_a_program_run_by_being_listed(hands, tmp_path):
    git(hands.root, "init")
    mark = tmp_path / "ran"
    script = hands.write("hook.sh", f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    git(hands.root, "config", "core.fsmonitor", str(script))
    assert hands.do("Glob", pattern="*.sh") == "hook.sh"
    assert not mark.exists()


def test_variables_of_a_git_around_us_do_not_lead_elsewhere(hands, elsewhere):
    git(elsewhere, "init")
    (elsewhere / ".git/info/exclude").write_text("a.py\n")
    hands.workspace.environment["GIT_DIR"] = str(elsewhere / ".git")
    hands.write("a.py", "x")
    hands.write("b.py", "x")
    assert sorted(hands.do("Glob", pattern="*.py").split()) == ["a.py", "b.py"]


def test_without_git_what_programs_put_there_is_passed_by(hands):
    for path in ("a.py", "node_modules/x/b.py", ".venv/c.py", "__pycache__/d.py"):
        hands.write(path, "x")
    assert hands.do("Glob", pattern="**/*") == "a.py"


def test_links_to_folders_are_not_walked(hands, elsewhere):
    (elsewhere / "b.py").write_text("x")
    hands.write("a.py", "x")
    os.symlink(elsewhere, hands.root / "link")
    os.symlink(".", hands.root / "circle")
    assert hands.do("Glob", pattern="**/*.py") == "a.py"


def test_a_long_list_is_cut_and_said(hands):
    for number in range(MAX_NAMES + 5):
        hands.write(f"f{number}.py", "")
    lines = hands.do("Glob", pattern="*.py").splitlines()
    assert len(lines) == MAX_NAMES + 1
    assert lines[-1] == f"[{MAX_NAMES} of {MAX_NAMES + 5} files; use a narrower pattern to see others.]"


def test_names_that_are_no_utf8_can_be_listed(hands):
    os.close(os.open(os.fsencode(hands.root) + b"/caf\xe9.py", os.O_CREAT))
    assert hands.do("Glob", pattern="*.py") == "caf\ufffd.py"


def test_absolute_patterns_inside_the_folder_are_understood(hands):
    hands.write("src/a.py", "x")
    assert hands.do("Glob", pattern=f"{hands.root}/src/*.py") == "src/a.py"


def test_looking_elsewhere_is_asked_about(hands, elsewhere):
    (elsewhere / "b.py").write_text("x")
    assert hands.do("Glob", pattern="*.py", path=str(elsewhere)) == os.path.realpath(elsewhere / "b.py")
    hands.says = "no"
    assert "said no" in hands.fails("Glob", pattern="*.py", path="..")
    assert [request.kind for request in hands.requests] == ["look", "look"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Glob needs `pattern`: a non-empty string."),
        (
            {"pattern": "../*.py"},
            "'../*.py' points outside the folder. Give the folder as `path`, the rest as `pattern`.",
        ),
        (
            {"pattern": "/etc/*"},
            "'/etc/*' points outside the folder. Give the folder as `path`, the rest as `pattern`.",
        ),
        (
            {"pattern": "*", "path": "a.py"},
            "a.py is not a folder. Give a folder as `path` and the file names as `pattern`.",
        ),
        (
            {"pattern": "*", "path": "gone"},
            "gone is not a folder. Give a folder as `path` and the file names as `pattern`.",
        ),
        ({"pattern": "{a,b}" * 9}, f"{'{a,b}' * 9!r}: the braces expand to more than 200 patterns."),
    ],
)
def test_what_cannot_be_listed_is_said(hands, fields, said):
    hands.write("a.py", "x")
    assert hands.fails("Glob", **fields) == said


def test_nothing_is_a_sentence(hands):
    assert hands.do("Glob", pattern="*.rs") == "No file matches '*.rs'."
