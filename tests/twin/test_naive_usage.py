"""Random conversations: the usage of the twin against a naive computation from the request bodies."""

import os
import random
from typing import Any

import pytest
from twin.asking import FIVE, HOUR, Desk, parts, tool
from twin.naive_usage import NaiveTwin, naive_tokens

from everturn.twin.options import TwinOptions

STEPS = 10_000 if os.environ.get("EVERTURN_PROFILE") == "soak" else 1_000
MINIMUM = 150
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}


class Talk:
    """A valid conversation: every call has a result, and the breakpoints follow the rules."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.messages: list[dict[str, Any]] = []
        self.calls = 0

    def grow(self) -> None:
        if len(self.messages) > 30 or self.rng.random() < 0.05:
            del self.messages[self.rng.randrange(len(self.messages) + 1) // 2 * 2 :]
            if self.messages and "tool_use" in str(self.messages[-1]):
                self.messages.pop()
        if self.messages and self.messages[-1]["role"] == "user":
            return self.answer()
        content = [self.words() for _ in range(self.rng.choice([1, 1, 2, 9]))]
        if self.rng.random() < 0.05:
            content.append(dict(IMAGE))
        self.messages.append(
            {"role": "user", "content": content if self.rng.random() < 0.9 else "plain words"}
        )
        return None

    def answer(self) -> None:
        calls, results = [], []
        for _ in range(self.rng.choice([0, 0, 1, 3, 14])):
            self.calls += 1
            id = f"toolu_{self.calls}"
            calls.append({"type": "tool_use", "id": id, "name": "look", "input": {"n": self.calls}})
            results.append({"type": "tool_result", "tool_use_id": id, "content": [self.words()]})
        self.messages.append({"role": "assistant", "content": [self.words(), *calls]})
        if results:
            self.messages.append({"role": "user", "content": results})

    def words(self) -> dict[str, Any]:
        return {"type": "text", "text": "word " * self.rng.randrange(1, 20)}

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "tools": [tool("look"), *([tool("write")] if self.rng.random() < 0.05 else [])],
            "system": [{"type": "text", "text": "You help."}, {"type": "text", "text": "Always."}],
            "messages": [
                {
                    **m,
                    "content": [dict(b) for b in m["content"]]
                    if isinstance(m["content"], list)
                    else m["content"],
                }
                for m in self.messages
            ],
        }
        self.mark(body)
        rare: list[dict[str, Any]] = [
            {"tool_choice": {"type": "any"}},
            {"output_config": {"effort": "low"}},
            {"thinking": {"type": "disabled"}},
            {"model": "claude-opus-4-8", "thinking": {"type": "adaptive"}},
        ]
        chosen = self.rng.choice(rare) if self.rng.random() < 0.08 else {}
        # A forced tool choice requires thinking to be off.
        return body | ({**chosen, "thinking": {"type": "disabled"}} if "tool_choice" in chosen else chosen)

    def mark(self, body: dict[str, Any]) -> None:
        places = [*body["tools"], *body["system"]]
        places += [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
        chosen = sorted(self.rng.sample(range(len(places)), self.rng.randrange(4)))
        if chosen and self.rng.random() < 0.7:
            chosen[-1] = len(places) - 1
        hours = self.rng.randrange(len(chosen) + 1)
        for place, index in enumerate(chosen):
            places[index]["cache_control"] = HOUR if place < hours else FIVE
        if self.rng.random() < 0.3 and "cache_control" not in places[-1]:
            body["cache_control"] = FIVE


@pytest.mark.spec("TW-12")
def test_random_conversations_are_billed_as_a_naive_computation_bills_them():
    options = TwinOptions(
        counter=lambda block, model: naive_tokens(block.body),
        min_cache={"claude-opus-5": MINIMUM, "claude-opus-4-8": MINIMUM},
    )
    rng = random.Random(12)
    desk, naive = Desk(options), NaiveTwin(MINIMUM)
    talks = [Talk(rng) for _ in range(4)]
    hits = 0
    for step in range(STEPS):
        desk.clock.advance(rng.choice([0, 1, 30, 299, 301, 3601]))
        talk = rng.choice(talks)
        talk.grow()
        if not talk.messages or talk.messages[-1]["role"] != "user":
            continue
        key, body = rng.choice("aab"), {"model": "claude-opus-5", **talk.body()}
        told = desk.ask(key=key, **body)["usage"]
        now = desk.clock.now().timestamp()
        assert parts(told) == naive.usage(key, body, now), f"step {step}"
        hits += told["cache_read_input_tokens"] > 0
    assert hits > STEPS / 20
