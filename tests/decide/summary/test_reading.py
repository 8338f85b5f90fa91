"""What is read from single texts: agents' reports, sentences, failures, modes, changes by others, calls."""

import builders as b
import pytest

from everturn.decide.authorship import label_agent_pin, typed_words, without_wrapped
from everturn.decide.extractive.reading import failures, modes, user_edits
from everturn.decide.extractive.reading.agents import AgentReports
from everturn.decide.extractive.reading.calls import read_tool_actions, read_tool_input
from everturn.decide.extractive.reading.facts import AgentReport, QuotedText
from everturn.decide.extractive.reading.runs import CommandRuns
from everturn.decide.extractive.reading.sentences import (
    announcements,
    conclusions,
    definitions,
    identifiers,
    long_words,
    sentence_naming,
    sentences,
    standing_rules,
)
from everturn.decide.extractive.reading.turns import Turns
from everturn.decide.extractive.reading.walk import extract_facts
from everturn.decide.extractive.writing.wording import all_titles, titles
from everturn.history.blocks import Block, block_from_fields, block_from_json
from everturn.history.records import Record
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE


def block(fields: b.Fields) -> Block:
    return block_from_fields(fields)


def result(text: object, **more: object) -> Block:
    return block(b.answer("c1", text, **more))


# ── agents ──


def notice(**parts: str) -> str:
    inner = "".join(
        f"<{name.replace('_', '-')}>{text}</{name.replace('_', '-')}>" for name, text in parts.items()
    )
    return f"<task-notification>{inner}</task-notification>"


def test_an_agent_that_was_launched_runs_until_its_notice_comes():
    agents = AgentReports()
    agents.returned("search", "Async agent launched. agentId: a1 (keep)", "r1", failed=False)
    agents.returned("review", "Agent launched", "r2", failed=False)
    assert (agents.running(), agents.all()) == (("search", "review"), ())
    agents.notified(notice(task_id="a1", status="completed", result="All clear."), "r3")
    assert agents.running() == ("review",)
    assert agents.all() == (AgentReport("search", "All clear.", "r3", False),)


@pytest.mark.parametrize(("status", "failed"), [("failed", True), ("killed", True), ("completed", False)])
def test_a_notice_says_whether_the_agent_failed(status, failed):
    agents = AgentReports()
    agents.notified(notice(status=status, summary="search", result="It ended."), "r1")
    assert agents.all() == (AgentReport("search", "It ended.", "r1", failed),)


def test_a_notice_of_a_known_agent_without_a_result_tells_its_summary():
    agents = AgentReports()
    agents.returned("search", "agent launched, agentId: a1", "r1", failed=False)
    agents.notified(notice(task_id="a1", summary="stopped early"), "r2")
    assert agents.all() == (AgentReport("search", "stopped early", "r2", False),)


def test_words_that_only_mention_a_notice_and_notices_of_others_are_no_reports():
    agents = AgentReports()
    agents.notified("x" * 400 + notice(result="no"), "r1")
    agents.notified(notice(task_id="a9", summary="a command ended"), "r2")
    agents.notified("<result>no</result>", "r3")
    assert agents.all() == ()


def test_a_report_that_is_fetched_is_told_without_the_remarks_of_the_harness():
    agents = AgentReports()
    agents.returned("search", "agent launched agentId: a1", "r1", failed=False)
    agents.returned(
        "output", "<task_id>a1</task_id><status>running</status><output>half</output>", "r2", failed=False
    )
    agents.returned("output", "local_bash <task_id>b1</task_id><output>lines</output>", "r3", failed=False)
    assert (agents.running(), agents.all()) == (("search",), ())
    said = "[Tool: Read]\n--- RESULT ---\nFound it.\nagentId: a1 (for resuming)\n<usage>9</usage>"
    agents.returned("output", f"<task_id>a1</task_id><output>{said}</output>", "r4", failed=True)
    agents.returned("plain", "Just words.\n<total_tokens>1</total_tokens>", "r5", failed=False)
    agents.returned("silent", "<usage>9</usage>", "r6", failed=False)
    assert agents.running() == ()
    assert agents.all() == (
        AgentReport("search", "Found it.", "r4", True),
        AgentReport("plain", "Just words.", "r5", False),
    )


