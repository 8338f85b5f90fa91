"""Reading session files: no byte changes, nothing is lost silently, nothing makes a stack trace."""

import json
import sys
import time

import builders as b
import pytest
from builders import compute_view
from hypothesis import example, given
from hypothesis import strategies as st

from everturn.history.blocks import Block, fields_of, text_block, text_of
from everturn.history.edits import Cleared, Compacted, KeptSegment
from everturn.history.records import CacheCreation, Record, ReplyMeta, Usage
from everturn.view.flatten import flatten
from everturn.wire.claude_code_reader import TranscriptLine, looks_like_a_session, parse_session_file

ENVELOPE = {
    "parentUuid": "p",
    "isSidechain": True,
    "agentId": "a1",
    "sessionId": "s1",
    "timestamp": "2026-11-01T10:00:00.000Z",
}
HELLO = b.line({"type": "user", "uuid": "u1", "message": {"role": "user", "content": "hello"}})
BYE = b.line({"type": "user", "uuid": "u2", "message": {"role": "user", "content": "bye"}})


def kinds(data: bytes) -> list[tuple[int, str]]:
    return [(flaw.line, flaw.kind) for flaw in parse_session_file(data).flaws]


def uuids(data: bytes) -> list[str]:
    return [record.uuid for record in parse_session_file(data).records]


# Whole values.


@pytest.mark.spec("TR-1")
def test_a_user_line_is_read_with_its_envelope_and_flags():
    flags = {"isMeta": True, "isCompactSummary": True, "isVisibleInTranscriptOnly": True, "isVirtual": True}
    message = {"role": "user", "content": "hi"}
    raw = b.line({"type": "user", "uuid": "u", "message": message, **ENVELOPE, **flags, "todos": [1]})
    assert parse_session_file(raw).records == (
        Record(
            kind="user",
            uuid="u",
            parent="p",
            timestamp="2026-11-01T10:00:00.000Z",
            session="s1",
            agent="a1",
            sidechain=True,
            meta=True,
            compact_summary=True,
            transcript_only=True,
            display_only=True,
            blocks=(text_block("hi"),),
            raw=raw,
        ),
    )


@pytest.mark.spec("TR-1")
def test_an_assistant_line_is_read_with_what_the_api_said_about_it():
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15},
        "service_tier": "standard",
    }
    message = {"id": "m", "model": "x", "stop_reason": "end_turn", "usage": usage, "content": [b.say("hi")]}
    raw = b.line({"type": "assistant", "uuid": "a", "requestId": "req_1", "message": message})
    (record,) = parse_session_file(raw).records
    assert record == Record(
        kind="assistant",
        uuid="a",
        unlinked=True,
        blocks=(Block("text", b'{"type":"text","text":"hi"}'),),
        reply=ReplyMeta("m", "x", "end_turn", Usage(3, 20, 100, 7, CacheCreation(5, 15)), "req_1"),
        raw=raw,
    )
    assert record.reply.usage.context == 123


@pytest.mark.spec("TR-1")
def test_an_api_error_is_an_assistant_record_that_says_so():
    record = b.assistant("API Error 529", model="<synthetic>", isApiErrorMessage=True)
    assert (record.api_error, record.reply.is_synthetic) == (True, True)


@pytest.mark.spec("TR-1")
def test_system_attachment_and_progress_lines_are_records_too():
    payload = {"type": "task_reminder", "content": ["a"], "new": {"deep": 1}}
    data = b"\n".join(
        [
            b.line({"type": "system", "uuid": "1", "subtype": "api_error", "error": {"x": 1}}),
            b.line({"type": "attachment", "uuid": "2", "attachment": payload}),
            b.line({"type": "progress", "uuid": "3", "data": {"type": "bash_progress"}}),
        ]
    )
    found = [(each.kind, each.subtype, each.blocks) for each in parse_session_file(data).records]
    assert found == [
        ("system", "api_error", ()),
        ("attachment", "task_reminder", (Block("attachment", b.line(payload)),)),
        ("progress", "", ()),
    ]


@pytest.mark.spec("TR-4")
def test_a_boundary_is_read_with_all_its_metadata():
    record = b.boundary(
        logical="last",
        kept=("h", "a", "t"),
        trigger="manual",
        messagesSummarized=12,
        userContext="keep the names",
        preCompactDiscoveredTools=["mcp__x"],
    )
    assert record.is_boundary
    assert record.edit == Compacted(
        "manual", 155_000, 12, "keep the names", "last", ("mcp__x",), KeptSegment("h", "a", "t")
    )


