"""Entries put into the text of a settings file. What is there already stays as it is, letter by letter."""

import shlex
from typing import Any

from everturn.adapters.claude_code.settings import json_text
from everturn.adapters.claude_code.settings.entries import (
    NAME,
    REFRESH_SECONDS,
    STATUS_LINE,
    Change,
    Wanted,
    handlers_of,
    hook_entries,
    is_our_handler,
    is_our_status_line,
    shown_status_line,
)
from everturn.errors import UsageError


class StatusLineTaken(UsageError):
    """Another program draws the status line, and nobody said that it may be replaced."""


def added(text: str, wanted: Wanted, *, replace: bool) -> Change:
    """The text with all that is wanted in it; what is there already stays as it is."""
    change = Change(text)
    if wanted.status_line:
        change = _with_status_line(change, wanted, replace=replace)
    if wanted.hooks:
        for event, entry in hook_entries(wanted).items():
            change = _with_hook(change, event, entry)
    return _with_server(change, wanted) if wanted.server else change


def _with_status_line(change: Change, wanted: Wanted, *, replace: bool) -> Change:
    command = shlex.join([*wanted.program, "statusline"])
    entry = {"type": "command", "command": command, "padding": 0, "refreshInterval": REFRESH_SECONDS}
    there = json_text.member(change.text, STATUS_LINE)
    if there is None:
        text = json_text.with_member(change.text, [STATUS_LINE], entry)
        return Change(text, (*change.said, f"status line: {command}"))
    if is_our_status_line(there.value):
        return change
    old = change.text[there.value_start : there.end]
    if not replace:
        raise StatusLineTaken(
            f"There is a status line already: {shown_status_line(there.value)}. Nothing was changed. Say "
            "--replace to put everturn's in its place (uninstalling brings yours back), or --no-statusline "
            "to keep it."
        )
    base = _base(change.text, there.start)
    text = json_text.with_value(change.text, there, json_text.layout_of(change.text).spelled(entry, base))
    return Change(
        text, (*change.said, f"status line: {command} (instead of {shown_status_line(there.value)})"), old
    )


def _base(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line if not line.strip() else ""


def _with_hook(change: Change, event: str, entry: dict[str, Any]) -> Change:
    text = change.text
    groups = json_text.member(text, "hooks", event)
    if groups and any(is_our_handler(handler) for group in groups.value for handler in handlers_of(group)):
        return change
    if json_text.member(text, "hooks") is None:
        text = json_text.with_member(text, ["hooks"], {event: [entry]})
    elif groups is None:
        text = json_text.with_member(text, ["hooks", event], [entry])
    else:
        text = json_text.with_item(text, ["hooks", event], entry)
    handler = entry["hooks"][0]
    return change._replace(
        text=text, said=(*change.said, f"hook {event}: {shlex.join([handler['command'], *handler['args']])}")
    )


def _with_server(change: Change, wanted: Wanted) -> Change:
    text = change.text
    if json_text.member(text, "mcpServers", NAME):
        return change
    program, *rest = wanted.program
    entry = {"command": program, "args": [*rest, "mcp"]}
    if json_text.member(text, "mcpServers") is None:
        text = json_text.with_member(text, ["mcpServers"], {NAME: entry})
    else:
        text = json_text.with_member(text, ["mcpServers", NAME], entry)
    return change._replace(
        text=text, said=(*change.said, f"MCP server: {shlex.join([program, *rest, 'mcp'])}")
    )
