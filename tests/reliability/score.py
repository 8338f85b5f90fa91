"""Trials, counted: how many, what was injected, what survived, what was lost, and what nobody knows.

A trial is a seed and a function that raises where a promise was broken. An `AssertionError` is a loss;
anything else that is raised is unknown: a harness that stumbles must not count as a survivor.
"""

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

# Of failing trials, so many are kept by seed; a run that fails everywhere needs no longer list.
MOST_FAILURES: Final = 20
# With no failure in N trials, the rate is below 3/N with 95 % confidence (the rule of three).
RULE_OF_THREE: Final = 3

# What one trial did: steps, faults, whatever its kind counts. "faults" goes into the row of its own.
Counts = Counter[str]


class Kind(msgspec.Struct, frozen=True):
    """A kind of trial: its name, the function that runs one seed, and the promise in words."""

    name: str
    run: Callable[[int], Counts]
    promise: str = ""
    # What a trial is made of, where that is what people ask for: steps, requests, blocks.
    unit: str = ""
    # How many trials there are of it for every hundred conversations; 0: it is run only by its name.
    share: int = 1
    # Whether each trial forks, so that a small process runs it quicker.
    forks: bool = False

    def load(self) -> None:
        """Imports what a trial needs, where that was put off."""
        load = getattr(self.run, "load", None)
        if load is not None:
            load()


def cpu_seconds() -> float:
    """What this process has taken so far, with the children that have ended: forks are most of some kinds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Failure(msgspec.Struct, frozen=True):
    seed: int
    what: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the board."""

    kind: str
    trials: int = 0
    faults: int = 0
    survived: int = 0
    lost: int = 0
    unknown: int = 0
    units: int = 0
    unit: str = ""
    seconds: float = 0.0
    failures: tuple[Failure, ...] = ()

    @property
    def per_second(self) -> float:
        """Trials in a second of one core."""
        return self.trials / self.seconds if self.seconds else 0.0

    @property
    def bound(self) -> str:
        """What zero losses mean: at most one in so many, with 95 % confidence."""
        return (
            f"1 in {self.trials // RULE_OF_THREE:,}"
            if self.trials >= RULE_OF_THREE and not self.lost
            else "-"
        )


class Tally:
    """A row in the making."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.counts: Counts = Counter()
        self._trials = self._lost = self._unknown = 0
        self._failures: list[Failure] = []
        self._seconds = 0.0

    def run(self, seed: int) -> None:
        start = cpu_seconds()
        self._trials += 1
        try:
            self.counts.update(self.kind.run(seed))
        except AssertionError as problem:
            self._lost += 1
            self._note(seed, problem)
        except Exception as problem:
            self._unknown += 1
            self._note(seed, problem)
        self._seconds += cpu_seconds() - start

    def _note(self, seed: int, problem: Exception) -> None:
        if len(self._failures) < MOST_FAILURES:
            said = str(problem).splitlines() or [""]
            self._failures.append(Failure(seed, f"{type(problem).__name__}: {said[0]}"))

    @property
    def row(self) -> Row:
        return Row(
            kind=self.kind.name,
            trials=self._trials,
            faults=self.counts["faults"],
            survived=self._trials - self._lost - self._unknown,
            lost=self._lost,
            unknown=self._unknown,
            units=self.counts[self.kind.unit] if self.kind.unit else 0,
            unit=self.kind.unit,
            seconds=round(self._seconds, 3),
            failures=tuple(self._failures),
        )


def tally(kind: Kind, seeds: Iterable[int]) -> Tally:
    made = Tally(kind)
    for seed in seeds:
        made.run(seed)
    return made


def added(rows: Sequence[Row]) -> Row:
    """The rows of several workers as one."""
    first = rows[0]
    return Row(
        kind=first.kind,
        unit=first.unit,
        trials=sum(row.trials for row in rows),
        faults=sum(row.faults for row in rows),
        survived=sum(row.survived for row in rows),
        lost=sum(row.lost for row in rows),
        unknown=sum(row.unknown for row in rows),
        units=sum(row.units for row in rows),
        seconds=round(sum(row.seconds for row in rows), 3),
        failures=tuple(failure for row in rows for failure in row.failures)[:MOST_FAILURES],
    )


def said(row: Row, seeds: str) -> str:
    """One line for the end of a test run."""
    what = f" ({row.units:,} {row.unit})" if row.unit else ""
    found = f"{row.lost:,} lost, {row.unknown:,} unknown"
    return f"{row.kind}: {row.trials:,} trials{what}, {row.faults:,} faults injected, {found}, {seeds}"


def again(kind: str, failure: Failure) -> str:
    """The command that runs a failing trial once more."""
    return f"make soak KIND={kind} SEED={failure.seed} TRIALS=1    # {failure.what}"


def check(row: Row) -> None:
    """Raises with every failing seed and the command that runs it again."""
    if row.lost or row.unknown:
        commands = "".join(f"\n  {again(row.kind, failure)}" for failure in row.failures)
        raise AssertionError(f"{row.lost} lost, {row.unknown} unknown of {row.trials:,}:{commands}")
