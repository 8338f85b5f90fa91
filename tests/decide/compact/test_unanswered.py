"""What was said last, where nobody has answered it: whole where it fits, else its head and its tail."""

import dataclasses
import re
from typing import Any

import builders as b
import pytest
from decide.compact.bench import AUTO, Bench, turn, turns

from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.compact.unanswered import (
    UNANSWERED,
    room_for_newest,
    start_of_unanswered,
    unanswered_parts,
)
from everturn.history.blocks import fields_of
from everturn.history.records import Record
from everturn.measure.model_table import model_or_default

HEADING = "What was said last, word for word, and has no answer yet"


def carried(records: tuple[Record, ...]) -> list[Any]:
    return [fields_of(each.blocks[0])["content"] for each in records if each.subtype == UNANSWERED]


def test_what_was_said_behind_the_last_answer_is_unanswered():
    said = [*turn(1), b.user("First this.", uuid="u8"), b.user("Then that.", uuid="u9")]
    assert unanswered_parts(said) == ["First this.", "Then that."]


def test_an_answer_and_our_own_words_are_no_question():
    assert unanswered_parts(turn(1)) == []
    assert (
        unanswered_parts([*turn(1), b.user("<system-reminder>x</system-reminder>", uuid="m", isMeta=True)])
        == []
    )


def test_a_result_without_an_answer_is_told_with_its_call():
    called = [b.user("Go on.", uuid="u1"), b.assistant(b.call("c1", "Read"), id="m1", uuid="a1")]
    told = unanswered_parts([*called, b.user([b.answer("c1", "text")], uuid="r1")])
    assert told == ["Read() gave:\n<tool-output>\ntext\n</tool-output>"]


def test_the_cut_before_what_is_unanswered_keeps_calls_with_their_results():
    called = [*turn(1), b.assistant(b.call("c9", "Read"), id="m9", uuid="a9")]
    assert start_of_unanswered(turn(1)) == 0
    assert start_of_unanswered([*called, b.user([b.answer("c9", "text")], uuid="r9")]) == len(turn(1))
    assert start_of_unanswered([*turn(1), b.user("And this?", uuid="u9")]) == len(turn(1))
    assert start_of_unanswered([b.user("Only this.", uuid="u1")]) == 0


BEGUN = b.record({"type": "assistant", "uuid": "p1", "message": {"role": "assistant", "content": "Sure:"}})
PAUSED = b.assistant("I look.", id="m9", uuid="a9", stop="pause_turn")
ASKED = [*turn(1), b.user("And this?", uuid="u9")]


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize(
    ("behind", "is_open"),
    [
        ([BEGUN], True),
        ([PAUSED], True),
        # Only the last record of a response says how it ended.
        ([b.assistant("Well.", id="m9", uuid="a8"), PAUSED], True),
        ([b.assistant("Well.", id="m8", uuid="a8", stop="pause_turn"), PAUSED], True),
        ([PAUSED, b.attachment("note")], True),
        ([b.assistant("Well.", id="m8", uuid="a8"), PAUSED], False),
        ([PAUSED, b.assistant("It rains.", id="m10", uuid="a10")], False),
        ([BEGUN, b.assistant("it rains.", id="m10", uuid="a10")], False),
    ],
)
def test_a_reply_that_the_model_goes_on_with_has_not_answered_yet(behind, is_open):
    records = [*ASKED, *behind]
    assert unanswered_parts(records) == (["And this?"] if is_open else [])
    assert start_of_unanswered(records) == (len(turn(1)) if is_open else 0)


def test_a_paused_reply_behind_which_the_user_has_spoken_is_over():
    records = [*ASKED, PAUSED, b.user("Never mind.", uuid="u10")]
    assert unanswered_parts(records) == ["Never mind."]
    assert start_of_unanswered(records) == len(ASKED) + 1


