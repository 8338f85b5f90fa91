"""Images and sizes that made every later request fail."""

import base64
import struct
import zlib

from incidents.scene import Scene, blocks_of, goes_on
from small_session import SmallSession, call, text

from everturn.decide.compact.values import Compaction


def png(width: int, height: int) -> str:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff" * 3 * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return base64.b64encode(data).decode()


def image(width: int = 8, height: int = 8) -> dict:
    source = {"type": "base64", "media_type": "image/png", "data": png(width, height)}
    return {"type": "image", "source": source}


def test_forty_screenshots_filled_a_session(scene: Scene):
    """After forty screenshots every request was refused, the compaction too (cc#34025, codex#38835)."""
    session = SmallSession(model="claude-haiku-4-5").human("Look at the page.")
    for number in range(40):
        session.reply(f"m{number}", call(f"c{number}", "Screenshot"), plain=2_000 * number)
        session._add(
            "user",
            message={
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": [image(64, 64)]}],
            },
        )
    goes_on(scene.left(session))
    with scene.open() as opened:
        scene.twin.script(
            "<summary>1. Forty screenshots of the page were taken; it looks as it should.</summary>"
        )
        assert isinstance(opened.compact(), Compaction)
    goes_on(scene, "How does it look?")
    assert blocks_of(scene.messages, "image") == []


def test_an_image_was_the_whole_message(scene: Scene):
    """A message of one picture and no word could not be summarized (cc#29551, cc#34120)."""
    session = SmallSession(model="claude-haiku-4-5")
    session._add("user", message={"role": "user", "content": [image()]})
    session.reply("m1", text("A white square. " * 200), plain=500)
    with scene.left(session).open() as opened:
        scene.twin.script("<summary>1. A picture was shown; it is a white square and nothing else.</summary>")
        assert isinstance(opened.compact(), Compaction)
    goes_on(scene)
    assert blocks_of(scene.messages, "image") == []


def test_an_orphan_result_held_a_picture(scene: Scene):
    """The call of a screenshot was lost; what stayed was a result with a picture (cc#16173)."""
    session = SmallSession(model="claude-haiku-4-5").human("Look.").reply("m1", text("I look."), plain=100)
    result = {"type": "tool_result", "tool_use_id": "gone", "content": [image()]}
    session._add("user", message={"role": "user", "content": [result]})
    goes_on(scene.left(session))
    assert len(blocks_of(scene.messages, "image")) == 1
    assert blocks_of(scene.messages, "tool_result") == []
