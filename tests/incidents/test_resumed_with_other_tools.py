"""Sessions that were resumed into another world: other tools, another model, another folder."""

import json

import pytest
from incidents.scene import Scene, blocks_of, calls, goes_on, said, text, tool, words_in_view, worked
from small_session import SmallSession

from everturn.decide.compact.values import Compaction


@pytest.mark.moves_cache_prefix(reason="the tool list changes between two processes")
def test_a_session_was_resumed_without_the_tool_it_had_used(scene: Scene):
    """A server of tools was removed, and the history that used it was refused from then on (cc#82004)."""
    scene.twin.script(calls("mcp__wiki__search", query="login"), "Found it.")
    with scene.open(tools=[tool("mcp__wiki__search", lambda _: "page 12", "query")]) as session:
        assert session.send("Search the wiki.").text == "Found it."
    assert "page 12" in goes_on(scene)
    assert "tools" not in json.loads(scene.sent[-1])


@pytest.mark.moves_cache_prefix(reason="another model takes over, which reads another cache")
def test_a_smaller_window_took_over_a_large_session(scene: Scene):
    """A session of one model was continued with another whose window it does not fit (OpenHands#9023,
    codex#41954)."""
    session = SmallSession(model="claude-opus-4-6")
    for number in range(30):
        session.human(f"Question {number}. " + "word " * 8_000)
        session.reply(f"m{number}", text(f"Answer {number}."), plain=10_000 * (number + 1))
    with scene.left(session).open() as opened:
        assert opened.send("Go on.").text
        assert opened.context().size.tokens < 200_000


def test_the_schema_of_a_tool_changed_and_old_calls_no_longer_fitted(scene: Scene):
    """An input was recorded as a text where an object is wanted, and the API refused it
    (context-mode#1173, cc#82004)."""
    session = SmallSession(model="claude-haiku-4-5").human("Read.")
    broken = {"type": "tool_use", "id": "c1", "name": "Read", "input": '{"file_path": "a.py"}'}
    session.reply("m1", broken, plain=100).result("c1", "content of a")
    goes_on(scene.left(session), tools=[tool("Read", None, "file_path")])
    (named,) = blocks_of(scene.messages, "tool_use")
    assert named["input"] == {"file_path": "a.py"}


def test_a_sub_agent_shared_the_session_of_its_parent(scene: Scene):
    """Records of a sub-agent stood in its parent's file and became part of the parent's history
    (loreai PR#1701, claude-code-proxy#95, gemini-cli PR#20283)."""
    session = said(worked("c1"), "Delegate it.")
    agent = SmallSession(model="claude-haiku-4-5", agent="a1").human("You are a sub-agent.")
    agent.reply("am1", text("I am working on my own."), plain=100)
    session.lines += agent.lines
    view = goes_on(scene.left(session))
    assert "Delegate it." in view
    assert "sub-agent" not in view


def test_a_rewound_branch_came_back_after_a_resume(scene: Scene):
    """What the user had taken back was part of the history again after a restart (codex#45350)."""
    session = said(worked("c1"), "A wrong turn.")
    fork = session.lines[-3]["uuid"]
    session.human("The right turn.", parentUuid=fork).reply("m9", text("Yes."), plain=100)
    view = goes_on(scene.left(session))
    assert "The right turn." in view
    assert "A wrong turn." not in view


def test_old_results_were_cleared_again_and_differently_after_a_resume(scene: Scene):
    """What was hidden before a restart was shown again after it, at the price of the whole cache
    (headroom#2438, headroom#1077, headroom#1006)."""
    read = tool("Read", lambda given: "x = 1\n" * 9_000, "file_path")
    with scene.open(tools=[read]) as session:
        for number in range(8):
            scene.twin.script(calls("Read", file_path=f"{number}.py"), f"Read {number}.")
            session.send(f"Read {number}.")
        scene.twin.advance(2 * 3_600)
        scene.twin.script("Rested.")
        session.send("Back again.")
        cleared = set(session.conversation.log.view.cleared)
        view = words_in_view(session)
    assert cleared
    with scene.open(tools=[read]) as session:
        assert set(session.conversation.log.view.cleared) == cleared
        assert words_in_view(session) == view
        assert session.recall("Read 0")


def test_opening_a_session_by_another_name_made_two_of_it(scene: Scene):
    """One session under two names, by a link, was written twice at a time (claude-code-hub PR#793)."""
    scene.left(worked("c1"))
    other = scene.folder / "other.jsonl"
    other.symlink_to(scene.path)
    with scene.open(), pytest.raises(Exception, match="is being written by process"):
        Scene.open(_named(scene, other))


def _named(scene: Scene, path: object) -> Scene:
    again = Scene(scene.folder, scene.twin)
    again.path = path  # type: ignore[assignment]
    return again


def test_a_compaction_was_undone_and_its_words_stayed(scene: Scene):
    """Rewinding behind a compaction gave a mixture of the old and the new view (codex#35091, cc#5462)."""
    with scene.left(said(worked("c1"), *[f"Word {number}. " * 60 for number in range(6)])).open() as session:
        before = words_in_view(session)
        scene.twin.script(
            "<summary>1. Six words were said about the login test, and nothing was changed.</summary>"
        )
        assert isinstance(session.compact(), Compaction)
        session.undo()
        assert words_in_view(session) == before
