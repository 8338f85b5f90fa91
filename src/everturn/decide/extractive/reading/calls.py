"""What a tool call did: read, edited, wrote or ran, and to what. Tools are known by `decide/tools.py`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from everturn.decide.extractive.reading.facts import ToolAction, Verb
from everturn.decide.tools import TABLE
from everturn.history.blocks import Block
from everturn.measure.accounting import EDITORS_THAT_VIEW

_VERB_BY_TRADE: Final[Mapping[str, Verb]] = {
    "reads a file": "read",
    "edits a file": "edited",
    "edits a notebook": "edited",
    "writes a file": "wrote",
    "runs a command": "ran",
}
VERBS: Final[Mapping[str, Verb]] = {
    name: verb for trade, _, names in TABLE if (verb := _VERB_BY_TRADE.get(trade)) for name in names
}
# The editors say by a command of their own what they do.
_EDITOR_COMMANDS: Final[Mapping[str, Verb]] = {"view": "read", "create": "wrote"}
_PATCHED: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "-c", "-lc"})


class ToolInputFields(msgspec.Struct, frozen=True):
    """The inputs that tools have under these names; nobody promises their types."""

    file_path: Any = None
    path: Any = None
    notebook_path: Any = None
    command: Any = None
    cmd: Any = None
    input: Any = None
    patch: Any = None
    new_string: Any = None
    new_str: Any = None
    new_source: Any = None
    content: Any = None
    file_text: Any = None
    edits: Any = None
    description: Any = None
    pattern: Any = None
    query: Any = None
    url: Any = None
    prompt: Any = None
    subject: Any = None
    skill: Any = None
    todos: Any = None
    plan: Any = None
    taskId: Any = None  # noqa: N815
    status: Any = None


class _Call(msgspec.Struct):
    input: ToolInputFields = ToolInputFields()


_read_call = msgspec.json.Decoder(_Call).decode


def read_tool_input(block: Block) -> ToolInputFields:
    try:
        return _read_call(block.raw).input
    except (msgspec.DecodeError, RecursionError):
        return ToolInputFields()


def read_tool_actions(block: Block, given: ToolInputFields) -> tuple[ToolAction, ...]:
    """What a call did; a patch may touch several files. At least one deed."""
    verb: Verb = VERBS.get(block.tool, "other")
    if block.tool in EDITORS_THAT_VIEW:
        verb = _EDITOR_COMMANDS.get(_first(given.command), "edited")
    if verb == "ran":
        return (ToolAction(block.call, block.tool, "ran", _first(given.command, given.cmd)),)
    new_text = _new_text(given) if verb in ("edited", "wrote") else ""
    path = _first(given.file_path, given.path, given.notebook_path)
    if verb == "edited" and not path:
        patch = _first(given.input, given.patch, given.command)
        if paths := cast(list[str], _PATCHED.findall(patch)):
            return tuple(ToolAction(block.call, block.tool, "edited", each.strip(), patch) for each in paths)
    if verb == "other":
        path = _first(
            given.description, given.subject, given.pattern, given.query, given.url, given.skill, path
        )
    return (ToolAction(block.call, block.tool, verb, path, new_text),)


def _new_text(given: ToolInputFields) -> str:
    whole = _first(given.new_string, given.new_str, given.new_source, given.content, given.file_text)
    edits: object = given.edits
    if whole or not isinstance(edits, list):
        return whole
    last = cast(list[object], edits)[-1:]
    maps = (cast(dict[str, object], each) for each in last if isinstance(each, dict))
    return _first(*(each.get("new_string") for each in maps))


def _first(*values: object) -> str:
    """The first that is a text with something in it; a list of words is a command line."""
    for value in values:
        text = value if isinstance(value, str) else _command_line(value)
        if text.strip():
            return text.strip()
    return ""


def _command_line(value: object) -> str:
    if not isinstance(value, list):
        return ""
    words: Iterable[object] = cast(list[object], value)
    return " ".join(word for word in words if isinstance(word, str) and word not in _SHELLS)
