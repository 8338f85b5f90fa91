"""How many tokens an image costs: patches of 28 pixels after scaling down (api-facts 4).

The size is read from the first bytes of the file; where it cannot be, a middling size is assumed, because the
twin fetches nothing.
"""

import base64
import binascii
import math
import struct
from typing import Any, Final

PATCH: Final = 28
STANDARD: Final = (1568, 1568)
SHARP: Final = (2576, 4784)
ASSUMED: Final = (1000, 1000)
# Enough for the headers of all formats, and for the metadata that often precedes a JPEG's size.
_HEADER_CHARS: Final = 87_384


def image_tokens(source: Any, *, sharp: bool) -> int:
    """Tokens of an image block's `source`."""
    data = source.get("data") if isinstance(source, dict) else None
    width, height = (size_of(_head(data)) if isinstance(data, str) else None) or ASSUMED
    return patches(width, height, sharp=sharp)


def patches(width: int, height: int, *, sharp: bool) -> int:
    edge, cap = SHARP if sharp else STANDARD
    scale = min(1.0, edge / max(width, height, 1))
    tiles = math.ceil(width * scale / PATCH) * math.ceil(height * scale / PATCH)
    return min(cap, max(1, tiles))


def _head(data: str) -> bytes:
    part = data[:_HEADER_CHARS]
    try:
        return base64.b64decode(part[: len(part) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def size_of(head: bytes) -> tuple[int, int] | None:
    """Width and height, if the first bytes of a PNG, GIF, WebP or JPEG tell them."""
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        return struct.unpack(">II", head[16:24])
    if head.startswith(b"GIF8") and len(head) >= 10:
        return struct.unpack("<HH", head[6:10])
    if head[8:12] == b"WEBP" and head[12:16] == b"VP8X" and len(head) >= 30:
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return _jpeg_size(head) if head.startswith(b"\xff\xd8") else None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        # Start-of-frame segments carry the size; C4, C8 and CC are something else.
        if 0xC0 <= head[at + 1] <= 0xCF and head[at + 1] not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None
