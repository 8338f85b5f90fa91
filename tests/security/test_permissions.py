"""Every file that we create is its owner's alone, whatever the umask is (S09)."""

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everturn import Session, Tool
from everturn.adapters.claude_code.compaction_marker import write_marker
from everturn.chat.screen.line_editor import OwnerHistory
from everturn.chat.sessions import ChatState, new_session_path, project_folder, write_chat_state
from everturn.session.pin_file import append_pin
from everturn.session.private_files import replace_file, write_private_file
from everturn.session.store import JsonlStore
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Everything below a folder that somebody else may look into."""
    found = {path: stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}
    return {str(path.relative_to(folder)): oct(mode) for path, mode in found.items() if mode & 0o077}


def kinds(folder: Path) -> set[str]:
    return {path.name.removeprefix("work.jsonl") for path in folder.rglob("*")}


def held(path: Path, twin: TwinForTests, **how: Any) -> Session:
    tools = [Tool(READ, lambda given: "x = 1\n" * 60_000)]
    # Breaks are not reported for Haiku (CB-9).
    return Session.open(path, model="claude-sonnet-4-5", send=make_twin_send(twin.twin), tools=tools, **how)


@pytest.mark.moves_cache_prefix(reason="the system prompt changes, so that a break is reported in a file")
def test_a_session_leaves_nothing_that_others_can_read(tmp_path: Path, twin: TwinForTests, umask: int):
    path = tmp_path / "new" / "folder" / "work.jsonl"
    rules = "Read before you write. " * 900
    call = {"content": [{"type": "tool_use", "name": "Read", "input": {}}]}
    with held(path, twin, system=rules, clock=twin.twin.clock.now) as session:
        # While it is open: the lock, and the journal of the index.
        twin.script(call, "Read.")
        session.send("Read it.")
        session.recall("Read")
        assert modes(tmp_path) == {}
        during = kinds(tmp_path)
    with held(path, twin, system=f"Be brief. {rules}", clock=twin.twin.clock.now) as session:
        session.send("Go on.")
        session.compact()
        append_pin(path, "Never push.")
    assert modes(tmp_path) == {}
    assert {"", ".lock", ".files", ".index.sqlite", ".index.sqlite-wal"} <= during
    assert {".state.json", ".pins"} <= kinds(tmp_path)
    assert any(name.startswith("cache-break") for name in kinds(tmp_path))


def test_a_folder_that_is_made_for_a_report_is_private_too(tmp_path: Path, umask: int):
    write_private_file(tmp_path / "work.jsonl.files", "cache-break.diff", b"prompt")
    assert modes(tmp_path) == {}


def test_a_file_that_was_open_to_all_is_closed_when_it_is_replaced(tmp_path: Path, umask: int):
    loose = tmp_path / "work.jsonl.state.json"
    for name in (loose, Path(f"{loose}.new")):
        name.write_text("old and longer than the new one")
        name.chmod(0o666)
    assert replace_file(str(loose), b"new") == ""
    assert (loose.read_bytes(), modes(tmp_path)) == (b"new", {})


def test_conversations_of_the_chat_lie_in_folders_of_their_own(tmp_path: Path, umask: int):
    folder = project_folder(tmp_path / "project", {"XDG_DATA_HOME": str(tmp_path / "data")}, tmp_path)
    path = new_session_path(folder, datetime(2026, 1, 1, tzinfo=UTC), "abcd")
    with JsonlStore.open(path, fsync="never"):
        OwnerHistory(str(folder / "history")).append_string("What I typed.")
        write_chat_state(path, ChatState(model="claude-haiku-4-5"))
        assert (path.with_name(f"{path.name}.files") / "chat.json").exists()
        assert modes(tmp_path) == {}


def test_what_the_hooks_of_claude_code_leave_is_private(tmp_path: Path, umask: int):
    folder = tmp_path / "state" / "everturn"
    write_marker({"session_id": "s1", "transcript_path": str(tmp_path / "t.jsonl")}, str(folder), 0.0)
    assert {path for path in modes(tmp_path) if path != "state"} == set()
