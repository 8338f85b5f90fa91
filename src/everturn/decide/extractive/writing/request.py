"""Section 1: what the user wants, in their own words: first and latest request, and standing rules."""

from collections.abc import Iterator

from everturn.decide.extractive.reading.facts import Facts
from everturn.decide.extractive.reading.sentences import standing_rules
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing import wording
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import clipped, escaped, indent, quote, shortened

_SHORT = 200


def request(facts: Facts, settings: SummarySettings, instructions: str) -> list[SummaryEntry]:
    entries: list[SummaryEntry] = []
    if instructions.strip():
        entries.append(_entry(wording.ASKED, instructions.strip(), rank=1))
    said = facts.all_messages
    if said:
        entries.append(_entry(wording.FIRST, shortened(said[0].text, settings.request), rank=3))
    if len(said) > 1:
        entries.append(_entry(wording.LATEST, shortened(said[-1].text, settings.request), rank=2))
    entries += [SummaryEntry(f"{wording.PINNED}: {quote(pin)}") for pin in facts.pins]
    entries += _standing(facts, settings)
    if facts.earlier.intent:
        entries.append(_intent(facts.earlier.intent))
    return entries


def _entry(label: str, text: str, *, rank: int) -> SummaryEntry:
    return SummaryEntry(f"{label}: {quote(text)}", rank, short=f"{label}: {quote(shortened(text, _SHORT))}")


def _standing(facts: Facts, settings: SummarySettings) -> Iterator[SummaryEntry]:
    """Rules, and answers that were given through tools. The newest ranks first: it may overrule."""
    rules = dict.fromkeys(facts.earlier.standing)
    for said in facts.messages:
        rules |= dict.fromkeys(escaped(rule) for rule in standing_rules(said.text, settings.sentence))
    known = {escaped(pin) for pin in facts.pins}
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
    return SummaryEntry(f"as an earlier summary put it: {indent(words)}", 10_000, clipped(words, _SHORT))
