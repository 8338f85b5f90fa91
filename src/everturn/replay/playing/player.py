"""Runs one thread through the engine under a policy. The engine plans, the recording replies."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

import msgspec

from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.decide.compact.values import Compaction
from everturn.decide.economy.pauses import HOUR
from everturn.decide.effects import ModelFailure
from everturn.engine import Conversation, ConversationSettings, Turn
from everturn.engine.holds import least_output
from everturn.history.blocks import Block, block_from_fields, result_block, text_block, text_of
from everturn.history.edits import Cleared, Compacted, Edit, ThinkingDropped, ToldAsText
from everturn.history.messages import Message, find_last_prompt
from everturn.history.records import Record, ReplyMeta, Usage, make_edit_record
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model import Model
from everturn.measure.model_table import model_or_default
from everturn.measure.outline import Preamble
from everturn.measure.prefix_cache import PrefixCache, PromptLayout, Ttl
from everturn.replay.playing.cache_billing import (
    CacheEvent,
    LastPromptForecast,
    bill_request,
    build_prompt,
    count_blocks,
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
from everturn.replay.playing.counting import PreambleSizes, ScaledCosts, make_stand_in_preamble
from everturn.replay.playing.offline_effects import OfflineEffectHandler, SummaryWriter
from everturn.replay.playing.refetch_tracker import RefetchTracker
from everturn.replay.playing.steps import MAIN_THREAD, ReplayStep, ReplayThread
from everturn.replay.policies import ReplayPolicy
from everturn.replay.refetches import Refetch
from everturn.replay.runs import CallSource, SimulatedCall
from everturn.session.drivers import drive
from everturn.view.breakpoints import Breakpoints
from everturn.view.cache_key import compute_key_salts, thinking_mode
from everturn.view.flatten import flatten
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.fragments.summary_prompt import summary_prompt
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.view.requests import build_fork_request
from everturn.view.tool_loop import unsendable_calls
from everturn.wire.anthropic import Request

# Output tokens of a tool call that fetches something again: a name, a path, a range (recorded calls of Read
# and Grep have 80 to 160 tokens).
FETCHING_TOKENS: Final = 120
# The budget that Claude Code asks for. Recordings do not hold it; it is part of the cache key and constant.
THINKING_BUDGET: Final = 31_999
# Output of a refresh that the API does not accept empty: a few words of thinking and of an answer. An
# assumption; no recording has such a call.
LEAST_REFRESH_OUTPUT: Final = 100
# What the API clears itself is not simulated, so no request asks for it.
PROVIDER: Final = msgspec.structs.replace(ANTHROPIC, context_editing=False)
_IDLE_LIMITS: Final[Mapping[Ttl, str]] = {"5m": "5 min", "1h": "1 h"}
_LOST: Final = "the provider lost the entry, as in the recording"
_LOST_ALL: Final = "system prompt or tools changed or lost, as in the recording"
_KEY_CHANGED: Final = "the cache key changed (for example, an image was added)"


class ThreadModels(msgspec.Struct, frozen=True):
    """The models of a thread and their token counts, by recorded name, and the size of its preamble."""

    models: Mapping[str, Model]
    costs: Mapping[str, ScaledCosts]
    # That of the first call.
    preamble: PreambleSizes
    # The TTL of its cache entries.
    ttl: Ttl = "5m"
    # By call: what the provider's cache did on its own, and the tokens of the preamble that others kept.
    events: Mapping[int, CacheEvent] = {}
    warm: Mapping[int, int] = {}
    # The preambles that begin at a later call: another model was given another one.
    preambles: Mapping[int, PreambleSizes] = {}

    def preamble_at(self, call: int) -> PreambleSizes:
        since = max((number for number in self.preambles if number <= call), default=0)
        return self.preambles.get(since, self.preamble)


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
        self.thread, self._thread_models, self.policy, self._cache = thread, thread_models, policy, cache
        self.ttl: Ttl = thread_models.ttl
        self._observer, self._tracker, self._advisor, self._writer = observer, tracker, advisor, writer
        self._ids = (f"{thread.name}-{number:06d}" for number in count(1))
        self._before_call = before_call
        self.preamble_sizes, self._preamble = thread_models.preamble, Preamble()
        self._set_preamble(thread_models.preamble)
        self.forecast = LastPromptForecast(cache, finds_new=policy.compacts == "recorded")
        self._step = thread.calls[0]
        self.model, self.costs = self._model_and_costs(self._step)
        self.conversation = Conversation(self._settings(), forecast=self.forecast)
        self.call_log = CallLog(thread.name)
        self._breakpoints = Breakpoints()
        self._last_request: Request | None = None
        self._last_thinking: Mapping[str, Any] | None = None
        # Why entries were lost before the current call that the recording lost too; "" if none were.
        self._lost_why = ""
        # What the recording did to its own context since the last call.
        self._recorded_edit = ""
        self.ended_early = ""

    # ── the whole thread ─────────────────────────────────────────────────────────────────────────

    def play(self) -> Sequence[SimulatedCall]:
        for step in self.thread.calls:
            self._step = step
            self._hold_cache(step.at)
            for record in step.before:
                self.add_recorded(record)
            # The entry that a refresh keeps alive is one of the model that answered last.
            self._refresh_cache(step.at)
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
            self._hold_cache(None)
        for record in self.thread.after:
            self.add_recorded(record)
        if self.policy.blind and self.thread.name == MAIN_THREAD:
            # A sub-agent has finished; only of the main conversation nobody knows that it has.
            self._refresh_cache(None)
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
        if (edit := self._drop_stripped(turn.captured.messages)) is not None:
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

    def _drop_stripped(self, messages: Sequence[Message]) -> ThinkingDropped | None:
        """Removes thinking that the API would not show to the model. The engine keeps it while a tool loop
        runs, because the API demands it in the mode `enabled`; here every request is what is billed.
        """
        if self.model.keeps_thinking:
            return None
        prompt = find_last_prompt(messages)
        if not any(block.is_thinking for message in messages[:prompt] for block in message.blocks):
            return None
        kept = {block.raw for message in messages[prompt:] for block in message.blocks if block.is_thinking}
        records = self.conversation.log.view.records
        until = (each.uuid for each in records if any(block.raw in kept for block in each.blocks))
        return ThinkingDropped(
            "", f"{self.model.id} uses only the thinking of the last turn", next(until, "")
        )

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
        event = self.forecast.event
        self._lost_why = "" if lost_behind is None else _LOST_ALL if event and event.loses_all else _LOST
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
            broke=self._explain_break(turn, settled.verdict),
            refetches=missing,
            found=found,
            lost_behind=lost_behind,
        )
        self._breakpoints, self._recorded_edit = turn.breakpoints, ""
        self._last_thinking = turn.captured.parameters.thinking
        if self._observer is not None:
            self._last_request = turn.request()
        self._log_call(entry, self._last_request, self.forecast.prompt)

    def _explain_break(self, turn: Turn, verdict: DetectedBreak | NoBreak) -> str:
        """Why much less was read than the previous call had cached; "" if that did not happen."""
        if not self.call_log.has_cache_break(turn.prediction):
            return ""
        if self._lost_why:
            return self._lost_why
        if self.call_log.has_expired(self._step.at, self.ttl):
            return f"cache expired (idle more than {_IDLE_LIMITS[self.ttl]})"
        if known := self._recorded_edit or describe_own_edit(turn):
            return known
        # Adding an image changes the cache key of all messages (api-facts 1.6), without an edit of ours.
        changed = isinstance(verdict, DetectedBreak) and verdict.changes
        return verdict.why if isinstance(verdict, DetectedBreak) and changed else _KEY_CHANGED

    def _log_call(
        self,
        entry: UnpricedCall,
        request: Request | None,
        prompt: PromptLayout | None,
        model: Model | None = None,
    ) -> None:
        """`model` is the one that was called, if it is not the conversation's own."""
        call = self.call_log.write(entry, model or self.model)
        if self._observer is not None and request is not None and prompt is not None:
            self._observer(call, request, count_blocks(prompt))

    # ── what the recording adds ──────────────────────────────────────────────────────────────────

    def add_recorded(self, record: Record) -> None:
        if record.compact_summary and self.policy.compacts == "recorded":
            self._bill_recorded_summary(record)
        if isinstance(record.edit, Cleared | Compacted):
            self._recorded_edit = (
                f"the recorded {'clearing' if isinstance(record.edit, Cleared) else 'compaction'}"
            )
        self.conversation.add(record)
        self._tracker.observe((record,), self.conversation.log.view)

    def _bill_recorded_summary(self, summary: Record) -> None:
        """Bills the call that wrote a recorded summary. Recordings do not hold it, but it was paid for."""
        messages = flatten(self.conversation.log.view).messages
        safe = CapturedRequest(
            self.model.id,
            self.conversation.setting.preamble,
            self.conversation.setting.parameters,
            messages,
            self.conversation.setting.fields,
            self._breakpoints,
        )
        asked = Message("user", (text_block(summary_prompt("full", "")),))
        written = self.call_log.last_touched_at or self._step.at
        request = build_fork_request(make_fork(safe, (asked,)), PROVIDER)
        self._bill_summary(request, "\n".join(map(text_of, summary.blocks)), written)

    # ── what the policy adds ─────────────────────────────────────────────────────────────────────

    def _effects(self, at: datetime) -> OfflineEffectHandler:
        return OfflineEffectHandler(
            lambda: self.conversation.log.view.records,
            lambda request, text: self._bill_summary(request, text, at),
            self._writer,
            summary_tokens=self.policy.options.compact.summary_tokens,
        )

    def _bill_summary(self, request: Request, text: str, at: datetime) -> Usage | ModelFailure:
        model, costs = self._summary_model_and_costs(request.model)
        # A fork asks for thinking as the call did that it continues, not as the next one will.
        thinking = request.settings.get("thinking")
        parameters = msgspec.structs.replace(self.conversation.setting.parameters, thinking=thinking)
        salt = compute_key_salts(model, parameters)
        prompt = build_prompt(request, costs, salt, PROVIDER, model.min_cache)
        if prompt.total > model.window:
            what = f"prompt is too long: {prompt.total} tokens > {model.window} maximum"
            return ModelFailure("too_long", what)
        parts, output = bill_request(self._cache, prompt, at), costs.block(text_block(text))
        found, lost_behind = self.forecast.hand_over(prompt)
        entry = UnpricedCall(
            source="compact",
            number=self._step.number,
            at=at,
            parts=parts,
            output=output,
            why="writes a summary",
            found=found,
            lost_behind=lost_behind,
        )
        self._log_call(entry, request, prompt, model)
        return usage_from_prediction(parts, output)

    def _refresh_cache(self, now: datetime | None) -> None:
        """Refreshes the cache during a pause, if all refreshes together cost less than a new write (RP-8).

        `now` is the next call; None after the last one. Who does not know that no call follows refreshes then
        too, until that has cost what a new write costs.
        """
        prompt, last, ttl = self.forecast.prompt, self.call_log.last_touched_at, self.ttl
        if not self.policy.refresh or prompt is None or last is None:
            return
        output = 0 if self._may_send_empty() else LEAST_REFRESH_OUTPUT
        held = self.call_log.cached_tokens
        rates = rates_at(self.model, last, prompt.total)
        most = max_refreshes(held, prompt.total - held, rates, ttl, output=output)
        times = refresh_times(last, now, ttl, most=most + 1)
        if len(times) > most and not self.policy.blind:
            return
        for at in times[:most]:
            parts = bill_request(self._cache, prompt, at)
            entry = UnpricedCall(
                source="refresh",
                number=self._step.number,
                at=at,
                parts=parts,
                output=output,
                why="keeps the cache entry from expiring",
            )
            self._log_call(entry, self._last_request and self._refresh_request(self._last_request), prompt)

    def _hold_cache(self, now: datetime | None) -> None:
        """Holds the cache through a pause as the engine decides, without knowing how long it is (EC-2).
        `now` is the next call; None after the last one, which is charged all the same (EC-13).
        """
        last, economy = self.call_log.last_touched_at, self.policy.options.economy
        if not (economy.enabled and economy.holds) or last is None:
            return
        at = last + self.conversation.economy.first_wait
        while now is None or at < now:
            planned = self.conversation.plan_hold(at)
            if planned is None or not planned.decision.holds:
                return
            usage = usage_from_prediction(planned.prediction, least_output(self._last_thinking))
            entry = UnpricedCall(
                source="refresh",
                number=self._step.number,
                at=at,
                parts=planned.prediction,
                output=usage.output_tokens,
                why=planned.decision.why,
            )
            self.conversation.record_hold(planned, usage, at)
            request = planned.request() if self._observer is not None else None
            self._log_call(entry, request, self.forecast.prompt)
            at += timedelta(seconds=HOUR)

    def _may_send_empty(self) -> bool:
        """Whether the API accepts `max_tokens: 0` with the last request: not in the mode `enabled`."""
        return (self._last_thinking or {}).get("type") != "enabled"

    def _refresh_request(self, request: Request) -> Request:
        """The same request, asking for as little as the API accepts: nothing, which only refreshes the cache
        (api-facts 1.9), or one token more than the thinking budget.
        """
        budget = (self._last_thinking or {}).get("budget_tokens", 0)
        least = 0 if self._may_send_empty() else budget + 1
        return msgspec.structs.replace(request, settings={**request.settings, "max_tokens": least})

    def _apply_advice(self, step: ReplayStep) -> None:
        edit = self._advisor.edit(self, step)
        if edit is not None:
            self._append_edit(edit, step.at)
            self.conversation.detector.deleted(self.conversation.setting.source)
            self._recorded_edit = "an edit of the bound"

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
        thought = {"type": "thinking", "thinking": "[not in the recording]", "signature": f"replay-{call}"}
        block = block_from_fields(thought)
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

    def _summary_model_and_costs(self, name: str) -> tuple[Model, ScaledCosts]:
        """The conversation's own, or those of another model that writes the summaries."""
        if name == self.model.id:
            return self.model, self.costs
        model = model_or_default(name).model
        return model, ScaledCosts(model, self.costs.ratio)

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


def thinking_parameter(model: Model, step: ReplayStep) -> Mapping[str, Any] | None:
    """The `thinking` field of a request; None for the model's default."""
    if not step.thinks or not model.thinking:
        return None
    if "adaptive" in model.thinking:
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": min(THINKING_BUDGET, model.max_output - 1)}


def _reply_record(record: Record, step: ReplayStep, usage: Usage) -> Record:
    """A record of the recorded reply, with the usage and time of this run."""
    reply = msgspec.structs.replace(record.reply or ReplyMeta(model=step.model), usage=usage)
    return msgspec.structs.replace(record, reply=reply, timestamp=step.at.isoformat())