# ── whose words ──


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("fix it", "fix it"),
        ("fix it\n<log>a</log> and b</log>\nnow", "fix it\n\n\nnow"),
        ("fix it\n<log>never closed\nnow", "fix it\n"),
        ("<b>bold</b> stays", "<b>bold</b> stays"),
        ("a\n\u200b <x>1</x>\n<y>2</y>b", "a\n\n\n\nb"),
    ],
)
def test_what_programs_added_among_typed_words_is_left_out(text, kept):
    assert without_wrapped(text) == kept


def test_wrappers_without_end_are_nobody_s_words():
    reminder = "<system-reminder>x"
    assert typed_words(reminder) == ""
    nested = "".join(f"<ide_{at}>x</ide_{at}>" for at in range(19))
    assert typed_words(f"{nested}fix it") == "fix it"
    assert typed_words(f"{nested}<ide_z>x</ide_z>fix it") == ""
    lines = "".join(f"\n<x{at}>a</x{at}>" for at in range(21))
    assert "fix it" not in without_wrapped(f"{lines}\nfix it")


def test_a_pin_of_an_agent_says_so_on_its_only_line():
    assert label_agent_pin(" a\n b ") == "[pinned by the agent, not by the user] a b"


# ── sentences ──


def test_sentences_end_at_marks_and_lines_and_lose_their_bullets():
    assert sentences("One. Two! Three?\n- four\n\n> # five * ") == ["One.", "Two!", "Three?", "four", "five"]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Never push to main.", ["Never push to main."]),
        ("Should I never push?", []),
        ("a.py:12: must be 3", []),
        ("Use tabs. It works.", ["Use tabs."]),
        ("I don't remember it.", []),
        ("I do not know it.", []),
        ("Remember the tabs.", ["Remember the tabs."]),
        ("Don't forget tabs.", ["Don't forget tabs."]),
        ("Always test, in every case there is.", []),
    ],
)
def test_a_rule_is_a_short_statement_that_holds_beyond_its_message(text, rules):
    assert list(standing_rules(text, 20)) == rules


def test_a_conclusion_is_the_sentence_around_a_telling_word_within_its_limits():
    text = "Well. It fails because the header is cut off! So the root cause, because of it, is known? Yes."
    first, second = "It fails because the header is cut off!", "So the root cause, because of it, is known?"
    assert list(conclusions(text, len(second))) == [first, second]
    assert list(conclusions(text, len(second) - 1)) == [first]
    assert list(conclusions("I see why, because.\nIt broke because it can.", 100)) == [
        "It broke because it can."
    ]


def test_an_announcement_may_begin_with_next_and_a_comma():
    said = "The parser is done. Next, I change the writer. What comes next is open."
    assert list(announcements(said, 99)) == ["Next, I change the writer."]


def test_an_announcement_that_introduces_a_call_is_none():
    assert list(announcements("Next I change the parser.\nNow let me read the file:", 99)) == [
        "Next I change the parser."
    ]


def test_the_last_sentence_with_a_name_is_found():
    text = "We call parse. Then parse fails. Nothing else."
    assert sentence_naming(text, "parse") == "Then parse fails."
    assert sentence_naming(text, "render") == ""
    assert sentence_naming("- parse it\nmore", "parse") == "parse it"


def test_names_of_code_are_told_from_words():
    code = (
        "  export async function loadAll() {}\nclass Parser:\n    def ab(self): ...\nfunc (p *P) Read() {}\n"
    )
    assert definitions(code) == ["loadAll", "Parser", "Read"]
    assert long_words("parse parser read_all Größe x_y") == ["parser", "read_all"]
    assert identifiers(["parser", "read_all", "loadAll", "_x", "a__b"]) == ["read_all", "loadAll", "a__b"]


# ── failures ──


def test_a_flag_makes_an_error_and_a_broken_block_does_not():
    assert failures.is_error(result("x", is_error=True))
    assert not failures.is_error(result("x", is_error=False))
    assert not failures.is_error(result('"is_error": true'))
    broken = block_from_json(b'{"type":"tool_result","tool_use_id":"c1","is_error":"yes"}')
    assert not failures.is_error(broken)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Error: no file", True),
        ("\n\tValueError: x", True),
        ("Failed to read", True),
        ('{"error": 1}', True),
        ("No error", False),
        ("errors are rare", False),
    ],
)
def test_a_result_without_a_flag_is_an_error_by_its_first_word(text, begins):
    assert failures.begins_with_error(result(text)) is begins


