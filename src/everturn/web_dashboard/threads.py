"""One conversation as numbers: what filled its context at every call, and every edit of its view (DB-4).

The walk is that of `replay/calls.py`, so calls have the same numbers as cache breaks. The total of a call is
what the API reported. The split by kind is estimated and scaled to that total; where a file reports no usage,
the total is an estimate as well.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from everturn.catalog.names import find_thread_title
from everturn.dashboard.figures.categories import MAX_STRETCH, split_by_kind, text_tokens
from everturn.dashboard.grid import LABELS, apportion
from everturn.history.edits import (
    CacheDeleted,
    Cleared,
    Compacted,
    Edit,
    Offloaded,
    Pinned,
    Rewound,
    ServerCleared,
    ThinkingDropped,
    Trimmed,
    Undone,
)
from everturn.history.log import Log, View
from everturn.history.records import Record, Usage, record_time, reported_usage
from everturn.history.threads import Thread
from everturn.measure.accounting import Accounts, accounts_of
from everturn.measure.calibration import Calibration
from everturn.measure.overhead import estimate_overhead, is_conversation_start
from everturn.measure.tokens import TokenCounter
from everturn.replay.calls import with_calls
from everturn.session.recorded import calibrate
from everturn.web_dashboard.values import CallDetail, EditDetail, ThreadDetail, to_epoch

# In drawing order: what is sent first comes first.
KINDS: Final = tuple(LABELS)


class _Scale(NamedTuple):
    """How estimates become the reported size."""

    calibration: Calibration
    fixed: int


def describe_thread(thread: Thread, prices: Mapping[str, int | None]) -> ThreadDetail:
    """`prices` are in nanodollars, by message id."""
    counts = TokenCounter()
    filled = _Filled(counts)
    scale = _scale(thread.records, counts)
    calls: list[CallDetail] = []
    edits: list[EditDetail] = []
    for record, usage in with_calls(thread.records):
        if usage is not None:
            calls.append(_call(len(calls) + 1, record, usage, filled, scale, prices))
        filled.add(record)
        if record.edit is not None and (edit := _edit(record, record.edit, len(calls) + 1)):
            edits.append(edit)
    title = find_thread_title(thread) if thread.agent else ""
    return ThreadDetail(thread.agent, tuple(calls), tuple(edits), title)


def _scale(records: Sequence[Record], counts: TokenCounter) -> _Scale:
    calibration = calibrate(records, counts)
    models = [record.reply.model for record in records if record.reply and reported_usage(record)]
    fixed = (
        estimate_overhead(records, counts, calibration, models[-1])
        if models and is_conversation_start(records)
        else None
    )
    return _Scale(calibration, fixed or 0)


class _Filled:
    """Estimated tokens by kind of what the next call sends, followed record by record."""

    def __init__(self, counts: TokenCounter) -> None:
        self._counts = counts
        self._log = Log()
        self._accounts = Accounts(counts)
        self._summary = self._attached = 0

    def add(self, record: Record) -> None:
        if self._log.append(record) == "replaced":
            self._begin(self._log.view)
        elif not record.is_boundary:
            self._accounts.add(record)
            self._count(record)

    def kinds(self) -> dict[str, int]:
        metrics = self._accounts.metrics()
        return split_by_kind(metrics, summary=self._summary, attached=self._attached)

    def _begin(self, view: View) -> None:
        self._accounts = accounts_of(view, self._counts)
        self._summary = self._attached = 0
        for record in view.records:
            self._count(record)

    def _count(self, record: Record) -> None:
        if record.compact_summary:
            self._summary += text_tokens(record, self._counts)
        elif record.kind == "attachment":
            self._attached += self._counts.of(record).whole.total


def _call(
    number: int,
    record: Record,
    usage: Usage,
    filled: _Filled,
    scale: _Scale,
    prices: Mapping[str, int | None],
) -> CallDetail:
    moment = record_time(record)
    rough = filled.kinds()
    context = usage.context or scale.calibration.corrected(sum(rough.values())) + scale.fixed
    return CallDetail(
        number=number,
        at=to_epoch(moment),
        model=record.reply.model if record.reply else "",
        context=context,
        read=usage.cache_read_input_tokens,
        written=usage.cache_creation_input_tokens,
        plain=usage.input_tokens,
        output=usage.output_tokens,
        nanos=prices.get(record.message_id),
        kinds=_split(rough, context, scale),
        is_reported=bool(usage.context),
    )


def _split(rough: Mapping[str, int], context: int, scale: _Scale) -> tuple[int, ...]:
    """The estimates, scaled so that they and what is not in the file add up to the context."""
    plain = sum(rough.values())
    held = min(scale.fixed, context)
    # As `everturn context` does: beyond this factor the estimate is not the cause, something outside is.
    if plain and not plain <= (context - held) * MAX_STRETCH <= plain * MAX_STRETCH * MAX_STRETCH:
        held = max(0, context - scale.calibration.corrected(plain))
    system = min(held, scale.fixed)
    shares = dict(zip(rough, apportion(tuple(rough.values()), context - held), strict=True))
    shares |= {"system": system, "unrecorded": context - system - sum(shares.values())}
    return tuple(shares[kind] for kind in KINDS)


def _edit(record: Record, edit: Edit, call: int) -> EditDetail | None:
    kind, said, why, saved = _described(edit)
    if not kind:
        return None
    return EditDetail(record.uuid, kind, to_epoch(record_time(record)), call, said, why, saved)


def _described(edit: Edit) -> tuple[str, str, str, int]:
    match edit:
        case Compacted(trigger=trigger, tokens_before=before, messages_summarized=messages):
            size = f", {before:,} tokens before it" if before else ""
            part = f", {messages:,} messages summarized" if messages else ""
            return "compaction", f"Compacted ({trigger}){size}{part}", "", 0
        case Cleared(calls=calls, why=why, tokens_saved=saved):
            return "clearing", f"{len(calls):,} tool results cleared", why, saved
        case Undone(boundary=boundary, why=why):
            return "undo", f"Compaction {boundary} undone", why, 0
        case Pinned(text=text, source=source):
            return "pin", f"Pinned: {text}", source, 0
        case Offloaded(characters=characters, why=why):
            return "offload", f"A result of {characters:,} characters moved to a file", why, 0
        case ThinkingDropped(why=why):
            return "thinking", "Earlier thinking removed", why, 0
        case CacheDeleted(calls=calls, why=why):
            return "clearing", f"{len(calls):,} tool results deleted in the provider's cache", why, 0
        case ServerCleared(kind=kind, count=count, tokens=tokens):
            return "clearing", f"The provider cleared {count:,} items ({kind})", "", tokens
        case Trimmed(why=why):
            return "trim", "Oldest rounds dropped", why, 0
        case Rewound(why=why):
            return "rewind", "Conversation rewound", why, 0
        case _:
            return "", "", "", 0
