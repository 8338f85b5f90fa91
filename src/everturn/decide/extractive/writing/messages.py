"""Section 6: everything that the user said, word for word (CP-4).

If it does not fit, the oldest long messages are shortened first, each with the number of characters left out;
only if the shortest form of all of them is still too long are the oldest omitted, and their number is shown.
Below a short answer is the question or the list that it answers, in the space that the user's words leave.
"""

from collections.abc import Sequence
from typing import Final

from everturn.decide.extractive.reading.facts import QuotedText
from everturn.decide.extractive.writing.fitting import DroppedEntry, FittedSection, cost
from everturn.decide.extractive.writing.quoting import (
    ITEM,
    about_cost,
    original_length,
    quote,
    shortened,
    shown_length,
    with_about,
)
from everturn.decide.extractive.writing.wording import MESSAGES, NOTHING, REPORTED, missing

# A question that does not fit whole is shown up to this length.
_SHORT_QUESTION: Final = 300


def want(messages: Sequence[QuotedText], gone: tuple[int, int]) -> int:
    words = sum(cost(_line(said, said.text)) + about_cost(said.about) for said in messages)
    return words + (cost(missing(*gone)) if gone[0] else 0)


def fit_messages(
    messages: Sequence[QuotedText], gone: tuple[int, int], room: int, rungs: Sequence[int]
) -> FittedSection:
    """`gone` are messages that did not fit into earlier summaries."""
    if not messages and not gone[0]:
        return FittedSection(NOTHING)
    texts = _shortened(messages, room - (cost(missing(*gone)) if gone[0] else 0), rungs)
    first, gone = _without_the_oldest(messages, texts, gone, room)
    lines = [missing(*gone)] if gone[0] else []
    lines += [_line(said, text) for said, text in zip(messages[first:], texts[first:], strict=True)]
    left = room - sum(map(cost, lines))
    shown = _questions([said.about for said in messages[first:]], left)
    lines[len(lines) - len(shown) :] = map(with_about, lines[len(lines) - len(shown) :], shown)
    return FittedSection("\n".join(ITEM + line for line in lines), _dropped(messages, texts, first))


def _shortened(messages: Sequence[QuotedText], room: int, rungs: Sequence[int]) -> list[str]:
    texts = [said.text for said in messages]
    costs = _costs(messages, texts)
    total = sum(costs)
    for rung in rungs:
        for at, text in enumerate(texts):
            if total <= room:
                return texts
            if len(text) > rung:
                texts[at] = shortened(text, rung)
                total -= costs[at]
                costs[at] = cost(_line(messages[at], texts[at]))
                total += costs[at]
    return texts


def _questions(abouts: Sequence[str], room: int) -> list[str]:
    """What each message answers, the newest first, in the space that the user's own words leave."""
    shown = ["" for _ in abouts]
    for at in range(len(abouts) - 1, -1, -1):
        for text in (abouts[at], shortened(abouts[at], _SHORT_QUESTION)):
            if text and about_cost(text) <= room:
                shown[at] = text
                room -= about_cost(text)
                break
    return shown


def _without_the_oldest(
    messages: Sequence[QuotedText], texts: Sequence[str], gone: tuple[int, int], room: int
) -> tuple[int, tuple[int, int]]:
    """How many of the oldest must be omitted, and the total number omitted."""
    costs = _costs(messages, texts)
    total = sum(costs)
    count, characters = gone
    first = 0
    while first < len(texts) and total + (cost(missing(count, characters)) if count else 0) > room:
        total -= costs[first]
        count += 1
        characters += original_length(messages[first].text)
        first += 1
    return first, (count, characters)


def _line(said: QuotedText, text: str) -> str:
    return f"{REPORTED if said.is_reported else ''}{quote(text)}"


def _costs(messages: Sequence[QuotedText], texts: Sequence[str]) -> list[int]:
    return [cost(_line(said, text)) for said, text in zip(messages, texts, strict=True)]


def _dropped(messages: Sequence[QuotedText], texts: Sequence[str], first: int) -> tuple[DroppedEntry, ...]:
    found: list[DroppedEntry] = []
    for at, (said, text) in enumerate(zip(messages, texts, strict=True)):
        if at >= first and text == said.text:
            continue
        kept = 0 if at < first else shown_length(text)
        what = f"user message {said.text[:60]!r}"
        found.append(DroppedEntry(MESSAGES, what, shown_length(said.text) - kept, said.record))
    return tuple(found)
