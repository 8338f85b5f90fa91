"""Fast speed, US-only inference and web searches change the price of a call, and the bill says so."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everturn
from everturn.measure.model_table import find_model
from everturn.measure.pricing import compute_priced_usage
from everturn.session.bill import price_usage
from everturn.twin.testing import TwinForTests
from everturn.wire.anthropic import read_response

OPUS = "claude-opus-5"
ON = datetime(2026, 11, 15, tzinfo=UTC).date()


@pytest.mark.parametrize(
    "more",
    [
        {"speed": "fast"},
        {"speed": "standard", "inference_geo": "us"},
        {"speed": "fast", "inference_geo": "us"},
        {"server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 1}},
        {"speed": None, "inference_geo": None, "server_tool_use": None},
        {},
    ],
)
def test_a_reply_is_billed_with_what_changes_its_price(more: dict[str, Any]) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 500, "cache_read_input_tokens": 9000, **more}
    body = json.dumps({"id": "m", "model": OPUS, "content": [], "usage": usage}).encode()
    reply, model = read_response(body).reply, find_model(OPUS)
    assert model is not None
    assert reply.usage is not None
    assert price_usage(reply.usage, OPUS, ON).dollars == compute_priced_usage(usage, model, on=ON).dollars


def test_a_conversation_in_fast_mode_has_the_same_bill_after_a_restart(
    twin: TwinForTests, tmp_path: Path
) -> None:
    messages: list[Any] = []
    bills: list[Decimal] = []
    for said in ("Hello.", "And now?"):
        middleware = everturn.middleware(folder=tmp_path, clock=twin.twin.clock.now)
        client = twin.client(middleware=[middleware])
        messages.append({"role": "user", "content": said})
        reply = client.beta.messages.create(
            model=OPUS, max_tokens=500, messages=messages, speed="fast", betas=["fast-mode-2026-02-01"]
        )
        messages.append({"role": "assistant", "content": reply.content})
        bills.append(middleware.conversations[0].bill.dollars)
        middleware.close()
    spent = [entry["dollars"] for entry in twin.ledger]
    assert [float(each) for each in bills] == pytest.approx([spent[0], sum(spent)])