def test_a_refusal_is_recognised_and_its_words_are_found():
    refused = (
        "The user doesn't want to proceed with this tool use. To tell you how, the user said:\n use git "
    )
    assert failures.was_refused(refused)
    assert failures.words_of_refusal(refused) == "use git"
    ours = "PermissionDenied: the user said no to: rm"
    assert (failures.was_refused(ours), failures.words_of_refusal("no words")) == (True, "")
    assert not failures.was_refused("the user said no")


def test_the_first_line_has_content():
    assert failures.first_line("<error>\nExit code 1\n=====\n  real line \nmore</error>") == "real line"
    assert failures.first_line("=== test session starts ===\n") == ""


def test_telling_lines_are_the_first_one_and_the_last_that_name_the_failure():
    failed = [f"FAILED test_{at}" for at in range(6)]
    text = "\n".join(["begin", "a.py:1: x", *failed, "6 failed in 1s"])
    assert failures.telling_lines(result(text)) == ("begin", *failed[2:])
    errors = [f"error: e{at}" for at in range(6)]
    assert failures.telling_lines(result("\n".join(["$ make", *errors, errors[5]]))) == tuple(errors[2:])
    assert failures.telling_lines(result("one\ntwo\n---\n</x>\n")) == ("one", "two")
    assert failures.telling_lines(result("$ make\nend")) == ("$ make", "end")
    assert failures.telling_lines(result("only")) == ("only",)
    far = "error: far away\n" + "x\n" * 10_001
    assert failures.telling_lines(result(far)) == ("error: far away", "x")


def test_the_line_of_a_failure_has_no_tags_and_names_the_error_of_a_compiler():
    refused = "<tool_use_error>String to replace not found.\nString: return 1</tool_use_error>"
    assert failures.telling_lines(result(refused)) == ("String to replace not found.", "String: return 1")
    once = result("<tool_use_error>File has not been read yet.</tool_use_error>")
    assert failures.telling_lines(once) == ("File has not been read yet.",)
    noisy = "Debugger attached.\nsrc/a.ts(104,35): error TS1343: no\nWaiting for the debugger."
    assert failures.telling_lines(result(noisy)) == (
        "Debugger attached.",
        "src/a.ts(104,35): error TS1343: no",
    )


def test_first_and_last_lines_leave_out_rulers_and_tags():
    text = "a\n\n----\n<tag>\nb\nc\n</tag>\n"
    assert failures.first_lines(result(text), 2) == ("a", "b")
    assert failures.last_lines(result(text), 2) == ("b", "c")


# ── modes ──


def test_plan_mode_begins_and_ends_by_record_attachment_reminder_and_tool():
    state = modes.ModeState()
    state.see(b.user("x", permissionMode="plan"))
    assert (state.permission, state.is_planning) == ("plan", True)
    state.see(b.user("x", permissionMode="acceptEdits"))
    assert (state.permission, state.is_planning) == ("acceptEdits", False)
    state.see_reminder("Plan mode is still active.")
    assert state.is_planning
    state.see_reminder("Plan mode is active no more: you have exited plan mode.")
    assert not state.is_planning
    state.see_reminder("The task list is empty.")
    assert not state.is_planning
    for kind, is_planning in (("plan_mode", True), ("plan_mode_exit", False), ("other", False)):
        state.see(attachment(kind))
        assert state.is_planning is is_planning
    state.end("enters_plan_mode", "c0", failed=True)
    assert not state.is_planning
    state.end("enters_plan_mode", "c1", failed=False)
    assert state.is_planning


def test_a_plan_is_approved_when_its_call_succeeds():
    state = modes.ModeState()
    state.see(b.user("x", permissionMode="plan"))
    state.plan_age = 3
    state.begin("presents_plan", "c1", {"plan": "1. Read"})
    assert (state.plan, state.is_approved, state.plan_age, state.is_planning) == ("1. Read", False, 0, True)
    state.end("presents_plan", "c1", failed=True)
    assert (state.is_planning, state.is_approved) == (True, False)
    state.end("presents_plan", "c2", failed=False)
    assert state.is_planning
    state.begin("presents_plan", "c3", {"plan": " "})
    state.end("presents_plan", "c3", failed=False)
    assert (state.plan, state.is_planning, state.is_approved, state.permission) == (
        "1. Read",
        False,
        True,
        "",
    )
    state.begin("reads", "c4", {"plan": "no plan"})
    assert (state.plan, state.is_approved) == ("1. Read", True)


