"""A repository chooses neither what we start nor what it loads, and no key is passed on (S15)."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from everturn.adapters.claude_code.doctor import run_checks
from everturn.adapters.claude_code.settings.entries import is_our_handler, is_our_status_line
from everturn.chat.permission import Permissions
from everturn.chat.tools.bash import bash_tool
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.search.glob import glob_tool
from everturn.chat.tools.search.grep import grep_tool
from everturn.cli.install import this_program
from everturn.processes import environment_without_keys

KEYS = {
    name: f"canary-{name}"
    for name in (
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "EVERTURN_PROVIDER_API_KEY",
        "EVERTURN_PROVIDER_AUTH_TOKEN", "OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN", "DB_PASSWORD", "STRIPE_SECRET", "NPM_AUTH", "npm_config__authToken",
    )
}  # fmt: skip
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=n@example.invalid")
    done = subprocess.run(("git", *who, *words), cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def lazy_repository(folder: Path, ran: Path) -> Path:
    """A clone that lacks the blob of its .gitignore, and fetches it with a command of its own."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "plain.txt").write_text("plain\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    blob = git(folder, "rev-parse", ":.gitignore")
    git(folder, "update-index", "--skip-worktree", ".gitignore")
    (folder / ".gitignore").unlink()
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (folder / "untracked.txt").write_text("new\n")
    for name, value in (
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(folder)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", f"env > {ran}; false"),
    ):
        git(folder, "config", name, value)
    return folder


@needs_git
@pytest.mark.parametrize("tool", ["Glob", "Grep"])
@pytest.mark.parametrize("shape", ["lazy", "monitor", "bare"])
def test_a_repository_runs_nothing_through_glob_and_grep(
    tmp_path: Path, tool: str, shape: str, monkeypatch: pytest.MonkeyPatch
):
    ran = tmp_path / "ran"
    work = tmp_path / "work"
    if shape == "bare":
        # A bare repository in a folder of an ordinary project: git takes it for the repository of its files.
        lazy = lazy_repository(tmp_path / "lazy", ran)
        work.mkdir()
        inner = work / "inner"
        shutil.copytree(lazy / ".git", inner)
        (inner / "plain.txt").write_text("plain\n")
        git(inner, "config", "core.bare", "false")
        git(inner, "config", "core.worktree", str(inner))
        folder = inner
    else:
        folder = lazy_repository(work, ran)
    if shape == "monitor":
        git(folder, "config", "core.fsmonitor", f"touch {ran}; false")
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    workspace = Workspace(folder)
    permissions = Permissions(mode="read only")
    if tool == "Glob":
        said = glob_tool(workspace, permissions).run({"pattern": "*.txt"})  # type: ignore[misc]
    else:
        said = grep_tool(workspace, permissions).run({"pattern": "plain"})  # type: ignore[misc]
    assert "plain.txt" in said
    assert not ran.exists()


@needs_git
def test_a_program_in_the_repository_is_not_taken_for_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    for name in ("git", "bash", "sh"):
        fake = work / "bin" / name
        fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        fake.chmod(0o755)
        (work / name).symlink_to(fake)
    (work / "plain.txt").write_text("plain\n")
    monkeypatch.chdir(work)
    for path in (f".:{os.environ['PATH']}", f":{os.environ['PATH']}", f"{work}/bin:{os.environ['PATH']}"):
        workspace = Workspace(work, environment={**os.environ, "PATH": path})
        assert "plain.txt" in glob_tool(workspace, Permissions()).run({"pattern": "*"})  # type: ignore[misc]
        said = bash_tool(workspace, Permissions(mode="all")).run({"command": "echo said"})  # type: ignore[misc]
        assert said == "said"
    assert not (tmp_path / "ran").exists()


@needs_git
def test_grep_and_glob_stay_inside_whatever_the_index_of_git_lists(tmp_path: Path):
    """An index may hold any name: `..` and absolute ones are never followed."""
    (tmp_path / "outside.txt").write_text("CANARY\n")
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    (work / "xx").mkdir()
    (work / "xx" / "outside.txt").write_text("plain\n")
    absolute = str(tmp_path / "outside.txt")
    (work / ("y" * len(absolute))).write_text("plain\n")
    git(work, "add", "-A")
    index = work / ".git" / "index"
    data = index.read_bytes()
    data = data.replace(b"xx/outside.txt", b"../outside.txt").replace(b"y" * len(absolute), absolute.encode())
    index.write_bytes(data[:-20] + hashlib.sha1(data[:-20]).digest())
    assert "../outside.txt" in git(work, "ls-files")
    workspace = Workspace(work)
    found = grep_tool(workspace, Permissions()).run({"pattern": "CANARY", "output_mode": "content"})  # type: ignore[misc]
    listed = glob_tool(workspace, Permissions()).run({"pattern": "**/*"})  # type: ignore[misc]
    assert ("CANARY\n" in found, "outside.txt:" in found) == (False, False)
    assert ".." not in listed
    assert str(tmp_path) not in listed


# ── Claude Code's settings ───────────────────────────────────────────────────────────────────────


def project_with_programs(folder: Path, ran: Path) -> None:
    """Settings of a project that name programs of the project, called like ours."""
    (folder / ".claude").mkdir(parents=True)
    program = folder / "everturn"
    program.write_text(f"#!/bin/sh\nenv > {ran}\necho line\n")
    program.chmod(0o755)
    line = {"type": "command", "command": f"{program} statusline"}
    handler = {"type": "command", "command": str(program), "args": ["hook", "PreCompact"]}
    settings = {"statusLine": line, "hooks": {"PreCompact": [{"hooks": [handler]}]}}
    (folder / ".claude" / "settings.json").write_text(json.dumps(settings))
    server = {"mcpServers": {"everturn": {"command": str(program), "args": ["mcp"]}}}
    (folder / ".mcp.json").write_text(json.dumps(server))


