"""What the architecture tests look at: modules, pages, and the files that git tracks."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from source_trees import tree_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "everturn"
PURE = ("history", "wire", "measure", "view", "decide", "engine", "errors")


@dataclass(frozen=True)
class Module:
    """One source file. `name` is its path below the package, `measure/tokens.py`."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def package(self) -> str:
        return self.name.split("/")[0].removesuffix(".py")

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def tree(self) -> ast.Module:
        return tree_of(self.path)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    return [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]


@pytest.fixture(scope="session")
def pure_modules(modules: list[Module]) -> list[Module]:
    return [module for module in modules if module.package in PURE]


@pytest.fixture(scope="session")
def pages() -> dict[str, str]:
    """The text of README and of every page of the manual, by path."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@pytest.fixture(scope="session")
def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a git checkout: nothing is tracked")
    # A file can be tracked and already deleted in the working tree.
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]
