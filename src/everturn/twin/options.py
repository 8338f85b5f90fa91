"""Options for API behaviour that is not documented, each with its default.

Where the documentation of the API leaves a question open, the default is this project's best reading of the
evidence. docs/twin.md lists every option.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal

from everturn.measure.model_table import Model
from everturn.twin.clock import START
from everturn.twin.ledger import DEFAULT_LEDGER_SIZE
from everturn.twin.values import ParsedBlock


@dataclass(frozen=True, slots=True)
class TwinOptions:
    """How this twin behaves where the API's behaviour is not documented."""

    # --- the cache (api-facts 1.3)
    lookback: int = 20
    runs_are_one_position: bool = True
    thinking_is_a_position: bool = True
    lookback_crosses_sections: bool = True
    rewrites_below_hit: bool = True
    alive_at_ttl: bool = True
    longer_marker_lengthens: bool = False
    hour_survives_prefix: bool = True
    # The sources disagree: by the invalidation matrix a change of speed keeps the tools cached; by the page
    # on fast mode the two speeds share nothing.
    speeds_share_tools: bool = False
    # Not published: which models render thinking and effort before the tools. "messages" invalidates least.
    thinking_invalidates: Literal["messages", "system", "tools"] = "messages"
    effort_invalidates: Literal["messages", "system", "tools"] = "messages"
    output_format_invalidates: bool = True
    betas_invalidate: bool = False
    any_image_invalidates_messages: bool = True
    # Overrides the model table, by model id (one report measured 2048 on Sonnet 4.6).
    min_cache: dict[str, int] = field(default_factory=dict[str, int])

    # --- counting (api-facts 1.8, 4)
    trailing_tokens: int = 3
    chars_per_token: dict[str, float] = field(default_factory=dict[str, float])
    # Replaces the estimate for blocks, for example with a real tokenizer.
    counter: Callable[[ParsedBlock, Model], int] | None = None

    # --- context editing (api-facts 2.2, 2.3)
    cleared_placeholder: str = "[cleared to save context]"
    keep_counts_excluded: bool = True
    cleared_tokens_are_net: bool = True
    compaction_default_trigger: int = 150_000

    # --- thinking binding (api-facts 7): models 5.1 and 5.5 enforce it for accounts created since 2026-08-31.
    account_created: date = date(2026, 10, 1)
    # Signatures that no twin created. The API rejects them; "accept" is for replaying recorded sessions.
    foreign_signatures: Literal["reject", "accept"] = "reject"

    # --- cache diagnostics (api-facts 3)
    diagnosis_keeps_seconds: float = 3600.0
    # Not proven: which of the two the API reports when both changed.
    diagnosis_order: Literal["system_first", "tools_first"] = "system_first"

    # --- how thinking is returned if the request does not say. Documented: Mythos Preview and Opus 4.7 omit
    # its text, earlier models do not. Assumed: so do all later ones.
    thinking_display: Literal["by_model", "summarized", "omitted"] = "by_model"
    # The steps of `estimated_tokens` in thinking deltas; the API's are not published.
    estimated_tokens_step: int = 50

    # --- refusals that are known from public reports only
    unknown_betas: Literal["refuse", "accept"] = "refuse"
    open_schemas: Literal["refuse", "accept"] = "refuse"
    temperature_with_top_p: Literal["refuse", "accept"] = "refuse"
    mislabeled_images: Literal["refuse", "accept"] = "refuse"
    broken_base64: Literal["refuse", "accept"] = "refuse"

    # --- which scripted replies answer a client's prompt for a summary: those written for it, or the next one
    scripted_summaries: Literal["marked", "in_order"] = "marked"

    # --- batches: how long one takes
    batch_seconds: float = 300.0

    # --- retired models are served by default, so that recorded sessions can be replayed
    retired_models: Literal["serve", "refuse"] = "serve"

    # --- without the header the twin assumes 2023-06-01, so that a plain curl works; the API returns an error
    version_header: Literal["optional", "required"] = "optional"

    # --- limits
    # How many requests the ledger lists; older ones are dropped.
    ledger_size: int = DEFAULT_LEDGER_SIZE
    max_body_bytes: int = 32 * 1024 * 1024
    oversized_message: str = "Request exceeds the maximum size"

    # --- time
    starts_at: datetime = START

    # --- ids of requests say that this is practice (`req_practice_...`), so that whoever records them, a
    # gateway or an agent, does not count them as paid. `everturn twin` sets it; tests keep the API's form.
    marks_practice: bool = False

    # --- outside the public API: {"cache_edits"}
    extensions: frozenset[str] = frozenset()
