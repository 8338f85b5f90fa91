"""Hooks: what they may say, in which order, and that none of them can cost the session."""

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, get_args

import pytest

from everturn.decide.effects import HookEvent, HookOutcome, RunHooks
from everturn.processes import MINIMAL_VARIABLES, minimal_environment
from everturn.session.hooks.commands import (
    MAX_OUTPUT_BYTES,
    parse_command_output,
)
from everturn.session.hooks.rules import HOOK_RULES, MAX_CHARACTERS, HookOutput, merge_outcomes, read_outcome
from everturn.session.hooks.run import CallbackHook, Hooks, merge_hooks, run_hooks, run_hooks_async
from everturn.session.hooks.settings import EVERYTHING, CommandHook, HookCommand, matches, parse_hooks

PRE_COMPACT = RunHooks("PreCompact", {"trigger": "auto", "custom_instructions": ""})
ENVIRONMENT = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "sk-ant-canary", "LC_ALL": "C.UTF-8"}


def command(
    text: str, *, seconds: float = 20, event: HookEvent = "PreCompact", matcher: str = ""
) -> CommandHook:
    return CommandHook(event, matcher, HookCommand(text), seconds)


def python(code: str, *, seconds: float = 20, event: HookEvent = "PreCompact") -> CommandHook:
    return CommandHook(event, "", HookCommand(sys.executable, ("-S", "-c", code)), seconds)


def ran(*hooks: Any, effect: RunHooks = PRE_COMPACT, **told: Any) -> HookOutcome:
    return run_hooks(effect, Hooks(hooks, told=told, environment=ENVIRONMENT))


def problem(outcome: HookOutcome) -> str:
    (only,) = outcome.problems
    return only


# ── what may be said ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("HK-1")
def test_every_event_has_its_rule():
    assert set(HOOK_RULES) == set(get_args(HookEvent)) == {
        "PreCompact", "PostCompact", "SessionStart", "SessionEnd",
        "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop",
        "SubagentStart", "SubagentStop", "PermissionRequest", "InstructionsLoaded",
    }  # fmt: skip


@pytest.mark.spec("HK-4")
@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        ({"behavior": "allow"}, HookOutcome(permission="allow")),
        ({"behavior": "deny", "message": "no"}, HookOutcome(permission="deny", blocked="no")),
        (
            {"behavior": "maybe"},
            HookOutcome(problems=("hook h: decision.behavior is 'maybe'; allowed are allow, deny",)),
        ),
        ("allow", HookOutcome(problems=("hook h: decision.behavior is None; allowed are allow, deny",))),
    ],
)
def test_a_permission_request_is_allowed_or_denied_in_the_words_of_claude_code(decision, outcome):
    said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    assert read_outcome("PermissionRequest", "h", HookOutput(said)) == outcome


@pytest.mark.spec("HK-3")
def test_before_a_compaction_a_hook_may_instruct_tell_the_user_and_block():
    plain = read_outcome("PreCompact", "h", HookOutput("keep the schema\n"))
    assert plain == HookOutcome(instructions=("keep the schema",))
    spoken = {
        "systemMessage": "Saving notes first.",
        "hookSpecificOutput": {"hookEventName": "PreCompact", "customInstructions": "keep the schema"},
    }
    assert read_outcome("PreCompact", "h", HookOutput(spoken)) == HookOutcome(
        instructions=("keep the schema",), messages=("Saving notes first.",)
    )
    assert (
        read_outcome("PreCompact", "h", HookOutput({"decision": "block", "reason": "tests run"})).blocked
        == "tests run"
    )
    assert read_outcome("PreCompact", "h", HookOutput(blocks="not now\n")).blocked == "not now"


@pytest.mark.spec("HK-1")
@pytest.mark.parametrize(
    ("event", "field"),
    [
        ("PreCompact", "instructions"),
        ("PostCompact", "context"),
        ("SessionStart", "context"),
        ("SessionEnd", ""),
        ("UserPromptSubmit", "context"),
        ("PreToolUse", ""),
        ("PostToolUse", "context"),
        ("Stop", ""),
        ("SubagentStart", "context"),
        ("SubagentStop", ""),
        ("PermissionRequest", ""),
        ("InstructionsLoaded", ""),
    ],
)
def test_words_without_a_name_go_where_the_event_wants_them(event, field):
    assert read_outcome(event, "h", HookOutput("words")) == HookOutcome(
        **({field: ("words",)} if field else {})
    )


