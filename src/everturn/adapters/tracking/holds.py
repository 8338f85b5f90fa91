"""Holds of tracked conversations: on the caller's connection, within a budget per day (EC-11).

A pause begins when a reply was recorded and ends with the next request of the conversation, or of a fork of
it. Bookkeeping needs the conversation's lock, sending does not: a request never waits for a hold.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from threading import Lock

from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.parts import TrackerParts
from everturn.decide.economy.trust import HoldCheck
from everturn.decide.events import Event
from everturn.history.records import Usage
from everturn.session.cache_holder import CacheHolder, HoldConnection
from everturn.session.hold_memory import HoldMemory
from everturn.session.hold_timers import TaskTimer

Paid = Callable[[TrackedConversation, Usage], None]
Tell = Callable[[Event, TrackedConversation], None]


class DayBudget:
    """What the holds of all conversations may cost on one day. Safe to use from threads."""

    def __init__(self, dollars: float, today: Callable[[], date]) -> None:
        self._dollars, self._today = dollars, today
        self._lock = Lock()
        self._day, self._spent = today(), 0.0

    def reserve(self, dollars: float) -> str:
        with self._lock:
            if self._today() != self._day:
                self._day, self._spent = self._today(), 0.0
            if self._spent + dollars > self._dollars:
                return f"the holds of today have cost ${self._spent:.2f} of ${self._dollars:.2f}"
            self._spent += dollars
            return ""

    def settle(self, reserved: float, spent: float) -> None:
        with self._lock:
            self._spent += spent - reserved


class TrackedHolds:
    """The holds of one tracker. `settle` and `settle_async` take a conversation's lock, call a function, and
    keep its state; unless the conversation waits for a reply or is gone."""

    def __init__(
        self,
        parts: TrackerParts,
        *,
        tell: Tell,
        paid: Paid,
        settle: Callable[[TrackedConversation, Callable[[], object]], None],
        settle_async: Callable[[TrackedConversation, Callable[[], object]], Awaitable[None]],
    ) -> None:
        self._parts, self._tell, self._paid = parts, tell, paid
        self._settle, self._settle_async = settle, settle_async
        self._is_on = parts.options.holds_cache
        self._budget = DayBudget(parts.options.economy.day_dollars, lambda: parts.clock().date())
        self._memory = HoldMemory(parts.options.provider)
        self._lost = self._memory.read(parts.clock()) if self._is_on else {}
        # Of conversations that are forks of each other, only the last one is held.
        self._held: dict[str, CacheHolder] = {}

    def connect(self, tracked: TrackedConversation, connection: HoldConnection) -> None:
        """A request of this conversation is about to be prepared: the pause is over."""
        if not self._is_on:
            return
        if (held := self._held.pop(tracked.lineage, None)) is not None:
            held.cancel()
        if tracked.holder is not None:
            tracked.holder.end()
        tracked.hold_connection = connection

    def begin(self, tracked: TrackedConversation, call: PreparedCall, check: HoldCheck | None) -> None:
        """A reply was recorded."""
        if not self._is_on or call.request.is_observed:
            return
        economy = tracked.runner.conversation.economy
        if check is not None and not check.kept:
            self._remember(tracked.runner.conversation.setting.model.id, check.why, self._parts.clock())
        economy.lost_holds |= self._lost
        connection = tracked.hold_connection
        if not any(connection):
            return
        if tracked.holder is None:
            tracked.holder = self._make_holder(tracked)
        holder, betas = tracked.holder, call.betas
        if connection.send is not None:
            holder.begin(
                betas, connection.send, self._parts.hold_timer, lambda: self._settle(tracked, holder.collect)
            )
        elif connection.send_async is not None:
            holder.begin_async(
                betas,
                connection.send_async,
                TaskTimer(asyncio.get_running_loop()),
                lambda: self._settle_async(tracked, holder.collect),
            )
        self._held[tracked.lineage] = holder

    def close(self) -> None:
        held, self._held = self._held, {}
        for holder in held.values():
            holder.cancel()

    def _make_holder(self, tracked: TrackedConversation) -> CacheHolder:
        return CacheHolder(
            tracked.runner.conversation,
            clock=self._parts.clock,
            tell=lambda event: self._tell(event, tracked),
            paid=lambda usage: self._paid(tracked, usage),
            moment=tracked.event_context,
            is_alive=lambda: not tracked.is_evicted,
            budget=self._budget,
            encode=tracked.encode_hold,
        )

    def _remember(self, model: str, why: str, now: datetime) -> None:
        self._lost[model] = why
        self._memory.remember(model, why, now)
