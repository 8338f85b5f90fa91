"""The price of an image, from the first bytes of its file."""

import base64
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.history.blocks import block_from_fields
from everturn.measure.images import (
    FLAT,
    SHARP,
    STANDARD,
    UNSEEN,
    ImageTier,
    image_tokens,
    size_of,
    tier_of,
    tokens_of_size,
)
from everturn.measure.model_table import find_model
from everturn.measure.rendering import images_in

REST = b"\x00" * 4000


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + REST


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + REST


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def jpeg(width: int, height: int, *, before: bytes = b"", frame: int = 0xC2) -> bytes:
    start = segment(frame, b"\x08" + struct.pack(">HH", height, width) + b"\x03" + b"\x00" * 9)
    return b"\xff\xd8" + segment(0xE0, b"JFIF\x00" + b"\x00" * 9) + before + start + b"\xff\xda" + REST


def webp(form: bytes, head: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + form + b"\x00\x00\x00\x00" + head + REST


def webp_extended(width: int, height: int) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return webp(b"VP8X", b"\x00" * 4 + sides)


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little"))


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height))


def block(data: bytes | str, kind: str = "base64") -> bytes:
    text = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    source = {"type": kind, "media_type": "image/png", "data": text}
    return block_from_fields({"type": "image", "source": source}).raw


def quoted(data: bytes) -> msgspec.Raw:
    return msgspec.Raw(b'"' + base64.b64encode(data) + b'"')


