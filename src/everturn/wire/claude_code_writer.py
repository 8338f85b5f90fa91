"""Writes Claude Code's session JSONL: one line for one new record (TR-6).

Field names and shapes are the same, so tools made for its files can open ours. Edits without an equivalent
are system lines with a subtype that other readers skip, and one extra field.
"""

from typing import Any

import msgspec

from everturn.history.edits import Cleared, Compacted, KeptSegment
from everturn.history.records import Record

BOUNDARY_TEXT = "Conversation compacted"
CLEARED_TEXT = "Context microcompacted"

_encode = msgspec.json.Encoder().encode


class LineContext(msgspec.Struct, frozen=True):
    """The session data that every line repeats."""

    cwd: str = ""
    version: str = ""
    git_branch: str = ""


def encode_record(record: Record, place: LineContext | None = None) -> bytes:
    """The line for a record that was made here. A record that was read keeps its original bytes."""
    if record.raw:
        return record.raw
    fields = _envelope(record, place or LineContext())
    if record.kind == "system":
        fields |= _system(record)
    elif record.kind == "attachment":
        fields["attachment"] = msgspec.Raw(record.blocks[0].raw)
    else:
        fields |= _message(record)
    _add_flags(record, fields)
    fields["uuid"], fields["timestamp"] = record.uuid, record.timestamp
    return _encode(fields)


def _envelope(record: Record, place: LineContext) -> dict[str, Any]:
    fields: dict[str, Any] = {"parentUuid": record.parent or None}
    if isinstance(record.edit, Compacted) and record.edit.logical_parent:
        fields["logicalParentUuid"] = record.edit.logical_parent
    fields["isSidechain"] = record.sidechain
    fields["userType"] = "external"
    fields["cwd"] = place.cwd
    fields["sessionId"] = record.session
    fields["version"] = place.version
    fields["gitBranch"] = place.git_branch
    if record.agent:
        fields["agentId"] = record.agent
    fields["type"] = record.kind
    return fields


def _message(record: Record) -> dict[str, Any]:
    content = [msgspec.Raw(block.raw) for block in record.blocks]
    fields: dict[str, Any] = {"message": {"role": record.kind, "content": content}}
    if record.permission_mode:
        fields["permissionMode"] = record.permission_mode
    if record.reply is not None:
        reply = record.reply
        fields["message"] = {
            "model": reply.model,
            "id": reply.message_id,
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": reply.stop_reason or None,
            "stop_sequence": None,
            "usage": reply.usage,
        }
        fields |= {"requestId": reply.request_id} if reply.request_id else {}
    return fields


def _add_flags(record: Record, fields: dict[str, Any]) -> None:
    if record.meta:
        fields["isMeta"] = True
    if record.compact_summary:
        fields["isCompactSummary"] = True
    if record.transcript_only:
        fields["isVisibleInTranscriptOnly"] = True
    if record.display_only:
        fields["isVirtual"] = True
    if record.api_error:
        fields["isApiErrorMessage"] = True


def _system(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {"isMeta": record.meta, "level": "info"}
    match record.edit:
        case Compacted() as edit:
            own = {"subtype": "compact_boundary", "content": BOUNDARY_TEXT, "compactMetadata": _compact(edit)}
        case Cleared() as edit:
            own = {
                "subtype": "microcompact_boundary",
                "content": CLEARED_TEXT,
                "microcompactMetadata": _micro(edit),
            }
        case None:
            own = {"subtype": record.subtype}
        case edit:
            own = {"subtype": f"everturn_{type(edit).__name__.lower()}", "everturn": edit}
    return fields | own


def _compact(edit: Compacted) -> dict[str, Any]:
    fields: dict[str, Any] = {"trigger": edit.trigger, "preTokens": edit.tokens_before}
    optional = {
        "messagesSummarized": edit.messages_summarized,
        "userContext": edit.user_context,
        "preCompactDiscoveredTools": edit.discovered_tools,
        "preservedSegment": _segment(edit.kept) if edit.kept else None,
        "preservedTokens": edit.tokens_kept,
    }
    return fields | {name: value for name, value in optional.items() if value}


def _segment(kept: KeptSegment) -> dict[str, str]:
    return {"headUuid": kept.head, "anchorUuid": kept.anchor, "tailUuid": kept.tail}


def _micro(edit: Cleared) -> dict[str, Any]:
    return {
        "trigger": "auto",
        "preTokens": edit.tokens_before,
        "tokensSaved": edit.tokens_saved,
        "compactedToolIds": edit.calls,
        "clearedAttachmentUUIDs": [],
        "reason": edit.why,
    }
