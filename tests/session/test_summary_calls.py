"""The two calls of a model for a summary: one that shares the cache, and one of its own."""

from typing import Any

import msgspec
import pytest
from scripted_twin import scripted_options

from everturn import Session
from everturn.decide.compact.values import Compaction
from everturn.errors import UpstreamError
from everturn.session.upstream import RawResponse
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

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


SUMMARY = (
    "<summary>The parser in src/parse.py was looked at, and its tests pass; nothing else is open.</summary>"
)
QUESTION = "The newest. " + "".join(f"Point {number} matters. " for number in range(800)) + "Its end."


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("is_behind_a_summary", [False, True])
def test_of_two_questions_without_an_answer_the_newest_is_whole_although_nothing_stands_before_them(
    tmp_path, is_behind_a_summary
):
    box = TwinForTests(options=scripted_options())
    bodies: list[dict[str, Any]] = []

    def send(body: bytes, betas: Any) -> RawResponse:
        bodies.append(msgspec.json.decode(body))
        return make_twin_send(box.twin)(body, betas)

    with Session.open(
        tmp_path / "talk.jsonl",
        model="claude-opus-4-6",
        send=send,
        clock=box.twin.clock.now,
        window=24_000,
        max_tokens=2_000,
        compact={"strategies": ["direct"]},
    ) as session:
        if is_behind_a_summary:
            box.script("Done. " * 500, SUMMARY)
            session.send("Look at the parser.")
            assert isinstance(session.compact(), Compaction)
        box.faults("overloaded")
        with pytest.raises(UpstreamError):
            session.send("The first. " + "It is long. " * 4_000)
        box.script(SUMMARY, "Seen.")
        assert session.send(QUESTION).text == "Seen."
    assert bodies[-1]["messages"][-1]["content"][-1]["text"] == QUESTION
    assert len(bodies) == (5 if is_behind_a_summary else 3)


PICTURE = {
    "type": "image",
    "source": {"type": "url", "url": "https://example.com/a.png"},
}


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("newest", [QUESTION, [{"type": "text", "text": "What is this?"}, PICTURE]])
def test_where_the_provider_s_summary_would_cut_the_newest_message_the_next_strategy_keeps_it(
    tmp_path, newest
):
    """The system prompt has changed since the last request: the provider can only summarize all there is."""
    box = TwinForTests(options=scripted_options())
    bodies: list[dict[str, Any]] = []

    def send(body: bytes, betas: Any) -> RawResponse:
        bodies.append(msgspec.json.decode(body))
        return make_twin_send(box.twin)(body, betas)

    how: dict[str, Any] = {
        "model": "claude-opus-4-6",
        "send": send,
        "clock": box.twin.clock.now,
        "window": 24_000,
        "max_tokens": 2_000,
        "thresholds": {"auto_percent": 40.0},
        "compact": {"strategies": ["provider", "direct"]},
    }
    with Session.open(tmp_path / "talk.jsonl", **how) as session:
        box.script("Done. " * 500, "Sure. " * 500)
        session.send("Look at the parser. " + "Look closely. " * 500)
        session.send("And at its tests. " + "Look closely. " * 500)
    with Session.open(tmp_path / "talk.jsonl", **how, system="Be brief.") as session:
        box.script(SUMMARY, "Seen.")
        session.send(newest)
        assert session.conversation.log.view.boundary is not None
    said = newest if isinstance(newest, list) else [{"type": "text", "text": newest}]
    assert unmarked(bodies[-1]["messages"][-1]["content"])[-len(said) :] == said
