"""What leaves the SDK, byte for byte: what was recorded, as it was recorded."""

import asyncio
import json

import anthropic
import httpx2
import pytest

import everturn
from everturn.adapters.anthropic_sdk.sdk_requests import takes_bytes
from everturn.twin.transport import AsyncTwinTransport, TwinTransport

HAIKU = "claude-haiku-4-5"
CALL = b'{"type":"tool_use","id":"toolu_1","name":"read","input":{"n":1e5,"s":"caf\\u00e9"}}'
REPLY = (
    b'{"id":"msg_1","type":"message","role":"assistant","model":"claude-haiku-4-5","content":[%b],' % CALL
    + (b'"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":9}}')
)
TOOLS = [{"name": "read", "input_schema": {"type": "object"}}]


class Wire:
    """Answers the first request with a reply that nobody would spell like that; keeps what was sent."""

    def __init__(self, twin):
        self.twin = twin
        self.sent = []

    def answer(self, body):
        self.sent.append(body)
        if len(self.sent) > 1:
            return None
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=REPLY)


class Sync(Wire, TwinTransport):
    def __init__(self, twin):
        TwinTransport.__init__(self, twin)
        Wire.__init__(self, twin)

    def handle_request(self, request):
        return self.answer(request.read()) or super().handle_request(request)


class Async(Wire, AsyncTwinTransport):
    def __init__(self, twin):
        AsyncTwinTransport.__init__(self, twin)
        Wire.__init__(self, twin)

    async def handle_async_request(self, request):
        return self.answer(await request.aread()) or await super().handle_async_request(request)


def messages(reply):
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": reply.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]},
    ]


def client(twin, *middleware):
    wire = Sync(twin.twin)
    http = httpx2.Client(transport=wire)
    return wire, anthropic.Anthropic(
        api_key="k", base_url="http://twin", http_client=http, middleware=middleware
    )


@pytest.mark.parametrize("is_streamed", [False, True], ids=["create", "stream"])
def test_a_recorded_reply_leaves_as_it_came(twin, is_streamed):
    wire, sdk = client(twin, everturn.middleware(folder=None))
    request = {"model": HAIKU, "max_tokens": 99, "tools": TOOLS}
    reply = sdk.messages.create(messages=[{"role": "user", "content": "Read it."}], **request)
    if is_streamed:
        with sdk.messages.stream(messages=messages(reply), **request) as events:
            events.get_final_message()
    else:
        sdk.messages.create(messages=messages(reply), **request)
    assert CALL in wire.sent[1]
    assert json.loads(wire.sent[1]).get("stream", False) is is_streamed


def test_the_same_holds_for_the_async_client(twin):
    wire = Async(twin.twin)

    async def run():
        sdk = anthropic.AsyncAnthropic(
            api_key="k",
            base_url="http://twin",
            http_client=httpx2.AsyncClient(transport=wire),
            middleware=[everturn.middleware(folder=None)],
        )
        request = {"model": HAIKU, "max_tokens": 99, "tools": TOOLS}
        reply = await sdk.messages.create(messages=[{"role": "user", "content": "Read it."}], **request)
        await sdk.messages.create(messages=messages(reply), **request)

    asyncio.run(run())
    assert CALL in wire.sent[1]


def test_a_middleware_behind_gets_the_decoded_body_and_the_values_are_the_same(twin):
    seen = []

    def look(request, call_next):
        seen.append(request.json)
        return call_next(request)

    wire, sdk = client(twin, everturn.middleware(folder=None), look)
    request = {"model": HAIKU, "max_tokens": 99, "tools": TOOLS}
    reply = sdk.messages.create(messages=[{"role": "user", "content": "Read it."}], **request)
    sdk.messages.create(messages=messages(reply), **request)
    assert json.loads(wire.sent[1]) == seen[1]
    assert seen[1]["messages"][1]["content"] == [json.loads(CALL)]


def test_fields_of_extra_body_are_sent_once_and_read(twin):
    wire, sdk = client(twin, middleware := everturn.middleware(folder=None))
    hello = [{"role": "user", "content": "Hello."}]
    more = {"metadata": {"user_id": "u"}, "max_tokens": 77}
    sdk.messages.create(model=HAIKU, max_tokens=99, messages=hello, extra_body=more)
    body = json.loads(wire.sent[0])
    assert (body["metadata"], body["max_tokens"]) == ({"user_id": "u"}, 77)
    managed = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
    with pytest.raises(anthropic.BadRequestError):
        sdk.messages.create(model=HAIKU, max_tokens=99, messages=hello, extra_body=managed)
    assert list(middleware.unsupported.values()) == [1]


def test_bytes_are_handed_over_only_where_the_sdk_sends_them_as_they_are(twin):
    found = []

    def look(request, call_next):
        found.append(takes_bytes(call_next))
        return call_next(request)

    def other(request, call_next):
        return call_next(request)

    for chain in ([look], [look, other]):
        _, sdk = client(twin, *chain)
        sdk.messages.create(model=HAIKU, max_tokens=99, messages=[{"role": "user", "content": "Hello."}])
    assert found == [True, False]
    assert not takes_bytes(print)


def test_the_client_of_vertex_gets_a_decoded_body(twin):
    """It moves the model from the body into the address."""
    wire = Wire(twin.twin)
    transport = httpx2.MockTransport(lambda request: wire.answer(request.read()))
    sdk = anthropic.AnthropicVertex(
        region="global",
        project_id="p",
        access_token="t",
        http_client=httpx2.Client(transport=transport),
        middleware=[everturn.middleware(folder=None)],
    )
    sdk.messages.create(model=HAIKU, max_tokens=99, messages=[{"role": "user", "content": "Read it."}])
    assert "model" not in json.loads(wire.sent[0])
