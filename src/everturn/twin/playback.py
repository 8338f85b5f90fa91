"""A recorded session spoken again: the assistant's replies in their order, one per request (TW-8).

Each workspace hears the recording from its beginning; when it is over, the next speaker answers. The
session file itself is read elsewhere (`wire/claude_code_reader.py`); here its records become replies.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from everturn.history.blocks import fields_of
from everturn.history.records import Record
from everturn.twin.values import ModelOutput

# What a reply may contain that another twin can say again. Server-tool blocks and redacted thinking are tied
# to the service that made them.
_REPEATABLE: Final = frozenset({"text", "thinking", "tool_use"})


class Playback:
    def __init__(self, replies: Iterable[ModelOutput] = ()) -> None:
        self._replies = tuple(replies)
        self.reset()

    def reset(self) -> None:
        self._next: dict[str, int] = {}

    def next(self, workspace: str) -> ModelOutput | None:
        position = self._next.get(workspace, 0)
        if position >= len(self._replies):
            return None
        self._next[workspace] = position + 1
        return self._replies[position]


def extract_replies(records: Iterable[Record]) -> list[ModelOutput]:
    """The replies of a recorded session. A reply is spread over the records that share its message id.

    Beside a main conversation its subagents are left out; a subagent's own file is played as it is.
    """
    by_anyone = [record for record in records if _is_spoken(record)]
    spoken = [record for record in by_anyone if not record.sidechain] or by_anyone
    replies = [
        _said(list(group))
        for _, group in groupby(spoken, key=lambda record: record.message_id or record.uuid)
    ]
    return [said for said in replies if said.content]


def _is_spoken(record: Record) -> bool:
    if record.kind != "assistant" or record.api_error:
        return False
    return record.reply is None or not record.reply.is_synthetic


def _said(pieces: list[Record]) -> ModelOutput:
    blocks = [block for piece in pieces for block in piece.blocks if block.kind in _REPEATABLE]
    fields = (fields_of(block) for block in blocks)
    content = tuple(_unsigned(block) for block in fields if block.get("text") != "")
    reasons = [piece.reply.stop_reason for piece in pieces if piece.reply and piece.reply.stop_reason]
    calls = any(block["type"] == "tool_use" for block in content)
    # Older recordings leave the reason out. Their output counts stem from the first event: we count anew.
    return ModelOutput(content, reasons[-1] if reasons else ("tool_use" if calls else "end_turn"))


def _unsigned(block: dict[str, Any]) -> dict[str, Any]:
    """Thinking is signed anew: the recorded signature belongs to another service."""
    return {key: value for key, value in block.items() if key != "signature"}
