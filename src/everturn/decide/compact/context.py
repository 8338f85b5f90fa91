"""What a compaction stands on: the conversation as it is, and how it is to be treated."""

import msgspec

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import CompactionChain, Measured, Strategy
from everturn.decide.extractive.settings import SummarySettings
from everturn.history.log import View
from everturn.measure.capabilities import Capabilities
from everturn.measure.model_table import Model
from everturn.measure.thresholds import ContextThresholds
from everturn.measure.tokens import TokenCounter
from everturn.view.breakpoints import Breakpoints
from everturn.view.forks import CapturedRequest


class CompactionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a conversation is compacted. The first way that leads to a summary is the one."""

    ways: tuple[Strategy, ...] = ("notes", "fork", "direct", "extract")
    settings: CompactSettings = CompactSettings()
    summary: SummarySettings = SummarySettings()
    # Named to the model as the place of exact details.
    transcript: str = ""
    # Another model for the direct way; empty for the conversation's own.
    summary_model: str = ""
    # Nobody waits at the other end: the model goes on by itself.
    autonomous: bool = False


class CompactionContext(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, at one moment."""

    view: View
    size: int
    # The view as it was followed; None where nobody has followed it.
    measured: Measured | None = None
    limits: ContextThresholds
    model: Model
    capabilities: Capabilities
    counts: TokenCounter
    chain: CompactionChain
    # The conversation as its next request would send it, with the markers of the last one.
    captured: CapturedRequest
    # The markers of the last request that was answered: what it wrote is in the cache.
    answered: Breakpoints = Breakpoints()
    betas: tuple[str, ...] = ()
    how: CompactionOptions
    # The session's own notes, cut to size, and the first record that they do not cover; empty where there
    # are none that can be used.
    notes: str = ""
    notes_end_before: str = ""
    # How many calls of a model this compaction may make; None for as many as the settings allow.
    calls: int | None = None

    @property
    def settings(self) -> CompactSettings:
        return self.how.settings
