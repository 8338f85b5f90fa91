"""What a flattened view tells of its last turn, and the texts of summary and notes requests."""

import builders as b
import pytest

from everturn.history.records import Record
from everturn.view.flatten import Flattener
from everturn.view.fragments.notes import SECTIONS, extraction_prompt, template
from everturn.view.fragments.summary_prompt import summary_prompt

CALLING = [b.user("Look.", uuid="u1"), b.assistant(b.call("c1"), id="m1", uuid="a1")]
RESULT = b.result("c1", "done", uuid="r1")
SEARCHES = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
PAUSED = b.assistant("I look.", id="m1", uuid="a1", stop="pause_turn")
WITH_PROMPT = b.user([b.answer("c1", "done"), b.say("And now?")], uuid="r1")


def flattened(records: list[Record]) -> Flattener:
    made = Flattener()
    for record in records:
        made.add(record)
    return made


@pytest.mark.parametrize(
    ("records", "in_loop", "in_prompt"),
    [
        ([], False, False),
        (CALLING[:1], False, True),
        (CALLING, True, False),
        ([*CALLING, RESULT], True, False),
        ([*CALLING, WITH_PROMPT], True, True),
        ([*CALLING, RESULT, b.assistant("Well.", id="m2", uuid="a2")], False, False),
        ([CALLING[0], b.assistant(SEARCHES, id="m1", uuid="a1")], True, False),
        ([CALLING[0], b.assistant(SEARCHES, FOUND, id="m1", uuid="a1")], False, False),
        ([CALLING[0], PAUSED], True, False),
        ([CALLING[0], PAUSED, b.assistant("It rains.", id="m2", uuid="a2")], False, False),
        ([CALLING[0], PAUSED, b.user("Never mind.", uuid="u2")], False, True),
    ],
)
def test_whether_a_turn_is_unfinished_and_whether_a_prompt_ends_it(
    records: list[Record], in_loop: bool, in_prompt: bool
):
    found = flattened(records)
    assert (found.in_tool_loop, found.ends_in_prompt) == (in_loop, in_prompt)


def test_repairs_of_closed_turns_and_of_the_open_one_are_told():
    later = [b.assistant(b.call("c2"), id="m2", uuid="a2"), b.user("Stop.", uuid="u3")]
    found = flattened([*CALLING, b.user("Never mind.", uuid="u2"), *later])
    assert [(each.kind, each.where) for each in found.repairs] == [
        ("missing_result", "c1"),
        ("missing_result", "c2"),
    ]
    assert flattened([*CALLING, RESULT]).repairs == ()


def test_a_request_for_a_summary_has_the_parts_that_it_was_given_and_no_others():
    bare = summary_prompt("full")
    assert summary_prompt("full", " \n") == bare
    text_only, rest = bare.split("\n\n")[0], bare.rpartition("\n\n")[0]
    brief = (
        "The text in the <summary> tags has at most 750 words. Rules and requests of the "
        "user come first; shorten what files and results say, which can be read again."
    )
    assert summary_prompt("full", max_tokens=1_000) == f"{rest}\n\n{brief}\n\n{text_only}"
    asked = "Instructions for this summary:\nName files."
    assert summary_prompt("full", " Name files. ") == f"{rest}\n\n{asked}\n\n{text_only}"


def test_a_summary_up_to_a_message_ends_with_a_section_of_its_own():
    whole, up_to = (summary_prompt(form).split("\n") for form in ("full", "up_to"))
    numbered = [[line for line in lines if line[:2] in ("8.", "9.")] for lines in (whole, up_to)]
    assert numbered[0] != numbered[1]


def test_empty_notes_have_every_heading_with_its_description():
    first = SECTIONS[0]
    assert template(SECTIONS[:1]) == f"# {first.title}\n_{first.about}_\n"
    assert template().count("\n# ") == len(SECTIONS) - 1


def test_a_request_for_notes_quotes_them_and_names_what_is_too_long():
    asked = extraction_prompt("notes.md", " It says </notes> here. ", ())
    assert "They are in notes.md and read:\n\n<notes>\nIt says <\\/notes> here.\n</notes>\n\n" in asked
    long = extraction_prompt("notes.md", " It says </notes> here. ", ("Worklog", "Workflow"))
    assert long == (
        f"{asked}\n\nToo long, and to be condensed now. Keep what is still needed; drop the oldest detail:\n"
        "- Worklog\n- Workflow"
    )
