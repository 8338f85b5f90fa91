"""Which tests run which statements: the sources are compiled with a mark in front of every statement.

A mark is one store into an array of bytes, so tests run about as fast as without. What a fixture ran counts
for every test that uses it. There is one file of results per test file below `build/mutants/map`; it is valid
as long as the sources, the test file and the modules that tests share are the same.
"""

import ast
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

MARKS = "__statement_marks__"


class MappedTest(NamedTuple):
    name: str
    passed: bool
    # Of processor time, fixtures included.
    seconds: float
    lines: Mapping[str, Sequence[int]]


class HitMap(NamedTuple):
    tests: Mapping[str, MappedTest]
    # Statements inside functions that run when modules are imported or tests collected.
    at_import: Mapping[str, Sequence[int]]


class Marks:
    """The marks of all modules that were loaded so far."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.places: list[tuple[str, int]] = []

    def add(self, module: str, line: int) -> int:
        self.places.append((module, line))
        self.bytes.append(0)
        return len(self.places) - 1

    def take(self) -> set[int]:
        """The marks that were set since the last call."""
        found = {at for at, value in enumerate(self.bytes) if value}
        self.bytes[:] = bytes(len(self.bytes))
        return found

    def put_back(self, marks: set[int]) -> None:
        for at in marks:
            self.bytes[at] = 1

    def lines(self, marks: set[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for module, line in sorted(self.places[at] for at in marks):
            found[module].append(line)
        return dict(found)


class _Marker(ast.NodeTransformer):
    """Puts a mark in front of every statement inside a function."""

    def __init__(self, module: str, marks: Marks) -> None:
        self._module, self._marks = module, marks
        self._depth = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        self._depth += is_function
        super().generic_visit(node)
        if self._depth:
            for field in ("body", "orelse", "finalbody"):
                body = getattr(node, field, None)
                if isinstance(body, list):
                    setattr(node, field, [each for inner in body for each in (*self._mark(inner), inner)])
        self._depth -= is_function
        return node

    def _mark(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return []  # a docstring has to be first
        at = self._marks.add(self._module, statement.lineno)
        mark = ast.parse(f"{MARKS}[{at}] = 1").body[0]
        return [ast.copy_location(mark, statement)]


def compile_marked(source: str, path: str, module: str, marks: Marks) -> CodeType:
    tree = _Marker(module, marks).visit(ast.parse(source))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class ChangedSource(importlib.machinery.SourceFileLoader):
    """Loads a module from code that somebody else compiled: no cache is read or written."""

    def __init__(self, module: str, path: str, code: CodeType, names: Mapping[str, object]) -> None:
        super().__init__(module, path)
        self._code, self._names = code, names

    def get_code(self, fullname: str) -> CodeType:
        return self._code

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names)
        super().exec_module(module)


class MarkingFinder(importlib.abc.MetaPathFinder):
    def __init__(self, sources: Mapping[str, tuple[str, str]], marks: Marks) -> None:
        """For each module its path and source."""
        self._sources, self._marks = sources, marks

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname not in self._sources:
            return None
        place, source = self._sources[fullname]
        code = compile_marked(source, place, fullname, self._marks)
        loader = ChangedSource(fullname, place, code, {MARKS: self._marks.bytes})
        return importlib.util.spec_from_file_location(fullname, place, loader=loader)


class MutantFinder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, path: str, source: str) -> None:
        self._module, self._path, self._source = module, path, source

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname != self._module:
            return None
        code = compile(self._source, self._path, "exec", dont_inherit=True)
        loader = ChangedSource(fullname, self._path, code, {})
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)


class MapFiles:
    """The map on disk: one file per test file."""

    def __init__(self, folder: Path, root: Path, sources: Sequence[str]) -> None:
        self._folder, self._root = folder, root
        files = (path.relative_to(root) for path in sorted((root / "tests").rglob("*.py")))
        # What tests share may change which statements they run; this package may not.
        shared = (
            path for path in files if not path.name.startswith("test_") and "mutation" not in path.parts
        )
        texts = [*sources, *((root / path).read_text(encoding="utf-8") for path in shared)]
        tests = sorted((root / "tests").rglob("test_*.py"))
        self._all_tests = b"\0".join(path.read_bytes() for path in tests)
        self._key = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

    def _place(self, test_file: str) -> Path:
        # What a collection runs depends on all test files.
        text = (self._root / test_file).read_bytes() if test_file else self._all_tests
        digest = hashlib.sha256(self._key.encode() + text).hexdigest()[:16]
        return self._folder / f"{test_file.replace('/', '.') or 'import'}-{digest}.json"

    def read(self, test_file: str) -> list[MappedTest] | None:
        place = self._place(test_file)
        return [MappedTest(*row) for row in json.loads(place.read_text())] if place.is_file() else None

    def write(self, test_file: str, tests: Sequence[MappedTest]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for earlier in self._folder.glob(f"{test_file.replace('/', '.') or 'import'}-*.json"):
            earlier.unlink()
        # Complete or not there: a run may be interrupted at any time.
        place = self._place(test_file)
        draft = place.with_suffix(".draft")
        draft.write_text(json.dumps(tests))
        draft.replace(place)
