"""Random mutations of the pure packages: how many does a test notice?

    make mutants                        200 mutants from a fresh seed
    make mutants SEED=7 TRIALS=1000     these, and no others
    make mutants SEED=7 INTO=docs/testing.md

Each mutant is a small change of one statement; the tests that run this statement are run with it, those of
its own package first. A mutant that no test notices is printed with its change. What is done is kept in
`build/mutants`: Ctrl-C ends a run with its sum, and the same seed on the same sources continues it.
"""

import argparse
import hashlib
import importlib
import json
import platform
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from mutation.drawing import Drawn, Module, Nearest, draw, read_modules
from mutation.hits import HitMap, MapFiles
from mutation.mutants import apply, show
from mutation.score import NOTICED, Row, page_table, shares, text_table, write_into
from mutation.warm import HotTests, Job, MappingTests, Result, Tree, run_cold

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = ("decide", "view", "measure", "history", "wire", "engine")
TESTS: Final = (*(f"tests/{name}" for name in NAMES), "tests/laws", "tests/scenes")
NOT_COPIED: Final = (".venv", ".git", "build", "dist", "__pycache__", ".*_cache", ".hypothesis")
# What nearly every test needs and no mutant changes: imported before the first fork.
SLOW_IMPORTS: Final = (
    "hypothesis",
    "pytest_asyncio",
    "msgspec",
    "anthropic",
    "httpx2",
    "click",
    "rich.console",
    "sqlite3",
)
# Test files that a cold start collects before it collects all others.
NEAR_FILES: Final = 4
MAX_SEED: Final = 10**6
INTERRUPTED: Final = 130


