"""Commands run only where somebody trusts exactly them, and see nothing that they need not see (S15)."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.effects import RunHooks
from everturn.processes import minimal_environment
from everturn.session.hooks.run import Hooks, run_hooks
from everturn.session.hooks.settings import EVERYTHING, CommandHook, HookCommand, parse_hooks

NASTY = ("$(touch ran)", "`touch ran`", "; touch ran", "\ntouch ran\n", '"; touch ran; "',
    "'; touch ran; '", "%s|&>",
         "\\x00", "${IFS}touch${IFS}ran", "--help", "../ran", "\u202etouch ran")  # fmt: skip


def settings(command: str) -> bytes:
    entry = {"type": "command", "command": command}
    return json.dumps({"hooks": {"PreCompact": [{"matcher": "", "hooks": [entry]}]}}).encode()


@pytest.mark.parametrize("value", NASTY)
def test_a_value_is_data_and_never_a_command(tmp_path: Path, value: str):
    hook = CommandHook("PreToolUse", "", HookCommand("cat > told"), 5)
    hooks = Hooks((hook,), {"cwd": str(tmp_path), "session_id": value}, dict(os.environ))
    payload = {"tool_name": value, "tool_input": {"command": value, value: value}}
    run_hooks(RunHooks("PreToolUse", payload), hooks)
    assert [path.name for path in tmp_path.iterdir()] == ["told"]
    told = json.loads((tmp_path / "told").read_bytes())
    assert (told["tool_name"], told["tool_input"], told["session_id"]) == (
        value,
        payload["tool_input"],
        value,
    )


def test_hooks_of_a_project_wait_for_somebody_who_trusts_them():
    found = parse_hooks(settings("touch ran"), origin="project", trusted=())
    assert (found.hooks, len(found.problems)) == ((), 1)
    assert "because they are not trusted" in found.problems[0]
    assert [
        hook.run.command
        for hook in parse_hooks(settings("touch ran"), origin="p", trusted=[found.digest]).hooks
    ] == ["touch ran"]


@given(st.text(min_size=1).filter(str.strip))
def test_whatever_is_changed_in_a_trusted_hook_asks_again(command: str):
    trusted = parse_hooks(settings("make lint"), origin="project", trusted=EVERYTHING).digest
    found = parse_hooks(settings(command), origin="project", trusted=[trusted])
    assert found.hooks == () or command == "make lint"


def test_a_command_sees_a_minimal_environment():
    secrets = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "EVERTURN_PROVIDER_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
               "GITHUB_TOKEN", "DATABASE_URL", "SSH_AUTH_SOCK", "LD_PRELOAD", "PYTHONPATH",
               "BASH_ENV")  # fmt: skip
    given_to = minimal_environment(dict.fromkeys((*secrets, "PATH", "HOME", "LC_ALL"), "x"))
    assert set(given_to) == {"PATH", "HOME", "LC_ALL"}
