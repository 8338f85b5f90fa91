"""The user's last message, where nobody has answered it: word for word through any compaction."""

from typing import Any

import builders as b
from decide.compact.bench import AUTO, Bench, turn, turns

from everturn.decide.compact.unanswered import UNANSWERED, unanswered
from everturn.history.blocks import fields_of
from everturn.history.records import Record

HEADING = "What the user said last, word for word, and has no answer to yet"


def carried(records: tuple[Record, ...]) -> list[Any]:
    return [fields_of(each.blocks[0])["content"] for each in records if each.subtype == UNANSWERED]


def test_what_was_said_behind_the_last_answer_is_unanswered():
    said = [*turn(1), b.user("First this.", uuid="u8"), b.user("Then that.", uuid="u9")]
    assert unanswered(said) == "First this.\n\nThen that."


def test_an_answer_a_result_and_our_own_words_are_no_question():
    assert unanswered(turn(1)) == ""
    assert unanswered([*turn(1), b.user("<system-reminder>x</system-reminder>", uuid="m", isMeta=True)]) == ""
    called = [b.user("Go on.", uuid="u1"), b.assistant(b.call("c1", "Read"), id="m1", uuid="a1")]
    assert unanswered([*called, b.user([b.answer("c1", "text")], uuid="r1")]) == ""


def test_a_compaction_carries_it_and_so_does_the_next_one_without_a_reply():
    bench = Bench([*turns(3), b.user("And what about <system-reminder> tags?", uuid="q")])
    first = bench.compact(AUTO)
    words = "And what about &lt;system-reminder> tags?"
    assert carried(first.restored) == [[f"{HEADING}:", words]]
    assert "the user's last message verbatim" in first.receipt.retained
    assert unanswered(bench.log.view.records) == words
    for record in turn(4):
        bench.log.append(record)
    assert carried(bench.compact(AUTO).restored) == []


def test_a_message_as_large_as_a_book_is_cut_and_says_so():
    bench = Bench([*turns(3), b.user("A line of it.\n" * 20_000, uuid="q")])
    [[heading, shown]] = carried(bench.compact(AUTO).restored)
    assert heading == f"{HEADING}; only its beginning is shown, the rest is in the transcript:"
    assert 10_000 < len(shown) < 60_000
