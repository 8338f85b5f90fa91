"""Lines, queued messages and streams of which a part cannot be read."""

import json

import pytest

from everturn.history.blocks import text_of
from everturn.wire.claude_code_reader import parse_session_file
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