def test_a_micro_compaction_names_the_results_it_cleared():
    made = {"trigger": "auto", "preTokens": 60_000, "tokensSaved": 20_000, "compactedToolIds": ["c1", "c2"]}
    record = b.system("microcompact_boundary", microcompactMetadata=made)
    assert record.edit == Cleared(("c1", "c2"), "auto micro-compaction", 60_000, 20_000)
    told = b.system("microcompact_boundary", microcompactMetadata={**made, "reason": "made room"})
    assert told.edit == Cleared(("c1", "c2"), "made room", 60_000, 20_000)


@pytest.mark.spec("TR-2")
def test_every_block_keeps_its_bytes_known_or_not():
    content = (
        b'[{"type":"text","text":"a","citations":null}, {"signature":"x==","thinking":"","type":"thinking"},'
        b'{"type":"redacted_thinking","data":"q"},{"type":"tool_use","id":"c","name":"N","input":{"b":1,"a":2}},'
        b'{"type":"server_tool_use","id":"s","name":"web_search","input":{}},'
        b'{"type":"web_search_tool_result","tool_use_id":"s","content":[]},'
        b'{"type":"image","source":{"type":"base64","data":"AA"}},{"type":"document","source":{}},'
        b'{"tool_use_id":"c","type":"tool_result","content":[{"type":"search_result","x":1e400}]},'
        b'{"type":"invented","n":1.0,"n":12345678901234567890123,"e":"\\u00e9"}]'
    )
    raw = b'{"type":"user","uuid":"u","message":{"content":' + content + b"}}"
    (record,) = parse_session_file(raw).records
    assert [(each.kind, each.call, each.tool) for each in record.blocks] == [
        ("text", "", ""),
        ("thinking", "", ""),
        ("redacted_thinking", "", ""),
        ("tool_use", "c", "N"),
        ("server_tool_use", "", ""),
        ("web_search_tool_result", "s", ""),
        ("image", "", ""),
        ("document", "", ""),
        ("tool_result", "c", ""),
        ("invented", "", ""),
    ]
    assert b"[" + b",".join(each.raw for each in record.blocks) + b"]" == content.replace(b"}, {", b"},{")


@pytest.mark.spec("TR-7")
def test_pieces_of_one_response_share_its_message_id():
    data = b"\n".join(
        each.raw
        for each in (
            b.assistant(b.call("c1")),
            b.result("c1"),
            b.assistant(b.call("c2")),
            b.result("c2"),
        )
    )
    assert [each.message_id for each in parse_session_file(data).records] == ["m1", "", "m1", ""]


@pytest.mark.spec("TR-6")
def test_bookkeeping_and_unknown_lines_are_kept_without_records_and_without_complaint():
    lines = [
        b'{"type":"summary","summary":"t","leafUuid":"x"}',
        b'{"type":"new-thing","uuid":"n"}',
        b'{"a":1}',
    ]
    transcript = parse_session_file(b"\n".join([*lines, HELLO]))
    assert [(line.type, len(line.records)) for line in transcript.lines] == [
        ("summary", 0),
        ("new-thing", 0),
        ("", 0),
        ("user", 1),
    ]
    assert transcript.flaws == ()


# No byte changes.

good = st.sampled_from([HELLO, BYE, b.boundary().raw, b'{"type":"summary"}', '{"a":"ü😀"}'.encode()])
bad = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"// note", b"\0" * 20, b'{"type":"user"', b"\xff\xfe", b"[" * 50, HELLO + BYE, b"\xef\xbb\xbf"]
    ),
    st.builds(lambda line, at: line[: at % len(line)], good, st.integers(0, 500)),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    ).map(lambda value: json.dumps(value).encode()),
)


