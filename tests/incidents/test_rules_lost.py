"""Rules, roles and tasks that a summary forgot, and text that became an order."""

import asyncio

import pytest
from incidents.scene import MODEL, RULES, SUMMARY, Scene, calls, goes_on, tool, words_in_view

from everturn.decide.compact.values import Compaction
from everturn.session.async_session import AsyncSession
from everturn.session.session import Reply
from everturn.view.system_prompt import SystemPromptSections

FORGETFUL = (
    "<summary>1. Something was done with the login test and the token; that is all there is.</summary>"
)


def compacted(scene: Scene, session, times: int = 1) -> None:
    for _ in range(times):
        scene.talk(session, 1)
        scene.twin.script(FORGETFUL)
        assert isinstance(session.compact(), Compaction)


def test_a_prohibition_was_gone_after_the_summary(scene: Scene):
    """The user had forbidden something; after a compaction the agent did it (cc#6354, opencode#16372,
    hermes-evolution#1773)."""
    with scene.open() as session:
        scene.twin.script("Understood.")
        session.send("Never push to the main branch. Use bun, not npm.")
        compacted(scene, session, times=5)
        view = words_in_view(session)
    assert "Never push to the main branch." in view
    assert "Use bun, not npm." in view


def test_the_agent_forgot_who_it_was(scene: Scene):
    """Role and system prompt were summarized away with the rest (opencode#4546)."""
    with scene.open() as session:
        compacted(scene, session, times=2)
    goes_on(scene)
    assert RULES.encode() in scene.sent[-1]


@pytest.mark.moves_cache_prefix(reason="the memory file changes between two compactions")
def test_the_memory_file_that_came_back_was_an_old_copy(scene: Scene):
    """CLAUDE.md was edited, and the compaction brought back what it had been (cc#92949)."""
    memory = scene.folder / "CLAUDE.md"
    memory.write_text("Use tabs.")
    sections = SystemPromptSections()
    sections.static("rules", lambda: RULES)
    sections.dynamic("memory", memory.read_text)
    with scene.open(system=sections) as session:
        scene.talk(session, 1)
        memory.write_text("Use spaces.")
        compacted(scene, session)
        scene.talk(session, 1)
    assert b"Use spaces." in scene.sent[-1]
    assert b"Use tabs." not in scene.sent[-1]


def test_instructions_for_the_summary_were_carried_out_again(scene: Scene):
    """What the user told the compactor to do was part of the next turn, and was done a second time
    (cc#55555)."""
    with scene.open() as session:
        scene.talk(session)
        scene.twin.script(SUMMARY)
        session.compact("Then delete the branch called harbor.")
    goes_on(scene)
    assert b"delete the branch called harbor" not in scene.sent[-1]


def test_finished_work_was_called_pending(scene: Scene):
    """The summary said that a finished task was open, and it was done again (opencode#50816, cc#11483)."""
    todo = tool("TodoWrite", lambda _: "ok", "todos")
    todo.definition["input_schema"] = {"type": "object", "properties": {"todos": {"type": "array"}}}
    states = [{"content": "fix login", "status": "completed"}, {"content": "fix logout", "status": "pending"}]
    scene.twin.script(calls("TodoWrite", todos=states), "Noted.")
    with scene.open(tools=[todo]) as session:
        session.send("Keep a list.")
        compacted(scene, session, times=2)
        view = words_in_view(session)
    assert "- [completed] fix login" in view
    assert "- [pending] fix logout" in view


def test_a_message_that_came_while_the_summary_was_written_was_lost(scene: Scene):
    """The user wrote on while the conversation was being compacted, and that message was gone
    (code#1272, coder PR#28645)."""
    with scene.open() as session:
        scene.talk(session)
    held = AsyncSession.open(
        scene.path, model=MODEL, system=RULES, send=scene.send, clock=scene.twin.twin.clock.now
    )
    scene.twin.script(SUMMARY, "I will.")

    async def both() -> tuple[object, Reply]:
        async with await held as session:
            return await asyncio.gather(session.compact(), session.send("And mind the time zone!"))

    made, reply = asyncio.run(both())
    assert isinstance(made, Compaction)
    assert reply.text == "I will."
    assert "And mind the time zone!" in goes_on(scene)


@pytest.mark.parametrize("policy", ["claude-code", "economic"])
def test_a_file_that_had_been_read_was_shown_as_it_once_was(scene: Scene, policy: str):
    """After a compaction a file came back in the state of hours ago, and was overwritten with it (cc#92949,
    cc#64582)."""
    source = scene.folder / "auth.py"
    source.write_text("token = None\n")
    scene.twin.script(calls("Read", file_path=str(source)), "Read.")
    reads = tool("Read", lambda given: source.read_text(), "file_path")
    with scene.open(tools=[reads], policy=policy) as session:
        session.send("Read auth.py.")
        source.write_text("token = wait()\n")
        compacted(scene, session)
        view = words_in_view(session)
    # By price, a file is read again when it is needed.
    assert ("token = wait()" in view) == (policy == "claude-code")
    assert "token = None" not in view


def test_amnesia_the_session_did_not_know_where_its_past_was(scene: Scene):
    """After a compaction the agent knew nothing of what came before, nor where to look (cc#5462)."""
    with scene.open(recalls=True) as session:
        scene.twin.script("The port is 8472.")
        session.send("Which port does the staging proxy use?")
        compacted(scene, session, times=3)
        assert str(scene.path) in words_in_view(session)
        (hit, *_) = session.recall("staging proxy port")
    assert hit.snippet == "Which «port» does the «staging» «proxy» use?"
