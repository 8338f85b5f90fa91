"""The official SDK, unchanged, against the twin in this process (TW-1)."""

import subprocess
import sys

import anthropic
import httpx2
import pytest
from anthropic import beta_tool

from everturn.twin.testing import TwinForTests

OPUS = "claude-opus-5-5"
HELLO = [{"role": "user", "content": "Hello"}]
ASK = {"model": OPUS, "max_tokens": 2000, "messages": HELLO}
LONG = "The engine keeps a log of all that happened. " * 400
CALL = {"content": [{"type": "tool_use", "name": "weather", "input": {"city": "Paris"}}]}


def said(message):
    return "".join(block.text for block in message.content if block.type == "text")


@beta_tool
def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Where.
    """
    return f"It rains in {city}."


@pytest.mark.spec("TW-1")
def test_a_plain_message(twin):
    twin.script("Hello, friend.")
    message = twin.client().messages.create(**ASK)
    assert (said(message), message.stop_reason, message.model) == ("Hello, friend.", "end_turn", OPUS)
    assert message.usage.input_tokens > 0


@pytest.mark.spec("TW-1")
async def test_a_plain_message_async(twin):
    twin.script("Hello, friend.")
    assert said(await twin.async_client().messages.create(**ASK)) == "Hello, friend."


REPLIES = [
    "Plain words, some of them rather short and some of them long enough to be cut.",
    {
        "content": [
            {"type": "thinking", "thinking": "Let me think about this"},
            {"type": "text", "text": "Done."},
        ]
    },
    CALL,
    {
        "content": [
            {"type": "text", "text": "Two calls."},
            *CALL["content"],
            {"type": "tool_use", "name": "now"},
        ]
    },
]


@pytest.mark.spec("TW-1")
@pytest.mark.parametrize("reply", REPLIES)
def test_a_stream_gives_the_same_message_as_a_plain_request(reply):
    plain, streaming = TwinForTests(), TwinForTests()
    for one in (plain, streaming):
        one.script(reply)
    whole = plain.client().messages.create(**ASK)
    with streaming.client().messages.stream(**ASK) as stream:
        together = stream.get_final_message()
    drop = {"content": {"__all__": {"parsed_output"}}}
    assert together.model_dump(exclude=drop) == whole.model_dump()


TALK = [
    {"role": "user", "content": LONG * 9},
    {"role": "assistant", "content": "Understood."},
    {"role": "user", "content": "Go on."},
]
COMPACT = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
MANAGED = [
    {"betas": ["compact-2026-09-04"], "compaction": {"type": "summarize"}},
    {"betas": ["compact-2026-01-12"], "context_management": {"edits": [COMPACT]}},
    {
        "betas": ["compact-2026-01-12"],
        "context_management": {"edits": [COMPACT | {"pause_after_compaction": True}]},
    },
    {
        "betas": ["context-management-2025-06-27"],
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "diagnostics": {"previous_message_id": None},
    },
]


@pytest.mark.spec("TW-1")
@pytest.mark.parametrize("fields", MANAGED)
def test_a_beta_stream_gives_the_same_message_too(fields):
    ask = {"model": OPUS, "max_tokens": 2000, "messages": TALK} | fields
    whole = TwinForTests().client().beta.messages.create(**ask)
    with TwinForTests().client().beta.messages.stream(**ask) as stream:
        together = stream.get_final_message()
    drop = {"content": {"__all__": {"parsed_output"}}}
    assert together.model_dump(exclude=drop) == whole.model_dump()
    assert (whole.content[0].type == "compaction") is ("clear" not in str(fields))


@pytest.mark.spec("TW-1")
async def test_streaming_helpers_async(twin):
    twin.script("One two three four five six.")
    async with twin.async_client().messages.stream(**ASK) as stream:
        texts = [text async for text in stream.text_stream]
        assert (await stream.get_final_message()).stop_reason == "end_turn"
    assert ("".join(texts), len(texts) > 1) == ("One two three four five six.", True)


@pytest.mark.spec("TW-1")
def test_raw_events_come_in_the_order_of_the_api(twin):
    twin.script({"content": [{"type": "thinking", "thinking": "Hm"}, *CALL["content"]]})
    kinds = [event.type for event in twin.client().messages.create(**ASK, stream=True)]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert [kind for kind in kinds if "block_st" in kind] == ["content_block_start", "content_block_stop"] * 2


@pytest.mark.spec("TW-1")
def test_counting_and_models(twin):
    client = twin.client()
    counted = client.messages.count_tokens(model=OPUS, messages=HELLO).input_tokens
    assert counted == client.messages.create(**ASK).usage.input_tokens
    assert client.beta.messages.count_tokens(model=OPUS, messages=HELLO).input_tokens == counted
    assert OPUS in [model.id for model in client.models.list()]
    assert client.models.retrieve(OPUS).max_input_tokens == 1_000_000
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("claude-nope")


@pytest.mark.spec("TW-1")
def test_a_growing_conversation_reads_what_it_wrote(twin):
    client, messages = twin.client(), [{"role": "user", "content": LONG}]
    seen = []
    for _ in range(3):
        reply = client.messages.create(
            model=OPUS, max_tokens=2000, messages=messages, cache_control={"type": "ephemeral"}
        )
        seen.append((reply.usage.cache_read_input_tokens, reply.usage.cache_creation_input_tokens))
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "Go on."}]
    assert seen[0][0] == 0
    assert [read for read, _ in seen[1:]] == [read + written for read, written in seen[:-1]]


@pytest.mark.spec("TW-9")
def test_a_cache_entry_lives_for_five_minutes_but_not_for_six(twin):
    client = twin.client()
    ask = ASK | {"messages": [{"role": "user", "content": LONG}], "cache_control": {"type": "ephemeral"}}

    def read_after(seconds):
        twin.advance(seconds)
        return client.messages.create(**ask).usage.cache_read_input_tokens > 0

    assert [read_after(seconds) for seconds in (0, 300, 300, 301)] == [False, True, True, False]


@pytest.mark.spec("TW-1")
def test_the_tool_runner_runs_the_tools_that_the_script_calls(twin):
    twin.script(CALL, "It rains.")
    runner = twin.client().beta.messages.tool_runner(**ASK, tools=[weather])
    assert [message.stop_reason for message in runner] == ["tool_use", "end_turn"]


@pytest.mark.spec("TW-1", "TW-8")
def test_the_tool_runner_ends_with_the_rule_based_agent(twin):
    runner = twin.client().beta.messages.tool_runner(**ASK, tools=[weather])
    assert said(runner.until_done())


@pytest.mark.spec("TW-1")
@pytest.mark.parametrize("stream", [False, True])
def test_the_tool_runner_compacts_before_its_next_turn(twin, stream):
    twin.script(CALL, CALL, "It rains in both.")
    runner = twin.client().beta.messages.tool_runner(
        **ASK, tools=[weather], betas=["compact-2026-09-04"], stream=stream
    )
    reasons = []
    for turn in runner:
        message = turn.get_final_message() if stream else turn
        reasons.append(message.stop_reason)
        if len(reasons) == 1:
            runner.compact_before_next_turn()
    assert reasons == ["tool_use", "compaction", "tool_use", "end_turn"]


@pytest.mark.spec("TW-1")
async def test_the_async_tool_runner_compacts_too(twin):
    from anthropic import beta_async_tool

    @beta_async_tool
    async def weather(city: str) -> str:
        """The weather in a city."""
        return f"It rains in {city}."

    twin.script(CALL, "It rains.")
    runner = twin.async_client().beta.messages.tool_runner(
        **ASK, tools=[weather], betas=["compact-2026-09-04"]
    )
    reasons = []
    async for message in runner:
        reasons.append(message.stop_reason)
        if len(reasons) == 1:
            runner.compact_before_next_turn()
    assert reasons == ["tool_use", "compaction", "end_turn"]


@pytest.mark.spec("TW-10")
@pytest.mark.parametrize("kind", ["empty_summary", "refusing_summary", "tool_calling_summary"])
def test_a_failed_compaction_leaves_the_runner_as_it_was(twin, kind):
    twin.script(CALL, "It rains.")
    twin.faults(kind)
    runner = twin.client().beta.messages.tool_runner(**ASK, tools=[weather], betas=["compact-2026-09-04"])
    runner.compact_before_next_turn()
    replies = [(message.stop_reason, len(message.content)) for message in runner]
    assert replies[-1] == ("end_turn", 1)
    assert twin.ledger[-1]["status"] == 200


# ── faults ───────────────────────────────────────────────────────────────────────────────────────

# The SDK really waits before a retry, so no header makes it wait longer than its first delay.
QUICK = {"retry-after-ms": "1"}


@pytest.mark.spec("TW-1", "TW-10")
@pytest.mark.parametrize("kind", ["rate_limit", "overloaded", "server_error", "timeout"])
def test_the_sdk_retries_temporary_errors(twin, kind):
    twin.faults({"kind": kind, "times": 2, "headers": QUICK})
    twin.script("After all.")
    assert said(twin.client().messages.create(**ASK)) == "After all."
    assert len(twin.ledger) == 3


@pytest.mark.spec("TW-10")
async def test_the_async_sdk_retries_temporary_errors(twin):
    twin.faults({"kind": "overloaded", "times": 2, "headers": QUICK})
    twin.script("After all.")
    assert said(await twin.async_client().messages.create(**ASK)) == "After all."


@pytest.mark.spec("TW-1", "TW-10")
def test_the_tool_runner_retries_an_overloaded_compaction(twin):
    twin.script(CALL, "It rains.")
    twin.faults({"kind": "overloaded", "endpoint": "compaction", "times": 2, "headers": QUICK})
    runner = twin.client().beta.messages.tool_runner(**ASK, tools=[weather], betas=["compact-2026-09-04"])
    reasons = []
    for message in runner:
        reasons.append(message.stop_reason)
        if len(reasons) == 1:
            runner.compact_before_next_turn()
    assert reasons == ["tool_use", "compaction", "end_turn"]
    assert [entry["status"] for entry in twin.ledger] == [200, 529, 529, 200, 200]


def test_the_sdk_retries_a_closed_connection(twin):
    twin.faults({"kind": "timeout", "hangs_up": True, "delay_s": 5})
    assert said(twin.client().messages.create(**ASK))


@pytest.mark.spec("TW-10")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("rate_limit", anthropic.RateLimitError),
        ("overloaded", anthropic.InternalServerError),
        ("server_error", anthropic.InternalServerError),
        ("request_too_large", anthropic.APIStatusError),
        ("prompt_too_long", anthropic.BadRequestError),
        ("garbage", ValueError),
        ("cut_stream", anthropic.APIConnectionError),
        ("stream_error", anthropic.InternalServerError),
        ({"kind": "slow_first_byte", "delay_s": 700}, anthropic.APITimeoutError),
    ],
)
def test_each_fault_reaches_the_client_as_its_error(twin, fault, error):
    twin.faults(fault)
    client = twin.client(max_retries=0)
    with pytest.raises(error):
        client.messages.create(**ASK)
    assert said(client.messages.create(**ASK))


@pytest.mark.spec("TW-10")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("cut_stream", httpx2.RemoteProtocolError),
        ("stream_error", anthropic.APIStatusError),
        ("garbage", Exception),
        ({"kind": "slow_stream", "delay_s": 700}, httpx2.ReadTimeout),
    ],
)
def test_a_faulty_stream_raises_in_the_client(twin, fault, error):
    twin.faults(fault)
    with pytest.raises(error), twin.client().messages.stream(**ASK) as stream:
        stream.get_final_message()


@pytest.mark.spec("TW-10")
def test_a_rate_limit_has_a_retry_after_header_unless_told_otherwise(twin):
    client = twin.client(max_retries=0)
    twin.faults(
        "rate_limit", {"kind": "rate_limit", "retry_after": None}, {"kind": "rate_limit", "retry_after": 7}
    )
    waits = []
    for _ in range(3):
        with pytest.raises(anthropic.RateLimitError) as limited:
            client.messages.create(**ASK)
        waits.append(limited.value.response.headers.get("retry-after"))
    assert waits == ["1", None, "7"]


@pytest.mark.spec("TW-10")
def test_a_lost_cache_is_written_again(twin):
    client = twin.client()
    ask = ASK | {"messages": [{"role": "user", "content": LONG}], "cache_control": {"type": "ephemeral"}}
    written = client.messages.create(**ask).usage.cache_creation_input_tokens
    twin.faults("lost_cache")
    again = client.messages.create(**ask).usage
    assert (again.cache_read_input_tokens, again.cache_creation_input_tokens) == (0, written)
    assert client.messages.create(**ask).usage.cache_read_input_tokens == written


@pytest.mark.spec("TW-9", "TW-10")
def test_delays_pass_in_virtual_time(twin):
    twin.faults({"kind": "slow_first_byte", "delay_s": 60}, {"kind": "slow_stream", "delay_s": 2})
    before = twin.twin.clock.now()
    twin.client().messages.create(**ASK)
    assert (twin.twin.clock.now() - before).total_seconds() == 60
    with twin.client().messages.stream(**ASK) as stream:
        count = sum(1 for _ in stream._raw_stream)
    assert (twin.twin.clock.now() - before).total_seconds() >= 60 + 2 * count


def test_refused_requests_and_counts_use_up_no_reply_and_no_fault(twin):
    twin.script("Kept.")
    twin.faults({"kind": "overloaded", "headers": QUICK})
    client = twin.client(max_retries=0)
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model=OPUS, max_tokens=2000, messages=[])
    client.messages.count_tokens(model=OPUS, messages=HELLO)
    with pytest.raises(anthropic.InternalServerError):
        client.messages.create(**ASK)
    assert said(client.messages.create(**ASK)) == "Kept."


def test_cache_entries_of_a_delayed_response_can_be_read_once_it_has_started(twin):
    ask = ASK | {"messages": [{"role": "user", "content": LONG}], "cache_control": {"type": "ephemeral"}}
    twin.faults({"kind": "slow_first_byte", "delay_s": 20})
    written, read = (twin.client().messages.create(**ask).usage for _ in range(2))
    assert read.cache_read_input_tokens == written.cache_creation_input_tokens > 0


async def test_cache_entries_of_a_delayed_response_can_be_read_async_too(twin):
    ask = ASK | {"messages": [{"role": "user", "content": LONG}], "cache_control": {"type": "ephemeral"}}
    twin.faults({"kind": "slow_first_byte", "delay_s": 20})
    written, read = [(await twin.async_client().messages.create(**ask)).usage for _ in range(2)]
    assert read.cache_read_input_tokens == written.cache_creation_input_tokens > 0


def test_a_fault_can_name_count_tokens(twin):
    twin.faults({"kind": "slow_first_byte", "endpoint": "count_tokens", "delay_s": 700}, "overloaded")
    with pytest.raises(anthropic.APITimeoutError):
        twin.client(max_retries=0).messages.count_tokens(model=OPUS, messages=HELLO)
    assert twin.client(max_retries=0).messages.count_tokens(model=OPUS, messages=HELLO).input_tokens > 0


@pytest.mark.spec("TW-8")
def test_scripted_thinking_is_signed_and_comes_back_valid(twin):
    twin.script({"content": [{"type": "thinking", "thinking": "Hm."}, *CALL["content"]]}, "It rains.")
    runner = twin.client().beta.messages.tool_runner(**ASK, tools=[weather])
    first, last = list(runner)
    assert first.content[0].signature
    assert said(last) == "It rains."


@pytest.mark.spec("BY-1")
def test_caching_billing_expiry_failure_and_compaction_can_be_tried_with_no_network(twin):
    client = twin.client(max_retries=1)
    marked = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    ask = {**ASK, "system": marked}
    twin.faults({"kind": "overloaded", "times": 1})
    cold = client.messages.create(**ask).usage
    warm = client.messages.create(**ask).usage
    twin.advance(301)
    expired = client.messages.create(**ask).usage
    summary = client.beta.messages.create(
        **ASK, compaction={"type": "summarize"}, betas=["compact-2026-09-04"]
    )
    written = cold.cache_creation_input_tokens
    assert [usage.cache_read_input_tokens for usage in (cold, warm, expired)] == [0, written, 0]
    assert expired.cache_creation_input_tokens == written > 0
    assert [entry["status"] for entry in twin.ledger] == [529, 200, 200, 200, 200]
    paid = [entry["dollars"] for entry in twin.ledger]
    assert paid[0] == 0 < paid[2] < paid[1]
    assert [block.type for block in summary.content] == ["compaction"]


def test_twin_for_tests_works_without_pytest():
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from everturn.twin.testing import TwinForTests\n"
        "box = TwinForTests(); box.script('Here.')\n"
        "asked = [{'role': 'user', 'content': 'Where?'}]\n"
        "said = box.client().messages.create(model='claude-haiku-4-5', max_tokens=9, messages=asked)\n"
        "print(said.content[0].text); box.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("Here.\n", "")


def test_a_stream_that_the_client_leaves_early_uses_up_no_scripted_reply(twin):
    twin.script("One. " * 40, "Two.")
    client = twin.client()
    for _ in range(2):
        with client.messages.stream(**ASK) as stream:
            next(iter(stream))
    assert said(client.messages.create(**ASK)) == "One. " * 40
    assert said(client.messages.create(**ASK)) == "Two."


async def test_an_async_stream_that_the_client_leaves_early_uses_up_no_scripted_reply(twin):
    twin.script("One. " * 40, "Two.")
    client = twin.async_client()
    async with client.messages.stream(**ASK) as stream:
        await anext(aiter(stream))
    replies = [said(await client.messages.create(**ASK)) for _ in range(2)]
    assert replies == ["One. " * 40, "Two."]


def test_a_timeout_of_the_client_uses_up_no_scripted_reply(twin):
    twin.script("One.", "Two.")
    twin.faults({"kind": "slow_first_byte", "delay_s": 700})
    client = twin.client(max_retries=0)
    with pytest.raises(anthropic.APITimeoutError):
        client.messages.create(**ASK)
    assert [said(client.messages.create(**ASK)) for _ in range(2)] == ["One.", "Two."]