@pytest.mark.spec("TR-6")
@given(st.lists(good | bad, max_size=8), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
@example([b""], b"\n")
def test_reading_and_writing_again_changes_no_byte(lines: list[bytes], end: bytes):
    data = end.join(lines)
    assert parse_session_file(data).to_bytes() == data
    assert parse_session_file(data + end).to_bytes() == data + end


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just({"type": "text", "text": "x"}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "id", "content", "usage", "text", "name"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
FIELDS = [
    "message",
    "attachment",
    "parentUuid",
    "isMeta",
    "subtype",
    "compactMetadata",
    "everturn",
    "timestamp",
]


@given(
    st.sampled_from(["user", "assistant", "system", "attachment", "progress"]),
    st.dictionaries(st.sampled_from(FIELDS), odd, max_size=4),
    odd,
)
def test_a_record_with_a_uuid_is_read_whatever_the_shape_of_its_other_fields(kind, fields, content):
    fields = {"type": kind, "uuid": "u", "message": {"content": content}, **fields}
    transcript = parse_session_file(b.line(fields))
    assert [each.uuid for each in transcript.records] == ["u"]
    flatten(compute_view(transcript.records))


# Fields that are not what we know.


def test_one_field_of_another_type_costs_only_itself():
    usage = {"input_tokens": None, "cache_read_input_tokens": 9, "output_tokens": "many"}
    message = {"id": "m", "model": 5, "usage": usage, "content": [b.say("still here"), 17]}
    raw = b.line({"type": "assistant", "uuid": "a", "parentUuid": "p", "isMeta": "no", "message": message})
    transcript = parse_session_file(raw)
    assert transcript.records == (
        Record(
            kind="assistant",
            uuid="a",
            parent="p",
            blocks=(text_block("still here"), text_block("17")),
            reply=ReplyMeta("m", usage=Usage(cache_read_input_tokens=9)),
            raw=raw,
        ),
    )
    assert kinds(raw) == [(1, "shape")]


def test_a_message_without_a_uuid_is_reported():
    assert kinds(b'{"type":"user","message":{"content":"x"}}') == [(1, "shape")]


@pytest.mark.parametrize(
    "payload", [b"", b',"attachment":null', b',"attachment":[1]', b',"attachment":{"type":5}']
)
def test_an_attachment_of_any_shape_is_a_record(payload: bytes):
    (record,) = parse_session_file(b'{"type":"attachment","uuid":"a"' + payload + b"}").records
    assert isinstance(fields_of(record.blocks[0]), dict)


def test_a_single_block_that_is_not_in_a_list_is_read():
    (record,) = parse_session_file(
        b'{"type":"user","uuid":"u","message":{"content":{"type":"text","text":"x"}}}'
    ).records
    assert record.blocks == (text_block("x"),)


# Damage (F03-F05, F55-F59).


def test_a_file_cut_at_any_byte_of_its_last_records_loads_all_before_and_reports_the_tail():
    lines = [HELLO, BYE, b.user("日本語 😀 déjà", uuid="u3").raw, b.assistant(b.call("c")).raw]
    data = b"\n".join([*lines, b""])
    first = len(lines[0]) + 1
    for cut in range(first, len(data) + 1):
        torn = data[:cut]
        whole, _, tail = torn.rpartition(b"\n")
        transcript = parse_session_file(torn)
        complete = whole.count(b"\n") + 1 + (tail in lines)
        assert len(transcript.records) == complete
        assert transcript.to_bytes() == torn
        reported = {flaw.kind for flaw in transcript.flaws}
        is_torn = bool(tail) and tail not in lines
        assert ("torn" in reported) == is_torn
        assert reported <= {"torn", "not_utf8"}
        assert looks_like_a_session(transcript.lines)


@pytest.mark.parametrize("cut", range(2, len(HELLO) + 1))
def test_a_first_write_that_was_cut_short_is_still_a_session(cut: int):
    assert looks_like_a_session(parse_session_file(HELLO[:cut]).lines)


def test_a_tear_inside_a_character_is_named():
    line = b.user("naïve", uuid="u").raw
    assert kinds(HELLO + b"\n" + line[: line.index("ï".encode()) + 1]) == [(2, "not_utf8"), (2, "torn")]


def test_a_torn_line_that_was_written_on_from_a_new_line_is_reported_where_it_is():
    data = b"\n".join([HELLO, BYE[:30], BYE])
    assert (uuids(data), kinds(data)) == (["u1", "u2"], [(2, "not_json")])


def test_two_objects_on_one_line_are_two_records():
    data = HELLO + BYE + b"\n" + HELLO + b"  " + BYE[:20]
    assert uuids(data) == ["u1", "u2", "u1"]
    assert kinds(data) == [(1, "glued"), (2, "glued"), (2, "torn")]


def test_many_objects_on_one_line_take_time_in_proportion():
    started = time.process_time()
    assert len(uuids(HELLO * 20_000)) == 20_000
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (HELLO + b"\n" + b"\0" * 300 + b"\n" + BYE, ["u1", "u2"]),
        (HELLO + b"\n" + b"\0" * 700 + BYE, ["u1", "u2"]),
        (HELLO + b"\0" * 200 + BYE, ["u1", "u2"]),
        (HELLO[:25] + b"\0" * 500 + BYE, ["u2"]),
        (HELLO + b"\0\0" + HELLO[:25] + b"\0" * 500 + BYE, ["u1", "u2"]),
    ],
)
def test_records_behind_a_hole_of_nul_bytes_load(data: bytes, expected: list[str]):
    assert uuids(data) == expected
    assert "hole" in {kind for _, kind in kinds(data)}
    assert parse_session_file(data).to_bytes() == data


