"""Which trials were run on the same source before: a soak may be run in pieces, and its pieces add up.

Each run has a file of its own below `build/soak/`, in a folder named by a digest of the source: what was run
on other code says nothing about this one. Seeds that are done are not run again. A seed that failed is never
done.
"""

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from reliability.score import Row, added

FOLDER: Final = Path("build/soak")
# The product, and what the trials and their judges are made of.
SOURCE: Final = (Path("src"), Path("tests/reliability"), Path("tests/faults"))
DIGITS: Final = 12

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
    seconds: float = 0.0
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


class Ledger:
    """All runs on one source. `run` is the one that is under way; it is kept by `save`."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder = folder
        self.run = run
        self.earlier = tuple(
            msgspec.json.decode(path.read_bytes(), type=Run) for path in sorted(folder.glob("*.json"))
        )
        self._path = folder / f"{len(self.earlier):05d}-{run.seed}-{os.getpid()}.json"
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


def source_digest(root: Path = Path()) -> str:
    """The same for the same source, wherever it is."""
    found = sha256()
    for path in sorted(path for folder in SOURCE for path in (root / folder).rglob("*.py")):
        data = path.read_bytes()
        found.update(b"%s %d\n" % (path.relative_to(root).as_posix().encode(), len(data)))
        found.update(data)
    return found.hexdigest()[:DIGITS]


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
