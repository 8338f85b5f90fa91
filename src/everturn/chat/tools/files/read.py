"""Read: lines of a file with their numbers, or an image, up to a fixed size.

If the output is cut, it says so and names the offset to continue from. The version of each file that was read
is recorded: `edit.py` refuses to overwrite any other version. A second read of an unchanged file whose
content the model still sees returns a short note instead of the content (MC-18).
"""

import base64
import io
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

import msgspec

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.workspace import (
    Excerpt,
    ResolvedPath,
    Workspace,
    make_version,
    open_regular_file,
    require_read_permission,
)
from everturn.chat.tools.inputs import (
    ToolError,
    ToolInput,
    integer_field,
    string_field,
    tool_definition,
)
from everturn.measure.tokens import rough
from everturn.safe_files import stream_of
from everturn.session.files import MAX_FILE_BYTES, SNIFF_BYTES
from everturn.session.tools import Tool, ToolContent
from everturn.view.fragments.unchanged import unchanged_file

# The same limits as Claude Code's Read tool.
MAX_LINES: Final = 2_000
MAX_TOKENS: Final = 25_000
MAX_LINE_CHARACTERS: Final = 2_000
# api-facts 4: the API rejects larger images.
MAX_IMAGE_BYTES: Final = 10 * 1024 * 1024
_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff")

DEFINITION: Final = tool_definition(
    "Read",
    f"""Read a file. Returns up to {MAX_LINES:,} lines with line numbers; `offset` and `limit` select others.
    Images (PNG, JPEG, GIF, WebP) are returned as images. Read a file before you change it.""",
    {
        "file_path": string_field("Path of the file, absolute or relative to the workspace"),
        "offset": integer_field("First line to return, counted from 1", least=1),
        "limit": integer_field("Number of lines to return", least=1),
    },
    "file_path",
)


class FileExcerpt(msgspec.Struct, frozen=True):
    """Numbered lines, the number of the last one, and why it stopped; "" at the end of the file."""

    lines: tuple[str, ...]
    last: int
    stop_reason: str = ""


# Whether the model still sees this content as the result of a Read call for this path.
IsVisible = Callable[[ResolvedPath, str], bool]


def never_visible(target: ResolvedPath, content: str) -> bool:
    """For agents that cannot ask: the content is always sent."""
    return False


def read_tool(workspace: Workspace, permissions: Permissions, is_visible: IsVisible = never_visible) -> Tool:
    def run(fields: Mapping[str, Any]) -> ToolContent:
        given = ToolInput("Read", fields)
        target = workspace.resolve(given.string("file_path"))
        first = given.integer("offset", 1) or 1
        count = given.integer("limit", MAX_LINES, least=1, most=MAX_LINES)
        require_read_permission(target, permissions)
        excerpt = Excerpt(target.real, first, count)
        content = _read(workspace, target, first, count)
        if workspace.was_shown(excerpt) and _is_repeated(content, target, is_visible):
            return unchanged_file(target.name)
        workspace.record_shown(excerpt)
        return content

    return Tool(DEFINITION, run)


def _is_repeated(content: ToolContent, target: ResolvedPath, is_visible: IsVisible) -> bool:
    """Whether the note is shorter than the content, and the model sees the same content already."""
    if not isinstance(content, str) or len(content) <= len(unchanged_file(target.name)):
        return False
    return is_visible(target, content)


def _read(workspace: Workspace, target: ResolvedPath, first: int, count: int) -> ToolContent:
    with open_regular_file(target) as (fd, found), stream_of(fd) as file:
        if found.st_size > MAX_FILE_BYTES:
            beginning = file.read(SNIFF_BYTES)
            file.seek(0)
            return _text(file, beginning, target, first, count)
        data = file.read(MAX_FILE_BYTES + 1)
        workspace.record_version(target, make_version(found, data))
    if kind := image_media_type(data):
        return [_picture(data, kind, target)]
    if data.startswith(_WIDE):
        data = data.decode("utf-16", "replace").encode()
    return _text(io.BytesIO(data), data[:SNIFF_BYTES], target, first, count)


def image_media_type(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _PICTURES if data.startswith(magic)), "")


def _picture(data: bytes, kind: str, target: ResolvedPath) -> dict[str, Any]:
    if len(data) > MAX_IMAGE_BYTES:
        most = MAX_IMAGE_BYTES >> 20
        raise ToolError(
            f"{target.name} is an image of {len(data) >> 20} MB; the maximum is {most} MB. Make it smaller."
        )
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def _text(file: BinaryIO, beginning: bytes, target: ResolvedPath, first: int, count: int) -> str:
    if b"\0" in beginning:
        raise ToolError(f"{target.name} is a binary file. {_advice(target)}")
    part = read_numbered_lines(file, first, count)
    if not part.lines:
        return _nothing(target, part, first)
    said = "\n".join(part.lines)
    if part.stop_reason:
        following = part.last + 1
        said += (
            f"\n\n[Cut after line {part.last}, {part.stop_reason}. Read with offset {following} for more.]"
        )
    return said


def _advice(target: ResolvedPath) -> str:
    ending = os.path.splitext(target.relative_path)[1].lower()
    program = {".pdf": "pdftotext", ".zip": "unzip -l", ".gz": "zcat", ".sqlite": "sqlite3"}.get(
        ending, "file"
    )
    return f"Inspect it with a command, such as `{program}`."


def _nothing(target: ResolvedPath, part: FileExcerpt, first: int) -> str:
    if part.last == 0:
        return f"[{target.name} is empty.]"
    raise ToolError(f"{target.name} has {part.last:,} lines; line {first:,} does not exist.")


def read_numbered_lines(file: BinaryIO, first: int, count: int) -> FileExcerpt:
    """Up to `count` lines from line `first` on, within MAX_TOKENS."""
    lines: list[str] = []
    number = tokens = 0
    while raw := _line(file):
        number += 1
        if number < first:
            continue
        if len(lines) == count:
            return FileExcerpt(tuple(lines), number - 1, "the line limit")
        lines.append(f"{number:>6}\t{_shown(raw)}")
        tokens += rough(lines[-1])
        if tokens > MAX_TOKENS and len(lines) > 1:
            return FileExcerpt(tuple(lines[:-1]), number - 1, f"the limit of {MAX_TOKENS:,} tokens")
    return FileExcerpt(tuple(lines), number)


def _line(file: BinaryIO) -> bytes:
    """The next line. A very long one is cut, with a note of how much is missing; memory use is bounded."""
    # A character has up to four bytes in UTF-8.
    raw = file.readline(MAX_LINE_CHARACTERS * 4)
    if raw.endswith(b"\n") or not raw:
        return raw
    rest = 0
    while more := file.readline(1 << 20):
        rest += len(more)
        if more.endswith(b"\n"):
            break
    return raw + (f" [… {rest:,} more bytes]".encode() if rest else b"")


def _shown(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r\n")
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    return (
        f"{text[:MAX_LINE_CHARACTERS]} [… {len(text) - MAX_LINE_CHARACTERS:,} more characters in this line]"
    )
