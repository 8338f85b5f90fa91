"""The values of a compaction: what was asked for, what would be done, what came of it."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from everturn.decide.compact.budget import TruncatedText
from everturn.decide.compact.outline import FileOutline
from everturn.decide.compact.settings import Strategy
from everturn.decide.effects import ModelFailure
from everturn.decide.retention import RetentionFigures, ScoredSummary
from everturn.history.blocks import Block
from everturn.history.edits import KeptSegment, Trigger
from everturn.history.records import Record, Usage
from everturn.measure.accounting import Metrics

# full: everything is summarized. from: what comes after a record is summarized, the cached prefix before it
# stays. up_to: what comes before a record is summarized, the newer part is kept verbatim behind the summary.
CompactionForm = Literal["full", "from", "up_to"]
# notes: the session's own notes serve as the summary. fork: a call that shares the cache. direct: a call of
# its own. provider: the API's own compaction. extractive: the summarizer that needs no model.


class CompactionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants a compaction, and of what."""

    trigger: Trigger
    form: CompactionForm = "full"
    # The record at which a partial compaction divides the view.
    at: str = ""
    instructions: str = ""
    # Set where the request did not fit: the view must become smaller, whatever the threshold says.
    is_reactive: bool = False
    # Set where the API refused a compacted view: no message is kept, what is unanswered comes along as text,
    # and the result is valid in every mode of thinking (CP-38).
    keeps_nothing: bool = False
    # Set where only the last of the messages fit that have no answer yet: the others come along as text.
    carries_rest: bool = False
    # Why it is worth its cost, where that was decided by price (EC-1); otherwise empty.
    economics: str = ""


class CompactionChain(msgspec.Struct, frozen=True, kw_only=True):
    """How this compaction follows another one (CP-25)."""

    follows: str = ""
    turns_since: int = 0
    length: int = 1
    threshold: int = 0
    source: str = "main"


class Measured(msgspec.Struct, frozen=True):
    """The whole view: its padded tokens by estimate alone, and what fills it."""

    estimate: int
    metrics: Metrics


class RestoredExchange(msgspec.Struct, frozen=True):
    """A call and its result, word for word: the tool, its file, the calls since, and the text (EC-6)."""

    tool: str
    path: str
    age: int
    text: str


class RestorationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is brought back beside the summary (CP-13 to CP-17)."""

    files: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    # What the user said last, where nobody has answered it yet.
    unanswered: TruncatedText | None = None
    todos: str = ""
    plan: str = ""
    skills: tuple[tuple[str, str], ...] = ()
    agents: tuple[str, ...] = ()
    # Tools that can be loaded and are to be announced again.
    tools: tuple[str, ...] = ()
    # Whether a reminder of plan mode is due, and other announcements: a title and its lines.
    plan_mode: bool = False
    listings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # Tools that were loaded by a search before: the boundary names them (TR-4).
    discovered: tuple[str, ...] = ()
    # Every file that is summarized away, most recently read first.
    read: tuple[str, ...] = ()
    # Where prices decide what is kept, instead of files.
    exchanges: tuple[RestoredExchange, ...] = ()
    outline: FileOutline = FileOutline()


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction would do. Nothing has happened: this is the dry run (CP-29)."""

    asked: CompactionRequest
    summarized: tuple[Record, ...]
    kept: tuple[Record, ...]
    # Those that can be tried now, in their order.
    strategies: tuple[Strategy, ...]
    restoration: RestorationPlan
    pins: tuple[str, ...]
    tokens_before: int
    expected_after: int
    # A dollar figure where prices are known; 0 where the model is not in the table.
    expected_dollars: float
    chain: CompactionChain
    why: str
    # What filled the view before (CP-1).
    metrics: Metrics | None = None
    # System prompt and tools, which no compaction makes smaller; and the two sides of the cut: padded
    # tokens, and messages.
    fixed: int = 0
    tokens_summarized: int = 0
    tokens_kept: int = 0
    # What is kept, by its share of the reported usage, beside system prompt and tools as the size of the next
    # view counts them; 0 if it was not all sent.
    counted_kept: int = 0
    messages_summarized: int = 0
    messages_kept: int = 0
    # Rules that were found in the conversation and are beyond the budget for pins.
    unpinned: tuple[str, ...] = ()
    # Whether what is kept begins with the newest, unanswered message: it may take more than the threshold.
    keeps_newest: bool = False


class CompactionSkipped(msgspec.Struct, frozen=True):
    """No compaction, and why: nothing to do, a breaker, a recursion, a view that cannot be divided there."""

    why: str
    # What was tried, and paid for, before it was known.
    attempts: "tuple[Attempt, ...]" = ()


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of everything that was in the view (CP-34)."""

    retained: tuple[str, ...]
    recoverable: tuple[str, ...]
    dropped: tuple[str, ...]
    # None where only the size of a result was asked for.
    scored: ScoredSummary | None = None

    @property
    def retention(self) -> RetentionFigures | None:
        """How much of what was summarized is still in the summary and what is restored with it (BY-6)."""
        return self.scored.figures if self.scored else None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One strategy that was tried: its text, or the reason that it has none."""

    strategy: Strategy
    text: str = ""
    problem: str = ""
    usage: Usage = Usage()
    # Who was asked, if not the model that the settings name.
    model: str = ""
    # Where no answer came at all; and where the API compacted by itself, the block that must be sent back.
    failure: ModelFailure | None = None
    block: Block | None = None
    # Messages that did not fit into the request: the model saw only an extract of them.
    unread: int = 0
    # If its result was refused for its size: by how many tokens the context would have grown.
    grows_by: int | None = None


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction that happened: its records, in the order in which they are appended."""

    boundary: Record
    summary: Record
    restored: tuple[Record, ...]
    kept: KeptSegment | None
    attempts: tuple[Attempt, ...]
    receipt: Receipt
    tokens_before: int
    tokens_after: int
    plan: CompactionPlan | None = None

    @property
    def records(self) -> tuple[Record, ...]:
        return (self.boundary, self.summary, *self.restored)


class CompactionFailed(msgspec.Struct, frozen=True, kw_only=True):
    """No strategy led to a summary; the view is what it was (CP-28). `why` ends with what the user can do."""

    attempts: tuple[Attempt, ...]
    why: str
    plan: CompactionPlan | None = None


def describe_attempts(attempts: Sequence[Attempt]) -> str:
    """Why each of them gave no summary."""
    reasons = (f"{attempt.strategy}: {attempt.problem}" for attempt in attempts)
    return "; ".join(reasons) or "no strategy is allowed"
