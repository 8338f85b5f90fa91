"""Effects of blocks on the prompt beyond their own content (api-facts 1.1, 1.6).

Deferred tools are left out of the prefix and web tools come last in it; an image anywhere, or citations for a
document, change what is rendered before them. `outline.py` includes this in its keys.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from everturn.history.blocks import Block

_WEB: Final = ("web_search_", "web_fetch_")


class _Tool(msgspec.Struct):
    type: Any = None
    defer_loading: Any = None


class _Typed(msgspec.Struct):
    type: str = ""


class _Result(msgspec.Struct):
    content: str | list[_Typed] | None = None


class _Citations(msgspec.Struct):
    enabled: bool = False


class _Document(msgspec.Struct):
    citations: _Citations | None = None


_read_tool = msgspec.json.Decoder(_Tool).decode
_read_result = msgspec.json.Decoder(_Result).decode
_read_document = msgspec.json.Decoder(_Document).decode


def tools_in_prefix(tools: Sequence[Block]) -> tuple[list[int], list[int]]:
    """Indexes of the tools that are rendered, and separately of the web tools, which come with the system
    prompt.
    """
    plain: list[int] = []
    web: list[int] = []
    for at, block in enumerate(tools):
        tool = _read_tool(block.raw)
        if tool.defer_loading is not True:
            (web if str(tool.type).startswith(_WEB) else plain).append(at)
    return plain, web


def images_in(block: Block) -> int:
    """The images that count: those of a message itself, and those directly inside a result."""
    if not block.is_result:
        return int(block.kind == "image")
    if b'"image"' not in block.raw:
        return 0
    try:
        content = _read_result(block.raw).content
    except msgspec.DecodeError:
        # Content that the API would refuse.
        return 0
    return sum(part.type == "image" for part in content) if isinstance(content, list) else 0


def cites(block: Block) -> bool:
    """Whether a document requests citations, which changes the hidden system prompt."""
    if block.kind != "document" or b'"citations"' not in block.raw:
        return False
    try:
        citations = _read_document(block.raw).citations
    except msgspec.DecodeError:
        return False
    return citations is not None and citations.enabled
