"""Compactions as terminal output: what one would do, what it did, what it cost, and its undo."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
from rich.text import Text

from everturn.dashboard.layout import Screen, counted, tokens
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.decide.compact.divide import messages_in
from everturn.decide.compact.values import Compaction, CompactionPlan, Receipt
from everturn.decide.retention import RetentionFigures
from everturn.history.records import Record
from everturn.measure.money import format_dollars
from everturn.session.session import ContextUsage

# The strategies in words.
STRATEGY_LABELS: Final = {
    "notes": "the session's notes",
    "fork": "a model, reading the session from its cache",
    "direct": "a model",
    "provider": "the provider itself",
    "extractive": "no model: put together from the session",
}
# The kinds of the retention score in words.
_KINDS: Final = {
    "user_instructions": "user's words",
    "corrections": "corrections",
    "decisions": "decisions",
    "outcomes": "outcomes",
    "pending": "open items",
    "last_words": "last words",
    "paths": "paths",
    "identifiers": "names",
    "errors": "errors",
}
LABEL: Final = 12


def render_plan(plan: CompactionPlan, file: str, screen: Screen) -> list[Text]:
    """A dry run (CP-29)."""
    # Files count with their whole budget, because a dry run does not read them.
    after = f"up to {plan.expected_after:,}" if plan.restoration.files else f"about {plan.expected_after:,}"
    back = [*plan.restoration.files, *(["the todo list"] if plan.restoration.todos else [])]
    back += [*(["the plan"] if plan.restoration.plan else []), *(name for name, _ in plan.restoration.skills)]
    rows = [
        ("summarizes", f"{_part(plan.summarized)}, about {plan.tokens_summarized:,} tokens"),
        ("by", STRATEGY_LABELS[plan.strategies[0]] if plan.strategies else "no strategy is allowed"),
        ("cut", _cut(plan)),
        (
            "keeps",
            f"{_part(plan.kept)}, about {plan.tokens_kept:,} tokens" if plan.kept else "nothing",
        ),
        ("carries", counted(len(plan.pins), "instruction") + " word for word" if plan.pins else ""),
        ("restores", ", ".join(back)),
        ("tokens", f"{plan.tokens_before:,} before, {after} after"),
        ("price", format_dollars(plan.expected_dollars)),
        ("why", plan.why),
    ]
    return [
        Text(screen.fitted(f"{file}: a dry run, nothing was changed", cut="start"), HEAD),
        *_rows(rows, screen),
    ]


def _cut(plan: CompactionPlan) -> str:
    if plan.asked.form == "full" or not plan.kept:
        return "none: everything is summarized"
    first = plan.summarized[0] if plan.asked.form == "from" else plan.kept[0]
    return f"before {first.uuid}"


def render_compaction(
    outcome: Compaction, spent: Decimal | None, file: str, screen: Screen, *, is_head_known: bool = True
) -> list[Text]:
    """`spent` is the price of its calls; None if it made none. `is_head_known`: the size afterwards has
    system prompt and tools, which a file that begins in the middle does not tell."""
    way = outcome.attempts[-1].strategy if outcome.attempts else "extractive"
    without = "" if is_head_known else ", without system prompt and tools: the file does not tell their size"
    rows = [
        ("tokens", f"{outcome.tokens_before:,} before, {outcome.tokens_after:,} after{without}"),
        ("summary by", STRATEGY_LABELS[way]),
        *(
            ("tried first", f"{STRATEGY_LABELS[each.strategy]}: {each.problem}")
            for each in outcome.attempts
            if each.problem
        ),
        ("price", "nothing: no call was made" if spent is None else format_dollars(spent)),
        *receipt_rows(outcome.receipt),
        ("boundary", outcome.boundary.uuid),
    ]
    undo = f"Take it back with: everturn undo {file}"
    return [
        Text(screen.fitted(f"{file} is compacted", cut="start"), HEAD),
        *_rows(rows, screen),
        *(Text(line, QUIET) for line in screen.wrapped(undo)),
    ]


def receipt_rows(receipt: Receipt) -> list[tuple[str, str]]:
    """What was retained, recoverable and dropped (CP-34), and the retention score of the summary (BY-6)."""
    rows = [
        ("retained", receipt.retained),
        ("recoverable", receipt.recoverable),
        ("dropped", receipt.dropped),
    ]
    return [*((name, "; ".join(what)) for name, what in rows), *_score_rows(receipt.retention)]


def _score_rows(figures: RetentionFigures | None) -> list[tuple[str, str]]:
    if figures is None:
        return []
    kept = (f"{_KINDS[name]} {kept}/{total}" for name, (kept, total) in figures.kept.items())
    return [
        (
            "score",
            f"{figures.score:.2f} of 1.00: {', '.join(kept)}" if figures.kept else f"{figures.score:.2f}",
        ),
        *(("wrong", each) for each in figures.wrong),
    ]


def render_undo(boundary: str, before: ContextUsage, after: ContextUsage, screen: Screen) -> list[Text]:
    sizes = f"{tokens(before.size.tokens)} tokens before, {tokens(after.size.tokens)} now"
    lines = [Text(line) for line in screen.wrapped(f"Compaction {boundary} no longer holds: {sizes}.")]
    if after.levels.above_auto:
        again = "The context is above the threshold again: the next turn compacts it."
        lines += (Text(line, QUIET) for line in screen.wrapped(again))
    return lines


def as_json(outcome: Compaction | CompactionPlan, spent: Decimal | None) -> bytes:
    """Figures and names; records are identified by uuid. `spent` is the price of its calls, None: no call."""
    if isinstance(outcome, CompactionPlan):
        return _encoded(_plan_fields(outcome))
    way = outcome.attempts[-1].strategy if outcome.attempts else ""
    fields = {
        "boundary": outcome.boundary.uuid,
        "summary": outcome.summary.uuid,
        "way": way,
        "tokens_before": outcome.tokens_before,
        "tokens_after": outcome.tokens_after,
        "dollars": spent or Decimal(),
        "receipt": _receipt_fields(outcome.receipt),
        "problems": [
            {"way": each.strategy, "problem": each.problem} for each in outcome.attempts if each.problem
        ],
    }
    return _encoded(fields)


def _receipt_fields(receipt: Receipt) -> dict[str, Any]:
    return {
        "retained": receipt.retained,
        "recoverable": receipt.recoverable,
        "dropped": receipt.dropped,
        "retention": receipt.retention,
    }


def _plan_fields(plan: CompactionPlan) -> dict[str, Any]:
    return {
        "form": plan.asked.form,
        "ways": plan.strategies,
        "summarized": [record.uuid for record in plan.summarized],
        "kept": [record.uuid for record in plan.kept],
        "restoring": plan.restoration,
        "pins": plan.pins,
        "tokens_before": plan.tokens_before,
        "expected_after": plan.expected_after,
        "expected_dollars": plan.expected_dollars,
        "why": plan.why,
    }


def _encoded(fields: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.Encoder(decimal_format="number").encode(fields), indent=2)


def _part(records: Sequence[Record]) -> str:
    return counted(messages_in(records), "message")


def _rows(rows: Sequence[tuple[str, str]], screen: Screen) -> list[Text]:
    """Rows of a label and text that is wrapped beside it."""
    beside = screen._replace(width=max(10, screen.width - LABEL))
    lines: list[Text] = []
    for name, said in rows:
        for at, part in enumerate(beside.wrapped(said) if said else []):
            lines.append(Text.assemble((f"{name if at == 0 else '':<{LABEL}}", QUIET), part))
    return lines
