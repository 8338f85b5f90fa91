"""Holds of tracked conversations: on the caller's connection, within a budget per day (EC-11).

A pause begins when a reply was recorded and ends with the next request of the conversation, or of a fork of
it. Bookkeeping needs the conversation's lock, sending does not: a request never waits for a hold.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from math import ceil
from threading import Lock
from typing import Final

from everturn.adapters.tracking.adapter_bill import AdapterBill
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.loaded_conversations import LoadedConversations
from everturn.adapters.tracking.parts import TrackerParts
from everturn.adapters.tracking.reporter import Reporter
from everturn.decide.economy.trust import HoldCheck
from everturn.errors import EverturnError
from everturn.session.cache_holder import CacheHolder, HoldConnection
from everturn.session.events.build import with_session
from everturn.session.hold_memory import HoldMemory
from everturn.session.hold_timers import TaskTimer
from everturn.session.store.factory import CounterStep, StoreFactory, find_exceeded

# Where several processes count together, and as which tenant; None if this one counts alone.
Counters = Callable[[], tuple[StoreFactory, str] | None]
# Counters are whole numbers.
_MICRO: Final = 1_000_000


class DayBudget:
    """What the holds of all conversations may cost on one day, of all processes and replicas that keep their
    conversations in the same place. Safe to use from threads."""

    def __init__(self, dollars: float, counters: Counters) -> None:
        self._dollars, self._counters = dollars, counters
        # For who counts alone.
        self._lock = Lock()
        self._own: dict[str, int] = {}

    def reserve(self, dollars: float, at: datetime) -> str:
        """A hold that nobody can count is not sent: the cap would not be one."""
        name = _name(at)
        try:
            if not self._count(CounterStep(name, _to_micro(dollars), _to_micro(self._dollars))):
                return ""
            spent = self._read(name) / _MICRO
        except EverturnError as problem:
            return f"what the holds of today have cost is not known: {problem}"
        return f"the holds of today have cost ${spent:.2f} of ${self._dollars:.2f}"

    def settle(self, reserved: float, spent: float, at: datetime) -> None:
        try:
            self._count(CounterStep(_name(at), _to_micro(spent) - _to_micro(reserved)))
        except EverturnError:
            # What was reserved stays counted, which is about what the hold has cost.
            return

    def _count(self, step: CounterStep) -> str:
        """The counter's name if its cap does not allow it, or ""."""
        if (shared := self._counters()) is not None:
            stores, tenant = shared
            return stores.count(tenant, [step])
        with self._lock:
            if not (exceeded := find_exceeded([step], self._own)):
                self._own[step.name] = self._own.get(step.name, 0) + step.amount
            return exceeded

    def _read(self, name: str) -> int:
        if (shared := self._counters()) is None:
            return self._own.get(name, 0)
        stores, tenant = shared
        return stores.read_counters(tenant, [name])[name]


def _name(at: datetime) -> str:
    return f"holds/{at.date().isoformat()}/dollars"


def _to_micro(dollars: float) -> int:
    return ceil(dollars * _MICRO)


class TrackedHolds:
    """The holds of one tracker."""

    def __init__(
        self,
        parts: TrackerParts,
        loaded: LoadedConversations,
        bill: AdapterBill,
        reporter: Reporter,
        counters: Counters,
    ) -> None:
        self._parts, self._loaded = parts, loaded
        self._bill, self._reporter = bill, reporter
        self.is_on = parts.options.holds_cache
        self._budget = DayBudget(parts.options.economy.day_dollars, counters)
        self._memory = HoldMemory(parts.options.provider)
        self._lost = self._memory.read(parts.clock()) if self.is_on else {}
        # Of conversations that are forks of each other, only the last one is held.
        self._held: dict[str, CacheHolder] = {}

    def connect(self, tracked: TrackedConversation, connection: HoldConnection) -> None:
        """A request of this conversation is about to be prepared: the pause is over."""
        if not self.is_on:
            return
        if (held := self._held.pop(tracked.lineage, None)) is not None:
            held.cancel()
        if tracked.holder is not None:
            tracked.holder.end()
        tracked.hold_connection = connection

    def begin(self, tracked: TrackedConversation, call: PreparedCall, check: HoldCheck | None) -> None:
        """A reply was recorded."""
        if not self.is_on or call.request.is_observed:
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
                betas, connection.send, self._parts.hold_timer, lambda: self._collect(tracked, holder)
            )
        elif connection.send_async is not None:
            holder.begin_async(
                betas,
                connection.send_async,
                TaskTimer(asyncio.get_running_loop()),
                lambda: self._collect_async(tracked, holder),
            )
        self._held[tracked.lineage] = holder

    def close(self) -> None:
        held, self._held = self._held, {}
        for holder in held.values():
            holder.cancel()

    def _collect(self, tracked: TrackedConversation, holder: CacheHolder) -> None:
        """After a hold was answered, in its own thread. While a reply is awaited, nothing is touched: the
        hold is collected with the next request."""
        with tracked.lock.acquire():
            if not _is_busy(tracked) and self._loaded.resume(tracked):
                _collect_and_keep(tracked, holder)

    async def _collect_async(self, tracked: TrackedConversation, holder: CacheHolder) -> None:
        async with tracked.lock.acquire_async():
            if not _is_busy(tracked) and await self._loaded.resume_async(tracked):
                _collect_and_keep(tracked, holder)

    def _make_holder(self, tracked: TrackedConversation) -> CacheHolder:
        return CacheHolder(
            tracked.runner.conversation,
            clock=self._parts.clock,
            tell=lambda event: self._reporter.tell(with_session(event, tracked.id)),
            paid=lambda spent: self._bill.add("hold", spent, tracked),
            moment=tracked.event_context,
            is_alive=lambda: not tracked.is_evicted,
            budget=self._budget,
            encode=tracked.encode_hold,
        )

    def _remember(self, model: str, why: str, now: datetime) -> None:
        self._lost[model] = why
        self._memory.remember(model, why, now)


def _is_busy(tracked: TrackedConversation) -> bool:
    return tracked.is_evicted or tracked.is_awaiting_reply


def _collect_and_keep(tracked: TrackedConversation, holder: CacheHolder) -> None:
    holder.collect()
    tracked.write_state()
    tracked.transcript.release()
