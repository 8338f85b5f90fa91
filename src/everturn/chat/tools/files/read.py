"""Read: a part of a file with its line numbers, or a picture; never more than a context can bear.

What is cut is said, with the offset to go on from. A file that was read is remembered in the version that was
seen: `edit.py` refuses to overwrite any other.
"""

import base64
import io
import os
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import msgspec

from everturn.chat.permission import Permissions
from everturn.chat.tools import schema
from everturn.chat.tools.files.workspace import (
    ResolvedPath,
    Workspace,
    make_version,
    open_regular_file,
    require_read_permission,
)
from everturn.chat.tools.inputs import ToolError, ToolInput
from everturn.measure.tokens import rough
from everturn.session.files import MAX_FILE_BYTES, SNIFF_BYTES
from everturn.session.tools import Tool
from everturn.session.tools import ToolContent as Answer

# What fits into a context beside other files; people who come from Claude Code know these bounds.
MAX_LINES: Final = 2_000
MAX_TOKENS: Final = 25_000
MAX_LINE_CHARACTERS: Final = 2_000
# api-facts 4: the API refuses larger pictures.
MAX_IMAGE_BYTES: Final = 10 * 1024 * 1024
_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff")

DEFINITION: Final = schema.tool_definition(
    "Read",
    f"""Read a file of the workspace. Gives up to {MAX_LINES:,} lines with their numbers; `offset` and
    `limit` choose others. Pictures (PNG, JPEG, GIF, WebP) are shown. Read a file before changing it.""",
    {
        "file_path": schema.string_field("The file, absolute or from the workspace's folder"),
        "offset": schema.integer_field("The first line to give, counted from 1", least=1),
        "limit": schema.integer_field("How many lines to give", least=1),
    },
    "file_path",
)


class FileExcerpt(msgspec.Struct, frozen=True):
    """Numbered lines, the number of the last one, and what was reached: "" where the file ends."""

    lines: tuple[str, ...]
    last: int
    stopped: str = ""


def read_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> Answer:
        given = ToolInput("Read", fields)
        place = workspace.place(given.words("file_path"))
        first = given.number("offset", 1) or 1
        count = given.number("limit", MAX_LINES, least=1, most=MAX_LINES)
        require_read_permission(place, permissions)
        return _read(workspace, place, first, count)

    return Tool(DEFINITION, run)


def _read(workspace: Workspace, place: ResolvedPath, first: int, count: int) -> Answer:
    with open_regular_file(place) as (fd, found), open(fd, "rb", closefd=False) as file:
        if found.st_size > MAX_FILE_BYTES:
            beginning = file.read(SNIFF_BYTES)
            file.seek(0)
            return _text(file, beginning, place, first, count)
        data = file.read(MAX_FILE_BYTES + 1)
        workspace.saw(place, make_version(found, data))
    if kind := image_media_type(data):
        return [_picture(data, kind, place)]
    if data.startswith(_WIDE):
        data = data.decode("utf-16", "replace").encode()
    return _text(io.BytesIO(data), data[:SNIFF_BYTES], place, first, count)


def image_media_type(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _PICTURES if data.startswith(magic)), "")


def _picture(data: bytes, kind: str, place: ResolvedPath) -> dict[str, Any]:
    if len(data) > MAX_IMAGE_BYTES:
        most = MAX_IMAGE_BYTES >> 20
        raise ToolError(
            f"{place.name} is a picture of {len(data) >> 20} MB; the most is {most}. Make it smaller."
        )
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def _text(file: BinaryIO, beginning: bytes, place: ResolvedPath, first: int, count: int) -> str:
    if b"\0" in beginning:
        raise ToolError(f"{place.name} is binary, not text. {_advice(place)}")
    part = read_numbered_lines(file, first, count)
    if not part.lines:
        return _nothing(place, part, first)
    said = "\n".join(part.lines)
    if part.stopped:
        said += (
            f"\n\n[Cut after line {part.last}, {part.stopped}. Read with offset {part.last + 1} for more.]"
        )
    return said


def _advice(place: ResolvedPath) -> str:
    ending = os.path.splitext(place.way)[1].lower()
    program = {".pdf": "pdftotext", ".zip": "unzip -l", ".gz": "zcat", ".sqlite": "sqlite3"}.get(
        ending, "file"
    )
    return f"Look at it with a command, such as `{program}`."


def _nothing(place: ResolvedPath, part: FileExcerpt, first: int) -> str:
    if part.last == 0:
        return f"[{place.name} is empty.]"
    raise ToolError(f"{place.name} has {part.last:,} lines; there is no line {first:,}.")


def read_numbered_lines(file: BinaryIO, first: int, count: int) -> FileExcerpt:
    """Lines from a number on, up to so many, as far as the tokens reach."""
    lines: list[str] = []
    number = tokens = 0
    while raw := _line(file):
        number += 1
        if number < first:
            continue
        if len(lines) == count:
            return FileExcerpt(tuple(lines), number - 1, "the limit of lines")
        lines.append(f"{number:>6}\t{_shown(raw)}")
        tokens += rough(lines[-1])
        if tokens > MAX_TOKENS and len(lines) > 1:
            return FileExcerpt(tuple(lines[:-1]), number - 1, f"the limit of {MAX_TOKENS:,} tokens")
    return FileExcerpt(tuple(lines), number)


def _line(file: BinaryIO) -> bytes:
    """The next line; of a very long one its beginning and how much is missing. Never all of a large file."""
    # A character has up to four bytes.
    raw = file.readline(MAX_LINE_CHARACTERS * 4)
    if raw.endswith(b"\n") or not raw:
        return raw
    rest = 0
    while more := file.readline(1 << 20):
        rest += len(more)
        if more.endswith(b"\n"):
            break
    return raw + (f" [… {rest:,} bytes more]".encode() if rest else b"")


def _shown(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r\n")
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    return (
        f"{text[:MAX_LINE_CHARACTERS]} [… {len(text) - MAX_LINE_CHARACTERS:,} characters more in this line]"
    )
