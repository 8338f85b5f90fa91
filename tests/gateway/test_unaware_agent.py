"""The gateway for an agent that knows nothing of it (BY-7): an SDK client with another base address."""

from typing import Any

import anthropic
import pytest
from gateway.lab import KEY, OpenLab

HAIKU = "claude-haiku-4-5"
LOG = "A record of the feed was parsed. " * 500
SMALL = {"window": 40_000, "max_tokens": 1000}


class Agent:
    """Keeps its whole list, streams every answer, and sends no id of a session."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.sessions: set[str] = set()

    def ask(self, url: str, said: str) -> str:
        self.messages.append({"role": "user", "content": said})
        client = anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0)
        request: dict[str, Any] = {"model": HAIKU, "max_tokens": 500, "messages": self.messages}
        with client, client.messages.stream(**request) as stream:
            reply = stream.get_final_message()
            self.sessions.add(stream.response.headers["x-everturn-session"])
            note = stream.response.headers.get("x-everturn-note", "")
        self.messages.append({"role": "assistant", "content": reply.to_dict(mode="json")["content"]})
        return note

    def count(self, url: str) -> int:
        """The tokens of its whole list, without the last answer."""
        with anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0) as client:
            return client.messages.count_tokens(model=HAIKU, messages=self.messages[:-1]).input_tokens


def check(agent: Agent, ledger: list[Any], notes: list[str], url: str) -> None:
    """One conversation; it was compacted, and from then on less is sent than the agent sends."""
    assert len(agent.sessions) == 1
    compacted = [note for note in notes if note.startswith("compacted: ")]
    summaries = len(ledger) - len(notes)
    assert 0 < len(compacted) == summaries < len(notes)
    assert {entry["status"] for entry in ledger} == {200}
    used = ledger[-1]["usage"]
    sent = used["input_tokens"] + used["cache_read_input_tokens"] + used["cache_creation_input_tokens"]
    assert sent < 0.75 * agent.count(url)


@pytest.mark.spec("BY-7")
def test_an_agent_that_sends_its_whole_history_gets_answers_from_the_compacted_one(
    lab, served_twin, twin_url
):
    running = lab(twin_url, mode="manage", overrides=SMALL)
    agent, notes = Agent(), []
    for number in range(6):
        notes.append(agent.ask(running.url, f"Entry {number}. Never push to main. {LOG}"))
        running.settle()
    check(agent, served_twin.ledger(), notes, twin_url)


@pytest.mark.spec("BY-7")
def test_replicas_share_what_they_know_and_no_compaction_is_made_twice(
    lab: OpenLab, served_twin, twin_url: str, postgres_url: str
):
    overrides = {**SMALL, "store": {"url": postgres_url, "deadline": 30.0}}
    pair = [lab(twin_url, f"replica {n}", mode="manage", overrides=overrides) for n in range(2)]
    agent, notes = Agent(), []
    for number in range(6):
        running = pair[number % 2]
        notes.append(agent.ask(running.url, f"Entry {number} of {postgres_url[-12:]}. {LOG}"))
        running.settle()
    check(agent, served_twin.ledger(), notes, twin_url)
