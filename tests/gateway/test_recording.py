"""An observed request that continues a conversation in memory is recorded at once, and written with its reply
or after a moment. What is recorded is the same as ever."""

import json
import random
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from gateway.lab import (
    MODEL,
    Connection,
    Lab,
    OpenLab,
    RawUpstream,
    Seen,
    message,
    open_lab,
    reply,
    wait_until,
)

from everturn.adapters.tracking import CallerRequest, PreparedCall
from everturn.adapters.tracking.scopes import make_scope
from everturn.gateway.recording import MAX_UNWRITTEN
from everturn.gateway.tenants import ClientRequest, RelayedReply, TenantConversations
from everturn.gateway.values import Timing

# Python functions that record one observed request and its reply; 301 when this was written (GW-22).
# `bench/gateway.py` measures the times, beside a relay.
MAX_CALLS = 400
LONG = "The token comes late, and the test does not wait for it. " * 40


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def ask(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 100, **fields, "messages": list(messages)}


def as_json(text: str, id: str) -> bytes:
    return reply(json.dumps(message(text, id)).encode())


def read_texts(transcript: Path) -> list[str]:
    """What a transcript says, in its order."""
    found: list[str] = []
    for line in transcript.read_bytes().splitlines():
        content = json.loads(line).get("message", {}).get("content", [])
        found += [content] if isinstance(content, str) else [block["text"] for block in content]
    return found


