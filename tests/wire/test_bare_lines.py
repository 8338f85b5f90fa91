"""Lines with next to nothing on them, as other writers and later versions may write them."""

import json
import sys
from typing import Any

import pytest

from everturn.history.blocks import Block
from everturn.history.edits import Cleared, Compacted
from everturn.history.records import Record, ReplyMeta
from everturn.wire.anthropic import read_response
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.queued_messages import QueuedMessage, read_queue

BARE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "user"}, {}),
    ({"type": "user", "message": {}}, {}),
    ({"type": "assistant", "message": {}}, {"reply": ReplyMeta("", "")}),
    ({"type": "system"}, {}),
    (
        {"type": "system", "subtype": "compact_boundary", "compactMetadata": {}},
        {"subtype": "compact_boundary", "edit": Compacted(trigger="auto")},
    ),
    (
        {"type": "system", "subtype": "microcompact_boundary", "microcompactMetadata": {}},
        {"subtype": "microcompact_boundary", "edit": Cleared((), "auto micro-compaction")},
    ),
    ({"type": "system", "subtype": "microcompact_boundary"}, {"subtype": "microcompact_boundary"}),
    ({"type": "system", "subtype": "other", "microcompactMetadata": {}}, {"subtype": "other"}),
    ({"type": "attachment", "attachment": {}}, {"blocks": (Block("attachment", b"{}"),)}),
]


@pytest.mark.parametrize(("line", "more"), BARE, ids=lambda value: json.dumps(value, default=str)[:60])
def test_a_field_that_is_not_there_has_its_default(line: dict[str, Any], more: dict[str, Any]):
    raw = json.dumps({**line, "uuid": "x"}, separators=(",", ":")).encode()
    transcript = parse_session_file(raw)
    assert transcript.flaws == ()
    assert transcript.records == (Record(kind=line["type"], uuid="x", unlinked=True, raw=raw, **more),)


def test_an_operation_on_the_queue_without_words_is_an_empty_message():
    line = b'{"type":"queue-operation","operation":"enqueue"}'
    assert read_queue(parse_session_file(line).lines) == (QueuedMessage("", "waiting"),)


def test_a_reply_that_names_deletions_outside_of_its_usage_reports_none():
    body = b'{"id":"m","cache_deleted_input_tokens":7,"content":[]}'
    assert read_response(body).reply == ReplyMeta("m", "")


def test_a_file_is_read_where_hardly_any_calls_are_left():
    line = b'{"type":"user","uuid":"x"}'

    def at_depth(calls: int) -> tuple[Record, ...]:
        return at_depth(calls - 1) if calls else parse_session_file(line).records

    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1
    left = sys.getrecursionlimit() - used
    assert at_depth(left - 100) == parse_session_file(line).records
