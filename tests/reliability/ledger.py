"""Which trials were run on the same source before: a soak may be run in pieces, and its pieces add up.

Each run has a file of its own in `build/soak/`. It has a digest of the source for each kind, of the files
that trials of that kind can execute (`source.py`): what was run on other code says nothing about this one,
and a change elsewhere voids nothing. Seeds that are done are not run again. A seed that failed is never done.
The runs that the table in the manual is the sum of are kept in `docs/soak/`, with the source: they count in
every clone.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from reliability.score import Row, added

FOLDER: Final = Path("build/soak")
PUBLISHED: Final = Path("docs/soak")

# Seeds from the first to before the second.
Span = tuple[int, int]


class Task(msgspec.Struct, frozen=True):
    """Seeds of one kind, for one process."""

    kind: str
    first: int
    count: int


class Run(msgspec.Struct, kw_only=True):
    """One run of `make soak`: the seed it began with, what it found, and the seeds that are done."""

    seed: int
    date: str = ""
    commit: str = ""
    machine: str = ""
    python: str = ""
    seconds: float = 0.0
    # By kind, the digest of what its trials can execute.
    sources: dict[str, str] = msgspec.field(default_factory=dict)
    rows: dict[str, Row] = msgspec.field(default_factory=dict)
    done: dict[str, list[Span]] = msgspec.field(default_factory=dict)

    def note(self, task: Task, row: Row) -> None:
        before = self.rows.get(task.kind)
        self.rows[task.kind] = added([before, row]) if before else row
        failed = sorted(failure.seed for failure in row.failures)
        if len(failed) < row.lost + row.unknown:
            # Not every failure is named, so nobody knows which seeds are done.
            return
        whole = (task.first, task.first + task.count)
        spans = list(without(whole, ((seed, seed + 1) for seed in failed)))
        self.done[task.kind] = joined((*self.done.get(task.kind, []), *spans))


def on_same_source(run: Run, sources: Mapping[str, str]) -> Run | None:
    """What a run has done on the code that is there now; None if that is nothing."""
    kinds = {kind for kind, source in run.sources.items() if sources.get(kind) == source}
    rows = {kind: row for kind, row in run.rows.items() if kind in kinds}
    done = {kind: spans for kind, spans in run.done.items() if kind in kinds}
    return msgspec.structs.replace(run, rows=rows, done=done) if rows else None


def read_runs(*folders: Path) -> dict[str, Run]:
    """The runs in these folders by the names of their files, each once."""
    paths = {path.name: path for folder in folders for path in folder.glob("*.json")}
    return {name: msgspec.json.decode(path.read_bytes(), type=Run) for name, path in sorted(paths.items())}


class Ledger:
    """All runs on the same source, kind by kind. `run` is the one that is under way; it is kept by `save`."""

    def __init__(self, folder: Path, run: Run, *others: Path) -> None:
        self.folder = folder
        self.run = run
        every = read_runs(*others, folder)
        found = (on_same_source(each, run.sources) for each in every.values())
        self.earlier = tuple(each for each in found if each is not None)
        # By the number of all runs, so that they stay in order; the process tells apart what is run at once.
        self._path = folder / f"{len(every):05d}-{run.seed}-{os.getpid()}.json"
        self._done = {
            kind: joined(span for each in self.earlier for span in each.done.get(kind, []))
            for kind in {kind for each in self.earlier for kind in each.done}
        }

    def left_of(self, task: Task) -> list[Task]:
        """The part of a task that no earlier run has done."""
        spans = without((task.first, task.first + task.count), self._done.get(task.kind, []))
        return [Task(task.kind, first, end - first) for first, end in spans]

    @property
    def runs(self) -> tuple[Run, ...]:
        return (*self.earlier, self.run)

    def sum_of(self, kind: str) -> Row | None:
        rows = [each.rows[kind] for each in self.runs if kind in each.rows]
        return added(rows) if rows else None

    def save(self) -> None:
        if not self.run.rows:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self.run))
        new.replace(self._path)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same seeds in as few spans as possible."""
    found: list[Span] = []
    for first, end in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def without(whole: Span, taken: Iterable[Span]) -> Iterator[Span]:
    """What is left of a span; `taken` is in order."""
    at, stop = whole
    for first, end in taken:
        if end <= at or first >= stop:
            continue
        if first > at:
            yield at, first
        at = max(at, end)
    if at < stop:
        yield at, stop
