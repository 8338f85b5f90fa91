"""Bash: runs a command in the workspace with limits on time and output.

The command runs in its own process group, so Ctrl-C at the terminal reaches only us; we then kill the whole
group. Background processes of the command are killed when it ends.
"""

import codecs
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from everturn.chat.permission import PermissionRequest, Permissions, escape_hidden, to_one_line
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.inputs import (
    ToolError,
    ToolInput,
    integer_field,
    string_field,
    tool_definition,
)
from everturn.session.tools import Tool

# In milliseconds, as in Claude Code's tool of the same name, which models know. The limits are our choice.
DEFAULT_TIMEOUT_MS: Final = 120_000
MAX_TIMEOUT_MS: Final = 600_000
MAX_CHARACTERS: Final = 30_000
# How long processes get to exit after SIGTERM, and how long to wait for output after the shell has exited.
KILL_GRACE_SECONDS: Final = 0.5
_CHUNK: Final = 65_536

# Commands must not see our API keys.
WITHHELD_VARIABLES: Final = ("ANTHROPIC_", "CLAUDE_CODE_OAUTH")
# Commands run without a terminal: no pager, no prompts, no colors.
_QUIET: Final = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
# Shell syntax that combines, redirects or computes commands: the first words do not describe such a command.
_JOINED: Final = re.compile(r"[;&|<>`$(){}\n\\*?\[\]~!#]")
# Programs with subcommands, and programs that run arbitrary code or commands.
_WITH_VERBS: Final = frozenset(
    ("git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "pip", "docker", "make", "just")
)
_RUNNERS: Final = frozenset(
    ("sh", "bash", "zsh", "env", "sudo", "xargs", "eval", "exec", "python", "python3", "node", "perl", "ruby",
     "find", "ssh", "time", "nohup", "timeout", "npx", "command", "source", ".", "rm")
)  # fmt: skip

DEFINITION: Final = tool_definition(
    "Bash",
    f"""Run a shell command in the workspace folder. Each command starts there: `cd` and variables do not
    carry over. It gets no input, and background processes are killed when it ends. Output of more than
    {MAX_CHARACTERS:,} characters is cut in the middle. To read and search files, use Read, Glob and
    Grep.""",
    {
        "command": string_field("The command to run"),
        "timeout": integer_field(f"Timeout in milliseconds; default {DEFAULT_TIMEOUT_MS:,}", least=1),
        "description": string_field("What the command does, in five to ten words"),
    },
    "command",
)


class ShellResult(msgspec.Struct, frozen=True):
    """Result of a command. `code` is negative for a signal; `end_reason` says why we killed it."""

    output: str
    code: int
    end_reason: str = ""


def bash_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Bash", fields)
        command = given.string("command")
        if "\0" in command:
            raise ToolError("A command cannot contain a NUL character.")
        timeout = given.integer("timeout", DEFAULT_TIMEOUT_MS, least=1, most=MAX_TIMEOUT_MS)
        permissions.require(
            PermissionRequest(
                "Bash", f"run {to_one_line(command)}", escape_hidden(command), permission_key(command)
            )
        )
        return _said(run_shell_command(command, workspace, seconds=timeout / 1000))

    return Tool(DEFINITION, run)


def permission_key(command: str) -> str:
    """What "always" covers: the first words of a plain command, or else exactly this command."""
    words = command.split()
    if _JOINED.search(command) or not words or "=" in words[0] or words[0] in _RUNNERS or "/" in words[0]:
        return escape_hidden(command)
    if words[0] not in _WITH_VERBS:
        return f"{words[0]} …"
    # Options before the subcommand can change what it does: git -c core.pager=anything.
    return f"{words[0]} {words[1]} …" if len(words) > 1 and words[1][0] != "-" else escape_hidden(command)


def run_shell_command(command: str, workspace: Workspace, *, seconds: float) -> ShellResult:
    process = subprocess.Popen(
        [shutil.which("bash") or "/bin/sh", "-c", command],
        cwd=workspace.root,
        env=_environment(workspace.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    heard = _OutputBuffer()
    try:
        is_late = _read_output(process, heard, time.monotonic() + seconds)
        ended = f"killed after {seconds:g} s" if is_late else ""
        _end_group(process)
        return ShellResult(heard.text(), process.wait(), ended)
    except BaseException:
        _end_group(process)
        process.wait()
        raise
    finally:
        if process.stdout:
            process.stdout.close()


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in inherited.items() if not name.startswith(WITHHELD_VARIABLES)
    } | _QUIET


def _read_output(process: "subprocess.Popen[bytes]", heard: "_OutputBuffer", until: float) -> bool:
    """Read all output; returns True on timeout. After the shell has exited, silence means the end: a
    background process may hold the pipe open forever."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if selector.select(min(left, KILL_GRACE_SECONDS)):
                if not (chunk := os.read(fd, _CHUNK)):
                    return _outlives(process, until)
                heard.more(chunk)
            elif process.poll() is not None:
                return False
    return process.poll() is None


def _outlives(process: "subprocess.Popen[bytes]", until: float) -> bool:
    """Wait for a command that closed its output; returns True on timeout."""
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return True
    return False


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, then SIGKILL. The group exists even if its first process is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(KILL_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # In `finally`, because a second Ctrl-C can interrupt the wait.
            os.killpg(process.pid, signal.SIGKILL)


class _OutputBuffer:
    """Keeps the beginning and the end of the output."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = self._last = ""
        self._left_out = 0

    def more(self, chunk: bytes) -> None:
        text = self._decoder.decode(chunk)
        room = MAX_CHARACTERS // 2 - len(self._first)
        self._first += text[:room]
        self._last += text[room:] if room > 0 else text
        over = len(self._last) - MAX_CHARACTERS // 2
        if over > 0:
            self._left_out += over
            self._last = self._last[over:]

    def text(self) -> str:
        """The output; an incomplete character at the end is shown as a replacement character."""
        end = self._last + self._decoder.decode(b"", final=True)
        if not self._left_out:
            return self._first + end
        return f"{self._first}\n[… {self._left_out:,} characters left out …]\n{end}"


def _said(done: ShellResult) -> str:
    """The output, preceded by the exit code if the command failed."""
    output = done.output.rstrip()
    if done.end_reason:
        return f"{output}\n[Not finished: {done.end_reason}. Set a longer `timeout` if needed.]".lstrip()
    if done.code:
        how = f"Exit code {done.code}" if done.code > 0 else f"Ended by signal {-done.code}"
        return f"{how}\n{output}".rstrip()
    return output or "[no output]"
