"""Compactions of one conversation: when one is due, what it starts from, and what it leaves in the log.

`decide/compact/` plans a compaction and obtains the summary; here its records are appended, and what is
remembered between compactions is kept (`CompactionState`). `conversation.py` asks for one in each turn.
"""

from datetime import datetime
from functools import partial
from itertools import count

import msgspec

from everturn.decide.betas import required_betas
from everturn.decide.compact.build_records import said_by_hooks
from everturn.decide.compact.chain import chain_of, plan_undo_after_refusal
from everturn.decide.compact.context import CompactionContext, LeastTokens
from everturn.decide.compact.flow import preview_compaction, run_compaction
from everturn.decide.compact.prepare import end_open_search
from everturn.decide.compact.state import CompactionState, usable_notes
from everturn.decide.compact.summary_calls import CallObserver
from everturn.decide.compact.triggers import ActivityState, Proposal, ProposalResponse, is_internal
from everturn.decide.compact.unanswered import room_for_newest
from everturn.decide.compact.values import (
    Compaction,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
)
from everturn.decide.compact.work import is_task_finished
from everturn.decide.effects import AskModel, Flow, ModelAnswer, ModelFailure, emit
from everturn.decide.events import PriceUnknown, SummaryUncached
from everturn.decide.notes.document import Notes
from everturn.decide.thinking import explain_removed, shows_thinking
from everturn.decide.tools import build_tool_table
from everturn.engine.capture import capture_request
from everturn.engine.conversation_state import ConversationState, event_context, thresholds_of
from everturn.engine.economy import Economy
from everturn.engine.values import CompactionOutcome, ConversationSettings, NewId, compaction_disabled
from everturn.engine.view_edits import drop_thinking, end_deletions, tell_unsendable
from everturn.history.edits import Compacted, Undone
from everturn.history.log import View
from everturn.history.records import Record
from everturn.measure.meter import ContextSize
from everturn.measure.model_table import find_model
from everturn.measure.thresholds import ContextThresholds, check_thresholds
from everturn.view.breakpoints import Breakpoints, keep_existing
from everturn.view.forks import CapturedRequest
from everturn.wire.queued_messages import QueuedMessage


