"""What the manual shows is true: marked code runs as printed, and printed output is what it prints.

A block opened with ```python run is run at the root of the repository; a ```text output block behind it holds
what it prints. The ```text demo block in README.md is the beginning of what `make demo` prints. To rewrite
both kinds of output: EVERTURN_WRITE_GOLDEN=1 pytest tests/house/test_docs_run.py
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = re.compile(
    r"^```python run\n(?P<code>.*?)^```\n(?:\n```text output\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
DEMO = re.compile(r"^```text demo\n(?P<output>.*?)^```\n", re.MULTILINE | re.DOTALL)
GOLDEN = ROOT / "tests" / "dashboard" / "golden" / "example-80.txt"
DEMO_ENDS_BEFORE = "Read more than once"


def blocks() -> list[tuple[str, int]]:
    return [
        (page.relative_to(ROOT).as_posix(), at)
        for page in PAGES
        for at, _ in enumerate(RUN.finditer(page.read_text(encoding="utf-8")))
    ]


def printed_by(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(page: Path, found: re.Match[str], printed: str) -> None:
    if os.environ.get("EVERTURN_WRITE_GOLDEN"):
        text = page.read_text(encoding="utf-8")
        start, end = found.span("output")
        page.write_text(text[:start] + printed + text[end:], encoding="utf-8")
        return
    assert found["output"] == printed


@pytest.mark.parametrize(("name", "at"), blocks())
def test_a_block_that_is_marked_to_be_run_does_what_the_page_says(name, at):
    page = ROOT / name
    found = list(RUN.finditer(page.read_text(encoding="utf-8")))[at]
    printed = printed_by(found["code"])
    if found["output"] is not None:
        check(page, found, printed)
    else:
        assert printed == ""


def test_the_readme_shows_the_beginning_of_the_demo():
    page = ROOT / "README.md"
    found = DEMO.search(page.read_text(encoding="utf-8"))
    assert found is not None
    shown, _, _ = GOLDEN.read_text(encoding="utf-8").partition(DEMO_ENDS_BEFORE)
    check(page, found, f"{shown.rstrip()}\n...\n")


def test_the_readme_has_code_that_runs():
    assert {name for name, _ in blocks()} >= {"README.md", "docs/context.md"}


def test_a_run_block_is_found_with_and_without_output():
    page = "```python run\na\n```\n\n```text output\nb\n```\n\n```python run\nc\n```\n\n```python\nd\n```\n"
    assert [(found["code"], found["output"]) for found in RUN.finditer(page)] == [
        ("a\n", "b\n"),
        ("c\n", None),
    ]