def test_comments_are_kept_and_named():
    data = b"// made by hand\n" + HELLO
    assert (uuids(data), kinds(data)) == (["u1"], [(1, "comment")])


def test_bytes_that_are_no_utf8_are_shown_as_replaced_and_kept_as_they_are():
    data = HELLO.replace(b"hello", b"h\xffllo")
    transcript = parse_session_file(data)
    assert text_of(transcript.records[0].blocks[0]) == "h\N{REPLACEMENT CHARACTER}llo"
    assert (kinds(data), transcript.to_bytes()) == ([(1, "not_utf8")], data)


@pytest.mark.parametrize("half", [b"\\ud83d", b"\\uDE00", b"\\ud83d\\ud83d", b"\\ud83dx\\ude00"])
def test_half_characters_are_shown_as_replaced_and_kept_as_they_are(half: bytes):
    data = HELLO.replace(b"hello", b"a" + half + b"b")
    transcript = parse_session_file(data)
    text = text_of(transcript.records[0].blocks[0])
    assert (text[0], text[-1], "\N{REPLACEMENT CHARACTER}" in text) == ("a", "b", True)
    assert (kinds(data), transcript.to_bytes()) == ([(1, "surrogate")], data)
    flatten(compute_view(transcript.records)).messages[0].blocks[0].raw.decode()


def test_whole_characters_in_two_escapes_and_escaped_backslashes_are_left_alone():
    data = HELLO.replace(b"hello", b"\\ud83d\\ude00 \\\\ud83d")
    assert text_of(parse_session_file(data).records[0].blocks[0]) == "😀 \\ud83d"
    assert kinds(data) == []


# From Python 3.12 on, calls in C have a limit of their own, which is higher.
@pytest.mark.parametrize("levels", [100_000, *([1_000] if sys.version_info < (3, 12) else [])])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_line_nested_without_end_is_reported_and_the_others_load(
    levels: int, opening: bytes, closing: bytes
):
    deep = opening * levels + b"1" + closing * levels
    data = HELLO + b'\n{"type":"user","uuid":"d","x":' + deep + b"}\n" + BYE
    assert (uuids(data), kinds(data)) == (["u1", "u2"], [(2, "depth")])
    assert kinds(deep) == [(1, "depth")]


def test_what_could_be_read_once_can_be_looked_into_from_further_down():
    def further_down(calls: int, look) -> object:
        return further_down(calls - 1, look) if calls else look()

    for levels in range(500, 1_000, 20):
        block = b'{"type":"text","text":"hi","x":' + b"[" * levels + b"]" * levels + b"}"
        transcript = parse_session_file(b'{"type":"user","uuid":"d","message":{"content":[' + block + b"]}}")
        for record in transcript.records:
            assert further_down(150, lambda record=record: text_of(record.blocks[0])) == "hi"
        assert bool(transcript.records) != bool(transcript.flaws)


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity"])
def test_values_that_json_does_not_have_are_named_and_only_outside_of_strings(value: bytes):
    data = HELLO[:-1] + b',"odd":' + value + b',"said":"NaN \\" Infinity"}'
    assert (uuids(data), kinds(data)) == (["u1"], [(1, "number")])
    assert b'"said":"NaN \\" Infinity"' in parse_session_file(data).records[0].raw


def test_a_torn_line_full_of_quotes_takes_time_in_proportion():
    started = time.process_time()
    assert kinds(HELLO[:-3] + b'\\" NaN ' * 15_000) == [(1, "torn")]
    assert time.process_time() - started < 3


