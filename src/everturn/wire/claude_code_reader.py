"""Reads Claude Code's session JSONL: lines in, records out, no byte changed (TR-6).

A file is a list of lines. Each line keeps its bytes; joining them gives the file again. Next to the bytes are
the records found in the line: one in most lines, none in bookkeeping lines (`file-history-snapshot`,
`summary`, ...), two where a torn write joined them. Lines that cannot be read as they are get repaired in
`wire/line_repair.py` and reported as a `LineProblem`; nothing is dropped.

New records are written by `wire/claude_code_writer.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, cast

import msgspec

from everturn.history.blocks import Block, block_from_json, text_block, text_block_from_json_string
from everturn.history.edits import (
    CacheDeleted,
    CacheDeletionsEnded,
    Cleared,
    Compacted,
    Edit,
    KeptSegment,
    Offloaded,
    Pinned,
    Rewound,
    ServerCleared,
    ThinkingDropped,
    ToldAsText,
    Trimmed,
    Undone,
)
from everturn.history.records import KINDS, Record, RecordKind, ReplyMeta, Usage
from everturn.wire.fitting import decode_lenient
from everturn.wire.line_repair import LineProblem, is_json, repair_line, too_deep

CAMEL = {
    "parent": "parentUuid",
    "logical_parent": "logicalParentUuid",
    "session": "sessionId",
    "agent": "agentId",
    "sidechain": "isSidechain",
    "meta": "isMeta",
    "compact_summary": "isCompactSummary",
    "transcript_only": "isVisibleInTranscriptOnly",
    "display_only": "isVirtual",
    "api_error": "isApiErrorMessage",
    "permission_mode": "permissionMode",
    "request_id": "requestId",
    "compact": "compactMetadata",
    "microcompact": "microcompactMetadata",
}


class _Message(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    content: msgspec.Raw = msgspec.Raw(b"null")


class _Segment(msgspec.Struct, rename={"head": "headUuid", "anchor": "anchorUuid", "tail": "tailUuid"}):
    head: str
    anchor: str
    tail: str


class _Compact(msgspec.Struct, rename="camel"):
    trigger: str = "auto"
    pre_tokens: int = 0
    messages_summarized: int = 0
    user_context: str = ""
    pre_compact_discovered_tools: list[str] = msgspec.field(default_factory=lambda: list[str]())
    preserved_segment: _Segment | None = None
    # Written by everturn only.
    preserved_tokens: int = 0


class _Microcompact(msgspec.Struct, rename="camel"):
    trigger: str = "auto"
    pre_tokens: int = 0
    tokens_saved: int = 0
    compacted_tool_ids: list[str] = msgspec.field(default_factory=lambda: list[str]())
    reason: str | None = None


class _Attachment(msgspec.Struct):
    type: object = ""


# Edits that have no equivalent in Claude Code: system lines with one extra field.
_OwnEdit = (
    Undone
    | Pinned
    | Offloaded
    | ThinkingDropped
    | ToldAsText
    | CacheDeleted
    | CacheDeletionsEnded
    | ServerCleared
    | Rewound
    | Trimmed
)


class _Line(msgspec.Struct, rename=CAMEL, gc=False):
    """The fields of a line that we read; all others are skipped without parsing."""

    type: str = ""
    uuid: str | None = None
    parent: str | msgspec.UnsetType | None = msgspec.UNSET
    logical_parent: str | None = None
    timestamp: str | None = None
    session: str | None = None
    agent: str | None = None
    sidechain: bool | None = None
    meta: bool | None = None
    compact_summary: bool | None = None
    transcript_only: bool | None = None
    display_only: bool | None = None
    api_error: bool | None = None
    subtype: str | None = None
    permission_mode: str | None = None
    request_id: str | None = None
    message: _Message | None = None
    attachment: msgspec.Raw = msgspec.Raw(b"null")
    compact: _Compact | None = None
    microcompact: _Microcompact | None = None
    everturn: _OwnEdit | None = None


class TranscriptLine(msgspec.Struct, frozen=True, gc=False):
    """One line of the file without its newline, and the records found in it."""

    raw: bytes
    records: tuple[Record, ...] = ()
    # The type of a line that is not a record: "summary", "queue-operation", ...; "" if unknown.
    type: str = ""


class Transcript(msgspec.Struct, frozen=True):
    """A session file: every line as it was read, and the problems found."""

    lines: tuple[TranscriptLine, ...]
    flaws: tuple[LineProblem, ...] = ()
    # The state of the checksum at its end, if it was checked (`wire/line_sums.py`).
    end_sum: int = 0

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for line in self.lines for record in line.records)

    def to_bytes(self) -> bytes:
        return b"\n".join(line.raw for line in self.lines)


_read_line = msgspec.json.Decoder(_Line).decode
_read_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_attachment = msgspec.json.Decoder(_Attachment).decode


# Python counts the nesting of a value together with the calls above its reader. A value that was read this
# many calls deeper can be read again, later and elsewhere, without reaching the recursion limit (F57).
HEADROOM = 200


def parse_session_file(data: bytes) -> Transcript:
    """Read a whole file. Never fails: a line that is not JSON is kept without records, and reported."""
    try:
        return _further_down(HEADROOM, data)
    except RecursionError:
        return _read(data)


def _further_down(calls: int, data: bytes) -> Transcript:
    return _further_down(calls - 1, data) if calls else _read(data)


def _read(data: bytes) -> Transcript:
    raws = data.split(b"\n")
    lines: list[TranscriptLine] = []
    flaws: list[LineProblem] = []
    for number, raw in enumerate(raws, start=1):
        # Most lines are ASCII, which is quick to check; only the others must be decoded to validate them.
        line = _plain(raw) if raw.isascii() or _is_utf8(raw) else None
        if line is None:
            mended = repair_line(raw, number, is_last=number == len(raws))
            flaws.extend(mended.flaws)
            line = _line_of(raw, mended.objects, number, flaws)
        if line.type in KINDS and not line.records:
            flaws.append(
                LineProblem(number, "shape", f"a line of type {line.type} without a uuid; kept, not read")
            )
        lines.append(line)
    return Transcript(tuple(lines), tuple(flaws))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _plain(raw: bytes) -> TranscriptLine | None:
    """A line without problems; None if it needs repair."""
    if not raw or raw.isspace():
        return TranscriptLine(raw)
    try:
        seen = _read_line(raw)
        record = _record(seen, raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return TranscriptLine(raw, (record,) if record else (), seen.type)


def _line_of(raw: bytes, objects: Iterable[bytes], number: int, flaws: list[LineProblem]) -> TranscriptLine:
    records: list[Record] = []
    kind = ""
    for readable in objects:
        try:
            seen, record, odd = _read_object(readable)
        except RecursionError:
            flaws.append(too_deep(number))
            continue
        except msgspec.DecodeError as error:
            flaws.append(LineProblem(number, "not_json", f"{error}; kept, not read"))
            continue
        if odd:
            flaws.append(LineProblem(number, "shape", odd))
        kind = seen.type
        if record:
            records.append(record)
    return TranscriptLine(raw, tuple(records), kind)


def _read_object(readable: bytes) -> tuple[_Line, Record | None, str]:
    """With what does not fit; raises `msgspec.DecodeError` if it is not JSON."""
    try:
        seen = _read_line(readable)
        return seen, _record(seen, readable), ""
    except msgspec.ValidationError as error:
        # That stops at the first field that does not fit: what comes behind it may not be JSON either.
        seen = _made_to_fit(readable)
        return seen, _record(seen, readable), f"a field has an unexpected type: {error}"


def _made_to_fit(readable: bytes) -> _Line:
    """A line whose known fields have unknown shapes. Content that is not a block is shown as text."""
    seen = decode_lenient(readable, _Line)
    content = bytes(seen.message.content) if seen.message else b"null"
    if seen.message and content.startswith((b"[", b"{")):
        parts = _read_parts(content) if content.startswith(b"[") else [content]
        blocks = b",".join(_as_block(bytes(part)) for part in parts)
        seen.message.content = msgspec.Raw(b"[" + blocks + b"]")
    if seen.type == "attachment" and not bytes(seen.attachment).startswith(b"{"):
        payload = bytes(seen.attachment)
        seen.attachment = msgspec.Raw(b'{"content":' + (b'""' if payload == b"null" else payload) + b"}")
    return seen


def _as_block(raw: bytes) -> bytes:
    try:
        return _block(raw).raw
    except msgspec.ValidationError:
        return text_block(raw.decode()).raw


def _record(seen: _Line, raw: bytes) -> Record | None:
    if seen.type not in KINDS or not seen.uuid:
        return None
    subtype, blocks, reply = _content(seen)
    return Record(
        kind=cast(RecordKind, seen.type),
        uuid=seen.uuid,
        parent=seen.parent or "",
        unlinked=seen.parent is msgspec.UNSET,
        timestamp=seen.timestamp or "",
        session=seen.session or "",
        agent=seen.agent or "",
        sidechain=bool(seen.sidechain),
        meta=bool(seen.meta),
        compact_summary=bool(seen.compact_summary),
        transcript_only=bool(seen.transcript_only),
        display_only=bool(seen.display_only),
        api_error=bool(seen.api_error),
        subtype=subtype,
        permission_mode=seen.permission_mode or "",
        blocks=blocks,
        reply=reply,
        edit=_edit(seen) if seen.type == "system" else None,
        raw=raw,
    )


def _content(seen: _Line) -> tuple[str, tuple[Block, ...], ReplyMeta | None]:
    if seen.type == "attachment":
        payload = bytes(seen.attachment)
        kind = _read_attachment(payload).type
        return kind if isinstance(kind, str) else "", (Block("attachment", payload),), None
    message = seen.message
    if message is None or seen.type not in ("user", "assistant"):
        return seen.subtype or "", (), None
    blocks = blocks_from_content(message.content)
    if seen.type == "user":
        return seen.subtype or "", blocks, None
    reply = ReplyMeta(
        message_id=message.id or "",
        model=message.model or "",
        stop_reason=message.stop_reason or "",
        usage=message.usage,
        request_id=seen.request_id or "",
    )
    return seen.subtype or "", blocks, reply


def blocks_from_content(content: msgspec.Raw | bytes) -> tuple[Block, ...]:
    """The blocks of a message's `content`: a string, a list of blocks, or nothing."""
    raw = bytes(content)
    if raw.startswith(b'"'):
        return (text_block_from_json_string(raw),)
    if raw.startswith(b"{"):
        return (_block(raw),)
    if not raw.startswith(b"["):
        return ()
    return tuple(_block(bytes(part)) for part in _read_parts(raw))


