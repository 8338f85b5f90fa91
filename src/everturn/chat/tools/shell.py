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

from everturn.chat.permission import Permissions, Wish, one_line, shown
from everturn.chat.tools import schema
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.inputs import Given, NotDone
from everturn.session.talk.tools import Tool

# Milliseconds, because models that know Claude Code's tool of this name write them; the numbers are our
# choice, and so is how much of an output is kept.
USUAL_TIMEOUT: Final = 120_000
LONGEST_TIMEOUT: Final = 600_000
MOST_CHARACTERS: Final = 30_000
# How long a group may take to end by itself, and a pipe that somebody else holds may stay silent.
GRACE: Final = 0.5
_CHUNK: Final = 65_536

# Keys of the API are ours, not the command's.
WITHHELD: Final = ("ANTHROPIC_", "CLAUDE_CODE_OAUTH")
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

DEFINITION: Final = schema.definition(
    "Bash",
    f"""Run a shell command in the workspace's folder. Each command starts there anew: `cd` and variables
    do not carry over. Nothing can be typed into it, and what it leaves running is ended. Of more than
    {MOST_CHARACTERS:,} characters of output the middle is left out. For reading and searching files, Read,
    Glob and Grep are better.""",
    {
        "command": schema.words("The command"),
        "timeout": schema.number(
            f"Milliseconds after which it is ended; {USUAL_TIMEOUT:,} if not given", least=1
        ),
        "description": schema.words("What it does, in five to ten words"),
    },
    "command",
)


class Ran(msgspec.Struct, frozen=True):
    """What came of a command. `code` is negative for a signal; `ended` says why we ended it."""

    output: str
    code: int
    ended: str = ""


def bash_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = Given("Bash", fields)
        command = given.words("command")
        if "\0" in command:
            raise NotDone("A command cannot hold a NUL character.")
        timeout = given.number("timeout", USUAL_TIMEOUT, least=1, most=LONGEST_TIMEOUT)
        permissions.require(Wish("Bash", f"run {one_line(command)}", shown(command), covered(command)))
        return _said(ran(command, workspace, seconds=timeout / 1000))

    return Tool(DEFINITION, run)


def covered(command: str) -> str:
    """What "always" covers: the first words of a plain command; of any other, exactly that command."""
    words = command.split()
    if _JOINED.search(command) or not words or "=" in words[0] or words[0] in _RUNNERS or "/" in words[0]:
        return shown(command)
    if words[0] not in _WITH_VERBS:
        return f"{words[0]} …"
    # Options in front of the verb can change what it does: git -c core.pager=anything.
    return f"{words[0]} {words[1]} …" if len(words) > 1 and words[1][0] != "-" else shown(command)


def ran(command: str, workspace: Workspace, *, seconds: float) -> Ran:
    process = subprocess.Popen(
        [shutil.which("bash") or "/bin/sh", "-c", command],
        cwd=workspace.root,
        env=_environment(workspace.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    heard = _Heard()
    try:
        is_late = _listen(process, heard, time.monotonic() + seconds)
        ended = f"it was ended after {seconds:g} s" if is_late else ""
        _end_group(process)
        return Ran(heard.text(), process.wait(), ended)
    except BaseException:
        _end_group(process)
        process.wait()
        raise
    finally:
        if process.stdout:
            process.stdout.close()


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in inherited.items() if not name.startswith(WITHHELD)} | _QUIET


def _listen(process: "subprocess.Popen[bytes]", heard: "_Heard", until: float) -> bool:
    """Hear a command out; whether it was not done in time. Once the shell is gone, silence is the end: a
    process that it left behind may hold the pipe for ever."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if selector.select(min(left, GRACE)):
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
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Also when a second interrupt comes while we wait.
            os.killpg(process.pid, signal.SIGKILL)


class _Heard:
    """The beginning and the end of an output of any length."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._first = self._last = ""
        self._left_out = 0

    def more(self, chunk: bytes) -> None:
        text = self._decoder.decode(chunk)
        room = MOST_CHARACTERS // 2 - len(self._first)
        self._first += text[:room]
        self._last += text[room:] if room > 0 else text
        over = len(self._last) - MOST_CHARACTERS // 2
        if over > 0:
            self._left_out += over
            self._last = self._last[over:]

    def text(self) -> str:
        """All of it; what was cut off in the middle of a character is shown as such."""
        end = self._last + self._decoder.decode(b"", final=True)
        if not self._left_out:
            return self._first + end
        return f"{self._first}\n[… {self._left_out:,} characters left out …]\n{end}"


def _said(done: Ran) -> str:
    """How it ended, where that was not well, and the output."""
    output = done.output.rstrip()
    if done.ended:
        return f"{output}\n[Not finished: {done.ended}. A longer `timeout` gives it more time.]".lstrip()
    if done.code:
        how = f"Exit code {done.code}" if done.code > 0 else f"Ended by signal {-done.code}"
        return f"{how}\n{output}".rstrip()
    return output or "[no output]"
