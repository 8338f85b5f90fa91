"""A cache key that changes with every call is told, although no cache reads are left to drop (CB-3)."""

import pytest
from surfaces.desk import HAIKU, RULES, SUMMARY, Desk

from everturn.view.system_prompt import SystemPromptSections

CHANGES = pytest.mark.moves_cache_prefix(reason="the system prompt is changed on purpose")
SONNET = "claude-sonnet-4-6"


def clock_sections():
    ticks = iter(range(1_000))
    sections = SystemPromptSections()
    sections.static("rules", lambda: RULES)
    sections.DANGEROUS_recomputed_every_request(
        "clock", lambda: f"It is {next(ticks)}.", why="for this test it changes"
    )
    return sections


@CHANGES
@pytest.mark.spec("CB-3")
@pytest.mark.parametrize("model", [SONNET, HAIKU])
def test_a_clock_in_the_system_prompt_of_a_session_is_told_once_with_what_it_costs(tmp_path, twin, model):
    desk = Desk(tmp_path, twin, model=model)
    with desk.open(system=clock_sections()) as session:
        desk.talk(session, 12, size=400)
        [note] = session.bill.notes
    [event] = desk.heard("KeyChangesRepeated")
    assert (event.changed, event.parts) == (3, ("system",))
    assert event.what.endswith(" of the system prompt")
    assert event.what in note
    assert event.dollars > 0


@pytest.mark.moves_cache_prefix(reason="each picture changes the key of all messages")
@pytest.mark.spec("CB-3")
def test_pictures_that_are_added_with_every_message_are_told_with_other_advice(tmp_path, twin):
    desk = Desk(tmp_path, twin, model=SONNET)
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    with desk.open() as session:
        desk.talk(session, 2, size=800)
        for number in range(4):
            desk.twin.script(f"Screen {number}.")
            session.send([picture, {"type": "text", "text": "And now?"}])
        [note] = session.bill.notes
    [event] = desk.heard("KeyChangesRepeated")
    assert event.parts == ("pictures",)
    assert note.endswith("add several at once, or text instead.")


@pytest.mark.spec("CB-3")
def test_a_session_whose_head_stays_is_told_nothing(tmp_path, twin):
    desk = Desk(tmp_path, twin, model=SONNET)
    with desk.open() as session:
        desk.talk(session, 6, size=400)
        twin.advance(4_000)
        desk.talk(session, 2, size=400)
        desk.twin.script(SUMMARY)
        session.compact()
        desk.talk(session, 2, size=400)
        assert session.bill.notes == ()
    assert desk.heard("KeyChangesRepeated") == []
