"""Section 1: what the user wants, in their own words: first and latest request, corrections, standing
rules."""

import re
from collections.abc import Iterator
from typing import Final

from everturn.decide.extractive.reading.facts import Facts, QuotedText
from everturn.decide.extractive.reading.sentences import standing_rules
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing import wording
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import (
    ABOUT,
    clipped,
    escaped,
    indent,
    quote,
    shortened,
    with_about,
)

_SHORT = 200
# A command without words of the user, such as "/review".
_BARE: Final = re.compile(r"/\S{1,80}")


def request(facts: Facts, settings: SummarySettings, instructions: str) -> list[SummaryEntry]:
    entries: list[SummaryEntry] = []
    if instructions.strip():
        entries.append(_entry(wording.ASKED, instructions.strip(), rank=1))
    if task := facts.task.text if facts.task else facts.earlier.task:
        words = quote(shortened(task, settings.rungs[0]))
        short = quote(shortened(task, settings.request))
        entries.append(SummaryEntry(f"{wording.TASK}: {words}", 1, f"{wording.TASK}: {short}"))
    said = facts.all_messages
    if prose := facts.earlier.prose:
        words = quote(shortened(prose, settings.rungs[0]))
        short = quote(shortened(prose, settings.request))
        entries.append(SummaryEntry(f"{wording.PROSE}: {words}", 3, f"{wording.PROSE}: {short}"))
    # Behind such a summary nobody knows what was said first.
    if said and (facts.earlier.messages or not facts.earlier.prose):
        # What replies to the model came later, even if only a bare command came before it.
        first = next((each for each in said if not (each.about or _BARE.fullmatch(each.text))), said[0])
        words = shortened(first.text, settings.request)
        entries.append(_entry(_label(wording.FIRST, first), words, rank=3))
    if len(said) > 1 and (last := facts.last_request):
        words = shortened(last.text, settings.request)
        entries.append(_entry(_label(wording.LATEST, last), words, rank=2))
    entries += [SummaryEntry(f"{wording.PINNED}: {quote(pin)}") for pin in facts.pins]
    entries += _corrections(facts, settings)
    entries += _standing(facts, settings)
    if facts.earlier.intent:
        entries.append(_intent(facts.earlier.intent))
    return entries


def _label(label: str, said: QuotedText) -> str:
    return f"{label}, {wording.REPORTED.removesuffix(': ')}" if said.is_reported else label


def _entry(label: str, text: str, *, rank: int) -> SummaryEntry:
    return SummaryEntry(f"{label}: {quote(text)}", rank, short=f"{label}: {quote(shortened(text, _SHORT))}")


def _corrections(facts: Facts, settings: SummarySettings) -> Iterator[SummaryEntry]:
    """What the user corrected, the newest ranked first; from earlier summaries without what it is about."""
    old = [QuotedText(text) for text in facts.earlier.corrections]
    every = [*old, *facts.corrections][-settings.corrections :]
    for at, said in enumerate(every):
        words = f"{wording.CORRECTED}: {quote(shortened(said.text, settings.request))}"
        whole = with_about(words, clipped(said.about, _SHORT) if said.about else "", ABOUT)
        yield SummaryEntry(whole, 2 + len(every) - at, words, said.record)


def _standing(facts: Facts, settings: SummarySettings) -> Iterator[SummaryEntry]:
    """Rules, and answers that were given through tools. The newest ranks first: it may overrule."""
    rules = dict.fromkeys(facts.earlier.standing)
    for said in facts.messages:
        rules |= dict.fromkeys(escaped(rule) for rule in standing_rules(said.text, settings.sentence))
    known = {escaped(pin) for pin in facts.pins} | {escaped(said.text) for said in facts.corrections}
    kept = [rule for rule in rules if rule not in known]
    for at, rule in enumerate(kept):
        yield SummaryEntry(f"{wording.STANDING}: {quote(rule)}", rank=4 + len(kept) - at)
    for said in facts.answers:
        text = shortened(said.text, settings.request)
        if escaped(text) not in rules:
            yield SummaryEntry(f"{wording.ANSWERED}: {quote(text)}", rank=4, record=said.record)


def _intent(text: str) -> SummaryEntry:
    """The wording of an earlier model; its own structure is lost when it is indented."""
    words = shortened(" ".join(escaped(text).split()), 4 * _SHORT)
    short = clipped(words, _SHORT)
    return SummaryEntry(f"{wording.INTENT}{indent(words)}", 10_000, f"{wording.INTENT}{short}")
