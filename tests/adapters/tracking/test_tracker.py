"""All conversations of one adapter, seen without an SDK: answers out of order, memory, files, threads."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import msgspec
import pytest

from everturn.adapters.tracking import ConversationTracker, PassedThrough, UnsupportedRequest, make_parts
from everturn.decide.events import TranscriptDamaged
from everturn.errors import StoreError
from everturn.session.upstream import RawResponse, UpstreamError

ASSISTANT = "assistant"


def reply(text, name=None):
    usage = {"input_tokens": 9, "output_tokens": 1}
    return RawResponse(
        msgspec.json.encode(
            {
                "id": name or f"msg_{text}",
                "model": "claude-haiku-4-5",
                "content": [{"type": "text", "text": text}] if text else [],
                "stop_reason": "end_turn",
                "usage": usage,
            }
        )
    )


def nobody(body, betas):
    raise UpstreamError(0, "none", "nobody is asked here")


class Caller:
    def __init__(self, folder=None, **more):
        self.events = []
        self.tracker = ConversationTracker(
            make_parts("claude-code", folder=folder, listen=self.events.append, **more)
        )

    def ask(self, *said, **more):
        """A prepared call for these words: the user's and the assistant's in turn."""
        roles = ("user", ASSISTANT)
        messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
        body = {"model": "claude-haiku-4-5", "max_tokens": 99, "messages": messages, **more}
        request = self.tracker.read(body)
        assert not isinstance(request, UnsupportedRequest)
        return self.tracker.prepare(request, nobody)

    def hear(self, call, text):
        self.tracker.record_response(call, reply(text))

    def said(self, call):
        return [block["text"] for message in call.fields()["messages"] for block in message["content"]]

    @property
    def lengths(self):
        return sorted(len(tracked.known.chain) for tracked in self.tracker)


@pytest.fixture
def caller():
    return Caller()


def test_of_two_answers_to_one_request_the_second_belongs_to_a_fork(caller):
    first, second = caller.ask("Hello."), caller.ask("Hello.")
    assert first is second
    caller.hear(first, "Hi.")
    caller.hear(second, "Good day.")
    assert caller.lengths == [2, 2]
    for answer in ("Hi.", "Good day."):
        call = caller.ask("Hello.", answer, "And?")
        assert caller.said(call) == ["Hello.", answer, "And?"]
    assert caller.lengths == [3, 3]


def test_an_answer_that_comes_after_the_caller_went_on_belongs_to_a_fork(caller):
    late = caller.ask("Hello.")
    on = caller.ask("Hello.", "(no answer)", "Are you there?")
    caller.hear(late, "Hi.")
    caller.hear(on, "Yes.")
    assert caller.lengths == [2, 4]


def test_an_answer_without_a_word_is_billed_and_leaves_the_question_open(caller):
    call = caller.ask("Hello.")
    caller.hear(call, "")
    assert caller.tracker.bill.total.calls == 1
    assert caller.ask("Hello.") is call


def test_the_same_words_with_other_parameters_are_asked_anew(caller):
    one, other = caller.ask("Hello."), caller.ask("Hello.", max_tokens=7)
    assert (one.tracked, other.fields()["max_tokens"]) == (other.tracked, 7)
    caller.hear(other, "Hi.")
    assert caller.lengths == [2]


def test_room_is_made_once_for_one_refusal(caller):
    call = caller.ask(*("A long word. " * 3000 if at % 2 == 0 else "Yes." for at in range(9)))
    other = caller.tracker.compact_after_overflow(call, nobody)
    assert other is not None
    assert len(other.body) < len(call.body)
    assert caller.tracker.compact_after_overflow(call, nobody) is other
    # A retry of the caller's is the request with room, byte for byte.
    assert caller.tracker.prepare(call.request, nobody) is other


def test_what_is_too_short_to_be_summarized_stays_refused(caller):
    assert caller.tracker.compact_after_overflow(caller.ask("Hello."), nobody) is None


def test_a_thread_is_held_here(caller):
    caller.hear(caller.ask("Hello.", system="S", thread={"type": "create"}), "Hi.")
    thread = {"type": "continue", "previous_message_id": "msg_Hi."}
    call = caller.ask("And?", thread=thread)
    assert caller.said(call) == ["Hello.", "Hi.", "And?"]
    assert call.fields()["system"][0]["text"] == "S"
    assert "thread" not in call.fields()
    again = caller.ask("Or?", thread=thread)
    assert caller.said(again) == ["Hello.", "Hi.", "Or?"]


def test_one_that_waits_for_its_answer_is_not_dropped():
    caller = Caller(limits={"conversations": 1})
    waiting = caller.ask("First.")
    for word in ("Second.", "Third."):
        caller.hear(caller.ask(word), "Yes.")
    caller.hear(waiting, "At last.")
    assert caller.lengths == [2]
    assert caller.said(caller.ask("First.", "At last.", "And?")) == ["First.", "At last.", "And?"]


def test_requests_that_are_never_answered_are_dropped_at_last():
    caller = Caller(limits={"conversations": 1})
    for number in range(9):
        caller.ask(f"Number {number}.")
    assert len(caller.lengths) == 4


@pytest.mark.parametrize("content", [b"", b"\0" * 99, b"{]\n", b'{"type":"user"}\n'])
def test_a_damaged_transcript_is_passed_over(tmp_path, content):
    caller = Caller(tmp_path)
    caller.hear(caller.ask("Hello."), "Hi.")
    caller.tracker.close()
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(content)
    other = Caller(tmp_path)
    assert other.said(other.ask("Hello.", "Hi.", "And?")) == ["Hello.", "Hi.", "And?"]
    assert [type(event) for event in other.events] == [TranscriptDamaged]


def test_of_several_files_the_one_that_knows_most_goes_on(tmp_path):
    caller = Caller(tmp_path)
    caller.hear(caller.ask("Hello."), "Hi.")
    caller.hear(caller.ask("Hello.", "Hi.", "And?"), "So.")
    caller.hear(caller.ask("Hello.", "Hi.", "Or?"), "No.")
    caller.hear(caller.ask("Hello.", "Hi.", "Or?", "No.", "But?"), "Yes.")
    caller.tracker.close()
    other = Caller(tmp_path)
    other.hear(other.ask("Hello.", "Hi.", "And?", "So.", "Why?"), "Because.")
    assert other.lengths == [6]
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_a_beginning_without_a_reply_of_ours_is_not_looked_for_on_disk(tmp_path):
    caller = Caller(tmp_path)
    caller.ask("Hello.", "(an example)", "And?")
    caller.tracker.close()
    other = Caller(tmp_path)
    other.ask("Hello.", "(an example)", "And?")
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_many_threads_hold_their_conversations_apart(tmp_path):
    caller = Caller(tmp_path)

    def hold(number):
        said = ["Hello."]
        for turn in range(6):
            call = caller.ask(*said)
            assert caller.said(call) == said
            caller.hear(call, f"{number} {turn}")
            said += [f"{number} {turn}", f"And {turn}?"]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, range(16)))
    assert [event for event in caller.events if isinstance(event, PassedThrough)] == []
    assert caller.tracker.bill.total.calls == 96
    caller.tracker.close()


def test_a_foreign_history_brings_no_bound_thinking(caller):
    think = {"type": "thinking", "thinking": "Hm.", "signature": "of another prefix"}
    history = [
        {"role": "user", "content": "Hello."},
        {"role": ASSISTANT, "content": [think, {"type": "text", "text": "Hi."}]},
        {"role": "user", "content": "And?"},
    ]
    for model, kinds in (("claude-opus-5-5", ["text"]), ("claude-opus-4-6", ["thinking", "text"])):
        body = {"model": model, "max_tokens": 99, "messages": history}
        sent = Caller().tracker.prepare(caller.tracker.read(body), nobody).fields()["messages"]
        assert [block["type"] for block in sent[1]["content"]] == kinds


def test_a_foreign_history_that_begins_without_thinking_brings_none_either(caller):
    think = {"type": "thinking", "thinking": "Hm.", "signature": "of another prefix"}
    said = (
        "one",
        [{"type": "text", "text": "without a thought"}],
        "two",
        [think, {"type": "text", "text": "with one"}],
        "three",
    )
    sent = caller.ask(*said, model="claude-opus-5-5").fields()["messages"]
    assert [block["type"] for message in sent for block in message["content"]] == ["text"] * 5


async def test_who_is_cancelled_while_files_are_read_wants_nothing_any_more(tmp_path):
    caller = Caller(tmp_path)
    began, may_go = Event(), Event()
    load_or_create = caller.tracker._recogniser._load_or_create

    def slow(request):
        began.set()
        may_go.wait()
        return load_or_create(request)

    caller.tracker._recogniser._load_or_create = slow
    body = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
    request = caller.tracker.read(body)
    task = asyncio.create_task(caller.tracker.prepare_async(request, nobody))
    await asyncio.to_thread(began.wait)
    task.cancel()
    await asyncio.wait([task])
    may_go.set()
    while not list(caller.tracker) or [tracked.users for tracked in caller.tracker] != [0]:
        await asyncio.sleep(0)
    assert task.cancelled()
    caller.tracker.close()


def test_a_conversation_that_never_fits_is_given_up(caller, monkeypatch):
    monkeypatch.setattr(
        "everturn.adapters.tracking.conversation.TrackedConversation.can_continue", lambda *_: False
    )
    with pytest.raises(StoreError, match="100 times"):
        caller.ask("Hello.")


def test_the_same_first_words_under_another_prompt_are_another_conversation(caller):
    one, other = caller.ask("Hello.", system="A"), caller.ask("Hello.", system="B")
    assert one.tracked is not other.tracked
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    assert caller.ask("Hello.", system="A", tools=tools).tracked is not one.tracked
    assert caller.ask("Hello.", system="A") is one


def test_a_fork_of_a_fork_keeps_thinking_that_fits(caller):
    think = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    bodies = []

    def talk(messages, name):
        body = {"model": "claude-opus-5-5", "max_tokens": 99, "messages": messages}
        call = caller.tracker.prepare(caller.tracker.read(body), nobody)
        bodies.append(call.fields()["messages"])
        content = [think, {"type": "text", "text": name}]
        said = {"id": name, "model": "claude-opus-5-5", "content": content, "usage": {"input_tokens": 9}}
        caller.tracker.record_response(call, RawResponse(msgspec.json.encode(said)))
        return [*messages, {"role": ASSISTANT, "content": content}]

    first = talk([{"role": "user", "content": "Hello."}], "one")
    for name in ("two", "three", "four"):
        talk([*first, {"role": "user", "content": f"And {name}?"}], name)
        talk([*first, {"role": "user", "content": f"And {name}?"}], f"{name} again")
    assert {body[1]["content"][0]["type"] for body in bodies[1:]} == {"thinking"}


def test_a_conversation_begins_while_another_one_is_read_from_its_file(tmp_path):
    before = Caller(tmp_path)
    before.hear(before.ask("Hello."), "Hi.")
    before.tracker.close()
    caller, reading, may_go_on = Caller(tmp_path), Event(), Event()
    load = caller.tracker._recogniser._load

    def slow(request, stored):
        reading.set()
        assert may_go_on.wait(20)
        return load(request, stored)

    caller.tracker._recogniser._load = slow
    with ThreadPoolExecutor(2) as pool:
        continued = pool.submit(caller.ask, "Hello.", "Hi.", "Go on.")
        assert reading.wait(20)
        begun = pool.submit(caller.ask, "Something else.")
        try:
            assert caller.said(begun.result(20)) == ["Something else."]
        finally:
            may_go_on.set()
        assert caller.said(continued.result(20)) == ["Hello.", "Hi.", "Go on."]
    assert caller.lengths == [1, 3]
    caller.tracker.close()


def test_nobody_can_record_a_reply_while_a_conversation_is_removed_from_memory(tmp_path):
    """What is recorded once the transcript is closed would be in no file."""
    caller = Caller(tmp_path)
    call = caller.ask("Hello.")
    keep, held = call.tracked.runner.keep_appended, []

    def keep_and_look():
        held.append(call.tracked.lock.is_held)
        keep()

    call.tracked.runner.keep_appended = keep_and_look
    assert caller.tracker.evict(call.tracked, even_awaiting=True)
    assert held == [True]
    caller.hear(call, "Hi there.")
    assert any("Hi there." in path.read_text() for path in tmp_path.glob("*.jsonl"))


def test_a_conversation_that_somebody_works_on_is_not_removed(caller):
    call = caller.ask("Hello.")
    with call.tracked.lock.acquire():
        assert not caller.tracker.evict(call.tracked, even_awaiting=True)
    assert caller.tracker.evict(call.tracked, even_awaiting=True)


def test_our_own_wish_to_keep_thinking_follows_the_thinking_of_each_request():
    """The first request decides nothing for later ones."""
    caller = Caller(micro={"declarative": {"enabled": True}})
    plain, thinking = (
        caller.ask("Hello."),
        caller.ask("Hi.", thinking={"type": "enabled", "budget_tokens": 1_024}),
    )
    shown = [each.tracked.runner.conversation.setting.model.keeps_thinking for each in (plain, thinking)]
    asked = ["context_management" in each.fields() for each in (plain, thinking)]
    assert (shown, asked) == ([False, True], [False, True])
