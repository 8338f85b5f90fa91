import os
import signal
import time

import pytest

from everturn.chat.tools.search.grep import MAX_CHARACTERS, grep_tool
from everturn.session.files import MAX_FILE_BYTES


@pytest.fixture
def project(hands):
    hands.write("a.py", "import os\n\ndef tax(x):\n    return x * RATE\n\n\nRATE = 0.2\n")
    hands.write("b/c.py", "from a import tax\r\nprint(tax(3))\r\n")
    hands.write("notes.md", "The TAX is high.\n")
    return hands


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"pattern": "tax"}, "a.py\nb/c.py"),
        ({"pattern": "tax", "-i": True}, "a.py\nb/c.py\nnotes.md"),
        ({"pattern": "tax", "path": "b"}, "b/c.py"),
        ({"pattern": "tax", "path": "a.py"}, "a.py"),
        ({"pattern": "(?i)tax", "glob": "*.md"}, "notes.md"),
        ({"pattern": r"\btax\(", "output_mode": "count"}, "a.py:1\nb/c.py:1"),
        (
            {"pattern": "tax", "output_mode": "content"},
            "a.py:3:def tax(x):\nb/c.py:1:from a import tax\nb/c.py:2:print(tax(3))",
        ),
        ({"pattern": "RATE$", "output_mode": "content", "-n": False}, "a.py:    return x * RATE"),
        (
            {"pattern": "def|RATE =", "output_mode": "content", "-B": 1, "path": "a.py"},
            "a.py-2-\na.py:3:def tax(x):\n--\na.py-6-\na.py:7:RATE = 0.2",
        ),
        (
            {"pattern": "return", "output_mode": "content", "-C": 1},
            "a.py-3-def tax(x):\na.py:4:    return x * RATE\na.py-5-",
        ),
        (
            {"pattern": "os.+def", "multiline": True, "output_mode": "content"},
            "a.py:1:import os\na.py:2:\na.py:3:def tax(x):",
        ),
        ({"pattern": "tax$", "path": "b", "output_mode": "content"}, "b/c.py:1:from a import tax"),
        ({"pattern": "zebra"}, "Nothing matches 'zebra' in 3 files."),
    ],
)
def test_what_is_found(project, fields, found):
    assert project.do("Grep", **fields) == found


def test_a_limit_is_kept_and_said(project):
    assert project.do("Grep", pattern="tax", head_limit=1) == (
        "a.py\n[The first 1; there are more. Narrow the search or raise `head_limit`.]"
    )


def test_a_large_answer_is_cut_at_a_line(project):
    project.write("long.txt", "wide " * 90 + "\n" + ("wide " * 90 + "\n") * 500)
    said = project.do("Grep", pattern="wide", output_mode="content", head_limit=1_000)
    assert MAX_CHARACTERS - 1_000 < len(said) < MAX_CHARACTERS + 100
    assert said.endswith(f"wide \n[Cut after {MAX_CHARACTERS:,} characters; narrow the search.]")


def test_binaries_secrets_links_and_large_files_are_passed_by(project, elsewhere):
    (elsewhere / "theirs.py").write_text("needle")
    os.symlink(elsewhere / "theirs.py", project.root / "link.py")
    project.write("data.bin", b"needle\0")
    project.write(".env", "needle")
    project.write("big.log", (b"needle" + b" " * 1_018) * (MAX_FILE_BYTES // 1_024 + 1))
    project.write("ours.txt", "needle caf\xe9".encode("latin-1"))
    assert project.do("Grep", pattern="needle") == "ours.txt"
    assert project.requests == []


def test_a_secret_that_is_named_is_asked_about(project):
    project.write(".env", "needle")
    assert project.do("Grep", pattern="needle", path=".env") == ".env"
    assert [request.kind for request in project.requests] == ["look"]


def test_a_pattern_that_would_take_for_ever_is_stopped(project):
    project.write("evil.txt", "a" * 60 + "!\n")
    tool = grep_tool(project.workspace, project.permissions, seconds=0.5)
    began = time.perf_counter()
    with pytest.raises(Exception, match=r"stopped after 0\.5 s.*without nested repetitions"):
        tool.run({"pattern": "(a+)+$", "path": "evil.txt"})
    assert time.perf_counter() - began < 5


def test_an_interrupt_ends_the_search(project):
    project.write("evil.txt", "a" * 60 + "!\n")

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    began = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            project.do("Grep", pattern="(a+)+$", path="evil.txt")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Grep needs `pattern`: a non-empty string."),
        (
            {"pattern": "a(b"},
            "'a(b' is not a valid regular expression: missing ), unterminated subpattern at position 1. "
            "Escape literal characters.",
        ),
        ({"pattern": "a", "path": "gone"}, "File or folder not found: gone. Find it with Glob."),
        (
            {"pattern": "a", "output_mode": "lines"},
            "`output_mode` of Grep must be one of files_with_matches, content, count; it was 'lines'.",
        ),
        ({"pattern": "a", "-A": -1}, "`-A` of Grep must be a whole number, 0 or more; it was '-1'."),
        (
            {"pattern": "a", "glob": "{a,b}" * 9},
            f"{'{a,b}' * 9!r}: the braces expand to more than 200 patterns.",
        ),
    ],
)
def test_what_cannot_be_searched_is_said(project, fields, said):
    assert project.fails("Grep", **fields) == said


def test_a_module_in_the_workspace_is_not_imported_by_the_search(project):
    project.write("json.py", "raise SystemExit('taken over')\n")
    project.write("re.py", "raise SystemExit('taken over')\n")
    assert project.do("Grep", pattern="def tax") == "a.py"
