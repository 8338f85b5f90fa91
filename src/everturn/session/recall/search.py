"""Recall: find what was said, and whether the model still sees it (BY-4).

Best fit first, newer before older where both fit. What a hit's `state` says is computed from the log at the
time of asking, since every clearing and compaction changes it.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from everturn.history.log import Log
from everturn.session.recall.index import PassageMatch, RecallIndex
from everturn.session.recall.passages import Passage, PassageSource
from everturn.session.recall.query import Query, parse_query

# visible: in the view. cleared: its record is, its content is not. summarized: before the boundary, or
# trimmed. aside: on a branch that was left, or a sub-agent's.
HitState = Literal["visible", "cleared", "summarized", "aside"]

LIMIT: Final = 8
SNIPPET: Final = 240
_ENDING: Final = re.compile(r"(?:ing|ers?|ed|es|e|s)$", re.IGNORECASE)
OPEN, CLOSE, ELLIPSIS = "«", "»", "…"


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One place in the transcript."""

    record: str
    source: PassageSource
    tool: str
    at: str
    agent: str
    state: HitState
    snippet: str
    score: float


class RecallResult(msgspec.Struct, frozen=True):
    """What was found. `remark` says how, where it was not by all words."""

    hits: tuple[Hit, ...]
    remark: str = ""


def recall(query: str, limit: int = LIMIT, *, index: RecallIndex, log: Log) -> tuple[Hit, ...]:
    """Where the session has these words. Raises UsageError for a query without any."""
    return search(query, limit, index=index, log=log).hits


def search(query: str, limit: int = LIMIT, *, index: RecallIndex, log: Log) -> RecallResult:
    """As `recall`, with a remark. The index is brought up to date first."""
    parsed = parse_query(query)
    index.catch_up()
    found, remark = index.find(parsed, limit)
    states = _States(log, (match.passage.uuid for match in found))
    marks = _marks(parsed)
    return RecallResult(tuple(_hit(match, states, marks) for match in found), remark)


def _hit(match: PassageMatch, states: "_States", marks: re.Pattern[str]) -> Hit:
    passage = match.passage
    return Hit(
        record=passage.uuid,
        source=passage.source,
        tool=passage.tool,
        at=passage.at,
        agent=passage.agent,
        state=states.of(passage),
        snippet=make_snippet(passage.text, marks),
        score=round(match.score, 3),
    )


class _States:
    """Where these records are now."""

    def __init__(self, log: Log, uuids: Iterable[str]) -> None:
        wanted = set(uuids)
        self._view = log.view
        self._shown = {record.uuid for record in self._view.records if record.uuid in wanted}
        self._known = {record.uuid for record in log.records if record.uuid in wanted}

    def of(self, passage: Passage) -> HitState:
        if passage.uuid in self._shown:
            hidden = passage.call in self._view.cleared or passage.call in self._view.offloaded
            return "cleared" if passage.source == "result" and hidden else "visible"
        return "summarized" if passage.uuid in self._known else "aside"


def make_snippet(text: str, marks: re.Pattern[str]) -> str:
    """The stretch around the place with the most matches, on one line, each match marked."""
    places = [found.start() for found in marks.finditer(text)]
    start, end = _window(text, places)
    said = marks.sub(lambda found: f"{OPEN}{found[0]}{CLOSE}", text[start:end])
    line = " ".join(said.split())
    return f"{ELLIPSIS if start else ''}{line}{ELLIPSIS if end < len(text) else ''}"


def _window(text: str, places: list[int]) -> tuple[int, int]:
    if len(text) <= SNIPPET:
        return 0, len(text)
    matches = [bisect_left(places, at + SNIPPET) - number for number, at in enumerate(places)]
    richest = places[matches.index(max(matches))] if places else 0
    # A little of what comes before, from the beginning of a word.
    start = max(0, min(richest - SNIPPET // 4, len(text) - SNIPPET))
    blank = text.find(" ", start, richest) if start else -1
    start = blank + 1 if blank >= 0 else start
    return start, min(len(text), start + SNIPPET)


def _marks(query: Query) -> re.Pattern[str]:
    """What to mark: the words, and words that begin like them, since the index knows word stems."""
    return re.compile("|".join(_mark(term) for term in query.terms), re.IGNORECASE)


def _mark(term: str) -> str:
    if not re.fullmatch(r"\w+", term) or not term.isascii():
        return re.escape(term)
    # What is left without its ending must still say something.
    stem = _ENDING.sub("", term)
    stem = stem if len(stem) >= 4 else term
    return rf"\b{re.escape(stem)}\w*"