def count_at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request was recorded at once."""
    counted: list[bool] = []
    observe = TenantConversations.observe_at_once

    def count(self: TenantConversations, given: Any) -> Any:
        found = observe(self, given)
        counted.append(found is not None)
        return found

    monkeypatch.setattr(TenantConversations, "observe_at_once", count)
    return counted


def test_a_request_that_continues_a_conversation_is_recorded_at_once_and_names_it(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch
):
    counted = count_at_once(monkeypatch)
    running = lab(RawUpstream(as_json("One.", "m1"), as_json("Two.", "m2"), as_json("Three.", "m3")))
    messages, sessions = [said("user", "Begin. " + LONG)], set[str]()
    for text in ("One.", "Two.", "Three."):
        sessions.add(running.ask(ask(*messages)).headers["x-everturn-session"])
        running.settle()
        messages += [said("assistant", text), said("user", "Go on.")]
    [transcript] = running.transcripts()
    assert read_texts(transcript) == [each["content"] for each in messages[:-1]]
    assert counted == [False, True, True]
    assert [each in transcript.name for each in sessions] == [True]


# What a client may do next with its list.
MOVES = ("go on", "go on", "go on", "again", "edit", "rewind", "respell", "begin", "session", "unsupported")


def play(running: Lab, seed: int) -> None:
    """Send requests as a client might, each after the reply before it."""
    choose = random.Random(seed)
    messages, session = [said("user", "Begin. " + LONG)], "s1"
    for at in range(30):
        fields: dict[str, Any] = {}
        match choose.choice(MOVES):
            case "go on":
                messages = [*messages, said("user", f"Question {at}.")]
            case "edit":
                messages = [*messages[:-1], said("user", f"Rather {at}.")]
            case "rewind":
                messages = [*messages[: choose.randrange(0, len(messages), 2)], said("user", f"Back {at}.")]
            case "respell":
                block = {"type": "text", "text": f"Marked {at}.", "cache_control": {"type": "ephemeral"}}
                messages = [*messages, {"role": "user", "content": [block]}]
            case "begin":
                messages = [said("user", f"Something else, {at}.")]
            case "session":
                session = choose.choice(["s1", "s2", ""])
                messages = [*messages, said("user", f"Elsewhere {at}.")]
            case "unsupported":
                fields = {"compaction": {}}
            case _:
                pass
        headers = {"x-claude-code-session-id": session} if session else {}
        found = running.ask(ask(*messages, **fields), headers=headers)
        running.settle()
        if messages[-1]["role"] == "user":
            text = json.loads(found.body)["content"][0]["text"]
            messages = [*messages, said("assistant", text)]


def numbered() -> RawUpstream:
    """Answers with a number."""
    count = 0

    def answer(connection: Connection, _: Seen) -> None:
        nonlocal count
        count += 1
        connection.send(as_json(f"Answer {count}.", f"m{count}"))

    return RawUpstream(answer)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_recorded_at_once_is_what_a_thread_would_have_recorded(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch, seed: int
):
    counted = count_at_once(monkeypatch)
    one = lab(numbered(), "one")
    play(one, seed)
    assert sum(counted) > 5
    monkeypatch.setattr(TenantConversations, "observe_at_once", lambda *_: None)
    other = lab(numbered(), "other")
    play(other, seed)
    assert sorted(map(read_texts, one.transcripts())) == sorted(map(read_texts, other.transcripts()))
    assert one.gateway.tenants.bill == other.gateway.tenants.bill


def begin(running: Lab) -> list[dict[str, Any]]:
    """A conversation in memory, and the next list of its client."""
    first = said("user", "Begin. " + LONG)
    running.ask(ask(first))
    running.settle()
    return [first, said("assistant", "Hello."), said("user", "And now?")]


def test_a_request_whose_reply_takes_long_is_written_without_it(lab: OpenLab):
    go_on = threading.Event()

    def answer_later(connection: Connection, _: Seen) -> None:
        assert go_on.wait(10)
        connection.send(as_json("At last.", "m2"))

    running = lab(RawUpstream(as_json("Hello.", "m1"), answer_later))
    messages = begin(running)
    asking = threading.Thread(target=running.ask, args=(ask(*messages),))
    asking.start()
    [transcript] = running.transcripts()
    wait_until(lambda: read_texts(transcript)[-1] == "And now?")
    go_on.set()
    asking.join()
    running.settle()
    assert read_texts(transcript)[1:] == ["Hello.", "And now?", "At last."]


def test_a_request_that_is_refused_is_written(lab: OpenLab):
    running = lab(RawUpstream(as_json("Hello.", "m1"), reply(b"{}", "400 Bad Request")))
    assert running.ask(ask(*begin(running))).status == 400
    [transcript] = running.transcripts()
    wait_until(lambda: read_texts(transcript)[1:] == ["Hello.", "And now?"], MAX_UNWRITTEN + 5)


def test_a_request_that_is_not_written_yet_is_written_when_the_gateway_ends(tmp_path: Path):
    upstream = RawUpstream(as_json("Hello.", "m1"), reply(b"{}", "400 Bad Request"))
    with open_lab(upstream.url, tmp_path / "ended") as running:
        running.ask(ask(*begin(running)))
        [transcript] = running.transcripts()
    upstream.close()
    assert read_texts(transcript)[1:] == ["Hello.", "And now?"]


def test_a_conversation_that_is_removed_from_memory_takes_its_request_to_its_file(lab: OpenLab):
    running = lab(RawUpstream(as_json("Hello.", "m1"), reply(b"{}", "400 Bad Request")))
    running.ask(ask(*begin(running)))
    tracker = running.gateway.tenants.find("local").tracker
    [tracked] = tracker
    assert tracker.evict(tracked, even_awaiting=True)
    [transcript] = running.transcripts()
    assert read_texts(transcript)[1:] == ["Hello.", "And now?"]


def test_a_conversation_takes_at_once_only_what_begins_with_all_of_it(lab: OpenLab):
    """It may have grown since it was found."""
    running = lab(RawUpstream(as_json("Hello.", "m1")))
    messages = begin(running)
    tracker = running.gateway.tenants.find("local").tracker
    [tracked] = tracker
    lists = [messages, messages[:1], [said("user", "Something else.")]]
    read = [tracker.read(ask(*each), observe=True) for each in lists]
    assert [isinstance(each, CallerRequest) and tracked.can_observe(each) for each in read] == [
        True,
        False,
        False,
    ]


def test_a_conversation_that_somebody_works_on_holds_up_no_request(lab: OpenLab):
    running = lab(
        RawUpstream(as_json("Hello.", "m1"), as_json("Now.", "m2")), timing=Timing(session=0.05, record=10.0)
    )
    messages = begin(running)
    [tracked] = running.gateway.tenants.find("local").tracker
    with tracked.lock.acquire():
        found = running.ask(ask(*messages))
        assert (found.status, found.headers["x-everturn-session"]) == (200, "pending")
    running.settle()
    [transcript] = running.transcripts()
    assert read_texts(transcript)[1:] == ["Hello.", "And now?", "Now."]


def count_calls_of_a_turn(running: Lab, pairs: int) -> int:
    """How many functions record the next turn of a client, behind so many messages and replies."""
    conversations, scope = running.gateway.tenants.find("local"), make_scope(str(pairs))
    messages = [each for _ in range(pairs) for each in (said("user", LONG), said("assistant", LONG))]
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    for turn in range(4):
        messages.append(said("user", f"Question {turn}."))
        given = ClientRequest(json.dumps(ask(*messages)).encode(), "", (), scope)
        answer = json.dumps(message("Yes.", f"{pairs} {turn}")).encode()
        relayed = RelayedReply([answer], "application/json", "", "", is_cut=False)
        calls = 0
        sys.setprofile(count)
        try:
            call = conversations.observe_at_once(given) or conversations.observe(given)
            assert isinstance(call, PreparedCall)
            why = conversations.record(call, given, relayed)
        finally:
            sys.setprofile(None)
        assert not why
        messages.append(said("assistant", "Yes."))
    return calls


def test_a_turn_is_recorded_in_few_steps_however_long_its_conversation_is(lab: OpenLab):
    running = lab(RawUpstream())
    short, long = count_calls_of_a_turn(running, 4), count_calls_of_a_turn(running, 45)
    assert long <= 1.05 * short
    assert long <= MAX_CALLS
