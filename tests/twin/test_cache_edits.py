"""Results deleted by reference: not shown, not billed, and the prefix stays cached."""

import pytest
from twin.asking import FIVE, Desk, assistant, call, parts, result, tool, user

from everturn.twin.options import TwinOptions

OPTIONS = TwinOptions(min_cache={"claude-opus-5": 0}, extensions=frozenset({"cache_edits"}))
TOOLS = [tool("look")]
# Ten for the overhead, 250 characters at 2.5 per token.
RESULT_TOKENS = 10 + 100


def talk(*, edits: dict[int, list[str]] | None = None, uses: int = 3, referable: bool = True) -> list:
    """Calls and results; `edits` adds deletions after the result of a call."""
    messages = [user("go")]
    for n in range(uses):
        more = {"cache_reference": f"toolu_{n}"} if referable else {}
        block = deletion(*edits[n]) if edits and n in edits else None
        found = result(f"toolu_{n}", "y" * 250, **more)
        if n == uses - 1:
            found["cache_control"] = FIVE
        messages += [assistant(call(f"toolu_{n}")), user(found, *([block] if block else []))]
    return messages


def deletion(*references: str) -> dict:
    return {
        "type": "cache_edits",
        "edits": [{"type": "delete", "cache_reference": reference} for reference in references],
    }


@pytest.mark.spec("TW-7")
def test_a_deleted_result_costs_nothing_and_the_prefix_stays_cached():
    desk = Desk(OPTIONS)
    desk.ask(messages=talk(), tools=TOOLS)
    whole = desk.last()["cache"]["written"][0]["tokens"]
    told = desk.ask(messages=talk(edits={2: ["toolu_0"]}), tools=TOOLS)
    assert told["usage"]["cache_deleted_input_tokens"] == RESULT_TOKENS
    assert parts(told["usage"])[0] == whole - RESULT_TOKENS
    # The block is sent again in the same place, and a second one is added: the total includes both.
    later = talk(edits={2: ["toolu_0"], 3: ["toolu_1", "toolu_2"]}, uses=4)
    told = desk.ask(messages=later, tools=TOOLS)
    assert told["usage"]["cache_deleted_input_tokens"] == 3 * RESULT_TOKENS
    assert parts(told["usage"])[0] == whole - 3 * RESULT_TOKENS


@pytest.mark.spec("TW-7")
def test_leaving_the_block_out_later_breaks_the_prefix_from_its_position_on():
    desk = Desk(OPTIONS)
    desk.ask(messages=talk(edits={1: ["toolu_0"]}), tools=TOOLS)
    assert parts(desk.ask(messages=talk(), tools=TOOLS)["usage"])[0] == 0


@pytest.mark.spec("TW-7")
def test_a_reference_added_later_is_not_part_of_the_key():
    desk = Desk(OPTIONS)
    desk.ask(messages=talk(referable=False), tools=TOOLS)
    assert parts(desk.ask(messages=talk(), tools=TOOLS)["usage"])[0] > 0


@pytest.mark.spec("TW-7")
def test_without_deletions_the_total_is_zero_and_without_the_extension_it_is_absent():
    desk = Desk(OPTIONS)
    assert desk.ask(messages=talk(), tools=TOOLS)["usage"]["cache_deleted_input_tokens"] == 0
    assert (
        "cache_deleted_input_tokens" not in Desk().ask(messages=talk(referable=False), tools=TOOLS)["usage"]
    )


@pytest.mark.spec("TW-7")
@pytest.mark.parametrize(
    ("edits", "words"),
    [
        (
            {2: ["toolu_9"]},
            "messages.6.content.1.edits.0.cache_reference: no earlier `tool_result` block has the "
            "cache_reference toolu_9",
        ),
        (
            {1: ["toolu_0"], 2: ["toolu_1", "toolu_0"]},
            "messages.6.content.1.edits.1.cache_reference: toolu_0 was already deleted by an earlier edit",
        ),
        (
            {0: ["toolu_1"]},
            "messages.2.content.1.edits.0.cache_reference: no earlier `tool_result` block has the "
            "cache_reference toolu_1",
        ),
    ],
)
def test_an_edit_that_cannot_be_applied_is_an_error(edits, words):
    assert Desk(OPTIONS).refused(messages=talk(edits=edits), tools=TOOLS) == words


@pytest.mark.spec("TW-7")
def test_the_extension_is_off_by_default():
    desk = Desk()
    assert desk.refused(messages=talk(), tools=TOOLS) == (
        "messages.2.content.0.tool_result.cache_reference: Extra inputs are not permitted"
    )
    words = desk.refused(messages=talk(referable=False, edits={2: ["toolu_0"]}), tools=TOOLS)
    assert words.startswith("messages.6.content.1: Input tag 'cache_edits' found using 'type' does not match")
