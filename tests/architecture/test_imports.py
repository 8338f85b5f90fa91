"""The contracts in `.importlinter`, for import direction and purity: each is seen to fail once.

`make lint` holds the package itself against them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# The contracts are checked against the sources that come first on the path, here the ones given last.
RUN = """
import sys
sys.path.insert(0, sys.argv.pop())
from importlinter.cli import lint_imports_command
lint_imports_command()
"""


def lint_imports(where: Path, source: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, "--no-cache", "--no-logo", str(source)]
    return subprocess.run(command, cwd=where, capture_output=True, text=True)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A small package tree with the real contracts: three packages and the errors."""
    shutil.copy(root / ".importlinter", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(root / "tests" / "pure_contract.py", tmp_path / "tests")
    for name in ("__init__", "errors", "redaction", "history/__init__", "view/__init__", "session/__init__"):
        path = tmp_path / "src" / "everturn" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_a_small_tree_without_violations_passes(copy: Path):
    done = lint_imports(copy, copy / "src")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "line", "says"),
    [
        ("history/__init__.py", "import everturn.view", "everturn.history -> everturn.view"),
        ("errors.py", "from everturn import session", "everturn.errors -> everturn.session"),
        ("view/__init__.py", "import time", "everturn.view -> time"),
        ("view/__init__.py", "from os import environ", "everturn.view -> os"),
        ("history/__init__.py", "def late():\n    import logging", "everturn.history -> logging"),
        ("view/__init__.py", "import httpx2", "everturn.view -> httpx2"),
        ("attic.py", "", "attic"),
    ],
)
def test_a_forbidden_import_is_caught(copy: Path, file: str, line: str, says: str):
    (copy / "src" / "everturn" / file).write_text(line + "\n")
    done = lint_imports(copy, copy / "src")
    assert done.returncode == 1
    assert says in done.stdout
