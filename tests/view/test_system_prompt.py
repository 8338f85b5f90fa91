"""Named sections: computed once, static before dynamic, and the dangerous kind has to say why."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from view.talks import tool

from everturn.errors import UsageError
from everturn.history.blocks import text_block
from everturn.measure.capabilities import ANTHROPIC, Capabilities
from everturn.measure.outline import Preamble
from everturn.view.system_prompt import (
    Scoped,
    SystemPromptSections,
    make_preamble,
    own_system_prompt,
    system_blocks,
)

SHARING: Capabilities = msgspec.structs.replace(ANTHROPIC, scopes=("org", "global"))


def counted(words: str) -> Callable[[], str]:
    """A section that numbers how often it was computed."""
    times = iter(range(1, 99))
    return lambda: f"{words} {next(times)}"


def sections(**more: Any) -> SystemPromptSections:
    made = SystemPromptSections(**more)
    made.dynamic("environment", counted("environment"))
    made.static("manners", counted("manners"))
    made.static("tone", counted("tone"))
    made.dynamic("memory", counted("memory"))
    return made


@pytest.mark.spec("PC-1")
def test_static_sections_stand_before_the_boundary_whatever_was_registered_first():
    assert system_blocks(sections(), capabilities=ANTHROPIC) == (
        Scoped(text_block("manners 1\n\ntone 1"), "org"),
        Scoped(text_block("environment 1\n\nmemory 1"), "org"),
    )


@pytest.mark.spec("PC-2")
def test_a_section_is_computed_once_until_everything_is_forgotten():
    made = sections()
    first = system_blocks(made, capabilities=ANTHROPIC)
    assert system_blocks(made, capabilities=ANTHROPIC) == first
    made.forget()
    assert made.texts("static") == ["manners 2", "tone 2"]
    assert made.texts("dynamic") == ["environment 2", "memory 2"]


@pytest.mark.spec("PC-2")
def test_a_volatile_section_is_computed_for_every_request_and_its_reason_is_on_record():
    made = sections()
    made.DANGEROUS_recomputed_every_request(
        "servers", counted("servers"), why="servers come and go within a turn"
    )
    assert [made.texts("dynamic")[-1] for _ in range(3)] == ["servers 1", "servers 2", "servers 3"]
    assert made.texts("dynamic")[:2] == ["environment 1", "memory 1"]
    assert made.dangers == {"servers": "servers come and go within a turn"}


@pytest.mark.spec("PC-2")
@pytest.mark.parametrize("why", ["", "   ", "needed", "it changes"])
def test_a_volatile_section_without_a_written_reason_is_refused(why: str):
    made = SystemPromptSections()
    with pytest.raises(UsageError, match=r"Section 'clock' .* each change breaks the cache"):
        made.DANGEROUS_recomputed_every_request("clock", counted("clock"), why=why)
    assert made.texts("dynamic") == []


def test_two_sections_cannot_have_one_name():
    made = sections()
    with pytest.raises(UsageError, match="A section named 'tone' already exists"):
        made.dynamic("tone", counted("tone"))


@pytest.mark.spec("PC-3")
@pytest.mark.parametrize(
    ("able", "tools", "shared"),
    [
        (ANTHROPIC, ["Read"], "org"),
        (SHARING, ["Read"], "global"),
        (SHARING, [], "global"),
        (SHARING, ["Read", "mcp__x__y"], "org"),
    ],
)
def test_only_the_static_part_is_shared_with_all_where_that_exists_and_no_mcp_tools_are(able, tools, shared):
    made = sections(attribution="by 1", identity="I am")
    blocks = system_blocks(made, capabilities=able, tools=tools)
    assert [(part.block, part.scope) for part in blocks] == [
        (text_block("by 1"), None),
        (text_block("I am"), None),
        (text_block("manners 1\n\ntone 1"), shared),
        (text_block("environment 1\n\nmemory 1"), "org"),
    ]
    assert make_preamble((), blocks) == Preamble(
        (), tuple(part.block for part in blocks), (2, 3), (shared, "org")
    )


@pytest.mark.spec("PC-3")
def test_an_attribution_that_is_computed_is_asked_for_every_request():
    made = SystemPromptSections(attribution=counted("by"))
    found = [system_blocks(made, capabilities=ANTHROPIC) for _ in range(2)]
    assert found == [(Scoped(text_block(f"by {at}"), None),) for at in (1, 2)]


def test_a_section_without_a_visible_word_makes_no_block():
    """The API refuses blank text, and a marker on it."""
    made = SystemPromptSections(attribution=" ")
    made.static("blank", lambda: " \n")
    made.dynamic("words", lambda: "words")
    made.dynamic("empty", lambda: "")
    assert system_blocks(made, capabilities=ANTHROPIC) == (Scoped(text_block("words"), "org"),)


@pytest.mark.spec("PC-4")
def test_an_own_system_prompt_is_one_block_and_never_global():
    assert own_system_prompt("Be brief.\n\nBe kind.") == (Scoped(text_block("Be brief.\n\nBe kind."), "org"),)
    assert own_system_prompt(" \n") == ()


@pytest.mark.spec("PC-6")
def test_tools_are_sent_in_one_order_whatever_order_they_came_in():
    tools = (tool("Write"), tool("Bash"), tool("Read"))
    heads = [make_preamble(order, ()) for order in (tools, tools[::-1])]
    assert heads == [Preamble((tools[1], tools[2], tools[0]))] * 2
