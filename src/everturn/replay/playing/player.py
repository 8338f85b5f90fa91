"""One thread, played through the engine under a scheme: the engine decides, the recording speaks."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Final

import msgspec

from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.decide.compact.context import CompactionOptions
from everturn.decide.compact.values import Compaction
from everturn.decide.effects import ModelFailure
from everturn.engine import Conversation, ConversationSettings, Turn
from everturn.history.blocks import block_from_fields, result_block, text_block, text_of
from everturn.history.edits import Cleared, Compacted, Edit
from everturn.history.messages import Message
from everturn.history.records import Record, ReplyMeta, Usage, make_edit_record
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model import Model
from everturn.measure.prefix_cache import PrefixCache, PromptLayout, Ttl
from everturn.replay.playing.cache_billing import (
    LastPromptForecast,
    bill_request,
    block_sizes,
    build_prompt,
    max_refreshes,
    rates_at,
    refresh_times,
    usage_from_prediction,
)
from everturn.replay.playing.call_log import (
    CallLog,
    RequestObserver,
    UnpricedCall,
    count_cleared,
    describe_edits,
    describe_own_edit,
)
from everturn.replay.playing.counting import ScaledCosts, make_stand_in_preamble
from everturn.replay.playing.offline_effects import OfflineEffectHandler, SummaryWriter
from everturn.replay.playing.refetch_tracker import RefetchTracker
from everturn.replay.playing.steps import ReplayStep, ReplayThread
from everturn.replay.policies import ReplayPolicy
from everturn.replay.refetches import Refetch
from everturn.replay.runs import CallSource, SimulatedCall
from everturn.session.drivers import drive
from everturn.view.breakpoints import Breakpoints
from everturn.view.cache_key import salts
from everturn.view.flatten import flatten
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.fragments.summary_prompt import summary_prompt
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.view.requests import build_fork_request
from everturn.wire.anthropic import Request

# What a call of a tool takes that fetches something again: a name, a path, a range (recorded calls of Read
# and Grep have 80 to 160 tokens).
FETCHING_TOKENS: Final = 120


class ThreadModels(msgspec.Struct, frozen=True):
    """Who speaks in a thread: models and their counting by recorded name, and the size of the head."""

    models: Mapping[str, Model]
    costs: Mapping[str, ScaledCosts]
    head_tokens: int
    # System prompt and tools, where the recording has them.
    preamble_text: str = ""
    # How long its prefixes live.
    ttl: Ttl = "5m"


class EditAdvisor(msgspec.Struct, frozen=True):
    """Whispers an edit before a call: how an oracle takes part (`replay/bounds/oracle.py`)."""

    edit: Callable[["Player", ReplayStep], Edit | None] = lambda player, act: None


class Player:
    def __init__(
        self,
        acts: ReplayThread,
        cast: ThreadModels,
        scheme: ReplayPolicy,
        cache: PrefixCache,
        *,
        sight: RefetchTracker,
        prompter: EditAdvisor,
        witness: RequestObserver | None = None,
        writer: SummaryWriter | None = None,
    ) -> None:
        self.acts, self._cast, self.scheme, self._cache = acts, cast, scheme, cache
        self.ttl: Ttl = cast.ttl
        self._witness, self._sight, self._prompter, self._writer = witness, sight, prompter, writer
        self._ids = (f"{acts.thread}-{number:06d}" for number in count(1))
        self._head, block = make_stand_in_preamble(acts.thread, cast.head_tokens, cast.preamble_text)
        for costs in cast.costs.values():
            costs.set_tokens(block, cast.head_tokens)
        self._forecast = LastPromptForecast(cache)
        self._act = acts.calls[0]
        self.model, self.costs = self._who(self._act)
        self.talk = Conversation(self._setting(), forecast=self._forecast)
        self.journal = CallLog(acts.thread)
        self._marks = Breakpoints()
        self._last_request: Request | None = None
        # What the recording did to its own context since the last call.
        self._recorded_edit = ""
        self.ended_early = ""

    # ── the thread from top to bottom ────────────────────────────────────────────────────────────

    def play(self) -> Sequence[SimulatedCall]:
        for act in self.acts.calls:
            self._act = act
            for record in act.before:
                self._hear(record)
            self._switch_model(act)
            self._keep_alive(act.at)
            self._apply_advice(act)
            if not self._call(act):
                return self.journal.calls
        for record in self.acts.after:
            self._hear(record)
        return self.journal.calls

    def _call(self, act: ReplayStep) -> bool:
        """The request of an act, what it lacks first; False where it does not fit into the window."""
        turn = self._turn_that_fits(act)
        if turn is not None and (missing := self._sight.missing(act)):
            self._fetch(turn, act, missing)
            turn = self._turn_that_fits(act)
        if turn is None:
            return False
        output = self.costs.all(block for record in act.reply for block in record.blocks)
        usage = usage_from_prediction(turn.prediction, output)
        self._settle(turn, "main", [_replied(each, act, usage) for each in act.reply], usage)
        return True

    def _turn_that_fits(self, act: ReplayStep) -> Turn | None:
        turn = self._turn(act.at)
        is_over = turn.prediction.total > self.model.window
        if is_over and self.talk.setting.compaction is not None:
            made = drive(self.talk.overflowed(act.at, self._new_id), self._world(act.at))
            if isinstance(made, Compaction):
                self._sight.saw(made.records, self.talk.log.view)
                turn = self._turn(act.at)
        # What was recorded has happened: where our count says otherwise, the count is wrong.
        if turn.prediction.total <= self.model.window or self.scheme.compacts == "recorded":
            return turn
        self.ended_early = (
            f"{self.acts.thread}: call {act.number} of {len(self.acts.calls)} has "
            f"{turn.prediction.total:,} tokens, and the window {self.model.window:,}"
        )
        return None

    def _turn(self, at: datetime) -> Turn:
        turn: Turn = drive(self.talk.turn(at, self._new_id), self._world(at))
        self._sight.saw(turn.appended, self.talk.log.view)
        return turn

    def _settle(
        self,
        turn: Turn,
        source: CallSource,
        said: Sequence[Record],
        usage: Usage,
        missing: tuple[Refetch, ...] = (),
    ) -> None:
        """The call was answered: what it said is history, what it cost is written down."""
        settled = self.talk.record_reply(said, usage, self._act.at)
        self._sight.saw(said, self.talk.log.view)
        entry = UnpricedCall(
            source=source,
            number=self._act.number,
            at=self._act.at,
            parts=turn.prediction,
            output=usage.output_tokens,
            why=describe_edits(turn),
            cleared=count_cleared(turn.appended),
            broke=self._broken_by(turn, settled.verdict),
            faults=missing,
        )
        self._marks, self._recorded_edit = turn.breakpoints, ""
        if self._witness is not None:
            self._last_request = turn.request()
        self._note(entry, self._last_request, self._forecast.prompt)

    def _broken_by(self, turn: Turn, verdict: DetectedBreak | NoBreak) -> str:
        """Why much less was read than was left behind; "" where it was not. We know: it is our own cache."""
        if not self.journal.has_cache_break(turn.prediction):
            return ""
        if self.journal.has_expired(self._act.at, self.ttl):
            return f"the prefix had lapsed ({self.ttl})"
        if known := self._recorded_edit or describe_own_edit(turn):
            return known
        # Pictures are part of the key from the first block on (api-facts 1.6), and no change of ours.
        changed = isinstance(verdict, DetectedBreak) and verdict.changes
        return verdict.why if isinstance(verdict, DetectedBreak) and changed else "the key is another one"

    def _note(self, entry: UnpricedCall, request: Request | None, prompt: PromptLayout | None) -> None:
        call = self.journal.write(entry, self.model)
        if self._witness is not None and request is not None and prompt is not None:
            self._witness(call, request, block_sizes(prompt))

    # ── what the recording adds ──────────────────────────────────────────────────────────────────

    def _hear(self, record: Record) -> None:
        if record.compact_summary and self.scheme.compacts == "recorded":
            self._bill_recorded_summary(record)
        if isinstance(record.edit, Cleared | Compacted):
            self._recorded_edit = (
                f"the recorded {'clearing' if isinstance(record.edit, Cleared) else 'compaction'}"
            )
        self.talk.add(record)
        self._sight.saw((record,), self.talk.log.view)

    def _bill_recorded_summary(self, summary: Record) -> None:
        """The call that wrote a recorded summary is in no recording, and was paid for all the same."""
        messages = flatten(self.talk.log.view).messages
        safe = CapturedRequest(
            self.model.id,
            self._head,
            self.talk.setting.parameters,
            messages,
            self.talk.setting.fields,
            self._marks,
        )
        asked = Message("user", (text_block(summary_prompt("full", "")),))
        written = self.journal.last_touched_at or self._act.at
        request = build_fork_request(make_fork(safe, (asked,)), ANTHROPIC)
        self._bill_summary(request, "\n".join(map(text_of, summary.blocks)), written)

    # ── what the policy adds ─────────────────────────────────────────────────────────────────────

    def _world(self, at: datetime) -> OfflineEffectHandler:
        return OfflineEffectHandler(
            lambda: self.talk.log.view.records,
            lambda request, text: self._bill_summary(request, text, at),
            self._writer,
        )

    def _bill_summary(self, request: Request, text: str, at: datetime) -> Usage | ModelFailure:
        salt = salts(self.model, self.talk.setting.parameters)
        prompt = build_prompt(request, self.costs, salt, ANTHROPIC, self.model.min_cache)
        if prompt.total > self.model.window:
            what = f"prompt is too long: {prompt.total} tokens > {self.model.window} maximum"
            return ModelFailure("too_long", what)
        parts, output = bill_request(self._cache, prompt, at), self.costs.block(text_block(text))
        entry = UnpricedCall(
            source="compact",
            number=self._act.number,
            at=at,
            parts=parts,
            output=output,
            why="writes a summary",
        )
        self._note(entry, request, prompt)
        return usage_from_prediction(parts, output)

    def _keep_alive(self, now: datetime) -> None:
        """Refresh the prefix through a pause, where all of that costs less than writing it again (RP-8)."""
        prompt, last, ttl = self._forecast.prompt, self.journal.last_touched_at, self.ttl
        if not self.scheme.refresh or prompt is None or last is None:
            return
        times, held = refresh_times(last, now, ttl), self.journal.cached_tokens
        rates = rates_at(self.model, now, prompt.total)
        most = max_refreshes(held, prompt.total - held, rates, ttl)
        if len(times) > most and not self.scheme.blind:
            return
        for at in times[:most]:
            parts = bill_request(self._cache, prompt, at)
            entry = UnpricedCall(
                source="refresh",
                number=self._act.number,
                at=at,
                parts=parts,
                output=0,
                why="keeps the prefix alive",
            )
            self._note(entry, self._last_request and _for_nothing(self._last_request), prompt)

    def _apply_advice(self, act: ReplayStep) -> None:
        edit = self._prompter.edit(self, act)
        if edit is not None:
            last = self.talk.log.records[-1] if self.talk.log.records else None
            record = make_edit_record(edit, uuid=self._new_id(), after=last, at=act.at)
            self.talk.add(record)
            self.talk.detector.deleted(self.talk.setting.source)
            self._sight.saw((record,), self.talk.log.view)
            self._recorded_edit = "the oracle's edit"

    def _fetch(self, turn: Turn, act: ReplayStep, missing: tuple[Refetch, ...]) -> None:
        """The model asks for what it cannot see, and is shown it: from there on it is part of the context."""
        tokens = sum(fault.tokens for fault in missing)
        call = f"fetch-{self.acts.thread}-{act.number}"
        wanted = {"again": [fault.block for fault in missing]}
        asks = block_from_fields({"type": "tool_use", "id": call, "name": "Read", "input": wanted})
        shown = result_block(call, f"[shown again: {tokens} tokens]")
        self.costs.set_tokens(asks, FETCHING_TOKENS)
        self.costs.set_tokens(shown, tokens)
        usage, stamp = usage_from_prediction(turn.prediction, FETCHING_TOKENS), act.at.isoformat()
        reply = ReplyMeta(f"msg-{call}", self.model.id, "tool_use", usage)
        said = Record(kind="assistant", uuid=self._new_id(), timestamp=stamp, blocks=(asks,), reply=reply)
        self._settle(turn, "fault", [said], usage, missing)
        self._sight.fetched(missing, call)
        self.talk.add(Record(kind="user", uuid=self._new_id(), timestamp=stamp, blocks=(shown,)))

    # ── who speaks ───────────────────────────────────────────────────────────────────────────────

    def _new_id(self) -> str:
        return next(self._ids)

    def _who(self, act: ReplayStep) -> tuple[Model, ScaledCosts]:
        return self._cast.models[act.model], self._cast.costs[act.model]

    def _switch_model(self, act: ReplayStep) -> None:
        model, costs = self._who(act)
        if costs is not self.costs or model is not self.model:
            self.model, self.costs = model, costs
            self.talk.setting = self._setting()

    def _setting(self) -> ConversationSettings:
        compacts = self.scheme.compacts == "automatic"
        return ConversationSettings(
            model=self.model,
            capabilities=ANTHROPIC,
            policy=self.scheme.policy,
            costs=self.costs,
            head=self._head,
            parameters=KeyParameters(TtlChoice(self.ttl, "the scheme says so")),
            source="main" if self.acts.thread == "main" else f"agent:{self.acts.thread}",
            fields={"max_tokens": self.model.max_output},
            compaction=CompactionOptions(ways=("fork", "direct", "extract")) if compacts else None,
        )


def _replied(record: Record, act: ReplayStep, usage: Usage) -> Record:
    """A piece of the recorded reply as it would have come here: this usage, and the time of its call."""
    reply = msgspec.structs.replace(record.reply or ReplyMeta(model=act.model), usage=usage)
    return msgspec.structs.replace(record, reply=reply, timestamp=act.at.isoformat())


def _for_nothing(request: Request) -> Request:
    """The same request, asking for no answer: it only touches the cache (api-facts 1.9)."""
    return msgspec.structs.replace(request, settings={**request.settings, "max_tokens": 0})
