"""What the manual shows is true: all code in it runs as printed, and printed output is what it prints.

A block opened with ```python run is run at the root of the repository; a ```text output block behind it holds
what it prints. ```python test is run by pytest, ```sh run by a shell in an empty directory that holds the
example session. JSON and TOML can be read. A block without a kind is a drawing. The ```text demo block in
README.md is the beginning of what `make demo` prints. Commands in the text exist, and have the options shown.
To rewrite printed output: EVERTURN_WRITE_GOLDEN=1 pytest tests/architecture/test_docs_run.py
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy

import click
import pytest

from everturn.cli import main
from everturn.decide.options import DEFAULT_POLICY
from everturn.replay.policies import FORMER_NAMES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = re.compile(
    r"^```(?:python|sh) run\n(?P<code>.*?)^```\n(?:\n```text output\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
FENCED = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
# What a fenced block can be; "" is a drawing. All else is code that nobody runs, or output nobody checks.
KINDS = {"", "python run", "python test", "sh run", "json", "toml", "text output", "text demo", "text tree"}
IMPORTED = re.compile(r"^\s*(?:from (everturn\.[\w.]+) import|import (everturn\.[\w.]+))", re.MULTILINE)
PUBLIC = ("everturn.twin", "everturn.replay", "everturn.adapters")
DEMO = re.compile(r"^```text demo\n(?P<output>.*?)^```\n", re.MULTILINE | re.DOTALL)
GOLDEN = ROOT / "tests" / "dashboard" / "golden" / "example-80.txt"
DEMO_ENDS_BEFORE = "Read more than once"


def blocks() -> list[tuple[str, int]]:
    return [
        (page.relative_to(ROOT).as_posix(), at)
        for page in PAGES
        for at, _ in enumerate(RUN.finditer(page.read_text(encoding="utf-8")))
    ]


def fenced(*kinds: str) -> list[tuple[str, str, str]]:
    """The page, the kind and the text of every block of these kinds; of all, if none is named."""
    return [
        (page.relative_to(ROOT).as_posix(), found["kind"], found["code"])
        for page in PAGES
        for found in FENCED.finditer(page.read_text(encoding="utf-8"))
        if not kinds or found["kind"] in kinds
    ]


RunPython = Callable[[str], str]


@pytest.fixture(scope="session")
def run_python() -> Iterator[RunPython]:
    """What a block of Python prints, without a warning, at the root of the repository."""
    command = [sys.executable, "-W", "error", str(Path(__file__).with_name("warm_blocks.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, encoding="utf-8", **pipes) as warm:
        assert warm.stdin is not None
        assert warm.stdout is not None

        def run(code: str) -> str:
            print(json.dumps(code), file=warm.stdin, flush=True)
            status, printed, complained = json.loads(warm.stdout.readline())
            assert (status, complained) == (0, "")
            return printed

        yield run
        warm.stdin.close()


def printed_by(block: str, code: str, folder: Path, run_python: RunPython) -> str:
    if block.startswith("```sh"):
        (folder / "examples").mkdir()
        copy(ROOT / "examples" / "session.jsonl", folder / "examples")
        # As on a new machine: the commands that an installation brings, and a home with nothing in it.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(folder), "COLUMNS": "80"}
        return finished(["bash", "-euo", "pipefail", "-c", code], folder, environment)
    return run_python(code)


def finished(command: list[str], cwd: Path, env: dict[str, str] | None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(page: Path, found: re.Match[str], printed: str) -> None:
    if os.environ.get("EVERTURN_WRITE_GOLDEN"):
        text = page.read_text(encoding="utf-8")
        start, end = found.span("output")
        page.write_text(text[:start] + printed + text[end:], encoding="utf-8")
        return
    assert found["output"] == printed, (
        "after a wanted change: EVERTURN_WRITE_GOLDEN=1 pytest tests/architecture/test_docs_run.py"
    )


@pytest.mark.parametrize(("name", "at"), blocks())
def test_a_block_that_is_marked_to_be_run_does_what_the_page_says(name, at, tmp_path, run_python):
    page = ROOT / name
    found = list(RUN.finditer(page.read_text(encoding="utf-8")))[at]
    printed = printed_by(found[0], found["code"], tmp_path, run_python)
    if found["output"] is not None:
        check(page, found, printed)
    else:
        assert printed == ""


def test_every_block_in_the_manual_is_of_a_kind_that_is_checked():
    assert [(page, kind, code) for page, kind, code in fenced() if kind not in KINDS] == []


@pytest.mark.parametrize(("page", "kind", "code"), fenced("python test"))
def test_a_test_in_the_manual_passes(page, kind, code, tmp_path):
    (tmp_path / "test_shown.py").write_text(code, encoding="utf-8")
    without = ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:langsmith_plugin"]
    said = finished([sys.executable, "-m", "pytest", "-q", *without, str(tmp_path)], tmp_path, None)
    assert f"{code.count('def test_')} passed" in said


@pytest.mark.parametrize(("page", "kind", "code"), fenced("json", "toml"))
def test_data_in_the_manual_can_be_read(page, kind, code):
    assert {"json": json.loads, "toml": tomllib.loads}[kind](code)


COMMAND = re.compile(
    r"^(?:    (?:\$ )?(?:\.venv/bin/)?|`)everturn ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)([^`\n]*)", re.MULTILINE
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def options_of(words: list[str]) -> set[str]:
    """The options of a command and of the groups above it; an empty set where there is no such command."""
    found: set[str] = {"--help", "--version"}
    at: click.Command | None = main
    for word in words:
        if not isinstance(at, click.Group):
            break
        at = at.get_command(click.Context(at), word)
        if at is None:
            return set()
        found |= {name for parameter in at.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return found


def test_commands_in_the_manual_exist_and_have_the_options_that_are_shown():
    unknown = []
    for page in PAGES:
        for found in COMMAND.finditer(page.read_text(encoding="utf-8").replace("`everturn ", "\n`everturn ")):
            have = options_of(found[1].split())
            if not have or set(OPTION.findall(found[2])) - have:
                unknown.append((page.name, found[0]))
    assert unknown == []


TARGET = re.compile(r"(?:^    (?:\$ )?|`)make ([a-z][a-z-]*)", re.MULTILINE)


def test_make_targets_in_the_manual_exist():
    targets = set(
        re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = {name for page in PAGES for name in TARGET.findall(page.read_text(encoding="utf-8"))}
    assert named - targets == set()


def test_the_demo_compares_the_default_policy_and_uses_no_earlier_name():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (named,) = re.findall(r"^DEMO_POLICIES := (.*)$", makefile, re.MULTILINE)
    policies = named.split(",")
    assert DEFAULT_POLICY in policies
    assert set(policies) & set(FORMER_NAMES) == set()


def test_the_readme_shows_the_beginning_of_the_demo():
    page = ROOT / "README.md"
    found = DEMO.search(page.read_text(encoding="utf-8"))
    assert found is not None
    shown, _, _ = GOLDEN.read_text(encoding="utf-8").partition(DEMO_ENDS_BEFORE)
    check(page, found, f"{shown.rstrip()}\n...\n")


def deep_imports(code: str) -> set[str]:
    """The modules of everturn that a piece of code imports and that may change without notice."""
    found = {name for names in IMPORTED.findall(code) for name in names if name}
    return {name for name in found if not name.startswith(PUBLIC)}


def test_the_manual_and_the_examples_import_what_is_public():
    code = {f"{page}: {code[:40]}": code for page, kind, code in fenced() if kind.startswith("python")}
    code |= {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")}
    assert {name: deep for name, text in code.items() if (deep := deep_imports(text))} == {}


# Pages for people who work on everturn itself, and the history.
INSIDE = {"architecture.md", "decisions.md", "log.md"}
DOTTED = re.compile(r"(?<![\w./-])everturn(?:\.[a-z_]\w*){2,}")


def test_the_text_of_the_manual_names_no_function_that_may_change():
    pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES if page.name not in INSIDE}
    named = {(page, name) for page, text in pages.items() for name in DOTTED.findall(text)}
    assert {(page, name) for page, name in named if not name.startswith(PUBLIC)} == set()


def test_an_import_of_what_may_change_is_noticed():
    code = "import everturn\nfrom everturn.twin.testing import x\n  from everturn.wire import y\n"
    code += "import everturn.view\n"
    assert deep_imports(code) == {"everturn.wire", "everturn.view"}


def test_the_readme_has_code_that_runs():
    assert {name for name, _ in blocks()} >= {"README.md", "docs/context.md"}


def test_a_run_block_is_found_with_and_without_output():
    page = "```python run\na\n```\n\n```text output\nb\n```\n\n```python run\nc\n```\n\n```python\nd\n```\n"
    assert [(found["code"], found["output"]) for found in RUN.finditer(page)] == [
        ("a\n", "b\n"),
        ("c\n", None),
    ]
