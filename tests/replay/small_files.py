"""Session files written by hand, opened, and told back in few words."""

import json
from pathlib import Path
from typing import Any

from message_rules import find_message_problems

from everturn.history.blocks import fields_of
from everturn.history.threads import Thread
from everturn.replay.calls import iter_calls
from everturn.replay.sessions import ReplaySession, read_session


def said(thread: Thread) -> list[Any]:
    """Who said what: texts as they are, calls and results by their ids."""
    return [(record.kind, [_block(fields_of(block)) for block in record.blocks]) for record in thread.records]


def _block(fields: dict[str, Any]) -> Any:
    match fields["type"]:
        case "tool_use":
            return fields["id"], fields["name"], fields["input"]
        case "tool_result":
            return fields["tool_use_id"], fields["content"]
        case kind:
            return fields.get("text", kind)


def one(tmp_path: Path, value: Any, name: str = "session.json") -> ReplaySession:
    file = tmp_path / name
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    session = read_session(file)
    assert isinstance(session, ReplaySession), session
    for thread in session.threads:
        assert [
            find_message_problems(call.messages)
            for call in iter_calls(thread, "all")
            if find_message_problems(call.messages)
        ] == []
    return session


def lines(values: list[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)
