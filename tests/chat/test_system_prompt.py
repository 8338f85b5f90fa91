"""What the system prompt tells the model about content that left its context (MC-19)."""

import pytest

from everturn.history.blocks import result_block, text_of
from everturn.history.edits import Offloaded
from everturn.view.fragments.cleared import cleared
from everturn.view.fragments.offloaded import offloaded
from everturn.view.fragments.summary_message import summary_message

from .conftest import Desk


def section_about_long_conversations(desk: Desk) -> str:
    """From the request itself, as the model gets it."""
    desk.twin.script("Yes.")
    agent = desk.agent()
    agent.answer("Are you there?")
    system = "\n\n".join(text_of(block) for block in agent.session.conversation.setting.preamble.system)
    (section,) = [each for each in system.split("\n\n") if "no length limit" in each]
    return section


@pytest.mark.spec("MC-19")
def test_one_section_quotes_what_stands_in_place_of_removed_content(desk: Desk):
    section = section_about_long_conversations(desk)
    result = result_block("c1", "x" * 60_000)
    moved = text_of(offloaded(result, Offloaded("c1", "PATH", "xxx", 60_000)))
    summary = summary_message("S", form="full", transcript="", resuming="with_the_user")
    opening, closing = (line for line in summary.splitlines() if line.startswith("<"))
    assert text_of(cleared(result)) in section
    assert moved.partition("\n")[0] in section
    assert (opening in section, closing in section) == (True, True)


@pytest.mark.spec("MC-19")
def test_the_same_section_says_how_to_get_content_back(desk: Desk):
    section = section_about_long_conversations(desk)
    (agent,) = desk.agents
    assert {"Read", "recall"} <= {block.tool for block in agent.session.conversation.setting.preamble.tools}
    assert ("read the file again with Read" in section, "with the recall tool" in section) == (True, True)
