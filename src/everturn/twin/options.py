"""Everything about the twin that the facts leave open: each a named option, its default stated here.

The defaults are the decisions this project took where the API's behaviour is not proven; the user page lists
them all. An option changes what the twin does, never how it is built.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Literal

from everturn.measure.model_table import Model
from everturn.twin.values import ParsedBlock


@dataclass(frozen=True, slots=True)
class TwinOptions:
    # --- the cache (api-facts 1.3)
    lookback: int = 20
    runs_are_one_position: bool = True
    thinking_is_a_position: bool = True
    lookback_crosses_sections: bool = True
    rewrites_below_hit: bool = True
    alive_at_ttl: bool = True
    longer_marker_lengthens: bool = False
    # The matrix keeps the tools when the speed changes, the page on fast mode says that speeds share nothing.
    speeds_share_tools: bool = False
    # Which models render thinking and effort ahead of the tools is not published; "messages" is least.
    thinking_invalidates: Literal["messages", "system", "tools"] = "messages"
    effort_invalidates: Literal["messages", "system", "tools"] = "messages"
    output_format_invalidates: bool = True
    betas_invalidate: bool = False
    any_image_invalidates_messages: bool = True
    # A minimum other than the table's, by model id (a report saw 2048 on Sonnet 4.6).
    min_cache: dict[str, int] = field(default_factory=dict)

    # --- counting (api-facts 1.8, 4)
    trailing_tokens: int = 3
    chars_per_token: dict[str, float] = field(default_factory=dict)
    # Replaces the whole counting of blocks, for instance by a real tokenizer.
    counter: Callable[[ParsedBlock, Model], int] | None = None

    # --- context editing (api-facts 2.2, 2.3)
    cleared_placeholder: str = "[cleared to save context]"
    keep_counts_excluded: bool = True
    cleared_tokens_are_net: bool = True
    compaction_default_trigger: int = 150_000

    # --- thinking binding (api-facts 7): 5.1 and 5.5 enforce it for accounts created since 2026-08-31.
    account_created: date = date(2026, 10, 1)
    # Signatures the twin did not make: an error, as at the API; recorded sessions are played with "accept".
    foreign_signatures: Literal["reject", "accept"] = "reject"

    # --- diagnosis (api-facts 3)
    diagnosis_keeps_seconds: float = 3600.0
    # Between system and tools the order is not proven.
    diagnosis_order: Literal["system_first", "tools_first"] = "system_first"

    # --- models that no longer answer in reality are served, so that recorded sessions can be played.
    retired_models: Literal["serve", "refuse"] = "serve"

    # --- no version named: taken as 2023-06-01, so that a bare curl works; the API refuses it.
    version_header: Literal["optional", "required"] = "optional"

    # --- limits
    max_body_bytes: int = 32 * 1024 * 1024
    oversized_message: str = "Request exceeds the maximum size"

    # --- time
    starts_at: datetime = datetime(2026, 11, 15, tzinfo=UTC)

    # --- outside the public API: {"cache_edits"}
    extensions: frozenset[str] = frozenset()
