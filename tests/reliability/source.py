"""What the trials of a kind can execute: the files that its module imports, and those that they import.

A soak counts only for the code that it ran. Read from the text of the files, without importing them: imports
inside functions count, those for type checkers do not. Names that `everturn` loads when they are asked for
count where they are asked for.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

# Below the root of the repository: the product, and what the trials and their judges are made of.
PLACES: Final = (Path("src"), Path("tests"))
PACKAGE: Final = "everturn"
# Counts the trials, and says which are lost.
JUDGE: Final = "reliability.score"
DIGITS: Final = 12


class Imports(msgspec.Struct, frozen=True):
    """Dotted names that a file imports. A name may be a module, or something in one."""

    names: frozenset[str]
    # Where the names are that a package loads when they are asked for.
    homes: dict[str, str]


def kind_digest(root: Path, module: str) -> str:
    """The same for the same code, wherever it is."""
    found = sha256()
    for path in files_of((module, JUDGE), root):
        data = path.read_bytes()
        found.update(b"%s %d\n" % (path.relative_to(root).as_posix().encode(), len(data)))
        found.update(data)
    return found.hexdigest()[:DIGITS]


def files_of(modules: Iterable[str], root: Path) -> list[Path]:
    """The files that these modules can execute, their own included."""
    found: dict[Path, None] = {}
    todo = list(modules)
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for path in _files(name, root):
            if path not in found:
                found[path] = None
                todo.extend(_resolve(path, root))
    return sorted(found)


def _resolve(path: Path, root: Path) -> Iterator[str]:
    imports = _read(path, path.stat().st_mtime_ns)
    for name in imports.names:
        yield name
        package, _, attribute = name.partition(".")
        start = root / "src" / package / "__init__.py"
        if package == PACKAGE and attribute and start.is_file():
            home = _read(start, start.stat().st_mtime_ns).homes.get(attribute.partition(".")[0])
            if home:
                yield home.partition(":")[0]


def _files(name: str, root: Path) -> Iterator[Path]:
    """The file of a dotted name, and those of the packages that it is in. A name in a module has its file."""
    parts = name.split(".")
    for place in PLACES:
        for depth in range(1, len(parts) + 1):
            base = root.joinpath(place, *parts[:depth])
            for path in (base / "__init__.py", base.with_suffix(".py")):
                if path.is_file():
                    yield path


@cache
def _read(path: Path, changed: int) -> Imports:
    tree = ast.parse(path.read_bytes())
    package = _package(path)
    names = {name for node in _executed(tree) for name in _names(node, package)}
    return Imports(frozenset(names), _homes(tree))


def _package(path: Path) -> list[str]:
    """The dotted name of the package that a file is in, for relative imports."""
    parts: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return parts


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield other
                yield from _executed(other)
            continue
        yield child
        yield from _executed(child)


def _names(node: ast.AST, package: list[str]) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (each.name for each in node.names)
        case ast.ImportFrom():
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield start
            yield from (f"{start}.{each.name}" for each in node.names)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == PACKAGE:
            yield f"{PACKAGE}.{attribute}"
        case ast.Constant(value=str() as text) if text.startswith(f"{PACKAGE}.") and " " not in text:
            # A module that is imported by its name.
            if package != [PACKAGE]:
                yield text.partition(":")[0]
        case _:
            pass


def _homes(tree: ast.Module) -> dict[str, str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            return ast.literal_eval(node.value)
    return {}