# ── changes by others ──


def test_files_that_others_changed_are_named_by_the_notice_or_by_the_call():
    notice = "Note: /a.py was modified, either by the user or by a linter. Mind it."
    assert user_edits.files_changed_by_user(result(f"ok\n{notice}"), "") == ["/a.py"]
    assert user_edits.files_changed_by_user(result(f"{notice}{'x' * 4_000}"), "") == []
    since = "The file has been modified since read, either by the user or by a linter."
    assert user_edits.files_changed_by_user(result(since), "/b.py") == ["/b.py"]
    assert user_edits.files_changed_by_user(result(since), "") == []
    assert user_edits.files_changed_by_user(result("nothing"), "/b.py") == []


def attachment(kind: str, **fields: object) -> Record:
    return b.record(
        {
            "type": "attachment", "uuid": "x", "parentUuid": None, "isSidechain": False,
            "attachment": {"type": kind, **fields},
        }
    )  # fmt: skip


def attached(kind: str, **fields: object) -> str:
    return user_edits.file_attached(attachment(kind, **fields))


def test_an_attachment_about_an_edited_file_names_it():
    assert attached("edited_text_file", filename="/a.py") == "/a.py"
    assert attached("other", filename="/a.py") == ""
    assert attached("edited_text_file", filename=7) == ""
    assert user_edits.file_attached(b.user("x")) == ""


@pytest.mark.parametrize(
    ("sentence", "own"),
    [
        ("I just renamed it", True),
        ("I've fixed it", True),
        ("ok, i manually removed almost all uses", True),
        ("i undid your changes, try again", True),
        ("You fixed it", False),
    ],
)
def test_work_that_the_user_did_is_recognised(sentence, own):
    assert user_edits.own_work(sentence) is own


def test_files_that_others_changed_are_marked_from_every_kind_of_notice():
    notice = "Note: /n.py was modified, either by the user or by a linter."
    records = [
        b.user(f"<system-reminder>{notice}</system-reminder>", uuid="u1"),
        b.assistant(b.call("c1", "Edit", file_path="/e.py", new_string="x"), id="m1", uuid="a1"),
        b.result("c1", "ok", uuid="r1", toolUseResult={"userModified": True}),
        b.assistant(b.call("c2", "Read", file_path="/r.py"), id="m2", uuid="a2"),
        b.result("c2", notice.replace("/n.py", "/o.py"), uuid="r2", toolUseResult={"userModified": True}),
    ]
    files = extract_facts(records, DEFAULT_TOOL_TABLE).files
    assert {path for path, work in files.items() if work.by_user} == {"/n.py", "/e.py", "/o.py"}
    assert set(files) == {"/n.py", "/e.py", "/r.py", "/o.py"}


def test_a_message_that_was_typed_while_the_model_worked_is_heard():
    queued = attachment("queued_command", prompt=" And the docs. ")
    broken = attachment("queued_command", prompt=7)
    assert [each.text for each in extract_facts([queued, broken], DEFAULT_TOOL_TABLE).messages] == [
        "And the docs."
    ]


# ── calls ──


def actions(tool: str, **inputs: object) -> list[tuple[str, str, str, str]]:
    called = block(b.call("c1", tool, **inputs))
    found = read_tool_actions(called, read_tool_input(called), DEFAULT_TOOL_TABLE.find(tool))
    assert {(each.call, each.tool) for each in found} == {("c1", tool)}
    return [(each.verb, each.target, each.new_text, each.detail) for each in found]


MANY = ", ".join(f"a{n}: {n}" for n in range(12))


