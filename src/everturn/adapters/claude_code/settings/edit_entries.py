"""Add everturn's entries to the text of a settings file, and remove them again.

All other text stays unchanged, character by character. If one of our entries calls a different program than
the current one, only its command is updated.
"""

import shlex
from collections.abc import Sequence
from typing import Any

from everturn.adapters.claude_code.quick_json import is_object
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
    server_entry,
)
from everturn.errors import UsageError


class StatusLineTaken(UsageError):
    """Another status line is configured, and replacing it was not allowed."""


def add_entries(text: str, wanted: InstallOptions, *, replace: bool) -> SettingsChange:
    """Add the wanted entries; existing text does not change."""
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
        return SettingsChange(text, (*change.messages, f"status line: {command}"))
    if is_our_status_line(there.value):
        return _with_another_value(change, [STATUS_LINE, "command"], command, "status line")
    old = change.text[there.value_start : there.end]
    if not replace:
        raise StatusLineTaken(
            f"A status line is configured already: {describe_status_line(there.value)}. Nothing was changed. "
            "Use --replace to replace it (uninstalling restores it), or --no-statusline to keep it."
        )
    base = _base(change.text, there.start)
    text = json_text.replace_value(
        change.text, there, json_text.detect_layout(change.text).render(entry, base)
    )
    return SettingsChange(
        text,
        (*change.messages, f"status line: {command} (instead of {describe_status_line(there.value)})"),
        old,
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
    return change._replace(text=text, messages=(*change.messages, said))


def _with_our_handlers(change: SettingsChange, event: str, wanted: dict[str, Any]) -> SettingsChange:
    """Update our handlers: the program may have moved, or the limit may have changed."""
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
    return change._replace(
        text=text, messages=(*change.messages, f"hook {event}: {shlex.join(_call(wanted))}")
    )


def _call(handler: dict[str, Any]) -> list[str]:
    return [handler["command"], *handler["args"]]


def _with_another_value(change: SettingsChange, names: list[str], value: Any, what: str) -> SettingsChange:
    there = json_text.find_member(change.text, *names)
    if there is None or there.value == value:
        return change
    spelled = json_text.detect_layout(change.text).render(value, _base(change.text, there.start))
    text = json_text.replace_value(change.text, there, spelled)
    return change._replace(text=text, messages=(*change.messages, f"{what}: now calls this everturn"))


def _with_server(change: SettingsChange, wanted: InstallOptions) -> SettingsChange:
    text = change.text
    program, *rest = wanted.program
    entry = server_entry(wanted)
    if there := json_text.find_member(text, "mcpServers", NAME):
        is_ours = calls_us(there.value, "mcp")
        return _with_another_value(change, ["mcpServers", NAME], entry, "MCP server") if is_ours else change
    if json_text.find_member(text, "mcpServers") is None:
        text = json_text.add_member(text, ["mcpServers"], {NAME: entry})
    else:
        text = json_text.add_member(text, ["mcpServers", NAME], entry)
    return change._replace(
        text=text, messages=(*change.messages, f"MCP server: {shlex.join([program, *rest, 'mcp'])}")
    )


# ── removing ───────────────────────────────────────────────────────────────────────────────────────


def remove_entries(text: str, *, replaced: str = "", empty_before: Sequence[str] = ()) -> SettingsChange:
    """Remove our entries and restore the status line that ours replaced.

    `empty_before` names containers that were empty before the installation ("hooks", "hooks.PreCompact");
    they stay.
    """
    change = _without_status_line(SettingsChange(text), replaced)
    for event in _events(text):
        change = _without_hooks(change, event, keep_empty=f"hooks.{event}" in empty_before)
    hooks = json_text.find_member(change.text, "hooks")
    if change.text != text and hooks and hooks.value == {} and "hooks" not in empty_before:
        change = change._replace(text=_without_member(change.text, "hooks"))
    return _without_server(change, keep_empty="mcpServers" in empty_before)


def _events(text: str) -> list[str]:
    hooks = json_text.find_member(text, "hooks")
    return list(hooks.value) if hooks and is_object(hooks.value) else []


def find_empty_containers(text: str) -> tuple[str, ...]:
    """Containers that are empty now and that `remove_entries` must keep."""
    places = [("hooks",), ("mcpServers",), *(("hooks", event) for event in _events(text))]
    found = [(names, json_text.find_member(text, *names)) for names in places]
    return tuple(".".join(names) for names, span in found if span and span.value in ({}, []))


def _without_status_line(change: SettingsChange, replaced: str) -> SettingsChange:
    there = json_text.find_member(change.text, STATUS_LINE)
    if there is None or not is_our_status_line(there.value):
        return change
    if replaced:
        text = json_text.replace_value(change.text, there, replaced)
        return SettingsChange(text, (*change.messages, "status line: yours was restored"))
    return SettingsChange(_without_member(change.text, STATUS_LINE), (*change.messages, "status line"))


def _without_hooks(change: SettingsChange, event: str, *, keep_empty: bool) -> SettingsChange:
    """Remove our handlers; other handlers of the same group stay."""
    text = change.text
    for number, group in reversed(list(enumerate(_groups(text, event)))):
        ours = [at for at, handler in enumerate(handlers_of(group.value)) if is_our_handler(handler)]
        if not ours:
            continue
        if len(ours) == len(handlers_of(group.value)):
            text = json_text.remove_span(text, _groups(text, event), number)
            continue
        for at in reversed(ours):
            group = _groups(text, event)[number]
            text = json_text.remove_span(text, json_text.items_within(text, group, "hooks"), at)
    if text == change.text:
        return change
    if not _groups(text, event) and not keep_empty:
        text = _without_member(text, "hooks", event)
    return change._replace(text=text, messages=(*change.messages, f"hook {event}"))


def _groups(text: str, event: str) -> list[json_text.JsonSpan]:
    span = json_text.find_member(text, "hooks", event)
    return json_text.find_items(text, span.value_start) if span and isinstance(span.value, list) else []


def _without_server(change: SettingsChange, *, keep_empty: bool) -> SettingsChange:
    server = json_text.find_member(change.text, "mcpServers", NAME)
    if server is None or not calls_us(server.value, "mcp"):
        return change
    text = _without_member(change.text, "mcpServers", NAME)
    servers = json_text.find_member(text, "mcpServers")
    if servers and servers.value == {} and not keep_empty:
        text = _without_member(text, "mcpServers")
    return change._replace(text=text, messages=(*change.messages, "MCP server"))


def _without_member(text: str, *names: str) -> str:
    spans = json_text.members_at(text, names[:-1])
    number = max(at for at, span in enumerate(spans) if span.key == names[-1])
    return json_text.remove_span(text, spans, number)
