"""Trials for as long as asked, in several processes; a scoreboard at the end, and the same as JSON.

    make soak                                   a million conversations, and the other kinds in proportion
    make soak MINUTES=10 SEED=7                 for ten minutes, from that seed on
    make soak KIND=kills TRIALS=1 SEED=4711     one trial again, as a failing run has named it

Without a seed a fresh one is drawn, and printed. Trial number n of a kind has the seed SEED + n, whichever
process runs it. Runs on the same source add up (`ledger.py`), and Ctrl-C ends one with its sum.
"""

import argparse
import os
import platform
import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from reliability.kinds import KINDS, SHARES
from reliability.ledger import FOLDER, PUBLISHED, Ledger, Run, Task
from reliability.score import Row, again
from reliability.scratch import scratch
from reliability.source import kind_digest
from reliability.workers import Crew, work

# The sum of this run and of earlier ones on the same source.
RESULT: Final = Path("build/soak.json")
CONVERSATIONS: Final = 1_000_000
SECONDS_BETWEEN_LINES: Final = 10.0
# A soak that is killed loses so much, and the tasks under way.
SECONDS_BETWEEN_SAVES: Final = 2.0
# How a fresh seed is asked for by name.
FRESH: Final = "fresh"
# A fresh seed: far enough apart that two runs hardly ever share a trial.
MOST_SEEDS: Final = 10**12
INTERRUPTED: Final = 130


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """All runs on one source: their rows together, and what they were run on."""

    date: str
    commit: str
    # By kind, the digest of what its trials can execute.
    sources: dict[str, str]
    machine: str
    python: str
    seeds: tuple[int, ...]
    workers: int
    seconds: float
    rows: tuple[Row, ...]


def tasks(kind: str, seed: int, trials: int | None) -> Iterator[Task]:
    """All kinds in proportion, `trials` of them conversations; or so many of one kind. None: without end."""
    # A task is as long for a kind that is run alone: short enough to stop in time.
    shares = {kind: SHARES[kind] or 1} if kind else {name: share for name, share in SHARES.items() if share}
    most = max(shares.values())
    done = 0
    while trials is None or done < trials:
        part = min(1.0, (trials - done) / most) if trials is not None else 1.0
        for name, share in shares.items():
            first = seed + done * share // most
            yield Task(name, first, max(1, round(share * part)))
        done += most


class Interrupt:
    """Ctrl-C or SIGTERM: no new task is begun, those under way come to their end. Workers hear neither."""

    def __init__(self) -> None:
        self.is_asked = False

    def __enter__(self) -> "Interrupt":
        signals = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.signal(number, self._asked) for number in signals}
        return self

    def __exit__(self, *how: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _asked(self, *_: object) -> None:
        self.is_asked = True
        # Not `print`: the signal may come in the middle of one, and the stream refuses a second.
        os.write(1, b"\nEnding: the trials under way are finished first.\n")


def run(
    todo: Iterator[Task], ledger: Ledger, stop: Interrupt, *, workers: int, seconds: float | None
) -> None:
    """Every task that is not done yet, or as many as fit; a line every few seconds says how far it is."""
    start = told = saved = time.monotonic()
    before = ledger.run.seconds
    left = (part for task in todo for part in ledger.left_of(task))
    with Crew(workers) as crew:
        while True:
            is_over = stop.is_asked or (seconds is not None and time.monotonic() - start >= seconds)
            while not is_over and not crew.is_full and (task := next(left, None)) is not None:
                crew.give(task)
            if not crew.busy:
                return
            for done, row in crew.finished():
                tell_red(row)
                ledger.run.note(done, row)
            now = time.monotonic()
            ledger.run.seconds = round(before + now - start, 1)
            if now - saved > SECONDS_BETWEEN_SAVES:
                saved = now
                ledger.save()
            if now - told > SECONDS_BETWEEN_LINES:
                told = now
                print(progress(ledger.run.rows, now - start), flush=True)


def tell_red(row: Row) -> None:
    for failure in row.failures:
        print(f"red: {again(row.kind, failure)}", flush=True)


def progress(rows: dict[str, Row], seconds: float) -> str:
    counts = ", ".join(f"{row.trials:,} {row.kind}" for row in rows.values())
    wrong = sum(row.lost + row.unknown for row in rows.values())
    return f"{seconds:7.0f} s  {counts}; lost or unknown: {wrong}"


def drawn(board: Board) -> str:
    heads = ("kind", "trials", "faults injected", "survived", "lost", "unknown", "per CPU second")
    lines = [f"{heads[0]:<16}" + "".join(f"{head:>17}" for head in heads[1:])]
    for row in board.rows:
        numbers = (row.trials, row.faults, row.survived, row.lost, row.unknown)
        counts = "".join(f"{number:>17,}" for number in numbers)
        lines.append(f"{row.kind:<16}{counts}{row.per_second:>17,.1f}")
    lines += [f"again: {again(row.kind, failure)}" for row in board.rows for failure in row.failures]
    runs = f"{len(board.seeds)} run" + ("s" if len(board.seeds) > 1 else "")
    lines.append(
        f"{runs} on this source, last seed {board.seeds[-1]}, {board.seconds:,.0f} s, "
        f"commit {board.commit}, Python {board.python}"
    )
    return "\n".join(lines)


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}"


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description="Trials by chance, counted.")
    parser.add_argument("--kind", default="", choices=["", *KINDS])
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--seed", type=read_seed)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--date", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--into", type=Path, default=RESULT)
    parser.add_argument("--ledger", type=Path, default=FOLDER)
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    return parser.parse_args(given)


