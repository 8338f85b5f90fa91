"""Small records for tests, each read from a real line, so that whoever builds one also reads one.

A record's uuid is what it is called in a test; where none is given, its words are its name.
"""

import json
from collections.abc import Iterable
from typing import Any

from everturn.history.edits import Edit
from everturn.history.log import Log, View
from everturn.history.records import Record
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import encode_record

Fields = dict[str, Any]


def line(fields: Fields) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def record(fields: Fields) -> Record:
    """The one record of a line that is spelled like this."""
    transcript = parse_session_file(line(fields))
    assert transcript.flaws == ()
    (found,) = transcript.records
    return found


def _envelope(kind: str, uuid: str, parent: str, more: Fields) -> Fields:
    return {"parentUuid": parent or None, "isSidechain": False, "type": kind, "uuid": uuid, **more}


def say(text: str) -> Fields:
    return {"type": "text", "text": text}


def think(text: str) -> Fields:
    return {"type": "thinking", "thinking": text, "signature": f"signed {text}"}


def call(name: str, tool: str = "Read", **inputs: Any) -> Fields:
    return {"type": "tool_use", "id": name, "name": tool, "input": inputs}


def answer(name: str, text: Any = "done", **more: Any) -> Fields:
    return {"type": "tool_result", "tool_use_id": name, "content": text, **more}


def user(content: str | list[Fields], *, uuid: str = "", parent: str = "", **more: Any) -> Record:
    message = {"role": "user", "content": content}
    name = uuid or (content if isinstance(content, str) else f"user {json.dumps(content)}")
    return record(_envelope("user", name, parent, {"message": message, **more}))


def assistant(
    *blocks: str | Fields, id: str = "m1", uuid: str = "", parent: str = "", usage: Any = None, **more: Any
) -> Record:
    content = [say(block) if isinstance(block, str) else block for block in blocks]
    message = {
        "id": id,
        "model": more.pop("model", "claude-opus-4-6"),
        "role": "assistant",
        "type": "message",
        "content": content,
        "stop_reason": more.pop("stop", None),
        "usage": usage,
    }
    name = uuid or f"{id} {json.dumps(content)}"
    return record(_envelope("assistant", name, parent, {"message": message, **more}))


def result(name: str, text: Any = "done", *, uuid: str = "", parent: str = "", **more: Any) -> Record:
    return user([answer(name, text)], uuid=uuid or f"result {name} {text}", parent=parent, **more)


def attachment(content: Any, *, uuid: str = "", parent: str = "", **more: Any) -> Record:
    payload = {"type": "hook_additional_context", "content": content}
    name = uuid or f"attached {content}"
    return record(_envelope("attachment", name, parent, {"attachment": payload, **more}))


def progress(uuid: str = "progress", parent: str = "") -> Record:
    data = {"type": "bash_progress", "output": "12 %"}
    return record(_envelope("progress", uuid, parent, {"data": data, "toolUseID": "c1"}))


def system(subtype: str = "turn_duration", *, uuid: str = "", parent: str = "", **more: Any) -> Record:
    fields = {"subtype": subtype, "content": "", "level": "info", **more}
    return record(_envelope("system", uuid or subtype, parent, fields))


def boundary(
    uuid: str = "b",
    *,
    parent: str = "",
    logical: str = "",
    kept: tuple[str, str, str] | None = None,
    **metadata: Any,
) -> Record:
    facts: Fields = {"trigger": "auto", "preTokens": 155_000, **metadata}
    if kept:
        facts["preservedSegment"] = dict(zip(("headUuid", "anchorUuid", "tailUuid"), kept, strict=True))
    more = {"content": "Conversation compacted", "compactMetadata": facts}
    if logical:
        more["logicalParentUuid"] = logical
    return system("compact_boundary", uuid=uuid, parent=parent, **more)


def summary(text: str = "In short.", *, uuid: str = "s", parent: str = "b") -> Record:
    flags = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
    return user(text, uuid=uuid, parent=parent, **flags)


def edited(edit: Edit, uuid: str, parent: str = "") -> Record:
    """A record of an edit, through the line that we ourselves would write for it."""
    (found,) = parse_session_file(
        encode_record(Record(kind="system", uuid=uuid, parent=parent, edit=edit))
    ).records
    return found


def compute_view(records: Iterable[Record]) -> View:
    """What the model can still see of these records."""
    return Log(records).view
