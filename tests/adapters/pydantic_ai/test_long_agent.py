"""An agent of 120 turns on a window of 200K: without the capability it ends, with it it does not."""

import pytest
from pydantic_ai.exceptions import ModelContextWindowExceededError
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

TURNS = 120


def read_file(path: str) -> str:
    """Reads a file."""
    return "\n".join(f"{n:04d} {path}: record {n * 7919 % 1000} of the feed was parsed" for n in range(500))


async def long_talk(bench, *capabilities):
    # What leaves is counted here, and not looked at.
    provider = AnthropicProvider(anthropic_client=bench.twin.async_client(max_retries=0))
    agent = bench.agent(
        *capabilities, model=AnthropicModel("claude-haiku-4-5", provider=provider), tools=[read_file]
    )
    messages, task = None, 0
    while len(bench.twin.ledger) < TURNS:
        messages = await bench.talk(agent, range(task, task + 1), messages)
        task += 1
    return messages


async def test_it_ends_without(bench):
    with pytest.raises(ModelContextWindowExceededError):
        await long_talk(bench)
    assert len(bench.twin.ledger) < TURNS


async def test_it_goes_on_with_it_and_the_history_keeps_everything(bench):
    capability = bench.capability()
    messages = await long_talk(bench, capability)
    (held,) = capability.conversations
    assert held.messages == len(messages)
    assert held.compactions >= 3
    assert float(capability.bill.dollars) == pytest.approx(
        sum(entry["dollars"] for entry in bench.twin.ledger)
    )
    bench.check()
