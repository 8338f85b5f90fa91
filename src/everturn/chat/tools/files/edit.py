"""Write and Edit: a file is changed only in the version that was read, and only after somebody agreed.

Agreeing may take a while, so the version is looked at again before the file is replaced (`atomic_write.py`).
Bytes that are no UTF-8 survive an edit of the lines around them, and so do Windows line ends.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from everturn.chat.permission import ActionKind, PermissionRequest, Permissions, escape_hidden, to_one_line
from everturn.chat.tools import schema
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
from everturn.chat.tools.inputs import ToolError, ToolInput
from everturn.session.tools import Tool

_PATH: Final = schema.string_field("The file, absolute or from the workspace's folder")
WRITE: Final = schema.tool_definition(
    "Write",
    """Write a whole file, making it and its folders where there are none. A file that exists must have been
    read first. Prefer Edit for changes.""",
    {"file_path": _PATH, "content": schema.string_field("All of the file")},
    "file_path",
    "content",
)
EDIT: Final = schema.tool_definition(
    "Edit",
    """Replace text in a file that was read. `old_string` must be in it exactly once, to the last space and
    without the line numbers that Read shows; with `replace_all`, every occurrence is replaced.""",
    {
        "file_path": _PATH,
        "old_string": schema.string_field("The text to replace"),
        "new_string": schema.string_field("What stands there instead"),
        "replace_all": schema.boolean_field("Replace every occurrence"),
    },
    "file_path",
    "old_string",
    "new_string",
)
# How Read numbers lines; models copy it into what they want replaced.
_NUMBERED: Final = re.compile(r"^ *\d+\t", re.MULTILINE)
_MAX_LINES_NAMED: Final = 5


class _CurrentFile(msgspec.Struct, frozen=True):
    """A file as it is; one that is not there has no version."""

    data: bytes = b""
    found: os.stat_result | None = None
    version: FileVersion | None = None


def write_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Write", fields)
        place = workspace.place(given.words("file_path"))
        new = _encoded(given.text("content"), place)
        return _change(workspace, permissions, "Write", place, _require_read(workspace, place), new)

    return Tool(WRITE, run)


def edit_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Edit", fields)
        place = workspace.place(given.words("file_path"))
        old, new = given.text("old_string"), given.text("new_string")
        if old == new:
            raise ToolError("`old_string` and `new_string` are the same; there is nothing to change.")
        now = _require_read(workspace, place)
        if now.version is None and old:
            raise ToolError(f"There is no file {place.name}. Make it with Write.")
        text = _decoded(now.data, place)
        edited = _replaced(text, old, new, place, is_every=given.flag("replace_all", False))
        return _change(workspace, permissions, "Edit", place, now, _encoded(edited, place))

    return Tool(EDIT, run)


# ── what is there, and what it becomes ───────────────────────────────────────────────────────────


def _require_read(workspace: Workspace, place: ResolvedPath) -> _CurrentFile:
    """The file as it is, which must be as the model saw it."""
    now = _read_current(place)
    if now.version is None:
        return now
    seen = workspace.seen(place)
    if seen is None:
        raise ToolError(f"{place.name} has not been read in this session. Read it first.")
    if seen != now.version:
        raise ToolError(f"{place.name} has changed since it was read. Read it again.")
    return now


def _read_current(place: ResolvedPath) -> _CurrentFile:
    if not os.path.lexists(place.real):
        return _CurrentFile()
    with open_regular_file(place) as (fd, found):
        data = read_all(fd, found, place)
    return _CurrentFile(data, found, make_version(found, data))


def _decoded(data: bytes, place: ResolvedPath) -> str:
    if b"\0" in data:
        raise ToolError(f"{place.name} is binary; Edit changes text only.")
    return data.decode("utf-8", "surrogateescape")


def _encoded(text: str, place: ResolvedPath) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as problem:
        bad = ascii(text[problem.start])
        raise ToolError(
            f"The text for {place.name} holds {bad}, half of a character. Leave it out."
        ) from None


def _replaced(text: str, old: str, new: str, place: ResolvedPath, *, is_every: bool) -> str:
    if not old:
        if text:
            raise ToolError(f"`old_string` is empty, and {place.name} is not. Give the text to replace.")
        return new
    if old not in text and "\r\n" in text:
        old, new = _with_returns(old), _with_returns(new)
    count = text.count(old)
    if count == 0:
        raise ToolError(f"`old_string` is not in {place.name}. {_hint(text, old)}")
    if count > 1 and not is_every:
        lines = _lines_of(text, old)
        raise ToolError(
            f"`old_string` is in {place.name} {count} times (lines {lines}). "
            "Give more of the text around it, or set `replace_all`."
        )
    return text.replace(old, new)


def _with_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _hint(text: str, old: str) -> str:
    if _NUMBERED.search(old) and _NUMBERED.sub("", old) in text:
        return "Without the line numbers in front it is: leave them out."
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()
    near = next((number for number, line in enumerate(lines, 1) if first and line.strip() == first), 0)
    if near:
        return f"Line {near} is like its first line, but spaces or the lines after it differ. Read it again."
    return "Read the file again and copy the text exactly."


def _lines_of(text: str, old: str) -> str:
    numbers: list[str] = []
    at = text.find(old)
    while at >= 0 and len(numbers) < _MAX_LINES_NAMED:
        numbers.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return ", ".join(numbers) + (", …" if at >= 0 else "")


# ── asking, and doing it ─────────────────────────────────────────────────────────────────────────


def _change(
    workspace: Workspace,
    permissions: Permissions,
    tool: str,
    place: ResolvedPath,
    now: _CurrentFile,
    new: bytes,
) -> str:
    if now.version is not None and now.data == new:
        return f"{place.name} already is exactly like this; nothing was changed."
    change = diff_texts(place.name, _readable(now.data), _readable(new))
    permissions.require(_permission_request(tool, place, change))
    if _read_current(place).version != now.version:
        raise ToolError(f"{place.name} changed while the user was asked; nothing was written. Read it again.")
    found = write_atomically(place, new, now.found)
    workspace.saw(place, make_version(found, new))
    return f"{place.name} was {'written' if now.version is None else 'changed'} ({change.counts})."


def _readable(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _permission_request(tool: str, place: ResolvedPath, change: FileDiff) -> PermissionRequest:
    is_plain = place.is_inside and not (place.is_secret or place.is_in_git_folder)
    kind: ActionKind = "edit" if is_plain else "guarded edit"
    what = f"write {to_one_line(place.name)} ({change.counts})"
    return PermissionRequest(
        tool, what, escape_hidden(change.text), f"writing in {escape_hidden(place.folder)}", kind
    )
