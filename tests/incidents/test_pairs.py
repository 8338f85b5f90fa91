"""Sessions that were bricked by a call without its result, or a result without its call."""

import pytest
from incidents.scene import (
    Scene,
    blocks_of,
    call,
    calls,
    file_of,
    goes_on,
    said,
    text,
    tool,
    words_in_view,
    worked,
)
from message_rules import find_message_problems
from small_session import SmallSession

from everturn.decide.compact.values import Compaction
from everturn.decide.events import Repaired
from everturn.session.tools import ToolResult
from everturn.session.upstream import UpstreamError


def test_a_compaction_wiped_a_call_and_left_its_result(scene: Scene):
    """After a compaction the view began with the result of a call that was gone; every message was a 400
    until somebody deleted a line of the file by hand (cc#8484)."""
    session = said(worked("c1"), "And the other test?")
    session.boundary(150_000).summary("The login test was looked at.")
    session.result("c1", "what c1 holds, told again").human("Go on.")
    view = goes_on(scene.left(session))
    assert "what c1 holds, told again" in view
    assert [kind for event in scene.told(Repaired) for kind in event.kinds] == ["orphan_result"]


def test_eleven_orphans_were_scattered_over_one_history(scene: Scene):
    """Eleven results without calls stood in one history, and rewinding met the same 400 (cc#40305)."""
    session = SmallSession(model="claude-haiku-4-5")
    for number in range(11):
        session.human(f"Step {number}.").reply(f"m{number}", text(f"Done {number}."), plain=100)
        session.result(f"gone{number}", f"stray {number}")
    view = goes_on(scene.left(session))
    assert [f"stray {number}" in view for number in range(11)] == [True] * 11
    assert sum(event.kinds.get("orphan_result", 0) for event in scene.told(Repaired)) == 11


def server_search(session: SmallSession, *kinds: str) -> SmallSession:
    """A reply in which the provider itself searched; the kinds say what is still there of it."""
    parts = {
        "call": {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "x"},
        },
        "result": {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    }
    return session.reply("search", *(parts[kind] for kind in kinds), text("I found it."), plain=100)


def test_a_summary_cut_between_a_search_and_its_result(scene: Scene):
    """The provider's own search was kept half: its call was summarized away and its result stayed
    (cc#56515, cc#65098)."""
    session = server_search(SmallSession(model="claude-haiku-4-5").human("Search it."), "call", "result")
    said(session, "Thanks.", "What else?")
    with scene.left(session).open() as opened:
        at = [each for each in opened.conversation.log.records if each.kind == "user"][1]
        scene.twin.script(
            "<summary>1. A search was made, and the answer was found on the first page.</summary>"
        )
        assert isinstance(opened.compact(up_to=at.uuid), Compaction)
        scene.twin.script("Going on.")
        assert opened.send("Go on.").text == "Going on."
    assert (
        blocks_of(scene.messages, "server_tool_use")
        == blocks_of(scene.messages, "web_search_tool_result")
        == []
    )


def test_of_three_parallel_calls_two_results_were_written(scene: Scene):
    """Three calls were made side by side and two results reached the file (cc#45286)."""
    view = goes_on(scene.left(worked("c1", "c2", "c3", answered=["c1", "c3"])))
    results = blocks_of(scene.messages, "tool_result")
    assert sorted(each["tool_use_id"] for each in results) == ["c1", "c2", "c3"]
    assert "No result was recorded" in view


def test_a_crash_between_a_call_and_its_return_blocked_the_agent(scene: Scene):
    """The process died while a tool ran; the agent was blocked until somebody repaired it by hand
    (letta#3250)."""

    def dies(given: object) -> str:
        raise SystemExit

    scene.twin.script(calls("Read", file_path="a.py"))
    try:
        with scene.open(tools=[tool("Read", dies, "file_path")]) as session:
            session.send("Read it.")
    except SystemExit:
        pass
    goes_on(scene)
    assert len(blocks_of(scene.messages, "tool_use")) == len(blocks_of(scene.messages, "tool_result")) == 1


def test_a_cut_by_position_kept_orphan_tool_messages(scene: Scene):
    """History was divided at a raw position, inside a pair (langchain#38352, langchain#34282,
    deepagents#270, OpenHarness#191)."""
    session = SmallSession(model="claude-haiku-4-5").human("Read everything.")
    for number in range(6):
        session.reply(f"m{number}", call(f"c{number}", "Read", file_path=f"{number}.py"), plain=100)
        session.result(f"c{number}", f"content {number}\n" * 200)
    scene.left(session)
    with scene.open() as opened:
        records = [each.uuid for each in opened.conversation.log.records]
    for at in records[3:]:
        with scene.left(session).open() as opened:
            scene.twin.script(
                "<summary>1. Files were read one after the other, and each was as expected.</summary>"
            )
            made = opened.compact(up_to=at)
            safe = opened.conversation._tracker.flattener.flat()
            assert (isinstance(made, Compaction), find_message_problems(safe.messages)) == (True, ())


def test_a_repair_was_built_anew_and_failed_again_at_each_retry(scene: Scene):
    """Each retry rebuilt the identical orphan, so that every retry was refused (vellum-assistant PR#39919,
    openclaw#4839)."""
    scene.left(file_of(*worked("c1").lines, *worked("c9").lines[-1:]))
    scene.twin.faults("overloaded", "server_error")
    with scene.open() as session:
        for words in ("Go on.", ()):
            with pytest.raises(UpstreamError, match=r"^5"):
                session.send(words)
        scene.twin.script("At last.")
        assert session.send().text == "At last."
    assert scene.sent[0] == scene.sent[1] == scene.sent[2]


def test_a_result_arrived_after_its_call_had_been_summarized(scene: Scene):
    """A slow tool answered when its call was already part of a summary (devo#186, pi#1764)."""
    scene.twin.script(calls("ask", question="Which?"), "Good.", "Thanks.")
    with scene.open(tools=[tool("ask", None, "question")]) as session:
        (waiting,) = session.send("Ask somebody.").calls
        session.send("Meanwhile, look at the parser. " * 200)
        scene.twin.script(
            "<summary>1. Somebody is to be asked which one it is; the parser was looked at.</summary>"
        )
        assert isinstance(session.compact(), Compaction)
        scene.twin.script("The second, then.")
        assert session.send([ToolResult(waiting.id, "It is the second one.")]).text == "The second, then."
        assert "It is the second one." in words_in_view(session)