@pytest.mark.parametrize("event", get_args(HookEvent))
def test_only_events_that_can_be_blocked_are(event):
    found = read_outcome(event, "h", HookOutput({"decision": "block", "reason": "no"}))
    if HOOK_RULES[event].can_block:
        assert found == HookOutcome(blocked="no")
    else:
        said = "hook h: this event cannot be blocked; the request to block was ignored"
        assert found == HookOutcome(problems=(said,))


def test_a_denied_permission_and_a_stop_block_too():
    denied = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no rm"}}
    assert read_outcome("PreToolUse", "h", HookOutput(denied)) == HookOutcome(
        blocked="no rm", permission="deny"
    )
    stopped = {"continue": False, "stopReason": "enough"}
    assert read_outcome("UserPromptSubmit", "h", HookOutput(stopped)).blocked == "enough"
    assert read_outcome("Stop", "h", HookOutput(stopped)) == HookOutcome(ended="enough")
    assert read_outcome("PreCompact", "h", HookOutput({"decision": "block"})).blocked == (
        "blocked by hook h, which gave no reason"
    )


@pytest.mark.parametrize(
    ("spoken", "says"),
    [
        ({"systemMessage": 3}, "systemMessage is a value of type int, not a text; it was ignored"),
        ({"hookSpecificOutput": [1]}, "hookSpecificOutput is a value of type list, not an object"),
        (
            {"hookSpecificOutput": {"hookEventName": "Stop", "customInstructions": "x"}},
            "hookEventName is 'Stop', but the event is PreCompact; that part was ignored",
        ),
        (
            {"hookSpecificOutput": {"additionalContext": "x"}},
            "text for context is not used by this event; it was ignored",
        ),
    ],
)
def test_what_cannot_be_used_is_reported(spoken, says):
    assert read_outcome("PreCompact", "h", HookOutput(spoken)) == HookOutcome(problems=(f"hook h: {says}",))


@pytest.mark.spec("HK-3")
def test_long_words_are_cut_and_that_is_said():
    found = read_outcome("SessionStart", "h", HookOutput("x" * (MAX_CHARACTERS + 1)))
    assert found.context == ("x" * 10_000,)
    assert found.problems == ("hook h: 10,001 characters were cut to 10,000",)


def test_the_first_reason_to_block_is_the_reason():
    outcomes = [
        HookOutcome(context=("a",)),
        HookOutcome(blocked="one"),
        HookOutcome(("i",), ("b",), blocked="two"),
    ]
    assert merge_outcomes(outcomes) == HookOutcome(("i",), ("a", "b"), blocked="one")


# ── settings ─────────────────────────────────────────────────────────────────────────────────────

SETTINGS = {
    "model": "opus",
    "hooks": {
        "PreCompact": [
            {
                "matcher": "manual|auto",
                "hooks": [
                    {"type": "command", "command": "ourtool", "args": ["hook", "$(id)"], "timeout": 30},
                    {"type": "command", "command": "echo keep | cat"},
                ],
            }
        ]
    },
}


def spelled(hooks: Any) -> bytes:
    return json.dumps({"hooks": hooks}).encode()


@pytest.mark.spec("HK-2")
def test_the_shape_of_claude_codes_settings_is_read():
    read = parse_hooks(json.dumps(SETTINGS).encode(), origin="user", trusted=EVERYTHING)
    tool, line = read.hooks
    assert tool == CommandHook(
        "PreCompact", "manual|auto", HookCommand("ourtool", ("hook", "$(id)")), 30, "user"
    )
    assert tool.run.argv == ("ourtool", "hook", "$(id)")
    assert (line.seconds, line.run.argv) == (600, ("/bin/sh", "-c", "echo keep | cat"))
    assert read.problems == ()


def test_a_projects_hooks_run_only_once_somebody_trusts_exactly_them():
    data = json.dumps(SETTINGS).encode()
    asked = parse_hooks(data, origin="project", trusted=())
    assert asked.hooks == ()
    assert problem(HookOutcome(problems=asked.problems)).startswith(
        "project: 2 hooks do not run, because they are not trusted"
    )
    assert len(parse_hooks(data, origin="project", trusted={asked.digest}).hooks) == 2
    changed = data.replace(b"keep", b"curl evil")
    assert parse_hooks(changed, origin="project", trusted={asked.digest}).hooks == ()
    spaced = json.dumps(SETTINGS, indent=4).encode()
    assert parse_hooks(spaced, origin="project", trusted={asked.digest}).hooks != ()


