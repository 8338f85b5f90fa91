"""What counts as kept, what does not, and what counts against a summary."""

import builders as b
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import broken_logs

from everturn.decide.extractive import summarize
from everturn.decide.retention import (
    RetainedItems,
    Retention,
    RetentionFigures,
    ScoredSummary,
    measure_retention,
)
from everturn.history.records import Record
from everturn.measure.tokens import rough

pytestmark = pytest.mark.spec("BY-6")


def work() -> list[Record]:
    return [
        b.user("Make parseHeader faster, please. Never push to main! yes", uuid="u1"),
        b.assistant(b.call("c0", "Read", file_path="/p/src/header.py"), id="m0"),
        b.result("c0"),
        b.assistant(b.call("c1", "Read", file_path="/p/src/gone.py"), id="m1"),
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
        b.user([b.answer("c2"), b.answer("c3"), b.answer("c4")], uuid="r2"),
    ]


def test_each_kind_is_counted_by_what_the_text_says():
    text = (
        "The user: make ParseHeader faster - please. Touched `src/main.py`; "
        "count_blank fixed; file does   not exist; to do: write notes."
    )
    found = measure_retention(work(), text)
    request = "Make parseHeader faster, please. Never push to main! yes"
    assert found == Retention(
        user_instructions=RetainedItems(1, 2, ("Never push to main!",), weighed=1 / 2),
        pending=RetainedItems(1, 2, loosely=1),
        last_words=RetainedItems(0, 4, ("count_blank was wrong, count_blank is right now.",), 3, 1 - 1 / 3),
        paths=RetainedItems(1, 3, ("/p/src/header.py", "/p/test/main.py"), weighed=1 - 2 / 3),
        identifiers=RetainedItems(2, 2),
        errors=RetainedItems(1, 1),
        tokens=rough(text),
    )
    assert request not in found.pending.lost
    weights = {"user_instructions": 3, "pending": 2, "last_words": 2, "paths": 0.5, "identifiers": 0.5}
    kept = sum(weight * found.parts[name].weighed for name, weight in weights.items()) + 0.25
    assert found.score == pytest.approx(kept / (sum(weights.values()) + 0.25))
    assert found.figures == RetentionFigures(
        score=round(found.score, 2),
        kept={
            "user_instructions": (1, 2), "pending": (2, 2), "last_words": (3, 4), "paths": (1, 3),
            "identifiers": (2, 2), "errors": (1, 1),
        },
    )  # fmt: skip


def test_an_empty_text_keeps_nothing_and_the_whole_conversation_everything():
    nothing = measure_retention(work(), "")
    assert {part.share for part in nothing.parts.values() if part.total} == {0}
    assert nothing.score == 0
    everything = measure_retention(
        work(), "\n".join(block.raw.decode() for record in work() for block in record.blocks)
    )
    assert {part.loose_share for part in everything.parts.values() if part.total} == {1}
    assert everything.score == 1


def test_a_word_inside_another_is_not_kept():
    assert (
        measure_retention([b.user("rename old_name there now")], "rename old_names there nowhere").score == 0
    )


def test_a_rephrased_sentence_counts_if_its_words_are_close_together():
    said = "please rename every exported constant"
    near = measure_retention([b.user(said)], "Every constant exported was to be renamed")
    assert near.user_instructions == RetainedItems(0, 1, loosely=1)
    filler = "nothing of this belongs here " * 30
    far = measure_retention([b.user(said)], f"A constant. {filler} It is exported. {filler} They rename it.")
    assert far.user_instructions == RetainedItems(0, 1, (said,), weighed=0)


def test_what_there_was_none_of_does_not_count():
    found = measure_retention([], "anything")
    assert [part.share for part in found.parts.values()] == [None] * 9
    assert found.score == 1


def test_old_words_of_the_user_weigh_less_than_new_ones():
    said = ["rename the lexer", "document every option", "remove dead branches", "measure parsing speed"]
    records = [b.user(words, uuid=words) for words in said]
    new, old = (
        measure_retention(records, "\n".join(kept)).user_instructions.weighed
        for kept in (said[1:], said[:-1])
    )
    assert (new, old) == (pytest.approx(3 / 3.25), pytest.approx(2.25 / 3.25))


