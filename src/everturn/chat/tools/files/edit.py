"""Write and Edit: change a file only if it is still the version that was read, and only with permission.

The user may take a while to answer, so the version is checked again before the file is replaced
(`atomic_write.py`). Invalid UTF-8 and Windows line endings in the rest of the file are preserved.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from everturn.chat.permission import ActionKind, PermissionRequest, Permissions, to_one_line
from everturn.chat.tools.files.atomic_write import write_atomically
from everturn.chat.tools.files.diff import FileDiff, diff_texts
from everturn.chat.tools.files.workspace import (
    FileVersion,
    ResolvedPath,
    Workspace,
    make_version,
    open_regular_file,
    read_all,
)
from everturn.chat.tools.inputs import (
    ToolError,
    ToolInput,
    boolean_field,
    string_field,
    tool_definition,
)
from everturn.session.tools import Tool
from everturn.terminal_text import visible

_PATH: Final = string_field("Path of the file, absolute or relative to the workspace")
WRITE: Final = tool_definition(
    "Write",
    """Write a whole file; missing folders are created. An existing file must have been read first. Prefer
    Edit for changes.""",
    {"file_path": _PATH, "content": string_field("The complete content")},
    "file_path",
    "content",
)
EDIT: Final = tool_definition(
    "Edit",
    """Replace text in a file that was read. `old_string` must occur exactly once, with exact whitespace and
    without the line numbers that Read shows; with `replace_all`, every occurrence is replaced.""",
    {
        "file_path": _PATH,
        "old_string": string_field("The text to replace"),
        "new_string": string_field("The replacement"),
        "replace_all": boolean_field("Replace every occurrence"),
    },
    "file_path",
    "old_string",
    "new_string",
)
# Line numbers as Read shows them; models sometimes copy them into `old_string`.
_NUMBERED: Final = re.compile(r"^ *\d+\t", re.MULTILINE)
_MAX_LINES_NAMED: Final = 5


class _CurrentFile(msgspec.Struct, frozen=True):
    """The current state of a file; `version` is None if it does not exist."""

    data: bytes = b""
    found: os.stat_result | None = None
    version: FileVersion | None = None


def write_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Write", fields)
        target = workspace.resolve(given.string("file_path"))
        new = _encoded(given.any_string("content"), target)
        return _change(workspace, permissions, "Write", target, _require_read(workspace, target), new)

    return Tool(WRITE, run)


def edit_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Edit", fields)
        target = workspace.resolve(given.string("file_path"))
        old, new = given.any_string("old_string"), given.any_string("new_string")
        if old == new:
            raise ToolError("`old_string` and `new_string` are identical; nothing to change.")
        now = _require_read(workspace, target)
        if now.version is None and old:
            raise ToolError(f"File not found: {target.name}. Create it with Write.")
        text = _decoded(now.data, target)
        edited = _replaced(text, old, new, target, is_every=given.boolean("replace_all", False))
        return _change(workspace, permissions, "Edit", target, now, _encoded(edited, target))

    return Tool(EDIT, run)


# ── current and new content ──────────────────────────────────────────────────────────────────────


def _require_read(workspace: Workspace, target: ResolvedPath) -> _CurrentFile:
    """The current file, which must be the version that the model has seen."""
    now = _read_current(target)
    if now.version is None:
        return now
    seen = workspace.seen_version(target)
    if seen is None:
        raise ToolError(
            f"{target.name} has not been read in this conversation, or not since its last compaction. "
            "Read it first."
        )
    if seen != now.version:
        raise ToolError(f"{target.name} has changed since it was read. Read it again.")
    return now


def _read_current(target: ResolvedPath) -> _CurrentFile:
    if not os.path.lexists(target.real):
        return _CurrentFile()
    with open_regular_file(target) as (fd, found):
        data = read_all(fd, found, target)
    return _CurrentFile(data, found, make_version(found, data))


def _decoded(data: bytes, target: ResolvedPath) -> str:
    if b"\0" in data:
        raise ToolError(f"{target.name} is a binary file; Edit only changes text.")
    return data.decode("utf-8", "surrogateescape")


def _encoded(text: str, target: ResolvedPath) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as problem:
        bad = ascii(text[problem.start])
        raise ToolError(f"The text for {target.name} contains {bad}, a lone surrogate. Remove it.") from None


def _replaced(text: str, old: str, new: str, target: ResolvedPath, *, is_every: bool) -> str:
    if not old:
        if text:
            raise ToolError(f"`old_string` is empty, but {target.name} is not. Give the text to replace.")
        return new
    if old not in text and "\r\n" in text:
        old, new = _with_returns(old), _with_returns(new)
    count = text.count(old)
    if count == 0:
        raise ToolError(f"`old_string` was not found in {target.name}. {_hint(text, old)}")
    if count > 1 and not is_every:
        lines = _lines_of(text, old)
        raise ToolError(
            f"`old_string` occurs {count} times in {target.name} (lines {lines}). "
            "Include more of the surrounding text, or set `replace_all`."
        )
    return text.replace(old, new)


def _with_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _hint(text: str, old: str) -> str:
    if _NUMBERED.search(old) and _NUMBERED.sub("", old) in text:
        return "It matches without the line numbers: leave them out."
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()
    near = next((number for number, line in enumerate(lines, 1) if first and line.strip() == first), 0)
    if near:
        return (
            f"Line {near} equals its first line, but whitespace or the following lines differ. Read it again."
        )
    return "Read the file again and copy the text exactly."


def _lines_of(text: str, old: str) -> str:
    numbers: list[str] = []
    at = text.find(old)
    while at >= 0 and len(numbers) < _MAX_LINES_NAMED:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return ", ".join(numbers) + (", …" if at >= 0 else "")


# ── permission and writing ────────────────────────────────────────────────────────────────────────


def _change(
    workspace: Workspace,
    permissions: Permissions,
    tool: str,
    target: ResolvedPath,
    now: _CurrentFile,
    new: bytes,
) -> str:
    if now.version is not None and now.data == new:
        return f"{target.name} already has exactly this content; nothing was changed."
    change = diff_texts(target.name, _readable(now.data), _readable(new))
    permissions.require(_permission_request(tool, target, change))
    if _read_current(target).version != now.version:
        raise ToolError(
            f"{target.name} changed while the user was asked; nothing was written. Read it again."
        )
    found = write_atomically(target, new, now.found)
    workspace.record_version(target, make_version(found, new))
    return f"{target.name} was {'written' if now.version is None else 'changed'} ({change.counts})."


def _readable(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _permission_request(tool: str, target: ResolvedPath, change: FileDiff) -> PermissionRequest:
    """A guarded edit is asked about in the mode `accept edits` too, and "always" covers this file only."""
    is_plain = target.is_inside and not (target.is_secret or target.runs_code)
    kind: ActionKind = "edit" if is_plain else "guarded edit"
    why = ", programs run or obey it by themselves" if target.runs_code else ""
    what = f"write {to_one_line(target.name)} ({change.counts}{why})"
    key = f"writing in {target.folder}" if is_plain else f"writing {target.name}"
    return PermissionRequest(tool, what, visible(change.text), key, kind)
