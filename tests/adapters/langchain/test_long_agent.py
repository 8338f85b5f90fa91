"""An agent of 120 turns on a window of 200K: without the middleware it ends, with it it does not."""

import pytest
from langchain_core.tools import tool

TURNS = 120


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return "\n".join(f"{n:04d} {path}: record {n * 7919 % 1000} of the feed was parsed" for n in range(500))


def long_talk(bench, *middleware):
    model = bench.model()
    # What leaves is counted here, and not looked at.
    model.__dict__["_client"] = bench.twin.client(max_retries=0)
    agent, messages, task = bench.agent(*middleware, model=model, tools=[read_file]), [], 0
    while len(bench.twin.ledger) < TURNS:
        messages = bench.talk(agent, range(task, task + 1), messages)
        task += 1
    return messages


def test_it_ends_without(bench):
    with pytest.raises(Exception, match="prompt is too long"):
        long_talk(bench)
    assert len(bench.twin.ledger) < TURNS


def test_it_goes_on_with_it_and_the_state_keeps_everything(bench):
    middleware = bench.middleware()
    messages = long_talk(bench, middleware)
    (held,) = middleware.conversations
    assert held.messages == len(messages)
    assert held.compactions >= 3
    assert float(middleware.bill.dollars) == pytest.approx(
        sum(entry["dollars"] for entry in bench.twin.ledger)
    )
    bench.check()
