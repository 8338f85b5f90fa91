from pathlib import Path

import pytest

from everturn.history.blocks import block_from_fields
from everturn.history.records import Record, ReplyMeta
from everturn.twin.playback import extract_replies
from everturn.twin.values import ModelOutput


def record(*blocks, message_id="m1", stop_reason="", model="claude-opus-5-5", **fields):
    return Record(
        kind=fields.pop("kind", "assistant"),
        uuid=fields.pop("uuid", "u"),
        blocks=tuple(block_from_fields(block) for block in blocks),
        reply=ReplyMeta(message_id=message_id, model=model, stop_reason=stop_reason),
        **fields,
    )


TEXT = {"type": "text", "text": "Hello"}
CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "theirs"}


@pytest.mark.spec("TW-8")
def test_records_with_the_same_message_id_form_one_reply():
    records = [
        record(THOUGHT),
        record(TEXT),
        record(CALL, stop_reason="tool_use"),
        record(TEXT, message_id="m2"),
    ]
    assert extract_replies(records) == [
        ModelOutput(({"type": "thinking", "thinking": "Hm"}, TEXT, CALL), "tool_use"),
        ModelOutput((TEXT,), "end_turn"),
    ]


def test_synthetic_replies_and_errors_are_not_replayed():
    records = [
        record(TEXT, kind="user"),
        record(TEXT, model="<synthetic>"),
        record(TEXT, api_error=True),
        record({"type": "redacted_thinking", "data": "x"}),
        record({"type": "text", "text": ""}),
    ]
    assert extract_replies(records) == []


def test_subagents_are_left_out_of_a_main_conversation_and_played_from_their_own_file():
    aside = record(CALL, sidechain=True, message_id="m2")
    assert extract_replies([record(TEXT), aside]) == [ModelOutput((TEXT,), "end_turn")]
    assert extract_replies([aside]) == [ModelOutput((CALL,), "tool_use")]


@pytest.mark.spec("TW-8")
def test_a_recorded_session_can_be_played():
    from everturn.twin.build import load_recorded_replies

    file = Path(__file__).parent / "recorded_session.jsonl"
    assert [said.stop_reason for said in load_recorded_replies(file)] == ["tool_use", "end_turn"]