@pytest.mark.parametrize(
    ("hooks", "says"),
    [
        ([], "hooks must be an object"),
        ({"PreCompakt": []}, "hooks.PreCompakt is not a known event; its hooks do not run"),
        ({"Stop": {}}, "hooks.Stop must be a list"),
        ({"Stop": [3]}, "hooks.Stop[0] must be an object with a list of hooks"),
        (
            {"Stop": [{"matcher": "(", "hooks": []}]},
            "hooks.Stop[0] '(' is not a valid matcher; its hooks do not run",
        ),
        (
            {"Stop": [{"hooks": [{"type": "http"}]}]},
            "hooks.Stop[0].hooks[0] has type 'http'; only 'command' is supported",
        ),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "hooks.Stop[0].hooks[0] needs a command"),
        (
            {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": True}]}]},
            "hooks.Stop[0].hooks[0] has timeout True; allowed are seconds above 0 and below 86,400 (a day)",
        ),
        (
            {"Stop": [{"hooks": [{"type": "command", "command": "x", "args": "y"}]}]},
            "hooks.Stop[0].hooks[0] has args 'y'; allowed is a list of texts",
        ),
        (
            {"Stop": [{"hooks": [{"type": "command", "command": "x", "if": "y"}]}]},
            "hooks.Stop[0].hooks[0] has a condition ('if') that is not supported; it does not run",
        ),
    ],
)  # fmt: skip
def test_an_entry_that_is_wrong_is_reported_and_costs_only_itself(hooks, says):
    good = {"Stop": [{"hooks": [{"type": "command", "command": "good"}]}]}
    read = parse_hooks(spelled(hooks), origin="f", trusted=EVERYTHING)
    assert read.problems == (f"f: {says}",)
    if isinstance(hooks, dict):
        both = {"SessionStart": good["Stop"], **hooks}
        assert [
            hook.run.command for hook in parse_hooks(spelled(both), origin="f", trusted=EVERYTHING).hooks
        ] == ["good"]


def test_a_file_that_is_no_json_has_no_hooks():
    read = parse_hooks(b"{nope", origin="f", trusted=EVERYTHING)
    assert read.hooks == ()
    assert read.problems[0].startswith("f is not valid JSON")
    assert parse_hooks(b'{"model":"x"}', origin="f", trusted=EVERYTHING).problems == ()


@pytest.mark.parametrize(
    ("matcher", "value", "is_match"),
    [
        ("", "auto", True),
        ("*", "auto", True),
        ("manual|auto", "auto", True),
        ("manual | auto", "auto", True),
        ("manual", "auto", False),
        ("man", "manual", False),
        ("mcp__.*", "mcp__files__read", True),
        ("Edit|Wr.*", "Write", True),
        ("(", "(", False),
    ],
)
def test_a_matcher_is_names_or_a_pattern(matcher, value, is_match):
    assert matches(matcher, value) is is_match


# ── callables ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("HK-2")
async def test_callables_sync_and_async_are_told_and_heard_alike():
    heard: list[Any] = []

    def plain(payload):
        heard.append(payload)
        return "from a function"

    async def later(payload):
        await asyncio.sleep(0)
        return {"systemMessage": f"from a coroutine, {payload['trigger']}"}

    hooks = Hooks(
        (CallbackHook("PreCompact", plain), CallbackHook("PreCompact", later)), told={"session_id": "s"}
    )
    expected = HookOutcome(("from a function",), messages=("from a coroutine, auto",))
    assert await run_hooks_async(PRE_COMPACT, hooks) == expected
    assert await asyncio.to_thread(run_hooks, PRE_COMPACT, hooks) == expected
    # Also from inside a running loop: whoever calls the sync form there waits.
    assert hooks.run(PRE_COMPACT) == expected
    told = {"session_id": "s", "trigger": "auto", "custom_instructions": "", "hook_event_name": "PreCompact"}
    assert heard == [told] * 3


