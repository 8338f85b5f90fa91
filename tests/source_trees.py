"""The syntax trees of source files: parsing all of them takes seconds, so each is parsed once per process."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """Nobody may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))
