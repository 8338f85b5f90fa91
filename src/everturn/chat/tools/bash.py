"""Bash: runs a command in the workspace with limits on time and output.

The command runs in its own process group, so Ctrl-C at the terminal reaches only us; we then kill the whole
group. Background processes of the command are killed when it ends.
"""

import codecs
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from everturn.chat.permission import PermissionRequest, Permissions, to_one_line
from everturn.chat.tools.command_scope import always_scope
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.inputs import (
    ToolError,
    ToolInput,
    integer_field,
    string_field,
    tool_definition,
)
from everturn.processes import environment_without_keys, find_program, run_process
from everturn.session.tools import Tool
from everturn.terminal_text import visible

# In milliseconds, as in Claude Code's tool of the same name, which models know. The limits are our choice.
DEFAULT_TIMEOUT_MS: Final = 120_000
MAX_TIMEOUT_MS: Final = 600_000
MAX_CHARACTERS: Final = 30_000
# Commands run without a terminal: no pager, no prompts, no colors.
_QUIET: Final = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
    "NO_COLOR": "1",
}

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
            PermissionRequest("Bash", f"run {to_one_line(command)}", visible(command), always_scope(command))
        )
        return _said(run_shell_command(command, workspace, seconds=timeout / 1000))

    return Tool(DEFINITION, run)


def run_shell_command(command: str, workspace: Workspace, *, seconds: float) -> ShellResult:
    shell = find_program("bash", workspace.environment.get("PATH", ""), outside=str(workspace.root))
    heard = _OutputBuffer()
    done = run_process(
        [shell or "/bin/sh", "-c", command],
        environment=environment_without_keys(workspace.environment) | _QUIET,
        seconds=seconds,
        cwd=str(workspace.root),
        listen=heard.more,
    )
    return ShellResult(heard.text(), done.code, f"killed after {seconds:g} s" if done.is_late else "")


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
