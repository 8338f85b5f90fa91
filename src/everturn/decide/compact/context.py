"""What a compaction starts from: the conversation as it is, and how it is to be compacted."""

import msgspec

from everturn.decide.compact.settings import CompactSettings, Strategy, to_strategy
from everturn.decide.compact.unanswered import room_for_newest
from everturn.decide.compact.values import CompactionChain, Measured
from everturn.decide.economy.keeping import KeepRule
from everturn.decide.extractive.settings import SummarySettings
from everturn.history.log import View
from everturn.measure.capabilities import Capabilities
from everturn.measure.model_table import Model
from everturn.measure.thresholds import ContextThresholds
from everturn.measure.tokens import TokenCounter
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable
from everturn.view.breakpoints import Breakpoints
from everturn.view.forks import CapturedRequest
from everturn.wire.queued_messages import QueuedMessage


class LeastTokens(msgspec.Struct, frozen=True):
    """What a request with the whole view has at least: as reported in the last answered request, counted for
    the model that is asked now, and what came since without padding. Zero where it is not known.
    """

    sent: int = 0
    unsent: int = 0

    @property
    def total(self) -> int:
        return self.sent + self.unsent


class CompactionContext(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, at one moment in time."""

    view: View
    size: int
    # The size that every surface shows: it has what was hidden since the last usage; None if it is `size`.
    shown_size: int | None = None
    # System prompt and tools, as the size of the next view counts them; None if no usage has told.
    overhead: int | None = None
    # A request that has more tokens than the window even by this count is not worth sending.
    least: LeastTokens = LeastTokens()
    # The view as it was tracked; None where it was not.
    measured: Measured | None = None
    limits: ContextThresholds
    model: Model
    capabilities: Capabilities
    counts: TokenCounter
    chain: CompactionChain
    # The conversation as its next request would send it, with the breakpoints of the last one.
    captured: CapturedRequest
    # The breakpoints of the last request that was answered: what it wrote is in the cache.
    answered: Breakpoints = Breakpoints()
    betas: tuple[str, ...] = ()
    settings: CompactSettings
    summary: SummarySettings = SummarySettings()
    # Named to the model as the place of exact details; empty where nothing is kept.
    transcript: str = ""
    tools: ToolTable = DEFAULT_TOOL_TABLE
    # The session's own notes, cut to size, and the first record that they do not cover; empty where there
    # are none that can be used.
    notes: str = ""
    notes_end_before: str = ""
    # What the user typed while the model worked, and no record has.
    queued: tuple[QueuedMessage, ...] = ()
    # Where prices decide what a compaction keeps; None where the settings do (EC-6).
    keep: KeepRule | None = None
    # How many calls of a model this compaction may make; None for as many as the settings allow.
    calls: int | None = None

    @property
    def room_for_newest(self) -> int:
        return room_for_newest(self.model, self.captured.settings, self.settings)

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        return tuple(to_strategy(each) for each in self.settings.strategies)