def read_seed(given: str) -> int | None:
    return None if given == FRESH else int(given)


def repeat(kind: str, seed: int) -> int:
    """One trial once more, whatever the ledger says, and nothing is counted."""
    with scratch():
        row = work(Task(kind, seed, 1))
    if row.failures:
        print(f"red: {again(kind, row.failures[0])}")
        return 1
    print(f"{kind} {seed}: survived")
    return 0


def main(given: list[str]) -> int:
    asked = arguments(given)
    if asked.kind and asked.seed is not None and asked.trials == 1:
        return repeat(asked.kind, asked.seed)
    seed = random.SystemRandom().randrange(MOST_SEEDS) if asked.seed is None else asked.seed
    trials = asked.trials or (None if asked.minutes else CONVERSATIONS)
    new = Run(
        seed=seed,
        date=asked.date,
        commit=asked.commit,
        machine=machine(),
        python=platform.python_version(),
        sources=find_sources((asked.kind,) if asked.kind else tuple(KINDS)),
    )
    ledger = Ledger(asked.ledger, new, asked.published)
    with Interrupt() as stop, scratch():
        print(f"seed {seed}, earlier runs on this source: {len(ledger.earlier)}", flush=True)
        run(
            tasks(asked.kind, seed, trials),
            ledger,
            stop,
            workers=asked.workers,
            seconds=asked.minutes * 60 if asked.minutes else None,
        )
    ledger.save()
    board = board_of(ledger, asked.workers)
    asked.into.parent.mkdir(parents=True, exist_ok=True)
    asked.into.write_bytes(msgspec.json.format(msgspec.json.encode(board), indent=2) + b"\n")
    print(drawn(board))
    if any(row.lost or row.unknown for row in board.rows):
        return 1
    return INTERRUPTED if stop.is_asked else 0


def find_sources(kinds: Iterable[str]) -> dict[str, str]:
    root = Path(__file__).parents[2]
    return {kind: kind_digest(root, KINDS[kind].run.__module__) for kind in kinds}


def board_of(ledger: Ledger, workers: int) -> Board:
    rows = (ledger.sum_of(kind) for kind in KINDS)
    return Board(
        date=ledger.run.date,
        commit=ledger.run.commit,
        sources=ledger.run.sources,
        machine=ledger.run.machine,
        python=ledger.run.python,
        seeds=tuple(each.seed for each in ledger.runs),
        workers=workers,
        seconds=round(sum(each.seconds for each in ledger.runs), 1),
        rows=tuple(row for row in rows if row is not None),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
