"""What recorded sessions did: calls, cost, cache breaks, repeated reads, and what filled the context.

Sessions are read one at a time. Only a row, the cache breaks and a few numbers per call are kept of each.
What they would have cost under other policies: `replay/simulate.py`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from everturn.catalog.names import find_thread_title, short_id
from everturn.catalog.places import OWN
from everturn.decide.economy.head import HeadTool
from everturn.history.log import Log
from everturn.history.records import parse_time
from everturn.measure.accounting import Metrics, accounts_of
from everturn.measure.pricing import price_reads
from everturn.measure.tokens import TokenCounter
from everturn.replay.cache_breaks import CacheBreak, SessionCacheCheck, find_cache_breaks
from everturn.replay.call_ledger import (
    BilledCall,
    CallLedger,
    CallTotals,
    as_values,
    find_practice,
    find_priced,
    iter_billed_calls,
)
from everturn.replay.partial_replies import price_partial_replies
from everturn.replay.sessions import Period, ReplaySession, Unreadable, began_at
from everturn.session.bill import UsageTotals
from everturn.session.state_file import decode_state
from everturn.session.transcripts import read_state_beside
from everturn.session.valid_text import make_encodable

MAX_PATHS: Final = 20
# The purpose of replies that the client or the provider has cut off.
CUT_OFF: Final = "cut_off"


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `calls`, `dollars` and `hit_rate` leave out calls counted in an earlier session. `id` is
    the short name that every command takes."""

    id: str
    title: str
    began: datetime | None
    name: str
    path: str
    format: str
    agent: str
    project: str
    model: str
    calls: int
    dollars: Decimal
    hit_rate: float | None
    breaks: int
    notes: tuple[str, ...]
    # Those of the notes that say what the file has lost.
    flaws: tuple[str, ...] = ()
    # Calls that the twin answered in a chat: nobody paid for them, and nothing else here includes them.
    practice: int = 0
    # Dollars that the agent itself recorded, if no price is known for one of its models (RP-17).
    recorded_cost: Decimal | None = None


