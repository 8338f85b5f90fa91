"""Runs one thread through the engine under a policy. The engine plans, the recording replies."""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import count
from typing import Final

import msgspec

from everturn.decide.compact.values import Compaction
from everturn.engine import Conversation, ConversationSettings, Turn
from everturn.history.blocks import Block, block_from_fields, result_block
from everturn.history.edits import Edit, ToldAsText
from everturn.history.records import Record, ReplyMeta, Usage, make_edit_record
from everturn.measure.model import Model
from everturn.measure.outline import Preamble
from everturn.measure.prefix_cache import PrefixCache, Ttl
from everturn.replay.playing.break_reasons import BreakReasons
from everturn.replay.playing.cache_billing import CacheEvent, LastPromptForecast, usage_from_prediction
from everturn.replay.playing.call_log import (
    CallLog,
    RequestObserver,
    UnpricedCall,
    count_cleared,
    describe_edits,
)
from everturn.replay.playing.counting import PreambleSizes, ScaledCosts, make_stand_in_preamble
from everturn.replay.playing.offline_effects import OfflineEffectHandler, SummaryWriter
from everturn.replay.playing.pause_calls import PauseCalls
from everturn.replay.playing.refetch_tracker import RefetchTracker
from everturn.replay.playing.steps import MAIN_THREAD, ReplayStep, ReplayThread, is_past
from everturn.replay.playing.summary_billing import SummaryBilling
from everturn.replay.playing.thinking import drop_stripped, make_thought, thinking_parameter
from everturn.replay.playing.thread_models import PROVIDER, CallingModel, ThreadModels
from everturn.replay.policies import ReplayPolicy
from everturn.replay.refetches import Refetch
from everturn.replay.runs import CallSource, SimulatedCall
from everturn.session.drivers import drive
from everturn.view.breakpoints import Breakpoints
from everturn.view.cache_key import thinking_mode
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.view.tool_loop import unsendable_calls

# Output tokens of a tool call that fetches something again: a name, a path, a range (recorded calls of Read
# and Grep have 80 to 160 tokens).
FETCHING_TOKENS: Final = 120


class EditAdvisor(msgspec.Struct, frozen=True):
    """Proposes an edit before a call. A bound uses this (`replay/bounds/clears_only.py`)."""

    edit: Callable[["Player", ReplayStep], Edit | None] = lambda player, step: None


# Called before each call of a thread, after what precedes it was added (`anchoring.py`).
StepObserver = Callable[["Player", ReplayStep], None]


