"""Section 6: everything that the user said, word for word (CP-4).

If it does not fit, the oldest long messages are shortened first, each with the number of characters left out;
only if the shortest form of all of them is still too long are the oldest omitted, and their number is shown.
"""

from collections.abc import Sequence

from everturn.decide.extractive.reading.facts import QuotedText
from everturn.decide.extractive.writing.fitting import DroppedEntry, FittedSection, cost
from everturn.decide.extractive.writing.quoting import ITEM, original_length, quote, shortened, shown_length
from everturn.decide.extractive.writing.wording import MESSAGES, NOTHING, missing


def want(messages: Sequence[QuotedText], gone: tuple[int, int]) -> int:
    return sum(cost(quote(said.text)) for said in messages) + (cost(missing(*gone)) if gone[0] else 0)


def fit_messages(
    messages: Sequence[QuotedText], gone: tuple[int, int], room: int, rungs: Sequence[int]
) -> FittedSection:
    """`gone` are messages that did not fit into earlier summaries."""
    if not messages and not gone[0]:
        return FittedSection(NOTHING)
    texts = _shortened(messages, room - (cost(missing(*gone)) if gone[0] else 0), rungs)
    first, gone = _without_the_oldest(messages, texts, gone, room)
    lines = [missing(*gone)] if gone[0] else []
    lines += [quote(text) for text in texts[first:]]
    return FittedSection("\n".join(ITEM + line for line in lines), _dropped(messages, texts, first))


def _shortened(messages: Sequence[QuotedText], room: int, rungs: Sequence[int]) -> list[str]:
    texts = [said.text for said in messages]
    costs = [cost(quote(text)) for text in texts]
    total = sum(costs)
    for rung in rungs:
        for at, text in enumerate(texts):
            if total <= room:
                return texts
            if len(text) > rung:
                texts[at] = shortened(text, rung)
                total -= costs[at]
                costs[at] = cost(quote(texts[at]))
                total += costs[at]
    return texts


def _without_the_oldest(
    messages: Sequence[QuotedText], texts: Sequence[str], gone: tuple[int, int], room: int
) -> tuple[int, tuple[int, int]]:
    """How many of the oldest must be omitted, and the total number omitted."""
    costs = [cost(quote(text)) for text in texts]
    total = sum(costs)
    count, characters = gone
    first = 0
    while first < len(texts) and total + (cost(missing(count, characters)) if count else 0) > room:
        total -= costs[first]
        count += 1
        characters += original_length(messages[first].text)
        first += 1
    return first, (count, characters)


def _dropped(messages: Sequence[QuotedText], texts: Sequence[str], first: int) -> tuple[DroppedEntry, ...]:
    found: list[DroppedEntry] = []
    for at, (said, text) in enumerate(zip(messages, texts, strict=True)):
        if at >= first and text == said.text:
            continue
        kept = 0 if at < first else shown_length(text)
        what = f"user message {said.text[:60]!r}"
        found.append(DroppedEntry(MESSAGES, what, shown_length(said.text) - kept, said.record))
    return tuple(found)
