"""everturn itself, for the three tables: its turn, its policies on recorded sessions, its compaction."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import msgspec

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.decide.options import DEFAULT_POLICY
from everturn.decide.policy import get_policy
from everturn.engine import Conversation, ConversationSettings, Turn
from everturn.history.records import CacheCreation, Record, Usage, record_time
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model_table import find_model
from everturn.measure.prediction import Prediction
from everturn.replay.demo_session import coding_preamble
from everturn.replay.playing.offline_effects import OfflineEffectHandler
from everturn.session.drivers import drive
from everturn.session.effect_handler import LocalEffectHandler
from everturn.session.upstream import RawResponse
from everturn.twin.costs import TwinCosts
from everturn.view.flatten import flatten
from everturn.view.key_parameters import KeyParameters, choose_ttl
from everturn.wire.anthropic import Request
from peers.session import Session

MODEL = "claude-opus-5"
# Beyond every size that is measured: turns look whether a compaction is due, and none is.
ENDLESS = 10_000_000
# Of everturn's policies, those that are compared with the peers' ways.
POLICIES = (DEFAULT_POLICY, "claude-code", "frugal", "clear-keep-3", "none")
# Turns and compactions are timed with a policy that never compacts for a price: no turn may need a summary.
TIMED = "claude-code"


class Timed(Protocol):
    """`prepare` is not timed, `turn` is."""

    def prepare(self, number: int) -> None: ...
    def turn(self) -> None: ...


class Everturn:
    """The reply is taken in, its results are added, and the next turn is decided."""

    def __init__(self, told: Session, *, kept: str = TIMED) -> None:
        self._turns = told.turns
        self._folder = TemporaryDirectory()
        self._world = LocalEffectHandler(_nobody, Path(self._folder.name))
        self._ids = (f"bench-{number}" for number in count())
        self._conversation = Conversation(setting_for(kept), told.before)
        self._last = self._ask(time_of(told.before))

    def prepare(self, number: int) -> None:
        records = self._turns[number]
        self._reply = [record for record in records if record.kind == "assistant"]
        self._answers = [record for record in records if record.kind != "assistant"]
        # A provider that does what was predicted: every turn is an ordinary, warm one.
        self._usage = _as_predicted(self._last.prediction)
        self._replied_at, self._asked_at = time_of(self._reply), time_of(records)

    def turn(self) -> None:
        self._conversation.record_reply(self._reply, self._usage, self._replied_at)
        for record in self._answers:
            self._conversation.add(record)
        self._last = self._ask(self._asked_at)

    def _ask(self, now: datetime) -> Turn:
        return drive(self._conversation.turn(now, self._ids.__next__), self._world)


class EverturnWithBytes(Everturn):
    """The same, and the body of the request is written: what a caller waits for in all."""

    def turn(self) -> None:
        super().turn()
        self._body = self._last.request().to_bytes()


def _nobody(body: bytes, betas: Sequence[str]) -> RawResponse:
    raise SystemExit("a turn asked a model, and none of the measured turns should")


def setting_for(kept: str) -> ConversationSettings:
    model = find_model(MODEL)
    options = msgspec.structs.replace(get_policy(kept).options, compact=CompactSettings(strategies=("fork",)))
    if model is None:
        raise SystemExit(f"everturn knows no model {MODEL!r}; name one in bench/peers/ours.py")
    model = replace(model, window=ENDLESS)
    return ConversationSettings(
        model=model,
        capabilities=ANTHROPIC,
        options=options,
        costs=TwinCosts(model),
        preamble=coding_preamble(),
        parameters=KeyParameters(choose_ttl("main", "conversation", options.cache.ttl, ANTHROPIC)),
        fields={"max_tokens": 8_000},
        transcript="session.jsonl",
    )


def _as_predicted(said: Prediction) -> Usage:
    return Usage(
        input_tokens=said.plain,
        cache_read_input_tokens=said.read,
        cache_creation_input_tokens=said.write_5m + said.write_1h,
        cache_creation=CacheCreation(said.write_5m, said.write_1h),
    )


def time_of(records: Sequence[Record]) -> datetime:
    return next(filter(None, map(record_time, reversed(records))), datetime(2026, 1, 1, tzinfo=UTC))


class Compacting:
    """A history that is compacted once, with the summarizer that everyone has."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._talk = Conversation(setting_for(TIMED), records)
        self._now = time_of(records)
        self._ids = (f"bench-{number}" for number in count())
        self._world = OfflineEffectHandler(lambda: self._talk.log.view.records, lambda request, text: Usage())
        drive(self._talk.turn(self._now, self._ids.__next__), self._world)

    def decide(self) -> None:
        asked = CompactionRequest(trigger="manual")
        made = drive(self._talk.compact(asked, self._now, self._ids.__next__), self._world)
        if not isinstance(made, Compaction):
            raise SystemExit(f"everturn did not compact: {made.why}")

    def request(self) -> Request:
        return Request(model=MODEL, messages=tuple(flatten(self._talk.log.view).messages))
