"""`count_tokens` counts what everturn would send for a list, and changes nothing."""

import asyncio

import anthropic
import pytest

from everturn.adapters.tracking import PassedThrough

# Binds thinking to the prompt: after a compaction, the API refuses the caller's own list.
OPUS = "claude-opus-5-5"
NEXT = {"role": "user", "content": "Go on."}


@pytest.fixture
def bench(benches):
    return benches(window=40_000)


def talk(bench, questions=14, model=OPUS):
    """A conversation that was compacted, with another question."""
    messages = []
    for number in range(questions):
        said = f"Question {number}: " + f"word{number} " * 2_000
        messages = bench.talk(messages, said, model=model, max_tokens=2_000)
    return [*messages, NEXT]


def count(bench, messages, **more):
    return bench.client.messages.count_tokens(model=OPUS, messages=messages, **more).input_tokens


def count_beta(bench, messages):
    return bench.client.beta.messages.count_tokens(model=OPUS, messages=messages).input_tokens


def count_raw(bench, messages):
    raw = bench.client.messages.with_raw_response.count_tokens(model=OPUS, messages=messages)
    return raw.parse().input_tokens


def count_async(bench, messages):
    client = bench.async_client
    return asyncio.run(client.messages.count_tokens(model=OPUS, messages=messages)).input_tokens


def count_beta_async(bench, messages):
    client = bench.async_client
    return asyncio.run(client.beta.messages.count_tokens(model=OPUS, messages=messages)).input_tokens


def prompt_of_last_call(bench):
    usage = bench.twin.ledger[-1]["usage"]
    read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    return usage["input_tokens"] + read + written


WAYS = [count, count_beta, count_raw, count_async, count_beta_async]


@pytest.mark.parametrize("way", WAYS, ids=lambda each: each.__name__)
def test_a_count_after_a_compaction_is_that_of_the_request_that_follows(bench, way):
    messages = talk(bench)
    before = [(each.id, each.messages, each.compactions) for each in bench.middleware.conversations]
    counted = way(bench, messages)
    assert [(each.id, each.messages, each.compactions) for each in bench.middleware.conversations] == before
    assert before[0][2] > 0
    bench.ask(messages, model=OPUS, max_tokens=2_000)
    assert counted == prompt_of_last_call(bench)
    bench.check()


def test_a_count_after_a_restart_is_that_of_the_request_that_follows(bench):
    messages = talk(bench)
    bench.restart()
    counted = count(bench, messages)
    assert list(bench.middleware.conversations) == []
    bench.ask(messages, model=OPUS, max_tokens=2_000)
    assert counted == prompt_of_last_call(bench)
    assert len(bench.transcripts) == 1
    bench.check()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_count_writes_nothing(bench, restarts):
    messages = talk(bench)
    if restarts:
        bench.restart()
    paths = [path for path in bench.folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    before = {path: path.read_bytes() for path in paths}
    records = [len(each.records) for each in bench.middleware.tracker]
    count(bench, messages)
    count(bench, [*messages[:-3], {"role": "user", "content": "Another question."}])
    assert {path: path.read_bytes() for path in paths} == before
    assert [len(each.records) for each in bench.middleware.tracker] == records
    assert len(bench.transcripts) == 1
    bench.check()


def test_an_edited_list_is_counted_with_the_summary_that_its_request_will_have(benches):
    bench = benches()
    messages = talk(bench, questions=6)
    bench.middleware.compact()
    messages = bench.talk(messages[:-1], "Go on.", "And then?", model=OPUS, max_tokens=2_000)
    edited = [*messages[:-2], {"role": "user", "content": "Another question."}]
    counted = count(bench, edited)
    bench.ask(edited, model=OPUS, max_tokens=2_000)
    assert counted == prompt_of_last_call(bench)
    assert [each.compactions for each in bench.middleware.conversations] == [1, 1]
    bench.check()


def test_an_unknown_list_is_counted_as_it_came(bench):
    messages = [{"role": "user", "content": [{"type": "text", "text": "Who are you?"}]}]
    request = {"model": OPUS, "messages": messages, "system": "Be brief."}
    bench.client.messages.count_tokens(**request)
    assert bench.sent == [request]
    assert list(bench.middleware.conversations) == []
    assert bench.middleware.unsupported == {}


def test_the_other_fields_of_a_count_stay_as_they_came(bench):
    messages = talk(bench, questions=2)
    tools = [{"name": "look", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}]
    more = {"system": "Be brief.", "tools": tools, "thinking": {"type": "adaptive"}}
    bench.client.messages.count_tokens(model=OPUS, messages=messages, **more)
    sent = bench.sent[-1]
    del sent["messages"]
    assert sent == {"model": OPUS, **more}


@pytest.mark.parametrize("way", [count, count_async], ids=lambda each: each.__name__)
def test_thinking_that_the_api_would_refuse_is_not_counted(benches, way):
    """The list comes from another process that kept nothing, and was compacted there."""
    messages = talk(benches(window=40_000, folder_name="elsewhere"))
    bench = benches(window=40_000)
    assert way(bench, messages) > 10_000
    kinds = {block["type"] for message in bench.sent[-1]["messages"] for block in message["content"]}
    assert kinds == {"text"}
    assert [event for event in bench.events if isinstance(event, PassedThrough)] == []


@pytest.mark.parametrize("way", [count, count_async], ids=lambda each: each.__name__)
def test_a_count_that_is_wrong_in_itself_gets_the_answer_to_the_callers_own_list(bench, way):
    messages = talk(bench, questions=2)
    broken = [*messages, {"role": "assistant", "content": [{"type": "nonsense"}]}]
    with pytest.raises(anthropic.BadRequestError):
        way(bench, broken)
    sent = bench.sent[-1]["messages"]
    assert (len(sent), sent[-1]) == (len(broken), broken[-1])


def test_a_count_is_sent_as_it_came_if_everturn_fails(bench, monkeypatch):
    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(bench.middleware.tracker, "plan_count", fail)
    request = {"model": OPUS, "messages": [NEXT]}
    bench.client.messages.count_tokens(**request)
    assert bench.sent == [request]
    assert [event.why for event in bench.events if isinstance(event, PassedThrough)] == [
        "everturn failed; the caller's list was counted as it came"
    ]


async def test_conversations_that_count_at_the_same_time_stay_apart(bench):
    async def hold(name):
        messages, client = [], bench.async_client.messages
        for number in range(8):
            messages.append({"role": "user", "content": f"{name} {number}: " + f"word{number} " * 2_500})
            counted = await client.count_tokens(model=OPUS, messages=messages)
            reply = await client.create(model=OPUS, max_tokens=2_000, messages=messages)
            assert counted.input_tokens > 0
            messages.append({"role": "assistant", "content": reply.content})

    names = ["Anna", "Boris", "Clara"]
    await asyncio.gather(*map(hold, names))
    told = [[name for name in names if name in str(body["messages"])] for body in bench.sent]
    assert {len(each) for each in told} == {1}
    assert [each.messages for each in bench.middleware.conversations] == [16, 16, 16]
    assert all(each.compactions for each in bench.middleware.conversations)
    bench.check()
