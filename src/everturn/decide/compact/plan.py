"""What a compaction would do, as a value that can be shown before anything happens (CP-1, CP-12, CP-29).

A plan reads the view and nothing else. `flow.py` carries it out, `build_records.py` turns the result into
records. Nothing to compact is an answer too, with its reason.
"""

from collections.abc import Sequence
from datetime import date
from math import ceil
from typing import Final, NamedTuple

import msgspec

from everturn.decide.compact.budget import TruncatedText, truncate_parts
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.divide import Division, divide_view, messages_in
from everturn.decide.compact.pins import Pins, pins_of
from everturn.decide.compact.restoration import plan_restoration
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.unanswered import unanswered_parts
from everturn.decide.compact.values import (
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
    Measured,
    RestorationPlan,
    Strategy,
)
from everturn.history.log import View
from everturn.history.records import Record, reported_usage
from everturn.measure.accounting import accounts_of
from everturn.measure.meter import estimate_view
from everturn.measure.model import Model
from everturn.measure.pricing import BilledTokens, PricedUsage, price_tokens
from everturn.measure.thresholds import ContextThresholds
from everturn.measure.tokens import TokenCounter, pad_estimate
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable

# Usage below this share of a padded estimate is not believed. Our choice; padding alone gives 0.75.
_LEAST_SHARE: Final = 0.5


def plan_compaction(
    asked: CompactionRequest,
    context: CompactionContext,
    *,
    strategies: tuple[Strategy, ...],
    payer: Model | None = None,
    on: date = date.max,
) -> CompactionPlan | CompactionSkipped:
    """`payer` is the model whose prices hold, where it is not the conversation's own; `on` is their day;
    without one, the newest known."""
    view, counts, settings, limits = context.view, context.counts, context.settings, context.limits
    division = divide_view(view, asked)
    if isinstance(division, CompactionSkipped):
        return division
    whole = context.measured or measured_now(view, counts, context.tools)
    fixed = _fixed(view, context.size, whole, counts)
    if asked.trigger == "auto" and fixed >= limits.auto:
        return _preamble_is_too_large(fixed, limits)
    back = _plan_restoration(division, asked, context)
    pins = pins_of(view.pins, division.summarized, settings, counts.estimator.text)
    sizes = _measure_sides(view, division, whole, asked, counts)
    counted = 0
    if division.kept and _is_reported(view, division):
        overhead = fixed if context.overhead is None else context.overhead
        counted = _scaled(sizes.kept, context.size - overhead, whole.estimate)
        sizes = sizes._replace(kept=_scaled(sizes.kept, context.size - fixed, whole.estimate))
    before = _size_before(asked, context)
    messages = _Messages(messages_in(division.summarized), messages_in(division.kept))
    return CompactionPlan(
        asked=asked,
        summarized=division.summarized,
        kept=division.kept,
        strategies=strategies,
        restoration=back,
        pins=pins.carried,
        tokens_before=before,
        expected_after=fixed + sizes.kept + _expected_new(division, back, pins, settings, counts),
        expected_dollars=_dollars(context.size, strategies, payer or context.model, settings, on),
        chain=context.chain,
        why=_why(asked, division, messages, before, limits),
        metrics=whole.metrics,
        fixed=fixed,
        tokens_summarized=sizes.summarized,
        tokens_kept=sizes.kept,
        counted_kept=counted,
        messages_summarized=messages.summarized,
        messages_kept=messages.kept,
        unpinned=pins.unpinned,
    )


def _size_before(asked: CompactionRequest, context: CompactionContext) -> int:
    """Whoever compacts by hand has just been shown a size."""
    if asked.trigger == "manual" and context.shown_size is not None:
        return context.shown_size
    return context.size


def _plan_restoration(
    division: Division, asked: CompactionRequest, context: CompactionContext
) -> RestorationPlan:
    """What is brought back, and what was said last where it has no answer."""
    back = plan_restoration(
        division.summarized,
        division.kept,
        context.settings,
        hidden=context.view.cleared,
        transcript=context.transcript,
        tools=context.tools,
        keep=context.keep,
        estimate=context.counts.estimator.text,
    )
    is_whole = not division.kept or asked.carries_rest
    question = (
        _open_question(division, context.limits, context.settings, context.counts) if is_whole else None
    )
    return msgspec.structs.replace(back, unanswered=question)


def _preamble_is_too_large(fixed: int, limits: ContextThresholds) -> CompactionSkipped:
    return CompactionSkipped(
        f"System prompt and tools alone take about {fixed:,} of the {limits.auto:,} tokens at which "
        "compaction begins: no summary can help. Remove tools, or choose a model with a larger window."
    )


