"""One thread, played through the engine under a scheme: the engine decides, the recording speaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Final

import msgspec

from everturn.decide.cache_breaks import Break
from everturn.decide.compact.ground import CompactionStyle
from everturn.decide.compact.values import Compaction
from everturn.decide.effects import Failure
from everturn.decide.retention import retention
from everturn.engine import Conversation, Setting, Turn
from everturn.history.blocks import Block, block_from_fields, result_block, text_block, text_of
from everturn.history.edits import Cleared, Offloaded, Trimmed, Undone
from everturn.history.log import View
from everturn.history.messages import Message
from everturn.history.records import Record, Reply, Usage
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model import Model
from everturn.measure.prediction import Prediction
from everturn.measure.prefix_cache import PrefixCache
from everturn.replay.acts import Act, Acts, all_records
from everturn.replay.counting import Scaled, head_of
from everturn.replay.offline_world import OfflineWorld, drive
from everturn.replay.schemes import Scheme
from everturn.replay.simulated import CallSource, Left, SimulatedCall
from everturn.replay.till import (
    LastSent,
    Witness,
    dollars,
    is_worth_it,
    prompt_of,
    rates_at,
    refresh_times,
    sent,
    sizes,
    usage_of,
)
from everturn.replay.uses import Fault, Visibility
from everturn.view.cache_key import salts
from everturn.view.flatten import flatten
from everturn.view.forks import CacheSafe, fork
from everturn.view.fragments.summary_prompt import summary_prompt
from everturn.view.lifetime import KeyParameters, Lifetime
from everturn.view.requests import fork_request
from everturn.wire.anthropic import Request

# What a call of a tool takes that fetches something again: a name, a path, a range (recorded calls of Read
# and Grep have 80 to 160 tokens).
FETCHING_TOKENS: Final = 120
# Less read than the last call left behind, by more than both, is a break: as the detector has it (CB-2).
_DROP_SHARE: Final = 0.05
_DROP_TOKENS: Final = 2_000
_KEPT: Final = ("user_instructions", "paths", "identifiers", "errors")


class Cast(msgspec.Struct, frozen=True):
    """Who speaks in a thread: models and their counting by recorded name, and the size of the head."""

    models: Mapping[str, Model]
    costs: Mapping[str, Scaled]
    head_tokens: int


class Seen(msgspec.Struct):
    """What is in sight in a thread, and the numbers of its calls by the records of their replies."""

    visible: Visibility
    numbers: Mapping[str, int]


class Player:
    def __init__(
        self,
        acts: Acts,
        cast: Cast,
        scheme: Scheme,
        cache: PrefixCache,
        *,
        seen: Seen | None = None,
        witness: Witness | None = None,
    ) -> None:
        self._acts, self._cast, self._scheme, self._cache = acts, cast, scheme, cache
        self._witness = witness
        self._ids = (f"{acts.thread}-{number:06d}" for number in count(1))
        self._head, block = head_of(acts.thread, cast.head_tokens)
        for costs in cast.costs.values():
            costs.fix(block, cast.head_tokens)
        self._forecast = LastSent(cache)
        self._model, self._costs = self._who(acts.calls[0])
        self._talk = Conversation(self._setting(), forecast=self._forecast)
        self._visible = seen.visible if seen else _Blind()
        self._numbers = seen.numbers if seen else {}
        self._calls: list[SimulatedCall] = []
        self._act = acts.calls[0]
        # What the last call left in the cache, in tokens, and when the cache was last touched.
        self._left_behind = 0
        self._touched: datetime | None = None
        self.ended_early = ""

    # ── the thread from top to bottom ────────────────────────────────────────────────────────────

    def play(self) -> Sequence[SimulatedCall]:
        for act in self._acts.calls:
            self._act = act
            for record in act.before:
                self._hear(record)
            self._cast_for(act)
            self._keep_alive(act.at)
            if not self._call(act):
                return self._calls
        for record in self._acts.after:
            self._hear(record)
        return self._calls

    def _call(self, act: Act) -> bool:
        """The request of an act, what it lacks first; False where it does not fit into the window."""
        turn = self._turn_that_fits(act)
        if turn is None:
            return False
        if missing := self._visible.faults(self._number_of(act)):
            self._fetch(turn, act, missing)
            turn = self._turn_that_fits(act)
            if turn is None:
                return False
        output = self._costs.all(block for record in act.reply for block in record.blocks)
        usage = usage_of(turn.prediction, output)
        self._settle(turn, "main", output, [_with_usage(each, act.model, usage) for each in act.reply], ())
        return True

    def _turn_that_fits(self, act: Act) -> Turn | None:
        turn = self._turn(act.at)
        if turn.prediction.total > self._model.window and self._talk.setting.compaction is not None:
            made = drive(self._talk.overflowed(act.at, self._new_id), self._world(act.at))
            if isinstance(made, Compaction):
                self._saw(made.records)
                turn = self._turn(act.at)
        if turn.prediction.total <= self._model.window:
            return turn
        self.ended_early = (
            f"{self._acts.thread}: call {act.number} of {len(self._acts.calls)} has "
            f"{turn.prediction.total:,} tokens, and the window {self._model.window:,}"
        )
        return None

    def _turn(self, at: datetime) -> Turn:
        turn: Turn = drive(self._talk.turn(at, self._new_id), self._world(at))
        self._saw(turn.appended)
        return turn

    # ── what the recording adds ──────────────────────────────────────────────────────────────────

    def _hear(self, record: Record) -> None:
        if record.compact_summary and self._scheme.compacts == "recorded":
            self._recorded_compaction(record)
        self._talk.add(record)
        self._saw((record,))

    def _recorded_compaction(self, summary: Record) -> None:
        """The call that wrote a recorded summary is in no recording, and was paid for all the same."""
        at = max(self._act.at if self._touched is None else self._touched, self._touched or self._act.at)
        safe = CacheSafe(
            self._model.id,
            self._head,
            self._talk.setting.parameters,
            flatten(self._talk.log.view).messages,
            {},
            self._talk._marks,  # pyright: ignore[reportPrivateUsage]
        )
        asked = Message("user", (text_block(summary_prompt("full", "")),))
        request = fork_request(fork(safe, (asked,)), ANTHROPIC)
        self._bill_summary(request, "\n".join(map(text_of, summary.blocks)), at)

    # ── what the policy adds ─────────────────────────────────────────────────────────────────────

    def _world(self, at: datetime) -> OfflineWorld:
        return OfflineWorld(
            lambda: self._talk.log.view.records, lambda request, text: self._bill_summary(request, text, at)
        )

    def _bill_summary(self, request: Request, text: str, at: datetime) -> Usage | Failure:
        salt = salts(self._model, self._talk.setting.parameters)
        prompt = prompt_of(request, self._costs, salt, ANTHROPIC, self._model.min_cache)
        if prompt.total > self._model.window:
            return Failure(
                "too_long", f"prompt is too long: {prompt.total} tokens > {self._model.window} maximum"
            )
        parts = sent(self._cache, prompt, at)
        output = self._costs.block(text_block(text))
        self._note(_Noted("compact", at, parts, output, "writes a summary"), request, sizes(prompt))
        return usage_of(parts, output)

    def _keep_alive(self, now: datetime) -> None:
        prompt, last, ttl = self._forecast.prompt, self._touched, self._scheme.ttl
        if not self._scheme.refresh or prompt is None or last is None:
            return
        times = refresh_times(last, now, ttl)
        rates = rates_at(self._model, now, prompt.total)
        if not times or not is_worth_it(
            len(times), self._left_behind, prompt.total - self._left_behind, rates, ttl
        ):
            return
        for at in times:
            parts = sent(self._cache, prompt, at)
            self._note(_Noted("refresh", at, parts, 0, "keeps the prefix alive"), None, sizes(prompt))

    def _fetch(self, turn: Turn, act: Act, missing: Sequence[Fault]) -> None:
        """The model asks for what it cannot see, and is shown it: from there on it is part of the context."""
        tokens = sum(fault.tokens for fault in missing)
        call = f"fetch-{self._acts.thread}-{act.number}"
        asks = block_from_fields(
            {
                "type": "tool_use",
                "id": call,
                "name": "Read",
                "input": {"again": [fault.block for fault in missing]},
            }
        )
        shown = result_block(call, f"[shown again: {tokens} tokens]")
        self._costs.fix(asks, FETCHING_TOKENS)
        self._costs.fix(shown, tokens)
        usage = usage_of(turn.prediction, FETCHING_TOKENS)
        reply = Reply(f"msg-{call}", self._model.id, "tool_use", usage)
        stamp = act.at.isoformat()
        said = Record(kind="assistant", uuid=self._new_id(), timestamp=stamp, blocks=(asks,), reply=reply)
        self._settle(turn, "fault", FETCHING_TOKENS, [said], missing)
        for fault in missing:
            self._visible.fetched_as(fault, call)
        self._talk.add(Record(kind="user", uuid=self._new_id(), timestamp=stamp, blocks=(shown,)))

    def _number_of(self, act: Act) -> int:
        """The call by the number that the index of uses has for it; 0 where it has none."""
        return next((self._numbers[each.uuid] for each in act.reply if each.uuid in self._numbers), 0)

    # ── bookkeeping ──────────────────────────────────────────────────────────────────────────────

    def _settle(
        self, turn: Turn, source: CallSource, output: int, said: Sequence[Record], missing: Sequence[Fault]
    ) -> None:
        at, parts = self._act.at, turn.prediction
        settled = self._talk.replied(said, usage_of(parts, output), at)
        broke = (
            settled.verdict.why
            if isinstance(settled.verdict, Break)
            else _broken_by(turn, parts, self._left_behind)
        )
        self._left_behind = parts.read + parts.write_5m + parts.write_1h
        noted = _Noted(source, at, parts, output, _why(turn), _cleared(turn.appended), broke, tuple(missing))
        prompt = self._forecast.prompt
        watched = self._witness is not None and prompt is not None
        self._note(noted, turn.request() if watched else None, sizes(prompt) if watched and prompt else ())
        for record in said:
            self._visible.see(record)

    def _note(self, noted: _Noted, request: Request | None, blocks: Sequence[int]) -> None:
        parts = noted.parts
        call = SimulatedCall(
            thread=self._acts.thread,
            number=self._act.number,
            at=noted.at,
            source=noted.source,
            read=parts.read,
            write_5m=parts.write_5m,
            write_1h=parts.write_1h,
            plain=parts.plain,
            output=noted.output,
            dollars=dollars(self._model, noted.at, parts, noted.output),
            context=parts.total,
            cleared=noted.cleared,
            why=noted.why,
            broke=noted.broke,
            faults=noted.faults,
            model=self._model.id,
        )
        self._touched = noted.at
        self._calls.append(call)
        if self._witness is not None:
            self._witness.see(call, request, blocks)

    def _saw(self, records: Iterable[Record]) -> None:
        """Tell what became visible, and what no longer is."""
        is_replaced = False
        for record in records:
            self._visible.see(record)
            is_replaced = is_replaced or record.compact_summary or isinstance(record.edit, Trimmed | Undone)
        if is_replaced:
            self._visible.show(self._talk.log.view)

    def _new_id(self) -> str:
        return next(self._ids)

    def _who(self, act: Act) -> tuple[Model, Scaled]:
        return self._cast.models[act.model], self._cast.costs[act.model]

    def _cast_for(self, act: Act) -> None:
        model, costs = self._who(act)
        if costs is not self._costs or model is not self._model:
            self._model, self._costs = model, costs
            self._talk.setting = self._setting()

    def _setting(self) -> Setting:
        compacts = self._scheme.compacts == "automatic"
        return Setting(
            model=self._model,
            capabilities=ANTHROPIC,
            policy=self._scheme.policy,
            costs=self._costs,
            head=self._head,
            parameters=KeyParameters(Lifetime(self._scheme.ttl, "the scheme says so")),
            source="main" if self._acts.thread == "main" else f"agent:{self._acts.thread}",
            fields={"max_tokens": self._model.max_output},
            compaction=CompactionStyle(ways=("fork", "direct", "extract")) if compacts else None,
        )

    def left_of(self, whole: Acts) -> dict[str, Left]:
        """What mattered in the whole thread and still stands in what would be sent now (BY-6)."""
        shown = flatten(self._talk.log.view).messages
        text = "\n".join(_words(block) for message in shown for block in message.blocks)
        parts = retention(tuple(all_records(whole)), text).parts
        return {name: Left(parts[name].kept, parts[name].total) for name in _KEPT}


class _Noted(msgspec.Struct, frozen=True):
    source: CallSource
    at: datetime
    parts: Prediction
    output: int
    why: str = ""
    cleared: int = 0
    broke: str = ""
    faults: tuple[Fault, ...] = ()


class _Blind:
    """No uses are known: nothing is ever missing."""

    def see(self, record: Record) -> None: ...
    def show(self, view: View) -> None: ...
    def fetched_as(self, fault: Fault, name: str) -> None: ...
    def faults(self, call: int) -> tuple[Fault, ...]:
        return ()


def _with_usage(record: Record, model: str, usage: Usage) -> Record:
    reply = record.reply or Reply(model=model)
    return msgspec.structs.replace(record, reply=msgspec.structs.replace(reply, usage=usage))


def _words(block: Block) -> str:
    """Everything in a block that could name something: a call's input is part of it."""
    return text_of(block) or (block.raw.decode(errors="replace") if block.is_call else "")


def _cleared(records: Iterable[Record]) -> int:
    edits = [record.edit for record in records]
    cleared = sum(len(edit.calls) for edit in edits if isinstance(edit, Cleared))
    return cleared + sum(isinstance(edit, Offloaded) for edit in edits)


def _why(turn: Turn) -> str:
    done = [turn.plan.why] if turn.plan.kind not in ("none", "waits") else []
    if isinstance(turn.compacted, Compaction):
        made = turn.compacted
        done.append(f"compaction from {made.tokens_before:,} to {made.tokens_after:,} tokens")
    return "; ".join(done)


def _broken_by(turn: Turn, parts: Prediction, left_behind: int) -> str:
    """What we did ourselves, where that cost the prefix; "" where the prefix was read."""
    lost = left_behind - parts.read
    if lost <= max(_DROP_TOKENS, left_behind * _DROP_SHARE):
        return ""
    if isinstance(turn.compacted, Compaction):
        return "our own compaction"
    if turn.plan.kind not in ("none", "waits"):
        return f"our own edit ({turn.plan.kind})"
    return "the prefix is another one"
