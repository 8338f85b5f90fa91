"""The economic policy in a conversation: it weighs a reset before each call and a hold after it, and keeps
the bill that both are measured by (chapter EC). The decisions are in `decide/economy/`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from everturn.decide.compact.settings import to_strategy
from everturn.decide.compact.values import Attempt, Compaction, CompactionRequest, CompactionSkipped
from everturn.decide.economy.decisions import DecisionKind, EconomicDecision, add_decision
from everturn.decide.economy.holds import HoldDecision, HoldForm, HoldInputs, decide_hold
from everturn.decide.economy.keeping import KeepRule, make_keep_rule
from everturn.decide.economy.pauses import HOUR
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.resets import ResetDecision, ResetInputs, decide_reset, kept_beyond_usual
from everturn.decide.economy.settings import COLD_TOKENS, KEPT_TOKENS, SUMMARY_TOKENS, WRITTEN_TOKENS
from everturn.decide.economy.state import EconomyState
from everturn.decide.economy.trust import HoldCheck, check_hold
from everturn.engine.capture import capture_request
from everturn.engine.conversation_state import ConversationState, thresholds_of
from everturn.engine.holds import (
    PlannedHold,
    held_for,
    hindrance,
    is_answered,
    least_output,
    to_hold,
    up_to_reply,
)
from everturn.engine.values import ConversationSettings
from everturn.history.records import Usage
from everturn.measure.model_table import find_named, has_known_price
from everturn.measure.prediction import Prediction
from everturn.measure.prefix_cache import SECONDS
from everturn.view.breakpoints import Breakpoints

# For a hold that is not sent.
NOTHING_READ: Final = Prediction(0, 0, 0, 0)


class Economy:
    """Keeps no bill while the policy is off."""

    def __init__(self, conversation: ConversationState) -> None:
        self._conversation = conversation
        self._state = EconomyState()
        # The latest decisions, with their numbers (EC-1).
        self.decisions: tuple[EconomicDecision, ...] = ()
        # Why holds of an hour are not used, by model: one was sent and the prefix was lost (EC-3).
        self.lost_holds: dict[str, str] = {}
        # The last hold of an hour since the last call: when, and how many tokens it covered.
        self._held: tuple[datetime, int] | None = None
        self._is_trusted = False
        # Tokens that the provider kept beyond their time before the next call, without any hold. Only a
        # replay knows that.
        self.kept_anyway = 0
        # What the last look ahead expected to be read; None after a call.
        self._looked: int | None = None

    @property
    def state(self) -> EconomyState:
        """What is known for the view as it is: a rewind, an undo or a fork may have left the last reset."""
        self._conversation.count()
        if self.is_on:
            boundary = _boundary(self._conversation)
            if self._state.boundary != boundary:
                self._state = self._state.in_view(boundary, self._next_size)
        return self._state

    @state.setter
    def state(self, state: EconomyState) -> None:
        self._state = state

    @property
    def is_on(self) -> bool:
        """Whether anything is decided by price: the policy does, and the price is known."""
        settings = self._conversation.setting
        return settings.options.economy.enabled and has_known_price(settings.model.id)

    def missing_price(self, now: datetime) -> str:
        """Why nothing is decided by price although the policy does, or by another price than that of the
        summary model; "" if that was said before."""
        settings = self._conversation.setting
        if not settings.options.economy.enabled:
            return ""
        if self.is_on:
            return self._missing_summary_price(settings, now)
        why = _unpriced(settings)
        if any(each.why == why for each in self.decisions):
            return ""
        self.note("reset", why, now, done=False, cost=0.0, expected=0.0)
        return why

    def _missing_summary_price(self, settings: ConversationSettings, now: datetime) -> str:
        compact = settings.options.compact
        named, is_asked = compact.summary_model, "direct" in map(to_strategy, compact.strategies)
        if not named or not is_asked or has_known_price(named) or self._state.unpriced == named:
            return ""
        self._state = msgspec.structs.replace(self._state, unpriced=named)
        why = (
            f"no price is known for {named!r}, which writes summaries: they are reckoned as dear as those of "
            f"{settings.model.id!r}; give it one in the configuration, under `models`"
        )
        self.note("price", why, now, done=False, cost=0.0, expected=0.0)
        return why

    @property
    def _next_size(self) -> int:
        return self._conversation.size(self._conversation.setting).next_request

    def note(
        self, kind: DecisionKind, why: str, at: datetime, *, done: bool, cost: float, expected: float
    ) -> None:
        new = EconomicDecision(at=at, kind=kind, done=done, why=why, cost=cost, expected=expected)
        self.decisions = add_decision(self.decisions, new)

    # ── resets ───────────────────────────────────────────────────────────────────────────────────

    def reset_if_cheaper(
        self, due: CompactionSkipped, settings: ConversationSettings, now: datetime, *, has_notes: bool
    ) -> CompactionRequest | CompactionSkipped:
        """A compaction below the threshold, if it is cheaper than carrying the context (EC-4, EC-5)."""
        conversation = self._conversation
        size = conversation.size(settings).next_request
        if size - self._base(settings) < COLD_TOKENS:
            return due
        if size < self.state.quiet_below:
            why = f"a compaction was undone; not again for its price below {self.state.quiet_below:,} tokens"
            self.note("reset", why, now, done=False, cost=0.0, expected=0.0)
            return due
        cache = conversation.cache
        parameters = cache.latch(settings).parameters
        _, prediction = cache.look_ahead(conversation.tracker, settings, parameters, now)
        prediction = self._with_foreign_breakpoints(prediction, settings, now)
        self._looked = prediction.read
        decision = self._weigh_reset(settings, prediction, has_notes=has_notes, now=now)
        why = f"{decision.kind} reset: {decision.why}" if decision.kind else decision.why
        done = decision.kind is not None
        self.note("reset", why, now, done=done, cost=decision.cost, expected=decision.against)
        if decision.kind is None:
            return due
        return CompactionRequest(trigger="auto", economics=f"{decision.kind} reset: {decision.why}")

    def _with_foreign_breakpoints(
        self, prediction: Prediction, settings: ConversationSettings, now: datetime
    ) -> Prediction:
        """Where somebody else places the breakpoints, the prediction knows of none and finds nothing. What
        the last call has left in the cache is read then, while it lives."""
        able, cache = settings.capabilities, self._conversation.cache
        if able.max_breakpoints or not able.caching or cache.called_at is None:
            return prediction
        if cache.seconds_idle_beyond_ttl(settings, now) is not None:
            return prediction
        read = min(self.state.cached, prediction.total)
        return Prediction(read, 0, 0, prediction.total - read)

    def _weigh_reset(
        self, settings: ConversationSettings, prediction: Prediction, *, has_notes: bool, now: datetime
    ) -> ResetDecision:
        prices = self.prices(settings, now, prediction.total)
        state = self.state.within(settings.model.window, prediction.total)
        call = state.unmanaged_call(
            prediction.total,
            prediction.read,
            now.timestamp(),
            prices,
            kept_anyway=self.kept_anyway,
        )
        given = ResetInputs(
            size=prediction.total,
            window=settings.model.window,
            read=prediction.read,
            is_cached=settings.capabilities.caching,
            base=self._base(settings),
            head=self._conversation.preamble_tokens(settings),
            unanswered=self.unanswered(settings),
            carry=state.carry,
            summary=_summary_units(settings, prediction, prices, has_notes=has_notes, now=now),
            spent=state.spent,
            unmanaged=state.unmanaged + call,
        )
        return decide_reset(given, prices, settings.options.economy)

    def unanswered(self, settings: ConversationSettings) -> int:
        """Tokens behind the last reply. Unknown, and taken for few, while no reply has told its size."""
        size = self._conversation.size(settings)
        return size.rough_tail if size.anchor else 0

    def keep_rule(self, settings: ConversationSettings, now: datetime) -> KeepRule | None:
        """What a compaction keeps by price (EC-6); None while the policy is off."""
        economy = settings.options.economy
        if not self.is_on:
            return None
        base = self._conversation.preamble_tokens(settings) + WRITTEN_TOKENS
        rule = make_keep_rule(economy.reuse_table, base, self.prices(settings, now, base), economy)
        return rule.within(thresholds_of(settings).auto)

    def record_reply(self, usage: Usage, now: datetime, *, expected: int = 0) -> HoldCheck | None:
        """`expected` are the tokens that should have been read. Returns what the reply tells about the last
        hold, if that is news (EC-3)."""
        checked = self._check_hold(usage, now, expected)
        self._count_reply(usage, now, self._conversation.cache.called_at or now)
        self._looked = None
        return checked

    def record_observed_reply(self, usage: Usage, now: datetime) -> None:
        """The reply to a call for which nothing was decided is counted when somebody asks for the bill."""
        self._check_hold(usage, now, expected=0)
        called_at = self._conversation.cache.called_at or now
        self._conversation.count_later(lambda: self._count_reply(usage, now, called_at))
        self._looked = None

    def _count_reply(self, usage: Usage, now: datetime, called_at: datetime) -> None:
        """Entries live from the start of a call, and pauses are counted from there."""
        if not self.is_on:
            return
        settings, state = self._settings, self.state
        head = self._conversation.preamble_tokens(settings)
        self.state = state.within(settings.model.window, usage.context).after_reply(
            usage,
            self.prices(settings, now, usage.context),
            base=head + KEPT_TOKENS,
            now=called_at.timestamp(),
            kept_anyway=self.kept_anyway,
            head=head,
        )

    def _check_hold(self, usage: Usage, now: datetime, expected: int) -> HoldCheck | None:
        held, self._held = self._held, None
        if held is None:
            return None
        at, tokens = held
        checked = check_hold(
            held=tokens,
            read=usage.cache_read_input_tokens,
            seconds=((self._conversation.cache.called_at or now) - at).total_seconds(),
            is_same_prompt=expected > tokens / 2 and not self.state.was_reset,
        )
        if checked is None or (checked.kept and self._is_trusted):
            return None
        self._is_trusted = checked.kept
        if not checked.kept:
            self.lost_holds[self._settings.model.id] = checked.why
        prices = self.prices(self._settings, now, usage.context)
        saved = (prices.write - prices.read) * checked.read * prices.dollars
        self.note("check", checked.why, now, done=checked.kept, cost=self.state.held, expected=saved)
        return checked

    def record_compaction(self, made: Compaction, now: datetime, *, follows: str, unanswered: int) -> None:
        """`follows` is the boundary of the view that was compacted, "" if it had none, and `unanswered` are
        the tokens in it that nobody had answered."""
        if not self.is_on:
            return
        before = made.tokens_before
        # Not `state`: the view has the new boundary already.
        self._state = self._state.in_view(follows, before).after_reset(
            made.boundary.uuid,
            before,
            made.tokens_after,
            self._price_attempts(made.attempts, before, now),
            read=self._looked,
            kept=kept_beyond_usual(unanswered),
        )

    def record_attempts(self, attempts: Sequence[Attempt], now: datetime) -> None:
        """Summaries were written, and none was used: they were paid all the same."""
        if attempts and self.is_on:
            dollars = self._price_attempts(attempts, self._next_size, now)
            self.state = self.state.after_failed_reset(dollars)

    def _price_attempts(self, attempts: Sequence[Attempt], size: int, now: datetime) -> float:
        settings = self._conversation.setting
        own = self.prices(settings, now, size)
        other = find_named(settings.options.compact.summary_model)
        cheap = RelativePrices.from_rates(other.rates(on=now.date(), prompt_tokens=size)) if other else own
        return sum(
            (cheap if each.strategy == "direct" and not each.model else own).whole(each.usage)
            for each in attempts
        )

    def record_undo(self) -> None:
        """A compaction was undone, and the view is the one before it."""
        if self.is_on:
            self._state = self._state.after_undo(_boundary(self._conversation), self._next_size)

    def record_rewind(self) -> None:
        """The conversation goes on from an earlier message, or from another branch."""
        self.state = self.state.rewound(self._next_size)
        self._held, self._looked = None, None

    # ── holds ────────────────────────────────────────────────────────────────────────────────────

    def plan_hold(self, now: datetime) -> PlannedHold | None:
        """A call that keeps the cache alive while nobody speaks, with its price and what it is expected to
        save (EC-2); where the API would refuse it, the decision says so. None where there is nothing to hold.
        """
        conversation, cache = self._conversation, self._conversation.cache
        settings, tracker = cache.sent, conversation.tracker
        if settings is None or not settings.capabilities.caching:
            return None
        if not is_answered(conversation.log.view.records):
            return None
        parameters, form = cache.summary_parameters(settings), self._hold_form(settings)
        messages = up_to_reply(tracker.messages(settings.preamble, settings.costs))
        captured = capture_request(settings, parameters, messages, Breakpoints())
        state = self.state
        given = HoldInputs(
            state=state,
            silence=now.timestamp() - state.called_at if state.called_at is not None else 0.0,
            least_output=least_output(parameters.thinking, form),
            prices=self.prices(settings, now, state.prompt + state.output),
            settings=settings.options.economy,
            pauses=settings.options.economy.pause_table,
            form=form,
        )
        decision = decide_hold(given)
        if not has_known_price(settings.model.id):
            unpriced = HoldDecision(
                holds=False, cost=0.0, expected=0.0, chance=0.0, why=_unpriced(settings), refusal="request"
            )
            return PlannedHold(given, unpriced, captured, NOTHING_READ)
        if why := hindrance(captured, settings.model, form) or _nothing_cached(state):
            return PlannedHold(given, decision.refused(why), captured, NOTHING_READ)
        held = to_hold(captured, form)
        return PlannedHold(given, decision, held, cache.predict_hold(tracker, settings, held, now))

    def _hold_form(self, settings: ConversationSettings) -> HoldForm:
        if not settings.capabilities.max_breakpoints:
            return "repeat"
        return "refresh" if settings.model.id in self.lost_holds else "hour"

    def record_hold(
        self, planned: PlannedHold, usage: Usage, now: datetime, dollars: float | None = None
    ) -> None:
        """A hold that was sent at this time was answered. If the conversation has gone on since, only its
        price matters: `dollars` on the bill, or by the prices it was planned with."""
        form, called_at = planned.given.form, self.state.called_at
        # Not by the settings of now: another model may have been called since.
        cost = planned.given.prices.whole(usage) if dollars is None else dollars
        if called_at is not None and now.timestamp() < called_at:
            self.state = self.state.after_late_hold(cost)
        else:
            self._conversation.cache.settle_hold(usage, now, lasts="1h" if form == "hour" else "5m")
            self.state = self.state.after_hold(cost)
            self._held = (now, usage.context) if form == "hour" else None
        decision = planned.decision
        self.note("hold", held_for(cost, decision), now, done=True, cost=cost, expected=decision.expected)

    def record_lost_hold(self, planned: PlannedHold, why: str, now: datetime) -> None:
        """No answer to a hold came. It may have been billed, so its price counts; what it has kept is not
        known."""
        cost = planned.decision.cost
        self.state = self.state.after_late_hold(cost)
        self.note("hold", why, now, done=False, cost=cost, expected=planned.decision.expected)

    def note_not_held(self, planned: PlannedHold, now: datetime) -> None:
        decision = planned.decision
        cost, expected = decision.cost, decision.expected
        self.note("hold", decision.why, now, done=False, cost=cost, expected=expected)

    @property
    def first_wait(self) -> timedelta:
        """From a call to its first hold: until just before its entries expire."""
        settings = self._conversation.setting
        is_hour = self._conversation.cache.ttl(settings) == "1h"
        return timedelta(seconds=HOUR) if is_hour else settings.options.economy.hold_after

    def wait_from(self, now: datetime) -> timedelta:
        """From now to the first hold. A lifetime begins with the call, not with its reply (api-facts 1.3)."""
        called_at = self._conversation.cache.called_at
        passed = now - called_at if called_at is not None else timedelta()
        return max(timedelta(), self.first_wait - max(timedelta(), passed))

    @property
    def expires_at(self) -> datetime | None:
        """When the entries of the last call expire."""
        cache = self._conversation.cache
        if cache.called_at is None:
            return None
        return cache.called_at + timedelta(seconds=SECONDS[cache.ttl(self._settings)])

    def prices(self, settings: ConversationSettings, now: datetime, size: int) -> RelativePrices:
        """What a token costs in a prompt of this size, as this conversation is cached. By the table as it is
        now, as on the bill: a program may add a row at any time."""
        model = find_named(settings.model.id) or settings.model
        rates = model.rates(on=now.date(), prompt_tokens=size)
        if not settings.capabilities.caching:
            return RelativePrices.without_cache(rates)
        return RelativePrices.from_rates(rates, self._conversation.cache.ttl(settings))

    @property
    def _settings(self) -> ConversationSettings:
        """Those of the last request."""
        return self._conversation.cache.sent or self._conversation.setting

    def _base(self, settings: ConversationSettings) -> int:
        base = self.state.base
        return self._conversation.preamble_tokens(settings) + KEPT_TOKENS if base is None else base


def _unpriced(settings: ConversationSettings) -> str:
    return (
        f"no price is known for {settings.model.id!r}, so only the thresholds decide; "
        "give it one in the configuration, under `models`"
    )


def _nothing_cached(state: EconomyState) -> str:
    """A hold would read nothing: the prompt is too short for the cache, or nobody has set a breakpoint. Not
    known while no bill is kept."""
    return "nothing of the last prompt is in the cache" if state.prompt and not state.cached else ""


def _boundary(conversation: ConversationState) -> str:
    boundary = conversation.log.view.boundary
    return boundary.uuid if boundary is not None else ""


def _summary_units(
    settings: ConversationSettings,
    prediction: Prediction,
    prices: RelativePrices,
    *,
    has_notes: bool,
    now: datetime,
) -> float:
    """What the first strategy that can be tried costs, in input tokens of the conversation's model."""
    compact = settings.options.compact
    for strategy in map(to_strategy, compact.strategies):
        match strategy:
            case "notes" if not has_notes:
                continue
            case "notes" | "extractive":
                return 0.0
            case "fork" | "provider":
                unread = prediction.total - prediction.read
                said = prices.output * SUMMARY_TOKENS
                return said + prices.read * prediction.read + unread
            case "direct":
                other = find_named(compact.summary_model) or settings.model
                rates = other.rates(on=now.date(), prompt_tokens=prediction.total)
                cheap = RelativePrices.from_rates(rates)
                units = prediction.total + cheap.output * SUMMARY_TOKENS
                return units * cheap.dollars / prices.dollars if prices.dollars else 0.0
    return 0.0
