"""The other bound (RP-9): somebody who knows which results will be used again.

It clears what never will be, and only when that is free (the prefix has lapsed) or pays: reading it until
the next lapse or the end would cost more than writing once more what has to be written then. At the window it
compacts like everyone. It is a bound for clearing, not for everything: whoever drops rounds or summarizes
early can be cheaper, and pays with what is missing afterwards.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from everturn.history.edits import Cleared, Edit
from everturn.measure.meter import PLACEHOLDER_TOKENS
from everturn.measure.prefix_cache import SECONDS, Ttl
from everturn.replay.acts import Act, Acts
from everturn.replay.player import Player, Prompter
from everturn.replay.uses import ThreadUses


def whisper(uses: ThreadUses, acts: Acts, ttl: Ttl) -> Prompter:
    """What it says before each call of a thread."""
    return Prompter(_Oracle(uses, acts, ttl).edit)


class _Place(NamedTuple):
    """One block of what would be sent: its size, whose result it is, and who said it."""

    tokens: int
    result: str
    kind: str
    is_said: bool


class _Entry(NamedTuple):
    """Something in the provider's cache: a request that ended behind so many blocks, and when it was sent."""

    blocks: int
    at: datetime


class _Oracle:
    def __init__(self, uses: ThreadUses, acts: Acts, ttl: Ttl) -> None:
        self._needed_until = _needed_until(uses)
        self._numbers = uses.numbers
        self._until_lapse = _calls_until_lapse(acts, ttl)
        self._life = timedelta(seconds=SECONDS[ttl])
        self._entries: list[_Entry] = []

    def edit(self, player: Player, act: Act) -> Edit | None:
        places = _places(player)
        cached = _cached(places)
        self._note_request(cached, player.journal.touched)
        dead = self._dead(places[:cached], act)
        first, why = dead[0] if dead else None, "the prefix has lapsed"
        if not player.journal.has_lapsed(act.at, player.scheme.ttl):
            first, why = self._best(places, cached, dead, player, act), "that pays"
        if first is None:
            return None
        self._entries = [entry for entry in self._entries if entry.blocks <= first]
        return Cleared(tuple(places[at].result for at in dead if at >= first), f"never used again, and {why}")

    def _note_request(self, cached: int, at: datetime | None) -> None:
        if self._entries and cached < self._entries[-1].blocks:
            # The view is another one.
            self._entries = []
        if at is not None:
            self._entries.append(_Entry(cached, at))

    def _dead(self, places: Sequence[_Place], act: Act) -> list[int]:
        number = next((self._numbers[each.uuid] for each in act.reply if each.uuid in self._numbers), 0)
        return [
            at
            for at, place in enumerate(places)
            if place.result and place.tokens > PLACEHOLDER_TOKENS
            if self._needed_until.get(place.result, 0) < number
        ]
