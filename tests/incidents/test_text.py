"""Text that poisoned a history: half characters, blank blocks, bytes that are no text."""

import json

from incidents.scene import Scene, calls, file_of, goes_on, said, text, tool, worked
from small_session import SmallSession


def test_half_a_character_in_a_result_poisoned_every_later_request(scene: Scene):
    """A tool cut its output inside an emoji; the lone surrogate made every later request invalid JSON
    (cc#68325, cc#3277, cc#1762)."""
    session = worked("c1", answered=[]).result("c1", "cut here: \ud83d")
    before = scene.left(session).path.read_bytes()
    assert rb"\ud83d" in before
    goes_on(scene)
    scene.sent[-1].decode("utf-8")
    assert "cut here: \ufffd" in json.dumps(scene.messages, ensure_ascii=False)
    assert scene.path.read_bytes().startswith(before)


def test_a_tool_returned_half_a_character_in_a_live_session(scene: Scene):
    """The half character came from a tool of the running program, not from a file (cc#65607)."""
    scene.twin.script(calls("Read", file_path="a"), "Seen.", "Still fine.")
    with scene.open(tools=[tool("Read", lambda _: "half \udcff of it", "file_path")]) as session:
        assert session.send("Read it.").text == "Seen."
        assert session.send("And now?").text == "Still fine."
    assert goes_on(scene, tools=[tool("Read", None, "file_path")])


def test_a_blank_text_block_made_compacting_impossible(scene: Scene):
    """A reply held a text block of blanks only; the conversation and its compaction were both refused
    (cc#23047)."""
    session = SmallSession(model="claude-haiku-4-5").human("Hello.")
    session.reply("m1", text("  \n "), plain=100).human(" ").reply("m2", text("Yes?"), plain=100)
    goes_on(scene.left(said(session, "Well.")))
    with scene.open() as opened:
        scene.talk(opened)
        scene.twin.script(
            "<summary>1. Greetings were exchanged, then the login test was looked at.</summary>"
        )
        assert opened.compact().attempts[-1].problem == ""


def test_bytes_that_are_no_text_stood_in_the_file(scene: Scene):
    """A tool's output was written to the transcript with bytes that are no UTF-8, and the file was refused
    (ms-agent PR#1000)."""
    lines = worked("c1").lines
    spoiled = json.dumps(lines[2]).encode().replace(b"what c1 holds", b"caf\xe9 \xff") + b"\n"
    view = goes_on(scene.left(file_of(*lines[:2], spoiled, *lines[3:])))
    assert "caf" in view
    assert b"caf\xe9 \xff" in scene.path.read_bytes()


def test_a_result_was_nested_deeper_than_the_reader_could_go(scene: Scene):
    """JSON nested tens of thousands of levels deep ended the program with a recursion error
    (technocore-chat#130, influxdb3_plugins PR#169)."""
    deep = b'{"type":"user","uuid":"deep","x":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"
    lines = said(worked("c1"), "More?").lines
    goes_on(scene.left(file_of(*lines[:2], deep, *lines[2:])))
    with scene.open() as session:
        assert any("line 3" in remark for remark in session.remarks)


def test_blocks_of_a_newer_api_hid_the_whole_session(scene: Scene):
    """One event of a type that the reader did not know made the session unreadable
    (software-agent-sdk PR#4114, anthropic-sdk-python#1828)."""
    lines = said(worked("c1"), "More?").lines
    unknown = {**lines[0], "type": "quantum_state", "uuid": "q1", "message": {"amplitude": [1, 0]}}
    view = goes_on(scene.left(file_of(*lines[:1], unknown, *lines[1:])))
    assert "what c1 holds" in view
    assert b"quantum_state" in scene.path.read_bytes()