class Compactor:
    def __init__(self, state: ConversationState, economy: Economy) -> None:
        self._state, self._economy = state, economy
        self.memory = CompactionState(state.setting.options.compact)
        # The session's notes, if it keeps any: they can be used as a summary (SM-6).
        self.notes: Notes | None = None
        # What the user typed while the model worked in another program, and no record has.
        self.queued: tuple[QueuedMessage, ...] = ()
        # Since the last accepted request: that one was too long, and why a compacted view was refused.
        self._has_overflowed = False
        self._refusal = ""
        # The first record in view that is not what the last request had; "" if all are.
        self.changed_from = ""

    def accepted(self) -> None:
        """A request was answered: earlier refusals no longer count."""
        self.memory.count_reply()
        self._has_overflowed, self._refusal, self.changed_from = False, "", ""

    def compact(self, asked: CompactionRequest, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        """Compact by hand: nothing is appended before it is known that a compaction is made."""
        return (yield from self._compact(asked, self._state.copy(), now, new_id))

    def _compact_for_request(
        self, asked: CompactionRequest, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        """Compact before a request, which needs the edits of a summary call too."""
        return (yield from self._compact(asked, self._state, now, new_id))

    def _compact(
        self, asked: CompactionRequest, sent: ConversationState, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        """Replace the view by a summary of it, with the first strategy that succeeds; or say why not. `sent`
        is what a summary call sends: the conversation itself, or a copy.
        """
        state = self._state
        edits = _make_sendable(sent, self._shared_settings(state.setting), now, new_id)
        context = self._context_of(sent, state.setting, now)
        if context is None:
            return compaction_disabled(state.setting.options)
        context = self.memory.grant_calls(asked, context, now)
        if isinstance(context, CompactionSkipped):
            return context
        observer = CallObserver(
            before_call=partial(self.memory.count_call, now),
            after_call=partial(self._note_summary_call, sent, now),
        )
        follows, unanswered = state.log.view.boundary, self._economy.unanswered(state.setting)
        outcome = yield from run_compaction(asked, context, now=now, new_id=new_id, observer=observer)
        moment = event_context(state.setting, now)
        match outcome:
            case Compaction():
                if sent is not state:
                    state.take_over(sent, edits)
                outcome = _append_behind(state.log.tip, outcome)
                for record in outcome.records:
                    state.add(record)
                # The size that every surface shows from now on.
                outcome = msgspec.structs.replace(outcome, tokens_after=self._next_size)
                self._economy.record_compaction(
                    outcome, now, follows=follows.uuid if follows else "", unanswered=unanswered
                )
                said = yield from self.memory.succeeded(outcome, moment)
                for record in said_by_hooks(said, after=state.log.records[-1], now=now, new_id=new_id):
                    state.add(record)
            case CompactionFailed():
                self._economy.record_attempts(outcome.attempts, now)
                yield from self.memory.failed(outcome, moment)
            case CompactionSkipped():
                self._economy.record_attempts(outcome.attempts, now)
        return outcome

    # ── when one is due ──────────────────────────────────────────────────────────────────────────

    def compact_if_due(
        self, settings: ConversationSettings, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        """Compact if the threshold is reached and no breaker, recursion guard or switch forbids it
        (CP-20).
        """
        if not settings.options.may_compact:
            return compaction_disabled(settings.options)
        thresholds, state = thresholds_of(settings), self._state
        if self._refusal:
            return (yield from self._compact_otherwise(now, new_id))
        if why := self._economy.missing_price(now):
            yield from emit(PriceUnknown(moment=event_context(settings, now), why=why))
        due = yield from self.memory.due(
            self._next_size,
            thresholds,
            settings.options.effective_thresholds,
            moment=event_context(settings, now),
            chain=lambda: chain_of(state.log.view, threshold=thresholds.auto, source=settings.source),
            metrics=lambda: state.tracker.accounts.metrics(),
        )
        if isinstance(due, CompactionSkipped) and self._may_reset(settings, thresholds):
            due = self._economy.reset_if_cheaper(due, settings, now, has_notes=self.notes is not None)
        if isinstance(due, CompactionSkipped):
            return due
        return (yield from self._compact_for_request(due, now, new_id))

    def _may_reset(self, settings: ConversationSettings, thresholds: ContextThresholds) -> bool:
        """Whether a price may be a reason to compact (EC-4, EC-5). Only below the threshold: above it, a
        breaker had a reason not to.
        """
        options = settings.options
        is_on = self._economy.is_on and options.effective_thresholds.auto_compaction
        is_below = not check_thresholds(self._next_size, thresholds, options.effective_thresholds).above_auto
        if not is_on or not is_below or self.memory.breaker.is_open:
            return False
        return not is_internal(settings.source, options.compact)

    def _compact_otherwise(self, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        """After a refused view: the last accepted one is sent if it fits with what is new. Otherwise it is
        summarized whole, because what was kept may be what the API refused.
        """
        settings = self._state.setting
        room = room_for_newest(settings.model, settings.fields, settings.options.compact)
        if not self._has_overflowed and self._next_size < room:
            return CompactionSkipped(f"The last accepted view is sent: {self._refusal}")
        asked = CompactionRequest(trigger="auto", is_reactive=True, keeps_nothing=True)
        return (yield from self._compact_for_request(asked, now, new_id))

    def overflowed(self, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        """The API said that the request was too long: compact once, so that it can be tried again (CP-26)."""
        self._has_overflowed, asked = True, CompactionRequest(trigger="auto", is_reactive=True)
        return (yield from self._compact_for_request(asked, now, new_id))

    def refused(self, refusal: str, now: datetime, new_id: NewId) -> Flow[bool]:
        """The API refused the request, and not for its length. Compactions since the last accepted request
        are undone: the last accepted view, and what is new, can be tried (CP-38). Returns whether there were
        any.
        """
        append = self._state.appender(now, new_id)
        undone: Undone | None = None
        while (found := plan_undo_after_refusal(self._state.log.view, refusal)) is not None:
            append(undone := found)
        if undone is None:
            return False
        self._refusal = undone.why
        self._economy.record_undo()
        yield from self.memory.refused(undone.why, event_context(self._state.setting, now))
        return True

    def dry_run(self, asked: CompactionRequest, now: datetime) -> CompactionPlan | CompactionSkipped:
        """What a compaction would do (CP-29)."""
        settings, sent, numbers = self._state.setting, self._state.copy(), count(1)
        _make_sendable(sent, self._shared_settings(settings), now, lambda: f"edit {next(numbers)}")
        context = self._context_of(sent, settings, now)
        return preview_compaction(asked, context, now) if context else compaction_disabled(settings.options)

    def propose(self, now: datetime) -> Proposal | None:
        """Propose a compaction ahead of time, at a good moment: the cache is cold or the task is finished
        (CP-24).
        """
        settings = self._state.setting
        if not settings.options.may_compact:
            return None
        return self.memory.propose(
            self._next_size,
            thresholds_of(settings),
            settings.options.effective_thresholds,
            moment=event_context(settings, now),
            activity=lambda: self._activity(now),
        )

    def answer_proposal(
        self, proposal: Proposal, response: ProposalResponse, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        """Apply the user's answer to a proposal: compact now, propose again later, or not before the
        automatic threshold.
        """
        settings = self._state.setting
        moment = event_context(settings, now)
        found = yield from self.memory.answer(
            proposal, response, self._next_size, thresholds_of(settings), moment
        )
        if isinstance(found, CompactionSkipped):
            return found
        return (yield from self.compact(found, now, new_id))

    def _activity(self, now: datetime) -> ActivityState:
        state = self._state
        last_reply = state.tracker.last_reply
        if (
            last_reply is None
            or state.cache.seconds_idle_beyond_ttl(state.setting, now, last_reply) is not None
        ):
            return "cache_cold"
        tools = build_tool_table(state.setting.options.tools)
        is_finished = is_task_finished(state.log.view.records, self.memory.settings, tools)
        return "task_finished" if is_finished else "busy"

    @property
    def _next_size(self) -> int:
        return self._state.size(self._state.setting).next_request

    # ── what it starts from ──────────────────────────────────────────────────────────────────────

    def context(self, settings: ConversationSettings, now: datetime) -> CompactionContext | None:
        """What a compaction starts from; None if this conversation is never compacted."""
        return self._context_of(self._state, settings, now)

    def _context_of(
        self, state: ConversationState, settings: ConversationSettings, now: datetime
    ) -> CompactionContext | None:
        """`state` may be a copy."""
        if not settings.options.may_compact:
            return None
        cache, size = state.cache, state.size(settings)
        view, thresholds = state.log.view, thresholds_of(settings)
        shared = self._shared_settings(settings)
        messages = tuple(end_open_search(state.tracker.messages(shared.preamble, shared.costs)))
        parameters = cache.summary_parameters(shared)
        answered = self._answered_messages(state)
        written = cache.written_breakpoints(state.tracker, shared, answered)
        latest = cache.breakpoints if shared is cache.sent else Breakpoints()
        written, latest = (keep_existing(each, shared.preamble, messages) for each in (written, latest))
        captured = capture_request(shared, parameters, messages, latest if latest.places else written)
        notes = usable_notes(
            self.notes,
            view,
            state.counts,
            settings.options.notes,
            transcript=settings.transcript,
        )
        return CompactionContext(
            view=view,
            size=size.next_request,
            # `state` may have edits that nobody has been shown.
            shown_size=self._state.size(settings).tokens,
            overhead=state.known_overhead(settings),
            least=_least_tokens(size, view, settings),
            measured=state.tracker.measured(),
            limits=thresholds,
            model=settings.model,
            capabilities=settings.capabilities,
            counts=state.counts,
            chain=chain_of(view, threshold=thresholds.auto, source=settings.source),
            captured=captured,
            betas=required_betas(captured),
            answered=written,
            settings=settings.options.compact,
            tools=build_tool_table(settings.options.tools),
            transcript=settings.transcript,
            notes=notes.text,
            notes_end_before=notes.end_before,
            queued=self.queued,
            keep=self._economy.keep_rule(settings, now),
        )

    def _shared_settings(self, settings: ConversationSettings) -> ConversationSettings:
        """The settings whose prefix the provider's cache holds: those of the last request, even if the next
        one has a different system prompt or different tools. Another model has a cache of its own.
        """
        sent = self._state.cache.sent
        return sent if sent is not None and sent.has_same_model(settings) else settings

    def _answered_messages(self, state: ConversationState) -> int:
        """The number of messages in the last answered request of this view. Records kept from before a
        boundary, or said under a compaction that was undone, were sent behind another prefix.
        """
        view, place_of = state.log.view, state.tracker.flattener.place_of
        for record in reversed(view.records):
            is_elsewhere = record.uuid in view.stale or record.uuid in view.shrunk
            if record.kind == "assistant" and record.reply is not None and not is_elsewhere:
                changed = place_of(self.changed_from)
                return max(0, place_of(record.uuid) if changed < 0 else min(changed, place_of(record.uuid)))
        return 0

    # ── what a summary call leaves in the cache ──────────────────────────────────────────────────

    def _note_summary_call(
        self, state: ConversationState, now: datetime, effect: AskModel, answer: ModelAnswer | ModelFailure
    ) -> SummaryUncached | None:
        """A summary call that shares our prefix changes what the provider's cache holds; if it read little of
        it, listeners are told why. `state` is what it sent.
        """
        if effect.strategy == "direct" or effect.parent is None or isinstance(answer, ModelFailure):
            return None
        usage = answer.usage
        is_uncached = 2 * usage.cache_read_input_tokens < usage.context
        why = self._explain_uncached(state, effect.parent, now) if is_uncached else ""
        settings = self._shared_settings(state.setting)
        state.cache.note_summary_call(state.tracker, settings, effect.parent, effect.strategy, usage, now)
        if not is_uncached:
            return None
        return SummaryUncached(
            moment=event_context(state.setting, now),
            read=usage.cache_read_input_tokens,
            prompt=usage.context,
            why=why,
        )

    def _explain_uncached(self, state: ConversationState, parent: CapturedRequest, now: datetime) -> str:
        """Why a summary call that repeats these messages read little, as far as is known."""
        cache, model = state.cache, state.setting.model
        if cache.sent is not None and cache.sent.model.id != model.id:
            return f"{model.id} has not seen this conversation before"
        settings = self._shared_settings(state.setting)
        unused = cache.seconds_unused_beyond_ttl(settings, now, state.tracker.last_reply)
        if unused is not None:
            # Other processes may have sent the same messages: what they did is not known.
            return (
                f"the cache had probably expired: the last known call that shares it was {unused:.0f} s ago"
            )
        if changed := cache.changed_since_restart(state.setting):
            return f"since the restart: {'; '.join(changed)}"
        answered = self._answered_messages(state)
        if not answered:
            return "the messages in view have not been sent in this form before"
        if self.changed_from:
            return "messages in view were changed since they were sent"
        if why := explain_removed(state.log.records):
            return f"thinking of the last request was removed: {why}"
        if not model.keeps_thinking and shows_thinking(parent.messages[:answered]):
            # A question ends the loop, and the API then leaves out the thinking in it: another prefix.
            return f"{model.id} keeps the thinking of a tool loop only until the next question"
        return "the provider no longer had the entries of the last request"


def _make_sendable(
    state: ConversationState, shared: ConversationSettings, now: datetime, new_id: NewId
) -> tuple[Record, ...]:
    """A summary call sends the conversation too: what the API would refuse has to go before it. Returns what
    was appended. `shared` are the settings whose prefix the call shares.
    """
    settings, start = state.setting, len(state.log.records)
    append = state.appender(now, new_id)
    append(end_deletions(state, settings, now))
    append(drop_thinking(state, settings, state.cache.sent, now))
    append(tell_unsendable(state, shared, state.cache.summary_parameters(shared)))
    return tuple(state.log.records[start:])


def _least_tokens(size: ContextSize, view: View, settings: ConversationSettings) -> LeastTokens:
    """Another model counts the same text differently: its tokenizer may need fewer tokens."""
    anchor = next((each for each in reversed(view.records) if each.uuid == size.anchor), None)
    counted_by = find_model(anchor.reply.model) if anchor is not None and anchor.reply else None
    scale = counted_by.chars_per_token / settings.model.chars_per_token if counted_by else 1.0
    return LeastTokens(max(0, round((size.reported - size.freed) * scale)), size.rough_tail)


def _append_behind(tip: Record | None, made: Compaction) -> Compaction:
    """The boundary continues from the end of the log, not from the last record in view: an undo is only in
    the log, and a path that leaves it out would bring back what was undone.
    """
    edit = made.boundary.edit
    if tip is None or not isinstance(edit, Compacted):
        return made
    edit = msgspec.structs.replace(edit, logical_parent=tip.uuid)
    return msgspec.structs.replace(made, boundary=msgspec.structs.replace(made.boundary, edit=edit))
