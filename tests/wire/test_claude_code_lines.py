"""Lines that we write: what was meant is what is read, and a line that was read is written as it came."""

import json
from typing import get_args

import builders as b
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.history.blocks import block_from_fields, result_block, text_block
from everturn.history.edits import Cleared, Compacted, Edit, KeptSegment, Pinned, Undone
from everturn.history.records import CacheCreation, Record, ReplyMeta, Usage
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import BOUNDARY_TEXT, LineContext, encode_record

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
counts = st.integers(0, 10**7)
blocks = st.one_of(
    words.map(text_block),
    st.builds(result_block, words, words),
    st.builds(lambda text: block_from_fields({"type": "invented", "odd": {"b": text, "a": 1}}), words),
)
usages = st.none() | st.builds(
    Usage, counts, counts, counts, counts, st.none() | st.builds(CacheCreation, counts, counts)
)
edits = st.one_of(
    st.none(),
    st.builds(
        Compacted,
        st.sampled_from(["auto", "manual"]),
        counts,
        counts,
        words,
        words,
        st.lists(words, max_size=3).map(tuple),
        st.none() | st.builds(KeptSegment, words, words, words),
    ),
    st.builds(Cleared, st.lists(words, max_size=3).map(tuple), words, counts, counts),
    *(st.from_type(kind) for kind in get_args(Edit) if kind not in (Compacted, Cleared)),
)


def subtype_of(edit: Edit | None) -> str:
    line = json.loads(encode_record(Record(kind="system", uuid="x", edit=edit)))
    return line["subtype"]


@st.composite
def new_records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(["user", "assistant", "system", "attachment"]))
    edit = draw(edits) if kind == "system" else None
    fields = {name: draw(words) for name in ("parent", "timestamp", "session", "agent")}
    flags = ("sidechain", "meta", "compact_summary", "transcript_only", "display_only", "api_error")
    said = tuple(draw(st.lists(blocks, max_size=3))) if kind in ("user", "assistant") else ()
    subtype = subtype_of(edit) if edit else ""
    if kind == "attachment":
        payload = {"type": "task_reminder", "content": draw(words)}
        said = (msgspec.structs.replace(block_from_fields(payload), kind="attachment"),)
        subtype = "task_reminder"
    replies = st.builds(ReplyMeta, words, words, words, usages, words)
    return Record(
        kind=kind,
        uuid=draw(words.filter(bool)),
        blocks=said,
        reply=draw(replies) if kind == "assistant" else None,
        edit=edit,
        subtype=subtype,
        **fields,
        **{flag: draw(st.booleans()) for flag in flags},
    )


@pytest.mark.spec("TR-1", "TR-4", "TR-6")
@given(new_records())
def test_what_was_written_is_read_as_it_was_meant(record: Record):
    line = encode_record(record, LineContext("/home/ann", "2.1.42", "main"))
    assert b"\n" not in line
    transcript = parse_session_file(line)
    assert transcript.flaws == ()
    assert transcript.records == (msgspec.structs.replace(record, raw=line),)


@pytest.mark.spec("TR-6")
@given(new_records())
def test_a_record_that_was_read_is_written_as_it_came(record: Record):
    (came,) = parse_session_file(b' {"future":1, ' + encode_record(record)[1:]).records
    assert encode_record(came) == came.raw
    assert came.raw.startswith(b' {"future":1, ')


@pytest.mark.spec("TR-4")
def test_a_boundary_is_spelled_with_the_names_of_the_format():
    edit = Compacted("manual", 9, 8, "be brief", "last", ("mcp__x",), KeptSegment("h", "a", "t"), 7)
    line = json.loads(encode_record(Record(kind="system", uuid="b", timestamp="t", session="s", edit=edit)))
    assert line == {
        "parentUuid": None,
        "logicalParentUuid": "last",
        "isSidechain": False,
        "userType": "external",
        "cwd": "",
        "sessionId": "s",
        "version": "",
        "gitBranch": "",
        "type": "system",
        "isMeta": False,
        "level": "info",
        "subtype": "compact_boundary",
        "content": BOUNDARY_TEXT,
        "compactMetadata": {
            "trigger": "manual",
            "preTokens": 9,
            "messagesSummarized": 8,
            "userContext": "be brief",
            "preCompactDiscoveredTools": ["mcp__x"],
            "preservedSegment": {"headUuid": "h", "anchorUuid": "a", "tailUuid": "t"},
            "preservedTokens": 7,
        },
        "uuid": "b",
        "timestamp": "t",
    }
    assert BOUNDARY_TEXT == "Conversation compacted"


def test_a_boundary_without_more_to_say_has_the_two_fields_that_claude_code_writes():
    line = json.loads(encode_record(Record(kind="system", uuid="b", edit=Compacted("auto", 155_000))))
    assert line["compactMetadata"] == {"trigger": "auto", "preTokens": 155_000}


