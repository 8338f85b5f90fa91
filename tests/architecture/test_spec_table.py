"""The table of requirements counts only what was really held, with and without xdist."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spec_table import Row, chapters, draw, state_of, summary

SUITE = """
import pytest

@pytest.mark.spec("AA-1", "AA-2")
def test_passes(): assert True

@pytest.mark.spec("AA-2")
def test_fails(): assert False

@pytest.mark.spec("AA-3")
def test_skips(): pytest.skip("not today")

@pytest.mark.spec("BB-1")
@pytest.mark.xfail
def test_is_expected_to_fail(): assert False

@pytest.mark.spec("BB-2")
@pytest.mark.parametrize("n", [1, 2])
def test_passes_twice(n): assert n
"""
PAGE = "# Requirements\n" + "".join(
    f"- **{name}** words\n" for name in ("AA-1", "AA-2", "AA-3", "BB-1", "BB-2", "BB-3")
)
INI = "[pytest]\ntestpaths = tests\nmarkers = spec(*ids): ids\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {"docs/requirements.md": PAGE, "tests/test_it.py": SUITE, "pytest.ini": INI}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(project: Path, root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "spec_table", "-p", "no:cacheprovider", *args]
    # Without our settings: a run inside a worker must not take itself for one.
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return subprocess.run(
        command, cwd=project, env=env | {"PYTHONPATH": str(root / "tests")}, capture_output=True, text=True
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_id_is_covered_when_its_tests_ran_and_all_passed(project, root, workers):
    done = run(project, root, "-n", workers)
    assert json.loads((project / "build" / "spec.json").read_text()) == {
        "covered": ["AA-1", "BB-2"],
        "not_covered": ["AA-2", "AA-3", "BB-1", "BB-3"],
    }
    lines = done.stdout.splitlines()
    table = lines.index("AA     1/3   AA-3(skipped) AA-2(failing)")
    assert lines[table + 1 : table + 3] == ["BB     1/3   BB-3 BB-1(failing)", "all    2/6"]
    assert lines[-1].startswith("1 failed, 3 passed, 1 skipped, 1 xfailed")


@pytest.mark.parametrize(
    "args",
    [
        ["tests/test_it.py"],
        ["-k", "passes"],
        ["-x", "--deselect", "nothing"],
        ["--maxfail=1"],
    ],
)
def test_a_partial_run_says_so_and_writes_nothing(project, root, args):
    done = run(project, root, *args)
    assert "partial run, build/spec.json not written; held: AA-1" in done.stdout
    assert not (project / "build").exists()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_unknown_id_fails_the_run_and_is_named(project, root, workers):
    (project / "tests" / "test_it.py").write_text(SUITE.replace('"BB-2"', '"BB-9"'))
    done = run(project, root, "-n", workers)
    assert done.returncode == 1
    assert "spec mark with unknown id BB-9: not in docs/requirements.md" in done.stdout


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ([], "untested"),
        (["passed"], "covered"),
        (["passed", "skipped"], "covered"),
        (["skipped"], "skipped"),
        (["passed", "failed"], "failing"),
    ],
)
def test_the_state_of_an_id_follows_from_its_outcomes(outcomes, state):
    assert state_of(outcomes) == state


def test_rows_follow_the_document_and_wrap_inside_the_width():
    rows = chapters([f"LONG-{n}" for n in range(1, 31)] + ["B-1"], {"B-1": {"passed"}})
    assert rows[1] == Row("B", (("B-1", "covered"),))
    assert summary(rows)["covered"] == ["B-1"]
    drawn = draw(rows, width=60).splitlines()
    assert max(map(len, drawn)) <= 60
    assert drawn[0].startswith("LONG   0/30  LONG-1 LONG-2 ")
    assert drawn[-2:] == ["B      1/1", "all    1/31"]
