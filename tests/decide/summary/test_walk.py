"""What the one walk over the records finds, and what it leaves alone."""

import builders as b
import pytest

from everturn.decide.extractive.reading.facts import FileWork, QuotedText, TaskItem, ToolAction, ToolFailure
from everturn.decide.extractive.reading.sentences import (
    announcements,
    conclusions,
    identifiers,
    standing_rules,
)
from everturn.decide.extractive.reading.walk import extract_facts, human_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fix it", "fix it"),
        ("<b>bold</b> is what I want", "<b>bold</b> is what I want"),
        ("<system-reminder>be kind</system-reminder>", ""),
        ("<system-reminder>be kind</system-reminder>\nfix it", "fix it"),
        ("<ide_opened_file>a.py</ide_opened_file><ide_selection>x</ide_selection> fix it", "fix it"),
        ("<task-notification>\nall of it</task-notification>\nFull transcript at: /x", ""),
        ("<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>", ""),
        ("[Request interrupted by user for tool use]", ""),
        ("[WIP] is the prefix I want", "[WIP] is the prefix I want"),
        ("<bash-input>git pull</bash-input>", "! git pull"),
        (
            "<command-message>plan</command-message>\n<command-name>/plan</command-name>\n"
            "<command-args>no small commits</command-args>",
            "/plan no small commits",
        ),
    ],
)
def test_the_words_of_a_person_are_told_from_those_of_the_harness(text, words):
    assert human_words(b.user(text, uuid="u")) == words


@pytest.mark.spec("FLAT-7")
def test_meta_records_summaries_and_what_is_in_the_transcript_alone_are_nobodys_words():
    hidden = ({"isMeta": True}, {"isVisibleInTranscriptOnly": True}, {"isVirtual": True})
    flagged = [*(b.user("x", **flag) for flag in hidden), b.summary("x"), b.assistant("x")]
    assert [human_words(each) for each in flagged] == [""] * len(flagged)


def test_a_picture_of_the_user_leaves_its_mark():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    assert human_words(b.user([picture, b.say("like this")], uuid="u")) == "[image]\nlike this"


@pytest.mark.parametrize(
    ("tool", "inputs", "work"),
    [
        ("Read", {"file_path": "/a"}, FileWork("/a", read=1)),
        ("Edit", {"file_path": "/a", "new_string": "x"}, FileWork("/a", edited=1, new_text="x")),
        ("Write", {"file_path": "/a", "content": "x"}, FileWork("/a", wrote=1, new_text="x")),
        (
            "MultiEdit",
            {"file_path": "/a", "edits": [{"new_string": "x"}, {"new_string": "y"}]},
            FileWork("/a", edited=1, new_text="y"),
        ),
        ("NotebookEdit", {"notebook_path": "/a", "new_source": "x"}, FileWork("/a", edited=1, new_text="x")),
        ("str_replace_editor", {"command": "view", "path": "/a"}, FileWork("/a", read=1)),
        (
            "str_replace_editor",
            {"command": "create", "path": "/a", "file_text": "x"},
            FileWork("/a", wrote=1, new_text="x"),
        ),
        (
            "str_replace_based_edit_tool",
            {"command": "str_replace", "path": "/a", "new_str": "x"},
            FileWork("/a", edited=1, new_text="x"),
        ),
        ("Read", {"file_path": ["no", "path"], "path": 3}, FileWork("no path", read=1)),
    ],
)
def test_a_call_says_what_it_did_to_which_file(tool, inputs, work):
    facts = extract_facts([b.assistant(b.call("c", tool, **inputs)), b.result("c")])
    assert facts.files == {work.path: work}


def test_a_patch_may_touch_several_files():
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n+x\n*** Add File: b.py\n+y\n*** End Patch"
    facts = extract_facts([b.assistant(b.call("c", "apply_patch", input=patch)), b.result("c")])
    assert {path: work.edited for path, work in facts.files.items()} == {"a.py": 1, "b.py": 1}
    assert facts.state.uncommitted == ("a.py", "b.py")
    assert [deed.target for deed in facts.changes] == ["a.py", "b.py"]


