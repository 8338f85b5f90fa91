"""The score of a summary: the weighed share of what it keeps, less what it states wrongly (BY-6).

The weights, the recency and the price of size were chosen so that the order of scores agrees with a reader's
order on recorded compactions (`bench/reader_ranking.py`, docs/retention.md).
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final

import msgspec

from everturn.decide.extractive.reading.walk import extract_facts
from everturn.decide.retention import items
from everturn.decide.retention.matching import RetainedItems, SummaryText, match
from everturn.decide.retention.wrong import wrong_statements
from everturn.history.records import Record
from everturn.measure.tokens import rough
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable

_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "user_instructions": 3.0, "corrections": 2.0, "decisions": 1.0, "outcomes": 1.0, "pending": 2.0,
        "last_words": 2.0, "paths": 0.5, "identifiers": 0.5, "errors": 0.25,
    }
)  # fmt: skip
# Scores that differ by less say nothing: a reader could not tell such summaries apart.
SAME: Final = 0.1
# What one wrong statement costs: it misleads, where a missing one only makes the model look again.
_WRONG: Final = 0.15
# What every thousand tokens cost beyond those that any summary needs: they are read with every request.
_FREE_TOKENS: Final = 2_000
_PER_THOUSAND: Final = 0.02
# The beginning of a long error line identifies it.
_ERROR_WORDS: Final = 12
# The maximum number of folders used to tell apart two files with the same name.
_DEEPEST: Final = 40


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What one compaction kept, by kind. `tokens` is the size of the summary, by the rough estimator."""

    user_instructions: RetainedItems = RetainedItems()
    corrections: RetainedItems = RetainedItems()
    decisions: RetainedItems = RetainedItems()
    outcomes: RetainedItems = RetainedItems()
    pending: RetainedItems = RetainedItems()
    last_words: RetainedItems = RetainedItems()
    paths: RetainedItems = RetainedItems()
    identifiers: RetainedItems = RetainedItems()
    errors: RetainedItems = RetainedItems()
    wrong: tuple[str, ...] = ()
    tokens: int = 0

    @property
    def parts(self) -> dict[str, RetainedItems]:
        return {
            "user_instructions": self.user_instructions,
            "corrections": self.corrections,
            "decisions": self.decisions,
            "outcomes": self.outcomes,
            "pending": self.pending,
            "last_words": self.last_words,
            "paths": self.paths,
            "identifiers": self.identifiers,
            "errors": self.errors,
        }

    @property
    def score(self) -> float:
        """Between 0 and 1; the shares of the kinds that there was something of, by their weights."""
        known = {name: part for name, part in self.parts.items() if part.total}
        total = sum(_WEIGHTS[name] for name in known)
        kept = sum(_WEIGHTS[name] * part.weighed for name, part in known.items()) / total if total else 1.0
        size = _PER_THOUSAND * max(0, self.tokens - _FREE_TOKENS) / 1_000
        return max(0.0, kept - _WRONG * len(self.wrong) - size)

    @property
    def figures(self) -> "RetentionFigures":
        known = {name: part for name, part in self.parts.items() if part.total}
        kept = {name: (part.kept + part.loosely, part.total) for name, part in known.items()}
        return RetentionFigures(score=round(self.score, 2), kept=kept, wrong=self.wrong)


class RetentionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A score in numbers: what was kept of each kind, of how many, and what is stated wrongly."""

    score: float
    kept: Mapping[str, tuple[int, int]] = {}
    wrong: tuple[str, ...] = ()


class ScoredSummary(msgspec.Struct, frozen=True, dict=True):
    """What a score is computed from: the records that were replaced and the text that replaces them.

    The score reads everything that was said, several times the work of the compaction itself, and most
    callers never look at it. So it is computed when it is read, once.
    """

    before: tuple[Record, ...]
    after_text: str
    tools: ToolTable = DEFAULT_TOOL_TABLE

    def __repr__(self) -> str:
        # Whoever prints an event or a receipt must not print the conversation.
        return f"ScoredSummary(<{len(self.before)} records>)"

    @cached_property
    def figures(self) -> RetentionFigures:
        return measure_retention(self.before, self.after_text, self.tools).figures


def measure_retention(
    before: Sequence[Record], after_text: str, tools: ToolTable = DEFAULT_TOOL_TABLE
) -> Retention:
    """`before` are the records that were replaced, `after_text` is what replaces them."""
    facts = extract_facts(before, tools)
    text = SummaryText(after_text)
    return Retention(
        user_instructions=match(items.user_words(facts), text),
        corrections=match(items.corrections(facts), text),
        decisions=match(items.decisions(facts), text),
        outcomes=match(items.outcomes(facts), text),
        pending=match(items.open_items(facts), text),
        last_words=match(items.last_words(facts), text),
        paths=_match_paths(tuple(facts.files), text),
        identifiers=match(items.names(facts), text),
        errors=match(items.error_lines(before), text, most_words=_ERROR_WORDS),
        wrong=wrong_statements(facts, after_text),
        tokens=rough(after_text),
    )


def _match_paths(paths: Sequence[str], text: SummaryText) -> RetainedItems:
    """A file counts as named if the text contains the shortest end of its path that no
    other touched file has.
    """
    plain = [path.replace("\\", "/") for path in paths]
    lost = tuple(path for path in paths if not _is_named(_telling_end(path, plain), text.paths))
    weighed = 1 - len(lost) / len(paths) if paths else 1.0
    return RetainedItems(len(paths) - len(lost), len(paths), lost, 0, weighed)


def _telling_end(path: str, paths: Sequence[str]) -> str:
    parts = path.replace("\\", "/").strip("/").split("/")
    for count in range(1, min(len(parts), _DEEPEST) + 1):
        end = "/".join(parts[-count:])
        # What ends with the end and a separator before it ends with it.
        if sum(other.endswith(end) for other in paths) == 1:
            return end
    return "/".join(parts)


def _is_named(end: str, text: str) -> bool:
    return end in text and re.search(rf"(?<![\w-]){re.escape(end)}(?![\w-])", text) is not None
