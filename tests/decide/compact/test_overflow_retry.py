"""A summary request that is too long drops its oldest rounds (CP-9)."""

import pytest
from builders import compute_view
from decide.compact.bench import turns
from hypothesis import given
from hypothesis import strategies as st
from message_rules import find_message_problems

from everturn.decide.compact.overflow_retry import drop_oldest_rounds
from everturn.decide.compact.values import CompactionSkipped
from everturn.history.blocks import block_from_fields, text_block
from everturn.history.messages import Message
from everturn.measure.tokens import estimate_block
from everturn.view.flatten import flatten
from everturn.view.fragments.truncated import TRUNCATED
from everturn.wire.overflow import Overflow, parse_overflow

MARKER = Message("user", (TRUNCATED,))
SILENT = Overflow("vertex")


def conversation(rounds: int, tokens: int = 100) -> tuple[Message, ...]:
    """A question, then rounds of twice that many tokens."""
    words = [Message("user", (text_block("q" * 4 * tokens),))]
    for at in range(rounds):
        words.append(Message("assistant", (text_block(f"{at:04}" * tokens),)))
        words.append(Message("user", (text_block(f"{at:04}" * tokens),)))
    return tuple(words)


def rung(messages: tuple[Message, ...], error: Overflow | None, tried: int = 0) -> tuple[Message, ...]:
    found = drop_oldest_rounds(messages, error, tried)
    assert not isinstance(found, CompactionSkipped), found
    return found


@pytest.mark.spec("CP-9")
def test_a_search_goes_with_its_result_though_replies_are_between_them():
    """Of a reply that begins with the result of a call that is gone, the API refuses all."""
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    begins, ends = block_from_fields(call), block_from_fields(found)
    messages = [Message("user", (text_block("Search."),))]
    for block in (begins, text_block("And."), ends, text_block("So.")):
        messages += [Message("assistant", (block,)), Message("user", (text_block("result"),))]
    error = parse_overflow("prompt is too long: 200006 tokens > 200000 maximum")
    assert rung(tuple(messages), error) == (MARKER, *messages[7:])


@pytest.mark.spec("CP-9")
def test_the_gap_in_the_error_says_how_many_rounds_go():
    error = parse_overflow("prompt is too long: 200500 tokens > 200000 maximum")
    messages = conversation(9)
    # 100 of the question and 200 of each of two rounds are exactly the gap.
    assert rung(messages, error) == (MARKER, *messages[5:])
    one_more = parse_overflow("prompt is too long: 200501 tokens > 200000 maximum")
    assert rung(messages, one_more) == (MARKER, *messages[7:])


@pytest.mark.spec("CP-9")
@pytest.mark.parametrize("error", [SILENT, None])
def test_without_numbers_a_fifth_of_the_rounds_goes(error: Overflow | None):
    messages = conversation(9)
    assert rung(messages, error) == (MARKER, *messages[3:])


@pytest.mark.spec("CP-9")
def test_the_marker_of_a_retry_is_not_what_the_next_one_drops():
    messages = conversation(4)
    first = rung(messages, SILENT)
    second = rung(first, SILENT, 1)
    third = rung(second, SILENT, 2)
    assert [first, second, third] == [(MARKER, *messages[at:]) for at in (1, 3, 5)]


@pytest.mark.spec("CP-9")
def test_after_three_retries_it_is_over():
    assert drop_oldest_rounds(conversation(9), SILENT, 3) == CompactionSkipped(
        "the conversation is still too long to be summarized after 3 retries"
    )


@pytest.mark.spec("CP-9")
def test_where_nothing_would_be_left_it_says_so():
    assert drop_oldest_rounds((MARKER, *conversation(1)[1:]), SILENT, 1) == CompactionSkipped(
        "even the newest part of the conversation is too long to be summarized: nothing would be left"
    )


def test_a_gap_larger_than_all_still_tries_the_newest_round():
    messages = conversation(3)
    assert rung(messages, Overflow("anthropic", 10**6, 1)) == (MARKER, *messages[5:])


@pytest.mark.spec("CP-9")
@given(st.integers(2, 12), st.integers(0, 3_000), st.integers(0, 2))
def test_every_rung_is_shorter_valid_and_the_end_of_the_one_before(count: int, gap: int, tried: int):
    messages = flatten(compute_view(turns(count))).messages
    found = rung(messages, Overflow("anthropic", gap + 1, 1), tried)
    spoken = found[1:] if found[0] == MARKER else found
    assert spoken == messages[-len(spoken) :]
    assert len(spoken) < len(messages)
    assert find_message_problems(found) == ()
    dropped = messages[: -len(spoken)]
    freed = sum(estimate_block(block) for message in dropped for block in message.blocks)
    assert freed >= gap or len(spoken) <= 2
