"""Bash: a command in the workspace, with an end: of time, of output, and of everything that it started.

It runs in a session of its own, so an interrupt at the terminal reaches us alone; we end the whole group and
pass the interrupt on. What a command leaves behind in its group is ended when it ends.
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
from everturn.chat.tools import schema
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.inputs import ToolError, ToolInput
from everturn.session.tools import Tool

# Milliseconds, because models that know Claude Code's tool of this name write them; the numbers are our
# choice, and so is how much of an output is kept.
DEFAULT_TIMEOUT_MS: Final = 120_000
MAX_TIMEOUT_MS: Final = 600_000
MAX_CHARACTERS: Final = 30_000
# How long a group may take to end by itself, and a pipe that somebody else holds may stay silent.
KILL_GRACE_SECONDS: Final = 0.5
_CHUNK: Final = 65_536

# Keys of the API are ours, not the command's.
WITHHELD_VARIABLES: Final = ("ANTHROPIC_", "CLAUDE_CODE_OAUTH")
# Nobody is there to page, to answer or to see colours.
_QUIET: Final = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
# Anything that joins, redirects or computes commands: its first words say too little about the rest.
_JOINED: Final = re.compile(r"[;&|<>`$(){}\n\\*?\[\]~!#]")
# Programs whose second word is what they do, and programs that run whatever they are given.
_WITH_VERBS: Final = frozenset(
    ("git", "npm", "pnpm", "yarn", "cargo", "go", "uv", "pip", "docker", "make", "just")
)
_RUNNERS: Final = frozenset(
    ("sh", "bash", "zsh", "env", "sudo", "xargs", "eval", "exec", "python", "python3", "node", "perl", "ruby",
     "find", "ssh", "time", "nohup", "timeout", "npx", "command", "source", ".", "rm")
)  # fmt: skip

DEFINITION: Final = schema.tool_definition(
    "Bash",
    f"""Run a shell command in the workspace's folder. Each command starts there anew: `cd` and variables
    do not carry over. Nothing can be typed into it, and what it leaves running is ended. Of more than
    {MAX_CHARACTERS:,} characters of output the middle is left out. For reading and searching files, Read,
    Glob and Grep are better.""",
    {
        "command": schema.string_field("The command"),
        "timeout": schema.integer_field(
            f"Milliseconds after which it is ended; {DEFAULT_TIMEOUT_MS:,} if not given", least=1
        ),
        "description": schema.string_field("What it does, in five to ten words"),
    },
    "command",
)


class ShellResult(msgspec.Struct, frozen=True):
    """What came of a command. `code` is negative for a signal; `ended` says why we ended it."""

    output: str
    code: int
    ended: str = ""


def bash_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Bash", fields)
        command = given.words("command")
        if "\0" in command:
            raise ToolError("A command cannot hold a NUL character.")
        timeout = given.number("timeout", DEFAULT_TIMEOUT_MS, least=1, most=MAX_TIMEOUT_MS)
        permissions.require(
            PermissionRequest(
                "Bash", f"run {to_one_line(command)}", escape_hidden(command), permission_key(command)
            )
        )
        return _said(run_shell_command(command, workspace, seconds=timeout / 1000))

    return Tool(DEFINITION, run)


def permission_key(command: str) -> str:
    """What "always" covers: the first words of a plain command; of any other, exactly that command."""
    words = command.split()
    if _JOINED.search(command) or not words or "=" in words[0] or words[0] in _RUNNERS or "/" in words[0]:
        return escape_hidden(command)
    if words[0] not in _WITH_VERBS:
        return f"{words[0]} …"
    # Options in front of the verb can change what it does: git -c core.pager=anything.
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
        ended = f"it was ended after {seconds:g} s" if is_late else ""
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
    """Hear a command out; whether it was not done in time. Once the shell is gone, silence is the end: a
    process that it left behind may hold the pipe for ever."""
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
    """A command that closed its output may go on; it still has its time."""
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return True
    return False


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Ask, then insist. The group is the process's own, also when the process itself is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(KILL_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Also when a second interrupt comes while we wait.
            os.killpg(process.pid, signal.SIGKILL)


class _OutputBuffer:
    """The beginning and the end of an output of any length."""

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
        """All of it; what was cut off in the middle of a character is shown as such."""
        end = self._last + self._decoder.decode(b"", final=True)
        if not self._left_out:
            return self._first + end
        return f"{self._first}\n[… {self._left_out:,} characters left out …]\n{end}"


def _said(done: ShellResult) -> str:
    """How it ended, where that was not well, and the output."""
    output = done.output.rstrip()
    if done.ended:
        return f"{output}\n[Not finished: {done.ended}. A longer `timeout` gives it more time.]".lstrip()
    if done.code:
        how = f"Exit code {done.code}" if done.code > 0 else f"Ended by signal {-done.code}"
        return f"{how}\n{output}".rstrip()
    return output or "[no output]"
