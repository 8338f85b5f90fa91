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
