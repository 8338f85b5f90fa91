"""What fills the context, by kind. The total is what the API reported; only the split is estimated.

Estimates of what is in the file are scaled so that, together with what is not in it, they add up to the
measured size. If no usage was reported, they add up to the estimated size instead.
"""

from typing import Final

import msgspec

from everturn.dashboard.grid import LABELS, apportion
from everturn.history.records import Record
from everturn.measure.accounting import Accounts, Metrics
from everturn.measure.overhead import estimate_overhead
from everturn.measure.tokens import TokenCounter
from everturn.session.recorded import RecordedSession, cleared_before

# Beyond this factor the estimate of the messages is not the cause: something outside the file is (a resumed
# session, different tools). 19 of 20 calls are within it.
MAX_STRETCH: Final = 3


class Category(msgspec.Struct, frozen=True, kw_only=True):
    """`rough` is the unscaled estimate, `tokens` the scaled one, `of_window` its share of the window."""

    key: str
    label: str
    tokens: int
    rough: int
    of_window: float


class ContextSplit(msgspec.Struct, frozen=True):
    """The categories, and the factor between the unscaled and the scaled estimate."""

    categories: tuple[Category, ...]
    stretch: float
    metrics: Metrics


def split_context(session: RecordedSession) -> ContextSplit:
    metrics = accounts_of(session).metrics()
    rough = _inside(session, metrics)
    used = session.size.tokens
    outside = _outside(session, used, sum(rough.values()))
    inside = apportion(tuple(rough.values()), used - sum(outside.values()))
    tokens = {**outside, **dict(zip(rough, inside, strict=True))}
    # An empty conversation has nothing to scale; then the whole size is outside the file.
    if leftover := used - sum(tokens.values()):
        tokens["unrecorded"] += leftover
    plain = sum(rough.values())
    stretch = (used - tokens["system"] - tokens["unrecorded"]) / plain if plain else 1.0
    made = (
        Category(
            key=key,
            label=label,
            tokens=tokens[key],
            rough=rough.get(key, tokens[key]),
            of_window=tokens[key] / session.window.tokens,
        )
        for key, label in LABELS.items()
    )
    return ContextSplit(tuple(made), stretch, metrics)


def accounts_of(session: RecordedSession) -> Accounts:
    accounts = Accounts(session.counts)
    accounts.clear(cleared_before(session.view))
    for record in session.view.records:
        accounts.add(record)
    return accounts


def _inside(session: RecordedSession, metrics: Metrics) -> dict[str, int]:
    """Unscaled estimates of what the file holds."""
    summary = sum(text_tokens(r, session.counts) for r in session.view.records if r.compact_summary)
    attached = sum(
        session.counts.of(record).whole.total
        for record in session.view.records
        if record.kind == "attachment"
    )
    return split_by_kind(metrics, summary=summary, attached=attached)


def split_by_kind(metrics: Metrics, *, summary: int, attached: int) -> dict[str, int]:
    """Estimated tokens by kind. `summary` and `attached` are those of summaries and attachments, which the
    metrics count among others."""
    rest = metrics.other - metrics.thinking - metrics.images - metrics.injected - attached
    return {
        "summary": summary,
        "human": metrics.human,
        "assistant": metrics.assistant,
        "thinking": metrics.thinking,
        "tool_requests": sum(metrics.tool_requests.values()),
        "tool_results": sum(metrics.tool_results.values()),
        "images": metrics.images,
        "attachments": attached,
        "injected": max(0, metrics.injected - summary),
        "local_output": metrics.local_output,
        "other": max(0, rest),
    }


def text_tokens(record: Record, counts: TokenCounter) -> int:
    blocks = zip(record.blocks, counts.of(record).blocks, strict=False)
    return sum(tokens for block, tokens in blocks if block.kind == "text")


def _outside(session: RecordedSession, used: int, plain: int) -> dict[str, int]:
    records = session.view.records
    here = estimate_overhead(records, session.counts, session.calibration, session.model_id)
    held = min(used, session.fixed or 0 if here is None else here)
    if plain and not plain <= (used - held) * MAX_STRETCH <= plain * MAX_STRETCH * MAX_STRETCH:
        held = max(0, used - session.calibration.corrected(plain))
    system = min(held, session.fixed or 0)
    return {"system": system, "unrecorded": held - system}
