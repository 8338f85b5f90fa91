"""Statements of a summary that the log contradicts: done although it failed, nothing pending although it is.

Only what can be decided from words is looked for; a summary may be wrong in other ways.
"""

import re
from collections.abc import Iterator
from typing import Final

from everturn.decide.extractive.reading.commands import programs, tests_only
from everturn.decide.extractive.reading.earlier import read_section
from everturn.decide.extractive.reading.facts import Facts
from everturn.decide.retention.items import open_for_certain

_PENDING: Final = 7
# Other sections tell what was true at some time.
_ABOUT_NOW: Final = (7, 8, 9)
_NOTHING: Final = re.compile(
    r"^\W*(?:\(?none\b|no (?:explicit(?:ly)? )?(?:pending|open|remaining|outstanding)\b|nothing\b|n/a\b)",
    re.IGNORECASE,
)
_ENDED_WELL: Final = re.compile(
    r"\b(?:done|completed?|pass(?:es|ed|ing)?|succe(?:ss|eds|eded|ssful\w*)|green|fixed|works)\b",
    re.IGNORECASE,
)
_ENDED_BADLY: Final = re.compile(
    r"\bfail\w*|\berror|\bnot\b|\bnever\b|n't\b|\bbroken|\buntil\b", re.IGNORECASE
)
_ALL_PASS: Final = re.compile(r"\ball (?:the )?(?:\w+ )?tests? (?:pass|are passing|now pass)", re.IGNORECASE)
# A command is recognised by its beginning.
_COMMAND: Final = 40


def wrong_statements(facts: Facts, summary: str) -> tuple[str, ...]:
    return (*_nothing_pending(facts, summary), *_done_although_failed(facts, summary))


def _nothing_pending(facts: Facts, summary: str) -> Iterator[str]:
    lines = [line for line in read_section(summary, _PENDING) if line.strip()]
    still = open_for_certain(facts)
    if lines and still and _NOTHING.match(lines[0]):
        yield f"says that nothing is pending, but open is: {still[0][:120]}"


def _done_although_failed(facts: Facts, summary: str) -> Iterator[str]:
    """A line that names a check whose last run failed, and says that it ended well."""
    failing = [
        failure for failure in facts.state.failing if not (failure.passed_since or failure.hidden_since)
    ]
    if not failing:
        return
    now = (line for number in _ABOUT_NOW for line in read_section(summary, number))
    for line in now:
        if _ENDED_BADLY.search(line) or not _ENDED_WELL.search(line):
            continue
        for failure in failing:
            is_test = tests_only(programs(failure.deed.target))
            if failure.deed.target[:_COMMAND] in line or (is_test and _ALL_PASS.search(line)):
                ran = ", ".join(programs(failure.deed.target))
                yield f"says done or passed, but failed when last run: {ran}"
                return
