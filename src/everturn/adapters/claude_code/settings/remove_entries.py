"""Entries of ours taken out of the text of a settings file; everything else stays, letter by letter."""

from collections.abc import Sequence

from everturn.adapters.claude_code.settings import json_text
from everturn.adapters.claude_code.settings.entries import (
    NAME,
    STATUS_LINE,
    SettingsChange,
    calls_us,
    handlers_of,
    is_our_handler,
    is_our_status_line,
)


def remove_entries(text: str, *, replaced: str = "", empty_before: Sequence[str] = ()) -> SettingsChange:
    """The text without anything of ours, and with the status line back that ours replaced.

    `empty_before` names what was there and empty before us ("hooks", "hooks.PreCompact"): it stays.
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
    return list(hooks.value) if hooks and isinstance(hooks.value, dict) else []


def find_empty_containers(text: str) -> tuple[str, ...]:
    """What `removed` must leave where it is."""
    places = [("hooks",), ("mcpServers",), *(("hooks", event) for event in _events(text))]
    found = [(names, json_text.find_member(text, *names)) for names in places]
    return tuple(".".join(names) for names, span in found if span and span.value in ({}, []))


def _without_status_line(change: SettingsChange, replaced: str) -> SettingsChange:
    there = json_text.find_member(change.text, STATUS_LINE)
    if there is None or not is_our_status_line(there.value):
        return change
    if replaced:
        text = json_text.replace_value(change.text, there, replaced)
        return SettingsChange(text, (*change.said, "status line: yours is back"))
    return SettingsChange(_without_member(change.text, STATUS_LINE), (*change.said, "status line"))


def _without_hooks(change: SettingsChange, event: str, *, keep_empty: bool) -> SettingsChange:
    """Without our handlers; a group that holds others keeps those."""
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
    return change._replace(text=text, said=(*change.said, f"hook {event}"))


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
    return change._replace(text=text, said=(*change.said, "MCP server"))


def _without_member(text: str, *names: str) -> str:
    spans = json_text.members_at(text, names[:-1])
    number = max(at for at, span in enumerate(spans) if span.key == names[-1])
    return json_text.remove_span(text, spans, number)