@pytest.mark.parametrize("path", ["", ".:", "{project}:"])
def test_doctor_runs_no_program_that_a_project_names(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
):
    ran, project, home = tmp_path / "ran", tmp_path / "project", tmp_path / "home"
    project_with_programs(project, ran)
    if path:
        text = (project / ".claude" / "settings.json").read_text()
        (project / ".claude" / "settings.json").write_text(text.replace(f"{project}/everturn", "everturn"))
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    environment = {
        "HOME": str(home),
        "PATH": path.format(project=project) + os.environ["PATH"],
        **KEYS,
    }
    checks = {each.name: each for each in run_checks(environment, str(project), "0")}
    assert not ran.exists()
    if not path:
        assert checks["status line"].state == "note"
        assert "was not run" in checks["status line"].what


def test_what_doctor_runs_of_the_user_gets_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    project_with_programs(home, tmp_path / "ran")
    monkeypatch.setenv("HOME", str(home))
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], **KEYS}
    checks = {each.name: each for each in run_checks(environment, str(tmp_path), "0")}
    assert "prints 'line'" in checks["status line"].what
    told = (tmp_path / "ran").read_text()
    assert [name for name in KEYS if KEYS[name] in told] == []


def test_the_installed_commands_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without a script on the PATH, Python is told the module's name: it must not look for it here first."""
    fake = tmp_path / "everturn"
    fake.mkdir()
    for name in ("__init__.py", "__main__.py"):
        (fake / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "pytest")])
    monkeypatch.setenv("PATH", "/nowhere")
    program = this_program()
    assert is_our_status_line({"command": " ".join([*program, "statusline"])})
    assert is_our_handler({"command": program[0], "args": [*program[1:], "hook"]})
    done = subprocess.run(
        [*program, "statusline"], cwd=tmp_path, input=b"{}", capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, (tmp_path / "ran").exists()) == (0, False)


def test_install_writes_no_program_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = tmp_path / "everturn"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.chdir(tmp_path)
    for path in (".:/nowhere", ":/nowhere", f"{tmp_path}:/nowhere"):
        monkeypatch.setenv("PATH", path)
        assert this_program()[0] == sys.executable


# ── commands of the chat ─────────────────────────────────────────────────────────────────────────


def test_a_command_of_the_chat_gets_no_key(tmp_path: Path):
    environment = {**os.environ, **KEYS, "PLAIN": "seen", "TOKENIZERS_PARALLELISM": "false"}
    workspace = Workspace(tmp_path, environment=environment)
    said = bash_tool(workspace, Permissions(mode="all")).run({"command": "env"})  # type: ignore[misc]
    assert "canary" not in said
    assert "PLAIN=seen" in said
    assert "TOKENIZERS_PARALLELISM=false" in said


def test_a_command_of_the_chat_dies_with_the_agent(tmp_path: Path):
    """Even if the agent is killed, and cannot clean up."""
    program = """
import sys
from everturn.chat.permission import Permissions
from everturn.chat.tools.bash import bash_tool
from everturn.chat.tools.files.workspace import Workspace
bash_tool(Workspace(sys.argv[1]), Permissions(mode="all")).run(
    {"command": "sleep 300 & echo $$ $! > pids.new; mv pids.new pids; wait"})
"""
    agent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    pids = tmp_path / "pids"
    try:
        _wait_for(pids.exists)
    finally:
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    _wait_for(lambda: all(_is_gone(pid) for pid in pids.read_text().split()))


def _wait_for(is_so) -> None:
    until = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def _is_gone(pid: str) -> bool:
    """Ended; one that nobody has collected yet counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PGPASSWORD", "plain"),
        ("MYSQL_PWD", "plain"),
        ("OPENAI_KEY", "plain"),
        ("SIGNING_KEYS", "plain"),
        ("GH_PAT", "plain"),
        ("CI_JOB_JWT", "plain"),
        ("DOCKER_AUTH_CONFIG", "plain"),
        ("ADMIN_PASS", "plain"),
        ("SENTRY_DSN", "https://abc@o1.example/2"),
        ("SLACK_WEBHOOK_URL", "https://hooks.example/T0/B0/x"),
        ("DATABASE_URL", "postgres://user:plain@host/db"),
        ("REDIS", "redis://:plain@host"),
    ],
)
def test_a_key_under_another_name_or_in_an_address_reaches_no_command(name: str, value: str):
    kept = {
        "PWD": "/work",
        "KEYBOARD": "us",
        "PASSENGER": "1",
        "PROXY": "http://proxy:8080",
        "SSH_AUTH_SOCK": "/s",
    }
    assert environment_without_keys({name: value, **kept}) == kept


POOL = """
import sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from os import getpid
from everturn.processes import end_with_parent

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=end_with_parent)
    print(pool.submit(getpid).result(), flush=True)
    time.sleep(60)
"""


def test_a_worker_ends_when_the_process_that_started_it_is_killed(tmp_path: Path):
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert int(starter.stdout.readline()) > 0
        starter.kill()
        # The worker has the other end of this pipe: it is closed when the worker ends.
        assert starter.communicate(timeout=30) == ("", None)
