"""Every number of micro-compaction, one value per kind (MC-1 to MC-17).

The logic itself contains no numbers. They are part of `Options` (`options.py`); a policy
(`policy.py`) is a named choice of them.
"""

from datetime import timedelta
from typing import Literal

import msgspec

from everturn.measure.tool_table import ToolEntry, ToolTable

# The kinds of micro-compaction, by the name of their settings below.
MicroStepName = Literal["oversize", "time", "cached", "budget", "masking", "clear_at", "window"]


class TimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Clear once the cache has certainly expired (MC-6, MC-7)."""

    enabled: bool = True
    # The longest cache lifetime there is: clearing then causes no miss that would not have happened anyway.
    idle: timedelta = timedelta(minutes=60)
    keep: int = 5


class CachedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Delete in the provider's cache, which stays warm (MC-9)."""

    enabled: bool = True
    trigger: int = 12
    keep: int = 5


class DeclarativeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the API is asked to clear itself (MC-13, MC-14); each part has its switch."""

    enabled: bool = True
    thinking: bool = True
    tool_results: bool = False
    tool_inputs: bool = False
    # API_MAX_INPUT_TOKENS and API_TARGET_INPUT_TOKENS; the minimum to clear is their difference.
    trigger: int = 180_000
    target: int = 40_000
    # After this long without a reply, only the thinking of the last turn is kept.
    idle: timedelta = timedelta(hours=1)
    # The API's minimum is 1 (api-facts 2.3).
    thinking_turns: int = 1
    # Tools whose results or inputs the API may clear, in addition to `measure/tool_table.py` and `tools.*`.
    results_of: tuple[str, ...] = ()
    inputs_of: tuple[str, ...] = ()

    def add_tools(self, tools: ToolTable) -> ToolTable:
        """The table with the tools that these settings name."""
        return tools.extended(
            [
                ToolEntry(names=self.results_of, is_reproducible=True, has_large_input=False),
                ToolEntry(names=self.inputs_of, is_reproducible=True, has_large_input=True),
            ]
        )

    @property
    def clear_at_least(self) -> int:
        return max(0, self.trigger - self.target)


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Clear by size, if no cache is lost by it (MC-16)."""

    enabled: bool = True
    tokens: int = 40_000
    keep: int = 3
    save_at_least: int = 20_000
    # "uncached": only if there is no cache; clearing in a warm one writes all that follows again, and a reset
    # saves more. "unprotected": also where the provider can neither delete nor clear itself.
    where: Literal["uncached", "unprotected", "everywhere"] = "uncached"


class OversizeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Move results to files before the model ever sees them (MC-17); all sizes in characters."""

    enabled: bool = True
    message: int = 200_000
    # A quarter of the above, our choice: one result never fills a message alone.
    single: int = 50_000
    preview: int = 2_000


class MaskingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Observation masking as published: a rolling window over results (arXiv 2508.21433 uses 10)."""

    enabled: bool = True
    keep: int = 10


class ClearAtSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The API's own defaults of clear_tool_uses, done on our side (api-facts 2.2)."""

    enabled: bool = True
    trigger: int = 100_000
    keep: int = 3


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A sliding window over the whole conversation."""

    enabled: bool = True
    tokens: int = 100_000
    # Trimmed down to this share, so that the next trim is far away.
    share: float = 0.5


class MicroSettings(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    # Tried in this order; only the first that acts is applied. "oversize" is tried in addition to the others.
    steps: tuple[MicroStepName, ...] = ("oversize", "time", "cached", "budget")
    # Whether requests contain `context_management` (MC-13); `declarative` says what it asks for.
    declare: bool = True
    time: TimeSettings = TimeSettings()
    cached: CachedSettings = CachedSettings()
    declarative: DeclarativeSettings = DeclarativeSettings()
    budget: BudgetSettings = BudgetSettings()
    oversize: OversizeSettings = OversizeSettings()
    masking: MaskingSettings = MaskingSettings()
    clear_at: ClearAtSettings = ClearAtSettings()
    window: WindowSettings = WindowSettings()
    # Sources that start with one of these are the main thread.
    main: str = "main"
    # How many tokens must be saved for each token of thinking that an edit makes invalid (PC-16). Our
    # judgement, not measured: thinking is worth as much as the results it was about.
    thinking_worth: float = 1.0
