"""Which mutants are drawn, and which tests are nearest to each."""

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mutation.hits import HitMap, MappedTest
from mutation.mutants import Mutant, find_mutants, function_lines, is_change, names_at_import, names_used


class Drawn(NamedTuple):
    number: int
    # The file below the root of the tree.
    path: str
    module: str
    mutant: Mutant


class Module(NamedTuple):
    path: str
    name: str
    source: str


def read_modules(root: Path, packages: Sequence[str]) -> list[Module]:
    """The modules of these packages (`everturn/decide`, ...) in the order of their paths."""
    files = (path for each in packages for path in sorted((root / "src" / each).rglob("*.py")))
    return [
        Module(
            path.relative_to(root).as_posix(),
            ".".join(path.relative_to(root / "src").with_suffix("").parts).removesuffix(".__init__"),
            path.read_text(encoding="utf-8"),
        )
        for path in files
    ]


def draw(modules: Sequence[Module], seed: int, count: int) -> Iterator[Drawn]:
    """Statements are drawn, each equally likely and none twice, and then one of its mutants: a table of
    constants in one statement counts no more than a comparison. The first n do not depend on the count."""
    rng = random.Random(seed)
    by_statement: dict[tuple[int, int], list[Mutant]] = defaultdict(list)
    for at, module in enumerate(modules):
        for mutant in find_mutants(module.source):
            by_statement[at, mutant.line].append(mutant)
    order = sorted(by_statement)
    rng.shuffle(order)
    number = 0
    for at, line in order:
        module, mutants = modules[at], by_statement[at, line]
        rng.shuffle(mutants)
        mutant = next((each for each in mutants if is_change(module.source, each)), None)
        if mutant is not None:
            if number == count:
                return
            number += 1
            yield Drawn(number, module.path, module.name, mutant)


class Nearest:
    """The tests that run a mutant, nearest first: those of its own package, and of those the fastest."""

    def __init__(self, root: Path, modules: Sequence[Module], hits: HitMap, seconds: float) -> None:
        self._hits = hits
        self._seconds = seconds
        self._trees = {each.name: ast.parse(each.source) for each in modules}
        self._by_line: dict[tuple[str, int], set[str]] = defaultdict(set)
        for test in hits.tests.values():
            for module, lines in test.lines.items():
                for line in lines:
                    self._by_line[module, line].add(test.name)
        self._users = self._lines_by_name_used()
        self._made_of = [
            (_stored(each), names_at_import(each)) for tree in self._trees.values() for each in tree.body
        ]
        self._naming = _tests_by_name_used(root, sorted(hits.tests))

    def runs_at_import(self, drawn: Drawn) -> bool:
        return drawn.mutant.owner is None or drawn.mutant.line in self._hits.at_import.get(drawn.module, ())

    def of(self, drawn: Drawn) -> list[MappedTest]:
        names = set(self._by_line[drawn.module, drawn.mutant.line])
        if self.runs_at_import(drawn):
            names |= self._of_names(drawn.module, drawn.mutant.names)
        folder = f"tests/{drawn.module.split('.')[1]}/"
        found = [each for name in names if (each := self._hits.tests[name]).passed]
        found.sort(key=lambda test: (not test.name.startswith(folder), test.seconds, test.name))
        return list(_within_budget(found, self._seconds))

    def _of_names(self, module: str, names: Sequence[str]) -> set[str]:
        """Tests that use what a statement of the module defines, directly or by other names, and tests of the
        functions that do."""
        known = _with_dependents(self._trees[module], set(names))
        lines = {line for name in known for line in self._users.get(name, ())}
        found = {test for line in lines for test in self._by_line.get(line, ())}
        return found | {test for name in self._made_with(known) for test in self._naming.get(name, ())}

    def _made_with(self, names: set[str]) -> set[str]:
        """These, and what imports of any module make of them: a default is part of the value around it."""
        known = set(names)
        while more := {name for stored, used in self._made_of if used & known for name in stored} - known:
            known |= more
        return known

    def _lines_by_name_used(self) -> Mapping[str, set[tuple[str, int]]]:
        found: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for module, tree in self._trees.items():
            for function, lines in function_lines(tree):
                for name in {*names_used(function), function.name}:
                    found[name] |= {(module, line) for line in lines}
        return found


def _tests_by_name_used(root: Path, tests: Sequence[str]) -> Mapping[str, set[str]]:
    """The names in the source of each test, and in what it uses of its own file."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.partition("::")[0]].append(test)
    found: dict[str, set[str]] = defaultdict(set)
    for path, its in by_file.items():
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        used = {name: names_used(each) for each in tree.body for name in _stored(each)}
        for test in its:
            for name in _closure(used, test.partition("::")[2].partition("[")[0].rpartition("::")[2]):
                found[name].add(test)
    return found


def _closure(used: Mapping[str, set[str]], name: str) -> set[str]:
    known, new = {name}, {name}
    while new := {each for name in new for each in used.get(name, ())} - known:
        known |= new
    return known


def _with_dependents(tree: ast.Module, names: set[str]) -> set[str]:
    statements = [(each, _stored(each)) for each in tree.body]
    known = set(names)
    while more := {
        name
        for each, stored in statements
        if names_used(each) & known
        for name in stored
        if name not in known
    }:
        known |= more
    return known


def _stored(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {statement.name}
    targets = [*getattr(statement, "targets", []), getattr(statement, "target", None)]
    return {each.id for each in targets if isinstance(each, ast.Name)}


def _within_budget(tests: Sequence[MappedTest], seconds: float) -> Iterator[MappedTest]:
    spent = 0.0
    for test in tests:
        spent += test.seconds
        if spent > seconds:
            return
        yield test
