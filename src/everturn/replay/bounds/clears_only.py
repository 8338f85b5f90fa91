"""Clears only: a policy that knows which results will be used again (RP-9, EC-12).

It clears results that are never used again, but only if that is free (the cache has expired) or saves money:
reading them until the cache expires or the thread ends would cost more than rewriting what follows them. When
the window is full it compacts like the other policies. It is a bound for clearing only. Policies that drop
turns or summarize early can be cheaper, at the price of lost content.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

from everturn.history.edits import Cleared, Edit
from everturn.history.records import is_sent
from everturn.measure.meter import PLACEHOLDER_TOKENS
from everturn.measure.prefix_cache import LOOKBACK, SECONDS, Ttl, group_positions
from everturn.replay.playing.player import EditAdvisor, Player
from everturn.replay.playing.steps import ReplayStep, ReplayThread
from everturn.replay.refetches import ThreadUses


def make_clears_only(uses: ThreadUses, thread: ReplayThread, ttl: Ttl) -> EditAdvisor:
    """The edits of this bound before each call of a thread."""
    return EditAdvisor(_ClearsOnly(uses, thread, ttl).edit)


class _Place(NamedTuple):
    """One block of the next request: its size, the call it answers, and whether the assistant wrote it."""

    tokens: int
    result: str
    kind: str
    is_said: bool


class _Entry(NamedTuple):
    """A cache entry: how many blocks the request had, and when it was sent."""

    blocks: int
    at: datetime


class _ClearsOnly:
    def __init__(self, uses: ThreadUses, thread: ReplayThread, ttl: Ttl) -> None:
        self._needed_until = _needed_until(uses)
        self._numbers = uses.numbers
        self._until_lapse = _calls_until_lapse(thread, ttl)
        self._life = timedelta(seconds=SECONDS[ttl])
        self._entries: list[_Entry] = []

    def edit(self, player: Player, step: ReplayStep) -> Edit | None:
        places = _places(player)
        cached = _cached(places)
        self._note_request(cached, player.call_log.last_touched_at)
        dead = self._dead(places[:cached], step)
        first, why = dead[0] if dead else None, "the cache has expired"
        if not player.call_log.has_expired(step.at, player.ttl):
            first, why = self._best(places, cached, dead, player, step), "that saves money"
        if first is None:
            return None
        self._entries = [entry for entry in self._entries if entry.blocks <= first]
        return Cleared(tuple(places[at].result for at in dead if at >= first), f"never used again, and {why}")

    def _note_request(self, cached: int, at: datetime | None) -> None:
        if self._entries and cached < self._entries[-1].blocks:
            # The view was replaced.
            self._entries = []
        if at is not None:
            self._entries.append(_Entry(cached, at))

    def _dead(self, places: Sequence[_Place], step: ReplayStep) -> list[int]:
        number = next((self._numbers[each.uuid] for each in step.reply if each.uuid in self._numbers), 0)
        return [
            at
            for at, place in enumerate(places)
            if place.result and place.tokens > PLACEHOLDER_TOKENS
            if self._needed_until.get(place.result, 0) < number
        ]

    def _best(
        self, places: Sequence[_Place], cached: int, dead: Sequence[int], player: Player, step: ReplayStep
    ) -> int | None:
        """The first block to clear for the largest saving; None if clearing saves nothing."""
        rates = player.model.rates(on=step.at.date(), prompt_tokens=0)
        again = (rates.write_1h if player.ttl == "1h" else rates.write_5m) - rates.read
        positions = group_positions([place.kind for place in places])
        ends = list(accumulate((place.tokens for place in places), initial=0))
        best, most, freed = None, Decimal(0), 0
        for at in reversed(dead):
            freed += places[at].tokens - PLACEHOLDER_TOKENS
            rewritten = ends[cached] - ends[self._read_up_to(at, positions, step.at)] - freed
            net = freed * self._until_lapse[step.number - 1] * rates.read - max(0, rewritten) * again
            if net > most:
                best, most = at, net
        return best

    def _read_up_to(self, first: int, positions: Sequence[int], now: datetime) -> int:
        """How many blocks would still be read if the result at `first` were cleared: those of the newest
        request that ended before it, if its entry is alive and within the lookback. Otherwise 0 (only system
        prompt and tools).
        """
        for entry in reversed(self._entries):
            in_reach = positions[-1] - positions[max(0, entry.blocks - 1)] < LOOKBACK
            if entry.blocks <= first:
                return entry.blocks if in_reach and now - entry.at <= self._life else 0
        return 0


def _needed_until(uses: ThreadUses) -> Mapping[str, int]:
    """For each result, the last call that uses something from it."""
    found: dict[str, int] = {}
    for call in uses.calls:
        for string in call.uses:
            if result := uses.blocks[uses.last_holder(string, call.start)].answers:
                found[result] = call.number
    return found


def _calls_until_lapse(thread: ReplayThread, ttl: Ttl) -> list[int]:
    """For each call, the number of calls before the cache expires or the thread ends."""
    left: list[int] = []
    later: ReplayStep | None = None
    for step in reversed(thread.calls):
        lapses = later is None or (later.at - step.at).total_seconds() > SECONDS[ttl]
        left.append(1 if lapses else left[-1] + 1)
        later = step
    return left[::-1]


def _places(player: Player) -> list[_Place]:
    view = player.conversation.log.view
    hidden = {*view.cleared, *view.offloaded}
    return [
        _Place(
            PLACEHOLDER_TOKENS if block.call in hidden and block.is_result else player.costs.block(block),
            block.call if block.is_result else "",
            block.kind,
            record.kind == "assistant",
        )
        for record in view.records
        if is_sent(record)
        for block in record.blocks
    ]


def _cached(places: Sequence[_Place]) -> int:
    """How many blocks the last request had: everything before the last reply."""
    at = len(places)
    while at and not places[at - 1].is_said:
        at -= 1
    while at and places[at - 1].is_said:
        at -= 1
    return at
