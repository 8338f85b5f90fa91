"""Entries put into the text of a settings file. What is there already stays as it is, letter by letter.

Entries of ours that call another program than now are made to call this one; nothing else in them changes.
"""

import shlex
from typing import Any

from everturn.adapters.claude_code.settings import json_text
from everturn.adapters.claude_code.settings.entries import (
    NAME,
    REFRESH_SECONDS,
    STATUS_LINE,
    InstallOptions,
    SettingsChange,
    calls_us,
    describe_status_line,
    handlers_of,
    hook_entries,
    is_our_handler,
    is_our_status_line,
)
from everturn.errors import UsageError


class StatusLineTaken(UsageError):
    """Another program draws the status line, and nobody said that it may be replaced."""


def add_entries(text: str, wanted: InstallOptions, *, replace: bool) -> SettingsChange:
    """The text with all that is wanted in it; what is there already stays as it is."""
    change = SettingsChange(text)
    if wanted.status_line:
        change = _with_status_line(change, wanted, replace=replace)
    if wanted.hooks:
        for event, entry in hook_entries(wanted).items():
            change = _with_hook(change, event, entry)
    return _with_server(change, wanted) if wanted.server else change


def _with_status_line(change: SettingsChange, wanted: InstallOptions, *, replace: bool) -> SettingsChange:
    command = shlex.join([*wanted.program, "statusline"])
    entry = {"type": "command", "command": command, "padding": 0, "refreshInterval": REFRESH_SECONDS}
    there = json_text.find_member(change.text, STATUS_LINE)
    if there is None:
        text = json_text.add_member(change.text, [STATUS_LINE], entry)
        return SettingsChange(text, (*change.said, f"status line: {command}"))
    if is_our_status_line(there.value):
        return _with_another_value(change, [STATUS_LINE, "command"], command, "status line")
    old = change.text[there.value_start : there.end]
    if not replace:
        raise StatusLineTaken(
            f"There is a status line already: {describe_status_line(there.value)}. Nothing was changed. Say "
            "--replace to put everturn's in its place (uninstalling brings yours back), or --no-statusline "
            "to keep it."
        )
    base = _base(change.text, there.start)
    text = json_text.replace_value(
        change.text, there, json_text.detect_layout(change.text).render(entry, base)
    )
    return SettingsChange(
        text, (*change.said, f"status line: {command} (instead of {describe_status_line(there.value)})"), old
    )


def _base(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line if not line.strip() else ""


def _with_hook(change: SettingsChange, event: str, entry: dict[str, Any]) -> SettingsChange:
    text = change.text
    groups = json_text.find_member(text, "hooks", event)
    if groups and any(is_our_handler(handler) for group in groups.value for handler in handlers_of(group)):
        return _with_our_handlers(change, event, entry["hooks"][0])
    if json_text.find_member(text, "hooks") is None:
        text = json_text.add_member(text, ["hooks"], {event: [entry]})
    elif groups is None:
        text = json_text.add_member(text, ["hooks", event], [entry])
    else:
        text = json_text.add_item(text, ["hooks", event], entry)
    said = f"hook {event}: {shlex.join(_call(entry['hooks'][0]))}"
    return change._replace(text=text, said=(*change.said, said))


def _with_our_handlers(change: SettingsChange, event: str, wanted: dict[str, Any]) -> SettingsChange:
    """Ours as they are to be called now: the program may have moved, or the limit be another one."""
    text = change.text
    for number, group in enumerate(json_text.items_at(text, ["hooks", event])):
        for at, handler in enumerate(handlers_of(group.value)):
            if is_our_handler(handler) and _call(handler) != _call(wanted):
                group = json_text.items_at(text, ["hooks", event])[number]
                span = json_text.items_within(text, group, "hooks")[at]
                spelled = json_text.detect_layout(text).render(wanted, _base(text, span.start))
                text = json_text.replace_value(text, span, spelled)
    if text == change.text:
        return change
    return change._replace(text=text, said=(*change.said, f"hook {event}: {shlex.join(_call(wanted))}"))


def _call(handler: dict[str, Any]) -> list[str]:
    return [handler["command"], *handler["args"]]


def _with_another_value(change: SettingsChange, names: list[str], value: Any, what: str) -> SettingsChange:
    there = json_text.find_member(change.text, *names)
    if there is None or there.value == value:
        return change
    spelled = json_text.detect_layout(change.text).render(value, _base(change.text, there.start))
    text = json_text.replace_value(change.text, there, spelled)
    return change._replace(text=text, said=(*change.said, f"{what}: calls this everturn now"))


def _with_server(change: SettingsChange, wanted: InstallOptions) -> SettingsChange:
    text = change.text
    program, *rest = wanted.program
    entry = {"command": program, "args": [*rest, "mcp"]}
    if there := json_text.find_member(text, "mcpServers", NAME):
        is_ours = calls_us(there.value, "mcp")
        return _with_another_value(change, ["mcpServers", NAME], entry, "MCP server") if is_ours else change
    if json_text.find_member(text, "mcpServers") is None:
        text = json_text.add_member(text, ["mcpServers"], {NAME: entry})
    else:
        text = json_text.add_member(text, ["mcpServers", NAME], entry)
    return change._replace(
        text=text, said=(*change.said, f"MCP server: {shlex.join([program, *rest, 'mcp'])}")
    )
