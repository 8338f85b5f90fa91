"""Sections 4 and 5: what failed and what came of it; what the model and its agents found and reported."""

from collections.abc import Iterator, Sequence
from typing import Final

from everturn.decide.extractive.reading.facts import Facts, ToolAction, ToolFailure
from everturn.decide.extractive.reading.sentences import conclusions
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import (
    INSIDE,
    clipped,
    escaped,
    one_line,
    prefix_lines,
    quote,
    shortened,
)

_TARGET: Final = 160
_SHORT: Final = 240
# Entries carried over from earlier summaries rank after all entries of this one.
_OLD: Final = 10_000
# Failed reads, searches and edits usually mean that something was looked for in the wrong place.
_MINOR: Final = 1_000
# "Done." or "Let me look." reports nothing.
_MIN_REPORT: Final = 40


def described(deed: ToolAction) -> str:
    """A call in one line."""
    target = clipped(deed.target, _TARGET)
    where = f" {deed.detail}" if deed.verb == "read" and deed.detail else ""
    return f"{deed.tool or 'a call'} `{target}`{where}" if target else deed.tool or "a call"


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
    failing = {failure.deed.call for failure in facts.state.failing}
    entries = [
        _error(failure, times[key], len(newest) - at, settings, is_failing=failure.deed.call in failing)
        for at, (key, failure) in enumerate(newest)
    ]
    return [*carried(facts.earlier.items.get(4, ())), *entries]


def _error(
    failure: ToolFailure, times: int, rank: int, settings: SummarySettings, *, is_failing: bool
) -> SummaryEntry:
    often = f" ({times:,}×)" if times > 1 else ""
    head = f"{described(failure.deed)} failed{often}:"
    said = [clipped(line, settings.sentence) for line in failure.lines]
    then = f"{INSIDE}then: {described(failure.then) if failure.then else 'nothing yet'}"
    if failure.passed:
        then += "; no failure when it ran again"
    elif is_failing and failure.then:
        then += "; not run again without a failure"
    lines = [head, prefix_lines(said), then]
    if failure.feedback:
        lines.append(f"{INSIDE}user: {quote(shortened(failure.feedback, settings.sentence))}")
    short = f"{head}\n{prefix_lines(said[:1])}"
    return SummaryEntry("\n".join(lines), rank if failure.deed.verb == "ran" else rank + _MINOR, short)


def problem_solving(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    """What was found, by whom: agents, the model at the end of its turns, and its conclusions in between."""
    told = [*_agents(facts, settings), *_reports(facts, settings)]
    shown = "\n".join(entry.text for entry in told)
    return [
        *carried(facts.earlier.items.get(5, ())),
        *_own_work(facts, settings),
        *told,
        *_conclusions(facts, settings, shown),
    ]


def _own_work(facts: Facts, settings: SummarySettings) -> Iterator[SummaryEntry]:
    newest = facts.own_work[-settings.conclusions :]
    for at, said in enumerate(newest):
        yield SummaryEntry(
            f"the user did themselves: {quote(said.text)}", 2 * (len(newest) - at), record=said.record
        )


def _agents(facts: Facts, settings: SummarySettings) -> Iterator[SummaryEntry]:
    newest = facts.agent_reports[-settings.reports :]
    for at, report in enumerate(newest):
        rank = len(newest) - at - 1
        how = "failed, and reported" if report.failed else "reported"
        head = f"agent {quote(one_line(report.name)[:_TARGET])} {how}:"
        yield SummaryEntry(
            f"{head} {quote(_report(report.text, rank, settings))}",
            3 * rank,
            f"{head} {quote(shortened(report.text, _SHORT))}",
            report.record,
        )


def _reports(facts: Facts, settings: SummarySettings) -> Iterator[SummaryEntry]:
    worth = [said for said in facts.reports if len(said.text) >= _MIN_REPORT]
    newest = worth[-settings.reports :]
    for at, said in enumerate(newest):
        rank = len(newest) - at - 1
        head = f"after {quote(said.about)} the model reported:"
        yield SummaryEntry(
            f"{head} {quote(_report(said.text, rank, settings))}",
            2 * rank,
            f"{head} {quote(shortened(said.text, _SHORT))}",
            said.record,
        )


def _report(text: str, rank: int, settings: SummarySettings) -> str:
    return shortened(text, settings.new_report if rank < settings.new_reports else settings.report)


def _conclusions(facts: Facts, settings: SummarySettings, shown: str) -> list[SummaryEntry]:
    """Concluding sentences inside of the turns; what a turn ended with is among the reports."""
    closing = {said.record for said in facts.reports}
    found: dict[str, str] = {}
    for said in reversed(facts.statements):
        if said.record in closing:
            continue
        for sentence in reversed(list(conclusions(said.text, settings.sentence))):
            if escaped(sentence) not in shown:
                found.setdefault(sentence, said.record)
        if len(found) >= settings.conclusions:
            break
    newest_first = list(found.items())[: settings.conclusions]
    entries = [
        SummaryEntry(quote(sentence), 2 * rank, record=record)
        for rank, (sentence, record) in enumerate(newest_first)
    ]
    return entries[::-1]


def carried(items: Sequence[str], label: str = "") -> Iterator[SummaryEntry]:
    """Entries of earlier summaries, unchanged; the latest of them ranks first."""
    for at, item in enumerate(dict.fromkeys(items)):
        yield SummaryEntry(label + _set_in(escaped(item)), _OLD + len(items) - at)


def _set_in(item: str) -> str:
    """Lines of a model's summary may have any indentation; here all are indented like an entry or more."""
    first, *rest = item.split("\n")
    return "\n".join([first, *(line if line.startswith(INSIDE) else INSIDE + line.strip() for line in rest)])
