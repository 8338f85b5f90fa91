"""Whose conversation it is: what current clients send, over HTTP against the twin."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from gateway.lab import MODEL, Lab, OpenLab, RawUpstream, message, reply

from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin

SYSTEM = [
    {"type": "text", "text": "billing: cc_version=2; cch=abc"},
    {"type": "text", "text": "You are an agent."},
]
REMINDER = "<system-reminder>\nThe task list is empty.\n</system-reminder>"


class Client:
    """A client that keeps its list and sends it, with the ids that Claude Code sends."""

    def __init__(self, lab: Lab, session: str = "", agent: str = "", **fields: Any) -> None:
        self.lab = lab
        self.headers = {"x-claude-code-session-id": session, "x-claude-code-agent-id": agent}
        self.headers = {name: value for name, value in self.headers.items() if value}
        # Thinking is bound to the prompt it came with; this model has none unless it is asked for.
        self.fields = {"model": "claude-haiku-4-5", "max_tokens": 1000, "system": SYSTEM, **fields}
        self.messages: list[dict[str, Any]] = []
        self.note = self.mode = ""

    def ask(self, *messages: Any) -> str:
        """Send the list with these messages; returns the name of the conversation."""
        for each in messages:
            self.messages.append({"role": "user", "content": each} if isinstance(each, str | list) else each)
        found = self.lab.ask({**self.fields, "messages": self.messages}, headers=self.headers)
        assert found.status == 200, found.body
        self.note = found.headers.get("x-everturn-note", "")
        self.mode = found.headers["x-everturn-mode"]
        self.messages.append({"role": "assistant", "content": json.loads(found.body)["content"]})
        return found.headers["x-everturn-session"]


@pytest.fixture(params=["observe", "manage"])
def running(lab: OpenLab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    with serve_twin(build_twin(clock="real")) as url:
        yield lab(url, mode=request.param)


@pytest.mark.spec("GW-10")
def test_a_conversation_is_recognised_by_what_it_has_said(running: Lab):
    client = Client(running)
    names = {
        client.ask("Hello, what is in this folder?"),
        client.ask("And what else?"),
        client.ask("Thanks."),
    }
    assert len(names) == 1
    assert Client(running).ask("Something else entirely.") not in names


@pytest.mark.spec("GW-10")
def test_sub_agents_with_equal_bodies_stay_apart(running: Lab):
    agents = [Client(running, "s1", agent) for agent in ("", "a1", "a2")]
    first = [each.ask("Look for the word fox.") for each in agents]
    second = [each.ask("Look again.") for each in agents]
    assert first == second
    assert len(set(first)) == 3


@pytest.mark.spec("GW-10")
def test_known_history_under_a_new_session_id_is_a_fork(running: Lab):
    client = Client(running, "s1")
    name = client.ask("Remember the number 17.")
    fork = Client(running, "s2")
    fork.messages = list(client.messages)
    forked = fork.ask("Which number was it?")
    assert forked != name
    running.settle()
    [file] = [each for each in running.transcripts() if each.stem.endswith(forked[-17:])]
    assert "Remember the number 17." in file.read_text()
    assert client.ask("And 18.") == name
    assert fork.ask("Go on.") == forked


@pytest.mark.spec("GW-10")
def test_a_short_history_under_a_known_id_is_a_new_conversation(running: Lab):
    client = Client(running, "s1")
    name = client.ask("Remember the number 17.")
    assert client.ask("And 18.") == name
    client.messages = []
    compacted = client.ask("Summary of what was said: the numbers 17 and 18.")
    assert compacted != name
    assert client.ask("Go on.") == compacted


@pytest.mark.spec("GW-10", "GW-11")
@pytest.mark.parametrize("change", ["string", "breakpoints", "billing", "reminder block", "reminder text"])
def test_a_client_that_spells_its_history_anew_continues_its_conversation(running: Lab, change: str):
    client = Client(running, "s1")
    texts = {
        "reminder block": [
            {"type": "text", "text": REMINDER},
            {"type": "text", "text": "What is in app.py?"},
        ],
        "reminder text": "What is in app.py?\n\n" + REMINDER,
    }
    name = client.ask("Hello, who are you and what can you do here?")
    said = texts.get(
        change, [{"type": "text", "text": "What is in app.py?", "cache_control": {"type": "ephemeral"}}]
    )
    assert client.ask(said) == name
    if change == "billing":
        client.fields["system"] = [{"type": "text", "text": "billing: cc_version=2; cch=xyz"}, SYSTEM[1]]
    elif change != "breakpoints":
        client.messages[-2]["content"] = "What is in app.py?"
    else:
        client.messages[-2]["content"] = [{"type": "text", "text": "What is in app.py?"}]
    assert client.ask("And in the other files?") == name
    assert client.note == ""


@pytest.mark.spec("GW-10")
def test_what_claude_code_sends_is_understood(running: Lab):
    tools = [
        {
            "name": f"Tool{at}",
            "description": "Does it. " * 20,
            "input_schema": {"type": "object", "properties": {}},
        }
        for at in range(24)
    ]
    client = Client(
        running, "s1", tools=tools, model=MODEL, thinking={"type": "adaptive"},
        metadata={"user_id": "user_1_session_s1"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    )  # fmt: skip
    client.headers["anthropic-beta"] = (
        "claude-code-20250219,context-management-2025-06-27,mid-conversation-system-2026-04-07"
    )
    name = client.ask("Hello.", {"role": "system", "content": "The task list is empty."})
    assert client.ask("Next.", {"role": "system", "content": "The user opened app.py."}) == name
    assert client.note == ""
    assert running.gateway.metrics.passed_through == {}


@pytest.mark.spec("GW-10")
def test_a_thread_is_continued_by_the_id_of_its_last_message(lab: OpenLab):
    upstream = RawUpstream(
        reply(json.dumps(message("One.", "msg_1")).encode()),
        reply(json.dumps(message("Two.", "msg_2")).encode()),
    )
    running = lab(upstream)
    name = Client(running).ask("Count.")
    client = Client(running, thread={"type": "continue", "previous_message_id": "msg_1"})
    assert client.ask("Go on.") == name
    unknown = Client(running, thread={"type": "continue", "previous_message_id": "msg_9"})
    unknown.ask("Go on.")
    assert unknown.note == "not tracked: it continues a thread that everturn has not seen"


@pytest.mark.spec("GW-10")
def test_a_conversation_is_found_again_after_a_restart(lab: OpenLab, twin_url: str):
    first = lab(twin_url)
    client = Client(first, "s1")
    name = client.ask("Remember the number 17.")
    first.settle()
    first.gateway.tenants.close()
    client.lab = lab(twin_url)
    assert client.ask("And 18.") == name
    other = Client(client.lab, "s2")
    other.messages = client.messages[:-2]
    assert other.ask("And 18.") != name


@pytest.mark.spec("GW-10")
def test_tenants_share_nothing(lab: OpenLab, twin_url: str, tmp_path: Any):
    from everturn.gateway.tokens import add_token, load_tokens

    file = tmp_path / "tokens.json"
    tokens = {name: add_token(file, name, "", name * 43) for name in "ab"}
    running = lab(twin_url, tokens=load_tokens(file))
    clients = {name: Client(running, "s1") for name in tokens}
    names: dict[str, set[str]] = {"a": set(), "b": set()}
    for name, client in clients.items():
        client.headers["x-everturn-token"] = tokens[name]
        for text in (f"The secret of {name} is canary-{name}.", "Go on."):
            names[name].add(client.ask(text))
    # The same history, sent by the other tenant, is not known there.
    clients["b"].messages = clients["a"].messages[:2]
    names["b"].add(clients["b"].ask("Go on."))
    assert [len(each) for each in names.values()] == [1, 2]
    assert not names["a"] & names["b"]
    running.settle()
    kept = {each.parent.name: each.read_text() for each in running.transcripts() if each.parent.name == "a"}
    assert "canary-b" not in kept["a"]
