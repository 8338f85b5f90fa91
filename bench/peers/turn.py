"""One more turn of context management: everturn beside its peers, on the same conversation, in one run.

Sizes of 50K, 200K and 1M tokens. Every contestant gets the same 20 turns after the same past, five times
over; of each turn the fastest time counts, the one that was disturbed least, and of the turns the median.
Wanted: at 1M tokens everturn is at least 50 times faster than each peer that edits the context. Ratios travel
better than milliseconds, and best from a machine at rest.
"""

import gc
import math
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from statistics import median

import msgspec
from contestants import ENTRIES, Entry
from session import SIZES, TIMED, WARM_UP, Session, session

WANTED = 50
PASSES = 5


class Measured(msgspec.Struct, frozen=True):
    """Seconds of the turns of one contestant at one size, and of opening the conversation before them."""

    opening: float
    turns: tuple[float, ...]
    outcome: str

    @property
    def typical(self) -> float:
        return median(self.turns)


class Row(msgspec.Struct, frozen=True):
    """One contestant at every size; or, with nothing measured, why not."""

    entry: Entry
    sizes: tuple[Measured, ...] = ()
    reason: str = ""

    @property
    def largest(self) -> float:
        return self.sizes[-1].typical

    @property
    def growth(self) -> float:
        return math.log(self.largest / self.sizes[0].typical) / math.log(SIZES[-1] / SIZES[0])


# ── measuring ────────────────────────────────────────────────────────────────────────────────────


def measured(entry: Entry, told: Session) -> Measured:
    gc.collect()
    started = time.perf_counter()
    contestant = entry.open(told)
    opening = time.perf_counter() - started
    found: list[float] = []
    for number in range(WARM_UP + TIMED):
        contestant.prepare(number)
        started = time.perf_counter()
        contestant.turn()
        found.append(time.perf_counter() - started)
    return Measured(opening, tuple(found[WARM_UP:]), contestant.outcome())


def one_pass(entry: Entry, sessions: Sequence[Session]) -> Row:
    found: list[Measured] = []
    for told in sessions:
        try:
            found.append(measured(entry, told))
        # Whatever stops a peer is its result, and is shown. What stops us is an error.
        except Exception as reason:
            if not entry.package:
                raise
            what = f"{type(reason).__name__}: {reason}".splitlines()[0]
            print(f"  {entry.name:36}{_size(told.tokens):>5}  {what}", flush=True)
            return Row(entry, reason=what)
        last = found[-1]
        shown = f"{last.typical * 1e3:9.3f} ms  ({last.outcome})"
        print(f"  {entry.name:36}{_size(told.tokens):>5}{shown}", flush=True)
    return Row(entry, tuple(found))


def merged(passes: Sequence[Row]) -> Row:
    """One contestant's passes as one, with the fastest time of everything."""
    failed = [each for each in passes if each.reason]
    if failed:
        return failed[0]
    return Row(passes[0].entry, tuple(map(_fastest, zip(*(each.sizes for each in passes), strict=True))))


def _fastest(same: Sequence[Measured]) -> Measured:
    turns = tuple(map(min, zip(*(each.turns for each in same), strict=True)))
    return Measured(min(each.opening for each in same), turns, same[0].outcome)


# ── showing ──────────────────────────────────────────────────────────────────────────────────────


def show_table(rows: Sequence[Row]) -> None:
    ours = rows[0].largest
    sizes = "".join(f"{_size(size) + ' ms':>11}" for size in SIZES)
    print(f"\n{f'one more turn, median of {TIMED}':36}{sizes}{'slowest 1M':>12}{'growth':>8}{'ratio':>9}")
    for each in rows:
        if each.reason:
            print(f"{each.entry.name:36}  not measured: {each.reason}")
            continue
        times = "".join(f"{size.typical * 1e3:11.3f}" for size in each.sizes)
        slowest = max(each.sizes[-1].turns) * 1e3
        print(f"{each.entry.name:36}{times}{slowest:12.3f}{each.growth:8.2f}{each.largest / ours:9.1f}")
    print("\ngrowth: exponent from 50K to 1M; 0 costs the same at every size, 1 in proportion to it")
    print("ratio: at 1M, against the first row")


def show_verdicts(rows: Sequence[Row]) -> bool:
    """Whether what is wanted was reached, by every peer that was measured, and at least one was."""
    ours = [each for each in rows if not each.entry.package]
    reached: list[bool] = []
    for peer in rows:
        if peer.entry.wanted and not peer.reason:
            reached.append(peer.largest / ours[0].largest >= WANTED)
            print(f"\n{peer.entry.name} at 1M takes as long as")
            for each in ours:
                print(f"  {peer.largest / each.largest:6.0f} turns of {each.entry.name}")
            print(f"  wanted {WANTED} of the first: {'reached' if reached[-1] else 'NOT REACHED'}")
    opening = zip(SIZES, ours[0].sizes, strict=True)
    shown = ", ".join(f"{_size(size)} {each.opening * 1e3:.0f} ms" for size, each in opening)
    print(f"\nwhat everturn pays once, and peers do not: opening the conversation, {shown}")
    return bool(reached) and all(reached)


def _size(tokens: int) -> str:
    return f"{tokens // 1_000_000}M" if tokens >= 1_000_000 else f"{tokens // 1000}K"


def _version(entry: Entry) -> str:
    package = entry.package or "everturn"
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} (not installed)"


def main() -> int:
    versions = ", ".join(dict.fromkeys(map(_version, ENTRIES)))
    machine = f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores"
    print(f"{versions}; {machine}, load {os.getloadavg()[0]:.1f}", flush=True)
    sessions: list[Session] = []
    for size in SIZES:
        sessions.append(session(size))
        print(
            f"  made up a session of {_size(size)} tokens: {len(sessions[-1].before):,} records", flush=True
        )
    passes: list[list[Row]] = []
    for number in range(1, PASSES + 1):
        print(f"pass {number} of {PASSES}", flush=True)
        passes.append([one_pass(entry, sessions) for entry in ENTRIES])
    rows = [merged(same) for same in zip(*passes, strict=True)]
    show_table(rows)
    return 0 if show_verdicts(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
