"""What was said last and nobody has answered reaches the model as it is, also behind a summary (CP-37)."""

from pathlib import Path
from typing import Any

import pytest
from surfaces.desk import HAIKU, Desk, Json, call, result, text, tool, words
from surfaces.random_compactions import drop_replies, image

import everturn

# Automatic compaction begins at 27,000 tokens, and 40,000 fit beside the reserve for output.
WINDOW = 60_000
TOOLS = [tool("Read").definition]


def document(tokens: int) -> str:
    """About so many tokens; every line can be told from the others."""
    return "".join(f"Line {n}: the measured value was {n * 7919 % 1000}. " for n in range(tokens // 11))


QUESTIONS = {
    "a picture and a question": [
        text("What is on it? " + document(4_000)),
        image(),
        text("Name the button."),
    ],
    "a document with a question at its end": [text(document(6_000) + "What was in line 500?")],
    "more than half of what is kept": [text(document(16_000) + "What was in line 1,400?")],
    "more than fits beside the reserve for output": [text(document(28_000) + "What was in line 2,400?")],
}


class Caller:
    """A program with its own list of messages, the SDK and the middleware."""

    def __init__(self, desk: Desk, folder: Path, **options: Any) -> None:
        self.desk, self.folder, self.options = desk, folder, {"window": WINDOW, **options}
        self.messages: list[Json] = []
        self.open()

    def open(self) -> None:
        self.middleware = everturn.middleware(
            config=None, folder=self.folder, clock=self.desk.twin.twin.clock.now,
            listen=self.desk.events.append, **self.options,
        )  # fmt: skip
        chain = [self.middleware, self.desk.recorder()]
        self.client = self.desk.twin.client(middleware=chain, max_retries=0)

    def restart(self) -> None:
        self.middleware.close()
        self.open()

    def say(self, content: Any, reply: Any = "Well.", **more: Any) -> Any:
        drop_replies(self.desk.twin)
        self.desk.twin.script(reply)
        self.messages.append({"role": "user", "content": content})
        request: Json = {"model": HAIKU, "max_tokens": 4_000, "tools": TOOLS, **more}
        answer = self.client.messages.create(messages=self.messages, **request)
        self.messages.append(
            {
                "role": "assistant",
                "content": [block.model_dump(exclude_none=True) for block in answer.content],
            }
        )
        return answer

    def fill(self, tokens: int, **more: Any) -> None:
        while not self.middleware.conversations or self.middleware.conversations[-1].tokens < tokens:
            self.say(f"Question {len(self.messages)}. " + document(2_000), **more)


def fill(desk: Desk, session: Any, tokens: int) -> None:
    while session.context().size.tokens < tokens:
        desk.twin.script("Well.")
        session.send(f"Question {len(desk.bodies)}. " + document(2_000))


def unmarked(content: list[Json]) -> list[Json]:
    return [{name: value for name, value in block.items() if name != "cache_control"} for block in content]


@pytest.fixture
def caller(desk, tmp_path):
    made = Caller(desk, tmp_path / "kept")
    yield made
    made.middleware.close()


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_session_sends_the_newest_message_whole_behind_the_summary(desk, question):
    drop_replies(desk.twin)
    with desk.open(window=WINDOW) as session:
        fill(desk, session, 24_000)
        desk.twin.script("Well.")
        session.send(question)
    sent = desk.bodies[-1]["messages"]
    assert len(desk.heard("CompactionDone")) == 1
    assert "fixed by waiting for the token" in words(desk.bodies[-1])
    assert unmarked(sent[-1]["content"])[-len(question) :] == question


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "after a restart"])
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_the_middleware_sends_the_newest_message_whole_behind_the_summary(caller, question, restarts):
    caller.fill(24_000)
    if restarts:
        caller.restart()
    caller.say(question)
    sent = caller.desk.bodies[-1]["messages"]
    assert len(caller.desk.heard("CompactionDone")) == 1
    assert "fixed by waiting for the token" in words(caller.desk.bodies[-1])
    assert unmarked(sent[-1]["content"])[-len(question) :] == question


