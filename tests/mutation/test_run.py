"""A small tree of its own: mutants that must die, and one that must survive."""

import os
import subprocess
import sys
import time
from pathlib import Path

from mutation.warm import Result, in_fork, result_of

PROGRAM = """
import sys
from pathlib import Path
from mutation.run import Project, run
root = Path(sys.argv[1])
project = Project(root, ("small/sums",), ("tests/sums",), root / "build", 5.0)
first = run(project, 1, 3)
for row in sorted(first, key=lambda row: row.line):
    print(f"line {row.line} {row.outcome} {row.by}")
print("a second time:", run(project, 1, 3) == first)
"""
MODULE = '''"""Sums."""

LIMIT = 3


def is_limit(value: int) -> bool:
    return value == LIMIT


def describe(value: int) -> str:
    return str(value)
'''
TESTS = """
from small.sums.sums import describe, is_limit

def test_three_is_the_limit():
    assert is_limit(3)

def test_a_number_is_described():
    describe(4)
"""


def grow(root: Path) -> None:
    for name, text in {
        "src/small/__init__.py": "",
        "src/small/sums/__init__.py": "",
        "src/small/sums/sums.py": MODULE,
        "tests/sums/test_sums.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_planted_mutants_die_except_the_one_that_no_test_looks_at(tmp_path):
    grow(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
    )
    assert done.stdout.splitlines()[-4:] == [
        "line 3 killed tests/sums/test_sums.py::test_three_is_the_limit",
        "line 7 killed tests/sums/test_sums.py::test_three_is_the_limit",
        "line 11 survived ",
        "a second time: True",
    ], done.stdout + done.stderr
    assert (tmp_path / "src/small/sums/sums.py").read_text() == MODULE


def test_a_mutant_that_never_ends_is_ended_and_counts_as_noticed():
    assert result_of(*in_fork(lambda _: time.sleep(600), wall_seconds=0.2)) == Result("hung", "time limit")


def test_a_fork_that_dies_is_not_taken_for_one_that_passed():
    assert result_of(*in_fork(lambda _: os._exit(7))) == Result("crashed", "exit code 7")
