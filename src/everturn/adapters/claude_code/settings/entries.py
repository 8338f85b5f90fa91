"""What everturn puts into the settings, and how it knows its own again. Texts in, texts out.

Entries are called by their command: what runs `everturn statusline` or `everturn hook` is ours, whoever wrote
it there. Putting them in is in `add_entries.py`, taking them out in `remove_entries.py`.
"""

import os
import shlex
from typing import Any, Final, NamedTuple

from everturn.adapters.claude_code.settings import json_text
from everturn.errors import InputError

NAME: Final = "everturn"
STATUS_LINE: Final = "statusLine"
# How often the line is drawn anew while nothing happens, so that the countdown of the cache moves.
REFRESH_SECONDS: Final = 10
# Reading a long transcript takes a while; a session that ends waits for nobody (ecosystem 2.3).
HOOK_TIMEOUT_SECONDS: Final = 30
SESSION_END_TIMEOUT_SECONDS: Final = 1


class InstallOptions(NamedTuple):
    """What to put in, and the program that it calls: a name on the path, or a path, with its arguments."""

    program: tuple[str, ...] = (NAME,)
    status_line: bool = True
    hooks: bool = True
    # Results of more characters go to files; 0: none do.
    shrink: int = 0
    server: bool = False


class SettingsChange(NamedTuple):
    """A text after a change, and in words what was done."""

    text: str
    said: tuple[str, ...] = ()
    # The status line that was replaced, as it was spelled.
    replaced: str = ""


def check_settings(text: str, name: str) -> None:
    """InputError unless a text is settings that can be changed."""
    try:
        value = json_text.parse_json(text)
    except json_text.InvalidJson as problem:
        raise InputError(
            f"{name} is no JSON: {problem}. Nothing was changed; correct it and try again."
        ) from None
    if not isinstance(value, dict):
        raise InputError(f"{name} holds {_kind(value)}, not an object with settings. Nothing was changed.")
    hooks = value.get("hooks", {})
    lists = hooks if isinstance(hooks, dict) else {}
    wrong = [("hooks", "an object", hooks)] if not isinstance(hooks, dict) else []
    wrong += [
        (f"hooks.{event}", "a list", found) for event, found in lists.items() if not isinstance(found, list)
    ]
    servers = value.get("mcpServers", {})
    wrong += [("mcpServers", "an object", servers)] if not isinstance(servers, dict) else []
    for place, should, found in wrong:
        raise InputError(
            f"{name}: {place} is {_kind(found)}, not {should}. Nothing was changed; correct it first."
        )


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "an object")


def hook_entries(wanted: InstallOptions) -> dict[str, dict[str, Any]]:
    """The entry of each event. The program is called with arguments, not through a shell."""
    entries = {
        "PreCompact": {"hooks": [_handler(wanted, "PreCompact")]},
        "SessionStart": {"matcher": "compact", "hooks": [_handler(wanted, "SessionStart")]},
        "SessionEnd": {"hooks": [_handler(wanted, "SessionEnd", seconds=SESSION_END_TIMEOUT_SECONDS)]},
    }
    if wanted.shrink:
        shrinking = _handler(wanted, "PostToolUse", "--shrink", str(wanted.shrink))
        entries["PostToolUse"] = {"matcher": "Bash|Grep|WebFetch|mcp__.*", "hooks": [shrinking]}
    return entries


def _handler(wanted: InstallOptions, *arguments: str, seconds: int = HOOK_TIMEOUT_SECONDS) -> dict[str, Any]:
    program, *rest = wanted.program
    return {"type": "command", "command": program, "args": [*rest, "hook", *arguments], "timeout": seconds}


def is_our_status_line(value: object) -> bool:
    command = value.get("command") if isinstance(value, dict) else None
    if not isinstance(command, str):
        return False
    try:
        return _is_us(shlex.split(command), "statusline")
    except ValueError:
        return False


def is_our_handler(value: object) -> bool:
    return calls_us(value, "hook")


def calls_us(value: object, what: str) -> bool:
    command = value.get("command") if isinstance(value, dict) else None
    arguments = value.get("args") if isinstance(value, dict) else None
    if not isinstance(command, str) or not isinstance(arguments, list):
        return False
    return _is_us([command, *(str(each) for each in arguments)], what)


def _is_us(words: list[str], what: str) -> bool:
    """`everturn WHAT ...` or `python -m everturn WHAT ...`, whichever everturn and python it is."""
    program = os.path.basename(words[0]).removesuffix(".exe") if words else ""
    return (program == NAME and words[1:2] == [what]) or (
        program.startswith("python") and words[1:4] == ["-m", NAME, what]
    )


def handlers_of(group: object) -> list[Any]:
    found = group.get("hooks") if isinstance(group, dict) else None
    return found if isinstance(found, list) else []


def describe_status_line(value: object) -> str:
    command = value.get("command") if isinstance(value, dict) else None
    return repr(command) if isinstance(command, str) else "one of another kind"