@pytest.mark.spec("CP-37")
def test_the_newest_results_are_sent_whole_with_their_call(caller):
    caller.fill(20_000)
    caller.say(
        "Read huge.log and tell me its last line.", {"content": [call("toolu_1", file_path="huge.log")]}
    )
    found = [result("toolu_1", [text(document(14_000) + "the last line"), image()])]
    caller.say(found)
    sent = caller.desk.bodies[-1]["messages"]
    assert len(caller.desk.heard("CompactionDone")) == 1
    assert unmarked(sent[-2]["content"]) == [call("toolu_1", file_path="huge.log")]
    # What the compaction did is told behind them.
    assert unmarked(sent[-1]["content"])[:1] == found
    assert {entry["status"] for entry in caller.desk.twin.ledger} == {200}


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_the_first_message_of_a_conversation_is_sent_as_it_is(desk, tmp_path, question):
    """Nothing but it could be summarized, at any size that fits: the threshold here is at 10,000 tokens."""
    caller = Caller(desk, tmp_path / "kept", window=40_000)
    caller.say(question)
    (sent,) = caller.desk.bodies
    assert unmarked(sent["messages"][-1]["content"]) == question
    caller.middleware.close()


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("context", [10_000, 20_000], ids=["below the threshold", "near it"])
def test_parallel_results_are_whole_where_only_the_reserve_for_output_is_in_their_way(caller, context):
    caller.fill(context)
    calls = [call("toolu_1", file_path="a.log"), call("toolu_2", file_path="b.log")]
    caller.say("Compare a.log and b.log.", {"content": calls})
    found = [result(each["id"], [text(document(19_000) + each["id"])]) for each in calls]
    caller.say(found)
    sent = caller.desk.bodies[-1]["messages"]
    (done,) = caller.desk.heard("CompactionDone")
    assert 40_000 < done.tokens_after < WINDOW
    assert unmarked(sent[-2]["content"]) == calls
    assert unmarked(sent[-1]["content"])[:2] == found
    # The next turn has the usual room again.
    caller.say("Thank you.")
    assert len(caller.desk.heard("CompactionDone")) == 2
    assert caller.middleware.conversations[-1].tokens < 27_000
    assert {entry["status"] for entry in caller.desk.twin.ledger} == {200}


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("context", [0, 20_000], ids=["fresh", "at 20,000 tokens"])
def test_of_a_message_that_cannot_fit_the_head_and_the_tail_are_sent_and_the_receipt_says_so(caller, context):
    caller.fill(context)
    question = "HEAD " + document(60_000) + " TAIL what was the last line?"
    caller.say(question)
    sent = words(caller.desk.bodies[-1])
    assert "HEAD Line 0:" in sent
    assert sent.count("TAIL what was the last line?") == 1
    assert "Line 2500:" not in sent
    assert "head and tail of the last message" in sent
    assert "characters from the middle of the last message" in sent
    assert caller.middleware.conversations[-1].tokens < WINDOW


def test_of_a_result_that_cannot_fit_the_head_and_the_tail_are_sent(desk, tmp_path):
    """Large results usually go to files; here they may not."""
    caller = Caller(desk, tmp_path / "kept", micro={"enabled": False})
    caller.fill(10_000)
    caller.say("Read huge.log.", {"content": [call("toolu_1", file_path="huge.log")]})
    caller.say([result("toolu_1", "HEAD " + document(60_000) + " TAIL")])
    sent = words(desk.bodies[-1])
    assert 'Read({"file_path":"huge.log"}) gave:\n<tool-output>\nHEAD Line 0:' in sent
    assert " TAIL\n</tool-output>\n</system-reminder>" in sent
    assert {entry["status"] for entry in desk.twin.ledger} == {200}
    caller.middleware.close()


@pytest.mark.spec("CP-37", "CP-27")
def test_a_compaction_by_hand_that_would_enlarge_the_context_is_refused_with_both_numbers(desk):
    with desk.open() as session:
        desk.twin.script("Well.")
        session.send("Hello.")
        desk.twin.faults("overloaded")
        with pytest.raises(everturn.UpstreamError):
            session.send(document(2_000))
        size = session.context().size.next_request
        made = session.compact()
    assert isinstance(made, everturn.CompactionSkipped)
    assert made.why.startswith(f"A compaction would enlarge the context, from {size:,} to about ")
    assert len(desk.bodies) == 2


@pytest.mark.spec("CP-27")
@pytest.mark.parametrize("form", ["from_", "up_to"])
def test_no_call_is_paid_for_a_compaction_that_can_only_enlarge_the_context(desk, form):
    with desk.open() as session:
        desk.twin.script("Well.", "Well again.", "Good.")
        for said in ("Hello.", "And now?", "Fine."):
            session.send(said)
        at = [record.uuid for record in session.conversation.log.view.records if record.kind == "user"][1]
        size, calls = session.context().size.tokens, len(desk.twin.ledger)
        made, planned = session.compact(**{form: at}), session.dry_run(**{form: at})
    assert isinstance(made, everturn.CompactionSkipped)
    assert made == planned
    assert made.why.startswith(f"A compaction would enlarge the context, from {size:,} to at least ")
    assert len(desk.twin.ledger) == calls


@pytest.mark.spec("CP-37")
def test_nothing_is_summarized_where_nearly_everything_is_the_newest_message(desk):
    with desk.open(window=WINDOW) as session:
        desk.twin.script("Well.", "Well again.")
        session.send("Hello.")
        session.send(document(22_000))
        assert session.context().size.tokens > session.context().limits.auto
    assert len(desk.bodies) == 2
    assert desk.heard("CompactionDone") == []
