"""Sections 7 to 9: what is still open, what was done last, and what comes next.

A next step is binding only as far as the user asked for it (CP-33), so the user's words are quoted, and the
model's announcement is labelled as such. For `up_to`, where newer messages follow, both sections look back.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from everturn.decide.extractive.reading.answers import items_not_mentioned
from everturn.decide.extractive.reading.facts import Facts, QuotedText, ToolAction
from everturn.decide.extractive.reading.sentences import announcements, definitions
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing import state, wording
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import (
    clipped,
    one_line,
    prefix_lines,
    quote,
    shortened,
    with_about,
)
from everturn.decide.extractive.writing.trouble import carried, described

_SHORT: Final = 200
_LAST_STATEMENTS: Final = 3
_LINE: Final = 160
_FINDING: Final = 400
_MIN_FINDING: Final = 24
_MAX_DEFINED: Final = 24
_REFUSED: Final = "refused by the user"


def pending(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    open_tasks = [task for task in facts.tasks if task.status != "completed"]
    entries = [
        SummaryEntry(f"{wording.TODO}{task.status.replace('_', ' ')}): {quote(task.text)}", rank=1)
        for task in open_tasks
    ]
    if facts.messages and not facts.is_answered and facts.last_request:
        entries.append(_said(wording.UNANSWERED, _alone(facts.last_request), settings.request, rank=0))
    entries += _stopped(facts)
    entries += state.open_items(facts, settings)
    entries += _unfinished(facts)
    waiting = Counter(map(described, facts.unanswered))
    entries += [
        SummaryEntry(f"no result yet: {call}{f' ({count:,}×)' if count > 1 else ''}", rank=2)
        for call, count in waiting.items()
    ]
    entries += [SummaryEntry(f"{wording.UNMADE}: {described(deed)}", rank=2) for deed in facts.unmade]
    for name, deed in facts.background.items():
        entries.append(SummaryEntry(f"{wording.RUNNING}, as {name}: {described(deed)}", rank=1))
    if asked := _asked(facts):
        entries.append(SummaryEntry(f"{wording.ASKING}: {quote(asked)}", rank=1))
    if facts.offer:
        entries.append(SummaryEntry(f"{wording.OFFERED}: {quote(facts.offer)}", 2))
    entries += [SummaryEntry(f"announced: {quote(text)}", rank=3) for text in _announced(facts, settings)]
    old = [item for item in facts.earlier.items.get(7, ()) if not state.is_replaced(item, facts)]
    return [*entries, *carried(old, wording.HANDED_DOWN)]


def _stopped(facts: Facts) -> Iterator[SummaryEntry]:
    """The user's refusal or interruption, if nothing came after it."""
    refused = clipped(one_line(facts.refusal.about), _LINE) if facts.refusal else ""
    if facts.refusal and facts.refusal.text:
        yield SummaryEntry(
            f"{wording.UNANSWERED}, said when refusing `{refused}`: {quote(facts.refusal.text)}", rank=0
        )
    elif facts.is_stopped:
        how = f"refused `{refused}`" if refused else "interrupted the model"
        yield SummaryEntry(f"{wording.STOPPED}: the user {how} and has said nothing since", rank=0)


def _unfinished(facts: Facts) -> Iterator[SummaryEntry]:
    """The model was at work when the summary was made: it has not said that the request is done."""
    if facts.is_answered and not facts.ends_with_words and facts.task and not facts.last_request:
        yield SummaryEntry(f"{wording.AT_WORK}: the task in 1", rank=1)
    if facts.is_answered and not facts.ends_with_words and facts.last_request:
        begin = clipped(facts.last_request.text, _SHORT)
        yield SummaryEntry(f"{wording.AT_WORK}: {quote(begin)}", rank=1)
        left = items_not_mentioned(facts.last_request.text, [said.text for said in facts.current])
        if left:
            yield SummaryEntry(f"{wording.NOT_MENTIONED}: {quote('; '.join(left))}", rank=1)


def _asked(facts: Facts) -> str:
    """The question with which the model ended, if nothing followed it."""
    if not facts.ends_with_words:
        return ""
    last = facts.current[-1].text.rstrip(" *_\n").rpartition("\n\n")[2]
    return clipped(last, _FINDING) if last.endswith("?") else ""


def _announced(facts: Facts, settings: SummarySettings) -> Iterator[str]:
    said = (
        text
        for said in facts.current[-_LAST_STATEMENTS:] or facts.statements[-1:]
        for text in announcements(said.text, settings.sentence)
    )
    yield from dict.fromkeys(said)