# The provider's own examples (api-facts 4).
@pytest.mark.parametrize(
    ("size", "tier", "tokens"),
    [
        ((1000, 1000), STANDARD, 1296),
        ((1920, 1080), STANDARD, 1560),
        ((1920, 1080), SHARP, 2691),
        ((3840, 2160), SHARP, 4784),
        ((1, 1), STANDARD, 1),
    ],
)
def test_the_known_examples_come_out_exactly(size: tuple[int, int], tier: ImageTier, tokens: int):
    assert tokens_of_size(*size, tier) == tokens


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.sampled_from([STANDARD, SHARP]))
def test_a_price_is_positive_within_the_tier_and_the_same_for_a_turned_image(w: int, h: int, tier: ImageTier):
    tokens = tokens_of_size(w, h, tier)
    assert 1 <= tokens <= tier.tokens
    assert tokens == tokens_of_size(h, w, tier)
    if max(w, h) <= tier.long_edge and -(-w // 28) * -(-h // 28) <= tier.tokens:
        assert tokens == -(-w // 28) * -(-h // 28)


@pytest.mark.parametrize("form", [png, gif, jpeg, webp_extended, webp_lossless, webp_lossy])
def test_every_format_tells_its_size(form):
    assert image_tokens(block(form(560, 280))) == 20 * 10


@pytest.mark.parametrize("form", [png, gif, jpeg, webp_extended, webp_lossless, webp_lossy])
@given(cut=st.integers(0, 40))
def test_a_file_cut_short_costs_its_price_or_the_flat_one(form, cut: int):
    assert image_tokens(block(form(560, 280)[:cut])) in (200, FLAT)


def test_the_size_of_a_photo_is_found_behind_its_metadata():
    exif = segment(0xE1, b"Exif\x00\x00" + b"\xff\xc0" * 30_000)
    tables = segment(0xC4, b"\x00" * 20)
    assert image_tokens(block(jpeg(560, 280, before=exif + b"\xff" + tables))) == 200


def test_a_photo_with_endless_metadata_is_not_searched_to_the_end():
    exif = segment(0xE1, b"\x00" * 65_000)
    assert image_tokens(block(jpeg(560, 280, before=exif * 5))) == FLAT


def test_a_photo_whose_picture_begins_before_any_size_is_unknown():
    thumbnail = jpeg(560, 280).removeprefix(b"\xff\xd8")
    assert image_tokens(block(b"\xff\xd8" + segment(0xDA, b"") + thumbnail)) == FLAT


@pytest.mark.spec("TOK-2")
@pytest.mark.parametrize(
    "raw",
    [
        block(b"BM" + REST),
        block(png(0, 100)),
        block("not base64 at all!"),
        block("A"),
        block("", kind="base64"),
        block("https://example.org/a.png", kind="url"),
        b'{"type":"image"}',
        b'{"type":"image","source":"gone"}',
        b'{"type":"image","source":{"type":"base64","data":7}}',
    ],
)
def test_an_image_of_unknown_size_costs_the_flat_price(raw: bytes):
    assert image_tokens(raw) == 2_000


@pytest.mark.spec("TOK-2")
def test_the_flat_price_can_be_asked_for_whatever_the_header_says():
    assert image_tokens(block(png(560, 280)), UNSEEN) == 2_000


def test_escaped_slashes_in_the_data_are_read():
    raw = block(gif(560, 280).rstrip(b"\x00") + b"\xff" * 90)
    assert b"/" in raw
    assert image_tokens(raw.replace(b"/", b"\\/")) == image_tokens(raw) == 200


def test_the_tier_follows_the_model():
    sharp, standard = find_model("claude-opus-4-7"), find_model("claude-opus-4-6")
    assert sharp is not None
    assert standard is not None
    assert (tier_of(sharp), tier_of(standard)) == (SHARP, STANDARD)


@given(
    st.integers(1, 9_000),
    st.integers(1, 9_000),
    st.builds(ImageTier, st.integers(28, 900), st.integers(1, 60)),
)
def test_an_image_is_shrunk_no_further_than_its_limits_demand(width: int, height: int, tier: ImageTier):
    """The largest edge within the limits, found by trying all of them."""

    def patches(edge: int) -> int:
        long, short = max(width, height), min(width, height)
        other = max(1, round(short * edge / long))
        return -(-edge // 28) * -(-other // 28)

    edges = range(1, min(max(width, height), tier.long_edge) + 1)
    fitting = [edge for edge in edges if patches(edge) <= tier.tokens] or [1]
    assert tokens_of_size(width, height, tier) == min(patches(fitting[-1]), tier.tokens)


@pytest.mark.parametrize(
    ("form", "size"),
    [
        (png, (70_000, 66_001)),
        (gif, (65_535, 258)),
        (jpeg, (65_535, 258)),
        (webp_extended, (70_001, 258)),
        (webp_extended, (1, 16_777_216)),
        (webp_lossless, (16_384, 259)),
        (webp_lossless, (3, 16_384)),
        (webp_lossy, (16_383, 258)),
    ],
)
def test_both_sides_are_read_with_all_their_bytes(form, size: tuple[int, int]):
    assert size_of(quoted(form(*size))) == size


@pytest.mark.parametrize(
    ("form", "length"), [(png, 24), (gif, 10), (webp_extended, 30), (webp_lossless, 30), (webp_lossy, 30)]
)
def test_a_header_is_read_when_its_last_byte_is_there(form, length: int):
    assert size_of(quoted(form(560, 280)[:length])) == (560, 280)
    assert size_of(quoted(form(560, 280)[: length - 1])) is None


def test_a_frame_of_a_photo_is_read_when_both_sides_are_there():
    whole = b"\xff\xd8" + segment(0xC0, b"\x08" + struct.pack(">HH", 280, 560))
    assert size_of(quoted(whole)) == (560, 280)
    assert size_of(quoted(whole[:-1])) is None


@pytest.mark.parametrize("marker", range(0xC0, 0xD0))
def test_frames_of_a_photo_are_told_from_its_tables(marker: int):
    assert size_of(quoted(jpeg(560, 280, frame=marker))) == (
        None if marker in (0xC4, 0xC8, 0xCC) else (560, 280)
    )


def test_scaling_of_a_lossy_image_and_unknown_forms_are_not_taken_for_a_size():
    scaled = webp(b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 560 | 0x4000, 280 | 0x8000))
    assert size_of(quoted(scaled)) == (560, 280)
    assert size_of(quoted(webp(b"VP9 ", b"\x01" * 40))) is None
    assert size_of(quoted(b"RIFX" + webp_lossy(560, 280)[4:])) is None
    assert size_of(quoted(b"GIF88a" + gif(560, 280)[6:])) is None
    assert size_of(quoted(png(560, 280).replace(b"IHDR", b"IDAT"))) is None


@pytest.mark.parametrize("size", [(0, 1), (1, 0)])
def test_an_image_without_a_side_has_no_size(size: tuple[int, int]):
    assert size_of(quoted(png(*size))) is None


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"type": "image"}, 1),
        ({"type": "text", "text": '"image"'}, 0),
        ({"type": "tool_result", "tool_use_id": "c", "content": 'It is an "image".'}, 0),
        ({"type": "tool_result", "tool_use_id": "image", "content": "a text"}, 0),
        ({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image"}, {"type": "image"}]}, 2),
        ({"type": "tool_result", "tool_use_id": "image", "content": 7}, 0),
    ],
)
def test_images_count_in_a_message_and_directly_in_a_result(fields: dict[str, object], count: int):
    assert images_in(block_from_fields(fields)) == count


def test_bytes_that_fill_up_before_a_frame_of_a_photo_are_passed_over():
    frame = segment(0xC0, b"\x08" + struct.pack(">HH", 280, 560))
    assert size_of(quoted(b"\xff\xd8" + b"\xff" * 3 + frame)) == (560, 280)


@pytest.mark.parametrize(
    ("size", "tier", "tokens"),
    [
        ((3_136, 28), STANDARD, 56),
        ((1_568, 28), STANDARD, 56),
        ((5_152, 28), SHARP, 92),
        ((2_576, 28), SHARP, 92),
    ],
)
def test_a_long_image_is_shrunk_to_the_long_edge_of_its_tier(size, tier, tokens):
    assert tokens_of_size(*size, tier) == tokens


@pytest.mark.parametrize("version", [b"GIF87a", b"GIF89a"])
def test_both_versions_of_a_gif_tell_their_size(version: bytes):
    assert size_of(quoted(version + gif(560, 280)[6:])) == (560, 280)