def test_only_the_hooks_that_match_are_run():
    ran_: list[str] = []
    hooks = [
        CallbackHook("PreCompact", lambda _: ran_.append("manual"), "manual"),
        CallbackHook("PreCompact", lambda _: ran_.append("auto"), "auto"),
        CallbackHook("PostCompact", lambda _: ran_.append("post")),
    ]
    assert ran(*hooks) == HookOutcome()
    assert ran_ == ["auto"]


@pytest.mark.spec("HK-3")
def test_hooks_run_side_by_side_and_speak_in_the_order_they_stand_in():
    second_done = threading.Event()
    first_waits = lambda _: "first" if second_done.wait(10) else "alone"  # noqa: E731

    def second(_):
        second_done.set()
        return "second"

    hooks = (CallbackHook("PreCompact", first_waits), CallbackHook("PreCompact", second))
    assert ran(*hooks) == HookOutcome(("first", "second"))
    second_done.clear()
    assert asyncio.run(run_hooks_async(PRE_COMPACT, Hooks(hooks))) == HookOutcome(("first", "second"))


class Evil(dict):
    def get(self, *_):
        raise ValueError("canary")

    items = get


@pytest.mark.spec("HK-3")
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda _: 1 / 0, "raised ZeroDivisionError"),
        (lambda _: sys.exit(3), "raised SystemExit"),
        (lambda _: 7, "returned a int; allowed are a text, a mapping or None"),
        (lambda _: {"hookSpecificOutput": Evil(a=1)}, "raised ValueError"),
    ],
)
def test_a_callable_that_fails_is_reported_and_the_others_are_heard(call, says):
    hooks = (CallbackHook("PreCompact", call, label="bad"), CallbackHook("PreCompact", lambda _: "good"))
    expected = HookOutcome(("good",), problems=(f"hook bad: {says}",))
    assert ran(*hooks) == expected
    assert asyncio.run(run_hooks_async(PRE_COMPACT, Hooks(hooks))) == expected


@pytest.mark.spec("HK-3")
def test_a_callable_that_does_not_come_back_is_given_up():
    release = threading.Event()

    async def never(_):
        await asyncio.Event().wait()

    async def fails(_):
        raise KeyError("canary")

    hooks = (
        CallbackHook("PreCompact", lambda _: release.wait(30), seconds=0.05, label="sync"),
        CallbackHook("PreCompact", never, seconds=0.05, label="async"),
        CallbackHook("PreCompact", fails, label="fails"),
        CallbackHook("PreCompact", lambda _: "good"),
    )
    expected = HookOutcome(
        ("good",),
        problems=(
            "hook sync: took longer than 0.05 s and was abandoned",
            "hook async: took longer than 0.05 s and was abandoned",
            "hook fails: raised KeyError",
        ),
    )
    began = time.monotonic()
    assert ran(*hooks) == expected
    assert asyncio.run(run_hooks_async(PRE_COMPACT, Hooks(hooks))) == expected
    assert time.monotonic() - began < 5
    release.set()


# ── commands ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("HK-2")
def test_a_command_is_told_as_json_and_heard_as_text_or_json(tmp_path):
    kept = tmp_path / "told.json"
    hook = CommandHook("PreCompact", "", HookCommand("/bin/sh", ("-c", f"cat > '{kept}'; echo keep it")), 20)
    assert ran(hook, session_id="s", cwd=str(tmp_path)) == HookOutcome(("keep it",))
    assert json.loads(kept.read_bytes()) == {
        "session_id": "s",
        "cwd": str(tmp_path),
        "trigger": "auto",
        "custom_instructions": "",
        "hook_event_name": "PreCompact",
    }
    spoken = json.dumps({"decision": "block", "reason": "no", "systemMessage": "hm"})
    assert ran(command(f"echo '{spoken}'")) == HookOutcome(messages=("hm",), blocked="no")


@pytest.mark.spec("HK-2")
def test_exit_code_two_blocks_and_others_are_reported():
    assert ran(command("echo tests are red >&2; exit 2")).blocked == "tests are red"
    assert problem(ran(command("echo ignored; echo broken >&2; exit 3"))).endswith(
        "ended with code 3: broken"
    )
    meant = ran(command("""echo '{"systemMessage":"meant"}'; exit 1"""))
    assert (meant.messages, len(meant.problems)) == (("meant",), 1)
    assert problem(ran(command("kill -9 $$"))).endswith("was ended by signal 9")
    assert problem(ran(CommandHook("PreCompact", "", HookCommand("no-such-program", ()), 5))).startswith(
        "hook 'no-such-program': could not be started"
    )


