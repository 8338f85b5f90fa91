"""Sections 7 to 9: what is still open, what was done last, and what comes next.

A next step is binding only as far as the user asked for it (CP-33), so the user's words are quoted, and the
model's announcement is labelled as such. For `up_to`, where newer messages follow, both sections look back.
"""

from collections.abc import Iterator

from everturn.decide.extractive.reading.facts import Facts, QuotedText
from everturn.decide.extractive.reading.sentences import announcements
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import quote, shortened
from everturn.decide.extractive.writing.trouble import carried, described
from everturn.decide.extractive.writing.wording import HANDED_DOWN

_TODO = "todo ("
_SHORT = 200
_LAST_STATEMENTS = 3


def pending(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    open_tasks = [task for task in facts.tasks if task.status != "completed"]
    entries = [
        SummaryEntry(f"{_TODO}{task.status.replace('_', ' ')}): {quote(task.text)}", rank=1)
        for task in open_tasks
    ]
    if facts.messages and not facts.is_answered:
        entries.append(_said("not answered yet", facts.messages[-1], settings.statement, rank=0))
    entries += [SummaryEntry(f"no result yet: {described(deed)}", rank=2) for deed in facts.unanswered]
    entries += [SummaryEntry(f"announced: {quote(text)}", rank=3) for text in _announced(facts, settings)]
    # A newer task list replaces the earlier one; everything else may or may not be done.
    old = [
        item for item in facts.earlier.items.get(7, ()) if not (facts.tasks_known and item.startswith(_TODO))
    ]
    return [*entries, *carried(old, HANDED_DOWN)]


def _announced(facts: Facts, settings: SummarySettings) -> Iterator[str]:
    said = (
        text
        for said in facts.statements[-_LAST_STATEMENTS:]
        for text in announcements(said.text, settings.sentence)
    )
    yield from dict.fromkeys(said)


def current_work(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    """The last exchange: what the user said, what the model said, what it called."""
    entries: list[SummaryEntry] = []
    if facts.all_messages:
        entries.append(_said("the user's last message", facts.all_messages[-1], settings.statement, rank=0))
    if facts.statements:
        entries.append(_said("the model's last words", facts.statements[-1], settings.statement, rank=1))
    return entries + _last_calls(facts, settings)


def _last_calls(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    waiting = {deed.call for deed in facts.unanswered}
    found: list[SummaryEntry] = []
    for at, deed in enumerate(facts.deeds[-settings.calls :]):
        outcome = "failed" if deed.call in facts.failed else "done"
        outcome = "no result yet" if deed.call in waiting else outcome
        found.append(SummaryEntry(f"called: {described(deed)}, {outcome}", rank=2 + settings.calls - at))
    return found


def next_step(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    entries: list[SummaryEntry] = []
    if facts.all_messages:
        entries.append(_said("the user asked last", facts.all_messages[-1], settings.sentence, rank=0))
    entries += [
        SummaryEntry(f"in progress: {quote(task.text)}", rank=1)
        for task in facts.tasks
        if task.status == "in_progress"
    ]
    if announced := list(_announced(facts, settings))[-1:]:
        entries.append(SummaryEntry(f"the model announced: {quote(announced[0])}", rank=2))
    if entries:
        entries.append(
            SummaryEntry("only what the user asked for is to be done; anything else here is a suggestion")
        )
    return entries


def work_completed(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    entries = [
        SummaryEntry(f"done: {quote(task.text)}", rank=1)
        for task in facts.tasks
        if task.status == "completed"
    ]
    changed = [file.path for file in facts.files.values() if file.changed]
    if changed:
        entries.append(SummaryEntry(f"files changed: {len(changed):,}, see 3", rank=0))
    if facts.statements:
        entries.append(_said("the model's last words", facts.statements[-1], settings.statement, rank=2))
    return entries + _last_calls(facts, settings)


def context_for_continuing(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    entries: list[SummaryEntry] = []
    if facts.all_messages:
        entries.append(_said("the user's request by then", facts.all_messages[-1], settings.sentence, rank=0))
    entries += [
        SummaryEntry(f"in progress by then: {quote(task.text)}", rank=1)
        for task in facts.tasks
        if task.status == "in_progress"
    ]
    if entries:
        entries.append(SummaryEntry("the messages that follow are newer and decide what is done next"))
    return entries


def _said(label: str, said: QuotedText, most: int, *, rank: int) -> SummaryEntry:
    text = shortened(said.text, most)
    return SummaryEntry(
        f"{label}: {quote(text)}", rank, f"{label}: {quote(shortened(text, _SHORT))}", said.record
    )
