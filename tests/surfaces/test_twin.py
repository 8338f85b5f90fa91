"""The twin as a client sees it (TW)."""

import random

import httpx2
import pytest
from twin.asking import parts
from twin.naive_usage import NaiveTwin, naive_tokens
from twin.test_naive_usage import MINIMUM, Talk

from everturn.twin.options import TwinOptions
from everturn.twin.testing import TwinForTests
from everturn.twin.transport import TwinTransport


@pytest.mark.spec("TW-12")
def test_random_conversations_over_http_are_billed_as_a_naive_computation_bills_them():
    options = TwinOptions(
        counter=lambda block, model: naive_tokens(block.body),
        min_cache={"claude-opus-5": MINIMUM, "claude-opus-4-8": MINIMUM},
    )
    rng, twin, naive = random.Random(7), TwinForTests(options=options), NaiveTwin(MINIMUM)
    talks = [Talk(rng) for _ in range(3)]
    hits = 0
    with httpx2.Client(transport=TwinTransport(twin.twin), base_url="http://twin") as http:
        for step in range(200):
            twin.advance(rng.choice([0, 1, 30, 299, 301, 3601]))
            talk = rng.choice(talks)
            talk.grow()
            if not talk.messages or talk.messages[-1]["role"] != "user":
                continue
            key, body = rng.choice("aab"), {"model": "claude-opus-5", **talk.body()}
            headers = {"x-api-key": key, "anthropic-version": "2026-10-21"}
            answer = http.post("/v1/messages", headers=headers, json={"max_tokens": 1_000, **body})
            told = answer.json()["usage"]
            assert parts(told) == naive.usage(key, body, twin.twin.clock.now().timestamp()), f"step {step}"
            hits += told["cache_read_input_tokens"] > 0
    assert hits > 10
