"""Replies that end with their thinking: `max_tokens` was reached before anything was said.

Such a reply may have nothing else to be recognised by. Whether the caller sends it back, leaves it out, or
asks again, it is sent as the caller has it, and never twice.
"""

import asyncio

import pytest

OPUS = "claude-opus-4-8"
# Models that keep the thinking of earlier turns; the last one binds it to its prompt.
KEEPING = [OPUS, "claude-opus-5", "claude-sonnet-4-6", "claude-opus-5-5"]
THINKING = {"thinking": {"type": "adaptive"}, "max_tokens": 2_000}
CUT = {"content": [{"type": "thinking", "thinking": "Let me think."}], "stop_reason": "max_tokens"}
REDACTED = {"content": [{"type": "redacted_thinking", "data": "cmVkYWN0ZWQ="}], "stop_reason": "max_tokens"}
TWICE = {
    "content": [
        {"type": "text", "text": "I look at it."},
        {"type": "thinking", "thinking": "Hm."},
    ],
    "stop_reason": "max_tokens",
}


def user(words):
    return {"role": "user", "content": words}


def create(bench, messages, model):
    return bench.ask(messages, model=model, **THINKING)


def stream(bench, messages, model):
    with bench.client.messages.stream(model=model, messages=messages, **THINKING) as events:
        return events.get_final_message()


def create_async(bench, messages, model):
    return asyncio.run(bench.async_client.messages.create(model=model, messages=messages, **THINKING))


def plain(message):
    """A message as it is sent, without breakpoints and nulls."""
    blocks = message["content"]
    blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
    given = [each if isinstance(each, dict) else each.model_dump(mode="json") for each in blocks]
    return message["role"], [
        {name: value for name, value in each.items() if value is not None and name != "cache_control"}
        for each in given
    ]


def last_sent(bench):
    return [plain(message) for message in bench.sent[-1]["messages"]]


def begin(bench, script=CUT, model=OPUS, ask=create):
    """Two questions; the second one is answered by the script. Returns the list with both answers."""
    messages = bench.talk([], "What matters?", model=model, **THINKING)
    messages = [*messages, user("And what else?")]
    bench.twin.script(script)
    return [*messages, {"role": "assistant", "content": ask(bench, messages, model).content}]


@pytest.mark.parametrize("ask", [create, stream, create_async], ids=lambda each: each.__name__)
@pytest.mark.parametrize("model", KEEPING)
def test_a_reply_that_is_only_thinking_comes_back_and_is_sent_once(bench, model, ask):
    messages = [*begin(bench, model=model, ask=ask), user("Go on.")]
    ask(bench, messages, model)
    assert last_sent(bench) == [plain(each) for each in messages]
    assert [each.messages for each in bench.middleware.conversations] == [6]
    bench.check()


@pytest.mark.parametrize("script", [REDACTED, TWICE], ids=["redacted", "behind a text"])
def test_any_thinking_at_the_end_of_a_reply_is_sent_once(bench, script):
    messages = [*begin(bench, script), user("Go on.")]
    create(bench, messages, OPUS)
    assert last_sent(bench) == [plain(each) for each in messages]
    assert [each.messages for each in bench.middleware.conversations] == [6]
    bench.check()


@pytest.mark.parametrize("script", [CUT, REDACTED, TWICE], ids=["thinking", "redacted", "behind a text"])
def test_a_reply_that_ends_with_thinking_is_known_after_a_restart(bench, script):
    messages = [*begin(bench, script), user("Go on.")]
    bench.restart()
    create(bench, messages, OPUS)
    assert last_sent(bench) == [plain(each) for each in messages]
    assert len(bench.transcripts) == 1
    bench.check()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_reply_that_is_only_thinking_may_be_left_out_of_the_list(bench, restarts):
    messages = begin(bench)[:-1]
    if restarts:
        bench.restart()
    create(bench, [*messages, user("Go on.")], OPUS)
    joined = ("user", [*plain(messages[-1])[1], {"type": "text", "text": "Go on."}])
    assert last_sent(bench) == [*map(plain, messages[:-1]), joined]
    bench.check()


@pytest.mark.parametrize("restarts", [False, True])
def test_the_question_that_got_only_thinking_is_asked_again_without_it(bench, restarts):
    messages = begin(bench)[:-1]
    if restarts:
        bench.restart()
    reply = create(bench, messages, OPUS)
    assert last_sent(bench) == [plain(each) for each in messages]
    messages = [*messages, {"role": "assistant", "content": reply.content}, user("Go on.")]
    create(bench, messages, OPUS)
    assert last_sent(bench) == [plain(each) for each in messages]
    bench.check()


def test_a_compaction_survives_a_reply_that_is_only_thinking(benches):
    bench, messages = benches(window=40_000), []
    for number in range(14):
        messages.append(user(f"Question {number}: " + f"word{number} " * 2_000))
        if number in (6, 10):
            bench.twin.script(CUT)
        reply = create(bench, messages, "claude-opus-5-5")
        messages.append({"role": "assistant", "content": reply.content})
    (conversation,) = bench.middleware.conversations
    assert conversation.messages == 28
    assert conversation.compactions > 0
    bench.check()


def test_each_block_of_a_reply_may_come_back_as_a_message(bench):
    messages = begin(bench, {"content": [*CUT["content"], {"type": "text", "text": "It is done."}]})
    reply = messages.pop()
    divided = [{"role": "assistant", "content": [block]} for block in reply["content"]]
    create(bench, [*messages, *divided, user("Go on.")], OPUS)
    assert last_sent(bench) == [plain(each) for each in [*messages, reply, user("Go on.")]]
    assert len(bench.middleware.conversations) == 1
    bench.check()


def test_the_thinking_of_earlier_turns_is_replaced_where_the_model_is_not_shown_it(bench):
    more = {"model": "claude-haiku-4-5", "thinking": {"type": "enabled", "budget_tokens": 1_024}}
    messages = [user("What matters?")]
    bench.twin.script(CUT)
    reply = bench.ask(messages, **more, max_tokens=2_000)
    messages = [*messages, {"role": "assistant", "content": reply.content}, user("Go on.")]
    bench.ask(messages, **more, max_tokens=2_000)
    placeholder = {"type": "text", "text": "[The thinking of this turn is not shown]"}
    assert last_sent(bench) == [plain(messages[0]), ("assistant", [placeholder]), plain(messages[2])]
    bench.check()
