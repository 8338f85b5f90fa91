"""The context of a session as one value: everything that a terminal or a page shows.

As JSON, this value is the output of `everturn context --json`. Its field names are stable and listed in
docs/context.md.
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from everturn.catalog.names import find_thread_title
from everturn.dashboard.figures.calls import (
    CacheUse,
    Cost,
    cache_use,
    collect_calls,
    cost_of,
    cost_of_agent_files,
    price_definitions,
)
from everturn.dashboard.figures.categories import Category, split_context
from everturn.dashboard.figures.tools import (
    DuplicateRead,
    LargeResult,
    ToolUse,
    duplicate_reads,
    largest_results,
    tool_table,
)
from everturn.dashboard.figures.views import (
    MicroCompactionRow,
    SidechainRow,
    ViewRow,
    micro_rows,
    sidechain_rows,
    view_rows,
)
from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.head import HeadTool
from everturn.history.records import Record
from everturn.history.repair import Repair
from everturn.history.threads import Thread, ThreadIssue
from everturn.measure.calibration import Calibration
from everturn.measure.meter import ContextSize
from everturn.measure.thresholds import ContextThresholds, ThresholdLevels
from everturn.session.recorded import ContextWindow, RecordedSession
from everturn.session.valid_text import make_encodable
from everturn.view.flatten import flatten
from everturn.wire.line_repair import LineProblem

ContextLevel = Literal["ok", "warning", "compaction", "blocked"]


class ModelName(msgspec.Struct, frozen=True):
    """`guess` says what was assumed about an unknown model; "" for a known one."""

    id: str
    name: str
    guess: str


class TranscriptProblems(msgspec.Struct, frozen=True):
    """Problems in the lines of the file, in the links between them, and in their content."""

    flaws: tuple[LineProblem, ...]
    notes: tuple[ThreadIssue, ...]
    repairs: tuple[Repair, ...]
    remarks: tuple[str, ...]


class ContextReport(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    # What people call the session, and the short name that every command takes, if it was found by that.
    title: str
    id: str
    session: str
    agent: str
    records: int
    model: ModelName
    window: ContextWindow
    size: ContextSize
    limits: ContextThresholds
    levels: ThresholdLevels
    level: ContextLevel
    free: int
    buffer: int
    calibration: Calibration
    stretch: float
    categories: tuple[Category, ...]
    tools: tuple[ToolUse, ...]
    duplicate_reads: tuple[DuplicateRead, ...]
    largest_results: tuple[LargeResult, ...]
    views: tuple[ViewRow, ...]
    micro_compactions: tuple[MicroCompactionRow, ...]
    sidechains: tuple[SidechainRow, ...]
    cache: CacheUse
    cost: Cost
    oddities: TranscriptProblems
    # The latest decisions that were made by price, the newest last; and what the definition of each tool
    # costs. Only sessions of everturn keep them.
    decisions: tuple[EconomicDecision, ...]
    head: tuple[HeadTool, ...]
    # What it has cost at least to read the definitions of tools that were never called; None if there are
    # none, or no price is known.
    unused_dollars: Decimal | None

    @property
    def is_empty(self) -> bool:
        return not self.records

    @property
    def compacts_automatically(self) -> bool:
        """Otherwise the shown limit is the effective window (TOK-15)."""
        return self.limits.shown == self.limits.auto


def context_report(
    session: RecordedSession, id: str = "", agent_files: Iterable[Iterable[Thread]] = ()
) -> ContextReport:
    """`agent_files` are the conversations in each file of a sub-agent (`replay.sessions.read_agent_files`),
    for the cost."""
    parts = split_context(session)
    head = () if session.thread.agent else session.kept.head
    unused = sum(tool.tokens for tool in head if tool.is_unused)
    paid = _paid_for(session)
    calls = collect_calls(paid)
    others = () if session.thread.agent else tuple(map(_all_records, agent_files))
    used, window = session.size.tokens, session.window.tokens
    return ContextReport(
        source=session.source,
        title=find_thread_title(session.thread),
        id=id,
        session=next((record.session for record in session.thread.records if record.session), ""),
        agent=session.thread.agent,
        records=len(session.view.records),
        model=ModelName(session.model_id, _name(session), session.guess),
        window=session.window,
        size=session.size,
        limits=session.limits,
        levels=session.levels,
        level=context_level(session.levels),
        free=max(0, session.limits.shown - used),
        buffer=max(0, window - max(used, session.limits.shown)),
        calibration=session.calibration,
        stretch=parts.stretch,
        categories=parts.categories,
        tools=tool_table(session, parts),
        duplicate_reads=duplicate_reads(parts),
        largest_results=largest_results(session, parts),
        views=view_rows(session),
        micro_compactions=micro_rows(session.thread),
        sidechains=sidechain_rows(session),
        cache=cache_use(calls),
        cost=msgspec.structs.replace(cost_of(calls), agent_files=cost_of_agent_files(paid, others)),
        oddities=_oddities(session),
        decisions=() if session.thread.agent else session.kept.decisions,
        head=head,
        unused_dollars=price_definitions(unused, calls) if unused else None,
    )


def as_json(report: ContextReport) -> bytes:
    """The report as JSON with an indent of two spaces; dollars are numbers."""
    # The name of a file need not be UTF-8, and JSON has to be.
    told = make_encodable(msgspec.to_builtins(report, builtin_types=(Decimal, datetime)))
    return msgspec.json.format(msgspec.json.Encoder(decimal_format="number").encode(told), indent=2)


def context_level(levels: ThresholdLevels) -> ContextLevel:
    """The highest threshold that is exceeded, in one word."""
    if levels.at_blocking:
        return "blocked"
    if levels.above_auto:
        return "compaction"
    return "warning" if levels.above_warning or levels.above_error else "ok"


def _paid_for(session: RecordedSession) -> tuple[Record, ...]:
    """All calls of the file, including those of sub-agents and abandoned branches; or those of one agent."""
    if session.thread.agent:
        return _all_records((session.thread,))
    return _all_records((session.threads.main, *session.threads.sidechains))


def _all_records(threads: Iterable[Thread]) -> tuple[Record, ...]:
    return tuple(record for thread in threads for record in (*thread.records, *thread.abandoned))


def _name(session: RecordedSession) -> str:
    if session.guess:
        return session.model_id or "Unknown model"
    return session.model.display_name


def _oddities(session: RecordedSession) -> TranscriptProblems:
    repairs = flatten(session.view).repairs
    return TranscriptProblems(session.transcript.flaws, session.thread.notes, repairs, session.remarks)
