"""What was typed while the model worked: read, with what became of it, and never part of the view."""

import json

from everturn.session.recorded import open_session
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.queued_messages import QueuedMessage, read_queue


def operation(what, content=None):
    line = {"type": "queue-operation", "operation": what, "timestamp": "2026-01-23T17:34:42.719Z"}
    return line | ({"content": content} if content is not None else {})


def user(text, uuid, parent=None):
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "message": message, "sessionId": "s"}


LINES = [
    user("Fix the parser.", "u1"),
    operation("enqueue", "And the writer."),
    operation("enqueue", [{"type": "text", "text": "stop"}]),
    operation("dequeue"),
    user("And the writer.", "u2", "u1"),
    operation("remove"),
    operation("enqueue", "Never mind."),
    operation("popAll"),
    operation("enqueue", "Later."),
]


def data(lines=LINES):
    return "\n".join(map(json.dumps, lines)).encode() + b"\n"


def test_queued_messages_are_read_with_what_became_of_them():
    at = "2026-01-23T17:34:42.719Z"
    assert read_queue(parse_session_file(data()).lines) == (
        QueuedMessage("And the writer.", "sent", at),
        QueuedMessage("stop", "given", at),
        QueuedMessage("Never mind.", "taken back", at),
        QueuedMessage("Later.", "waiting", at),
    )


def test_a_reader_is_told_of_words_that_are_in_no_message_and_the_view_stays_as_it_was(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_bytes(data())
    session = open_session(path)
    assert [record.uuid for record in session.view.records] == ["u1", "u2"]
    assert session.remarks == (
        "typed while the model worked, and in no message of the file: 2; the last is 'Later.'",
    )


def test_a_line_that_cannot_be_read_is_passed_over():
    broken = [operation("enqueue", {"no": "content"}), operation("else"), operation("remove")]
    assert read_queue(parse_session_file(data(broken)).lines) == (
        QueuedMessage("", "given", "2026-01-23T17:34:42.719Z"),
    )
