"""A summary without a model (BY-5): the nine sections, filled from the log itself.

The last strategy of a compaction, so that an API outage never means a lost session, and the baseline for
measuring a model's summary (`decide/retention/`). Equal records give equal bytes, and the result never
exceeds the budget by the rough estimator. What did not fit is in `dropped`.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from everturn.decide.extractive.reading.facts import Facts
from everturn.decide.extractive.reading.walk import extract_facts
from everturn.decide.extractive.settings import CompactionForm, SummarySettings
from everturn.decide.extractive.writing import ending, files, messages, request, trouble, wording
from everturn.decide.extractive.writing.fitting import (
    DroppedEntry,
    FittedSection,
    SummaryEntry,
    fit,
    grants,
    reserve,
    wanted,
)
from everturn.history.records import Record
from everturn.measure.tokens import ROUGH
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable
from everturn.wire.queued_messages import QueuedMessage

_DEFAULT = SummarySettings()


class Summary(msgspec.Struct, frozen=True):
    """`sections` are the bodies by number, as they are in the text."""

    text: str
    sections: Mapping[int, str] = {}
    dropped: tuple[DroppedEntry, ...] = ()


def summarize(
    records: Sequence[Record],
    *,
    budget: int | None = None,
    instructions: str = "",
    form: CompactionForm = "full",
    settings: SummarySettings = _DEFAULT,
    tools: ToolTable = DEFAULT_TOOL_TABLE,
    queued: Iterable[QueuedMessage] = (),
) -> Summary:
    """`budget` in tokens, if different from the settings. `instructions` are included, and entries that
    contain their words are kept first. `queued` is what the user typed while the model worked and no record
    has.
    """
    facts = extract_facts(records, tools, queued)
    entries = _entries(facts, settings, instructions, form)
    titles = wording.titles(form)
    preface = _preface(form)
    limit = int((settings.budget if budget is None else budget) * ROUGH.characters)
    fixed = len(preface) + sum(len(_heading(n, title)) + reserve(n) + 2 for n, title in titles.items())
    wants = {number: wanted(listed) for number, listed in entries.items()}
    wants[wording.MESSAGES] = messages.want(facts.all_messages, facts.earlier.missing)
    given = grants(wants, settings.shares, max(0, limit - fixed))
    fitted = {number: fit(number, listed, given[number]) for number, listed in entries.items()}
    fitted[wording.MESSAGES] = messages.fit_messages(
        facts.all_messages, facts.earlier.missing, given[wording.MESSAGES], settings.rungs
    )
    return _whole(preface, titles, fitted, limit)


def _entries(
    facts: Facts, settings: SummarySettings, instructions: str, form: CompactionForm
) -> Mapping[int, Sequence[SummaryEntry]]:
    eight, nine = (
        (ending.work_completed, ending.context_for_continuing)
        if form == "up_to"
        else (ending.current_work, ending.next_step)
    )
    found = {
        1: request.request(facts, settings, instructions),
        2: files.concepts(facts, settings),
        3: files.files(facts, settings),
        4: trouble.errors(facts, settings),
        5: trouble.problem_solving(facts, settings),
        7: ending.pending(facts, settings),
        8: eight(facts, settings),
        9: nine(facts, settings),
    }
    focus = frozenset(word.lower() for word in instructions.split() if len(word) > 3)
    return {number: _focused(listed, focus) for number, listed in found.items()} if focus else found


def _focused(entries: Sequence[SummaryEntry], focus: frozenset[str]) -> list[SummaryEntry]:
    """Entries that contain a word of the instructions come before all others."""
    return [
        msgspec.structs.replace(entry, rank=entry.rank - 100_000)
        if any(word in entry.text.lower() for word in focus)
        else entry
        for entry in entries
    ]


def _preface(form: CompactionForm) -> str:
    more = {"full": (), "from": (wording.FROM,), "up_to": (wording.UP_TO,)}[form]
    return "\n".join((wording.PREFACE, *more)) + "\n"


def _heading(number: int, title: str) -> str:
    return f"\n{number}. {title}:\n"


def _whole(
    preface: str, titles: Mapping[int, str], fitted: Mapping[int, FittedSection], limit: int
) -> Summary:
    sections = {number: fitted[number].body for number in titles}
    text = preface + "".join(_heading(n, titles[n]) + body + "\n" for n, body in sections.items())
    dropped = tuple(each for number in titles for each in fitted[number].dropped)
    # A budget below the bare headings: as much of them as fits, so that the limit always holds.
    return Summary(text[: max(0, limit)], sections, dropped)
