"""Requests in the shapes of real clients are understood; what is not is counted by reason and shown."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from gateway.lab import Lab, OpenLab, RawUpstream, message, reply
from gateway.real_bodies import (
    BETAS,
    EFFORT,
    aider_body,
    asked,
    called,
    claude_code_body,
    claude_code_headers,
    resulted,
    text,
    told,
)

MODES = ("observe", "manage")


def answers(*contents: Any) -> RawUpstream:
    """An upstream that answers with these contents, in turn."""
    found = []
    for at, content in enumerate(contents, 1):
        blocks = [text(content)] if isinstance(content, str) else content
        stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        whole = {**message("", f"msg_{at}"), "content": blocks, "stop_reason": stop}
        found.append(reply(json.dumps(whole).encode()))
    return RawUpstream(*found)


def ask(running: Lab, body: dict[str, Any], **headers: str) -> str:
    """Send a request; gives the conversation that it belongs to."""
    found = running.ask(body, path="/v1/messages?beta=true", headers=headers)
    running.settle()
    assert found.status == 200, found.body
    assert "not tracked" not in found.headers.get("x-everturn-note", "")
    return found.headers["x-everturn-session"]


def sent_messages(upstream: RawUpstream) -> list[list[dict[str, Any]]]:
    return [json.loads(each.body)["messages"] for each in upstream.seen]


def plain(messages: Sequence[dict[str, Any]]) -> list[tuple[str, list[Any], Any]]:
    """Role, texts and results, and the effort of each message."""
    found = []
    for each in messages:
        content = each["content"]
        blocks = [text(content)] if isinstance(content, str) else content
        words = [block.get("text") or block.get("content") or block.get("name") for block in blocks]
        found.append((each["role"], words, each.get("output_config")))
    return found


@pytest.mark.spec("GW-24")
@pytest.mark.parametrize("mode", MODES)
def test_a_session_of_claude_code_is_one_conversation_and_its_agents_are_others(lab: OpenLab, mode: str):
    call = called("toolu_1", "Agent", {"prompt": "Find it."}, "I'll have an agent look.")
    upstream = answers(call, "found", "Done.", "It adds.")
    running = lab(upstream, mode=mode)
    head = claude_code_headers()
    prompt, environment = asked("Where is add_totals used?"), "# Environment\nA folder."
    first = ask(running, claude_code_body(prompt, told(environment, is_newest=True)), **head)
    # Two agents with the same bytes stay apart.
    task = claude_code_body(asked("Find it."), told("Deferred tools.", is_newest=True), billing="fe9")
    agent = ask(running, task, **claude_code_headers(agent="a1"))
    known = [prompt, told(environment, is_newest=False), {"role": "assistant", "content": call}]
    result = {
        "role": "user",
        "content": [resulted("toolu_1", [text("found")], cache_control={"type": "ephemeral"})],
    }
    second = ask(running, claude_code_body(*known, result), **head)
    assert second == first != agent
    # Continued by another process: the prompt has become a string, and only the effort is set again.
    known += [{"role": "user", "content": [resulted("toolu_1", "found")]}]
    known += [{"role": "assistant", "content": [text("Done.")]}, asked("What does it do?")]
    third = ask(running, claude_code_body(*known, {"role": "system", "content": [], **EFFORT}), **head)
    assert third == first
    assert running.gateway.metrics.passed_through == {}
    assert running.gateway.metrics.degradations == {}
    got = sent_messages(upstream)
    efforts = [EFFORT["output_config"] if role == "system" else None for role, *_ in plain(got[3])]
    assert [config for *_, config in plain(got[3])] == efforts
    assert plain(got[3])[1] == ("system", [environment], EFFORT["output_config"])
    assert plain(got[3])[-1] == ("system", [], EFFORT["output_config"])
    assert [each["role"] for each in got[3]] == [
        "user",
        "system",
        "assistant",
        "user",
        "assistant",
        "user",
        "system",
    ]
    body = json.loads(upstream.seen[3].body)
    assert body["context_management"] == {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    assert (len(body["tools"]), body["system"][0]["text"][:27]) == (24, "x-anthropic-billing-header:")
    assert upstream.seen[3].header("anthropic-beta") == BETAS


@pytest.mark.spec("GW-24", "GW-10")
@pytest.mark.parametrize("mode", MODES)
def test_after_a_refusal_the_same_history_without_effort_and_system_messages_is_recognised(
    lab: OpenLab, mode: str
):
    upstream = answers("First.", "Second.", "Third.")
    running = lab(upstream, mode=mode)
    prompt = asked("What is this?")
    first = ask(running, claude_code_body(prompt, told("A folder.", is_newest=True)), **claude_code_headers())
    older = BETAS.replace("per-turn-control-2026-07-01,", "")
    known = [
        prompt,
        told("A folder.", is_newest=False, effort=False),
        {"role": "assistant", "content": [text("First.")]},
    ]
    more = {"role": "user", "content": [text("And that?")]}
    second = ask(running, claude_code_body(*known, more), **claude_code_headers(betas=older))
    reminder = text("<system-reminder>\nA folder.\n</system-reminder>")
    spelled = [{"role": "user", "content": [*prompt["content"], reminder]}, known[2], more]
    spelled += [{"role": "assistant", "content": "Second."}, {"role": "user", "content": "Go on."}]
    third = ask(running, claude_code_body(*spelled), **claude_code_headers(betas=older))
    assert (second, third) == (first, first)
    got = sent_messages(upstream)
    # A field that needs a beta is not sent without it.
    assert [each.get("output_config") for each in got[1] + got[2]] == [None] * (len(got[1]) + len(got[2]))
    assert [each["role"] for each in got[2]] == ["user", "assistant"] * 2 + ["user"]


@pytest.mark.spec("GW-24")
def test_a_default_that_claude_code_adds_to_a_call_costs_only_the_thinking_of_that_reply(lab: OpenLab):
    def thought(words: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": words, "signature": f"signed-{words}"}

    read = [thought("one"), *called("toolu_1", "Read", {"file_path": "a.py"})]
    edit = [thought("two"), *called("toolu_2", "Edit", {"file_path": "a.py", "old_string": "a"})]
    upstream = answers(read, edit, "Done.")
    running = lab(upstream, mode="manage")
    head, messages = claude_code_headers(), [asked("Change a to b."), told("A folder.", is_newest=False)]
    ask(running, claude_code_body(*messages), **head)
    messages += [{"role": "assistant", "content": read}]
    messages += [{"role": "user", "content": [resulted("toolu_1", "a = 1")]}]
    ask(running, claude_code_body(*messages), **head)
    changed = {**edit[1], "input": {"replace_all": False, **edit[1]["input"]}}
    messages += [{"role": "assistant", "content": [edit[0], changed]}]
    messages += [{"role": "user", "content": [resulted("toolu_2", "updated")]}]
    ask(running, claude_code_body(*messages), **head)
    got = [each["content"] for each in sent_messages(upstream)[2] if each["role"] == "assistant"]
    assert got == [read, [changed]]


@pytest.mark.spec("GW-24")
@pytest.mark.parametrize("mode", MODES)
def test_the_clients_own_compaction_is_understood_and_starts_a_new_conversation(lab: OpenLab, mode: str):
    upstream = answers("First.", "<summary>1. Primary request</summary>", "Again.")
    running = lab(upstream, mode=mode)
    head, prompt = claude_code_headers(), asked("What is this?")
    first = ask(running, claude_code_body(prompt, told("A folder.", is_newest=True)), **head)
    known = [prompt, told("A folder.", is_newest=False), {"role": "assistant", "content": [text("First.")]}]
    compact = {"role": "user", "content": [text("CRITICAL: Respond with TEXT ONLY. Write a summary.")]}
    assert ask(running, claude_code_body(*known, compact, thinking={"type": "disabled"}), **head) == first
    continued = {"role": "user", "content": "This session is being continued from a previous conversation. x"}
    marker = {"role": "system", "content": [], **EFFORT}
    read = [text("<local-command-stdout>Compacted</local-command-stdout>\n"), text("Go on.")]
    short = [
        continued,
        marker,
        {"role": "assistant", "content": [text("First.")]},
        {"role": "user", "content": read},
    ]
    ask(running, claude_code_body(*short, told("Deferred tools.", is_newest=True), billing="5be"), **head)
    assert running.gateway.metrics.passed_through == {}
    assert plain(sent_messages(upstream)[2])[1] == ("system", [], EFFORT["output_config"])


@pytest.mark.spec("GW-24")
@pytest.mark.parametrize("mode", MODES)
def test_threads_of_the_tool_runners_are_continued(lab: OpenLab, mode: str):
    call = called("toolu_1", "Read", {"file_path": "a.py"})
    upstream = answers(call, "It adds.")
    running = lab(upstream, mode=mode)
    tools = [{"name": "Read", "description": "r", "input_schema": {"type": "object"}}]
    head = {"anthropic-beta": "message-threads-2026-08-12"}
    common = {"model": "claude-sonnet-4-6", "max_tokens": 100, "cache_control": {"type": "ephemeral"}}
    start = common | {"system": "Help.", "tools": tools, "thread": {"type": "create"}}
    first = ask(running, start | {"messages": [{"role": "user", "content": "Read a.py."}]}, **head)
    result = {"role": "user", "content": [resulted("toolu_1", "def add(): pass")]}
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    assert ask(running, common | {"messages": [result], "thread": thread}, **head) == first
    unknown = common | {"messages": [result], "thread": thread | {"previous_message_id": "msg_of_others"}}
    found = running.ask(unknown, headers=head)
    assert found.headers["x-everturn-note"] == "not tracked: it continues a thread that everturn has not seen"


@pytest.mark.spec("GW-24", "GW-11")
@pytest.mark.parametrize("mode", MODES)
def test_aiders_reminder_inside_a_message_does_not_fork_the_conversation(lab: OpenLab, mode: str):
    # Short answers do not identify a conversation.
    adds = "The function adds all values that it is given, and returns their sum as a number. " * 4
    renamed = "I renamed the function in src/orders.py; nothing else calls it by its name. " * 4
    upstream = answers(adds, renamed, "Yes.")
    running = lab(upstream, mode=mode)
    turns: list[tuple[str, str]] = []
    seen: set[str] = set()
    for question, answer in (("What does it do?", adds), ("Rename it.", renamed), ("Done?", "Yes.")):
        seen.add(ask(running, aider_body(*turns, newest=question)))
        turns.append((question, answer))
    assert len(seen) == 1
    assert running.gateway.metrics.passed_through == {}


NOT_UNDERSTOOD = [
    ({"compaction": {"type": "summarize"}}, "it uses compaction, the API's own context management"),
    ({"max_tokens": 0}, "it only warms the cache (max_tokens is 0)"),
]


@pytest.mark.spec("GW-24", "GW-9")
@pytest.mark.parametrize("mode", MODES)
def test_what_is_passed_through_is_counted_by_reason_and_shown(lab: OpenLab, mode: str):
    running = lab(answers("Hello."), mode=mode, operator_port=0)
    for fields, why in NOT_UNDERSTOOD:
        found = running.ask(claude_code_body(asked("Hello."), **fields), headers=claude_code_headers())
        assert (found.status, found.headers["x-everturn-session"]) == (200, "none")
        assert found.headers["x-everturn-note"] == f"not tracked: {why}"
    cleared = {"role": "system", "content": "x", "clear_at": "next_user_message"}
    running.ask(claude_code_body(asked("Hello."), cleared), headers=claude_code_headers())
    page = running.ask(method="GET", path="/metrics", address=running.operator).body.decode()
    name = "everturn_gateway_passed_through_total"
    counted = [line.removeprefix(name) for line in page.splitlines() if line.startswith(name)]
    assert sorted(counted) == [
        '{reason="it only warms the cache N"} 1.0',
        '{reason="it uses compaction, the API\'s own context management"} 1.0',
        '{reason="messages.N has an unsupported role, field or content"} 1.0',
    ]
