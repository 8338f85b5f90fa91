import json

import pytest

OPUS = "claude-opus-5-5"
HEADERS = {
    "x-api-key": "k",
    "anthropic-version": "2026-10-21",
    "anthropic-beta": "message-threads-2026-08-12",
}
LONG = "The log only grows, and the view is computed from it. " * 300


def send(twin, *texts, thread, key="k", **fields):
    messages = [{"role": "user", "content": text} for text in texts]
    body = {"model": OPUS, "max_tokens": 2000, "messages": messages, "thread": thread} | fields
    answer = twin.twin.messages(HEADERS | {"x-api-key": key}, json.dumps(body).encode())
    return json.loads(answer.body)


def follow(message):
    return {"type": "continue", "previous_message_id": message["id"]}


def code(answer):
    return answer["error"]["details"]["error_code"]


CREATE = {"type": "create"}


def test_a_continued_thread_costs_what_the_whole_conversation_costs(twin):
    twin.script("First.", "Second.", "First.", "Second.")
    first = send(twin, "Hello", thread=CREATE, system="Be brief.")
    second = send(twin, "Go on.", thread=follow(first))
    whole = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": "Go on."},
    ]
    body = {"model": OPUS, "max_tokens": 2000, "messages": whole, "system": "Be brief."}
    alone = json.loads(twin.twin.messages(HEADERS, json.dumps(body).encode()).body)
    assert second["usage"] == alone["usage"]


def test_a_continued_thread_reads_the_cache_that_it_wrote(twin):
    cached = {"cache_control": {"type": "ephemeral"}}
    first = send(twin, LONG, thread=CREATE, **cached)
    second = send(twin, "Go on.", thread=follow(first), **cached)
    assert second["usage"]["cache_read_input_tokens"] == first["usage"]["cache_creation_input_tokens"] > 0


def test_a_thread_is_continued_once(twin):
    first = send(twin, "Hello", thread=CREATE)
    second = send(twin, "Go on.", thread=follow(first))
    assert code(send(twin, "Once more.", thread=follow(first))) == "thread_already_continued"
    assert send(twin, "And on.", thread=follow(second))["type"] == "message"


def test_a_failed_continuation_does_not_use_up_the_thread(twin):
    first = send(twin, "Hello", thread=CREATE)
    assert send(twin, "", thread=follow(first))["type"] == "error"
    assert send(twin, "Go on.", thread=follow(first))["type"] == "message"


@pytest.mark.parametrize(("seconds", "kind"), [(300, "message"), (301, "error")])
def test_a_thread_is_stored_for_five_minutes(twin, seconds, kind):
    first = send(twin, "Hello", thread=CREATE)
    twin.advance(seconds)
    assert send(twin, "Go on.", thread=follow(first))["type"] == kind


def test_a_thread_belongs_to_its_workspace_and_to_requests_that_asked_for_one(twin):
    first = send(twin, "Hello", thread=CREATE)
    assert code(send(twin, "Go on.", thread=follow(first), key="other")) == "thread_not_found"
    plain = send(twin, "Hello", thread=None)
    assert code(send(twin, "Go on.", thread=follow(plain))) == "thread_not_found"


def test_system_and_tools_of_a_thread_cannot_change(twin):
    first = send(twin, "Hello", thread=CREATE, system="Be brief.")
    assert (
        code(send(twin, "Go on.", thread=follow(first), system="Be long.")) == "thread_fingerprint_mismatch"
    )
    assert send(twin, "Go on.", thread=follow(first), system="Be brief.")["type"] == "message"


def test_a_breakpoint_applies_only_to_the_request_that_set_it(twin):
    text = {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}
    message = send(twin, [text], thread=CREATE)
    for _ in range(5):
        message = send(twin, [text], thread=follow(message))
        assert message["type"] == "message"


def test_the_sdk_holds_a_conversation_in_a_thread(twin):
    twin.script("One.", "Two.", "Three.")
    thread = twin.client().beta.messages.thread(model=OPUS, max_tokens=2000)
    replies = [thread.send({"role": "user", "content": text}).content[0].text for text in ("a", "b", "c")]
    assert replies == ["One.", "Two.", "Three."]
    assert [entry["status"] for entry in twin.ledger] == [200, 200, 200]
