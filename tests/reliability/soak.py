"""Trials for as long as asked, in several processes; a scoreboard at the end, and the same as JSON.

    make soak                                   a million conversations, and the other kinds in proportion
    make soak MINUTES=10 SEED=7                 for ten minutes, from that seed on
    make soak KIND=kills TRIALS=1 SEED=4711     one trial again, as a failing run has named it

Trial number n of a kind has the seed SEED + n, whichever process runs it.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec
from reliability.kinds import KINDS, SHARES
from reliability.score import Row, added, again, tally

# Where the last run is kept; `board.py` writes it into the manual.
RESULT: Final = Path("build/soak.json")
CONVERSATIONS: Final = 1_000_000
# So many trials at a time of a kind that is run alone: short enough to stop in time.
PER_ROUND: Final = 100
SECONDS_BETWEEN_LINES: Final = 10.0
DURABILITY: Final = (
    "kills: fsync always, real disk, SIGKILL (what the system has survives); "
    "power-cuts: fsync always, simulated disk that loses unsynced pages; steps and conversations: no sync"
)


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its rows, and what it was run on."""

    date: str
    commit: str
    machine: str
    python: str
    seed: int
    workers: int
    seconds: float
    durability: str
    rows: tuple[Row, ...]


class Task(msgspec.Struct, frozen=True):
    """Seeds of one kind, for one process."""

    kind: str
    first: int
    count: int


def work(task: Task) -> Row:
    return tally(KINDS[task.kind], range(task.first, task.first + task.count)).row


def tasks(kind: str, seed: int, trials: int | None) -> Iterator[Task]:
    """All kinds in proportion, `trials` of them conversations; or so many of one kind. None: without end."""
    shares = {kind: PER_ROUND} if kind else SHARES
    most = max(shares.values())
    done = 0
    while trials is None or done < trials:
        part = min(1.0, (trials - done) / most) if trials is not None else 1.0
        for name, share in shares.items():
            first = seed + done * share // most
            yield Task(name, first, max(1, round(share * part)))
        done += most


def run(todo: Iterator[Task], *, workers: int, seconds: float | None) -> dict[str, list[Row]]:
    """Every task, or as many as fit; a line every few seconds says how far it is."""
    rows: dict[str, list[Row]] = {}
    start = told = time.monotonic()
    running: set[Future[Row]] = set()
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        while True:
            is_over = seconds is not None and time.monotonic() - start >= seconds
            while not is_over and len(running) < 2 * workers and (task := next(todo, None)) is not None:
                running.add(pool.submit(work, task))
            if not running:
                return rows
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for row in (future.result() for future in done):
                rows[row.kind] = [added([*rows.get(row.kind, []), row])]
            if time.monotonic() - told > SECONDS_BETWEEN_LINES:
                told = time.monotonic()
                print(progress(rows, told - start), flush=True)


def progress(rows: dict[str, list[Row]], seconds: float) -> str:
    counts = ", ".join(f"{row.trials:,} {row.kind}" for (row,) in rows.values())
    wrong = sum(row.lost + row.unknown for (row,) in rows.values())
    return f"{seconds:7.0f} s  {counts}; lost or unknown: {wrong}"


def drawn(board: Board) -> str:
    heads = ("kind", "trials", "faults injected", "survived", "lost", "unknown")
    lines = [f"{heads[0]:<16}" + "".join(f"{head:>17}" for head in heads[1:])]
    for row in board.rows:
        numbers = (row.trials, row.faults, row.survived, row.lost, row.unknown)
        lines.append(f"{row.kind:<16}" + "".join(f"{number:>17,}" for number in numbers))
    lines += [f"again: {again(row.kind, failure)}" for row in board.rows for failure in row.failures]
    lines.append(f"seed {board.seed}, {board.seconds:,.0f} s, commit {board.commit}, Python {board.python}")
    return "\n".join(lines)


@contextmanager
def scratch() -> Iterator[None]:
    """One folder for all processes: they end without tidying up after themselves."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="everturn-soak-") as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}"


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description="Trials by chance, counted.")
    parser.add_argument("--kind", default="", choices=["", *KINDS])
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--date", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--into", type=Path, default=RESULT)
    return parser.parse_args(given)


def main(given: list[str]) -> int:
    asked = arguments(given)
    trials = asked.trials or (None if asked.minutes else CONVERSATIONS)
    start = time.monotonic()
    with scratch():
        rows = run(
            tasks(asked.kind, asked.seed, trials),
            workers=asked.workers,
            seconds=asked.minutes * 60 if asked.minutes else None,
        )
    board = Board(
        date=asked.date,
        commit=asked.commit,
        machine=machine(),
        python=platform.python_version(),
        seed=asked.seed,
        workers=asked.workers,
        seconds=round(time.monotonic() - start, 1),
        durability=DURABILITY,
        rows=tuple(rows[name][0] for name in KINDS if name in rows),
    )
    asked.into.parent.mkdir(parents=True, exist_ok=True)
    asked.into.write_bytes(msgspec.json.format(msgspec.json.encode(board), indent=2) + b"\n")
    print(drawn(board))
    return 1 if any(row.lost or row.unknown for row in board.rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
