"""Lines, queued messages and streams of which a part cannot be read."""

import json

import pytest

from everturn.history.blocks import Block, text_block, text_of
from everturn.wire.claude_code_reader import looks_like_a_session, parse_session_file
from everturn.wire.line_repair import LineProblem
from everturn.wire.queued_messages import QueuedMessage, find_unrecorded, read_queue
from everturn.wire.sse import ServerEvent, SseReader

AT = "2026-01-23T17:34:42.719Z"


def operation(what: str, content: object) -> dict[str, object]:
    return {"type": "queue-operation", "operation": what, "timestamp": AT, "content": content}


def user(text: str) -> dict[str, object]:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": "u1", "parentUuid": None, "message": message, "sessionId": "s"}


def attached(**fields: object) -> dict[str, object]:
    return {"type": "attachment", "uuid": "u2", "parentUuid": "u1", "attachment": fields, "sessionId": "s"}


def parsed(*lines: object):
    return parse_session_file("\n".join(map(json.dumps, lines)).encode() + b"\n")


def test_a_queued_message_of_an_unknown_shape_is_passed_over():
    found = read_queue(
        parsed(
            {**operation("", ""), "operation": 7}, operation("enqueue", "Later."), operation("x", "")
        ).lines
    )
    assert found == (QueuedMessage("Later.", "waiting", AT),)


def test_a_queued_message_that_a_record_has_is_not_told_again():
    queued = operation("enqueue", "Later."), operation("enqueue", "Never.")
    given = attached(type="queued_command", prompt="Later.")
    session = parsed(user("Go."), *queued, given)
    assert [each.text for each in find_unrecorded(session.lines, session.records)] == ["Never."]
    said = parsed(user("Later."), *queued)
    assert [each.text for each in find_unrecorded(said.lines, said.records)] == ["Never."]
    odd = parsed(user("Go."), *queued, attached(type="queued_command", prompt=7))
    assert [each.text for each in find_unrecorded(odd.lines, odd.records)] == ["Later.", "Never."]
    assert find_unrecorded(parsed(user("Go.")).lines, []) == ()


def test_a_line_that_is_no_json_is_kept_and_named():
    good = json.dumps(user("Go.")).encode()
    found = parse_session_file(good + b"\n{broken\n" + good.replace(b'"u1"', b'"u9"') + b"\n")
    assert [record.uuid for record in found.records] == ["u1", "u9"]
    assert [text_of(block) for record in found.records for block in record.blocks] == ["Go.", "Go."]
    assert [line.raw for line in found.lines][1] == b"{broken"
    assert [(each.line, each.kind) for each in found.flaws] == [(2, "not_json")]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_is_passed_over_at_the_beginning_and_nowhere_else(mark):
    assert SseReader().feed(mark + b"data: 1\n\n") == [ServerEvent("", b"1")]
    reader = SseReader()
    assert reader.feed(b"data: 1\n\n") == [ServerEvent("", b"1")]
    assert reader.feed(mark + b"data: 2\n\n") == ([] if mark else [ServerEvent("", b"2")])


ODD = "a field has an unexpected type:"


def flaw(line: int, kind: str, what: str) -> LineProblem:
    return LineProblem(line, kind, what)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "records", "kind", "flaws"),
    [
        (b"", [], "", []),
        (b" \t", [], "", []),
        (b'{"type":"user"}', [], "user",
         [flaw(1, "shape", "a line of type user without a uuid; kept, not read")]),
        (b'{"type":"user","uuid":""}', [], "user",
         [flaw(1, "shape", "a line of type user without a uuid; kept, not read")]),
        (b'{"type":"summary"}', [], "summary", []),
        (b'{"type":"user","uuid":"u","isMeta":7}', ["u"], "user",
         [flaw(1, "shape", f"{ODD} Expected `bool | null`, got `int` - at `$.isMeta`")]),
        (b'{"type":"user","uuid":7}', [], "user",
         [flaw(1, "shape", f"{ODD} Expected `str | null`, got `int` - at `$.uuid`"),
          flaw(1, "shape", "a line of type user without a uuid; kept, not read")]),
        (b'{"type":"user","uuid":"u"}{"type":"summary"}', ["u"], "summary",
         [flaw(1, "glued", "2 objects on one line")]),
        (b'{"type":"user","uuid":"u","message":{"content":["a",{"type":7},8,{"type":"text","text":"b"}]}}',
         ["u"], "user",
         [flaw(1, "shape", f"{ODD} Expected `str | null`, got `int` - at `$.type`")]),
        (b'{"type":"attachment","uuid":"u","attachment":"words"}', ["u"], "attachment",
         [flaw(1, "shape", f"{ODD} Expected `object`, got `str`")]),
        # Strict reading stops at the first of two kinds of damage.
        (b'{"type":"user","isMeta":7,"timestamp":"\x01","uuid":"u"}', [], "",
         [flaw(1, "not_json", "JSON is malformed: invalid character (byte 39); kept, not read")]),
    ],
)  # fmt: skip
def test_a_line_is_read_as_far_as_it_can_be_and_every_problem_is_told(raw, records, kind, flaws):
    found = parse_session_file(raw)
    (line,) = found.lines
    assert ([each.uuid for each in line.records], line.type, line.raw) == (records, kind, raw)
    assert list(found.flaws) == flaws


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        (b'["a",{"type":7},8,{"type":"text","text":"b"}]',
         [text_block("a"), text_block('{"type":7}'), text_block("8"), text_block("b")]),
        (b'{"type":7}', [text_block('{"type":7}')]),
        (b"[[1],null]", [text_block("[1]"), text_block("null")]),
        (b"7", []),
        (b"null", []),
    ],
)  # fmt: skip
def test_content_that_is_no_block_is_shown_as_text(content, blocks):
    raw = b'{"type":"user","uuid":"u","message":{"content":' + content + b"}}"
    assert list(parse_session_file(raw).records[0].blocks) == blocks


@pytest.mark.parametrize(
    ("payload", "shown", "subtype"),
    [
        (b'{"type":"x","content":1}', b'{"type":"x","content":1}', "x"),
        (b'{"type":7}', b'{"type":7}', ""),
        (b"{}", b"{}", ""),
        (b"null", b'{"content":""}', ""),
        (b'"words"', b'{"content":"words"}', ""),
        (b"[1, 2]", b'{"content":[1, 2]}', ""),
    ],
)
def test_an_attachment_is_its_object_or_an_object_around_what_it_is(payload, shown, subtype):
    (record,) = parse_session_file(b'{"type":"attachment","uuid":"u","attachment":' + payload + b"}").records
    assert (record.blocks, record.subtype) == ((Block("attachment", shown),), subtype)


@pytest.mark.parametrize(
    "kind",
    ["file-history-snapshot", "queue-operation", "summary", "permission-mode", "last-prompt", "pr-link"],
)
def test_each_kind_of_bookkeeping_alone_makes_a_file_a_session(kind):
    assert looks_like_a_session(parsed({"type": kind}).lines)
    assert not looks_like_a_session(parsed({"type": f"{kind}s"}).lines)


@pytest.mark.parametrize(
    ("data", "is_session"),
    [
        (b"", False),
        (b'{"type":"user"', True),
        (b'{"type":"user"}', False),
        (b'["type"', False),
        (b'{ "a', False),
    ],
)
def test_a_single_line_is_a_session_if_it_is_the_beginning_of_an_object(data, is_session):
    assert looks_like_a_session(parse_session_file(data).lines) is is_session