def test_a_user_line_has_the_shape_that_claude_code_writes():
    record = Record(kind="user", uuid="u", parent="p", session="s", blocks=(text_block("hi"),), meta=True)
    line = json.loads(encode_record(record, LineContext("/w", "2.1.42", "main")))
    assert line == {
        "parentUuid": "p",
        "isSidechain": False,
        "userType": "external",
        "cwd": "/w",
        "sessionId": "s",
        "version": "2.1.42",
        "gitBranch": "main",
        "type": "user",
        "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        "isMeta": True,
        "uuid": "u",
        "timestamp": "",
    }


@pytest.mark.parametrize("edit", [Undone("b"), Pinned("the port is 8080")])
def test_edits_of_our_own_are_system_lines_that_other_readers_pass_over(edit: Edit):
    line = json.loads(encode_record(Record(kind="system", uuid="x", edit=edit)))
    assert (line["type"], line["subtype"][:9]) == ("system", "everturn_")


def test_the_permission_mode_of_a_message_is_written_and_read_back():
    said = b.user("x", uuid="u1", permissionMode="plan")
    (again,) = parse_session_file(encode_record(msgspec.structs.replace(said, raw=b""))).records
    assert again.permission_mode == "plan"


def test_what_was_cleared_is_written_as_claude_code_does():
    edit = Cleared(("c1", "c2"), "cold", tokens_before=9, tokens_saved=5)
    line = json.loads(encode_record(Record(kind="system", uuid="e1", edit=edit)))
    assert line["microcompactMetadata"] == {
        "trigger": "auto",
        "preTokens": 9,
        "tokensSaved": 5,
        "compactedToolIds": ["c1", "c2"],
        "clearedAttachmentUUIDs": [],
        "reason": "cold",
    }


def test_a_system_record_without_an_edit_keeps_its_subtype():
    line = json.loads(encode_record(Record(kind="system", uuid="x", subtype="informational")))
    assert line["subtype"] == "informational"


ENVELOPE = {
    "parentUuid": "p",
    "isSidechain": True,
    "userType": "external",
    "cwd": "",
    "sessionId": "s",
    "version": "",
    "gitBranch": "",
    "agentId": "a1",
}
MADE = {"uuid": "x", "parent": "p", "sidechain": True, "session": "s", "agent": "a1", "timestamp": "t"}
END = {"uuid": "x", "timestamp": "t"}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            Record(
                kind="assistant",
                blocks=(text_block("hi"),),
                reply=ReplyMeta("m", "opus", "end_turn", Usage(1, 2, 3, 4), "req"),
                api_error=True,
                **MADE,
            ),
            {
                "type": "assistant",
                "message": {
                    "model": "opus",
                    "id": "m",
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "text", "text": "hi"}],
                    "stop_reason": "end_turn",
                    "stop_sequence": None,
                    "usage": {
                        "input_tokens": 1,
                        "cache_creation_input_tokens": 2,
                        "cache_read_input_tokens": 3,
                        "output_tokens": 4,
                        "cache_creation": None,
                    },
                },
                "requestId": "req",
                "isApiErrorMessage": True,
            },
        ),
        (
            Record(kind="assistant", reply=ReplyMeta("m", "opus"), **MADE),
            {
                "type": "assistant",
                "message": {
                    "model": "opus",
                    "id": "m",
                    "type": "message",
                    "role": "assistant",
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": None,
                },
            },
        ),
        (
            Record(kind="user", compact_summary=True, transcript_only=True, permission_mode="plan", **MADE),
            {
                "type": "user",
                "message": {"role": "user", "content": []},
                "permissionMode": "plan",
                "isCompactSummary": True,
                "isVisibleInTranscriptOnly": True,
            },
        ),
        (
            Record(kind="attachment", blocks=(text_block("hi"),), display_only=True, **MADE),
            {"type": "attachment", "attachment": {"type": "text", "text": "hi"}, "isVirtual": True},
        ),
        (
            Record(kind="system", edit=Pinned("the port", "me"), **MADE),
            {
                "type": "system",
                "isMeta": False,
                "level": "info",
                "subtype": "everturn_pinned",
                "everturn": {"type": "Pinned", "text": "the port", "source": "me"},
            },
        ),
        (
            Record(kind="system", edit=Cleared(("c1",), "cold", 9, 5), meta=True, **MADE),
            {
                "type": "system",
                "isMeta": True,
                "level": "info",
                "subtype": "microcompact_boundary",
                "content": "Context microcompacted",
                "microcompactMetadata": {
                    "trigger": "auto",
                    "preTokens": 9,
                    "tokensSaved": 5,
                    "compactedToolIds": ["c1"],
                    "clearedAttachmentUUIDs": [],
                    "reason": "cold",
                },
            },
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Record) else None,
)
def test_a_line_is_written_field_by_field_in_the_order_of_the_format(record: Record, expected):
    line = json.loads(encode_record(record))
    assert line == {**ENVELOPE, **expected, **END}
    assert list(line) == [*ENVELOPE, *expected, *END]
