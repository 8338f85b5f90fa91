"""Files of others are opened with care, and files of ours are their owner's alone (S09, S10, S12)."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import warm_command
from small_session import reading

from everturn.adapters.claude_code.settings.uninstall import apply_removal, plan_removal
from everturn.errors import InputError, StoreError
from everturn.session.memory_files.discovery import MAX_BYTES, find_memory

HUGE = 10 << 30
MEMORY = 2 << 30


def _place(path: Path, shape: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if shape == "a pipe":
        os.mkfifo(path)
    elif shape == "a device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(HUGE)


def everturn(
    *arguments: str, cwd: Path, home: Path, given: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """A command as a user starts it, with little memory and little time."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "COLUMNS": "100"}
    return warm_command.run(*arguments, cwd=cwd, env=environment, given=given, memory=MEMORY)


SHAPES = ("a pipe", "a device", "a huge file")
READERS = {
    "context": ("context", "{file}"),
    "audit": ("audit", "{file}"),
    "compact": ("compact", "{file}"),
    "recall": ("recall", "{file}", "words"),
    "expand": ("expand", "{file}"),
    "undo": ("undo", "{file}"),
    "replay": ("replay", "{file}", "--policy", "none", "--engine", "local", "--workers", "1"),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("command", READERS)
def test_a_command_refuses_what_is_no_file_in_one_sentence(tmp_path: Path, command: str, shape: str):
    file = tmp_path / "work" / "session.jsonl"
    _place(file, shape)
    done = everturn(*(word.format(file=file) for word in READERS[command]), cwd=file.parent, home=tmp_path)
    said = (done.stdout + done.stderr).decode()
    told = {
        "a pipe": "it is a pipe, not a file",
        "a device": "it is a device, not a file",
        "a huge file": "it is too large (10,240 MB, the limit is 1,024 MB)",
    }
    assert "Traceback" not in said
    assert told[shape] in said


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "name",
    ["everturn.toml", ".claude/settings.json", ".claude/settings.local.json", "CLAUDE.md", "AGENTS.md"],
)
def test_chat_starts_or_says_why_whatever_a_repository_holds_in_place_of_files(
    tmp_path: Path, name: str, shape: str
):
    work = tmp_path / "work"
    _place(work / name, shape)
    done = everturn("chat", "-p", "Hello.", cwd=work, home=tmp_path)
    assert b"Traceback" not in done.stderr
    if name == "everturn.toml":
        assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
        assert b"everturn.toml cannot be read: it is " in done.stderr
    else:
        assert done.returncode == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("suffix", [".pins", ".state.json", ".notes.md", ".index.sqlite", ".lock"])
def test_what_lies_beside_a_transcript_blocks_nothing(tmp_path: Path, suffix: str, shape: str):
    file = tmp_path / "work" / "session.jsonl"
    file.parent.mkdir()
    file.write_bytes(reading().to_bytes())
    _place(Path(f"{file}{suffix}"), shape)
    for command in (("compact", str(file), "--dry-run"), ("recall", str(file), "parser")):
        done = everturn(*command, cwd=file.parent, home=tmp_path)
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("command", [("statusline",), ("hook", "SessionStart"), ("hook", "PreCompact")])
def test_status_line_and_hooks_are_not_held_up_by_a_transcript(
    tmp_path: Path, command: tuple[str, ...], shape: str
):
    file = tmp_path / "session.jsonl"
    _place(file, shape)
    payload = {"transcript_path": str(file), "session_id": "s", "source": "compact"}
    done = everturn(*command, cwd=tmp_path, home=tmp_path, given=json.dumps(payload).encode())
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") <= 1


TRUNCATED = (b"", b"{", b'{"a": ', b'{"a": [1, 2', b'"unfinished', b"[" * 100_000, b"\xff\xfe", b"nul")


@pytest.mark.parametrize("given", TRUNCATED)
def test_a_truncated_input_ends_in_one_sentence(tmp_path: Path, given: bytes):
    hook = everturn("hook", cwd=tmp_path, home=tmp_path, given=given)
    assert (hook.returncode, hook.stdout, hook.stderr.count(b"\n")) == (1, b"", 1)
    what = b"not valid JSON (" if given else b"empty; expected the JSON object that Claude Code sends."
    assert hook.stderr.startswith(b"everturn hook: the input is " + what)
    assert b"SystemError" not in hook.stderr
    line = everturn("statusline", cwd=tmp_path, home=tmp_path, given=given)
    assert (line.returncode, line.stderr) == (0, b"")
    assert line.stdout == b"everturn: no status, the input is not valid JSON\n"


# ── memory files ─────────────────────────────────────────────────────────────────────────────────


