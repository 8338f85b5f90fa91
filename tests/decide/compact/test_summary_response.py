"""Answers: what is no summary, and how one is formatted (CP-8)."""

import pytest
from decide.compact.bench import SUMMARY
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.compact.summary_response import SummaryCheck, check_summary, formatted, text_problem
from everturn.decide.effects import ModelAnswer
from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.history.records import Usage

CALL = block_from_fields({"type": "tool_use", "id": "c1", "name": "Read", "input": {}})


def said(*blocks: Block | str, stop: str = "end_turn") -> ModelAnswer:
    made = tuple(text_block(each) if isinstance(each, str) else each for each in blocks)
    return ModelAnswer(made, stop, Usage())


@pytest.mark.spec("CP-8")
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (said(), "it is empty"),
        (said(" \n"), "it is empty"),
        (said("<analysis>I looked.</analysis>"), "it is empty"),
        (said("<analysis>I looked.</analysis><summary> </summary>"), "it is empty"),
        (said(CALL, stop="tool_use"), "it called Read and said nothing"),
        (said('API Error: 529 {"type":"error"}'), "it is an error message"),
        (said('{"type":"error","error":{"type":"overloaded_error"}}'), "it is an error message"),
        (said("Prompt is too long"), "it is an error message"),
        (said("prompt is too long: 214000 tokens > 200000 maximum"), "it is an error message"),
        (said("<summary>Error: 500 internal</summary>"), "it is an error message"),
        (said("The call failed: input is too long for requested model."), "it is an error message"),
        (said("I can't help with that."), "the model refused"),
        (said("All fine", stop="refusal"), "the model refused"),
        (said(SUMMARY, stop="max_tokens"), "it was cut off at its output limit"),
        (said(SUMMARY, stop=""), "it did not end by itself (stop reason missing)"),
        (said(SUMMARY, stop="pause_turn"), "it did not end by itself (stop reason pause_turn)"),
    ],
)
def test_what_is_no_summary_is_named_and_leaves_no_text(answer: ModelAnswer, problem: str):
    assert check_summary(answer) == SummaryCheck(problem=problem)


@pytest.mark.spec("CP-8")
def test_text_beside_a_call_is_an_answer():
    assert check_summary(said(SUMMARY, CALL, stop="tool_use")) == SummaryCheck(SUMMARY)


def test_a_summary_of_an_error_is_no_error():
    text = "Summary:\n1. Request: find out why the API says 'prompt is too long'. " + "It does. " * 60
    assert check_summary(said(text)) == SummaryCheck(text.strip())


@pytest.mark.spec("CP-8")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "<analysis>\ndraft\n</analysis>\n\n<summary>\n1. A\n\n\n \n2. B\n</summary>",
            "Summary:\n1. A\n\n2. B",
        ),
        ("<analysis>never closed <summary>1. A</summary>", "Summary:\n1. A"),
        ("<summary>1. A", "Summary:\n1. A"),
        ("<summary>a <summary>nested</summary> b</summary> bye", "Summary:\na nested b"),
        ("just words\n\n\n\nmore", "just words\n\nmore"),
    ],
)
def test_the_draft_goes_the_tags_become_a_heading_and_blank_lines_collapse(text: str, shown: str):
    assert formatted(text) == shown


@given(st.lists(st.sampled_from(["<analysis>", "</analysis>", "<summary>", "</summary>", "x", "\n", " "])))
def test_formatting_what_is_formatted_changes_nothing(pieces: list[str]):
    once = formatted("".join(pieces))
    if "<analysis>" not in once and "<summary>" not in once:
        assert formatted(once) == once
    assert "\n\n\n" not in once


def test_an_indented_line_behind_a_blank_one_keeps_its_indentation():
    told = '6. All user messages:\n   - "first\n\n     1. second"\n \n\n   - "third"'
    assert formatted(told) == '6. All user messages:\n   - "first\n\n     1. second"\n\n   - "third"'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a<analysis>x</analysis>b<analysis>y</analysis>c", "abc"),
        ("<analysis>x</analysis><summary>s</summary>", "Summary:\ns"),
        ("<analysis>never closed <summary>s</summary>", "Summary:\ns"),
        ("<analysis>never closed, no summary", "<analysis>never closed, no summary"),
        ("said first <summary>s", "Summary:\ns"),
        ("<summary> <summary>s</summary> </summary> after", "Summary:\ns"),
        ("<summary> </summary>", ""),
        ("</summary><summary>s", "Summary:\ns"),
        ("a\n \n\t\n\n  b", "a\n\n  b"),
    ],
)
def test_a_summary_is_what_stands_between_its_tags_without_drafts(text: str, shown: str):
    assert formatted(text) == shown


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "tool_use"])
def test_an_answer_that_ended_by_itself_is_whole(reason: str):
    assert check_summary(ModelAnswer((text_block(SUMMARY),), reason, Usage())) == SummaryCheck(SUMMARY)


@pytest.mark.parametrize(
    ("reason", "problem"),
    [
        ("refusal", "the model refused"),
        ("max_tokens", "it was cut off at its output limit"),
        ("pause_turn", "it did not end by itself (stop reason pause_turn)"),
        ("", "it did not end by itself (stop reason missing)"),
    ],
)
def test_an_answer_that_did_not_end_by_itself_is_none(reason: str, problem: str):
    assert check_summary(ModelAnswer((text_block(SUMMARY),), reason, Usage())) == SummaryCheck(
        problem=problem
    )


def test_a_short_text_that_mentions_an_overflow_is_an_error_and_a_long_one_tells_of_it():
    told = "It says: prompt is too long."
    long = told + " word" * (60 - len(told.split()))
    assert text_problem(told) == text_problem(long.rsplit(" ", 1)[0]) == "it is an error message"
    assert text_problem(long) == ""
    refused = "I cannot do that."
    assert text_problem(refused) == "the model refused"
    assert text_problem(refused + " word" * 56) == ""
