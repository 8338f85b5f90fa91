"""Recall: search the session, and say whether the model still sees each hit (BY-4).

The best match comes first; of equal matches, the newer one. The `state` of a hit is computed from the log at
the time of the search, since clearing and compaction change it.
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

# visible: in the view. cleared: its record is in the view, its content is not. summarized: replaced by a
# compaction, or trimmed. aside: on an abandoned branch, in a sub-agent's conversation, or the summary of a
# compaction that was undone.
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
    """The hits. `remark` says how they were found, if not by all words."""

    hits: tuple[Hit, ...]
    remark: str = ""


def recall(query: str, limit: int = LIMIT, *, index: RecallIndex, log: Log) -> tuple[Hit, ...]:
    """Search the session for these words. Raises `UsageError` for an empty query."""
    return search(query, limit, index=index, log=log).hits


def search(query: str, limit: int = LIMIT, *, index: RecallIndex, log: Log) -> RecallResult:
    """As `recall`, with a remark. The index is updated first."""
    parsed = parse_query(query)
    index.catch_up()
    found, remark = index.find(parsed, limit)
    states = _States(log, (match.passage.uuid for match in found))
    highlighted = _highlighted(parsed)
    return RecallResult(tuple(_hit(match, states, highlighted) for match in found), remark)


def _hit(match: PassageMatch, states: "_States", highlighted: re.Pattern[str]) -> Hit:
    passage = match.passage
    return Hit(
        record=passage.uuid,
        source=passage.source,
        tool=passage.tool,
        at=passage.at,
        agent=passage.agent,
        state=states.of(passage),
        snippet=make_snippet(passage.text, highlighted),
        score=round(match.score, 3),
    )


class _States:
    """The current states of these records."""

    def __init__(self, log: Log, uuids: Iterable[str]) -> None:
        wanted = set(uuids)
        self._view = log.view
        self._shown = {record.uuid for record in self._view.records if record.uuid in wanted}
        # Not all records of the log: nothing replaced the summary of a compaction that was undone.
        self._replaced = {
            record.uuid for view in log.views_before for record in view.records if record.uuid in wanted
        }

    def of(self, passage: Passage) -> HitState:
        if passage.uuid in self._shown:
            hidden = passage.call in self._view.cleared or passage.call in self._view.offloaded
            return "cleared" if passage.source == "result" and hidden else "visible"
        return "summarized" if passage.uuid in self._replaced else "aside"


def make_snippet(text: str, highlighted: re.Pattern[str]) -> str:
    """The part of the text with the most matches, on one line, each match highlighted."""
    places = [found.start() for found in highlighted.finditer(text)]
    start, end = _window(text, places)
    part = highlighted.sub(lambda found: f"{OPEN}{found[0]}{CLOSE}", text[start:end])
    line = " ".join(part.split())
    return f"{ELLIPSIS if start else ''}{line}{ELLIPSIS if end < len(text) else ''}"


def _window(text: str, places: list[int]) -> tuple[int, int]:
    if len(text) <= SNIPPET:
        return 0, len(text)
    matches = [bisect_left(places, at + SNIPPET) - number for number, at in enumerate(places)]
    richest = places[matches.index(max(matches))] if places else 0
    # Include some text before the match, from the beginning of a word.
    start = max(0, min(richest - SNIPPET // 4, len(text) - SNIPPET))
    blank = text.find(" ", start, richest) if start else -1
    start = blank + 1 if blank >= 0 else start
    return start, min(len(text), start + SNIPPET)


def _highlighted(query: Query) -> re.Pattern[str]:
    """What to highlight: the words, and words with the same stem, since the index matches stems."""
    return re.compile("|".join(_stem_pattern(term) for term in query.terms), re.IGNORECASE)


def _stem_pattern(term: str) -> str:
    if not re.fullmatch(r"\w+", term) or not term.isascii():
        return re.escape(term)
    # A very short stem would highlight unrelated words.
    stem = _ENDING.sub("", term)
    stem = stem if len(stem) >= 4 else term
    return rf"\b{re.escape(stem)}\w*"
