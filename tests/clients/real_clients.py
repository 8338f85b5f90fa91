"""The real clients: what is installed for each, where, and how it has a conversation.

Each gets a folder of its own below `build/clients`, an invented key and a HOME of its own. A client that
cannot be installed has a file with the reason instead.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

HOME: Final = Path("build/clients").absolute()
PROGRAMS: Final = Path(__file__).parent / "programs"
SECONDS: Final = 300
INSTALL_SECONDS: Final = 900
# Sub-agents have random names, which the twin's agent repeats in its answers.
_AGENT_NAME: Final = re.compile(r"\ba[0-9a-f]{16}\b")


class Client(NamedTuple):
    """One client. `packages` are installed by name, in their newest versions."""

    name: str
    packages: tuple[str, ...]
    # A file in `programs`; "" for Claude Code, which is itself a program.
    program: str
    # What counts as its version.
    package: str = ""

    @property
    def folder(self) -> Path:
        return HOME / self.name.lower().replace(" ", "-")

    @property
    def is_npm(self) -> bool:
        return self.packages[0].startswith("@")

    @property
    def problem(self) -> str:
        """Why it could not be installed; "" if it could."""
        note = self.folder / "problem.txt"
        return note.read_text("utf-8") if note.exists() else ""


CLIENTS: Final = (
    Client("Claude Code", ("@anthropic-ai/claude-code@latest",), ""),
    Client("aider", ("aider-chat",), "aider_chat.py"),
    Client("TypeScript SDK", ("@anthropic-ai/sdk@latest",), "typescript_sdk.mjs"),
    Client("Python SDK", ("anthropic",), "python_sdk.py"),
    Client("LangChain", ("langchain", "langchain-anthropic"), "langchain_agent.py"),
    Client("pydantic-ai", ("pydantic-ai-slim[anthropic]",), "pydantic_ai_agent.py", "pydantic-ai-slim"),
    # Without `mcp` litellm cannot complete a request with tools.
    Client("litellm", ("litellm", "mcp"), "litellm_loop.py"),
)


class CouldNotRun(Exception):
    """A client that failed; the text says how."""


# ── installing ───────────────────────────────────────────────────────────────────────────────────


def install(client: Client) -> None:
    """Install a client, unless it is there."""
    done = client.folder / "installed.txt"
    if done.exists() and done.read_text("utf-8") == repr(client.packages):
        return
    print(f"installing {client.name} ...", flush=True)
    shutil.rmtree(client.folder, ignore_errors=True)
    client.folder.mkdir(parents=True)
    try:
        for command in _install_commands(client):
            _run(command)
    except (OSError, subprocess.SubprocessError, CouldNotRun) as problem:
        (client.folder / "problem.txt").write_text(f"could not be installed: {problem}", "utf-8")
        return
    done.write_text(repr(client.packages), "utf-8")


def _install_commands(client: Client) -> Iterator[list[str]]:
    folder = str(client.folder)
    if client.is_npm:
        if shutil.which("npm") is None:
            raise CouldNotRun("npm was not found")
        yield ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", folder, *client.packages]
        return
    yield [sys.executable, "-m", "venv", folder]
    pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "-qq", "install"]
    yield [*pip, *client.packages]


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "rror" in line] or [command[0] + " failed"]
        raise CouldNotRun(said[-1][:200])
    return done.stdout


def find_version(client: Client) -> str:
    if client.is_npm:
        package = client.packages[0].rpartition("@")[0]
        about = client.folder / "node_modules" / package / "package.json"
        return json.loads(about.read_text("utf-8"))["version"]
    name = client.package or client.packages[0]
    read = f"import importlib.metadata; print(importlib.metadata.version({name!r}))"
    return _run([f"{client.folder}/bin/python", "-c", read]).strip()


# ── talking ──────────────────────────────────────────────────────────────────────────────────────


def make_environment(home: Path, url: str, key: str) -> dict[str, str]:
    """Nothing of the user's own: no key, no settings."""
    for name in ("home", "tmp"):
        (home / name).mkdir(parents=True, exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home / "home"),
        "TMPDIR": str(home / "tmp"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": str(PROGRAMS),
    }


def converse(
    client: Client, work: Path, environment: dict[str, str], model: str, sessions: Sequence[Sequence[str]]
) -> list[str]:
    """Ask all prompts and return the answers. Claude Code ends after each session and continues it."""
    if client.program:
        prompts = [prompt for session in sessions for prompt in session]
        return _run_program(client, work, environment, model, prompts)
    answers: list[str] = []
    for at, session in enumerate(sessions):
        answers += _run_claude(client, work, environment, model, session, is_continued=at > 0)
    return answers


def _run_program(
    client: Client, work: Path, environment: dict[str, str], model: str, prompts: Sequence[str]
) -> list[str]:
    start = ["node"] if client.is_npm else [f"{client.folder}/bin/python"]
    done = subprocess.run(
        [*start, str(PROGRAMS / client.program), model, json.dumps(prompts)],
        cwd=work,
        env={**environment, "CLIENT_FOLDER": str(client.folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        raise CouldNotRun(done.stderr.strip().rpartition("\n")[2][:300])
    return [json.loads(line)["answer"] for line in done.stdout.splitlines()]


def _run_claude(
    client: Client,
    work: Path,
    environment: dict[str, str],
    model: str,
    prompts: Sequence[str],
    *,
    is_continued: bool,
) -> list[str]:
    command = [str(client.folder / "node_modules/.bin/claude"), "-p", "--verbose", "--model", model]
    command += ["--input-format", "stream-json", "--output-format", "stream-json"]
    command += ["--permission-mode", "acceptEdits", *(["--continue"] if is_continued else [])]
    own = {
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Some modes are refused to root unless this says that the machine is a sandbox.
        "IS_SANDBOX": "1",
    }
    with subprocess.Popen(
        command,
        cwd=work,
        env={**environment, **own},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        answers = [_ask_claude(process.stdin, process.stdout, prompt) for prompt in prompts]
        process.stdin.close()
        process.stdout.read()
        if code := process.wait(SECONDS):
            raise CouldNotRun(f"exit code {code}")
    return answers


def _ask_claude(stdin: Any, stdout: Any, prompt: str) -> str:
    """One prompt at a time: prompts that arrive during a turn would be merged."""
    stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": prompt}}) + "\n")
    stdin.flush()
    for line in stdout:
        event = json.loads(line)
        if event.get("type") == "result":
            if event.get("is_error"):
                raise CouldNotRun(f"{event.get('subtype')}: {str(event.get('result'))[:200]}")
            return _AGENT_NAME.sub("AGENT", str(event.get("result", "")))
    raise CouldNotRun(f"no answer to {prompt!r}")
