"""Doctor, in words: what is looked at, what is wrong, what to do about it."""

import json
import os
import sqlite3
import sys
from datetime import datetime
from pathlib import Path

import pytest

from everturn.adapters.claude_code import doctor
from everturn.adapters.claude_code.doctor import DoctorCheck, run_checks
from everturn.adapters.claude_code.settings import install
from everturn.adapters.claude_code.settings.entries import InstallOptions

NOW = datetime(2026, 11, 15)
PYTHON = (sys.executable, "-m", "everturn")


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".claude").mkdir()
    return tmp_path


@pytest.fixture
def look(home):
    """The checks by name. Nothing of this machine but its PATH is seen."""

    def run(**environment: str) -> dict[str, DoctorCheck]:
        project = home / "project"
        project.mkdir(exist_ok=True)
        found = run_checks(
            {"PATH": os.environ["PATH"], "HOME": str(home)} | environment, str(project), "1.2.3"
        )
        return {each.name: each for each in found}

    return run


def put(path: Path, wanted: InstallOptions) -> None:
    install.apply_installation(install.plan_installation(str(path), wanted), NOW)


def test_a_machine_without_an_installation_is_well_and_told_what_to_do(look):
    found = look()
    assert {each.state for each in found.values()} <= {"ok", "note"}
    assert found["everturn"] == DoctorCheck("everturn", "ok", "1.2.3")
    assert found["Claude Code"] == DoctorCheck(
        "Claude Code", "note", "everturn is not in its settings", "`everturn install claude-code` sets it up"
    )


def test_an_installation_is_run_and_found_well(look, home):
    put(home / ".claude" / "settings.json", InstallOptions(PYTHON))
    put(home / ".claude.json", InstallOptions(PYTHON, status_line=False, hooks=False, server=True))
    found = look()
    assert {each.state for each in found.values() if each.name != "status line"} <= {"ok", "note"}
    # A busy machine may be slow; what it prints is the same.
    assert "prints 'Sonnet 5.5 · context 42% (50% of auto-compact) · $1.25'" in found["status line"].what
    assert found["hooks"] == DoctorCheck("hooks", "ok", "PreCompact, SessionStart, SessionEnd")
    assert found["MCP server"] == DoctorCheck("MCP server", "ok", "everturn")
    assert "Claude Code" not in found


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("/nowhere/everturn", "the settings call /nowhere/everturn, but that file does not exist"),
        ("everturn", "the settings call everturn, but it is not on the PATH"),
    ],
)
def test_a_program_that_is_gone_is_wrong(look, home, program, says):
    put(home / ".claude" / "settings.json", InstallOptions((program,)))
    found = look(PATH=str(home))
    assert [(found[name].state, found[name].what) for name in ("status line", "hooks")] == [
        ("wrong", says)
    ] * 2
    assert "everturn install claude-code" in found["hooks"].to_do


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo broken >&2; exit 3", "fails: broken"),
        ("exit 0", "fails: no output"),
    ],
)
def test_a_status_line_that_does_not_work_is_wrong(look, home, script, says):
    program = home / "everturn"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    put(home / ".claude" / "settings.json", InstallOptions((str(program),), hooks=False))
    found = look()["status line"]
    assert (found.state, says in found.what) == ("wrong", True)


def test_a_program_that_cannot_be_started_is_wrong(look, home):
    program = home / "everturn"
    program.write_bytes(b"\x00\x01")
    program.chmod(0o755)
    put(home / ".claude" / "settings.json", InstallOptions((str(program),), hooks=False))
    found = look()["status line"]
    assert (found.state, "does not run" in found.what) == ("wrong", True)


@pytest.mark.parametrize("content", ["{ // mine\n}", "[]", '{"hooks": 3}'])
def test_settings_that_cannot_be_read_are_wrong(look, home, content):
    (home / ".claude" / "settings.json").write_text(content)
    found = look()["user settings"]
    assert (found.state, found.to_do) == (
        "wrong",
        "Claude Code cannot read this file either: correct it",
    )


def test_another_configuration_folder_is_looked_at(look, home):
    (home / "other").mkdir()
    (home / "other" / "settings.json").write_text("{")
    assert look(CLAUDE_CONFIG_DIR=str(home / "other"))["user settings"].state == "wrong"


def test_a_project_in_the_home_directory_is_not_told_twice(home):
    (home / ".claude" / "settings.json").write_text("{}")
    found = run_checks({"PATH": "", "HOME": str(home)}, str(home), "1.2.3")
    assert [each.name for each in found if each.what.endswith("settings.json")] == ["user settings"]


def test_transcripts_are_counted_and_those_that_cannot_be_read_are_wrong(look, home, monkeypatch):
    assert look()["transcripts"].state == "note"
    folder = home / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    for name in ("a.jsonl", "b.jsonl", "notes.txt"):
        (folder / name).write_text("")
    assert look()["transcripts"] == DoctorCheck("transcripts", "ok", f"2 in {folder.parent}")
    may = os.access
    monkeypatch.setattr(
        doctor.os, "access", lambda path, how: not str(path).endswith("b.jsonl") and may(path, how)
    )
    found = look()["transcripts"]
    assert (found.state, found.what) == (
        "wrong",
        f"1 of 2 are not readable, for example {folder / 'b.jsonl'}",
    )


def test_a_folder_that_others_may_look_into_is_wrong(look, home):
    folder = home / "state" / "everturn" / "claude-code"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    found = look(XDG_STATE_HOME=str(home / "state"))["hook files"]
    assert found == DoctorCheck(
        "hook files", "wrong", f"other users can read {folder} (mode 755)", f"chmod 700 {folder}"
    )
    folder.chmod(0o700)
    assert look(XDG_STATE_HOME=str(home / "state"))["hook files"].state == "ok"


def test_a_sqlite_without_full_text_search_is_wrong(look, monkeypatch):
    class Bare:
        def execute(self, _: str) -> None:
            raise sqlite3.OperationalError("no such module: fts5")

        def close(self) -> None: ...

    monkeypatch.setattr(doctor.sqlite3, "connect", lambda _: Bare())
    assert (look()["sqlite"].state, "no such module: fts5" in look()["sqlite"].what) == ("wrong", True)


def test_a_missing_extra_is_a_note_with_the_command_that_brings_it(look, monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: name == "mcp")
    found = look()["extras"]
    assert (found.state, found.what) == ("note", "installed: mcp")
    assert found.to_do.startswith("install with `pip install 'everturn[NAME]'`: twin, anthropic")


def test_the_extras_are_those_of_the_package():
    import tomllib

    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    # chat brings others together; ray is for those who replay thousands of sessions.
    assert set(doctor.EXTRAS) == set(pyproject["project"]["optional-dependencies"]) - {"chat", "ray"}


def test_every_check_can_be_spelled_as_json(look):
    import msgspec

    spelled = json.loads(msgspec.json.encode(list(look().values())))
    assert {frozenset(each) for each in spelled} == {frozenset({"name", "state", "what", "to_do"})}