def _block(raw: bytes) -> Block:
    return text_block_from_json_string(raw) if raw.startswith(b'"') else block_from_json(raw)


def _edit(seen: _Line) -> Edit | None:
    if seen.subtype == "compact_boundary":
        return _compacted(seen.compact or _Compact(), seen.logical_parent or "")
    if seen.microcompact is not None and seen.subtype == "microcompact_boundary":
        made = seen.microcompact
        return Cleared(
            calls=tuple(made.compacted_tool_ids),
            why=f"{made.trigger} micro-compaction" if made.reason is None else made.reason,
            tokens_before=made.pre_tokens,
            tokens_saved=made.tokens_saved,
        )
    return seen.everturn


def _compacted(made: _Compact, logical_parent: str) -> Compacted:
    kept = made.preserved_segment
    return Compacted(
        trigger="manual" if made.trigger == "manual" else "auto",
        tokens_before=made.pre_tokens,
        messages_summarized=made.messages_summarized,
        user_context=made.user_context,
        logical_parent=logical_parent,
        discovered_tools=tuple(made.pre_compact_discovered_tools),
        kept=KeptSegment(kept.head, kept.anchor, kept.tail) if kept else None,
        tokens_kept=max(0, made.preserved_tokens),
    )


def looks_like_a_session(lines: Sequence[TranscriptLine]) -> bool:
    """Whether at least one line has a type that Claude Code writes, or the first writes were cut short."""
    if any(line.records or line.type in BOOKKEEPING for line in lines):
        return True
    filled = [line.raw for line in lines if line.raw.strip()]
    begin = b'{"' if len(filled) == 1 else _BEGIN
    return bool(filled) and all(
        raw.startswith(begin[: len(raw)]) and raw.startswith(b'{"') and not is_json(raw) for raw in filled
    )


# How a line of ours begins. Several lines that were cut off must all begin so.
_BEGIN: Final = b'{"parentUuid":'

# Types of lines that are not records: nothing in them is sent to the model (FORMATS: line types).
BOOKKEEPING = frozenset(
    {"file-history-snapshot", "queue-operation", "summary", "permission-mode", "last-prompt", "pr-link"}
)