@pytest.mark.parametrize(
    ("tool", "inputs", "expected"),
    [
        ("Read", {"file_path": "/a"}, [("read", "/a", "", "")]),
        ("Read", {"file_path": "/a", "offset": 3, "limit": 2}, [("read", "/a", "", "lines 3-4")]),
        ("Read", {"file_path": "/a", "offset": 3, "limit": 1}, [("read", "/a", "", "lines 3-3")]),
        ("Read", {"file_path": "/a", "offset": 1000}, [("read", "/a", "", "from line 1,000")]),
        ("Read", {"file_path": "/a", "offset": 1, "limit": 0}, [("read", "/a", "", "from line 1")]),
        ("Read", {"file_path": "/a", "offset": 0, "limit": 9}, [("read", "/a", "", "")]),
        ("Bash", {"command": " ls -l "}, [("ran", "ls -l", "", "")]),
        ("Bash", {"command": ["bash", "-lc", "ls", 7]}, [("ran", "ls", "", "")]),
        (
            "Edit",
            {"file_path": "/a", "old_string": "one\n", "new_string": "one\n{}\n  two"},
            [("edited", "/a", "one\n{}\n  two", "two")],
        ),
        ("Write", {"file_path": "/a", "content": "x"}, [("wrote", "/a", "x", "")]),
        (
            "Edit",
            {"file_path": "/a", "new_string": "x", "patch": "*** Update File: b.py"},
            [("edited", "/a", "x", "")],
        ),
        ("Grep", {"pattern": "x", "patch": "*** Update File: b.py"}, [("other", "x", "", "")]),
        (
            "book_flight",
            {"legs": [{"no": 7}], "id": "OBUT9V", "seats": 2, "note": "", "paid": True, "tags": []},
            [("other", 'id: OBUT9V, seats: 2, paid: true, legs: [{"no":7}]', "", "")],
        ),
        ("book_flight", {"note": "a\n" * 99}, [("other", "note: " + "a " * 37 + "…", "", "")]),
        ("many", {f"a{n}": n for n in range(13)}, [("other", MANY + ", …", "", "")]),
        ("book_flight", {"query": "x", "id": 7}, [("other", "x", "", "")]),
        ("SendMessage", {"to": "alice", "message": "go"}, [("other", "to: alice, message: go", "", "")]),
        ("EnterPlanMode", {"id": 7}, [("other", "", "", "")]),
        (
            "MultiEdit",
            {"file_path": "/a", "edits": [{"new_string": "abc"}, {"new_string": "def"}]},
            [("edited", "/a", "def", "def")],
        ),
        ("Grep", {"pattern": "x", "path": "/a"}, [("other", "x", "", "")]),
        ("TodoWrite", {"todos": []}, [("tracked", "", "", "")]),
    ],
)
def test_a_call_is_told_by_what_it_did_and_to_what(tool, inputs, expected):
    assert actions(tool, **inputs) == expected


def test_a_patch_is_one_edit_for_each_file():
    patch = "*** Begin Patch\n*** Update File: a.py\n+x\n*** Add File: b.py"
    tool = "apply_patch"
    assert actions(tool, input=f"{patch}\n") == [
        ("edited", "a.py", patch, ""),
        ("edited", "b.py", patch, ""),
    ]


def test_a_call_that_cannot_be_read_has_no_input():
    broken = block_from_json(b'{"type":"tool_use","id":"c1","name":"Read","input":7}')
    assert read_tool_input(broken) == {}


# ── turns ──


def test_the_last_words_of_a_turn_are_its_report_with_the_question():
    turns = Turns()
    turns.heard("Fix the   parser.", "u1")
    turns.said("I look.", "a1")
    turns.acted()
    assert (turns.is_answered, turns.ends_with_words) == (True, False)
    turns.said("It is fixed.", "a2")
    assert (turns.is_answered, turns.ends_with_words) == (True, True)
    assert turns.current == (QuotedText("I look.", "a1"), QuotedText("It is fixed.", "a2"))
    turns.heard("Thanks, I just renamed the file.", "u2")
    assert turns.reports == [QuotedText("It is fixed.", "a2", "Fix the parser.")]
    assert (turns.current, turns.is_answered, turns.ends_with_words) == ((), False, False)
    assert turns.own_work == [QuotedText("Thanks, I just renamed the file.", "u2")]
    turns.heard("And now?", "u3")
    assert len(turns.reports) == 1


def test_an_interrupted_turn_makes_the_next_message_a_correction_unless_it_is_sent_again():
    def after(*, interrupted: bool, text: str) -> list[QuotedText]:
        turns = Turns()
        turns.heard("Fix the parser please.", "u1")
        turns.said("I rewrite everything.", "a1")
        if interrupted:
            turns.interrupted()
        turns.heard(text, "u2")
        return turns.corrections

    words = "The tests are more important to me."
    assert after(interrupted=True, text=words) == [QuotedText(words, "u2", "I rewrite everything.")]
    assert after(interrupted=False, text=words) == []
    assert after(interrupted=True, text="Fix the parser please.") == []


