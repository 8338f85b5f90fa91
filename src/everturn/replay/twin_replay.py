"""Replays a session through the engine against a twin, under any policy.

User messages and tool results come from a recorded or synthetic session, and the twin replies with the
recorded responses. Two replays of one session differ only in their policy, so their bills can be compared.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.options import Options
from everturn.engine import Conversation, ConversationSettings, Turn
from everturn.history.edits import Cleared, Offloaded, ThinkingDropped
from everturn.history.records import Record, record_time
from everturn.history.rounds import split_rounds
from everturn.measure.capabilities import Capabilities
from everturn.measure.model_table import Model
from everturn.measure.outline import Preamble
from everturn.session.conversation_runner import ConversationRunner, Exchange
from everturn.twin.build import build_twin
from everturn.twin.clock import VirtualClock
from everturn.twin.costs import TwinCosts
from everturn.twin.options import TwinOptions
from everturn.twin.playback import extract_replies
from everturn.twin.service import Twin
from everturn.twin.upstream import make_twin_send
from everturn.view.key_parameters import KeyParameters, choose_ttl


class TwinReplayCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call: tokens read from the cache, written to it and uncached, and the edits before it."""

    number: int
    idle: timedelta
    read: int
    written: int
    plain: int
    output: int
    dollars: Decimal
    cleared: int
    tokens_saved: int
    why: str
    broke: str
    as_predicted: bool

    @property
    def context(self) -> int:
        return self.read + self.written + self.plain


class TwinReplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The model, policy, capabilities and preamble of a replay."""

    model: Model
    options: Options
    capabilities: Capabilities
    preamble: Preamble


def replay_against_twin(
    records: Sequence[Record], settings: TwinReplaySettings, pauses: dict[int, timedelta]
) -> Iterator[TwinReplayCall]:
    """The calls of a session, one by one. `pauses` are inserted before calls, by call number from 1."""
    options = TwinOptions(foreign_signatures="accept")
    twin = build_twin(options=options, playback=extract_replies(records))
    ids = (f"{number:08d}" for number in count(1))
    with TemporaryDirectory() as folder:
        live = ConversationRunner(
            Conversation(_conversation_settings(settings)),
            make_twin_send(twin),
            clock=twin.clock.now,
            new_id=lambda: next(ids),
            folder=Path(folder),
        )
        last = twin.clock.now()
        for number, prompt in enumerate(_prompts(records), start=1):
            _advance(twin, prompt.after + pauses.get(number, timedelta()))
            for record in prompt.records:
                live.add(record)
            exchange = live.call()
            yield _step(number, exchange, twin, idle=twin.clock.now() - last)
            last = twin.clock.now()


class _Prompt(msgspec.Struct, frozen=True):
    """What precedes one response: the records since the last one, and the time that passed."""

    records: tuple[Record, ...]
    after: timedelta


def _prompts(records: Sequence[Record]) -> Iterator[_Prompt]:
    """User records and attachments before each response. The twin produces the responses."""
    spoken_at: datetime | None = None
    said: list[Record] = []
    for part in split_rounds(records):
        for record in records[part.start : part.stop]:
            if record.kind == "assistant":
                if said:
                    now = record_time(record)
                    gap = now - spoken_at if now and spoken_at and now > spoken_at else timedelta()
                    yield _Prompt(tuple(said), gap)
                    spoken_at = now or spoken_at
                    said = []
            elif record.kind in ("user", "attachment"):
                said.append(record)


def _conversation_settings(settings: TwinReplaySettings) -> ConversationSettings:
    able = settings.capabilities
    return ConversationSettings(
        model=settings.model,
        capabilities=able,
        # The session is replayed up to its window and never compacted: only caching is compared.
        options=msgspec.structs.replace(settings.options, compact=CompactSettings(enabled=False)),
        costs=TwinCosts(settings.model),
        preamble=settings.preamble,
        parameters=KeyParameters(choose_ttl("main", "conversation", settings.options.cache.ttl, able)),
        fields={"max_tokens": 8_000},
    )


def _advance(twin: Twin, pause: timedelta) -> None:
    if isinstance(twin.clock, VirtualClock):
        twin.clock.advance(pause.total_seconds())


def _step(number: int, exchange: Exchange, twin: Twin, *, idle: timedelta) -> TwinReplayCall:
    entry = twin.ledger()[-1]
    usage, turn, settled = entry["usage"], exchange.turn, exchange.settled
    edits = [record.edit for record in turn.appended]
    cleared = sum(len(edit.calls) for edit in edits if isinstance(edit, Cleared))
    return TwinReplayCall(
        number=number,
        idle=idle,
        read=usage["cache_read_input_tokens"],
        written=usage["cache_creation_input_tokens"],
        plain=usage["input_tokens"],
        output=usage["output_tokens"],
        dollars=Decimal(str(entry["dollars"])),
        cleared=cleared + sum(isinstance(edit, Offloaded) for edit in edits) + len(turn.plan.delete),
        tokens_saved=turn.plan.tokens_saved,
        why="; ".join(_reasons(turn)),
        broke=settled.verdict.why if isinstance(settled.verdict, DetectedBreak) else "",
        as_predicted=settled.check is not None and settled.check.verdict == "as predicted",
    )


def _reasons(turn: Turn) -> Iterator[str]:
    """Why the context changed: what was cleared, and the thinking that was removed with it."""
    if turn.plan.kind not in ("none", "waits"):
        yield turn.plan.why
    for record in turn.appended:
        if isinstance(record.edit, ThinkingDropped) and record.edit not in turn.plan.edits:
            yield f"earlier thinking removed: {record.edit.why}"
