"""The bill of the middleware, beside what the API has charged."""

import copy
from typing import Any

import anthropic
import pytest

import everturn
from everturn.twin.testing import TwinForTests

HAIKU, OPUS = "claude-haiku-4-5", "claude-opus-5"


def charged(twin: TwinForTests) -> float:
    return sum(entry["dollars"] for entry in twin.ledger)


class SummariesByOpus(anthropic.Middleware):
    """As a fallback does: another model answers what was asked of the first."""

    def handle(self, request: Any, call_next: Any) -> Any:
        if request.stream:
            return call_next(request)
        copied = copy.copy(request)
        copied.options = copied.options.model_copy()
        copied.options.json_data = {**request.json, "model": OPUS}
        return call_next(copied)

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        return await self.handle(request, call_next)


UNCHANGED: dict[str, Any] = {
    "only warms the cache": {"max_tokens": 0},
    "lets the API compact": {
        "model": OPUS,
        "betas": ["context-management-2025-06-27", "compact-2026-01-12"],
        "context_management": {
            "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]
        },
    },
}


@pytest.mark.parametrize("how", ["plain", "streamed", "async"])
@pytest.mark.parametrize("kind", UNCHANGED)
async def test_a_request_that_passes_unchanged_is_in_the_bill(
    twin: TwinForTests, kind: str, how: str
) -> None:
    middleware = everturn.middleware(folder=None, clock=twin.twin.clock.now)
    messages = [{"role": "user", "content": "A long line of words. " * 12_000}]
    request: dict[str, Any] = {"model": HAIKU, "max_tokens": 500, "messages": messages, **UNCHANGED[kind]}

    if how == "async":
        await twin.async_client(middleware=[middleware]).beta.messages.create(**request)
    elif how == "plain" or request["max_tokens"] == 0:
        twin.client(middleware=[middleware]).beta.messages.create(**request)
    else:
        with twin.client(middleware=[middleware]).beta.messages.stream(**request) as stream:
            stream.get_final_message()

    assert (len(middleware.unsupported), len(middleware.conversations)) == (1, 0)
    assert middleware.bill.total.calls == 1
    assert float(middleware.bill.dollars) == pytest.approx(charged(twin))


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_request_that_everturn_could_not_prepare_is_in_the_bill(
    twin: TwinForTests, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken on purpose")

    middleware = everturn.middleware(folder=None, clock=twin.twin.clock.now)
    monkeypatch.setattr(middleware.tracker, "prepare_async" if is_async else "prepare", fail)
    request: dict[str, Any] = {
        "model": HAIKU,
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Hi."}],
    }

    if is_async:
        await twin.async_client(middleware=[middleware]).messages.create(**request)
    else:
        twin.client(middleware=[middleware]).messages.create(**request)

    assert middleware.bill.total.calls == 1
    assert float(middleware.bill.dollars) == pytest.approx(charged(twin))


LOST = " closed or cut off before the usage arrived; what that has cost is not in the bill."


@pytest.mark.parametrize("stream", [False, True])
async def test_replies_that_nobody_reads_are_told_beside_the_bill(twin: TwinForTests, stream: bool) -> None:
    middleware = everturn.middleware(folder=None, clock=twin.twin.clock.now)
    sync, waiting = twin.client(middleware=[middleware]), twin.async_client(middleware=[middleware])
    messages = [{"role": "user", "content": "Hello."}]
    request: dict[str, Any] = {"model": HAIKU, "max_tokens": 99, "messages": messages, "stream": stream}

    with sync.messages.with_streaming_response.create(**request):
        pass
    assert middleware.bill.notes == ("1 reply was" + LOST,)
    async with waiting.messages.with_streaming_response.create(**request):
        pass
    assert middleware.bill.notes == ("2 replies were" + LOST,)
    assert middleware.bill.total.calls == 0


def test_a_summary_that_a_fallback_wrote_has_the_price_of_its_model(twin: TwinForTests) -> None:
    middleware = everturn.middleware(folder=None, clock=twin.twin.clock.now)
    client = twin.client(middleware=[middleware, SummariesByOpus()])
    messages: list[Any] = []

    for said in ("Hello. " + "A long line. " * 3000, "And now?", "Go on."):
        messages.append({"role": "user", "content": said})
        with client.messages.stream(model=HAIKU, max_tokens=500, messages=messages) as stream:
            messages.append({"role": "assistant", "content": stream.get_final_message().content})
        if len(messages) == 4:
            middleware.compact()

    assert [entry["model"] for entry in twin.ledger] == [HAIKU, HAIKU, OPUS, HAIKU]
    assert float(middleware.bill.dollars) == pytest.approx(charged(twin))
    assert middleware.conversations[0].bill.dollars == middleware.bill.dollars
