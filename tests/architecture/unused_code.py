"""Code in `src` that nothing in `src`, `bench` or `examples` uses. Tests do not count as users.

    python tests/architecture/unused_code.py        part of `make lint`

vulture finds it by name. What it should not complain about stands in `unused_allowed.txt`, one
`path name  reason` a line.
"""

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

from vulture import Vulture

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ALLOWED = HERE / "unused_allowed.txt"
USERS = ("src", "bench", "examples")
KINDS = ("class", "function", "method", "property", "variable")

# A file below the root, and a name that it defines.
Entry = tuple[str, str]


class UnusedCode(Vulture):
    """Only the names that the package itself exports are used by being in `__all__`."""

    def visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802, the name that ast calls
        if self.filename.parts[-2:] == ("everturn", "__init__.py"):
            super().visit_Assign(node)


def find_unused(root: Path) -> set[Entry]:
    finder = UnusedCode()
    finder.scavenge([str(root / name) for name in USERS if (root / name).exists()])
    found = ((item.filename.resolve(), item) for item in finder.get_unused_code() if item.typ in KINDS)
    source = root / "src"
    return {
        (path.relative_to(root).as_posix(), item.name) for path, item in found if path.is_relative_to(source)
    }


def read_entries(file: Path) -> dict[Entry, str]:
    """Path and name of each line, with its reason, or "" where none is given."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    parts = [line.split(maxsplit=2) for line in lines if not line.startswith("#")]
    return {(path, name): " ".join(reason) for path, name, *reason in parts}


def describe(entries: Iterable[Entry]) -> str:
    return "\n".join(f"  {path} {name}" for path, name in sorted(entries))


def main() -> int:
    unused = find_unused(ROOT)
    listed = read_entries(ALLOWED).keys()
    if new := unused - listed:
        print(f"Nothing in {', '.join(USERS)} uses:\n{describe(new)}")
        print(f"Use it, delete it, or give a reason in {ALLOWED.relative_to(ROOT)}.")
    if stale := listed - unused:
        print(f"Used by now, or gone; remove from {ALLOWED.name}:\n{describe(stale)}")
    return 1 if new or stale else 0


if __name__ == "__main__":
    sys.exit(main())
