"""Small PNG images: a bar chart in black and white.

The pixels are stored, not compressed, because compressors differ between machines and the same seed must give
the same bytes everywhere.
"""

import base64 as base64_codec
import struct
import zlib
from dataclasses import dataclass
from random import Random
from typing import Any

BARS = 7
WIDTH, HEIGHT = BARS * 32, 168  # a bar is four bytes wide
STORED_LIMIT = 0xFFFF  # bytes in one stored block (RFC 1951, 3.2.4)


@dataclass(frozen=True, slots=True)
class Picture:
    width: int
    height: int
    size: int
    base64: str

    def block(self) -> dict[str, Any]:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": self.base64}}


def picture(rng: Random) -> Picture:
    data = _png(_bars(rng))
    return Picture(WIDTH, HEIGHT, len(data), base64_codec.b64encode(data).decode())


def _bars(rng: Random) -> bytes:
    """One bit per pixel; every row starts with filter byte 0. Each bar has a height of its own."""
    heights = [rng.randint(HEIGHT // 8, HEIGHT - 8) for _ in range(BARS)]
    wide = WIDTH // 8 // BARS
    rows: list[bytes] = []
    for y in range(HEIGHT):
        bars = [(b"\x00" if HEIGHT - y <= height else b"\xff") * (wide - 1) + b"\xff" for height in heights]
        rows.append(b"\x00" + b"".join(bars))
    return b"".join(rows)


def _png(pixels: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 1, 0, 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", _stored(pixels)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _stored(data: bytes) -> bytes:
    assert len(data) <= STORED_LIMIT, (
        f"{len(data)} bytes do not fit one stored block; make the picture smaller"
    )
    block = b"\x01" + struct.pack("<HH", len(data), len(data) ^ STORED_LIMIT) + data
    return b"\x78\x01" + block + struct.pack(">I", zlib.adler32(data))
