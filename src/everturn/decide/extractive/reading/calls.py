"""What a tool call did: read, edited, wrote or ran, and to what. Tools: `measure/tool_table.py`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from everturn.decide.extractive.reading.facts import ToolAction, Verb
from everturn.history.blocks import Block
from everturn.measure.tool_table import PATCH_FIELDS, ToolPurpose, ToolRow

ToolInput = Mapping[str, Any]

_VERBS: Final[Mapping[ToolPurpose, Verb]] = {
    "reads": "read", "edits": "edited", "writes": "wrote", "runs": "ran",
    "replaces_tasks": "tracked", "adds_task": "tracked", "changes_task": "tracked", "tracks_tasks": "tracked",
}  # fmt: skip
# The fields that describe the target of tools without a known action, most specific first.
_ID_FIELDS: Final = ("shell_id", "bash_id", "task_id", "agentId")
_ABOUT_FIELDS: Final = ("subject", "description", "pattern", "query", "url", "skill", *_ID_FIELDS)
# Tools of which nothing else tells one call from another: agents bring tools of their own.
_BY_ARGUMENTS: Final[frozenset[ToolPurpose]] = frozenset({"other", "asks", "messages_agent"})
_MAX_ARGUMENTS: Final = 12
_MAX_ARGUMENT: Final = 80
_NEW_TEXT_FIELDS: Final = ("new_string", "new_str", "newText", "new_source", "content", "file_text")
_OLD_TEXT_FIELDS: Final = ("old_string", "old_str", "oldText")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "-c", "-lc"})


class _Call(msgspec.Struct):
    input: dict[str, Any] = {}


_read_call = msgspec.json.Decoder(_Call).decode


def read_tool_input(block: Block) -> ToolInput:
    """The input of a call; its types are not guaranteed."""
    try:
        return _read_call(block.raw).input
    except (msgspec.DecodeError, RecursionError):
        return {}


def read_tool_actions(block: Block, given: ToolInput, row: ToolRow) -> tuple[ToolAction, ...]:
    """What a call did; a patch may touch several files. At least one action."""
    verb: Verb = _VERBS.get(row.purpose_of(_first(given, "command")), "other")
    if verb == "ran":
        return (ToolAction(block.call, block.tool, "ran", _first(given, *row.command)),)
    new_text = _new_text(given) if verb in ("edited", "wrote") else ""
    path = _first(given, *row.path)
    if verb == "read":
        return (ToolAction(block.call, block.tool, verb, path, "", _lines_read(given)),)
    if verb == "edited" and not path:
        patch = _first(given, *PATCH_FIELDS)
        if paths := cast(list[str], _PATCHED.findall(patch)):
            return tuple(ToolAction(block.call, block.tool, "edited", each.strip(), patch) for each in paths)
    if verb in ("other", "tracked"):
        path = _first(given, *_ABOUT_FIELDS, *row.path)
        if not path and row.does in _BY_ARGUMENTS:
            path = _arguments(given)
    detail = _first_change(given, new_text) if verb == "edited" else ""
    return (ToolAction(block.call, block.tool, verb, path, new_text, detail),)


def _arguments(given: ToolInput) -> str:
    """The arguments of a call, one after the other: short values first, which are usually the ids."""
    filled = {name: value for name, value in given.items() if value not in (None, "", [], {})}
    plain = {name: value for name, value in filled.items() if not isinstance(value, dict | list)}
    named = [
        f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in (plain | filled).items()
    ]
    shown = [_begin(each) for each in named[:_MAX_ARGUMENTS]]
    return ", ".join([*shown, "…"] if len(named) > len(shown) else shown)


def _begin(text: str) -> str:
    line = " ".join(text[:_MAX_ARGUMENT].split())
    return f"{line} …" if len(text) > _MAX_ARGUMENT else line


def _lines_read(given: ToolInput) -> str:
    start, count = given.get("offset"), given.get("limit")
    if not isinstance(start, int) or start <= 0:
        return ""
    return (
        f"lines {start:,}-{start + count - 1:,}"
        if isinstance(count, int) and count > 0
        else f"from line {start:,}"
    )


def _first_change(given: ToolInput, new_text: str) -> str:
    """The first line of an edit that was not there before."""
    before = frozenset(line.strip() for line in _first(given, *_OLD_TEXT_FIELDS).splitlines())
    lines = (line.strip() for line in new_text.splitlines())
    return next((line for line in lines if len(line) > 2 and line not in before), "")


def _new_text(given: ToolInput) -> str:
    whole = _first(given, *_NEW_TEXT_FIELDS)
    edits: object = given.get("edits")
    if whole or not isinstance(edits, list):
        return whole
    last = cast(list[object], edits)[-1:]
    maps = (cast(dict[str, object], each) for each in last if isinstance(each, dict))
    return next((text for each in maps if (text := _first(each, "new_string"))), "")


def _first(given: Mapping[str, object], *names: str) -> str:
    """The first field that is a non-empty text; a list of words is a command line."""
    for name in names:
        value = given.get(name)
        text = value if isinstance(value, str) else _command_line(value)
        if text.strip():
            return text.strip()
    return ""


def _command_line(value: object) -> str:
    if not isinstance(value, list):
        return ""
    words: Iterable[object] = cast(list[object], value)
    return " ".join(word for word in words if isinstance(word, str) and word not in _SHELLS)
