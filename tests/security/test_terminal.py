"""No name or value steers the terminal of whoever reads our output."""

import os
from pathlib import Path

import pytest
import warm_command
from small_session import reading

HOSTILE = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202eevil\r"
COMMANDS = {
    "no such file": ("context", "{name}"),
    "a similar name": ("context", "sessiom.jsonl"),
    "a folder": ("context", "."),
    "no session": ("context", "other-{name}"),
    "audit": ("audit", "."),
    "replay": ("replay", ".", "--policy", "none", "--workers", "1", "--cache", "cache"),
    "replay of nothing": ("replay", "other-{name}", "--policy", "none", "--workers", "1", "--cache", "cache"),
    "replay of a missing file": ("replay", "missing-{name}"),
    "recall": ("recall", "session.jsonl", "{name}"),
    "expand": ("expand", "session.jsonl", "{name}"),
    "undo": ("undo", "missing-{name}"),
    "compact": ("compact", "missing-{name}"),
    "an unknown command": ("{name}",),
    "an unknown option": ("context", "--{name}"),
    "an unknown key": ("config", "--set", "{name}=1"),
    "a wrong value": ("config", "--set", "model={name}", "--set", "window={name}"),
    "a file of that name": ("config", "--file", "{name}.toml"),
    "doctor": ("doctor",),
    "install": ("install", "claude-code", "--project", "--dry-run"),
    "uninstall": ("uninstall", "claude-code", "--project"),
    "resume": ("chat", "--resume", "{name}"),
    "chat": ("chat", "-p", "Hello."),
    "hook": ("hook", "{name}", "x"),
    "statusline": ("statusline",),
    "json": ("config", "--json", "--set", "model={name}"),
    "context as json": ("context", "{session}", "--json"),
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project whose names and values are all hostile."""
    work = tmp_path / f"work-{HOSTILE}"
    (work / ".claude").mkdir(parents=True)
    for name in ("session.jsonl", f"session-{HOSTILE}.jsonl", f"sessiom-{HOSTILE}.jsonl"):
        (work / name).write_bytes(reading().to_bytes())
    (work / f"other-{HOSTILE}").write_text(HOSTILE)
    command = HOSTILE.encode("unicode_escape").decode().replace("\\x", "\\u00")
    (work / ".claude" / "settings.json").write_text(
        f'{{"statusLine": {{"type": "command", "command": "{command} statusline"}}, "{command}": 1}}'
    )
    return work


@pytest.mark.parametrize("case", COMMANDS)
@pytest.mark.parametrize("has_config", [False, True], ids=["", "hostile configuration"])
def test_no_command_prints_what_could_steer_a_terminal(work: Path, case: str, has_config: bool):
    if has_config:
        key = "\\u001b]0;owned\\u0007\\u009b2J\\u202e"
        (work / "everturn.toml").write_text(f'"{key}" = 1\n[provider]\n"{key}" = 2\n')
    session = work / f"session-{HOSTILE}.jsonl"
    words = [word.format(name=HOSTILE, session=session) for word in COMMANDS[case]]
    environment = {"PATH": os.environ["PATH"], "HOME": str(work.parent), "NO_COLOR": "1", "COLUMNS": "100"}
    model = b'{"model": {"display_name": "\\u001b]0;owned\\u0007"}}'
    done = warm_command.run(*words, cwd=work, env=environment, given=model)
    said = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
    assert said
    assert "Traceback" not in said
    assert {letter for letter in said if not letter.isprintable() and letter != "\n"} == set()
