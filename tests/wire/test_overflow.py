"""Every wording of a full window that we know, and none that only sounds like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.wire.overflow import WORDINGS, Overflow, parse_overflow

KNOWN = [
    ("prompt is too long: 1000123 tokens > 1000000 maximum", Overflow("anthropic", 1000123, 1000000), 123),
    ("request size exceeds model context window", Overflow("anthropic"), 0),
    (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length "
        "or `max_tokens` and try again",
        Overflow("anthropic", 209573, 200000),
        9573,
    ),
    ("Input is too long for requested model.", Overflow("bedrock"), 0),
    (
        "The model returned the following errors: prompt is too long: 903884 tokens > 200000 maximum",
        Overflow("bedrock", 903884, 200000),
        703884,
    ),
    ("Prompt is too long", Overflow("vertex"), 0),
    (
        "This model's maximum context length is 128,000 tokens. "
        "However, your messages resulted in 130,500 tokens.",
        Overflow("openai", 130500, 128000),
        2500,
    ),
    ("Error code: 400, 'code': 'context_length_exceeded'", Overflow("openai"), 0),
    (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        Overflow("openai"),
        0,
    ),
    (
        "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576).",
        Overflow("gemini", 1050000, 1048576),
        1424,
    ),
]


@pytest.mark.parametrize(("message", "expected", "gap"), KNOWN)
def test_every_known_wording_is_recognised_with_its_gap(message: str, expected: Overflow, gap: int):
    assert parse_overflow(message) == expected
    assert parse_overflow(f'{{"type":"error","error":{{"message":"{message.upper()}"}}}}') == expected
    assert expected.gap == gap


def test_every_wording_of_the_table_is_tried_here():
    used = {
        next(n for n, wording in enumerate(WORDINGS) if wording.pattern.search(said)) for said, _, _ in KNOWN
    }
    assert used == set(range(len(WORDINGS)))


@pytest.mark.parametrize(
    "message",
    [
        "",
        "max_tokens: 300000 > 128000, which is the maximum allowed number of output tokens for claude-opus-5",
        "messages: text content blocks must be non-empty",
        "Request exceeds the maximum size",
        "Overloaded",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        "the prompt was long, and too dear",
    ],
)
def test_a_wording_that_we_do_not_know_is_no_overflow(message: str):
    assert parse_overflow(message) is None


@given(st.text("0123456789,٣", max_size=30), st.text("0123456789, ", max_size=30))
def test_numbers_of_any_shape_are_read_or_passed_over(tokens: str, limit: str):
    assert parse_overflow(f"prompt is too long: {tokens} tokens > {limit} maximum") is not None


def test_a_number_of_thousands_of_digits_is_passed_over():
    assert parse_overflow(f"prompt is too long: {'9' * 5000} tokens > 5 maximum") == Overflow("vertex")


@pytest.mark.parametrize(
    ("tokens", "limit", "gap"), [(11, 10, 1), (10, 10, 0), (9, 10, 0), (9, 0, 0), (0, 0, 0), (1, 1, 0)]
)
def test_the_gap_is_what_is_above_a_known_limit(tokens: int, limit: int, gap: int):
    assert Overflow("anthropic", tokens, limit).gap == gap


def test_three_numbers_are_the_input_the_answer_and_the_limit_also_with_commas():
    said = "input length and `max_tokens` exceed context limit: 188,240 + 21,333 > 200,000"
    assert parse_overflow(said) == Overflow("anthropic", 209_573, 200_000)
