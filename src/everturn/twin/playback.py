"""Replay the assistant replies of a recorded session in order, one per request (TW-8).

Each workspace starts at the beginning of the recording. After its end, the rule-based agent replies.
`wire/claude_code_reader.py` reads the session file; here its records become replies.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from everturn.history.blocks import fields_of
from everturn.history.records import Record
from everturn.twin.values import ModelOutput

# The blocks that can be replayed. Server-tool blocks and redacted thinking are only valid at the service that
# created them.
_REPEATABLE: Final = frozenset({"text", "thinking", "tool_use"})


class Playback:
    """The recorded replies, and how far each workspace has got."""

    def __init__(self, replies: Iterable[ModelOutput] = ()) -> None:
        self._replies = tuple(replies)
        self.reset()

    def reset(self) -> None:
        self._next: dict[str, int] = {}

    def next(self, workspace: str, *, keeps: bool = False) -> ModelOutput | None:
        """The next reply; `keeps` gives the same one again next time."""
        position = self._next.get(workspace, 0)
        if position >= len(self._replies):
            return None
        self._next[workspace] = position if keeps else position + 1
        return self._replies[position]

    def give_back(self, workspace: str) -> None:
        """Give the latest reply of the workspace again next time."""
        self._next[workspace] = max(0, self._next.get(workspace, 0) - 1)


def extract_replies(records: Iterable[Record]) -> list[ModelOutput]:
    """The replies of a recorded session. Records with the same message id form one reply.

    The subagents of a main conversation are left out; a file with only a subagent is replayed.
    """
    replies_of_all = [record for record in records if _is_reply(record)]
    chosen = [record for record in replies_of_all if not record.sidechain] or replies_of_all
    replies = [
        _make_output(list(group))
        for _, group in groupby(chosen, key=lambda record: record.message_id or record.uuid)
    ]
    return [output for output in replies if output.content]


def _is_reply(record: Record) -> bool:
    if record.kind != "assistant" or record.api_error:
        return False
    return record.reply is None or not record.reply.is_synthetic


def _make_output(records: list[Record]) -> ModelOutput:
    blocks = [block for record in records for block in record.blocks if block.kind in _REPEATABLE]
    fields = (fields_of(block) for block in blocks)
    content = tuple(_unsigned(block) for block in fields if block.get("text") != "")
    reasons = [record.reply.stop_reason for record in records if record.reply and record.reply.stop_reason]
    calls = any(block["type"] == "tool_use" for block in content)
    # Older recordings have no stop reason. Their output counts are from the first event and not used.
    return ModelOutput(content, reasons[-1] if reasons else ("tool_use" if calls else "end_turn"))


def _unsigned(block: dict[str, Any]) -> dict[str, Any]:
    """Without the signature, which belongs to another service; the twin signs thinking again."""
    return {key: value for key, value in block.items() if key != "signature"}
