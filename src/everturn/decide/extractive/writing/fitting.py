"""What fits: space for each section, and entries within a section.

Every section gets what it needs up to its share; the rest goes to those that need more, in the order of the
shares. Within a section each entry first gets its short form, best rank first, and then its full one: forty
names are worth more than ten names with details. The number of omitted entries is shown.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from everturn.decide.extractive.writing.quoting import ITEM
from everturn.decide.extractive.writing.wording import MESSAGES, NOTHING, left_out, missing

# More than any conversation holds, to compute the longest notes that may be needed.
_MANY: Final = 10**9


class DroppedEntry(msgspec.Struct, frozen=True):
    """Something that the summary omits or shortens. `record` is its place in the log."""

    section: int
    what: str
    characters: int
    record: str = ""


class SummaryEntry(msgspec.Struct, frozen=True):
    """One entry of a section, indented and escaped. A smaller rank is kept first."""

    text: str
    rank: int = 0
    short: str = ""
    record: str = ""

    @property
    def name(self) -> str:
        return self.text.split("\n", 1)[0][:80]


class FittedSection(msgspec.Struct, frozen=True):
    """The lines of a section, and what they omit."""

    body: str
    dropped: tuple[DroppedEntry, ...] = ()


def reserve(number: int) -> int:
    """Space that a section keeps to say that it is empty, or how much is missing."""
    return cost(missing(_MANY, _MANY)) if number == MESSAGES else len(left_out(_MANY))


def cost(text: str) -> int:
    """Characters of an entry in the text, including its line break."""
    return len(ITEM) + len(text) + 1


def wanted(entries: Sequence[SummaryEntry]) -> int:
    return sum(cost(entry.text) for entry in entries)


def grants(wants: Mapping[int, int], shares: Mapping[int, float], room: int) -> Mapping[int, int]:
    """Characters for each section; their sum never exceeds the total space."""
    given = {number: min(wants[number], int(share * room)) for number, share in shares.items()}
    rest = room - sum(given.values())
    for number in shares:
        more = min(rest, wants[number] - given[number])
        given[number] += more
        rest -= more
    return given


def fit(number: int, entries: Sequence[SummaryEntry], room: int) -> FittedSection:
    """Entries in their own order, as many and as complete as fit."""
    if not entries:
        return FittedSection(NOTHING)
    if wanted(entries) <= room:
        return FittedSection(_page([entry.text for entry in entries]))
    shown = _shown(entries, room)
    dropped = tuple(
        DroppedEntry(number, entry.name, len(entry.text) - len(shown.get(at, "")), entry.record)
        for at, entry in enumerate(entries)
        if shown.get(at) != entry.text
    )
    page = [shown[at] for at in sorted(shown)]
    gone = len(entries) - len(page)
    return FittedSection("\n".join(filter(None, (_page(page), left_out(gone) if gone else ""))), dropped)


def _shown(entries: Sequence[SummaryEntry], room: int) -> dict[int, str]:
    by_rank = sorted(range(len(entries)), key=lambda at: entries[at].rank)
    shown: dict[int, str] = {}
    for at in by_rank:
        least = entries[at].short or entries[at].text
        if cost(least) <= room:
            shown[at] = least
            room -= cost(least)
    for at in by_rank:
        more = len(entries[at].text) - len(shown.get(at, ""))
        if at in shown and more <= room:
            shown[at] = entries[at].text
            room -= more
    return shown


def _page(texts: Sequence[str]) -> str:
    return "\n".join(ITEM + text for text in texts)