def test_data_never_becomes_part_of_the_command(tmp_path):
    trap = tmp_path / "trap"
    effect = RunHooks(
        "PreCompact", {"trigger": "auto", "custom_instructions": f"$(touch {trap}); `touch {trap}`"}
    )
    assert ran(command("cat > /dev/null"), effect=effect) == HookOutcome()
    assert not trap.exists()


def test_a_command_sees_no_key():
    found = ran(command("env"))
    assert "canary" not in str(found)
    assert "LC_ALL=C.UTF-8" in found.instructions[0]
    assert minimal_environment(ENVIRONMENT).keys() == {"PATH", "LC_ALL"}
    assert not [name for name in MINIMAL_VARIABLES if "KEY" in name or "TOKEN" in name]


@pytest.mark.spec("HK-3")
@pytest.mark.parametrize(
    ("output", "says"),
    [
        (b"\xff\xfe\x00", "printed output that is not text; it was ignored"),
        (b"a\0b", "printed output that is not text; it was ignored"),
        (b'{"systemMessage": "x"', "printed invalid JSON; it was ignored"),
        (b"{" * 100_000, "printed invalid JSON; it was ignored"),
    ],
    ids=["bytes", "nul", "torn", "deep"],
)
def test_garbage_is_reported_and_not_used(output, says):
    assert parse_command_output(0, output, b"") == HookOutput("", problems=(says,))


@pytest.mark.spec("HK-3")
def test_huge_output_is_read_away_and_cut():
    hook = python(
        f"import sys; sys.stdout.write('x' * {MAX_OUTPUT_BYTES * 8}); sys.stderr.write('y' * {MAX_OUTPUT_BYTES * 8})"  # noqa: E501
    )
    found = ran(hook)
    assert found.instructions == ("x" * MAX_CHARACTERS,)
    assert problem(found).endswith(f"{MAX_OUTPUT_BYTES:,} characters were cut to {MAX_CHARACTERS:,}")


def test_a_command_need_not_read_what_it_is_told():
    effect = RunHooks("PreCompact", {"trigger": "auto", "custom_instructions": "x" * 1_000_000})
    assert ran(command("echo done"), effect=effect) == HookOutcome(("done",))
    counted = ran(command("exec 2>&-; wc -c"), effect=effect)
    assert int(counted.instructions[0]) > 1_000_000


def gone(pid: int) -> bool:
    """A killed child may stay a zombie until somebody asks for it; it runs no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def soon(condition) -> bool:
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        os.sched_yield()
    return condition()


@pytest.mark.spec("HK-3")
def test_a_command_that_hangs_is_ended_with_its_children(tmp_path):
    pids = tmp_path / "pids"
    text = f"trap '' TERM; sleep 60 & echo $! $$ > '{pids}'; wait"
    began = time.monotonic()
    found = ran(command(text, seconds=0.3), command("echo good"))
    assert time.monotonic() - began < 5
    assert found.instructions == ("good",)
    assert problem(found).endswith("took longer than 0.3 s and was killed")
    assert soon(lambda: all(gone(int(pid)) for pid in pids.read_text().split()))


def test_a_child_that_keeps_the_output_open_does_not_hold_us(tmp_path):
    pids = tmp_path / "pids"
    began = time.monotonic()
    assert ran(command(f"sleep 60 & echo $! > '{pids}'; echo done")) == HookOutcome(("done",))
    assert time.monotonic() - began < 5
    assert soon(lambda: gone(int(pids.read_text())))


def test_commands_run_on_an_event_loop_too():
    hooks = Hooks(
        (command("echo one"), command("sleep 60", seconds=0.1), command("echo two")), environment=ENVIRONMENT
    )
    found = asyncio.run(hooks.run_async(PRE_COMPACT))
    assert found.instructions == ("one", "two")
    assert problem(found).endswith("took longer than 0.1 s and was killed")


def test_one_command_named_by_two_files_runs_once():
    call = CallbackHook("Stop", lambda _: None)
    user, project = (CommandHook("Stop", "", HookCommand("x"), 5, origin) for origin in ("user", "project"))
    assert merge_hooks([call], [user], [project, call]) == (call, user)
