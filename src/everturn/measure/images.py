"""What an image costs: by its size if the header tells it, a flat price otherwise (TOK-2).

The provider cuts an image into square patches after shrinking it to the limits of its tier; one patch is one
token. The size is in the first bytes of the file, so only those are decoded. `tokens.py` knows where images
are in a message.
"""

import binascii
import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from everturn.measure.model import Model

# An image whose size is unknown, and a document whose text is not in the block, such as a PDF (TOK-2).
FLAT: Final = 2_000

_PATCH: Final = 28
# Enough for every header except JPEG's, whose size comes after the metadata.
_HEADER_BYTES: Final = 48
# EXIF with its thumbnail fits in one 64 KiB segment; colour profiles and edits may take a few more.
_JPEG_BYTES: Final = 256 * 1024


class ImageTier(msgspec.Struct, frozen=True):
    """The limits to which images are shrunk: the long edge in pixels, and tokens (api-facts 4)."""

    long_edge: int
    tokens: int


STANDARD: Final = ImageTier(1568, 1568)
SHARP: Final = ImageTier(2576, 4784)
# Charges the flat price for every image, whatever its header says: TOK-2 to the letter.
UNSEEN: Final = ImageTier(0, 0)


def tier_of(model: Model) -> ImageTier:
    return SHARP if model.sharp_images else STANDARD


class _Source(msgspec.Struct):
    """A source that points elsewhere (url, file) has no data, and so no known size."""

    data: msgspec.Raw = msgspec.Raw(b'""')


class _Image(msgspec.Struct):
    source: _Source | None = None


_read_image = msgspec.json.Decoder(_Image).decode


def image_tokens(raw: bytes | msgspec.Raw, tier: ImageTier = STANDARD) -> int:
    """Tokens of an image block, from the bytes of its JSON object."""
    if tier == UNSEEN:
        return FLAT
    try:
        source = _read_image(raw).source
    except msgspec.DecodeError:
        return FLAT
    size = size_of(source.data) if source else None
    return tokens_of_size(*size, tier) if size else FLAT


def tokens_of_size(width: int, height: int, tier: ImageTier = STANDARD) -> int:
    """The number of patches after shrinking. The provider's exact rounding is not published; the published
    examples agree with this.
    """
    long, short = max(width, height), min(width, height)
    low, high = 1, min(long, tier.long_edge)
    while low < high:
        middle = (low + high + 1) // 2
        if _patches(middle, long, short) <= tier.tokens:
            low = middle
        else:
            high = middle - 1
    return min(_patches(low, long, short), tier.tokens)


def _patches(edge: int, long: int, short: int) -> int:
    other = max(1, round(short * edge / long))
    return -(-edge // _PATCH) * -(-other // _PATCH)


def size_of(data: msgspec.Raw) -> tuple[int, int] | None:
    """Width and height from a quoted base64 string; None if the format or the size is unknown."""
    head = _first_bytes(data, _HEADER_BYTES)
    if head.startswith(b"\xff\xd8"):
        size = _jpeg(_first_bytes(data, _JPEG_BYTES))
    else:
        size = _png(head) or _gif(head) or _webp(head)
    return size if size and min(size) > 0 else None


def _first_bytes(data: msgspec.Raw, count: int) -> bytes:
    quoted = bytes(memoryview(data)[: count * 4 // 3 + 8])
    text = quoted.strip(b'"').replace(b"\\/", b"/")
    try:
        return binascii.a2b_base64(text[: len(text) // 4 * 4])[:count]
    except binascii.Error:
        return b""


def _png(head: bytes) -> tuple[int, int] | None:
    if len(head) < 24 or not head.startswith(b"\x89PNG\r\n\x1a\n") or head[12:16] != b"IHDR":
        return None
    return struct.unpack_from(">II", head, 16)


def _gif(head: bytes) -> tuple[int, int] | None:
    if len(head) < 10 or head[:6] not in (b"GIF87a", b"GIF89a"):
        return None
    return struct.unpack_from("<HH", head, 6)


def _webp(head: bytes) -> tuple[int, int] | None:
    if len(head) < 30 or head[:4] != b"RIFF" or head[8:12] != b"WEBP":
        return None
    form = head[12:16]
    if form == b"VP8X":
        return _little(head[24:27]) + 1, _little(head[27:30]) + 1
    if form == b"VP8L":
        bits = _little(head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 ":
        return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
    return None


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _jpeg(data: bytes) -> tuple[int, int] | None:
    for marker, at in _jpeg_segments(data):
        # Start of frame: C0 to CF, except C4 (Huffman tables), C8 (reserved) and CC (arithmetic coding).
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC) and at + 7 <= len(data):
            height, width = struct.unpack_from(">HH", data, at + 3)
            return width, height
    return None


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Each marker and the position of its length field, up to the image data or the first invalid marker."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in (0xD9, 0xDA):
            return
        yield marker, at + 2
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
