"""Agents that look at a screen, and drop their old pictures or results with each request.

What they drop of the summarized past changes nothing. What they drop behind it is a change that the cache
pays, and no reason to compact again.
"""

import base64
import copy
import json
import random

import pytest
from adapters.anthropic_sdk.conftest import Bench

from everturn.decide.events import CompactionDone
from everturn.twin.request_text import new_id
from everturn.twin.testing import TwinForTests
from everturn.twin.values import ModelOutput

STEPS = 30
# Automatic compaction begins at 10,000 tokens: a picture has 1,365.
SMALL = {"window": 40_000}
LOOK = {"name": "look", "description": "Take a picture.", "input_schema": {"type": "object"}}
GONE = {"type": "text", "text": "[An older picture was here.]"}

# All of an older result is dropped.
CLEARED = ({"type": "text", "text": "[Old tool result content cleared]"},)


class Clicker:
    """Calls the tool in every reply."""

    def __init__(self):
        self.replies = 0

    def say(self, request, *, rng: random.Random):
        self.replies += 1
        call = {"type": "tool_use", "id": new_id("toolu_", rng), "name": "look", "input": {}}
        return ModelOutput(({"type": "text", "text": f"I click at {self.replies}."}, call), "tool_use")


def picture(number):
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\5\0\0\0\3\x20\x08\2\0\0\0" + number.to_bytes(40, "big")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(head).decode()}
    return {"type": "image", "source": source}


def drop_pictures(messages, keep, instead):
    """The list with the newest `keep` pictures."""
    messages = copy.deepcopy(messages)
    results = [message["content"][0] for message in messages[2::2]]
    for result in results[: max(0, len(results) - keep)]:
        words = [result["content"][0]] if instead != CLEARED else []
        result["content"] = [*words, *instead]
    return messages


def click(bench, keep=STEPS, instead=(), restarts=()):
    """The dollars of an agent that keeps so many pictures."""
    click_some(bench, STEPS, keep, instead, restarts)
    bench.check()
    return sum(entry["dollars"] for entry in bench.twin.ledger)


def click_some(bench, steps, keep=STEPS, instead=(), restarts=()):
    """The list of messages after so many steps."""
    messages = [{"role": "user", "content": "Book a table for two."}]
    for step in range(steps):
        if step in restarts:
            bench.restart()
        sent = drop_pictures(messages, keep, instead)
        reply = bench.ask(sent, tools=[LOOK], cache_control={"type": "ephemeral"})
        words = {"type": "text", "text": f"<<{step}>> " + "It was clicked. " * 100}
        result = {
            "type": "tool_result",
            "tool_use_id": reply.content[-1].id,
            "content": [words, picture(step)],
        }
        messages += [
            {"role": "assistant", "content": [block.to_dict() for block in reply.content]},
            {"role": "user", "content": [result]},
        ]
    return messages


def compactions(bench):
    return len([event for event in bench.events if isinstance(event, CompactionDone)])


def shapes(bench):
    """The messages and the pictures of each request that left."""
    return [(len(body["messages"]), pictures_in(body)) for body in bench.sent]


def pictures_in(body):
    return json.dumps(body["messages"]).count("image/png")


@pytest.fixture
def clickers(tmp_path):
    """Benches with an agent that clicks, each with a twin of its own."""
    made = []

    def make():
        made.append(Bench(TwinForTests(agent=Clicker()), tmp_path / str(len(made)), **SMALL))
        return made[-1]

    yield make
    for each in made:
        each.middleware.close()


@pytest.mark.spec("GW-10")
@pytest.mark.parametrize(
    "instead", [(), (GONE,), CLEARED], ids=["removed", "a text instead", "whole results"]
)
def test_pictures_that_are_dropped_before_a_boundary_change_nothing(clickers, instead):
    kept, dropped = clickers(), clickers()
    before = click(kept)
    assert (click(dropped, 10, instead), compactions(dropped)) == (before, compactions(kept))
    assert compactions(kept) > 3
    assert len(dropped.middleware.conversations) == 1
    assert shapes(dropped) == shapes(kept)


@pytest.mark.spec("GW-11")
def test_pictures_that_are_dropped_behind_a_boundary_are_not_sent_and_not_compacted_again(clickers):
    """The agent itself breaks its cache in each request: it is compared with itself without everturn."""
    kept, dropped, alone = clickers(), clickers(), clickers()
    click(kept)
    alone.client = alone.twin.client()
    assert click(dropped, 3) <= 1.15 * click(alone, 3)
    assert 0 < compactions(dropped) <= compactions(kept)
    assert max(pictures_in(body) for body in dropped.sent) == 3


@pytest.mark.spec("GW-10")
def test_a_compaction_outlives_dropped_pictures_and_a_restart(clickers):
    kept, dropped = clickers(), clickers()
    click(kept)
    click(dropped, 10, restarts=range(1, STEPS))
    assert compactions(dropped) == compactions(kept)
    assert shapes(dropped) == shapes(kept)


def test_an_edit_of_what_is_summarized_shows_nothing_that_was_dropped(clickers):
    """The list goes on differently behind a result that lacks its picture now: the compaction is lost, and
    the picture is not sent again."""
    bench = clickers()
    messages = click_some(bench, STEPS // 2)
    assert compactions(bench) > 0
    edited = [*drop_pictures(messages[:7], 0, ()), {"role": "user", "content": "Book it for three."}]
    bench.ask(edited, tools=[LOOK])
    bench.check()
    assert pictures_in(bench.sent[-1]) == 0