def test_a_refusal_is_a_correction_of_its_call():
    turns = Turns()
    turns.refused("use git", "r1", "rm -r")
    assert turns.corrections == [QuotedText("use git", "r1", "rm -r")]


def test_the_message_after_a_refusal_without_words_is_a_correction_if_it_is_not_the_same_again():
    words = "The tests are more important to me."
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    records = [
        b.user("Fix the parser please.", uuid="u1"),
        b.assistant("I rewrite everything.", b.call("c1", "Bash", command="rm -r src"), id="m1"),
        b.user([b.answer("c1", refusal, is_error=True)], uuid="r1"),
        b.user(words, uuid="u2"),
    ]
    assert extract_facts(records).corrections == (QuotedText(words, "u2", "I rewrite everything."),)


def test_what_a_user_did_is_told_in_a_sentence_of_at_most_300_characters():
    def own_work(length: int) -> list[QuotedText]:
        turns = Turns()
        turns.heard("I fixed the parser myself".ljust(length - 1, "x") + ".", "u1")
        return turns.own_work

    sentence = "I fixed the parser myself".ljust(299, "x") + "."
    assert (own_work(300), own_work(301)) == ([QuotedText(sentence, "u1")], [])


def test_the_last_lines_of_the_last_24_results_are_kept():
    calls = [f"c{at}" for at in range(25)]
    records = [b.user("Go.", uuid="u0")]
    for call in calls:
        records.append(b.assistant(b.call(call, "Bash", command="make"), id=f"m{call}"))
        records.append(b.user([b.answer(call, f"done {call}")], uuid=f"r{call}"))
    found = extract_facts(records).last_lines
    assert {call: tuple(lines) for call, lines in found.items()} == {
        call: (f"done {call}",) for call in calls[1:]
    }


def test_a_pull_request_is_one_that_was_created():
    address = "https://github.com/a/b/pull/7"
    runs = CommandRuns()
    runs.ended("gh pr view 7", result(address), failed=False)
    assert runs.requests == []
    runs.ended("gh pr create --fill", result(address), failed=False)
    assert runs.requests == [address]


def test_after_tests_have_run_a_linter_is_no_check():
    def unchecked(*commands: str) -> tuple[str, ...]:
        runs = CommandRuns()
        for command in commands:
            runs.edited("/a.py")
            runs.ended(command, result("ok"), failed=False)
        return runs.unchecked()

    assert (unchecked("pytest -q"), unchecked("ruff check ."), unchecked("ruff check .", "pytest -q")) == (
        (), (), (),
    )  # fmt: skip
    assert unchecked("pytest -q", "ruff check .") == ("/a.py",)


def test_an_offer_stands_for_four_messages_unless_it_is_answered():
    def offered(*replies: str) -> str:
        turns = Turns()
        turns.heard("Fix the parser.", "u0")
        turns.said("Done. Would you like me to add a test for it?", "a0")
        for at, text in enumerate(replies):
            turns.heard(text, f"u{at + 1}")
            turns.said("Here it is.", f"a{at + 1}")
        return turns.offer

    other = "What does the lexer do?"
    stands = offered(other)
    assert "add a test" in stands
    assert offered(*[other] * 5) == stands
    assert offered(*[other] * 6) == ""
    assert offered(other, "yes") == ""


def test_a_plan_that_is_presented_again_waits_for_its_own_approval():
    state = modes.ModeState()
    for call in ("c1", "c2"):
        state.begin("presents_plan", call, {"plan": f"plan of {call}"})
        assert (state.plan, state.is_approved) == (f"plan of {call}", False)
        state.end("presents_plan", call, failed=False)
        assert state.is_approved


def test_the_name_of_a_changed_file_stands_before_the_notice_within_its_limit():
    notice = " was modified, either by the user or by a linter."
    for length, named in ((399, True), (401, False)):
        path = "/" + "a" * (length - 1)
        found = user_edits.files_changed_by_user(result(f"{path}{notice}"), "")
        assert (found == [path]) is named


def test_every_heading_of_a_summary_has_its_number():
    assert all_titles() == {
        **{title.lower(): number for number, title in titles("full").items()},
        **{title.lower(): number for number, title in titles("up_to").items()},
    }
    assert set(all_titles().values()) == set(range(1, 10))
    assert titles("from") == titles("full") != titles("up_to")