def test_the_words_that_an_earlier_summary_carried_count_too():
    earlier = summarize([b.user("Never rename the public functions.", uuid="u")])
    records = [b.boundary(), b.summary(earlier.text), b.user("go on with the work", uuid="u2")]
    found = measure_retention(records, "The user said: go on with the work.")
    assert found.user_instructions == RetainedItems(
        1, 2, ("Never rename the public functions.",), weighed=1 / 2
    )


def test_a_refusal_of_the_user_is_no_error():
    said = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    records = [b.assistant(b.call("c", "Bash", command="x")), b.user([b.answer("c", said, is_error=True)])]
    assert measure_retention(records, "").errors == RetainedItems()


CLAIMED = "says done or passed, but failed when last run: pytest"


def failing() -> list[Record]:
    return [
        b.user("make the login test pass", uuid="u1"),
        b.assistant("It is the clock.\n\n1. mock it\n2. wait for it\n\nWhich one?", id="m1"),
        b.user("2", uuid="u2"),
        b.assistant("I wait for it.", b.call("c1", "Bash", command="pytest tests"), id="m2"),
        b.user([b.answer("c1", "FAILED tests/test_login.py::test_token\n1 failed", is_error=True)], uuid="r"),
    ]


def test_outcomes_decisions_and_open_items_are_looked_for():
    found = measure_retention(failing(), "The user wants to wait for the clock. test_token still fails.")
    assert found.decisions == RetainedItems(0, 1, loosely=1)
    assert found.outcomes == RetainedItems(0, 2, loosely=2)
    assert found.pending.lost == ("2",)
    nothing = measure_retention(failing(), "All is well.")
    assert (nothing.decisions.weighed, nothing.outcomes.weighed, nothing.pending.weighed) == (0, 0, 0)


def test_corrections_are_looked_for():
    records = [
        b.user("rename it", uuid="u1"),
        b.assistant("Renamed.", id="m1"),
        b.user("No, keep the public name.", uuid="u2"),
    ]
    assert measure_retention(records, "The user corrected: keep the public name").corrections.total == 1
    assert measure_retention(records, "It was renamed.").corrections.lost == ("No, keep the public name.",)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("7. Pending tasks:\n   - None.\n", "says that nothing is pending, but open is: pytest tests"),
        ("7. Pending tasks:\n\n   - None.\n", "says that nothing is pending, but open is: pytest tests"),
        ("8. Current work:\n   pytest tests passed.\n", CLAIMED),
        ("8. Current work:\n   All tests pass now.\n", CLAIMED),
    ],
)  # fmt: skip
def test_a_statement_that_the_log_contradicts_counts_against(text, wrong):
    found = measure_retention(failing(), text)
    assert found.wrong == (wrong,)
    right = measure_retention(failing(), text.replace("None", "fix it").replace("pass", "do not pass"))
    assert right.wrong == ()
    assert found.score <= max(0, right.score)


def test_a_wrong_statement_costs_more_than_it_can_gain():
    full = summarize(failing()).text
    claimed = full.replace("failed when last run", "passed when last run").replace(", failed", ", passed")
    assert measure_retention(failing(), full).wrong == ()
    assert measure_retention(failing(), claimed).score == pytest.approx(
        measure_retention(failing(), full).score - 0.15, abs=0.02
    )


def test_nothing_pending_is_right_where_nothing_is():
    records = [b.user("say hello to me"), b.assistant("Hello to you.", id="m1")]
    assert measure_retention(records, "7. Pending tasks:\n   (none)").wrong == ()


def test_size_beyond_what_a_summary_needs_counts_against():
    text = summarize(work()).text
    longer = text + "\n" + "nothing at all " * 2_000
    short, long = (measure_retention(work(), each) for each in (text, longer))
    assert long.score == pytest.approx(short.score - 0.02 * (long.tokens - 2_000) / 1_000)


@given(broken_logs(edits=True), st.text())
def test_a_score_is_a_share_whatever_is_scored(records, text):
    found = measure_retention(records, text)
    assert 0 <= found.score <= 1
    assert all(part.kept + part.loosely + len(part.lost) == part.total for part in found.parts.values())
    assert all(0 <= part.weighed <= 1 for part in found.parts.values())
    assert found == measure_retention(records, text)


@given(broken_logs())
def test_a_summary_with_room_enough_keeps_all_that_the_user_said(records):
    assert measure_retention(records, summarize(records).text).user_instructions.lost == ()


