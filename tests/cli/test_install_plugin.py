"""`everturn install claude-code --plugin`, with a program in the place of `claude`, and with Claude Code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from everturn.cli import main

# Where `make clients` installs it.
CLAUDE_CODE = Path(__file__).parents[2] / "build/clients/claude-code/node_modules/.bin/claude"
FAKE = """#!/bin/sh
echo "$@" >> "$HOME/called"
refused="$(cat "$HOME/refused" 2>/dev/null || echo nothing)"
case "$*" in *"$refused"*) echo "it does not like this" >&2; exit 1;; esac
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A HOME with a `claude` on the PATH, outside of the current folder."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    program = tmp_path / "bin" / "claude"
    program.write_text(FAKE)
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_the_plugin_has_the_hooks_and_the_settings_have_the_status_line(home):
    done = run("install", "claude-code", "--plugin", "--mcp")
    assert (done.exit_code, done.stderr) == (0, "")
    folder = home / ".local/share/everturn/claude-code-plugin"
    assert (home / "called").read_text().splitlines() == [
        f"plugin marketplace add {folder}",
        "plugin install everturn@everturn --scope user",
    ]
    market = json.loads((folder / ".claude-plugin/marketplace.json").read_text())
    assert [(each["name"], each["source"]) for each in market["plugins"]] == [("everturn", "./everturn")]
    hooks = json.loads((folder / "everturn/hooks/hooks.json").read_text())["hooks"]
    assert {event: groups[0]["hooks"][0]["args"][-2:] for event, groups in hooks.items()} == {
        event: ["hook", event] for event in ("PreCompact", "SessionStart", "SessionEnd")
    }
    servers = json.loads((folder / "everturn/.mcp.json").read_text())["mcpServers"]
    assert servers["everturn"]["args"][-1:] == ["mcp"]
    settings = json.loads((home / ".claude/settings.json").read_text())
    assert list(settings) == ["statusLine"]
    assert not (home / ".claude.json").exists()


def test_installing_again_updates_the_plugin_and_uninstalling_removes_it(home):
    run("install", "claude-code", "--plugin", "--mcp")
    assert run("install", "claude-code", "--plugin", "--shrink", "5000").exit_code == 0
    folder = home / ".local/share/everturn/claude-code-plugin"
    assert not (folder / "everturn/.mcp.json").exists()
    assert "PostToolUse" in json.loads((folder / "everturn/hooks/hooks.json").read_text())["hooks"]
    (home / "called").unlink()
    done = run("uninstall", "claude-code")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == f"Removed the plugin everturn@everturn and {folder}."
    assert (home / "called").read_text().splitlines() == [
        "plugin uninstall everturn@everturn",
        "plugin marketplace remove everturn",
    ]
    assert not folder.exists()
    assert not (home / ".claude").exists()


def test_hooks_are_not_installed_twice(home):
    run("install", "claude-code")
    twice = run("install", "claude-code", "--plugin")
    assert twice.exit_code != 0
    assert "has everturn's hooks already" in twice.stderr
    run("uninstall", "claude-code")
    run("install", "claude-code", "--plugin")
    twice = run("install", "claude-code")
    assert twice.exit_code != 0
    assert "everturn's hooks are installed as a plugin" in twice.stderr
    assert run("install", "claude-code", "--no-hooks").exit_code == 0


def test_without_claude_code_or_when_it_refuses_the_commands_to_try_are_printed(home):
    (home / "refused").write_text("plugin install")
    done = run("install", "claude-code", "--plugin")
    folder = home / ".local/share/everturn/claude-code-plugin"
    assert (done.exit_code, done.stdout.splitlines()) == (
        1,
        [
            f"The plugin is in {folder}, but Claude Code does not have it: it does not like this",
            f"Try: claude plugin marketplace add {folder} && claude plugin install everturn@everturn",
        ],
    )
    (home / "bin/claude").unlink()
    done = run("install", "claude-code", "--plugin")
    assert (done.exit_code, "the program 'claude' was not found." in done.stdout) == (1, True)


def test_a_dry_run_writes_nothing(home):
    done = run("install", "claude-code", "--plugin", "--dry-run")
    assert done.exit_code == 0
    assert "everturn/hooks/hooks.json" in done.stdout
    assert sorted(path.name for path in home.iterdir()) == ["bin", "work"]


@pytest.mark.skipif(not CLAUDE_CODE.exists(), reason="Claude Code is not installed (make clients)")
def test_claude_code_itself_accepts_the_plugin_and_removes_it(home):
    (home / "bin/claude").unlink()
    (home / "bin/claude").symlink_to(CLAUDE_CODE)
    assert run("install", "claude-code", "--plugin", "--mcp").exit_code == 0
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "DISABLE_AUTOUPDATER": "1"}

    def claude(*arguments: str) -> str:
        done = subprocess.run(
            ["claude", *arguments], env=environment, cwd=home, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    claude("plugin", "validate", "--strict", f"{home}/.local/share/everturn/claude-code-plugin")
    listed = claude("plugin", "details", "everturn")
    assert "Hooks (3)  PreCompact, SessionStart, SessionEnd" in listed
    assert "MCP servers (1)  everturn" in listed
    assert run("uninstall", "claude-code").exit_code == 0
    assert "everturn" not in claude("plugin", "list")


def test_the_command_in_a_plugin_can_be_run(home):
    run("install", "claude-code", "--plugin")
    folder = home / ".local/share/everturn/claude-code-plugin"
    handler = json.loads((folder / "everturn/hooks/hooks.json").read_text())["hooks"]["PreCompact"][0]
    entry = handler["hooks"][0]
    command = [entry["command"], *entry["args"]]
    if os.path.basename(command[0]) != "everturn":
        assert command[0] == sys.executable
    done = subprocess.run(command, input=b"", capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == (
        b"everturn hook: the input is empty; expected the JSON object that Claude Code sends.\n"
    )