def test_files_are_in_the_order_of_their_last_use():
    calls = [b.call(f"c{at}", "Read", file_path=path) for at, path in enumerate(("/a", "/b", "/a"))]
    results = [b.result(f"c{at}") for at in range(3)]
    assert list(extract_facts([b.assistant(*calls), *results]).files) == ["/b", "/a"]


def test_a_failure_knows_what_was_done_next_and_what_the_user_said():
    facts = extract_facts(
        [
            b.assistant(b.call("c1", "Bash", command="go test ./..."), id="m1"),
            b.result("c1", "ok  a\n--- FAIL: TestB (0.1s)\nFAIL"),
            b.user("that one is flaky", uuid="u"),
            b.assistant(b.call("c2", "Read", file_path="/b_test.go"), id="m2"),
            b.result("c2", "--- FAIL is only quoted here"),
            b.assistant(b.call("c3", "Edit", file_path="/b_test.go", new_string="x"), id="m3"),
        ]
    )
    ran, edited = (
        ToolAction("c1", "Bash", "ran", "go test ./..."),
        ToolAction("c3", "Edit", "edited", "/b_test.go", "x"),
    )
    lines = ("--- FAIL: TestB (0.1s)",)
    assert facts.failures == (ToolFailure(ran, lines, edited, "that one is flaky"),)
    assert facts.failed == {"c1"}
    assert facts.unanswered == (edited,)


def test_a_refusal_is_the_users_word_and_no_failure():
    said = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. "
        "The user provided the following reason for the rejection:  use pnpm"
    )
    facts = extract_facts(
        [
            b.assistant(b.call("c", "Bash", command="npm i")),
            b.user([b.answer("c", said, is_error=True)], uuid="r"),
        ]
    )
    assert facts.failures == ()
    assert facts.corrections == (QuotedText("use pnpm", "r", "Bash npm i"),)
    assert facts.refused == {"c": "use pnpm"}


def test_tasks_made_one_by_one_go_by_the_number_of_their_result():
    facts = extract_facts(
        [
            b.assistant(
                b.call("c1", "TaskCreate", subject="first"), b.call("c2", "TaskCreate", subject="second")
            ),
            b.result("c1", "Task #7 created successfully: first"),
            b.result("c2", "Task #8 created successfully: second"),
            b.assistant(b.call("c3", "TaskUpdate", taskId="7", status="completed"), id="m2"),
            b.assistant(b.call("c4", "TaskUpdate", taskId="8", status="in_progress"), id="m3"),
        ]
    )
    assert facts.tasks == (TaskItem("first", "completed"), TaskItem("second", "in_progress"))


def test_the_last_whole_list_of_tasks_counts():
    plan = [{"step": "measure", "status": "in_progress"}, {"step": "write", "status": "pending"}, "odd"]
    facts = extract_facts(
        [
            b.assistant(b.call("c1", "TodoWrite", todos=[{"content": "old", "status": "pending"}])),
            b.assistant(b.call("c2", "update_plan", plan=plan), id="m2"),
        ]
    )
    assert facts.tasks == (TaskItem("measure", "in_progress"), TaskItem("write"))


def test_thinking_and_what_tools_answered_are_not_spoken_words():
    facts = extract_facts(
        [
            b.assistant(
                b.think("hidden_thought_name"), b.call("c", "Read", file_path="/a"), "spoken_name_here"
            ),
            b.result("c", "name_in_a_result"),
        ]
    )
    assert dict(facts.words) == {"spoken_name_here": 1}
    assert facts.statements[0].text == "spoken_name_here"


def test_rules_conclusions_and_announcements_are_recognised():
    text = "Never push. Why don't you look? Use bun. It was slow. Do not touch the schema.\nThanks!"
    assert list(standing_rules(text, 300)) == ["Never push.", "Use bun.", "Do not touch the schema."]
    said = "I looked. It is slow because the index is missing there. Next I will add the index to it. Done."
    assert list(conclusions(said, 300)) == ["It is slow because the index is missing there."]
    assert list(announcements(said, 300)) == ["Next I will add the index to it."]


def test_an_identifier_has_an_underscore_or_a_capital_inside():
    words = ["parse_header", "parseHeader", "ParseHeader", "header", "Header", "HEADER", "__init", "sha256x"]
    assert identifiers(words) == ["parse_header", "parseHeader", "ParseHeader"]