def test_a_path_is_kept_whichever_way_its_slashes_lean():
    records = [b.assistant(b.call("c1", "Read", file_path="/p/src/header.py"), id="m1"), b.result("c1")]
    assert measure_retention(records, "see src\\header.py").paths.lost == ()
    assert measure_retention(records, "see src header py").paths.lost == ("/p/src/header.py",)


def test_words_that_are_scattered_over_a_long_text_say_nothing():
    """Nearly the same words count in one passage, which may lie anywhere."""
    records = [b.user("Rewrite the tokenizer grammar before changing anything elsewhere", uuid="u1")]
    said = "the tokenizer grammar must be rewritten, before anything is changed elsewhere"
    filler = "and so it went on " * 40
    near = measure_retention(records, f"{filler}{said} {filler}")
    far = measure_retention(records, filler.join(said.split()))
    assert (near.user_instructions.lost, near.user_instructions.loosely) == ((), 1)
    assert far.user_instructions.lost == ("Rewrite the tokenizer grammar before changing anything elsewhere",)
    assert measure_retention(records, said).user_instructions.loosely == 1


def test_an_offer_that_nobody_answered_is_still_open():
    records = [
        b.user("Fix the parser.", uuid="u1"),
        b.assistant("Done. Would you like me to add a benchmark for the tokenizer?", id="m1", uuid="a1"),
        b.user("What does the lexer do exactly?", uuid="u2"),
        b.assistant("It reads the characters of the file, one by one.", id="m2", uuid="a2"),
    ]
    lost = measure_retention(records, "nothing").pending.lost
    assert lost == ("Done. Would you like me to add a benchmark for the tokenizer?",)


def test_a_statement_of_common_words_alone_is_kept_only_word_for_word():
    records = [b.user("do it as you like", uuid="u1")]
    assert measure_retention(records, "as you like it, do").user_instructions.lost == ("do it as you like",)
    assert measure_retention(records, "Do it as you like!").user_instructions.lost == ()


def test_files_that_were_written_or_edited_since_the_last_message_are_last_words():
    def call(at: int, tool: str, path: str, **more: str) -> list[Record]:
        called = b.assistant(b.call(f"c{at}", tool, file_path=path, **more), id=f"m{at}", uuid=f"a{at}")
        return [called, b.result(f"c{at}")]

    records = [
        *call(1, "Edit", "/p/old.py", new_string="x"),
        b.user("go", uuid="u1"),
        *call(2, "Write", "/p/new.md", content="y"),
        *call(3, "Edit", "/p/main.py", new_string="x"),
        *call(4, "Read", "/p/read.py"),
    ]
    assert measure_retention(records, "nothing").last_words.lost == ("go", "/p/new.md", "/p/main.py")


def test_words_that_begin_with_the_same_six_letters_are_the_same():
    said = b.user("summarise documents quickly")
    same = measure_retention([said], "quickness: a summary of the documentation")
    assert same.user_instructions == RetainedItems(0, 1, loosely=1)
    other = measure_retention([said], "quicker: a summit of the doctrine")
    assert other.user_instructions == RetainedItems(0, 1, ("summarise documents quickly",), weighed=0)


def test_the_last_four_reports_are_outcomes():
    records: list[Record] = []
    for at in range(6):
        records.append(b.user(f"Question number {at}, please.", uuid=f"u{at}"))
        records.append(b.assistant(f"Finished part{at} of the importer.", id=f"m{at}"))
    records.append(b.user("And now?", uuid="u6"))
    found = measure_retention(records, "Nothing.").outcomes
    assert found.lost == tuple(f"Finished part{at} of the importer." for at in range(2, 6))


def test_the_first_word_of_a_text_is_looked_at():
    found = measure_retention([b.user("rename the constants")], "Constants are to be renamed.")
    assert found.user_instructions == RetainedItems(0, 1, loosely=1)


def test_errors_are_those_of_results_that_were_sent():
    failed = b.answer("c1", "Error: it broke badly", is_error=True)
    shown = b.user([failed], uuid="r1", isVirtual=True)
    sent = b.user([failed], uuid="r2")
    for records, total in (([shown], 0), ([sent], 1), ([b.assistant(failed)], 0)):
        found = measure_retention([b.user("go"), b.assistant(b.call("c1"), id="m0"), *records], "")
        assert found.errors.total == total


def test_whoever_prints_a_scored_summary_does_not_print_the_conversation():
    records = (b.user("a secret"), b.assistant("kept"))
    assert repr(ScoredSummary(records, "In short.")) == "ScoredSummary(<2 records>)"


