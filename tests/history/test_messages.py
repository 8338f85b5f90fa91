"""The judge of messages, fault by fault. Mutations of valid ones: `tests/laws/test_flatten.py`."""

import pytest
from message_rules import find_message_problems

from everturn.history.blocks import Block, block_from_fields, result_block, text_block
from everturn.history.messages import Message, find_last_prompt, is_blank, is_user_prompt

HI, HO = text_block("hi"), text_block("ho")
CALL = block_from_fields({"type": "tool_use", "id": "c", "name": "N", "input": {}})
NAMELESS = block_from_fields({"type": "tool_use", "id": "", "name": "N", "input": {}})
RESULT = result_block("c", "done")
THOUGHT = block_from_fields({"type": "thinking", "thinking": "hm", "signature": "s"})


def user(*blocks: Block) -> Message:
    return Message("user", blocks)


def assistant(*blocks: Block) -> Message:
    return Message("assistant", blocks)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [user(HI)],
        [user(HI), assistant(THOUGHT, HO, CALL), user(RESULT, HI), assistant(HO)],
        [user(HI), assistant(Block("invented", b"{}")), user(Block("invented", b"{}"))],
    ],
)
def test_what_the_api_takes_has_no_fault(messages: list[Message]):
    assert find_message_problems(messages) == ()


@pytest.mark.spec("TR-11")
@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([assistant(HO)], ("messages.0: the first message is not the user's",)),
        ([user(HI), user(HI)], ("messages.1: two user messages in a row",)),
        ([user()], ("messages.0: empty content",)),
        ([user(HI, text_block("\n"))], ("messages.0: a text block without text",)),
        ([user(THOUGHT)], ("messages.0: a block type that is not allowed in user messages",)),
        ([user(HI), assistant(CALL)], ("messages.1: call c has no result in the next message",)),
        (
            [user(HI), assistant(CALL), user(HI, RESULT)],
            ("messages.2: tool results are not the first blocks",),
        ),
        ([user(HI), assistant(CALL), user(RESULT, RESULT)], ("messages.2: two results for one call",)),
        ([user(RESULT)], ("messages.0: result of c without its call",)),
        (
            [user(HI), assistant(CALL), user(RESULT), assistant(CALL), user(RESULT)],
            ("messages.3: call id 'c' is empty or used twice",),
        ),
        (
            [user(HI), assistant(NAMELESS), user(result_block("", "x"))],
            ("messages.1: call id '' is empty or used twice",),
        ),
        (
            [user(HI), assistant(CALL), user(RESULT), assistant(HO), user(RESULT)],
            ("messages.4: result of c without its call",),
        ),
    ],
)
def test_each_fault_is_named_where_it_is(messages: list[Message], found: tuple[str, ...]):
    assert find_message_problems(messages) == found


def test_a_result_in_a_reply_and_a_call_in_a_prompt_are_out_of_place():
    assert "messages.1: a block type that is not allowed in assistant messages" in find_message_problems(
        [user(HI), assistant(RESULT)]
    )
    assert "messages.0: a block type that is not allowed in user messages" in find_message_problems(
        [user(CALL)]
    )


def test_only_a_text_block_can_be_blank():
    assert [
        is_blank(block) for block in (text_block(" \t\n\u3000"), text_block("."), Block("image", b"{}"))
    ] == [
        True,
        False,
        False,
    ]


def test_a_prompt_is_a_message_of_the_user_that_is_more_than_results():
    prompts = [user(HI), user(RESULT, HI), user(RESULT), user(), assistant(HI)]
    assert [is_user_prompt(message) for message in prompts] == [True, True, False, False, False]


def test_the_last_prompt_is_found_from_a_place_on():
    messages = [user(HI), assistant(CALL), user(RESULT, HO), assistant(HO), user(RESULT)]
    assert [find_last_prompt(messages, first, otherwise=9) for first in (0, 2, 3)] == [2, 2, 9]
    assert find_last_prompt([]) == 0
    assert find_last_prompt([user(HI), assistant(HO)], otherwise=9) == 0
