"""Sections 4 and 5: what failed and what was done about it; what the model concluded."""

from collections.abc import Iterator, Sequence

from everturn.decide.extractive.reading.facts import Facts, ToolAction, ToolFailure
from everturn.decide.extractive.reading.sentences import conclusions
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import (
    INSIDE,
    clipped,
    escaped,
    prefix_lines,
    quote,
    shortened,
)

_TARGET = 160
# Entries carried over from earlier summaries rank after all entries of this one.
_OLD = 10_000


def described(deed: ToolAction) -> str:
    """A call in one line."""
    target = clipped(deed.target, _TARGET)
    return f"{deed.tool or 'a call'} `{target}`" if target else deed.tool or "a call"


def errors(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    """Equal failures are listed once, with the details of the last one. The newest ranks first."""
    times: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], ToolFailure] = {}
    for failure in facts.failures:
        key = failure.deed.tool, failure.lines[0]
        times[key] = times.get(key, 0) + 1
        last.pop(key, None)
        last[key] = failure
    newest = list(last.items())[-settings.failures :]
    entries = [
        _error(failure, times[key], len(newest) - at, settings) for at, (key, failure) in enumerate(newest)
    ]
    return [*carried(facts.earlier.items.get(4, ())), *entries]


def _error(failure: ToolFailure, times: int, rank: int, settings: SummarySettings) -> SummaryEntry:
    often = f" ({times:,}×)" if times > 1 else ""
    head = f"{described(failure.deed)} failed{often}:"
    said = [clipped(line, settings.sentence) for line in failure.lines]
    then = f"{INSIDE}then: {described(failure.then)}" if failure.then else f"{INSIDE}then: nothing yet"
    lines = [head, prefix_lines(said), then]
    if failure.feedback:
        lines.append(f"{INSIDE}user: {quote(shortened(failure.feedback, settings.sentence))}")
    return SummaryEntry("\n".join(lines), rank, short=f"{head}\n{prefix_lines(said[:1])}")


def problem_solving(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    found: dict[str, str] = {}
    for said in reversed(facts.statements):
        for sentence in reversed(list(conclusions(said.text, settings.sentence))):
            found.setdefault(sentence, said.record)
        if len(found) >= settings.conclusions:
            break
    newest_first = list(found.items())[: settings.conclusions]
    entries = [
        SummaryEntry(quote(sentence), rank, record=record)
        for rank, (sentence, record) in enumerate(newest_first)
    ]
    return [*carried(facts.earlier.items.get(5, ())), *reversed(entries)]


def carried(items: Sequence[str], label: str = "") -> Iterator[SummaryEntry]:
    """Entries of earlier summaries, unchanged; the latest of them ranks first."""
    for at, item in enumerate(dict.fromkeys(items)):
        yield SummaryEntry(label + _set_in(escaped(item)), _OLD + len(items) - at)


def _set_in(item: str) -> str:
    """Lines of a model's summary may have any indentation; here all are indented like an entry or more."""
    first, *rest = item.split("\n")
    return "\n".join([first, *(line if line.startswith(INSIDE) else INSIDE + line.strip() for line in rest)])
