"""Permanent 400s because thinking was changed, moved, or sent to a model that cannot read it."""

import pytest
from incidents.scene import Scene, blocks_of, calls, goes_on, tool
from small_session import SmallSession, call, text, thinking

from everturn.decide.compact.values import Compaction

THINKER = "claude-opus-4-5"
ON = {"type": "enabled", "budget_tokens": 2_000}


def thought(words: str, *more: dict) -> dict:
    return {"content": [{"type": "thinking", "thinking": words}, *more]}


def test_thinking_of_the_last_reply_was_spelled_again(scene: Scene):
    """Thinking blocks were decoded and encoded on their way, and the API saw that they were changed
    (cc#12311, cc#24087, opencode#41738)."""
    scene.twin.script(
        thought("Ümlauts, 🚀 and \\u escapes/slashes.", *calls("Read", file_path="a.py")["content"]), "Done."
    )
    with scene.open(model=THINKER, thinking=ON, tools=[tool("Read", lambda _: "ok", "file_path")]) as session:
        assert session.send("Think first.").text == "Done."
        recorded = next(b for r in session.conversation.log.records for b in r.blocks if b.is_thinking)
    assert recorded.raw in scene.sent[-1]


def test_a_reply_of_thinking_alone_was_the_last_one(scene: Scene):
    """An interrupted reply held nothing but thinking, which may not be the last block (cc#10199)."""
    session = SmallSession(model="claude-haiku-4-5").human("Think.").reply("m1", thinking("Hm."), plain=100)
    goes_on(scene.left(session))
    assert blocks_of(scene.messages, "thinking") == []


@pytest.mark.moves_cache_prefix(reason="another model takes over, which reads another cache")
def test_the_model_was_switched_and_could_not_read_the_signatures(scene: Scene):
    """A session was resumed with another model, to which the signatures meant nothing (cc#63463,
    opencode#13286)."""
    read = tool("Read", lambda _: "ok", "file_path")
    with scene.open(model=THINKER, thinking=ON, tools=[read]) as session:
        scene.twin.script(thought("First.", {"type": "text", "text": "One."}))
        session.send("One?")
    with scene.open(model="claude-sonnet-5", tools=[read]) as session:
        scene.twin.script("Two.")
        assert session.send("Two?").text == "Two."


def test_a_compaction_in_the_middle_of_a_tool_loop_touched_its_thinking(scene: Scene):
    """Room was made while the model was between two calls, and the thinking of the running loop was
    trimmed with the rest (cc#64066, OpenHands#10873)."""
    loop = [thought(f"Step {n}.", *calls("Read", file_path=f"{n}.py")["content"]) for n in range(3)]
    scene.twin.script(*loop, "Done.")

    def read(given: object) -> str:
        return "line\n" * 2_000

    with scene.open(model=THINKER, thinking=ON, tools=[tool("Read", read, "file_path")]) as session:
        assert session.send("Read all three.").text == "Done."
        scene.twin.script(
            "<summary>1. Three files were read one after the other; nothing was changed yet.</summary>"
        )
        assert isinstance(session.compact(), Compaction)
        scene.twin.script(thought("New.", {"type": "text", "text": "On it."}))
        assert session.send("Go on.").text == "On it."


def test_thinking_of_a_foreign_program_had_no_signature(scene: Scene):
    """A transcript of another program held thinking without a signature, in a reply that called a tool
    (cc#12743, CLIProxyAPI#2172)."""
    bare = {"type": "thinking", "thinking": "Unsigned."}
    session = SmallSession(model="gpt-5").human("Read it.")
    session.reply("m1", bare, call("c1", "Read", file_path="a.py"), plain=100).result("c1", "ok")
    session.reply("m2", text("It is fine."), plain=100)
    goes_on(scene.left(session))
    assert blocks_of(scene.messages, "thinking") == []