def test_a_projects_memory_imports_nothing_of_the_users_folder(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    for path, text in {
        home / ".claude" / "CLAUDE.md": "Mine. @rules.md @settings.json",
        home / ".claude" / "rules.md": "My rules.",
        home / ".claude" / "settings.json": "CANARY",
        home / ".claude" / "projects" / "other" / "notes.md": "CANARY",
        work / ".git" / "HEAD": "",
        work
        / "CLAUDE.md": "@~/.claude/settings.json @~/.claude/projects/other/notes.md @docs/more.md @run.py",
        work / "CLAUDE.local.md": "@~/.claude/projects/other/notes.md @~/.claude/rules.md",
        work / "docs" / "more.md": "More. @../src/CLAUDE.md @../../home/.claude/settings.json",
        work / "src" / "CLAUDE.md": "Inner.",
        work / "run.py": "CANARY",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = find_memory(work, home)
    assert [(file.kind, Path(file.path).name) for file in found.files] == [
        ("user", "CLAUDE.md"),
        ("user", "rules.md"),
        ("project", "CLAUDE.md"),
        ("project", "more.md"),
        ("project", "CLAUDE.md"),
        ("local", "CLAUDE.local.md"),
    ]
    assert "CANARY" not in "".join(file.text for file in found.files)


def test_imported_memory_has_a_limit_and_what_is_left_out_is_told(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    names = [f"part{number}.md" for number in range(60)]
    (work / "CLAUDE.md").write_text("\n".join(f"@{name}" for name in names))
    for name in names:
        (work / name).write_text("x" * 1_000_000)
    found = find_memory(work, tmp_path / "home")
    assert sum(len(file.text) for file in found.files) <= MAX_BYTES
    left_out = [note for note in found.notes if note.kind == "too_large"]
    assert len(found.files) + len(left_out) == len(names) + 1
    assert f"more than {MAX_BYTES:,} bytes" in left_out[0].what


# ── settings of a project ────────────────────────────────────────────────────────────────────────


def test_uninstalling_from_a_project_follows_no_path_of_its_receipt(tmp_path: Path):
    """The receipt lies in the repository: it could name any file as the backup."""
    secret = tmp_path / "secret.json"
    secret.write_text('{"key": "CANARY"}')
    settings = tmp_path / "work" / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"statusLine": {"type": "command", "command": "everturn statusline"}}')
    from hashlib import sha256

    receipt = {
        "before": sha256(secret.read_bytes()).hexdigest(),
        "after": sha256(settings.read_bytes()).hexdigest(),
        "backup": str(secret),
        "made_folder": True,
    }
    Path(f"{settings}.everturn.json").write_text(json.dumps(receipt))
    with suppress(InputError, StoreError):
        apply_removal(plan_removal(str(settings)))
    assert secret.read_text() == '{"key": "CANARY"}'
    assert "CANARY" not in settings.read_text()


def test_a_backup_that_is_a_link_is_not_followed(tmp_path: Path):
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    settings = tmp_path / "settings.json"
    settings.write_text('{"statusLine": {"type": "command", "command": "everturn statusline"}}')
    backup = tmp_path / "settings.json.everturn-20260101-000000.bak"
    backup.symlink_to(secret)
    from hashlib import sha256

    receipt = {
        "before": sha256(b"{}").hexdigest(),
        "after": sha256(settings.read_bytes()).hexdigest(),
        "backup": str(backup),
    }
    Path(f"{settings}.everturn.json").write_text(json.dumps(receipt))
    with pytest.raises(StoreError, match="could not be read"):
        plan_removal(str(settings))


# ── modes ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_pages_caches_and_pictures_are_the_owners_alone(tmp_path: Path, umask: int):
    """They hold tool results and prompts of the sessions."""
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    (work / "session.jsonl").write_bytes(reading().to_bytes())
    (work / "session.jsonl").chmod(0o600)
    page, old = work / "page.html", work / "old.html"
    old.write_text("older")
    old.chmod(0o666)
    common = ("replay", "session.jsonl", "--policy", "none", "--workers", "1", "--cache", "cache/deep")
    for arguments in (
        (*common, "--html", page.name),
        (*common, "--html", old.name, "--requests", "requests.jsonl"),
        ("context", "session.jsonl", "--svg", "picture.svg"),
    ):
        done = everturn(*arguments, cwd=work, home=tmp_path)
        assert done.returncode == 0, done.stderr
    found = {path: stat.S_IMODE(path.lstat().st_mode) for path in work.rglob("*")}
    assert {path.name: oct(mode) for path, mode in found.items() if mode & 0o077} == {}
    assert {"page.html", "old.html", "requests.jsonl", "picture.svg", "cache", "deep"} <= {
        path.name for path in found
    }


def test_a_page_is_not_written_through_a_link(tmp_path: Path):
    (tmp_path / "session.jsonl").write_bytes(reading().to_bytes())
    target = tmp_path / "bashrc"
    target.write_text("# mine\n")
    for name in ("page.html", "picture.svg", "requests.jsonl"):
        (tmp_path / name).symlink_to(target)
    common = ("replay", "session.jsonl", "--policy", "none", "--workers", "1", "--cache", "cache")
    for arguments in (
        (*common, "--html", "page.html"),
        (*common, "--requests", "requests.jsonl"),
        ("context", "session.jsonl", "--svg", "picture.svg"),
    ):
        done = everturn(*arguments, cwd=tmp_path, home=tmp_path)
        assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
        assert b"is a symbolic link" in done.stderr
    assert target.read_text() == "# mine\n"