def current_work(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    """The last exchange: what the user said, what the model found since, what it called, how that ended."""
    entries = state.modes(facts, settings)
    if last := facts.last_request:
        entries.append(_said("the user's last message", last, settings.request, rank=0))
    if last and facts.expansion and facts.expansion.about == last.text:
        prompt = QuotedText(facts.expansion.text, facts.expansion.record)
        entries.append(
            _said("the program put in the place of that command", prompt, settings.request, rank=1)
        )
    return entries + _findings(facts, settings) + _work(facts, settings)


def _findings(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    """The words of the model since the user's last message, the last of them in full."""
    earlier = [said for said in facts.current[:-1] if len(said.text) >= _MIN_FINDING][-settings.findings :]
    entries = [
        _said("the model said", said, _FINDING, rank=3 + len(earlier) - at) for at, said in enumerate(earlier)
    ]
    if facts.statements:
        entries.append(_said("the model's last words", facts.statements[-1], settings.statement, rank=1))
    return entries


def _work(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    return [*state.commits(facts, settings), *_changed(facts), *_last_calls(facts, settings)]


def _changed(facts: Facts) -> list[SummaryEntry]:
    """Files that were changed since the user's last message, and how often."""
    times = Counter(deed.target for deed in facts.changes)
    if not times:
        return []
    named = ", ".join(f"{one_line(path)} ({count:,}×)" for path, count in times.items())
    label = "changed since that message"
    entries = [SummaryEntry(f"{label}: {named}", 2, f"{label}: {clipped(named, _FINDING)}")]
    if defined := _defined(facts):
        entries.append(SummaryEntry(f"defined in these changes: {', '.join(defined)}", 3))
    return entries


def _defined(facts: Facts) -> list[str]:
    """Functions and types that the changes since the user's last message define."""
    made = (name for deed in facts.changes for name in definitions(deed.new_text))
    return list(dict.fromkeys(made))[:_MAX_DEFINED]


def _last_calls(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    waiting = {deed.call for deed in facts.unanswered}
    found: list[SummaryEntry] = []
    # The task list shows what was tracked.
    shown = [deed for deed in facts.deeds if deed.verb != "tracked" or deed.call in waiting]
    for at, deed in enumerate(shown[-settings.calls :]):
        outcome = "no result yet" if deed.call in waiting else _outcome(deed, facts)
        told = f"called: {described(deed)}, {outcome}"
        lines = prefix_lines(_told_lines(deed, facts))
        found.append(SummaryEntry("\n".join(filter(None, (told, lines))), 3 + settings.calls - at, told))
    return found


def _told_lines(deed: ToolAction, facts: Facts) -> list[str]:
    """How a call ended, or what an edit began with. A very long line is data, not a message."""
    is_edit = deed.verb in ("edited", "wrote") and deed.call not in facts.failed
    lines = (deed.detail,) if is_edit else facts.last_lines.get(deed.call, ())
    return [clipped(line, _LINE) for line in lines if line and len(line) <= _FINDING]


def _outcome(deed: ToolAction, facts: Facts) -> str:
    """The end of a command proves little: its output only reported no failure."""
    if deed.call in facts.refused:
        said = facts.refused[deed.call]
        return (
            f"refused by the user, who said: {quote(clipped(one_line(said), _SHORT))}" if said else _REFUSED
        )
    if deed.call in facts.failed:
        return "failed"
    if deed.call in facts.abandoned:
        return "interrupted, no result"
    if any(deed == each for each in facts.background.values()):
        return "running in the background"
    return "no failure reported" if deed.verb == "ran" else "done"


def next_step(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    entries: list[SummaryEntry] = []
    if last := facts.last_request:
        entries.append(_said("the user asked last", _alone(last), settings.sentence, rank=0))
    entries += _stopped(facts)
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
    return [*entries, *state.commits(facts, settings), *_last_calls(facts, settings)]


def context_for_continuing(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    entries = state.modes(facts, settings)
    if last := facts.last_request:
        entries.append(_said("the user's request by then", _alone(last), settings.sentence, rank=0))
    entries += [
        SummaryEntry(f"in progress by then: {quote(task.text)}", rank=1)
        for task in facts.tasks
        if task.status == "in_progress"
    ]
    if entries:
        entries.append(SummaryEntry("the messages that follow are newer and decide what is done next"))
    return entries


def _alone(said: QuotedText) -> QuotedText:
    """Words without what they reply to, which section 8 shows."""
    return QuotedText(said.text, said.record)


def _said(label: str, said: QuotedText, most: int, *, rank: int) -> SummaryEntry:
    text = shortened(said.text, most)
    whole = with_about(f"{label}: {quote(text)}", shortened(said.about, most))
    return SummaryEntry(whole, rank, f"{label}: {quote(shortened(text, _SHORT))}", said.record)
