"""The two calls of a model for a summary: one that shares the cache, and one of its own."""

from typing import Any

import msgspec
import pytest
from scripted_twin import scripted_options

from everturn import Session
from everturn.decide.compact.values import Compaction
from everturn.twin.testing import TwinForTests

RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220


@pytest.mark.spec("CP-6")
def test_a_fork_without_text_is_followed_by_a_streamed_call_of_its_own(tmp_path, monkeypatch):
    box = TwinForTests(options=scripted_options())
    bodies: list[dict[str, Any]] = []
    answer = box.twin.messages

    def heard(headers: Any, body: bytes) -> Any:
        bodies.append(msgspec.json.decode(body))
        return answer(headers, body)

    monkeypatch.setattr(box.twin, "messages", heard)
    with Session.open(
        tmp_path / "talk.jsonl",
        model="claude-opus-5",
        system=RULES,
        client=box.client(),
        clock=box.twin.clock.now,
        max_tokens=9_000,
        policy="claude-code",
    ) as session:
        for number in range(3):
            session.send(f"Question {number}. " + "Look at the parser. " * 300)
        box.faults({"kind": "empty_summary", "times": 2})
        made = session.compact()
    assert isinstance(made, Compaction)
    assert [attempt.strategy for attempt in made.attempts] == ["notes", "fork", "direct"]
    parent, forks, own = bodies[2], bodies[3:5], bodies[5]
    for fork in forks:
        assert [fork[name] for name in ("model", "max_tokens")] == [
            parent[name] for name in ("model", "max_tokens")
        ]
        assert unmarked(fork["system"]) == unmarked(parent["system"])
        assert unmarked(fork["messages"])[: len(parent["messages"])] == unmarked(parent["messages"])
    assert own["stream"] is True
    assert (own["max_tokens"], own["thinking"], len(own["system"])) == (20_000, {"type": "disabled"}, 1)
    assert "tools" not in own
    assert len(bodies) == 6


def unmarked(value: Any) -> Any:
    """Without markers, which are no part of the cache key."""
    if isinstance(value, list):
        return [unmarked(each) for each in value]
    if isinstance(value, dict):
        return {name: unmarked(each) for name, each in value.items() if name != "cache_control"}
    return value