class Player:
    # Those of the current step.
    model: Model
    costs: ScaledCosts

    def __init__(
        self,
        thread: ReplayThread,
        thread_models: ThreadModels,
        policy: ReplayPolicy,
        cache: PrefixCache,
        *,
        tracker: RefetchTracker,
        advisor: EditAdvisor,
        observer: RequestObserver | None = None,
        writer: SummaryWriter | None = None,
        before_call: StepObserver | None = None,
    ) -> None:
        self.thread, self._thread_models, self.policy = thread, thread_models, policy
        self.ttl: Ttl = thread_models.ttl
        self._tracker, self._advisor, self._writer = tracker, advisor, writer
        self._ids = (f"{thread.name}-{number:06d}" for number in count(1))
        self._before_call = before_call
        self.preamble_sizes, self._preamble = thread_models.preamble, Preamble()
        self._set_preamble(thread_models.preamble)
        self.forecast = LastPromptForecast(cache, finds_new=policy.compacts == "recorded")
        self._step = thread.calls[0]
        self.model, self.costs = self._model_and_costs(self._step)
        self.conversation = Conversation(self._settings(), forecast=self.forecast)
        self.call_log = CallLog(thread.name, observer)
        self._breakpoints = Breakpoints()
        self._reasons = BreakReasons(self.call_log, self.ttl)
        self._pauses = PauseCalls(policy, cache, self.forecast, self.call_log, self.ttl)
        self._summaries = SummaryBilling(self.conversation, cache, self.forecast, self.call_log)
        self.ended_early = ""

    # ── the whole thread ─────────────────────────────────────────────────────────────────────────

    def play(self) -> Sequence[SimulatedCall]:
        for step in self.thread.calls:
            self._step = step
            self._pauses.hold(self.conversation, self.model, step.number, step.at)
            for record in step.before:
                self.add_recorded(record)
            # The entry that a refresh keeps alive is one of the model that answered last.
            self._pauses.refresh(self.model, step.number, step.at)
            self._switch_model(step)
            self.forecast.event = self._thread_models.events.get(step.number)
            self.conversation.economy.kept_anyway = _kept_anyway(self.forecast.event)
            self.forecast.warm = self._thread_models.warm.get(step.number, 0)
            self._apply_advice(step)
            if self._before_call is not None:
                self._before_call(self, step)
            if not self._call(step):
                return self.call_log.calls
        if self.thread.name == MAIN_THREAD:
            self._pauses.hold(self.conversation, self.model, self._step.number, None)
        for record in self.thread.after:
            self.add_recorded(record)
        if self.policy.blind and self.thread.name == MAIN_THREAD:
            # A sub-agent has finished; only of the main conversation nobody knows that it has.
            self._pauses.refresh(self.model, self._step.number, None)
        return self.call_log.calls

    def _call(self, step: ReplayStep) -> bool:
        """Sends the request of a step, after a refetch if content is missing. False if it does not fit the
        window.
        """
        turn = self._turn_that_fits(step)
        if turn is not None and (missing := self._tracker.refetch_missing(step)):
            self._refetch(turn, step, missing)
            turn = self._turn_that_fits(step)
        if turn is None:
            return False
        output = self.costs.all(block for record in step.reply for block in record.blocks)
        usage = usage_from_prediction(turn.prediction, output)
        self._finish_call(turn, "main", [_reply_record(each, step, usage) for each in step.reply], usage)
        return True

    def _turn_that_fits(self, step: ReplayStep) -> Turn | None:
        turn = self.plan(step.at)
        is_over = turn.prediction.total > self.model.window
        if is_over and self.conversation.setting.options.may_compact:
            made = drive(self.conversation.overflowed(step.at, self.new_id), self._effects(step.at))
            if isinstance(made, Compaction):
                self._tracker.observe(made.records, self.conversation.log.view)
                turn = self.plan(step.at)
        # A recorded call did fit. If our count says otherwise, the count is wrong.
        if turn.prediction.total <= self.model.window or self.policy.compacts == "recorded":
            return turn
        self.ended_early = (
            f"{self.thread.name}: call {step.number} of {len(self.thread.calls)} has "
            f"{turn.prediction.total:,} tokens, more than the window of {self.model.window:,}"
        )
        return None

    def plan(self, at: datetime) -> Turn:
        """The next request, as the engine would send it now."""
        turn = self._turn(at)
        if (edit := drop_stripped(self.model, turn.captured.messages, self.conversation.log)) is not None:
            self._append_edit(edit, at)
            turn = self._turn(at)
        parameters = turn.captured.parameters
        mode = thinking_mode(self.model, parameters)
        calls = unsendable_calls(turn.captured.messages, mode)
        if calls and self.policy.compacts == "recorded":
            # The API accepted what was recorded, so this call did not ask for thinking.
            self._step = msgspec.structs.replace(self._step, thinks=False)
            self.conversation.setting = self._settings()
            turn = self._turn(at)
        elif calls:
            # The policy has removed the start of a tool loop. The engine tells the rest as text only where it
            # decides about thinking; here the recording does.
            why = f"with thinking {mode}, the API refuses a tool loop without thinking"
            self._append_edit(ToldAsText(calls, why), at)
            turn = self._turn(at)
        return turn

    def _turn(self, at: datetime) -> Turn:
        turn: Turn = drive(self.conversation.turn(at, self.new_id), self._effects(at))
        self._tracker.observe(turn.appended, self.conversation.log.view)
        return turn

    def _finish_call(
        self,
        turn: Turn,
        source: CallSource,
        said: Sequence[Record],
        usage: Usage,
        missing: tuple[Refetch, ...] = (),
    ) -> None:
        """Adds the reply to the history and the call to the log."""
        found, lost_behind = self.forecast.found, self.forecast.lost_behind
        self._reasons.note_losses(self.forecast)
        settled = self.conversation.record_reply(said, usage, self._step.at)
        self._tracker.observe(said, self.conversation.log.view)
        entry = UnpricedCall(
            source=source,
            number=self._step.number,
            at=self._step.at,
            parts=turn.prediction,
            output=usage.output_tokens,
            why=describe_edits(turn),
            cleared=count_cleared(turn.appended),
            broke=self._reasons.explain(turn, settled.verdict, self._step.at),
            refetches=missing,
            found=found,
            lost_behind=lost_behind,
        )
        self._breakpoints = turn.breakpoints
        request = turn.request() if self.call_log.is_observed else None
        self._pauses.note_sent(request, turn.captured.parameters.thinking)
        self.call_log.write(entry, self.model, request, self.forecast.prompt)

    # ── what the recording adds ──────────────────────────────────────────────────────────────────

    def add_recorded(self, record: Record) -> None:
        if record.compact_summary and self.policy.compacts == "recorded" and not is_past(record):
            at = self.call_log.last_touched_at or self._step.at
            self._summaries.bill_recorded(record, at, self._step.number, self._calling, self._breakpoints)
        self._reasons.note_record(record)
        self.conversation.add(record)
        self._tracker.observe((record,), self.conversation.log.view)

    # ── what the policy adds ─────────────────────────────────────────────────────────────────────

    def _effects(self, at: datetime) -> OfflineEffectHandler:
        return OfflineEffectHandler(
            lambda: self.conversation.log.view.records,
            lambda request, text: self._summaries.bill(request, text, at, self._step.number, self._calling),
            self._writer,
            summary_tokens=self.policy.options.compact.summary_tokens,
        )

    def _apply_advice(self, step: ReplayStep) -> None:
        edit = self._advisor.edit(self, step)
        if edit is not None:
            self._append_edit(edit, step.at)
            self.conversation.detector.deleted(self.conversation.setting.source)
            self._reasons.note_bound()

    def _append_edit(self, edit: Edit, at: datetime) -> None:
        last = self.conversation.log.records[-1] if self.conversation.log.records else None
        record = make_edit_record(edit, uuid=self.new_id(), after=last, at=at)
        self.conversation.add(record)
        self._tracker.observe((record,), self.conversation.log.view)

    def _refetch(self, turn: Turn, step: ReplayStep, missing: tuple[Refetch, ...]) -> None:
        """The model requests content that it no longer sees. The result becomes part of the context."""
        tokens = sum(refetch.tokens for refetch in missing)
        call = f"fetch-{self.thread.name}-{step.number}"
        wanted = {"again": [refetch.block for refetch in missing]}
        asks = block_from_fields({"type": "tool_use", "id": call, "name": "Read", "input": wanted})
        shown = result_block(call, f"[shown again: {tokens} tokens]")
        thinks = self._thoughts_before(call, turn)
        self.costs.set_tokens(asks, FETCHING_TOKENS - len(thinks))
        self.costs.set_tokens(shown, tokens)
        usage, stamp = usage_from_prediction(turn.prediction, FETCHING_TOKENS), step.at.isoformat()
        reply = ReplyMeta(f"msg-{call}", self.model.id, "tool_use", usage)
        said = Record(
            kind="assistant", uuid=self.new_id(), timestamp=stamp, blocks=(*thinks, asks), reply=reply
        )
        self._finish_call(turn, "refetch", [said], usage, missing)
        self._tracker.mark_fetched(missing, call)
        self.conversation.add(Record(kind="user", uuid=self.new_id(), timestamp=stamp, blocks=(shown,)))

    def _thoughts_before(self, call: str, turn: Turn) -> tuple[Block, ...]:
        """In the mode `enabled` a reply starts with thinking, or the API refuses it in the next request."""
        if thinking_mode(self.model, turn.captured.parameters) != "enabled":
            return ()
        block = make_thought(call)
        self.costs.set_tokens(block, 1)
        return (block,)

    # ── models ───────────────────────────────────────────────────────────────────────────────────

    def new_id(self) -> str:
        return next(self._ids)

    def resize_preamble(self, sizes: PreambleSizes) -> None:
        """System prompt and tools of these sizes from the current step on."""
        self._set_preamble(sizes)
        self.conversation.setting = self._settings()

    def _set_preamble(self, sizes: PreambleSizes) -> None:
        self._preamble, blocks = make_stand_in_preamble(self.thread.name, sizes)
        self.preamble_sizes = sizes
        for costs in self._thread_models.costs.values():
            for block, tokens in blocks.items():
                costs.set_tokens(block, tokens)

    @property
    def recorded_model(self) -> str:
        """The model of the current step, as the recording names it."""
        return self._step.model

    def _model_and_costs(self, step: ReplayStep) -> tuple[Model, ScaledCosts]:
        return self._thread_models.models[step.model], self._thread_models.costs[step.model]

    @property
    def _calling(self) -> CallingModel:
        return CallingModel(self.model, self.costs)

    def _switch_model(self, step: ReplayStep) -> None:
        model, costs = self._model_and_costs(step)
        thinking = thinking_parameter(model, step)
        is_same = costs is self.costs and model is self.model
        if (preamble := self._thread_models.preambles.get(step.number)) is not None:
            self._set_preamble(preamble)
            is_same = False
        if not is_same or thinking != self.conversation.setting.parameters.thinking:
            self.model, self.costs = model, costs
            self.conversation.setting = self._settings()

    def _settings(self) -> ConversationSettings:
        return ConversationSettings(
            model=self.model,
            capabilities=PROVIDER,
            options=self.policy.options,
            costs=self.costs,
            preamble=self._preamble,
            parameters=KeyParameters(
                TtlChoice(self.ttl, "set by the replay policy"),
                thinking=thinking_parameter(self.model, self._step),
            ),
            # Whether the model thinks is a choice of the user, whatever the policy.
            decides="caller",
            source=MAIN_THREAD if self.thread.name == MAIN_THREAD else f"agent:{self.thread.name}",
            fields={"max_tokens": self.model.max_output},
        )


def _kept_anyway(event: CacheEvent | None) -> int:
    """What the recording shows that the provider kept beyond its time: doing nothing would have read it."""
    return event.tokens if event is not None and event.kind == "found" else 0


def _reply_record(record: Record, step: ReplayStep, usage: Usage) -> Record:
    """A record of the recorded reply, with the usage and time of this run."""
    reply = msgspec.structs.replace(record.reply or ReplyMeta(model=step.model), usage=usage)
    return msgspec.structs.replace(record, reply=reply, timestamp=step.at.isoformat())
