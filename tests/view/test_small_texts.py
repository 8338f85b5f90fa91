"""Fragments and forks, word by word."""

import builders as b
import pytest
from view.talks import HEAD, PARAMETERS, model, user

from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.history.log import Log
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.fragments.escaping import escaped, escaped_around_output
from everturn.view.fragments.notes import cut_here, over_file, over_section
from everturn.view.fragments.receipt import receipt
from everturn.view.fragments.reminder import attachment_words
from everturn.view.fragments.restored import exchange, exchange_text, outline
from everturn.view.fragments.stand_in import stand_in
from everturn.view.fragments.summary_message import summary_message
from everturn.view.fragments.summary_prompt import repair_prompt, summary_prompt


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"content": " a "}, "a"),
        ({"content": ["a", "", {"type": "text", "text": "b"}, None, 7, {"c": 1}]}, 'a\nb\n7\n{"c":1}'),
        ({"content": ""}, ""),
        ({"content": None, "x": 1}, '{"type":"hook","content":null,"x":1}'),
        ({"x": 1}, '{"type":"hook","x":1}'),
    ],
)
def test_the_words_of_an_attachment_are_its_content_or_all_of_it(fields, words):
    assert attachment_words(block_from_fields({"type": "hook", **fields})) == words


def test_an_attachment_that_cannot_be_read_is_shown_as_it_is():
    assert attachment_words(Block(kind="attachment", raw=b'{"type":')) == '{"type":'


def test_an_exchange_is_shown_with_its_input_and_its_result():
    text = exchange_text("Edit", {"path": "a.py", "lines": [1, 2]}, "done\n")
    asked, _, answered = text.partition("\n<")
    assert asked == "[Edit]\npath: a.py\nlines: [1,2]"
    assert answered.split("\n")[1:3] == ["done", ""]
    assert exchange("x")[1] == "x"
    assert exchange("x")[0].startswith("This call was made before the compaction.")


def test_a_summary_is_asked_for_with_the_words_that_it_may_have():
    def asked(tokens: int) -> str:
        return summary_prompt("full", max_tokens=tokens)

    (told,) = set(asked(4_000).split("\n\n")) - set(asked(0).split("\n\n"))
    assert told.startswith("The text in the <summary> tags has at most 3,000 words.")
    named = summary_prompt("full", "  Keep names. ")
    assert "Instructions for this summary:\nKeep names.\n\n" in named
    assert "Instructions for this summary" not in summary_prompt("full", "  ")


def test_a_fork_sends_its_parent_and_its_own_messages():
    parent = CapturedRequest(model(), PARAMETERS, HEAD, (user("a"),), {})
    assert make_fork(parent, (user("b"),)).all_messages == (user("a"), user("b"))


def test_a_log_waits_between_a_boundary_and_its_summary():
    log = Log([b.user("one")])
    assert log.is_compacting is False
    log.append(b.boundary())
    assert log.is_compacting is True
    log.append(b.summary())
    assert log.is_compacting is False


FULL = "This session continues an earlier conversation that ran out of context. It is summarized here."


@pytest.mark.parametrize(
    ("form", "transcript", "resuming", "parts"),
    [
        ("full", "", "with_the_user", 3),
        ("full", "/s.jsonl", "with_the_user", 4),
        ("from", "", "directly", 4),
        ("up_to", "/s.jsonl", "autonomous", 5),
    ],
)
def test_the_message_with_a_summary_has_the_parts_that_it_was_given(form, transcript, resuming, parts):
    told = summary_message(
        "In short.</session-summary>", form=form, transcript=transcript, resuming=resuming
    ).split("\n\n")
    assert len(told) == parts
    assert told[1] == "<session-summary>\nIn short.&lt;/session-summary>\n</session-summary>"
    assert (told[0] == FULL) is (form == "full")
    assert told[2].startswith("The summary is a record of what happened")
    named = f"For exact details from before (code, errors, output), read the transcript: {transcript}"
    assert (named in told) is bool(transcript)
    assert told[-1].startswith("Go on with the last task directly") is (resuming != "with_the_user")
    assert ("running autonomously" in told[-1]) is (resuming == "autonomous")


def test_a_summary_is_told_where_the_view_is_divided_and_what_it_cannot_see():
    plain = summary_prompt("up_to").split("\n\n")
    divided = summary_prompt("up_to", divided_at="Look <tool-output>", typed=["a\nb", "c"], extract="x")
    added = [part for part in divided.split("\n\n") if part not in plain]
    assert [part.split("\n")[1:] for part in added] == [
        ["<tool-output>", "x", "</tool-output>"],
        ["> Look &lt;tool-output>"],
        ["> a", "> b", "> c"],
    ]
    assert added[1].split("\n")[0] == "The earlier part ends before the message that starts like this:"
    recent = summary_prompt("from", divided_at="x")
    assert "The recent part begins with the message that starts like this:\n> x" in recent
    assert summary_prompt("full", divided_at="x") == summary_prompt("full")


def test_a_refused_summary_is_asked_for_again_with_the_reason():
    assert repair_prompt("it is empty").startswith("That summary cannot be used: it is empty. Write it again")


def test_a_receipt_has_a_line_for_each_list_that_is_not_empty():
    assert receipt(["a", "b"], [], ["c"]) == (
        "What the compaction did:\n- Kept word for word or restored: a; b.\n- No longer here: c."
    )
    assert receipt([], ["d"], []) == "What the compaction did:\n- Can be read again: d."


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "image"}, "[image]"),
        ({"type": "document"}, "[document]"),
        ({"type": "compaction", "content": "So far."}, "So far."),
        ({"type": "compaction"}, None),
        ({"type": "text", "text": "x"}, None),
    ],
)
def test_a_block_that_a_summary_request_cannot_hold_has_a_stand_in(fields, words):
    assert stand_in(block_from_fields(fields)) == (text_block(words) if words else None)


def test_files_that_were_seen_are_listed_below_their_root():
    heading = "Files that were seen before the compaction{}, each with names that it defines:"
    assert outline("", ["a.py: f"]) == (heading.format(""), "a.py: f")
    assert outline("/p/", ["<tool-output>"]) == (heading.format(", below /p/"), "&lt;tool-output>")


def test_notes_that_are_too_long_are_told_with_their_limits():
    assert over_section("Worklog", 12_000, 2_000) == '"Worklog" has about 12,000 tokens, 2,000 are allowed'
    assert over_file(12_000, 2_000) == "all sections together have about 12,000 tokens, 2,000 are allowed"
    where = "[The rest of this section is in {}; read it there if you need it]"
    assert [cut_here("/n.md"), cut_here("")] == [
        where.format("/n.md"),
        where.format("the session's notes"),
    ]


def test_tags_of_ours_are_escaped_and_the_mark_of_output_only_where_it_closes_something():
    text = "<system-reminder>a< /Session-Summary ><tool-output>x</tool-output><b>"
    assert (
        escaped(text) == "&lt;system-reminder>a&lt; /Session-Summary >&lt;tool-output>x&lt;/tool-output><b>"
    )
    assert escaped_around_output(text) == (
        "&lt;system-reminder>a&lt; /Session-Summary ><tool-output>x</tool-output><b>"
    )
