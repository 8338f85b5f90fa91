"""`everturn install`, `uninstall` and `doctor`, called as people call them."""

import json
import os
from contextlib import suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from everturn.cli import main


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object, given: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], input=given)


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_installing_and_uninstalling_leaves_nothing_behind(home):
    done = run("install", "claude-code", "--mcp")
    assert (done.exit_code, done.stderr) == (0, "")
    assert {".claude/settings.json", ".claude.json"} <= files_below(home)
    again = run("install", "claude-code", "--mcp")
    assert again.stdout.splitlines() == [
        f"Already installed: {home}/.claude/settings.json",
        f"Already installed: {home}/.claude.json",
    ]
    assert run("uninstall", "claude-code").exit_code == 0
    assert list(home.iterdir()) == []
    nothing = run("uninstall", "claude-code")
    assert (nothing.exit_code, nothing.stdout) == (
        0,
        f"No entries of everturn found in {home}/.claude/settings.json or {home}/.claude.json.\n",
    )


def test_a_user_gets_the_path_of_the_program_and_a_project_its_name(home):
    run("install", "claude-code")
    run("install", "claude-code", "--settings", "other.json")
    (home / "project").mkdir()
    os.chdir(home / "project")
    run("install", "claude-code", "--project", "--mcp")
    commands = {
        name: json.loads((home / name).read_text())["hooks"]["PreCompact"][0]["hooks"][0]["command"]
        for name in (".claude/settings.json", "other.json", "project/.claude/settings.json")
    }
    assert os.path.isabs(commands[".claude/settings.json"])
    assert commands["other.json"] == commands[".claude/settings.json"]
    assert commands["project/.claude/settings.json"] == "everturn"
    servers = json.loads((home / "project/.mcp.json").read_text())
    assert servers == {"mcpServers": {"everturn": {"command": "everturn", "args": ["mcp"]}}}
    run("uninstall", "claude-code", "--project")
    assert files_below(home / "project") == set()


def test_a_dry_run_shows_the_difference_and_changes_nothing(home):
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text('{\n  "model": "opus"\n}\n')
    done = run("install", "claude-code", "--dry-run", "--shrink", "30000")
    assert done.stdout.splitlines()[4:7] == [" {", '-  "model": "opus"', '+  "model": "opus",']
    assert '+              "30000"' in done.stdout.splitlines()
    assert files_below(home) == {".claude/settings.json"}
    run("install", "claude-code")
    before = (home / ".claude" / "settings.json").read_bytes()
    assert run("uninstall", "claude-code", "--dry-run").stdout.startswith("Would clean")
    assert (home / ".claude" / "settings.json").read_bytes() == before


def test_a_status_line_in_the_way_is_told_with_both_ways_out(home):
    (home / "s.json").write_text('{"statusLine": {"command": "mine"}}')
    done = run("install", "claude-code", "--settings", "s.json")
    assert (done.exit_code, "--replace" in done.stderr, "--no-statusline" in done.stderr) == (1, True, True)
    assert run("install", "claude-code", "--settings", "s.json", "--no-statusline").exit_code == 0
    done = run("install", "claude-code", "--settings", "s.json", "--replace")
    assert "(instead of 'mine')" in done.stdout
    run("uninstall", "claude-code", "--settings", "s.json")
    assert (home / "s.json").read_text() == '{"statusLine": {"command": "mine"}}'


@pytest.mark.parametrize(("answer", "replaced"), [("y\n", True), ("n\n", False)])
def test_a_person_is_asked_about_a_status_line(home, monkeypatch, answer, replaced):
    from everturn.cli import install

    class Terminal:
        def __getattr__(self, name: str) -> object:
            return (lambda: True) if name == "isatty" else getattr(self.real, name)

    (home / "s.json").write_text('{"statusLine": {"command": "mine"}}')
    monkeypatch.setattr(install.sys, "argv", ["everturn"])
    with CliRunner().isolation(input=answer):
        terminal = Terminal()
        terminal.real = install.sys.stdin
        monkeypatch.setattr(install.sys, "stdin", terminal)
        with suppress(click.Abort):
            main(["install", "claude-code", "--settings", "s.json"], standalone_mode=False)
    assert ("mine" not in (home / "s.json").read_text()) == replaced


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["install"], 2, "Missing argument"),
        (["install", "vim"], 2, "'vim' is not 'claude-code'"),
        (["install", "claude-code", "--settings", "a.json", "--project"], 2, "cannot be combined"),
        (["install", "claude-code", "--settings", "a.json", "--mcp"], 2, "cannot be combined"),
        (["install", "claude-code", "--shrink", "10"], 2, "--shrink"),
        (["install", "claude-code", "--settings", "nowhere/a.json"], 1, "Folder not found"),
        (
            ["uninstall", "claude-code", "--settings", "a.json", "--project"],
            2,
            "cannot be combined with --project",
        ),
    ],
)
def test_a_wrong_call_is_told(home, arguments, code, says):
    done = run(*arguments)
    assert (done.exit_code, says in done.stderr) == (code, True)
    assert files_below(home) == set()


def test_what_is_wrong_with_the_second_file_is_told_before_the_first_is_changed(home):
    (home / ".claude.json").write_text("{ not json")
    done = run("install", "claude-code", "--mcp")
    assert (done.exit_code, "is not valid JSON" in done.stderr) == (1, True)
    assert files_below(home) == {".claude.json"}


def test_doctor_exits_with_one_where_something_is_wrong(home):
    well = run("doctor")
    assert (well.exit_code, "WRONG" in well.stdout) == (0, False)
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text("{")
    ill = run("doctor")
    assert ill.exit_code == 1
    assert [line.split(":")[0] for line in ill.stdout.splitlines() if line.startswith("WRONG")] == [
        "WRONG user settings"
    ]
    told = json.loads(run("doctor", "--json").stdout)
    assert (told["is_well"], [each["name"] for each in told["checks"] if each["state"] == "wrong"]) == (
        False,
        ["user settings"],
    )


def test_the_status_line_is_a_command_like_any_other(home, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    done = run("statusline", given='{"cost": {"total_cost_usd": 2}}')
    assert (done.exit_code, done.stdout) == (0, "$2.00\n")
