"""Codex's log of its terminal: output and key presses.

The messages of the model are complete; those of the user are reconstructed from key presses.
"""

import re
from collections.abc import Iterator
from typing import Final

from everturn.replay.readers.record_builder import RecordBuilder, ReplyDetails, texts
from everturn.replay.readers.values import Json, Reader, RecordedConversation, SourceFile
from everturn.wire.json_values import is_object

_KEY: Final = re.compile(
    r"code: (?:Char\('(?P<char>.|\\.)'\)|(?P<name>\w+)), .*?kind: (?P<kind>\w+)", re.DOTALL
)


def _recognises(source: SourceFile) -> bool:
    return any(each.get("dir") == "to_tui" and "kind" in each for each in source.lines[:100])


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    book, model = RecordBuilder(), ""
    typed, sent = "", ""
    for line in source.lines:
        if line.get("kind") == "key_event":
            typed = _typed(typed, texts(line.get("event")))
            if typed.endswith("\n"):
                typed, sent = "", typed.strip() or sent
            continue
        model = texts(line.get("model")) or model
        event = _event(line)
        if event.get("type") == "task_started":
            book.user(sent, line.get("ts"))
            sent = ""
        elif event.get("type") == "agent_message":
            book.assistant(texts(event.get("message")), ReplyDetails(model=model), line.get("ts"))
    note = "user messages are reconstructed from key presses"
    yield RecordedConversation((book.thread,), "", (note, *book.notes))


def _event(line: Json) -> Json:
    payload = line.get("payload") if line.get("kind") == "codex_event" else None
    event = payload.get("msg") if is_object(payload) else None
    return event if is_object(event) else {}


def _typed(before: str, event: str) -> str:
    key = _KEY.search(event)
    if key is None or key["kind"] == "Release":
        return before
    if key["char"]:
        return before + key["char"][-1]
    return {"Enter": before + "\n", "Backspace": before[:-1]}.get(key["name"], before)


CODEX_TERMINAL: Final = Reader("codex-terminal", _recognises, _conversations)
