"""The entries that everturn adds to the settings, and how to recognise them. Pure functions on text.

An entry is ours if it runs `everturn statusline`, `everturn hook` or `everturn mcp`, whoever added it.
`edit_entries.py` adds and removes them.
"""

import os
import shlex
from typing import Any, Final, NamedTuple

from everturn.adapters.claude_code.quick_json import get_path, is_list, is_object
from everturn.adapters.claude_code.settings import json_text
from everturn.errors import InputError

NAME: Final = "everturn"
STATUS_LINE: Final = "statusLine"
# Redraw interval while nothing happens, so that the cache countdown moves.
REFRESH_SECONDS: Final = 10
# Reading a long transcript takes a while; SessionEnd hooks get very little time (ecosystem 2.3).
HOOK_TIMEOUT_SECONDS: Final = 30
SESSION_END_TIMEOUT_SECONDS: Final = 1


class InstallOptions(NamedTuple):
    """What to install. `program` is how everturn is called: a name on the PATH or a path, with arguments."""

    program: tuple[str, ...] = (NAME,)
    status_line: bool = True
    hooks: bool = True
    # Longer results are moved to files; 0 turns this off.
    shrink: int = 0
    server: bool = False


class SettingsChange(NamedTuple):
    """The text after a change, and messages that describe the change."""

    text: str
    messages: tuple[str, ...] = ()
    # The JSON text of the status line that was replaced.
    replaced: str = ""


def check_settings(text: str, name: str) -> None:
    """Raises InputError if the text is not a settings file that can be edited."""
    try:
        value = json_text.parse_json(text)
    except json_text.InvalidJson as problem:
        raise InputError(
            f"{name} is not valid JSON: {problem}. Nothing was changed; correct it and try again."
        ) from None
    if not is_object(value):
        raise InputError(f"{name} contains {_kind(value)}, not a JSON object. Nothing was changed.")
    hooks = value.get("hooks", {})
    lists = hooks if is_object(hooks) else {}
    wrong = [("hooks", "an object", hooks)] if not is_object(hooks) else []
    wrong += [
        (f"hooks.{event}", "a list", found) for event, found in lists.items() if not isinstance(found, list)
    ]
    servers = value.get("mcpServers", {})
    wrong += [("mcpServers", "an object", servers)] if not is_object(servers) else []
    for place, should, found in wrong:
        raise InputError(
            f"{name}: {place} is {_kind(found)}, not {should}. Nothing was changed; correct it first."
        )


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
    }
    return names.get(type(value), "an object")


def hook_entries(wanted: InstallOptions) -> dict[str, dict[str, Any]]:
    """The hook entry for each event. The program is called directly, not through a shell."""
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


def server_entry(wanted: InstallOptions) -> dict[str, Any]:
    program, *rest = wanted.program
    return {"command": program, "args": [*rest, "mcp"]}


def has_our_hooks(text: str) -> bool:
    """Whether settings have a hook of ours."""
    hooks = get_path(json_text.parse_json(text), "hooks")
    groups = (
        [each for found in hooks.values() if is_list(found) for each in found] if is_object(hooks) else []
    )
    return any(is_our_handler(each) for group in groups for each in handlers_of(group))


def is_our_status_line(value: object) -> bool:
    command = get_path(value, "command")
    if not isinstance(command, str):
        return False
    try:
        return _is_us(shlex.split(command), "statusline")
    except ValueError:
        return False


def is_our_handler(value: object) -> bool:
    return calls_us(value, "hook")


def calls_us(value: object, what: str) -> bool:
    command = get_path(value, "command")
    arguments = get_path(value, "args")
    if not isinstance(command, str) or not is_list(arguments):
        return False
    return _is_us([command, *(str(each) for each in arguments)], what)


def _is_us(words: list[str], what: str) -> bool:
    """`everturn WHAT ...` or `python [-P] -m everturn WHAT ...`, at any path. That it has our name does not
    mean that it is safe to run."""
    program = os.path.basename(words[0]).removesuffix(".exe") if words else ""
    if program == NAME:
        return words[1:2] == [what]
    after = [word for word in words[1:5] if word != "-P"]
    return program.startswith("python") and after[:3] == ["-m", NAME, what]


def handlers_of(group: object) -> list[Any]:
    found = get_path(group, "hooks")
    return found if is_list(found) else []


def describe_status_line(value: object) -> str:
    command = get_path(value, "command")
    return repr(command) if isinstance(command, str) else "(not a command)"
