"""What survives a compaction: each peer takes the same histories down once, and is counted as BY-6 counts.

One summarizer writes for all, from what each of them shows it (`listening.py`). So what differs is theirs:
what they show it, and what they keep beside its words. The time is that of everything around the summarizer.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from everturn.decide.retention import Retention, measure_retention
from everturn.history.blocks import Block, text_of
from everturn.history.records import Record
from everturn.measure.tokens import rough
from everturn.view.flatten import Flattener
from everturn.wire.anthropic import Request
from peers.keeping import Keeper, Kind, Stage
from peers.listening import Listener
from peers.ours import ENDLESS, Compacting
from peers.spelling import message_value, request_of

# Far below every history, so that each of them is compacted.
COMPACT_AT = 20_000
# The kinds that do not depend on how a summary is written; the score of a summary has more (BY-6).
KINDS_COMPARED = ("user_instructions", "paths", "identifiers", "errors", "pending")


class Survived(msgspec.Struct, frozen=True):
    """One history after one compaction. `shares` are by kind; None where there was nothing to keep."""

    name: str
    history: str
    tokens_before: int
    tokens: int
    shares: dict[str, float | None]
    score: float
    loose: float
    seconds: float
    # Why nothing was taken down; empty where it was.
    why: str = ""


def survived(
    kinds: Sequence[Kind],
    histories: Sequence[tuple[str, Sequence[Record]]],
    tell: Callable[[str], None],
    *,
    is_ours: bool,
) -> Iterator[Survived]:
    for name, records in histories:
        tell(f"a compaction of {name}")
        if is_ours:
            yield _ours(name, records)
        for kind in kinds:
            if kind.compacts:
                yield _theirs(kind, name, records)


def _ours(name: str, records: Sequence[Record]) -> Survived:
    compacting = Compacting(records)
    started = time.perf_counter()
    compacting.decide()
    seconds = time.perf_counter() - started
    return _counted("everturn", name, records, compacting.request(), seconds)


def _theirs(kind: Kind, name: str, records: Sequence[Record]) -> Survived:
    listener = _Timed()
    listener.tell(records)
    keeper = kind.open(Stage(ENDLESS, "You are an agent.", listener.write, compact_at=COMPACT_AT))
    _tell(keeper, records)
    started = time.perf_counter()
    keeper.decide()
    seconds = time.perf_counter() - started - listener.seconds
    return _counted(kind.name, name, records, request_of(keeper.body(), "any"), seconds)


class _Timed(Listener):
    """The summarizer's own time is nobody's."""

    seconds = 0.0

    def write(self, request: str) -> str:
        started = time.perf_counter()
        text = super().write(request)
        self.seconds += time.perf_counter() - started
        return text


def _tell(keeper: Keeper, records: Sequence[Record]) -> None:
    flattener = Flattener()
    for record in records:
        flattener.add(record)
    for message in flattener.since(0):
        keeper.hear(message_value(message))


def _counted(
    kind: str, history: str, records: Sequence[Record], request: Request, seconds: float
) -> Survived:
    kept: Retention = measure_retention(records, _text(block for m in request.messages for block in m.blocks))
    before = rough(_text(block for record in records for block in record.blocks))
    parts = {name: kept.parts[name] for name in KINDS_COMPARED}
    shares = {name: part.share for name, part in parts.items()}
    strict, loose = (_mean(shares.values()), _mean(part.loose_share for part in parts.values()))
    return Survived(kind, history, before, kept.tokens, shares, strict, loose, seconds)


def _mean(shares: Iterable[float | None]) -> float:
    """Over the kinds that there was something of."""
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else 1.0


def _text(blocks: Iterator[Block]) -> str:
    """Everything that could name something: a call's input too, as in `replay/playing/refetch_tracker.py`."""
    words = (
        text_of(block) or (block.raw.decode(errors="replace") if block.is_call else "") for block in blocks
    )
    return "\n".join(words)