@pytest.mark.parametrize("number", [b"7" * 5_000, b"-1e999999", b"0.1" + b"0" * 5_000])
def test_numbers_beyond_every_size_pass_through(number: bytes):
    block = b'{"type":"tool_result","tool_use_id":"c","content":"x","n":' + number + b"}"
    data = b'{"n":' + number + b',"type":"user","uuid":"u","message":{"content":[' + block + b"]}}"
    assert parse_session_file(data).records[0].blocks == (Block("tool_result", block, "c"),)
    assert kinds(data) == []


def test_a_number_beyond_every_size_in_a_field_that_we_count_with_is_reported():
    usage = b'{"input_tokens":' + b"7" * 5_000 + b',"output_tokens":4}'
    data = b'{"type":"assistant","uuid":"u","message":{"content":"x","usage":' + usage + b"}}"
    assert parse_session_file(data).records[0].reply == ReplyMeta(usage=Usage(output_tokens=4))
    assert kinds(data) == [(1, "shape")]


def test_of_keys_that_are_given_twice_the_last_counts():
    assert uuids(b'{"type":"user","uuid":"a","type":"user","uuid":"b"}') == ["b"]


def test_a_byte_order_mark_is_passed_over_and_kept():
    data = b"\xef\xbb\xbf" + HELLO
    assert (uuids(data), kinds(data), parse_session_file(data).to_bytes()) == (["u1"], [], data)


def test_windows_line_ends_are_kept():
    data = HELLO + b"\r\n" + BYE + b"\r\n"
    assert (uuids(data), kinds(data), parse_session_file(data).to_bytes()) == (["u1", "u2"], [], data)


def test_a_result_of_a_hundred_megabytes_loads_in_seconds():
    text = b"0123456789abcdef" * (100 * 2**20 // 16)
    block = b'{"type":"tool_result","tool_use_id":"c","content":"' + text + b'"}'
    data = HELLO + b'\n{"type":"user","uuid":"big","message":{"content":[' + block + b"]}}\n" + BYE
    started = time.process_time()
    transcript = parse_session_file(data)
    assert time.process_time() - started < 5
    assert [each.uuid for each in transcript.records] == ["u1", "big", "u2"]
    assert transcript.records[1].blocks[0].raw == block


# Files that are something else.


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89",
        b"Dear all,\n\nthe meeting is at ten.\n",
        b'[\n  {"role": "user", "content": "hi"}\n]\n',
        b'[{"type":"user"}]',
        b'{"messages":[]}',
        b"name,age\nann,3\n",
        b'{"timestamp":"x","type":"session_meta","payload":{}}\n{"type":"response_item"}\n',
        b"<html></html>",
    ],
)
def test_a_file_that_is_something_else_is_no_session(data: bytes):
    transcript = parse_session_file(data)
    assert not looks_like_a_session(transcript.lines)
    assert (transcript.records, transcript.to_bytes()) == ((), data)


def test_lines_that_are_no_json_are_each_named():
    assert kinds(b"name,age\n[1]\nann,3") == [(1, "not_json"), (2, "shape"), (3, "not_json")]


def test_an_empty_file_is_one_empty_line():
    assert parse_session_file(b"").lines == (TranscriptLine(b""),)
    assert parse_session_file(b"").flaws == ()


@pytest.mark.parametrize("kind", ["summary", "queue-operation", "file-history-snapshot", "last-prompt"])
def test_a_file_of_bookkeeping_alone_is_a_session(kind: str):
    assert looks_like_a_session(parse_session_file(b.line({"type": kind})).lines)


def test_empty_lines_do_not_hide_a_first_write_that_was_cut_short():
    torn = HELLO[: len(HELLO) // 2]
    assert looks_like_a_session(parse_session_file(b"\n" + torn + b"\n\n").lines)
    assert not looks_like_a_session(parse_session_file(torn + b"\n" + torn).lines)


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (b'{"parentUuid":null\n{"par', True),
        (b'{"pa\n{"parentUuid":null,"isSidechain":fal\n{"', True),
        (b'{"pa\n{"other":1', False),
        (b'{\n"parentUuid": null', False),
        (b'{"parentUuid":null}\n{"par', False),
    ],
)
def test_several_writes_that_were_cut_short_are_a_session_if_all_begin_as_ours(data: bytes, is_one: bool):
    assert looks_like_a_session(parse_session_file(data).lines) == is_one
