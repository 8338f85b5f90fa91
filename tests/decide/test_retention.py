"""What counts as kept, and what does not."""

import builders as b
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import broken_logs

from everturn.decide.extractive import summarize
from everturn.decide.retention import RetainedItems, Retention, measure_retention
from everturn.history.records import Record
from everturn.measure.tokens import rough


def work() -> list[Record]:
    return [
        b.user("Make parseHeader faster, please. Never push to main! yes", uuid="u1"),
        b.assistant(b.call("c1", "Read", file_path="/p/src/header.py"), id="m1"),
        b.user(
            [b.answer("c1", "<tool_use_error>File does not exist.</tool_use_error>", is_error=True)],
            uuid="r1",
        ),
        b.assistant(
            "count_blank was wrong, count_blank is right now.",
            b.call("c2", "Edit", file_path="/p/src/main.py", new_string="count_blank = other_name"),
            b.call("c3", "Edit", file_path="/p/test/main.py", new_string="x"),
            b.call("c4", "TodoWrite", todos=[{"content": "Write notes", "status": "pending"}]),
            id="m2",
        ),
    ]


@pytest.mark.spec("BY-6")
def test_each_kind_is_counted_by_containment():
    text = (
        "The user: make ParseHeader faster - please. Touched `src/main.py`; "
        "count_blank fixed; file does   not exist; to do: write notes."
    )
    found = measure_retention(work(), text)
    assert found == Retention(
        user_instructions=RetainedItems(1, 2, ("Never push to main!",)),
        paths=RetainedItems(1, 3, ("/p/src/header.py", "/p/test/main.py")),
        identifiers=RetainedItems(2, 2),
        errors=RetainedItems(1, 1),
        pending=RetainedItems(1, 1),
        tokens=rough(text),
    )
    assert found.score == pytest.approx((1 / 2 + 1 / 3 + 1 + 1 + 1) / 5)
    assert found.score_per_thousand_tokens == pytest.approx(found.score / rough(text) * 1_000)


@pytest.mark.spec("BY-6")
def test_an_empty_text_keeps_nothing_and_the_whole_conversation_everything():
    nothing = measure_retention(work(), "")
    assert [part.share for part in nothing.parts.values()] == [0, 0, 0, 0, 0]
    assert nothing.score == 0
    everything = measure_retention(
        work(), "\n".join(block.raw.decode() for record in work() for block in record.blocks)
    )
    assert [part.share for part in everything.parts.values()] == [1, 1, 1, 1, 1]


def test_a_word_inside_another_is_not_kept():
    assert (
        measure_retention([b.user("rename old_name there now")], "rename old_names there nowhere").score == 0
    )


def test_a_rephrased_sentence_counts_loosely_only():
    found = measure_retention(
        [b.user("please rename every exported constant")], "Every constant exported was to be renamed"
    )
    assert found.user_instructions == RetainedItems(0, 1, ("please rename every exported constant",))
    nearer = measure_retention(
        [b.user("please rename every exported constant")], "rename: constant, exported, every one"
    )
    assert nearer.user_instructions == RetainedItems(
        0, 1, ("please rename every exported constant",), loosely=1
    )
    assert (nearer.score, nearer.loose_score) == (0, 1)


def test_what_there_was_none_of_does_not_count():
    found = measure_retention([b.user("hello")], "anything")
    assert [part.share for part in found.parts.values()] == [None] * 5
    assert found.score == 1


def test_the_words_that_an_earlier_summary_carried_count_too():
    earlier = summarize([b.user("Never rename the public functions.", uuid="u")])
    records = [b.boundary(), b.summary(earlier.text), b.user("go on with the work", uuid="u2")]
    found = measure_retention(records, "The user said: go on with the work.")
    assert found.user_instructions == RetainedItems(1, 2, ("Never rename the public functions.",))


def test_a_refusal_of_the_user_is_no_error():
    said = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    records = [b.assistant(b.call("c", "Bash", command="x")), b.user([b.answer("c", said, is_error=True)])]
    assert measure_retention(records, "").errors == RetainedItems()


@given(broken_logs(edits=True), st.text())
def test_a_score_is_a_share_whatever_is_scored(records, text):
    found = measure_retention(records, text)
    assert 0 <= found.score <= found.loose_score <= 1
    assert all(part.kept + len(part.lost) == part.total for part in found.parts.values())
    assert found == measure_retention(records, text)


@given(broken_logs())
def test_a_summary_with_room_enough_keeps_all_that_the_user_said(records):
    assert measure_retention(records, summarize(records).text).user_instructions.lost == ()
