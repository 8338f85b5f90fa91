"""One more turn: what each way of keeping costs in time, and how that grows with the conversation.

Sizes of 50K, 200K and 1M tokens. Everyone gets the same turns after the same past, several times over; of
each turn the fastest time counts, the one that was disturbed least, and of the turns the median. Peers have
processes of their own, so everturn is measured in each of them, in turn with the peer, and ratios are taken
there.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import msgspec

from everturn.history.records import Usage
from peers.keeping import Kind, Stage
from peers.ours import ENDLESS, Everturn, EverturnWithBytes, Timed
from peers.session import BYTES_A_TOKEN, SIZES, TIMED, WARM_UP, Session, requests, session

PASSES = 3
# Seconds of turns. Whoever takes longer is measured once.
LONGEST_PASS = 10.0
OURS = "everturn"
# A head of the size that coding agents have, in characters.
_HEAD = "You are a careful software engineer. ".ljust(16_000, ".")

Open = Callable[[Session], Timed]


class Speed(msgspec.Struct, frozen=True):
    """One contestant at one size: seconds of the median turn, of the slowest, and of the opening."""

    name: str
    size: int
    typical: float
    slowest: float
    opening: float
    # everturn's median turn at that size in the same process.
    ours: float = 0.0


class _Kept:
    """A keeper on the session of this table."""

    def __init__(self, told: Session, kind: Kind) -> None:
        self._requests = requests(told)
        self._keeper = kind.open(Stage(ENDLESS, _HEAD, _nothing, only_watches=True))
        self._heard = 0
        self._tokens = 0

    def prepare(self, number: int) -> None:
        for message in self._requests[number][self._heard :]:
            # Replies come with what the provider counted: some peers then count only what is new.
            said = message["role"] == "assistant"
            self._keeper.hear(message, Usage(cache_read_input_tokens=self._tokens) if said else None)
            self._tokens += len(msgspec.json.encode(message)) // BYTES_A_TOKEN
        self._heard = len(self._requests[number])

    def turn(self) -> None:
        self._keeper.decide()


def _nothing(request: str) -> str:
    raise SystemExit("a turn asked for a summary, and none of the measured turns should")


def speeds(kinds: Sequence[Kind], tell: Callable[[str], None]) -> Iterator[Speed]:
    """These ways of keeping, and everturn beside them."""
    entries: dict[str, Open] = {OURS: Everturn}
    if not kinds:
        entries["everturn, with the request's bytes"] = EverturnWithBytes
        entries["everturn, clearing all but 3"] = lambda told: Everturn(told, kept="clear-keep-3")
    for kind in kinds:
        entries[kind.name] = lambda told, kind=kind: _Kept(told, kind)
    for size in SIZES:
        tell(f"one more turn at {size:,} tokens")
        told = session(size)
        found = {name: [] for name in entries}
        for _ in range(PASSES):
            for name, opened in entries.items():
                if not found[name] or sum(found[name][0][1]) < LONGEST_PASS:
                    found[name].append(_measured(opened, told))
        merged = {name: _fastest(passes) for name, passes in found.items()}
        for name, (opening, turns) in merged.items():
            ours = median(merged[OURS][1])
            yield Speed(name, size, median(turns), max(turns), opening, ours)


def _measured(opened: Open, told: Session) -> tuple[float, list[float]]:
    gc.collect()
    started = time.perf_counter()
    contestant = opened(told)
    opening = time.perf_counter() - started
    found: list[float] = []
    for number in range(WARM_UP + TIMED):
        contestant.prepare(number)
        started = time.perf_counter()
        contestant.turn()
        found.append(time.perf_counter() - started)
    return opening, found[WARM_UP:]


def _fastest(passes: Sequence[tuple[float, list[float]]]) -> tuple[float, list[float]]:
    turns = [min(same) for same in zip(*(turns for _, turns in passes), strict=True)]
    return min(opening for opening, _ in passes), turns


def growth(first: Speed, last: Speed) -> float:
    """The exponent from the smallest size to the largest: 0 costs the same at every size, 1 in proportion."""
    return math.log(last.typical / first.typical) / math.log(last.size / first.size)
