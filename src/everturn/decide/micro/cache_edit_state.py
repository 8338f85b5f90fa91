"""What is deleted in the provider's cache, and what could be: state per session, as a value (MC-8, 10 to 12).

    registered ──planned──> pending ──consumed──> deleted (an appended CacheDeleted, repeated by the view)
         ^                                            │
         └──────────── expired, compacted ────────────┘

A reference is registered once, in the order of arrival, and leaves that list when it is marked for deletion,
so none can be deleted twice. Which are marked: `cached.py`. Where the block stands: `view/flatten.py`.

A fork takes the value as it is and changes its own (PC-14). A compaction, or anything else that replaces the
view, starts from an empty state.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from everturn.decide.result_tracker import ResultTracker
from everturn.history.edits import CacheDeleted, CacheDeletionsEnded, Edit


class Group(msgspec.Struct, frozen=True):
    """The registered results of one user message."""

    message: int
    calls: tuple[str, ...]


class CacheEditState(msgspec.Struct, frozen=True, kw_only=True):
    # Registered and not deleted, oldest first.
    groups: tuple[Group, ...] = ()
    # How many arrivals have been looked at; none is looked at again.
    looked_at: int = 0
    # Marked, not yet part of any request.
    pending: tuple[str, ...] = ()
    # One entry per block that requests carry.
    pinned: tuple[tuple[str, ...], ...] = ()
    # Deleted tokens that the API last reported, all edits together (None after a restart, until the next
    # report), and what it was before the newest edit.
    reported: int | None = 0
    baseline: int = 0
    # Whether the newest edit's saving is still to be reported.
    awaits_report: bool = False
    # After an expiry there is nothing to delete from until a request has written the cache anew.
    rests: bool = False

    @property
    def active(self) -> tuple[str, ...]:
        return tuple(call for group in self.groups for call in group.calls)

    @property
    def deleted(self) -> frozenset[str]:
        return frozenset(call for block in self.pinned for call in block)


class Deletions(Protocol):
    """The part of a plan that concerns this state."""

    @property
    def delete(self) -> tuple[str, ...]: ...
    @property
    def resets_cached(self) -> bool: ...


class Consumed(NamedTuple):
    state: CacheEditState
    # To be appended before the request is sent; None where nothing was pending.
    edit: CacheDeleted | None


class Reported(NamedTuple):
    state: CacheEditState
    saved: int


def register_results(state: CacheEditState, results: ResultTracker) -> CacheEditState:
    """With everything that arrived since, in groups per user message.

    Computed when it is asked for: where nothing is ever deleted, nothing is carried from turn to turn.
    """
    if results.arrived == state.looked_at:
        return state
    groups = list(state.groups)
    for result in results.arrived_since(state.looked_at):
        if groups and groups[-1].message == result.group:
            groups[-1] = Group(result.group, (*groups[-1].calls, result.call))
        else:
            groups.append(Group(result.group, (result.call,)))
    return msgspec.structs.replace(state, groups=tuple(groups), looked_at=results.arrived)


def apply_plan(state: CacheEditState, results: ResultTracker, plan: Deletions) -> CacheEditState:
    """After a turn's plan. A clearing that knew the cache to be cold starts over (MC-5)."""
    if plan.resets_cached:
        return CacheEditState()
    if not plan.delete:
        return state
    state = register_results(state, results)
    left = _without(state.groups, plan.delete)
    return msgspec.structs.replace(state, groups=left, pending=(*state.pending, *plan.delete))


def consume_pending(state: CacheEditState, *, why: str = "") -> Consumed:
    """The request is really being built: what was pending becomes part of it, now and for good (MC-10).

    A second call finds nothing pending, so a retry repeats the first request and adds nothing.
    """
    state = msgspec.structs.replace(state, rests=False)
    if not state.pending:
        return Consumed(state, None)
    edit = CacheDeleted(state.pending, why)
    pinned = (*state.pinned, state.pending)
    is_known = state.reported is not None
    after = msgspec.structs.replace(
        state, pending=(), pinned=pinned, baseline=state.reported or 0, awaits_report=is_known
    )
    return Consumed(after, edit)


def record_savings(state: CacheEditState, deleted_tokens: int) -> Reported:
    """What the newest edit saved: the API counts all deletions together (MC-11). Told once per edit."""
    saved = max(0, deleted_tokens - state.baseline) if state.awaits_report else 0
    return Reported(msgspec.structs.replace(state, reported=deleted_tokens, awaits_report=False), saved)


def expire_deletions(state: CacheEditState, *, why: str) -> tuple[CacheEditState, CacheDeletionsEnded | None]:
    """The cache is gone, and what was deleted in it is visible again: the edit is to be appended (MC-12)."""
    return CacheEditState(rests=True), CacheDeletionsEnded(why) if state.pinned else None


def rebuild_state(results: ResultTracker, edits: Iterable[Edit]) -> CacheEditState:
    """The state that a log of these results and edits leaves behind."""
    pinned: list[tuple[str, ...]] = []
    for edit in edits:
        if isinstance(edit, CacheDeleted):
            pinned.append(edit.calls)
        elif isinstance(edit, CacheDeletionsEnded):
            pinned.clear()
    state = register_results(CacheEditState(), results)
    groups = _without(state.groups, [call for block in pinned for call in block])
    return msgspec.structs.replace(state, groups=groups, pinned=tuple(pinned), reported=None if pinned else 0)


def _without(groups: Iterable[Group], calls: Iterable[str]) -> tuple[Group, ...]:
    gone = set(calls)
    left = (Group(each.message, tuple(call for call in each.calls if call not in gone)) for each in groups)
    return tuple(group for group in left if group.calls)
