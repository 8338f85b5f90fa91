"""What was typed while the model worked: read, with what became of it, and never part of the view."""

import json

import pytest
from adapters.framework_bench import Wire

from everturn import Session
from everturn.history.blocks import text_of
from everturn.session.recall.index import RecallIndex
from everturn.session.recall.query import parse_query
from everturn.session.recorded import open_session
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.queued_messages import QueuedMessage, find_unrecorded, read_queue, unrecorded


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


# ── the summary without a model, and recall ──────────────────────────────────────────────────────


def timed(line, minute):
    return {**line, "timestamp": f"2026-01-23T17:{minute:02}:00.000Z"}


def answer(text, uuid, parent):
    message = {"id": f"msg_{uuid}", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message, "sessionId": "s"}


TYPED = [
    timed(user("Fix the parser. " + "It stops too early. " * 900, "u1"), 1),
    timed(operation("enqueue", "Could we have a linting rule for it?"), 2),
    timed(answer("The parser is fixed now, and its tests pass. " * 400, "a1", "u1"), 3),
    timed(operation("remove"), 3),
    # The model's own summary repeats the words; that is no message of the user.
    timed(operation("enqueue", "And a second one?"), 4),
    timed(user("And a second one?", "u2", "a1"), 5),
    timed(operation("dequeue"), 5),
    timed(answer("It is there.", "a2", "u2"), 6),
]


@pytest.fixture
def typed(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_bytes(data(TYPED))
    return path


@pytest.mark.spec("BY-5")
def test_a_summary_without_a_model_lists_what_was_typed_while_the_model_worked(typed, twin):
    options = {"client": twin.client(), "compact": {"strategies": ["extractive"]}, "fsync": "never"}
    with Session.open(typed, **options) as session:
        made = session.compact()
        told = text_of(made.summary.blocks[0])
        again = text_of(session.conversation.log.view.records[1].blocks[0])
    messages = told.partition("6. All user messages:")[2].partition("7. Pending tasks:")[0]
    assert messages.count("Could we have a linting rule for it?") == 1
    assert messages.count('- "And a second one?"') == 1
    assert messages.index("linting rule") < messages.index("second one")
    assert again == told


@pytest.mark.parametrize("strategy", ["fork", "direct"])
def test_a_model_that_writes_the_summary_is_told_what_was_typed_while_the_model_worked(typed, twin, strategy):
    wire = Wire()
    options = {
        "client": twin.client(middleware=[wire]),
        "compact": {"strategies": [strategy]},
        "fsync": "never",
    }
    with Session.open(typed, **options) as session:
        session.compact()
    last = wire.bodies[-1]["messages"][-1]["content"][-1]["text"]
    told = last.partition("The user also typed the following")[2].partition("\n\n")[0].splitlines()
    assert told[1:] == ["> Could we have a linting rule for it?"]


@pytest.mark.spec("BY-4")
def test_recall_finds_what_was_typed_while_the_model_worked(typed):
    found = RecallIndex(typed, place=":memory:")
    matches, _ = found.find(parse_query("linting rule"), 3)
    assert [(each.passage.source, each.passage.text) for each in matches] == [
        ("user", "Could we have a linting rule for it?")
    ]
    found.close()


def test_only_lines_about_the_queue_are_read_as_such():
    lines = [operation("enqueue", "Later."), operation("enqueue", "Other.") | {"type": "progress"}]
    assert [each.text for each in read_queue(parse_session_file(data(lines)).lines)] == ["Later."]


@pytest.mark.parametrize(
    ("words", "said", "is_told"),
    [
        ("x" * 19, "so " + "x" * 19, True),
        ("x" * 19, " " + "x" * 19 + "\n", False),
        ("x" * 20, "so " + "x" * 20, False),
        ("x" * 20, "x" * 19, True),
        ("", "anything", False),
    ],
)
def test_words_are_looked_for_alone_if_they_are_short_and_within_other_texts_if_not(words, said, is_told):
    queued = (QueuedMessage(words, "waiting"),)
    assert unrecorded(queued, [said]) == (queued if is_told else ())
    assert unrecorded(queued, ["other", said, "another"]) == (queued if is_told else ())


def test_words_that_were_sent_or_taken_back_are_not_told_again():
    queued = [QueuedMessage(each, each) for each in ("sent", "given", "taken back", "waiting")]
    assert unrecorded(queued, []) == (queued[1], queued[3])


def test_operations_take_the_oldest_message_and_an_unknown_one_takes_none():
    typed = [operation("enqueue", each) for each in (" one ", "two", "three", "four", "five")]
    taken = [operation(each) for each in ("dequeue", "shuffle", "remove", "popAll", "dequeue")]
    more = [operation("enqueue", [{"type": "text", "text": "a"}, {"type": "image"}, "b"])]
    found = read_queue(parse_session_file(data(typed + taken + more)).lines)
    assert [(each.text, each.outcome) for each in found] == [
        ("one", "sent"),
        ("two", "given"),
        ("three", "taken back"),
        ("four", "taken back"),
        ("five", "taken back"),
        ("a\nb", "waiting"),
    ]


def test_words_in_replies_and_summaries_are_no_messages_of_the_user():
    typed = operation("enqueue", "And then the writer, please.")
    words = "You wrote: And then the writer, please."
    summarized = user(words, "u1") | {"isCompactSummary": True}
    for line, is_told in ((summarized, True), (answer(words, "a1", None), True), (user(words, "u1"), False)):
        session = parse_session_file(data([typed, line]))
        found = find_unrecorded(session.lines, session.records)
        assert [each.text for each in found] == (["And then the writer, please."] if is_told else [])
