"""Hooks that the chat runs: sub-agents, permissions, memory files, start and end of a conversation (HK-4)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everturn.chat.commands import run_slash_command
from everturn.chat.loop import converse
from everturn.chat.screen.input import SlashCommand
from everturn.decide.options import HookSettings

from .conftest import SUMMARY, Desk, Paper

EVENTS = (
    "SessionStart",
    "SessionEnd",
    "SubagentStart",
    "SubagentStop",
    "PermissionRequest",
    "InstructionsLoaded",
)
Fields = tuple[str, ...]


class HookLog:
    """A settings file whose hooks log what they are told, and may answer."""

    def __init__(self, folder: Path) -> None:
        self._log, self._settings = folder / "hooks.log", folder / "settings.json"
        self._answers: dict[str, str] = {}

    def answer(self, event: str, output: Any, *, then: Any = None) -> None:
        """What the hook of an event prints; `then` is for the second time and later."""
        first, later = (json.dumps(each if isinstance(each, dict) else {}) for each in (output, then))
        marker = self._settings.with_name(f"{event}.ran")
        self._answers[event] = (
            f"; if [ -e '{marker}' ]; then echo '{later}'; else touch '{marker}'; echo '{first}'; fi"
        )

    @property
    def options(self) -> HookSettings:
        commands = {
            event: f"cat >> '{self._log}'; echo >> '{self._log}'{self._answers.get(event, '')}"
            for event in EVENTS
        }
        hooks = {
            event: [{"hooks": [{"type": "command", "command": command}]}]
            for event, command in commands.items()
        }
        self._settings.write_text(json.dumps({"hooks": hooks}))
        return HookSettings(files=(str(self._settings),))

    def told(self, *fields: str, about: Fields = EVENTS) -> list[tuple[Any, ...]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        payloads = [json.loads(line) for line in lines if line]
        return [
            (each["hook_event_name"], *(each.get(field) for field in fields))
            for each in payloads
            if each["hook_event_name"] in about
        ]


@pytest.fixture
def log(tmp_path: Path) -> HookLog:
    return HookLog(tmp_path)


@pytest.mark.spec("HK-4")
def test_a_search_agent_starts_and_stops_with_hooks_and_is_no_session_of_its_own(desk: Desk, log: HookLog):
    desk.twin.script(desk.call("Task", description="find", prompt="Where?"), "In app.py.", "app.py.")
    agent = desk.agent(hooks=log.options)
    agent.answer("Find it.")
    (start, stop) = log.told(
        "agent_type", "last_assistant_message", "stop_hook_active", about=("SubagentStart", "SubagentStop")
    )
    assert start == ("SubagentStart", "search", None, None)
    assert stop == ("SubagentStop", "search", "In app.py.", False)
    ((_, transcript, name),) = log.told("agent_transcript_path", "agent_id", about=("SubagentStop",))
    assert Path(transcript).stem == name
    assert Path(transcript).exists()
    assert log.told("source", about=("SessionStart", "SessionEnd")) == [("SessionStart", "startup")]


@pytest.mark.spec("HK-4")
def test_a_hook_adds_context_to_a_search_agent_and_makes_it_continue(desk: Desk, log: HookLog):
    context = {"hookEventName": "SubagentStart", "additionalContext": "Only look at src."}
    log.answer("SubagentStart", {"hookSpecificOutput": context})
    log.answer("SubagentStop", {"decision": "block", "reason": "Name the line."})
    desk.twin.script(
        desk.call("Task", description="find", prompt="Where?"), "In app.py.", "In app.py:1.", "Found."
    )
    agent = desk.agent(hooks=log.options)
    agent.answer("Find it.")
    assert log.told("last_assistant_message", "stop_hook_active", about=("SubagentStop",)) == [
        ("SubagentStop", "In app.py.", False),
        ("SubagentStop", "In app.py:1.", True),
    ]
    ((_, transcript),) = set(log.told("agent_transcript_path", about=("SubagentStop",)))
    said = Path(transcript).read_text()
    assert ("Only look at src.\\n\\nWhere?" in said, "Name the line." in said) == (True, True)
    assert "● Task find  In app.py:1." in desk.paper.lines


def decide(**decision: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


@pytest.mark.spec("HK-4")
@pytest.mark.parametrize(
    ("output", "is_written", "asked"),
    [
        (decide(behavior="allow"), True, 0),
        (decide(behavior="deny", message="not today"), False, 0),
        ({}, True, 1),
    ],
)
def test_a_permission_hook_decides_before_the_user_is_asked(
    desk: Desk, log: HookLog, output: dict[str, Any], is_written: bool, asked: int
):
    log.answer("PermissionRequest", output, then=output)
    given = {"file_path": "new.py", "content": "x = 1\n"}
    desk.twin.script(desk.call("Write", **given), "Done.")
    desk.agent(hooks=log.options).answer("Write it.")
    assert log.told("tool_name", "tool_input", about=("PermissionRequest",)) == [
        ("PermissionRequest", "Write", given)
    ]
    assert ((desk.project / "new.py").exists(), len(desk.requests)) == (is_written, asked)
    denied = "a hook does not allow to write new.py (+1 -0): not today"
    assert (denied in desk.path.read_text()) is (not is_written)


@pytest.mark.spec("HK-4")
def test_a_permission_hook_cannot_allow_what_the_mode_refuses(desk: Desk, log: HookLog):
    log.answer("PermissionRequest", decide(behavior="allow"))
    desk.twin.script(desk.call("Bash", command="touch ran"), "Not done.")
    desk.agent("read only", hooks=log.options).answer("Run it.")
    assert log.told(about=("PermissionRequest",)) == []
    assert not (desk.project / "ran").exists()


@pytest.mark.spec("HK-4")
@pytest.mark.moves_cache_prefix(reason="a compaction is made by hand")
def test_memory_files_are_reported_when_they_are_loaded(desk: Desk, log: HookLog):
    (desk.project / "CLAUDE.md").write_text("Be brief.")
    (desk.project / "inner").mkdir()
    (desk.project / "inner" / "AGENTS.md").write_text("Tabs.")
    (desk.project / "inner" / "a.py").write_text("x = 1\n")
    desk.twin.script(desk.call("Read", file_path="inner/a.py"), "Read. " * 100, SUMMARY)
    agent = desk.agent(hooks=log.options)
    agent.answer("Look at it. " * 100)
    agent.reopen()
    agent.session.compact()
    main, nested = str(desk.project / "CLAUDE.md"), str(desk.project / "inner" / "AGENTS.md")
    assert log.told("file_path", "memory_type", "load_reason", about=("InstructionsLoaded",)) == [
        ("InstructionsLoaded", main, "Project", "session_start"),
        ("InstructionsLoaded", nested, "Project", "nested_traversal"),
        ("InstructionsLoaded", main, "Project", "compact"),
    ]


def clear(agent: Any) -> None:
    list(run_slash_command(agent, SlashCommand("clear")))


def leave(agent: Any) -> None:
    agent.terminal.answers = ["/quit"]
    converse(agent)


@pytest.mark.spec("HK-4")
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (
            clear,
            [("SessionStart", "clear", None), ("SessionEnd", None, "clear"), ("SessionEnd", None, "other")],
        ),
        (leave, [("SessionEnd", None, "prompt_input_exit")]),
        (lambda _: None, [("SessionEnd", None, "other")]),
        # The same conversation goes on after an interrupt.
        (lambda agent: agent.reopen(), [("SessionEnd", None, "other")]),
    ],
)
def test_hooks_are_told_why_a_conversation_starts_and_ends(
    desk: Desk, log: HookLog, act: Callable[[Any], None], expected: list[tuple[Any, ...]]
):
    desk.paper = Paper("plain")
    desk.twin.script("Yes.")
    agent = desk.agent(hooks=log.options)
    agent.answer("Are you there?")
    act(agent)
    agent.close()
    told = log.told("source", "reason", about=("SessionStart", "SessionEnd"))
    assert told == [("SessionStart", "startup", None), *expected]


@pytest.mark.spec("HK-4")
def test_hooks_are_told_that_another_conversation_is_resumed(desk: Desk, log: HookLog):
    desk.twin.script("Yes.", "No.")
    agent = desk.agent(hooks=log.options)
    agent.answer("Are you there?")
    clear(agent)
    agent.answer("And now?")
    list(run_slash_command(agent, SlashCommand("resume", "one")))
    assert log.told("source", "reason", about=("SessionStart", "SessionEnd"))[-2:] == [
        ("SessionStart", "resume", None),
        ("SessionEnd", None, "resume"),
    ]