def test_a_path_is_named_by_the_shortest_end_that_no_other_has():
    calls = [
        record
        for at, path in enumerate(("/p/one/a.py", "/p/two/a.py", "/p/b.py"))
        for record in (b.assistant(b.call(f"c{at}", "Read", file_path=path), id=f"m{at}"), b.result(f"c{at}"))
    ]
    records = [b.user("go"), *calls]
    lost = {
        text: measure_retention(records, text).paths.lost
        for text in ("b.py", "a.py b.py", "one/a.py", "two\\a.py, b.py", "xb.py")
    }
    every = ("/p/one/a.py", "/p/two/a.py", "/p/b.py")
    assert lost == {
        "b.py": every[:2],
        "a.py b.py": every[:2],
        "one/a.py": every[1:],
        "two\\a.py, b.py": every[:1],
        "xb.py": every,
    }


def test_sentences_of_the_user_count_up_to_their_limits():
    def total(text: str) -> int:
        return measure_retention([b.user(text)], "").user_instructions.total

    assert [total("so it is " + "x" * length) for length in (391, 392)] == [1, 0]
    assert [total("one two three"), total("one two")] == [1, 0]
    # Of a long message only its beginning and its end are the user's own words.
    many = [f"Sentence number {at} of all. " for at in range(200)]
    short = "".join(many[:50])
    assert len(short) <= 1_500
    assert [total(short), total("".join(many))] == [50, 4]


def test_errors_are_compared_by_their_first_twelve_words():
    words = [f"word{at}" for at in range(20)]
    failed = b.user([b.answer("c1", "Error: " + " ".join(words), is_error=True)], uuid="r1")
    records = [b.user("go"), b.assistant(b.call("c1"), id="m0"), failed]
    kept = [measure_retention(records, "Error: " + " ".join(words[:count])).errors.kept for count in (10, 11)]
    assert kept == [0, 1]


def test_a_conflict_is_kept_if_its_file_is_named():
    merged = "CONFLICT (content): Merge conflict in src/reader.py"
    records = [
        b.user("merge it"),
        b.assistant(b.call("c1", "Bash", command="git merge x"), id="m1"),
        b.user([b.answer("c1", merged, is_error=True)], uuid="r1"),
    ]
    found = [measure_retention(records, text).pending for text in ("Still open: reader.py", "Nothing.")]
    kept = [each.kept + each.loosely for each in found]
    assert kept[0] == kept[1] + 1


def test_plan_mode_is_an_open_item():
    records = [b.user("plan it", permissionMode="plan"), b.assistant("Here is what I found out so far.")]
    found = [measure_retention(records, text).pending.kept for text in ("Plan mode is on.", "All is well.")]
    assert found[0] == found[1] + 1


def test_names_of_code_have_to_be_there_word_for_word():
    records = [b.user("Rename read_all_rows and parse_header_line in the reader.")]
    near = "The functions read_all_row and parse_header_lines were renamed in the reader."
    assert measure_retention(records, near).identifiers.kept == 0
    assert measure_retention(records, near).identifiers.loosely == 0
    same = "read_all_rows and parse_header_line"
    assert measure_retention(records, same).identifiers.kept == 2


def test_a_request_that_nobody_answered_is_open_whatever_a_summary_says():
    text = "7. Pending tasks:\n   - None.\n"
    asked = b.user("Write the parser and its tests.")
    wrong = [
        measure_retention(records, text).wrong
        for records in ([asked], [asked, b.assistant("It is written.")])
    ]
    assert wrong == [
        ("says that nothing is pending, but open is: Write the parser and its tests.",),
        (),
    ]


def test_of_a_long_message_only_the_ends_are_the_user_s_own_words():
    many = [f"Sentence number {at} of all. " for at in range(60)]
    text = "".join(many)
    assert 1_500 < len(text) < 2_000
    assert measure_retention([b.user(text)], "").user_instructions.total == 4


def test_a_file_that_was_changed_last_is_named_by_its_last_part_whichever_way_its_slashes_lean():
    path = "C:\\p\\reader.py"
    edit = b.assistant(b.call("c1", "Edit", file_path=path, old_string="a", new_string="b"), id="m1")
    records = [b.user("Change it."), edit, b.result("c1")]
    found = [measure_retention(records, text).last_words for text in ("reader.py", "nothing")]
    assert found[0].kept + found[0].loosely == found[1].kept + found[1].loosely + 1
