"""The records of a compaction that succeeded, in the order in which they are appended (CP-10, 11, 34).

    full    boundary, summary, restored
    up_to   boundary, summary, kept, restored
    from    boundary, kept, summary, restored

Kept records are not written again: the boundary names their head and tail and what they are shown behind, and
the log puts them there (`history/log.py`). Restored are pins, what is brought back, hook results, receipt.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from everturn.decide.compact.chain import RECEIPT, chain_fields
from everturn.decide.compact.receipt import receipt_of
from everturn.decide.compact.restored_attachments import (
    SAID_BY_HOOKS,
    RestoredAttachment,
    build_restored_attachments,
)
from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionForm,
    CompactionPlan,
    Receipt,
    Strategy,
)
from everturn.decide.effects import FileRead
from everturn.errors import UsageError
from everturn.history.blocks import Block, text_block
from everturn.history.edits import Compacted, KeptSegment
from everturn.history.records import Record, make_edit_record
from everturn.measure.tokens import TokenCount, TokenCounter
from everturn.view.fragments.receipt import receipt as words
from everturn.view.fragments.summary_message import Resuming, summary_message


def build_compaction(
    plan: CompactionPlan,
    text: str,
    strategy: Strategy,
    files: Sequence[FileRead],
    hooks: Sequence[str],
    *,
    transcript: str,
    now: datetime,
    new_id: Callable[[], str],
    autonomous: bool = False,
    attempts: Sequence[Attempt] = (),
    since: Sequence[Record] = (),
    counts: TokenCounter | None = None,
    settings: CompactSettings = DEFAULTS,
    is_scored: bool = True,
) -> Compaction:
    """`text` is a summary that was formatted and accepted. `since` are records that were appended after the
    plan was made: they are kept in every form but "from", where they would have to be moved. `is_scored`:
    the receipt has the retention score."""
    if since and plan.asked.form == "from":
        raise UsageError("A message was added while a compaction `from` a message ran. Start it again.")
    counts = counts or TokenCounter()
    boundary_id, summary_id = new_id(), new_id()
    kept = _segment(plan, since, boundary_id, summary_id)
    last = (*_in_order(plan), *since)[-1]
    made = _Maker(last, now, new_id)
    boundary = made.boundary(_edit(plan, last, kept, since), boundary_id)
    resuming = _resuming(plan, autonomous=autonomous)
    told = summary_message(text, form=_shown_as(plan, since), transcript=transcript, resuming=resuming)
    summary = made.summary(text_block(told), summary_id, after=boundary)
    back = build_restored_attachments(plan, files, hooks, settings, counts.estimator.text)
    unread = attempts[-1].unread if attempts else 0
    receipt = receipt_of(
        plan, text, back, transcript=transcript, settings=settings, unread=unread, is_scored=is_scored
    )
    restored = made.attachments((*back.payloads, _receipt_payload(receipt, plan, strategy)), after=summary)
    added = sum((counts.of(record).whole for record in (summary, *restored, *since)), TokenCount())
    return Compaction(
        boundary=boundary,
        summary=summary,
        restored=restored,
        kept=kept,
        attempts=tuple(attempts),
        receipt=receipt,
        tokens_before=plan.tokens_before,
        tokens_after=plan.fixed + plan.tokens_kept + added.padded,
    )


def said_by_hooks(
    words: Sequence[str], *, after: Record, now: datetime, new_id: Callable[[], str]
) -> tuple[Record, ...]:
    """What hooks add to a view, as records behind its last one (CP-18)."""
    payloads = tuple(RestoredAttachment(SAID_BY_HOOKS, (each,)) for each in words if each.strip())
    made = _Maker(after, now, new_id).attachments(payloads, after=after)
    stamp = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return tuple(msgspec.structs.replace(record, timestamp=stamp) for record in made)


class _Maker:
    """Makes records that belong to the same conversation as the last one of it."""

    def __init__(self, last: Record, now: datetime, new_id: Callable[[], str]) -> None:
        self._last, self._now, self._new_id = last, now, new_id

    def boundary(self, edit: Compacted, uuid: str) -> Record:
        # No parent: a boundary is a new root, and leads back by its logical parent (TR-4, TR-9).
        record = make_edit_record(edit, uuid=uuid, after=self._last, at=self._now)
        return msgspec.structs.replace(record, parent="")

    def summary(self, block: Block, uuid: str, *, after: Record) -> Record:
        record = self._record(uuid, after)
        return msgspec.structs.replace(
            record, kind="user", blocks=(block,), compact_summary=True, transcript_only=True
        )

    def attachments(self, payloads: Sequence[RestoredAttachment], *, after: Record) -> tuple[Record, ...]:
        found: list[Record] = []
        for payload in payloads:
            raw = msgspec.json.encode({"type": payload.type, **payload.fields, "content": payload.content})
            record = self._record(self._new_id(), found[-1] if found else after)
            blocks = (Block("attachment", raw),)
            found.append(
                msgspec.structs.replace(record, kind="attachment", subtype=payload.type, blocks=blocks)
            )
        return tuple(found)

    def _record(self, uuid: str, after: Record) -> Record:
        return Record(
            kind="user",
            uuid=uuid,
            parent=after.uuid,
            timestamp=after.timestamp,
            session=after.session,
            agent=after.agent,
            sidechain=after.sidechain,
        )


def _in_order(plan: CompactionPlan) -> tuple[Record, ...]:
    if plan.asked.form == "from":
        return (*plan.kept, *plan.summarized)
    return (*plan.summarized, *plan.kept)


def _segment(
    plan: CompactionPlan, since: Sequence[Record], boundary_id: str, summary_id: str
) -> KeptSegment | None:
    kept = (*plan.kept, *since)
    if not kept:
        return None
    anchor = boundary_id if plan.asked.form == "from" else summary_id
    return KeptSegment(kept[0].uuid, anchor, kept[-1].uuid)


def _edit(plan: CompactionPlan, last: Record, kept: KeptSegment | None, since: Sequence[Record]) -> Compacted:
    return Compacted(
        trigger=plan.asked.trigger,
        tokens_before=plan.tokens_before,
        messages_summarized=plan.messages_summarized,
        user_context=plan.asked.instructions,
        logical_parent=last.uuid,
        discovered_tools=plan.restoration.discovered,
        kept=kept,
        tokens_kept=0 if since else plan.counted_kept,
    )


def _shown_as(plan: CompactionPlan, since: Sequence[Record]) -> CompactionForm:
    """How the summary stands to the rest: one of a whole conversation may be followed by what came since."""
    return "up_to" if since and plan.asked.form == "full" else plan.asked.form


def _resuming(plan: CompactionPlan, *, autonomous: bool) -> Resuming:
    if autonomous:
        return "autonomous"
    return "directly" if plan.asked.trigger == "auto" else "with_the_user"


def _receipt_payload(receipt: Receipt, plan: CompactionPlan, strategy: Strategy) -> RestoredAttachment:
    said = words(receipt.retained, receipt.recoverable, receipt.dropped)
    return RestoredAttachment(RECEIPT, (said,), {"way": strategy, "chain": chain_fields(plan.chain)})