CALLS = b.assistant(b.call("d1", "Read"), b.call("d2", "Read"), id="m9", uuid="a9")
FIRST, SECOND = (b.user([b.answer(name, "text")], uuid=f"r-{name}") for name in ("d1", "d2"))
PARTS = [
    b.assistant("I look.", id="m9", uuid="a7"),
    b.assistant(b.call("d1", "Read"), id="m9", uuid="a8"),
    FIRST,
    b.assistant(b.call("d2", "Read"), id="m9", uuid="a9"),
]


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize(
    ("behind", "start"),
    [
        ([CALLS], 0),
        ([CALLS, b.attachment("note")], 0),
        ([CALLS, b.user("A hook said so.", uuid="m", isMeta=True)], 0),
        ([CALLS, FIRST], 0),
        (PARTS, 0),
        # What waits for an answer now are the results.
        ([CALLS, FIRST, SECOND], 1),
        ([*PARTS, SECOND], 1),
        # In a longer loop it is the newest result, and the call behind it that waits.
        ([PARTS[1], FIRST, b.assistant(b.call("d3", "Read"), id="m10", uuid="a10")], 1),
        # Calls that never got a result are over once the user says something new.
        ([CALLS, b.user("Never mind.", uuid="u10")], 2),
        ([CALLS, b.user("Again.", uuid="u10"), b.assistant(b.call("d4", "Read"), id="m11", uuid="a11")], 2),
    ],
)
def test_a_question_waits_as_long_as_the_calls_of_its_reply_do(behind, start):
    assert start_of_unanswered([*ASKED, *behind]) == len(turn(1)) + start


def test_a_call_without_a_result_in_an_earlier_turn_is_over():
    later = [b.user("Again.", uuid="u10"), b.assistant("Done.", id="m11", uuid="a11")]
    assert start_of_unanswered([*ASKED, CALLS, *later]) == 0


@pytest.mark.spec("CP-37")
def test_behind_a_summary_that_nobody_has_answered_it_is_what_was_said_since():
    assert start_of_unanswered([b.summary(), b.user("And this?", uuid="u9")]) == 1
    assert start_of_unanswered([b.summary(), CALLS]) == 1
    assert start_of_unanswered([b.summary()]) == 0


@pytest.mark.parametrize(
    ("model", "window", "max_tokens", "room"),
    [
        ("claude-haiku-4-5", 200_000, 32_000, 196_000),
        ("claude-haiku-4-5", 40_000, 32_000, 36_000),
        # A reserve takes at most half of a window.
        ("claude-haiku-4-5", 6_000, 32_000, 3_000),
        # These refuse what might not fit with its answer: in the window of the model, not the configured one.
        ("claude-opus-4-1", 200_000, 32_000, 168_000),
        ("claude-opus-4-1", 200_000, 1_000, 196_000),
        ("claude-opus-4-1", 40_000, 32_000, 36_000),
    ],
)
def test_the_newest_message_may_take_all_but_a_short_answer(model, window, max_tokens, room):
    known = dataclasses.replace(model_or_default(model).model, window=window)
    assert room_for_newest(known, {"max_tokens": max_tokens}, DEFAULTS) == room


def test_a_compaction_carries_it_and_so_does_the_next_one_without_a_reply():
    bench = Bench([*turns(3), b.user("And what about <system-reminder> tags?", uuid="q")])
    first = bench.compact(AUTO)
    words = "And what about &lt;system-reminder> tags?"
    assert carried(first.restored) == [[f"{HEADING}:", words]]
    assert "the last message verbatim" in first.receipt.retained
    assert unanswered_parts(bench.log.view.records) == [words]
    for record in turn(4):
        bench.log.append(record)
    assert carried(bench.compact(AUTO).restored) == []


def test_of_a_message_as_large_as_a_book_head_and_tail_are_shown_and_the_receipt_says_so():
    lines = [f"Line {number} of it." for number in range(20_000)]
    bench = Bench([*turns(3), b.user("\n".join(lines), uuid="q")])
    made = bench.compact(AUTO)
    [[heading, shown]] = carried(made.restored)
    assert heading == f"{HEADING}; its middle is left out here and is in the transcript:"
    left_out = int(re.findall(r"\[\.\.\. ([\d,]+) characters left out \.\.\.\]", shown)[0].replace(",", ""))
    assert shown.startswith("Line 0 of it.\nLine 1 of it.")
    assert shown.endswith("Line 19999 of it.")
    assert len("\n".join(lines)) - left_out < len(shown) < 200_000
    assert f"{left_out:,} characters from the middle of the last message" in made.receipt.dropped
    assert "head and tail of the last message" in made.receipt.retained