class Project(NamedTuple):
    """What is mutated, and where its results are kept."""

    root: Path
    packages: tuple[str, ...]
    tests: tuple[str, ...]
    build: Path
    # Of processor time that the tests of one mutant may take together.
    seconds: float
    imports: tuple[str, ...] = ()
    # Of the packages, those of which mutants are drawn; all without a name. The map is of all.
    drawn: tuple[str, ...] = ()


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def copied(project: Project) -> Iterator[Tree]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        root = Path(folder) / "tree"
        shutil.copytree(project.root, root, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
        yield Tree(root, project.tests, Path(folder))


def map_tests(project: Project, tree: Tree, modules: Sequence[Module]) -> HitMap:
    """Which test runs which statement; only test files that have changed are run."""
    files = MapFiles(project.build / "map", tree.root, [each.source for each in modules])
    wanted = [
        path.relative_to(tree.root).as_posix()
        for folder in project.tests
        for path in sorted((tree.root / folder).rglob("test_*.py"))
    ]
    missing = [each for each in ("", *wanted) if files.read(each) is None]
    if missing:
        say(f"mapping tests to statements: {len(missing)} of {len(wanted) + 1} files")
        sources = {each.name: (str(tree.root / each.path), each.source) for each in modules}
        with closing(MappingTests(tree, sources)) as warm:
            _map_files(warm, files, missing)
    tests = {each.name: each for path in wanted for each in files.read(path) or ()}
    return HitMap(tests, (files.read("") or [])[0].lines)


def _map_files(warm: MappingTests, files: MapFiles, missing: Sequence[str]) -> None:
    for test_file in missing:
        began = time.monotonic()
        found = warm.run(test_file) if test_file else [warm.at_import()]
        files.write(test_file, found)
        failed = sum(not each.passed for each in found)
        unused = f", {failed} not used because they fail, are skipped or slow" if failed else ""
        say(f"  {test_file or 'imports'}: {len(found)} tests, {time.monotonic() - began:.1f} s{unused}")


class Runner:
    """Runs mutants against their nearest tests."""

    def __init__(self, tree: Tree, modules: Sequence[Module], nearest: Nearest) -> None:
        self._tree, self._nearest = tree, nearest
        self._sources = {each.name: each.source for each in modules}
        self._hot = HotTests(tree)
        # Tests that were seen to pass alone, in such a process and without a mutant.
        self._trusted: dict[str, bool] = {}

    def run(self, drawn: Drawn) -> Row:
        source = self._sources[drawn.module]
        tests = self._nearest.of(drawn)
        job = Job(
            tests=[each.name for each in tests],
            seconds=sum(each.seconds for each in tests),
            module=drawn.module,
            path=str(self._tree.root / drawn.path),
            source=apply(source, drawn.mutant),
            owner=drawn.mutant.owner,
        )
        result = self._ask(drawn, job) if tests else Result("survived", "no test runs it")
        mutant = drawn.mutant
        diff = show(source, mutant, drawn.path)
        return Row(drawn.number, drawn.path, mutant.line, mutant.kind, *result, len(tests), diff)

    def _ask(self, drawn: Drawn, job: Job) -> Result:
        is_cold = self._nearest.runs_at_import(drawn)
        result = self._cold(job) if is_cold else self._hot.run(job)
        if result.outcome == "unusable":
            result = self._cold(job)
        if result.outcome == "killed" and "::" in result.by and not self._passes_alone(result.by):
            rest = [name for name in job.tests if name != result.by]
            return self._ask(drawn, job._replace(tests=rest)) if rest else Result("survived")
        return result

    def _cold(self, job: Job) -> Result:
        """The files of the nearest tests first: every file that is collected takes time."""
        files = list(dict.fromkeys(name.partition("::")[0] for name in job.tests))
        near = [name for name in job.tests if name.partition("::")[0] in files[:NEAR_FILES]]
        rest = [name for name in job.tests if name.partition("::")[0] in files[NEAR_FILES:]]
        result = run_cold(self._tree, job._replace(tests=near))
        return (
            run_cold(self._tree, job._replace(tests=rest))
            if rest and result.outcome not in NOTICED
            else result
        )

    def _passes_alone(self, test: str) -> bool:
        """A test that fails without a mutant says nothing about one."""
        if test not in self._trusted:
            self._trusted[test] = self._hot.run(Job([test], 20.0)).outcome == "survived"
        return self._trusted[test]

    def close(self) -> None:
        self._hot.close()


class Ledger:
    """The rows of one seed on the same sources, one line each."""

    def __init__(self, project: Project, tree: Tree, seed: int) -> None:
        digest = hashlib.sha256(repr((project.seconds, project.packages, project.drawn)).encode())
        for path in sorted([*(tree.root / "src").rglob("*.py"), *(tree.root / "tests").rglob("*.py")]):
            digest.update(path.relative_to(tree.root).as_posix().encode() + path.read_bytes())
        self._path = project.build / f"seed-{seed}-{digest.hexdigest()[:12]}.jsonl"
        self.rows: dict[int, Row] = {}
        if self._path.is_file():
            lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
            # The last line may be cut off by a kill.
            rows = [Row(*json.loads(line)) for line in lines if line.endswith("\n")]
            self.rows = {row.number: row for row in rows}

    def add(self, row: Row) -> None:
        self.rows[row.number] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def describe(row: Row, count: int) -> str:
    line = f"{row.number}/{count} {row.outcome:8} {row.path}:{row.line} {row.kind}"
    if row.is_noticed:
        return f"{line}, by {row.by}"
    return f"{line}, {row.tests} tests{': ' + row.by if row.by else ''}\n{row.diff}"


def run(project: Project, seed: int, trials: int) -> list[Row]:
    """All rows that there are at the end, or when it is interrupted."""
    for name in project.imports:
        importlib.import_module(name)
    with copied(project) as tree:
        modules = read_modules(tree.root, project.packages)
        ledger = Ledger(project, tree, seed)
        below = tuple(f"src/{each}/" for each in project.drawn or project.packages)
        wanted = list(draw([each for each in modules if each.path.startswith(below)], seed, trials))
        missing = [each for each in wanted if each.number not in ledger.rows]
        if missing and len(missing) < len(wanted):
            say(f"{len(wanted) - len(missing)} of {len(wanted)} mutants are done already")
        try:
            if missing:
                _run_missing(project, tree, modules, missing, ledger, trials)
        except KeyboardInterrupt:
            say("interrupted; the same seed continues here")
        return [ledger.rows[each.number] for each in wanted if each.number in ledger.rows]


def _run_missing(
    project: Project,
    tree: Tree,
    modules: Sequence[Module],
    missing: Sequence[Drawn],
    ledger: Ledger,
    count: int,
) -> None:
    nearest = Nearest(tree.root, modules, map_tests(project, tree, modules), project.seconds)
    with closing(Runner(tree, modules, nearest)) as runner:
        for drawn in missing:
            row = runner.run(drawn)
            ledger.add(row)
            say(describe(row, count))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="which mutants; without it a fresh one is drawn and printed")
    parser.add_argument("--trials", type=int, default=200, help="how many mutants (200)")
    parser.add_argument("--seconds", type=float, default=5.0, help="processor time for the tests of one (5)")
    parser.add_argument(
        "--package", action="append", choices=NAMES, help="only this package; may be repeated"
    )
    parser.add_argument("--into", type=Path, help="write the table into this page")
    asked = parser.parse_args(arguments)
    names = tuple(asked.package or NAMES)
    packages = tuple(f"everturn/{name}" for name in NAMES)
    drawn = tuple(f"everturn/{name}" for name in names)
    seed = random.SystemRandom().randrange(MAX_SEED) if asked.seed is None else asked.seed
    say(f"seed {seed}, {asked.trials} mutants of {', '.join(names)}")
    project = Project(ROOT, packages, TESTS, ROOT / "build" / "mutants", asked.seconds, SLOW_IMPORTS, drawn)
    rows = run(project, seed, asked.trials)
    if not rows:
        return INTERRUPTED
    survivors = [row for row in rows if not row.is_noticed]
    say(f"\nsurvivors: {len(survivors)}\n" + "\n".join(describe(row, asked.trials) for row in survivors))
    found = shares(rows, names)
    say("\n" + text_table(found))
    if asked.into:
        date = datetime.now(UTC).date()
        limit = f"at most {asked.seconds:g} s of tests per mutant"
        told = f"{date}, seed {seed}, {limit}, Python {platform.python_version()}."
        page = asked.into.read_text(encoding="utf-8")
        asked.into.write_text(write_into(page, page_table(found, told)), encoding="utf-8")
    return 0 if len(rows) == asked.trials else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
