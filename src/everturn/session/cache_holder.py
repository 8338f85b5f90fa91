"""Holds: keeps the provider's cache alive while nobody speaks (EC-2, EC-11).

What a hold sends and whether it is worth its price is decided beforehand, as values (`engine/holds.py`). Who
waits is a timer (`hold_timers.py`). Here is what belongs to one conversation: a pause begins after a reply,
and the next call and `close` end it. The conversation never waits for a hold: what one has cost is collected
before the next request, and one that is under way then is collected after it.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec

from everturn.decide.economy.holds import Refusal
from everturn.decide.events import CacheHeld, CacheNotHeld, Event, EventContext
from everturn.engine import Conversation
from everturn.engine.holds import PlannedHold, held_for
from everturn.errors import UpstreamError
from everturn.history.records import Usage
from everturn.measure.prefix_cache import SECONDS
from everturn.session.bill import UsageTotals, price_usage
from everturn.session.hold_timers import HoldTimer, PendingHold, TaskTimer
from everturn.session.upstream import RawResponse, Send, clamp_usage, parse_reply
from everturn.wire.anthropic import Request

AsyncSend = Callable[[bytes, Sequence[str]], Awaitable[RawResponse]]
# Puts a hold on the bill.
PayHold = Callable[[UsageTotals], None]


class HoldConnection(NamedTuple):
    """How the holds of a conversation are sent: one of the two, or none if there are to be none."""

    send: Send | None = None
    send_async: AsyncSend | None = None


class HoldBudget(Protocol):
    """Dollars that several conversations share. `at` is when the hold is sent: the answer may come on the
    next day."""

    def reserve(self, dollars: float, at: datetime) -> str:
        """Take so much for a hold. Returns why it may not be spent, or ""."""
        ...

    def settle(self, reserved: float, spent: float, at: datetime) -> None:
        """A hold for which so much was reserved has cost so much."""
        ...


class FailedHold(msgspec.Struct, frozen=True):
    """Why a hold failed. One that the API refused costs nothing; one whose answer was lost, or could not be
    read, may have been billed."""

    why: str
    is_billed: bool


class HeldCall(msgspec.Struct, frozen=True):
    """One hold that was sent: when, and its usage or why it failed. It is priced when it is answered: when it
    is collected, the conversation may have another model, and the table other prices."""

    planned: PlannedHold
    at: datetime
    answer: Usage | FailedHold
    dollars: float
    spent: UsageTotals | None


class _Pause:
    """The holds of one pause. Its timer adds to `calls`; the conversation counts what it has collected."""

    def __init__(
        self, planned: PlannedHold, betas: tuple[str, ...], wait: timedelta, expires: datetime | None
    ) -> None:
        self.planned, self.betas, self.wait = planned, betas, wait
        # When the entries are gone unless they are held. None if that is not known.
        self.expires = expires
        self.waiting = PendingHold()
        self.calls: list[HeldCall] = []
        self.collected = 0
        # When the hold that is under way was sent.
        self.sent_at: datetime | None = None
        # Not sent: why, and when that was decided.
        self.refused: tuple[PlannedHold, datetime] | None = None

    @property
    def is_over(self) -> bool:
        return self.collected == len(self.calls) and self.sent_at is None


class CacheHolder:
    """The holds of one conversation. Its methods belong to whoever works on the conversation; what runs when
    a hold is due only sends, tells events and calls `on_answer`."""

    def __init__(
        self,
        conversation: Conversation,
        *,
        clock: Callable[[], datetime],
        tell: Callable[[Event], None],
        paid: PayHold,
        moment: Callable[[], EventContext],
        is_alive: Callable[[], bool] = lambda: True,
        budget: HoldBudget | None = None,
        encode: Callable[[Request], bytes] = Request.to_bytes,
    ) -> None:
        """`is_alive` says whether the conversation is still kept in memory; otherwise nothing is sent."""
        self._conversation, self._clock = conversation, clock
        self._tell, self._paid, self._moment = tell, paid, moment
        self._is_alive, self._budget, self._encode = is_alive, budget, encode
        self._pauses: list[_Pause] = []
        # Decisions against a hold are told once for each kind of reason.
        self._told: set[Refusal] = set()

    # ── a pause ──────────────────────────────────────────────────────────────────────────────────

    def begin(
        self, betas: tuple[str, ...], send: Send, timer: HoldTimer, on_answer: Callable[[], None]
    ) -> None:
        """A reply has come: from now on it is quiet. Plan the holds of this pause, if they are worth it.
        `on_answer` is called after each, where the timer runs."""
        pause = self._plan(betas)
        if pause is None:
            return

        def step() -> float | None:
            body = self._begin_step(pause)
            if body is None:
                return None
            try:
                answered = send(body, pause.betas)
            except Exception as problem:
                answered = problem
            seconds = self._end_step(pause, answered)
            on_answer()
            return seconds

        pause.waiting = timer.start(pause.wait.total_seconds(), step)

    def begin_async(
        self,
        betas: tuple[str, ...],
        send: AsyncSend,
        timer: TaskTimer,
        on_answer: Callable[[], Awaitable[None]],
    ) -> None:
        pause = self._plan(betas)
        if pause is None:
            return

        async def step() -> float | None:
            body = self._begin_step(pause)
            if body is None:
                return None
            try:
                answered = await send(body, pause.betas)
            except Exception as problem:
                answered = problem
            seconds = self._end_step(pause, answered)
            await on_answer()
            return seconds

        pause.waiting = timer.start_async(pause.wait.total_seconds(), step)

    def end(self) -> None:
        """Somebody speaks, or the conversation is closed: no further hold is sent. Collect what was."""
        self.cancel()
        self.collect()

    def cancel(self) -> None:
        """No further hold is sent. Callable from any thread."""
        for pause in tuple(self._pauses):
            pause.waiting.cancel()

    def collect(self) -> bool:
        """Take over what holds have cost and what they tell about the cache. Whether there was something."""
        found = any(pause.collected < len(pause.calls) or pause.refused for pause in self._pauses)
        for pause in self._pauses:
            for call in pause.calls[pause.collected :]:
                pause.collected += 1
                if isinstance(call.answer, Usage):
                    self._conversation.record_hold(call.planned, call.answer, call.at, call.dollars)
                    if call.spent is not None:
                        self._paid(call.spent)
                elif call.answer.is_billed:
                    self._conversation.economy.record_lost_hold(call.planned, call.answer.why, call.at)
            refused, pause.refused = pause.refused, None
            if refused is not None:
                self._refuse(*refused)
        self._pauses = [each for each in self._pauses if not (each.waiting.is_cancelled and each.is_over)]
        return found

    def _plan(self, betas: tuple[str, ...]) -> _Pause | None:
        self.end()
        now, economy = self._clock(), self._conversation.economy
        wait = economy.wait_from(now)
        planned = self._conversation.plan_hold(now + wait)
        if planned is None:
            return None
        if not planned.decision.holds:
            self._refuse(planned, now)
            return None
        pause = _Pause(planned, betas, wait, economy.expires_at)
        self._pauses.append(pause)
        return pause

    def _refuse(self, planned: PlannedHold, at: datetime) -> None:
        """`at` is when it was decided; it may be noted much later."""
        decision = planned.decision
        self._conversation.economy.note_not_held(planned, at)
        if decision.refusal not in self._told:
            self._told.add(decision.refusal)
            self._tell(
                CacheNotHeld(
                    moment=msgspec.structs.replace(self._moment(), at=at),
                    why=decision.why,
                    dollars=decision.cost,
                    expected=decision.expected,
                )
            )

    # ── when a hold is due, in the timer's thread or task ────────────────────────────────────────

    def _begin_step(self, pause: _Pause) -> bytes | None:
        """The bytes to send; None if nothing is sent any more."""
        # Under way before anything is checked: who cancels from now on still collects the answer.
        at = pause.sent_at = self._clock()
        body = self._prepare(pause, at)
        if body is None:
            pause.sent_at = None
        return body

    def _prepare(self, pause: _Pause, at: datetime) -> bytes | None:
        if pause.waiting.is_cancelled or not self._is_alive():
            return None
        if not pause.planned.decision.holds:
            pause.refused = pause.planned, at
            return None
        body = self._encode(pause.planned.request())
        if pause.waiting.is_cancelled:
            return None
        if pause.expires is not None and at > pause.expires:
            # The reply took long, or the machine was asleep: now it would write all of it again.
            stop = "the cache has expired before it could be held"
        else:
            stop = self._budget.reserve(pause.planned.decision.cost, at) if self._budget else ""
        if stop:
            refused = pause.planned.decision.refused(stop)
            pause.refused = msgspec.structs.replace(pause.planned, decision=refused), at
            return None
        return body

    def _end_step(self, pause: _Pause, answered: RawResponse | Exception) -> float | None:
        """Keep the answer, and tell it. Returns when the next hold is due."""
        planned, at = pause.planned, pause.sent_at or self._clock()
        reserved = planned.decision.cost
        answer = _read_answer(answered, reserved)
        spent = None
        if isinstance(answer, Usage):
            spent = price_usage(answer, planned.captured.model, at.date())
            # The bill knows fewer names of a model than the decisions do.
            dollars = planned.given.prices.whole(answer) if spent.unpriced else float(spent.dollars)
        else:
            dollars = reserved if answer.is_billed else 0.0
        if self._budget is not None:
            self._budget.settle(reserved, dollars, at)
        try:
            pause.calls.append(HeldCall(planned, at, answer, dollars, spent))
            if isinstance(answer, FailedHold):
                self._tell(CacheHeld(moment=self._moment(), at=at, tokens=0, why=answer.why, dollars=dollars))
                return None
            self._tell(
                CacheHeld(
                    moment=self._moment(),
                    at=at,
                    tokens=answer.context,
                    why=held_for(dollars, planned.decision),
                    dollars=dollars,
                    expected=planned.decision.expected,
                    usage=answer,
                )
            )
        finally:
            pause.sent_at = None
        pause.planned = planned.renewed(answer)
        pause.expires = at + timedelta(seconds=SECONDS["1h" if planned.given.form == "hour" else "5m"])
        # From when it was sent: that is when the new lifetime began.
        passed = max(0.0, (self._clock() - at).total_seconds())
        return max(0.0, pause.planned.given.interval - passed)


def _read_answer(answered: RawResponse | Exception, dollars: float) -> Usage | FailedHold:
    """The usage of a hold that was to cost so much, or why it failed."""
    try:
        if isinstance(answered, Exception):
            raise answered
        if (usage := parse_reply(answered).response.reply.usage) is not None:
            return clamp_usage(usage)
        why, is_billed = "the hold was answered without a usage", True
    except UpstreamError as problem:
        why, is_billed = f"the hold failed: {problem}", not problem.status
    except Exception as problem:
        # Only the type: the message may hold private text.
        why, is_billed = f"the hold raised {type(problem).__name__}", True
    return FailedHold(
        f"{why}; it may have been billed: ${dollars:.3f} counted" if is_billed else why, is_billed
    )
