"""Hooks around prompts, tools and the end of an answer, as a session runs them."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from everturn import Session, Tool
from everturn.decide.effects import HookEvent
from everturn.decide.events import HookTrouble
from everturn.history.blocks import text_of
from everturn.session.async_session import AsyncSession
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.session.hooks.settings import CommandHook, HookCommand
from everturn.session.loop_hooks import MAX_CONTINUATIONS, PromptBlocked
from everturn.session.session import Reply
from everturn.session.tools import ToolCall
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

How = Literal["callable", "async callable", "command"]
HOW: tuple[How, ...] = ("callable", "async callable", "command")
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}


def hook(event: HookEvent, said: Any, how: How = "callable", matcher: str = "") -> Any:
    """One that always says the same, by each of the ways in which hooks can be given."""

    async def later(payload: Mapping[str, Any]) -> Any:
        await asyncio.sleep(0)
        return said

    if how == "command":
        code = f"import sys; sys.stdin.read(); print({json.dumps(said)!r})"
        return CommandHook(event, matcher, HookCommand(sys.executable, ("-S", "-c", code)), 20)
    return CallbackHook(event, later if how == "async callable" else lambda payload: said, matcher)


def specific(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": fields}


class Room:
    """A session with hooks, one tool, and what was heard."""

    def __init__(self, folder: Path, twin: TwinForTests) -> None:
        self.folder, self.twin = folder, twin
        self.ran: list[dict[str, Any]] = []
        self.heard: list[Any] = []
        self._ids = count(1)

    def how(self, *hooks: Any, **more: Any) -> dict[str, Any]:
        return {
            "model": "claude-haiku-4-5",
            "send": make_twin_send(self.twin.twin),
            "clock": self.twin.twin.clock.now,
            "new_id": lambda: f"{next(self._ids):08d}",
            "listen": self.heard.append,
            "fsync": "never",
            "tools": [Tool(READ, self.read)],
            "hooks": Hooks(hooks, environment={"PATH": os.environ["PATH"]}),
            **more,
        }

    def read(self, given: Mapping[str, Any]) -> str:
        self.ran.append(dict(given))
        return f"content of {given.get('path')}"

    def open(self, *hooks: Any, **more: Any) -> Session:
        return Session.open(self.folder / "s.jsonl", **self.how(*hooks, **more))

    def reads(self, *paths: str, then: str = "Done.") -> None:
        self.twin.script(
            {"content": [{"type": "tool_use", "name": "read", "input": {"path": path}} for path in paths]},
            then,
        )


@pytest.fixture
def room(tmp_path: Path, twin: TwinForTests) -> Room:
    return Room(tmp_path, twin)


def in_view(session: Session) -> str:
    flat = session.conversation._tracker.flattener.flat()
    return "\n".join(text_of(block) for message in flat.messages for block in message.blocks)


def results(session: Session) -> list[str]:
    blocks = (block for each in session.conversation.log.records for block in each.blocks)
    return [text_of(block) for block in blocks if block.is_result]


# ── what is said ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("HK-1", "HK-2")
@pytest.mark.parametrize("how", HOW)
def test_a_hook_adds_words_to_a_prompt(room, how):
    room.twin.script("Red.")
    with room.open(hook("UserPromptSubmit", specific(additionalContext="The build is red."), how)) as session:
        session.send("How is the build?")
        added = "<system-reminder>\nThe build is red.\n</system-reminder>"
        assert in_view(session) == f"{added}\nHow is the build?\nRed."
    assert b"The build is red." in (room.folder / "s.jsonl").read_bytes()


@pytest.mark.spec("HK-1", "HK-2")
@pytest.mark.parametrize("how", HOW)
def test_a_hook_blocks_a_prompt_and_nothing_is_said(room, how):
    room.twin.script("Hello.")
    with room.open(
        hook("UserPromptSubmit", {"decision": "block", "reason": "it has a key in it"}, how)
    ) as session:
        with pytest.raises(PromptBlocked, match="it has a key in it"):
            session.send("The key is 123.")
        assert session.conversation.log.records == []
    assert len(room.twin.ledger) == 0
    assert [event.is_blocked for event in room.heard if isinstance(event, HookTrouble)] == [True]


def test_results_of_tools_are_no_prompt(room):
    told: list[Any] = []
    room.reads("a")
    with room.open(CallbackHook("UserPromptSubmit", told.append)) as session:
        session.send([{"type": "text", "text": "Read a."}])
    assert [payload["prompt"] for payload in told] == ["Read a."]


# ── tools ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("HK-1", "HK-2")
@pytest.mark.parametrize("how", HOW)
def test_a_hook_denies_a_call_and_the_model_is_told_why(room, how):
    room.reads("secret", then="Understood.")
    said = specific(permissionDecision="deny", permissionDecisionReason="that file is private")
    with room.open(hook("PreToolUse", said, how, matcher="read")) as session:
        assert session.send("Read it.").text == "Understood."
        assert results(session) == ["This call was not made: that file is private"]
    assert room.ran == []


@pytest.mark.parametrize("answer", [True, False])
def test_a_hook_asks_and_a_person_decides(room, answer):
    asked: list[tuple[ToolCall, str]] = []

    def permit(call: ToolCall, why: str) -> bool:
        asked.append((call, why))
        return answer

    room.reads("a")
    said = specific(permissionDecision="ask", permissionDecisionReason="is this wanted?")
    with room.open(hook("PreToolUse", said), permit=permit) as session:
        session.send("Read it.")
        made = "content of a" if answer else "This call was not made: is this wanted?"
        assert results(session) == [made]
    assert [(call.tool, call.input, why) for call, why in asked] == [
        ("read", {"path": "a"}, "is this wanted?")
    ]


def test_where_nobody_can_be_asked_nobody_has_agreed(room):
    room.reads("a")
    with room.open(hook("PreToolUse", specific(permissionDecision="ask"))) as session:
        session.send("Read it.")
    assert room.ran == []


def test_the_strictest_of_several_hooks_counts(room):
    room.reads("a")
    allows, denies = (hook("PreToolUse", specific(permissionDecision=said)) for said in ("allow", "deny"))
    with room.open(allows, denies, allows) as session:
        session.send("Read it.")
    assert room.ran == []


@pytest.mark.parametrize("how", HOW)
def test_a_hook_changes_what_a_tool_is_given(room, how):
    told: list[Any] = []
    room.reads("a")
    said = specific(permissionDecision="allow", updatedInput={"path": "b"})
    with room.open(hook("PreToolUse", said, how), CallbackHook("PostToolUse", told.append)) as session:
        session.send("Read it.")
        assert results(session) == ["content of b"]
    assert room.ran == [{"path": "b"}]
    wanted = ("read", {"path": "b"}, "content of b", "PostToolUse")
    names = ("tool_name", "tool_input", "tool_response", "hook_event_name")
    assert [tuple(payload[name] for name in names) for payload in told] == [wanted]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("short", "short"),
        ([{"type": "text", "text": "a part"}], "a part"),
        ({"stdout": "x"}, '{"stdout":"x"}'),
    ],
)
def test_a_hook_changes_what_came_out_of_a_tool(room, how, output, shown):
    room.reads("a")
    said = specific(updatedToolOutput=output, additionalContext="It was cut.")
    with room.open(hook("PostToolUse", said, how)) as session:
        session.send("Read it.")
        assert results(session) == [shown]
        assert "It was cut." in in_view(session)


def test_a_tool_has_run_whatever_a_hook_says_of_it_then(room):
    room.reads("a")
    with room.open(hook("PostToolUse", {"decision": "block", "reason": "the linter fails"})) as session:
        session.send("Read it.")
        assert results(session) == ["content of a"]
        assert "read: the linter fails" in in_view(session)


def test_a_hook_ends_the_loop(room):
    room.reads("a")
    with room.open(hook("PostToolUse", {"continue": False, "stopReason": "the budget is spent"})) as session:
        reply = session.send("Read it.")
        assert (reply.stopped, len(room.twin.ledger)) == ("the budget is spent", 1)
        assert session.send().text == "Done."


@pytest.mark.spec("HK-3")
@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"])
def test_a_hook_that_fails_is_reported_and_costs_nothing(room, event):
    def broken(payload: Any) -> None:
        raise ConnectionError("the wiki is down")

    room.reads("a")
    with room.open(CallbackHook(event, broken)) as session:
        assert session.send("Read it.").text == "Done."
        assert results(session) == ["content of a"]
    assert [each.hook for each in room.heard if isinstance(each, HookTrouble)] == [event]


def test_an_interrupt_in_a_hook_leaves_no_call_without_its_answer(room, monkeypatch):
    room.reads("a", "b", then="Good.")
    with room.open(hook("PreToolUse", None)) as session:
        real = session._runtime.handler.run_hooks

        def interrupted(effect: Any) -> Any:
            if effect.event == "PreToolUse":
                raise KeyboardInterrupt
            return real(effect)

        monkeypatch.setattr(session._runtime.handler, "run_hooks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.send("Read them.")
        assert [each[:11] for each in results(session)] == ["Interrupted", "Interrupted"]
        assert session.send("Go on.").text == "Good."


# ── the end of an answer ─────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("HK-1")
def test_a_stop_hook_asks_to_go_on_until_it_is_content(room):
    told: list[bool] = []

    def unless_tested(payload: Mapping[str, Any]) -> Any:
        told.append(payload["stop_hook_active"])
        return {"decision": "block", "reason": "The tests were not run."} if len(told) < 3 else None

    room.twin.script("Fixed.", "Tested half.", "Tested all.")
    with room.open(CallbackHook("Stop", unless_tested)) as session:
        reply = session.send("Fix it.")
        assert (reply.text, reply.stopped) == ("Tested all.", "")
        assert in_view(session).count("The tests were not run.") == 2
    assert told == [False, True, True]


@pytest.mark.parametrize("how", HOW)
def test_a_stop_hook_that_is_never_content_is_ended(room, how):
    room.twin.script(*("Yes." for _ in range(MAX_CONTINUATIONS + 1)))
    with room.open(hook("Stop", {"decision": "block", "reason": "more"}, how)) as session:
        reply = session.send("Fix it.")
        assert reply.stopped == f"a Stop hook asked to go on more than {MAX_CONTINUATIONS} times: more"
    assert len(room.twin.ledger) == MAX_CONTINUATIONS + 1


@pytest.mark.spec("HK-3")
def test_what_hooks_want_a_person_to_read_is_among_the_remarks(room):
    room.twin.script("Yes.")
    with room.open(hook("Stop", {"systemMessage": "Do not forget to push."})) as session:
        session.send("Fix it.")
        assert "Do not forget to push." in session.remarks


def test_whoever_only_looks_runs_no_hook(room):
    room.twin.script("Yes.")
    with room.open() as session:
        session.send("Really?")
    told: list[Any] = []
    with room.open(
        CallbackHook("SessionStart", told.append), CallbackHook("SessionEnd", told.append), access="read"
    ):
        pass
    assert told == []


# ── with awaits ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", HOW)
def test_with_awaits_all_of_them_run_too(room, how):
    hooks = (
        hook("UserPromptSubmit", specific(additionalContext="It is Sunday."), how),
        hook("PreToolUse", specific(updatedInput={"path": "b"}), how),
        hook("PostToolUse", specific(updatedToolOutput="short"), how),
        hook("Stop", {"continue": False, "stopReason": "that is all"}, how),
    )
    room.reads("a")

    async def talked() -> tuple[Reply, list[str], str]:
        async with await AsyncSession.open(room.folder / "s.jsonl", **room.how(*hooks)) as session:
            reply = await session.send("Read it.")
            return reply, results(session.session), in_view(session.session)

    reply, shown, view = asyncio.run(talked())
    assert (reply.text, reply.stopped, shown) == ("Done.", "that is all", ["short"])
    assert "It is Sunday." in view
    assert room.ran == [{"path": "b"}]


def test_nothing_is_spelled_out_for_hooks_that_are_not_there(room, monkeypatch):
    asked: list[str] = []
    room.reads("a")
    with room.open(hook("SessionEnd", None)) as session:
        real: Callable[[Any], Any] = session._runtime.handler.run_hooks
        monkeypatch.setattr(
            session._runtime.handler, "run_hooks", lambda effect: asked.append(effect.event) or real(effect)
        )
        session.send("Read it.")
    assert asked == ["SessionEnd"]