def measured_now(view: View, counts: TokenCounter, tools: ToolTable = DEFAULT_TOOL_TABLE) -> Measured:
    """A walk through the whole view; `view_tracker.py` keeps the same figures record by record."""
    return Measured(_tokens(view, view.records, counts), accounts_of(view, counts, tools).metrics())


def _tokens(view: View, records: Sequence[Record], counts: TokenCounter) -> int:
    """Padded tokens of a part of the view. All estimated: reported usage speaks of whole requests."""
    return estimate_view(View(records, view.cleared, view.offloaded), counts)


class _Sizes(NamedTuple):
    """Tokens on the two sides of the cut."""

    summarized: int
    kept: int


def _measure_sides(
    view: View, division: Division, whole: Measured, asked: CompactionRequest, counts: TokenCounter
) -> _Sizes:
    """A full compaction summarizes the whole view, which is measured already."""
    is_full = asked.form == "full"
    return _Sizes(
        summarized=whole.estimate if is_full else _tokens(view, division.summarized, counts),
        kept=_tokens(view, division.kept, counts),
    )


def _is_reported(view: View, division: Division) -> bool:
    """Whether all that is kept is in a usage that the provider has reported."""
    last = next(at for at, record in enumerate(view.records) if record is division.kept[-1])
    return any(reported_usage(record) is not None for record in view.records[last:])


def _scaled(estimate: int, reported: int, whole: int) -> int:
    """A part of the view by its share of what was reported for the whole. An estimate with padding may be a
    third too high: what is kept would then seem larger than all was. Far too little is reported behind some
    gateways; that is not believed."""
    is_believed = _LEAST_SHARE * whole < reported < whole
    return ceil(estimate * reported / whole) if is_believed else estimate


def _fixed(view: View, size: int, whole: Measured, counts: TokenCounter) -> int:
    """System prompt and tools, which no record holds: what usage reports and the records do not explain.

    The first response of the view tells it best: little had been said, so little is estimated.
    """
    for at, record in enumerate(view.records):
        usage = reported_usage(record)
        if usage is not None and record.uuid not in view.stale:
            return max(0, usage.context - _tokens(view, view.records[:at], counts))
    return max(0, size - whole.estimate)


def _open_question(
    division: Division, limits: ContextThresholds, settings: CompactSettings, counts: TokenCounter
) -> TruncatedText | None:
    """What was said last, where it has no answer and is not among the kept messages."""
    parts = unanswered_parts(division.summarized)
    most = settings.max_unanswered(limits.auto)
    return truncate_parts(parts, most, counts.estimator.text) if parts else None


def _expected_new(
    division: Division, back: RestorationPlan, pins: Pins, settings: CompactSettings, counts: TokenCounter
) -> int:
    """What is added beside the kept messages, restored files at most as large as their budget."""
    estimate = counts.estimator.text
    files = min(len(back.files) * settings.file_tokens, settings.files_tokens)
    skills = sum(min(estimate(body), settings.skill_tokens) for _, body in back.skills)
    kept = (*(each.text for each in back.exchanges), *back.outline.lines)
    words = (back.todos, back.plan, *back.agents, *back.tools, *pins.carried, *kept)
    lines = (line for _, listed in back.listings for line in listed)
    asked = estimate(back.unanswered.text) if back.unanswered else 0
    told = sum(map(estimate, (*words, *lines))) + min(skills, settings.skills_tokens) + asked
    return pad_estimate(settings.expected_summary + told) + files


def _dollars(
    size: int, strategies: tuple[Strategy, ...], model: Model, settings: CompactSettings, on: date
) -> float:
    """The price of the first strategy. A fork and the provider read the conversation from the cache, a direct
    call pays for it."""
    first = strategies[0] if strategies else "extractive"
    if first in ("notes", "extractive") or not model.prices:
        return 0.0
    used = BilledTokens(
        output=settings.expected_output, **({"input": size} if first == "direct" else {"read": size})
    )
    return float(PricedUsage(price_tokens(used, model.rates(on=on, prompt_tokens=size))).dollars)


class _Messages(NamedTuple):
    """How many there are on the two sides of the cut."""

    summarized: int
    kept: int


def _why(
    asked: CompactionRequest, division: Division, messages: _Messages, size: int, limits: ContextThresholds
) -> str:
    if asked.is_reactive:
        cause = f"a request of about {size:,} tokens did not fit"
    elif asked.economics:
        cause = asked.economics
    elif asked.trigger == "auto":
        cause = f"{size:,} tokens are at or over the automatic threshold of {limits.auto:,}"
    else:
        cause = f"asked for by the user at {size:,} tokens"
    summarized, kept = messages.summarized, messages.kept
    parts = [cause, f"{summarized} {'message is' if summarized == 1 else 'messages are'} summarized"]
    parts += [f"{kept} {'is' if kept == 1 else 'are'} kept"] if division.kept else []
    parts += [division.moved] if division.moved else []
    return "; ".join(parts)
