"""Builds records for formats that have no records of their own.

Ids are derived from the order, so the same file gives the same records. A file without times starts at a
fixed time with 30 s between calls. If only some times are missing, they continue from the last known one
(RP-2).
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.history.edits import Compacted, Edit, KeptSegment
from everturn.history.messages import is_blank
from everturn.history.records import Record, RecordKind, ReplyMeta, Usage
from everturn.history.threads import Thread
from everturn.replay.readers.values import Json
from everturn.wire.json_values import is_list, is_object

START: Final = datetime(2025, 1, 1, tzinfo=UTC)
GAP: Final = timedelta(seconds=30)
NO_TIMES: Final = f"the file has no times: {GAP.total_seconds():.0f} s between calls assumed"


class ReplyDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Details of a reply besides its content."""

    model: str = ""
    id: str = ""
    usage: Usage | None = None
    stop_reason: str = ""


class RecordBuilder:
    """Builds one conversation. Blank texts and empty messages are left out."""

    def __init__(self, session: str = "", agent: str = "") -> None:
        self._session = session
        self._agent = agent
        self._records: list[Record] = []
        self._now: datetime | None = None
        self._times = 0
        self._replies = 0
        # Recorded ids and ours: an id that appears again is a different call.
        self._calls: dict[str, str] = {}
        self._issued: set[str] = set()
        self._open: set[str] = set()

    @property
    def thread(self) -> Thread:
        return Thread(self._agent, tuple(self._records))

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self._times else (NO_TIMES,)

    @property
    def last(self) -> str:
        """The uuid of the newest record."""
        return self._records[-1].uuid if self._records else ""

    def user(self, words: str | Iterable[Block], at: str | float | None = None) -> None:
        self._write("user", _blocks(words), at)

    def assistant(
        self, words: str | Iterable[Block], said: ReplyDetails, at: str | float | None = None
    ) -> None:
        """Adds one whole reply. `result` answers its calls."""
        self._replies += 1
        blocks = tuple(self._called(block) if block.is_call else block for block in _blocks(words))
        reply = ReplyMeta(
            message_id=said.id or f"reply-{self._replies}",
            model=said.model,
            stop_reason=said.stop_reason,
            usage=said.usage,
        )
        self._write("assistant", blocks, at, reply=reply)

    def result(self, call: str, content: Any, at: str | float | None = None, *, failed: Any = None) -> None:
        """Adds the result of a call; if no such call is open, it becomes a user message."""
        id = self._calls.get(call, "")
        if id not in self._open:
            text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            self.user(text, at)
            return
        self._open.discard(id)
        fields: Json = {"type": "tool_result", "tool_use_id": id, "content": content}
        if failed:
            fields["is_error"] = True
        self._write("user", (block_from_fields(fields),), at)

    def compaction(
        self, summary: str, at: str | float | None = None, *, tokens: int = 0, kept: str = ""
    ) -> None:
        """The summary replaces everything before it, except the records from `kept` on."""
        # The boundary is the next record; kept records are shown after the summary that follows it.
        segment = KeptSegment(kept, self._uuid(ahead=2), self.last) if kept else None
        edit = Compacted(tokens_before=tokens, logical_parent=self.last, kept=segment)
        self._write("system", (), at, edit=edit, subtype="compact_boundary")
        self._write("user", (text_block(summary),), at, compact_summary=True, transcript_only=True)

    def _uuid(self, *, ahead: int = 1) -> str:
        """The uuid of the next record, or of one further ahead."""
        named = (name for name in (self._session, self._agent) if name)
        return "/".join((*named, str(len(self._records) + ahead)))

    def _called(self, block: Block) -> Block:
        recorded = block.call or f"call-{len(self._issued) + 1}"
        id, again = recorded, 1
        while id in self._issued:
            again += 1
            id = f"{recorded}-{again}"
        self._calls[recorded] = id
        self._issued.add(id)
        self._open.add(id)
        if id == block.call:
            return block
        fields: Json = {**msgspec.json.decode(block.raw), "id": id}
        return block_from_fields(fields)

    def _write(
        self,
        kind: RecordKind,
        blocks: tuple[Block, ...],
        at: str | float | None,
        *,
        reply: ReplyMeta | None = None,
        edit: Edit | None = None,
        **marks: Any,
    ) -> None:
        shown = tuple(block for block in blocks if not is_blank(block))
        if not shown and edit is None:
            return
        record = Record(
            kind=kind,
            uuid=self._uuid(),
            parent="" if edit is not None else self.last,
            timestamp=self._time(at),
            session=self._session,
            agent=self._agent,
            blocks=shown,
            reply=reply,
            edit=edit,
            **marks,
        )
        self._records.append(record)

    def _time(self, at: str | float | None) -> str:
        moment = parse_time(at)
        if moment is not None:
            self._times += 1
        self._now = moment or (self._now + GAP if self._now else START)
        return self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(at: Any) -> datetime | None:
    """A recorded time: ISO text, or seconds or milliseconds since 1970; None for anything else."""
    try:
        if isinstance(at, str):
            moment = datetime.fromisoformat(at)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if isinstance(at, (int, float)) and not isinstance(at, bool):
            # Values above 1e11 are milliseconds: as seconds they would be after the year 5000.
            return datetime.fromtimestamp(at / 1000 if at > 1e11 else at, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _blocks(words: str | Iterable[Block]) -> tuple[Block, ...]:
    return (text_block(words),) if isinstance(words, str) else tuple(words)


def call_block(id: str, name: str, given: Any) -> Block:
    """A tool call. Arguments in a JSON string are decoded; invalid JSON is kept as it is."""
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError:
            given = {"input": given}
    fields = given if is_object(given) else {"input": given}
    return block_from_fields({"type": "tool_use", "id": id, "name": name or "unknown", "input": fields})


def usage_from_counts(*, prompt: Any, read: Any = 0, written: Any = 0, output: Any = 0) -> Usage | None:
    """Usage from a prompt count that includes cache reads and writes; None if nothing was counted."""
    total, hit, new, said = (_count(each) for each in (prompt, read, written, output))
    if not total:
        return None
    # Some providers' counts leave out the cached part; it must not be subtracted then.
    plain = total - hit - new if total >= hit + new else total
    return Usage(plain, new, hit, said)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0


def recorded_cost(*amounts: Any) -> Decimal | None:
    """The sum of recorded dollars; None if nothing was recorded, or only zero."""
    known = [Decimal(str(each)) for each in amounts if isinstance(each, (int, float)) and each > 0]
    return sum(known, Decimal(0)) if known else None


def text_of_parts(content: Any) -> str:
    """Text given as a string, as a list of parts with text, or missing."""
    if isinstance(content, str):
        return content
    if is_list(content):
        return "\n".join(text_of_parts(part) for part in content)
    if is_object(content):
        text = content.get("text")
        return text if isinstance(text, str) else ""
    return ""


def texts(value: Any) -> str:
    """A field that should be a string; empty if it is something else."""
    return value if isinstance(value, str) else ""
