"""Every number of micro-compaction, one value per kind (MC-1 to MC-17).

No number of these stands anywhere in the logic. A policy (`policy.py`) is a choice of them; whoever reads
environment or files replaces fields.
"""

from datetime import timedelta
from typing import Literal

import msgspec


class TimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Clear when the cache is surely cold (MC-6, MC-7)."""

    # The longest cache lifetime there is: a clearing then causes no miss that would not have happened.
    idle: timedelta = timedelta(minutes=60)
    keep: int = 5


class CachedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Delete in the provider's cache, which stays warm (MC-9)."""

    trigger: int = 12
    keep: int = 5


class DeclarativeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the API is asked to clear by itself (MC-13, MC-14); each part has its switch."""

    thinking: bool = True
    tool_results: bool = False
    tool_inputs: bool = False
    # API_MAX_INPUT_TOKENS and API_TARGET_INPUT_TOKENS; what is cleared at least is their difference.
    trigger: int = 180_000
    target: int = 40_000
    # After this long without a reply, thinking of the last turn alone is kept.
    idle: timedelta = timedelta(hours=1)
    # The API's minimum is 1 (api-facts 2.3).
    thinking_turns: int = 1
    results_of: tuple[str, ...] = (
        "Bash", "Glob", "Grep", "Read", "WebFetch", "WebSearch",
        "bash", "shell", "glob", "grep", "read_file", "web_fetch", "web_search",
    )  # fmt: skip
    inputs_of: tuple[str, ...] = (
        "Edit", "Write", "NotebookEdit",
        "edit_file", "write_file", "notebook_edit", "str_replace_based_edit_tool",
    )  # fmt: skip

    @property
    def clear_at_least(self) -> int:
        return max(0, self.trigger - self.target)


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Clear by size, where no cache is lost by it (MC-16)."""

    tokens: int = 40_000
    keep: int = 3
    save_at_least: int = 20_000
    # "unprotected": only where there is no cache, or the provider can neither delete nor clear by itself.
    where: Literal["unprotected", "everywhere"] = "unprotected"


class OversizeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Move results to files before the model ever sees them (MC-17); all in characters."""

    message: int = 200_000
    # A quarter of the above, our choice: one result never fills a message alone.
    single: int = 50_000
    preview: int = 2_000


class MaskingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Observation masking as published: a rolling window over results (arXiv 2508.21433 uses 10)."""

    keep: int = 10


class ClearAtSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The API's own defaults of clear_tool_uses, done on our side (api-facts 2.2)."""

    trigger: int = 100_000
    keep: int = 3


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A sliding window over the whole conversation."""

    tokens: int = 100_000
    # Trimmed down to this share, so that the next trim is far away.
    share: float = 0.5


class MicroSettings(msgspec.Struct, frozen=True, kw_only=True):
    time: TimeSettings = TimeSettings()
    cached: CachedSettings = CachedSettings()
    declarative: DeclarativeSettings = DeclarativeSettings()
    budget: BudgetSettings = BudgetSettings()
    oversize: OversizeSettings = OversizeSettings()
    masking: MaskingSettings = MaskingSettings()
    clear_at: ClearAtSettings = ClearAtSettings()
    window: WindowSettings = WindowSettings()
    # Sources that begin so are the main thread.
    main: str = "main"
    # How many saved tokens must stand against one token of thinking that an edit makes invalid (PC-16).
    # Our judgement, not measured: thinking is worth as much as the results it was about.
    thinking_worth: float = 1.0