class RepeatedPath(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was in the context more than once. All copies but one are wasted tokens."""

    path: str
    count: int
    wasted: int


class UnusedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that no session has called: tokens of its definition, how many prompts had it, and what it has
    cost at least to read it so often; None if no price is known."""

    tool: str
    tokens: int
    prompts: int
    dollars: Decimal | None = None


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    sessions: tuple[SessionRow, ...]
    unreadable: tuple[Unreadable, ...]
    total: CallTotals
    by: dict[str, dict[str, CallTotals]]
    # Responses that appear in more than one file.
    repeated_calls: int
    breaks: tuple[CacheBreak, ...]
    # `near`: calls whose cache reads were predicted within 5% of their context. `judged`: all calls with
    # usage.
    near: int
    judged: int
    # Estimated tokens by kind, over all views at their largest; tool results by tool name.
    filled: dict[str, int]
    tools: dict[str, int]
    reads_again: tuple[RepeatedPath, ...]
    wasted: int
    # Only sessions of everturn keep what the definitions of their tools cost (EC-10).
    unused_tools: tuple[UnusedTool, ...] = ()
    # Calls beside the conversations, by purpose: summaries, notes and holds, and replies that were cut off
    # (`CUT_OFF`). The totals leave them out, because a session keeps only their sums, without a day or a
    # model for each.
    asides: dict[str, UsageTotals] = {}

    @property
    def practice(self) -> int:
        """Calls that the totals leave out, because nobody paid for them."""
        return sum(row.practice for row in self.sessions)

    @property
    def recorded_costs(self) -> tuple[Decimal, ...]:
        """What sessions of models without a known price cost, where their files say so."""
        return tuple(row.recorded_cost for row in self.sessions if row.recorded_cost is not None)

    def break_reasons(self) -> dict[str, tuple[int, int, Decimal]]:
        """By reason, most dollars first: number of breaks, tokens lost, and dollars where known."""
        found: dict[str, tuple[int, int, Decimal]] = {}
        for each in self.breaks:
            count, lost, dollars = found.get(each.reason, (0, 0, Decimal(0)))
            found[each.reason] = count + 1, lost + each.lost, dollars + (each.dollars or 0)
        return dict(sorted(found.items(), key=lambda item: (-item[1][2], -item[1][1])))


class SessionFacts(msgspec.Struct, frozen=True):
    """What an audit keeps of one session: all that the reading of its file gives."""

    row: SessionRow
    calls: tuple[BilledCall, ...]
    check: SessionCacheCheck
    views: tuple[Metrics, ...]


def measure_session(found: ReplaySession, *, own: Path | None = None) -> SessionFacts:
    """The expensive part of an audit, once for each version of a file. Sessions in `own` are everturn's."""
    project, practice = project_of(found), find_practice(found)
    check = find_cache_breaks(found)
    paid = tuple(each for each in check.breaks if each.message not in practice)
    agent = OWN if own is not None and Path(found.path).is_relative_to(own) else found.format
    return SessionFacts(
        SessionRow(
            id=short_id(found.path),
            title=find_thread_title(found.threads[0]) or found.name,
            began=began_at(found),
            name=found.name,
            path=found.path,
            format=found.format,
            agent=agent,
            project=project,
            model=found.model,
            calls=0,
            dollars=Decimal(0),
            hit_rate=None,
            breaks=0,
            notes=found.notes,
            flaws=found.flaws,
            practice=len(practice),
            recorded_cost=found.recorded_cost,
        ),
        tuple(iter_billed_calls(found, project, agent)),
        msgspec.structs.replace(check, breaks=paid),
        tuple(_views(found)),
    )


class Auditor:
    """Adds up what sessions did, one at a time. Only what happened in `period` counts; days are of `zone`."""

    def __init__(self, period: Period | None = None, zone: tzinfo | None = None) -> None:
        self._period = period or Period()
        self._ledger = CallLedger(zone)
        self._rows: list[SessionRow] = []
        self._unreadable: list[Unreadable] = []
        # Keyed by response, because a resumed session repeats the breaks of its history.
        self._breaks: dict[tuple[str, str], CacheBreak] = {}
        self._near = self._judged = 0
        self._filled: Counter[str] = Counter()
        self._tools: Counter[str] = Counter()
        self._reads: dict[str, tuple[int, int]] = {}
        # The tools that were sent, as if none had been called, and those that were.
        self._head: dict[str, UnusedTool] = {}
        self._called: set[str] = set()
        self._asides: dict[str, UsageTotals] = {}
        # What each state says of them, to tell a copy from a fork.
        self._known_asides: set[bytes] = set()

    def add(self, found: SessionFacts | Unreadable) -> None:
        if isinstance(found, Unreadable):
            self._unreadable.append(found)
            return
        paid = [call for call in found.calls if self._period.has(call.at)]
        if not paid and not self._period.has(found.row.began):
            return
        sums = self._ledger.add_calls(paid)
        breaks = 0
        state = decode_state(read_state_beside(found.row.path))
        is_known = bool(paid) and not sums.calls
        if not is_known:
            # When every call is already known, this is a copy of an earlier session and was checked there.
            breaks = self._count_breaks(found.check)
            for view in found.views:
                self._add_metrics(view)
            self._add_head(state.head, sums.calls, paid)
        # Nobody paid for practice, and a part of a session has no sums.
        if len(paid) == len(found.calls) and not found.row.practice:
            cut_off = price_partial_replies(found.row.path)
            self._add_asides({**state.asides, CUT_OFF: cut_off}, is_known=is_known)
        self._rows.append(
            msgspec.structs.replace(
                found.row,
                calls=sums.calls,
                dollars=sums.dollars,
                hit_rate=sums.hit_rate,
                breaks=breaks,
                recorded_cost=found.row.recorded_cost if +sums.unpriced else None,
            )
        )

    def audit(self) -> Audit:
        reads = [RepeatedPath(path=p, count=c, wasted=w) for p, (c, w) in self._reads.items()]
        return Audit(
            sessions=tuple(self._rows),
            unreadable=tuple(self._unreadable),
            total=self._ledger.total,
            by={name: dict(sorted(rows.items())) for name, rows in self._ledger.by.items()},
            repeated_calls=self._ledger.repeated,
            breaks=tuple(self._breaks.values()),
            near=self._near,
            judged=self._judged,
            filled=dict(self._filled.most_common()),
            tools=dict(self._tools.most_common()),
            reads_again=tuple(sorted(reads, key=lambda read: (-read.wasted, read.path))[:MAX_PATHS]),
            wasted=sum(wasted for _, wasted in self._reads.values()),
            unused_tools=self._unused_tools(),
            asides={purpose: spent for purpose, spent in self._asides.items() if spent.calls},
        )

    def _add_asides(self, asides: Mapping[str, UsageTotals], *, is_known: bool) -> None:
        """A fork may have no call of its own yet and a summary that was paid for; a copy has those of the
        session it was made of."""
        spelled = msgspec.json.encode(asides)
        if is_known and spelled in self._known_asides:
            return
        self._known_asides.add(spelled)
        for purpose, spent in asides.items():
            self._asides[purpose] = self._asides.get(purpose, UsageTotals()) + spent

    def _add_head(self, head: Iterable[HeadTool], prompts: int, paid: Sequence[BilledCall]) -> None:
        """`prompts` of these calls were not in another file already."""
        self._called |= {tool.name for tool in head if tool.calls}
        sent = [tool for tool in head if not tool.is_deferred]
        read = price_reads(1, find_priced(paid)) if sent else None
        for tool in sent:
            known = self._head.get(tool.name, UnusedTool(tool=tool.name, tokens=0, prompts=0))
            dollars = known.dollars
            if read is not None and prompts:
                dollars = (dollars or Decimal(0)) + tool.tokens * read * prompts / len(paid)
            self._head[tool.name] = UnusedTool(
                tool=tool.name,
                tokens=max(known.tokens, tool.tokens),
                prompts=known.prompts + prompts,
                dollars=dollars,
            )

    def _unused_tools(self) -> tuple[UnusedTool, ...]:
        unused = (each for each in self._head.values() if each.tool not in self._called and each.prompts)
        return tuple(sorted(unused, key=lambda each: (-each.tokens * each.prompts, each.tool)))

    def _count_breaks(self, check: SessionCacheCheck) -> int:
        before = len(self._breaks)
        for each in check.breaks:
            if self._period.has(parse_time(each.at)):
                self._breaks.setdefault((each.message, each.at), each)
        self._near += check.near
        self._judged += check.calls
        return len(self._breaks) - before

    def _add_metrics(self, metrics: Metrics) -> None:
        self._tools.update(metrics.tool_results)
        self._filled.update(
            {
                "tool results": sum(metrics.tool_results.values()),
                "tool requests": sum(metrics.tool_requests.values()),
                "assistant": metrics.assistant,
                "thinking": metrics.thinking,
                "human": metrics.human,
                "local output": metrics.local_output,
                "images": metrics.images,
                "injected": metrics.injected,
                "other": metrics.other - metrics.thinking - metrics.images - metrics.injected,
            }
        )
        for path, read in metrics.duplicate_reads.items():
            count, wasted = self._reads.get(path, (0, 0))
            self._reads[path] = count + read.count, wasted + read.wasted


def _views(session: ReplaySession) -> Iterable[Metrics]:
    """Every view of every thread at its largest: before each compaction, and at the end."""
    for thread in session.threads:
        log, counts = Log(thread.records), TokenCounter()
        for view in (*log.views_before, log.view):
            yield accounts_of(view, counts).metrics()


class _Where(msgspec.Struct):
    cwd: str = ""


_read_where = msgspec.json.Decoder(_Where).decode


def project_of(session: ReplaySession) -> str:
    """The working directory of the session if the file names it, else the folder of the file."""
    for record in session.threads[0].records:
        try:
            if where := _read_where(record.raw).cwd:
                return where
        except msgspec.DecodeError:
            continue
    return str(Path(session.path).parent)


def audit(found: Iterable[ReplaySession | Unreadable]) -> Audit:
    auditor = Auditor()
    for each in found:
        auditor.add(each if isinstance(each, Unreadable) else measure_session(each))
    return auditor.audit()


def as_json(done: Audit) -> bytes:
    """The audit as JSON with an indent of two spaces; dollars are numbers."""
    values: dict[str, Any] = {
        **msgspec.structs.asdict(done),
        "total": as_values(done.total),
        "by": {name: {key: as_values(row) for key, row in rows.items()} for name, rows in done.by.items()},
        "break_reasons": {
            reason: {"breaks": count, "tokens": lost, "dollars": dollars}
            for reason, (count, lost, dollars) in done.break_reasons().items()
        },
    }
    # The name of a file need not be UTF-8, and JSON has to be.
    told = make_encodable(msgspec.to_builtins(values, builtin_types=(Decimal, datetime)))
    return msgspec.json.format(msgspec.json.Encoder(decimal_format="number").encode(told), indent=2)
