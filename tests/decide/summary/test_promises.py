"""What the summary without a model promises beside the nine sections, each with a small conversation."""

import builders as b
import pytest

from everturn.decide.extractive import SummarySettings, summarize
from everturn.history.records import Record

pytestmark = pytest.mark.spec("BY-5")


def ran(name: str, command: str, output: str, **more: object) -> list[Record]:
    """A command and its result."""
    return [
        b.assistant(b.call(name, "Bash", command=command), id=f"m-{name}"),
        b.user([b.answer(name, output, **more)], uuid=f"r-{name}"),
    ]


def edited(name: str, path: str, **inputs: object) -> list[Record]:
    call = b.call(name, "Edit", file_path=path, old_string="old", **{"new_string": "new line", **inputs})
    return [b.assistant(call, id=f"m-{name}"), b.result(name, "updated")]


# ── outcomes ─────────────────────────────────────────────────────────────────────────────────────


def test_a_command_whose_output_ends_in_fail_is_never_stated_as_done():
    output = (
        "=== RUN TestA\n--- FAIL: TestLogin (0.1s)\n    login_test.go:7: token is nil\nFAIL\nFAIL\tauth\t0.2s"
    )
    found = summarize(
        [b.user("make the tests pass"), *ran("c1", "go test ./... | tail -30", output)]
    ).sections
    assert found[8] == (
        '   - the user\'s last message: "make the tests pass"\n'
        "   - called: Bash `go test ./... | tail -30`, failed\n"
        "     > --- FAIL: TestLogin (0.1s)"
    )
    assert found[7] == (
        "   - failed when last run: Bash `go test ./... | tail -30`\n"
        "     > --- FAIL: TestLogin (0.1s)\n"
        '   - at work on, and not reported as done: "make the tests pass"'
    )


def test_calls_of_an_agents_own_tools_are_told_by_their_arguments_and_by_what_followed_a_failure():
    def paid(name: str, card: str, said: str) -> list[Record]:
        call = b.call(name, "update_booking", legs=[{"no": 7}], booking="OBUT9V", pay_by=card)
        return [b.assistant(call, id=f"m-{name}"), b.result(name, said)]

    found = summarize(
        [
            b.user("pay with a gift card"),
            *paid("c1", "gift_1", "Error: balance is not enough"),
            *paid("c2", "gift_2", "Error: not on this route"),
            *paid("c3", "credit_3", '{"booking": "OBUT9V"}'),
        ]
    ).sections
    one, two, three = (
        f'update_booking `booking: OBUT9V, pay_by: {card}, legs: [{{"no":7}}]`'
        for card in ("gift_1", "gift_2", "credit_3")
    )
    assert found[4] == (
        f"   - {one} failed:\n     > Error: balance is not enough\n     then: {two}\n"
        f"   - {two} failed:\n     > Error: not on this route\n     then: {three}"
    )
    assert f"called: {one}, failed" in found[8]
    assert f"called: {three}, done" in found[8]


def test_a_failed_test_is_followed_by_a_change_not_by_a_call_of_another_kind():
    search = b.call("s1", "find_docs", topic="token")
    records = [
        b.user("go"),
        *ran("c1", "pytest -q", "1 failed", is_error=True),
        b.assistant(search, id="m2"),
        b.result("s1", "none"),
        *edited("e1", "/p/a.py"),
    ]
    assert "then: Edit `/p/a.py`" in summarize(records).sections[4]


def test_a_failure_is_settled_when_the_same_check_reports_none_and_an_edit_after_it_is_named():
    records = [
        b.user("go"),
        *ran("c1", "pytest -q", "1 failed, 2 passed", is_error=True),
        *edited("e1", "/p/a.py"),
        *ran("c2", "pytest -q 2>&1 | tail -3", "3 passed"),
        *edited("e2", "/p/b.py"),
    ]
    found = summarize(records).sections
    assert found[4] == (
        "   - Bash `pytest -q` failed:\n     > 1 failed, 2 passed\n"
        "     then: Edit `/p/a.py`; no failure when it ran again"
    )
    assert found[7] == (
        "   - changed after the last check (`pytest -q 2>&1 | tail -3`): /p/b.py\n"
        '   - at work on, and not reported as done: "go"'
    )


def test_some_tests_that_pass_do_not_settle_a_failure_of_all_of_them():
    records = [
        b.user("go"),
        *ran("c1", "pytest", "2 failed", is_error=True),
        *ran("c2", "pytest -k login", "1 passed"),
    ]
    assert "failed when last run: Bash `pytest`" in summarize(records).sections[7]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ('npm run check 2>&1 | grep "error TS" | wc -l', "11"),
        ("npm run check > /tmp/out.txt 2>&1", ""),
        ("npm run check 2>&1 | head -2", "> check\n> tsc"),
        ("npm run check", "Command running in background with ID: b5798f9"),
    ],
)
def test_a_run_that_cannot_show_a_failure_settles_none(command, output):
    failed = ran("c1", "npm run check", "src/a.ts(1,2): error TS2345: bad", is_error=True)
    found = summarize([b.user("go"), *failed, *ran("c2", command, output)]).sections
    assert "no failure when it ran again" not in found[4]
    head = "   - failed when last run: Bash `npm run check`; "
    assert found[7].startswith(f"{head}`{command}` ran later and does not show how it ended\n")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("npm run check 2>&1 | tail -3", "> tsc"),
        ("npm run check 2>&1 | head -2", "> tsc"),
        ("npm run check | head", "> tsc"),
        ("npm run check 2>/dev/null", "> tsc"),
        ("npm run check > out.txt 2>&1; tail -3 out.txt", "> tsc"),
        ("npm run check | grep -E 'passed|failed'", "12 passed"),
        ("npm run check && git status | head -3", "> tsc"),
    ],
)
def test_a_run_whose_end_can_be_seen_settles_a_failure(command, output):
    failed = ran("c1", "npm run check", "src/a.ts(1,2): error TS2345: bad", is_error=True)
    found = summarize([b.user("go"), *failed, *ran("c2", command, output)]).sections
    assert "no failure when it ran again" in found[4]
    assert "failed when last run" not in found[7]


def test_the_same_search_that_showed_a_failure_settles_it():
    search = 'npm run check | grep "error TS"'
    records = [b.user("go"), *ran("c1", search, "src/a.ts(1,2): error TS2345: bad"), *ran("c2", search, "")]
    assert "failed when last run" not in summarize(records).sections[7]


def test_another_run_of_tests_that_passed_later_is_told_with_the_failure():
    records = [
        b.user("go"),
        *ran("c1", "go test ./a", "--- FAIL: TestA\nFAIL"),
        *ran("c2", "mise run test", "ok\tall\t1s"),
    ]
    assert "`go test ./a`; later `mise run test` reported no failure" in summarize(records).sections[7]


def test_a_related_check_that_passed_later_is_told_with_the_failed_build():
    records = [
        b.user("go"),
        *ran("c1", "go build ./a", "a.go:1:2: error: undefined: x", is_error=True),
        *ran("c2", "go vet ./a", ""),
        *ran("c3", "npm run lint", "ok"),
    ]
    assert "`go build ./a`; later `go vet ./a` reported no failure" in summarize(records).sections[7]


def test_a_summary_of_a_summary_counts_lines_that_were_left_out_once():
    written = "\n".join(f"line {n}" for n in range(100))
    first = summarize([b.user("go"), *edited("c1", "/p/a.py", new_string=written)])
    again = summarize([b.summary(first.text), b.user("go on", uuid="u2")])
    twice = summarize([b.summary(again.text), b.user("and on", uuid="u3")])
    # The heading of the change takes one of the lines that are carried over.
    counted = [each.sections[3].partition("[… ")[2].partition(" ")[0] for each in (first, again, twice)]
    assert counted == ["88", "89", "89"]


def test_a_command_that_succeeded_is_not_called_done_and_its_last_line_is_shown():
    found = summarize([b.user("go"), *ran("c1", "make", "building\n0 warnings")]).sections[8]
    assert found.endswith("called: Bash `make`, no failure reported\n     > 0 warnings")


@pytest.mark.parametrize(
    "said", ["Error: the amount is wrong", '{"error":"the amount is wrong"}', "ValueError: no"]
)
def test_any_tool_whose_result_begins_as_an_error_has_failed(said):
    booked = b.assistant(b.call("c1", "book_reservation", subject="a seat"), id="m1")
    found = summarize([b.user("book it"), booked, b.result("c1", said)]).sections
    assert f"called: book_reservation `a seat`, failed\n     > {said}" in found[8]
    assert "book_reservation `a seat` failed:" in found[4]


def test_a_failure_without_a_telling_line_is_shown_by_its_first_and_last():
    found = summarize([b.user("go"), *ran("c1", "npm test", "attached\nx\nstopped", is_error=True)]).sections[
        4
    ]
    assert "     > attached\n     > stopped\n" in found


def test_a_refused_call_is_told_as_refused():
    said = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    found = summarize([b.user("go"), *ran("c1", "git push", said, is_error=True)]).sections
    assert found[8].endswith("called: Bash `git push`, refused by the user")
    stopped = "   - stopped here: the user refused `Bash git push` and has said nothing since\n"
    assert found[7] == stopped + '   - at work on, and not reported as done: "go"'
    assert stopped in found[9]


def test_what_the_user_says_when_refusing_is_open_until_the_model_goes_on_and_stays_with_the_call():
    said = "The user doesn't want to proceed with this tool use. The user said:\nmerge it first"
    said = said.replace("The user said", "To tell you how to proceed, the user said")
    refused = [b.user("go"), *ran("c1", "git push", said, is_error=True)]
    found = summarize(refused).sections
    told = '   - not answered yet, said when refusing `Bash git push`: "merge it first"\n'
    assert found[7].startswith(told)
    assert told in found[9]
    assert found[8].endswith('called: Bash `git push`, refused by the user, who said: "merge it first"')
    later = summarize([*refused, *ran("c2", "git merge main", "Already up to date.")]).sections
    assert "merge it first" not in later[7] + later[9]
    assert 'refused by the user, who said: "merge it first"' in later[8]


def test_an_interruption_is_told_until_the_user_says_more():
    stop = b.user("[Request interrupted by user for tool use]", uuid="i")
    records = [b.user("go", uuid="u1"), *ran("c1", "ls", "a.py"), stop]
    assert (
        summarize(records)
        .sections[7]
        .startswith("   - stopped here: the user interrupted the model and has said nothing since\n")
    )
    first = summarize(records)
    for later in ([*records, b.user("rename it", uuid="u2")], [b.summary(first.text), *ran("c2", "ls", "b")]):
        assert "stopped here" not in summarize(later).sections[7]


def test_a_refused_plan_is_open_until_the_user_says_more():
    said = "User chose to stay in plan mode and continue planning"
    refused = plan(b.answer("p", said, is_error=True))
    found = summarize(refused).sections
    assert "the user refused the plan: change nothing before they say more, see 8" in found[7]
    assert found[4] == "   (none)"
    later = summarize([*refused, b.user("Never mind, tell me about the lexer.", uuid="u9")]).sections
    assert "plan" not in later[7]
    assert '   - the plan (refused by the user): "Rewrite the lexer."' in later[8]


def test_a_plan_that_was_refused_with_words_is_to_be_changed_as_they_say():
    said = "The user doesn't want to proceed with this tool use. So the user said:\nKeep the API."
    refused = plan(b.answer("p", said, is_error=True))
    told = (
        'the user refused the plan and said: "Keep the API."; '
        "until they approve one, change nothing but the plan"
    )
    for records in (refused, [*refused, *edited("e1", "/plans/a.md")]):
        assert told in summarize(records).sections[7]
        assert "before they say more" not in summarize(records).text


def test_a_plan_of_an_earlier_summary_waits_until_a_message_or_a_new_plan_comes():
    stayed = plan(b.answer("p", "User chose to stay in plan mode and continue planning", is_error=True))
    approved = plan(b.answer("p", "User has approved your plan."))[1:]
    for records, waits in ((stayed[:-1], "not approved yet"), (stayed, "the user refused the plan")):
        earlier = b.summary(summarize(records).text)
        assert waits in summarize([earlier, *ran("c1", "ls", "a.py")]).sections[7]
        for later in ([b.user("go on", uuid="u9")], approved):
            assert waits not in summarize([earlier, *later]).sections[7]


def test_commits_the_push_and_what_was_changed_after_them_are_listed():
    records = [
        b.user("commit and push"),
        *ran("c1", "git commit -am x", "[main 1a2b3c4] Fix the parser\n 1 file changed"),
        *ran("c2", "git push", "To host:me/p.git\n   aaaaaaa..1a2b3c4  main -> main"),
        *ran("c3", "gh pr create --fill", "https://github.com/me/p/pull/7"),
        *edited("e1", "/p/a.py"),
    ]
    assert summarize(records).sections[8].split("\n")[1:6] == [
        "   - committed:",
        "     > 1a2b3c4 Fix the parser (on main)",
        "   - pushed last: main -> main",
        "   - pull request: https://github.com/me/p/pull/7",
        "   - changed after the last commit: /p/a.py",
    ]


# ── open items ───────────────────────────────────────────────────────────────────────────────────

MERGE = (
    "Auto-merging a.py\nCONFLICT (content): Merge conflict in src/a.py\n"
    "CONFLICT (content): Merge conflict in src/b.py\nAutomatic merge failed; fix conflicts"
)


def test_conflicts_stay_open_until_they_are_added():
    records = [
        b.user("merge main"),
        *ran("c1", "git merge main", MERGE, is_error=True),
        *ran("c2", "git add src/a.py", ""),
    ]
    assert summarize(records).sections[7] == (
        "   - as git said last, a merge is in progress\n"
        "   - merge conflict not resolved: src/b.py\n"
        '   - at work on, and not reported as done: "merge main"'
    )


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("git commit --no-edit", "[main 1a2b3c4] Merge main"),
        ("git merge --abort", ""),
        ("git status", "On branch main\nnothing to commit, working tree clean"),
    ],
)
def test_a_merge_that_ended_leaves_nothing_open(command, output):
    records = [
        b.user("merge main"),
        *ran("c1", "git merge main", MERGE, is_error=True),
        *ran("c2", command, output),
        b.assistant("The merge is through.", id="end"),
    ]
    assert summarize(records).sections[7] == "   (none)"


def test_a_user_who_finished_the_rebase_is_believed():
    status = "interactive rebase in progress; onto dbdc06e2\nUnmerged paths:\n\tboth modified:   a.py"
    records = [b.user("rebase"), *ran("c1", "git status", status)]
    assert "merge conflict not resolved: a.py" in summarize(records).sections[7]
    told = [*records, b.user("I continued the rebase and it completed.", uuid="u2")]
    assert "rebase is in progress" not in summarize(told).sections[7]


def test_tasks_get_their_names_from_a_printed_list():
    records = [
        b.user("go"),
        b.assistant(b.call("c1", "TaskList"), id="m1"),
        b.result("c1", "#1 [completed] Read it\n#2 [pending] Write it down [blocked by #1]"),
        b.assistant(b.call("c2", "TaskUpdate", taskId="2", status="in_progress"), id="m2"),
        b.result("c2", "Updated task #2 status"),
    ]
    assert '   - todo (in progress): "Write it down"\n' in summarize(records).sections[7]


def test_numbered_items_that_the_model_has_not_named_are_left():
    records = [
        b.user("Do these:\n1. rename the flag\n2. add a test\n3. update the page"),
        b.assistant("Item 1 is fine as it is. Now item 3.", b.call("c1", "Read", file_path="/p"), id="m1"),
        b.result("c1"),
    ]
    assert 'has not named since: "2. add a test"' in summarize(records).sections[7]


def test_an_offer_that_was_passed_over_stays_open_and_an_accepted_one_does_not():
    asked = b.assistant("The cause is the cache.\n\nWant me to clear it?", id="m1")
    over = [b.user("why?", uuid="u1"), asked, b.user("which commit was it?", uuid="u2")]
    assert 'neither accepted nor declined: "Want me to clear it?"' in summarize(over).sections[7]
    taken = [b.user("why?", uuid="u1"), asked, b.user("yes please", uuid="u2")]
    assert "Want me to clear it" not in summarize(taken).sections[7]


def test_an_offer_is_decided_by_the_number_of_an_option_and_that_answer_is_not_the_first_request():
    offered = (
        "It is ready.\n1. Rename `contentSb73`\n2. Merge as it is\n\nShould I rename it before you merge?"
    )
    records = [
        b.user("<command-name>/review</command-name>", uuid="u1"),
        b.assistant(offered, id="m1"),
        b.user("1", uuid="u2"),
        *edited("e1", "/p/a.go"),
    ]
    found = summarize(records).sections
    assert "neither accepted nor declined" not in found[7]
    assert found[1] == '   - first: "/review"\n   - latest: "1"'
    begun = [records[0], b.user("only the parser", uuid="u3"), *edited("e1", "/p/a.go")]
    assert '- first: "only the parser"' in summarize(begun).sections[1]


def test_a_question_at_the_end_waits_for_its_answer():
    records = [b.user("why?"), b.assistant("There are two ways.\n\nWhich one do you want?", id="m1")]
    assert summarize(records).sections[7] == (
        '   - the model asked, and has no answer yet: "Which one do you want?"'
    )


# ── questions, corrections, the user's own work ──────────────────────────────────────────────────

LISTED = ["I found four things:", "1. the cache", "2. the clock", "3. the lock", "4. the log"]
OPTIONS = "I found four things:\n\n1. the cache\n2. the clock\n3. the lock\n4. the log\n\nWhich should I fix?"


@pytest.mark.parametrize(
    ("answer", "about"),
    [
        ("1+2", ["1. the cache", "2. the clock"]),
        ("skip 3 and do the rest", LISTED),
        ("the smallest ones", LISTED),
        ("yes", []),
    ],
)  # fmt: skip
def test_a_short_answer_is_shown_with_what_it_answers(answer, about):
    records = [b.user("look at it", uuid="u1"), b.assistant(OPTIONS, id="m1"), b.user(answer, uuid="u2")]
    inner = "\n     ".join([*about, "Which should I fix?"])
    assert summarize(records).sections[6] == (
        f'   - "look at it"\n   - "{answer}"\n    in reply to: "{inner}"'
    )


def test_what_an_answer_replied_to_survives_the_next_compaction():
    records = [b.user("look at it", uuid="u1"), b.assistant(OPTIONS, id="m1"), b.user("1+2", uuid="u2")]
    first = summarize(records)
    second = summarize([b.boundary(), b.summary(first.text), b.user("go on with the work now", uuid="u3")])
    assert second.sections[6] == first.sections[6] + '\n   - "go on with the work now"'


def test_questions_give_way_to_the_users_own_words():
    options = "Which?\n\n" + "\n".join(
        f"{at}. option number {at} " + "with much text " * 12 for at in range(1, 9)
    )
    records: list[Record] = []
    for at in range(20):
        records += [b.assistant(options, id=f"m{at}"), b.user(f"{at % 8 + 1}, please", uuid=f"u{at}")]
    section = summarize(records, budget=700).sections[6]
    assert section.count("please") == 20
    assert 0 < section.count("in reply to") < 20


@pytest.mark.parametrize(
    "words",
    [
        "No, keep the old name.",
        "stop is not correct, that is the end of a turn.",
        "Don't touch the lock file.",
        "what I actually meant is the other folder",
    ],
)
def test_corrections_are_kept_word_for_word_with_what_they_correct(words):
    records = [
        b.user("rename it", uuid="u1"),
        b.assistant("I renamed it.", id="m1"),
        b.user(words, uuid="u2"),
    ]
    assert f'   - corrected: "{words}"\n    about: "I renamed it."' in summarize(records).sections[1]
    after = summarize([b.boundary(), b.summary(summarize(records).text), b.user("go on", uuid="u3")])
    assert f'   - corrected: "{words}"' in after.sections[1]


def test_what_the_user_says_after_interrupting_is_a_correction_unless_it_is_the_same_again():
    stop = b.user("[Request interrupted by user]", uuid="stop")
    start = [b.user("write the long report today", uuid="u1"), b.assistant("I write it.", id="m1"), stop]
    changed = summarize([*start, b.user("first look at the numbers", uuid="u2")]).sections[1]
    assert 'corrected: "first look at the numbers"' in changed
    again = summarize([*start, b.user("write the long report today, please", uuid="u2")]).sections[1]
    assert "corrected" not in again


def test_changes_that_the_user_took_back_are_a_correction_and_their_own_work():
    records = [
        b.user("port the selector", uuid="u1"),
        *edited("e1", "/p/a.ts"),
        b.user("I undid your changes, try again. Read the whole file", uuid="u2"),
    ]
    found = summarize(records).sections
    assert '- corrected: "I undid your changes, try again. Read the whole file"' in found[1]
    assert '- the user did themselves: "I undid your changes, try again."' in found[5]
    meant = summarize([*records[:2], b.user("you messed up the imports", uuid="u2")]).sections
    assert '- corrected: "you messed up the imports"' in meant[1]
    held = summarize([*records[:2], b.user("it was the other one, so let's not jump there yet", uuid="u2")])
    assert '- corrected: "it was the other one, so let\'s not jump there yet"' in held.sections[1]


def test_the_reason_of_a_refusal_is_a_correction():
    said = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. "
        "To tell you how to proceed, the user said:\nuse pnpm"
    )
    section = summarize([b.user("install"), *ran("c1", "npm i", said, is_error=True)]).sections[1]
    assert section.endswith('   - corrected: "use pnpm"\n    about: "Bash npm i"')


def test_files_that_the_user_changed_are_marked_until_they_are_read_again():
    notice = (
        "<system-reminder>Note: /p/a.py was modified, either by the user or by a linter.</system-reminder>"
    )
    records = [b.user("go"), *edited("e1", "/p/a.py"), b.user(notice, uuid="n", isMeta=True)]
    mark = "changed by the user or a linter since it was last read or written here"
    assert mark in summarize(records).sections[3]
    read = [b.assistant(b.call("c9", "Read", file_path="/p/a.py"), id="m9"), b.result("c9")]
    assert mark not in summarize([*records, *read]).sections[3]


def test_what_the_user_did_themselves_is_told():
    records = [b.user("go", uuid="u1"), b.user("I reset the commit and made a new one.", uuid="u2")]
    assert summarize(records).sections[5] == (
        '   - the user did themselves: "I reset the commit and made a new one."'
    )


# ── modes, agents, findings ──────────────────────────────────────────────────────────────────────


def plan(answer: dict) -> list[Record]:
    return [
        b.user("plan it", permissionMode="plan"),
        b.assistant(b.call("p", "ExitPlanMode", plan="Rewrite the lexer."), id="m1"),
        b.user([answer], uuid="r"),
    ]


def test_plan_mode_and_a_plan_that_is_not_approved_are_told():
    said = "The user doesn't want to proceed with this tool use."
    found = summarize(plan(b.answer("p", said, is_error=True))).sections
    assert found[8].startswith(
        "   - mode: plan mode is on: change nothing until the user has approved the plan\n"
        '   - the plan (refused by the user): "Rewrite the lexer."\n'
    )
    waiting = summarize(plan(b.answer("p", said, is_error=True))[:-1]).sections
    assert '   - the plan (not approved): "Rewrite the lexer."' in waiting[8]
    assert "the plan was presented and is not approved yet" in waiting[7]


def test_an_approved_plan_ends_plan_mode_and_another_permission_mode_is_told():
    approved = summarize(plan(b.answer("p", "User has approved your plan."))).sections[8]
    assert approved.startswith('   - the plan (approved by the user): "Rewrite the lexer."\n')
    found = summarize([b.user("go", permissionMode="acceptEdits")]).sections[8]
    assert found.startswith("   - permission mode: acceptEdits\n")


def test_a_reminder_of_the_harness_turns_plan_mode_on():
    reminder = "<system-reminder>Plan mode is active. You MUST NOT make any edits.</system-reminder>"
    found = summarize([b.user("think", uuid="u"), b.user(reminder, uuid="n", isMeta=True)]).sections[8]
    assert found.startswith("   - mode: plan mode is on")


def test_what_agents_reported_is_told_and_one_that_runs_is_open():
    footer = "agentId: a19 (for resuming to continue this agent's work if needed)"
    records = [
        b.user("where is it?"),
        b.assistant(b.call("a1", "Task", description="Find the caller", prompt="p"), id="m1"),
        b.result("a1", f"The caller is run() in main.py.\n{footer}"),
        b.assistant(b.call("a2", "Task", description="Check the docs", prompt="p"), id="m2"),
        b.result("a2", "Async agent launched successfully.\nagentId: a20"),
    ]
    found = summarize(records).sections
    assert found[5] == '   - agent "Find the caller" reported: "The caller is run() in main.py."'
    assert 'an agent is still running: "Check the docs"' in found[7]
    notice = "<task-id>a20</task-id>\n<status>completed</status>\n<result>They are right.</result>"
    told = b.user(f"<task-notification>\n{notice}\n</task-notification>", uuid="n")
    over = summarize([*records, told]).sections
    assert over[5].endswith('   - agent "Check the docs" reported: "They are right."')
    assert "still running" not in over[7]


STARTED = "Command running in background with ID: b1"


def asked(name: str, tool: str, said: str, *, is_error: bool = False, **inputs: object) -> list[Record]:
    return [
        b.assistant(b.call(name, tool, **inputs), id=f"m-{name}"),
        b.user([b.answer(name, said, is_error=is_error)], uuid=f"r-{name}"),
    ]


def test_a_command_in_the_background_is_open_while_it_runs():
    records = [b.user("go"), *ran("c1", "pnpm dev", STARTED)]
    polled = [*records, *asked("c2", "BashOutput", "<status>running</status>\nready", bash_id="b1")]
    for each in (records, polled):
        found = summarize(each).sections
        assert "   - still running in the background, as b1: Bash `pnpm dev`" in found[7]
        assert "called: Bash `pnpm dev`, running in the background" in found[8]
    other = [*polled, *asked("c3", "KillShell", "Shell b0 is not running", is_error=True, shell_id="b0")]
    assert "still running" in summarize(other).sections[7]
    killed = [*polled, *asked("c3", "KillShell", "Successfully killed shell: b1", shell_id="b1")]
    assert "still running" not in summarize(killed).sections[7]
    assert "KillShell `b1`, done" in summarize(killed).sections[8]


@pytest.mark.parametrize(
    ("end", "is_open"),
    [
        (
            asked(
                "c3",
                "BashOutput",
                "<status>failed</status>\n<exit_code>1</exit_code>\n2 failed",
                bash_id="b1",
            ),
            True,
        ),
        (
            asked("c3", "TaskOutput", "<status>completed</status>\n<exit_code>0</exit_code>", task_id="b1"),
            False,
        ),
        (
            [b.user("<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>", uuid="n")],
            False,
        ),
    ],
)
def test_a_check_in_the_background_counts_when_it_ended(end, is_open):
    failed = ran("c1", "make test", "1 failed", is_error=True)
    found = summarize([b.user("go"), *failed, *ran("c2", "make test", STARTED), *end]).sections
    assert "still running" not in found[7]
    assert ("failed when last run: Bash `make test`" in found[7]) is is_open
    assert found[5] == "   (none)"


def test_a_report_that_is_fetched_comes_without_the_calls_of_the_agent():
    output = '[Tool: Read] {"file_path":"/a"}\n--- RESULT ---\nThe caller is run().'
    fetched = f"<task_id>a1</task_id>\n<status>completed</status>\n<output>\n{output}\n</output>"
    records = [
        b.user("where?"),
        b.assistant(b.call("a1", "Task", description="Find the caller", prompt="p"), id="m1"),
        b.result("a1", "Async agent launched successfully.\nagentId: a1"),
        b.assistant(b.call("a2", "TaskOutput", task_id="a1"), id="m2"),
        b.result("a2", fetched),
    ]
    assert summarize(records).sections[5] == '   - agent "Find the caller" reported: "The caller is run()."'


def test_never_mind_is_no_rule_and_a_question_no_announcement():
    records = [
        b.user("Never mind! Never push to main.", uuid="u1"),
        b.assistant("It is done. Should I write the tests next, or do you want to look first?"),
    ]
    found = summarize(records).sections
    assert 'standing: "Never push to main."' in found[1]
    assert "Never mind!" not in found[1].partition("standing")[2]
    assert found[7].startswith("   - the model asked, and has no answer yet: ")
    assert "announced" not in found[7] + found[9]


def test_a_command_that_the_user_typed_is_shown_with_what_it_stands_for():
    records = [
        b.user("<command-name>/publish</command-name>", uuid="u1"),
        b.user("Publish the session by running publish.py.", uuid="u2", isMeta=True),
    ]
    told = '   - the program put in the place of that command: "Publish the session by running publish.py."'
    assert told in summarize(records).sections[8]
    assert "publish.py" not in summarize(records).sections[6]
    later = [*records, b.assistant("Done."), b.user("thanks", uuid="u3")]
    assert "publish.py" not in summarize(later).text


def test_a_report_is_about_a_request_and_not_about_a_command_for_the_program():
    words = "The lexer reads every row twice, because the header is parsed again."
    records = [b.user("why?"), b.assistant(words), b.user("/model", uuid="u2"), b.user("ok", uuid="u3")]
    assert f'after "why?" the model reported: "{words}"' in summarize(records).sections[5]


def test_a_command_for_the_program_says_nothing_about_a_failure():
    records = [
        b.user("go", uuid="u1"),
        *ran("c1", "make", "no rule", is_error=True),
        b.user("/plugin", uuid="u2"),
    ]
    assert "/plugin" not in summarize(records).sections[4]


def test_the_last_line_of_a_command_is_not_what_gemini_cli_prints_behind_it():
    output = (
        "Command: ls docs\nDirectory: (root)\nOutput: blue.md\nError: (none)\nExit Code: 0\nSignal: 0\n"
        "Background PIDs: (none)\nProcess Group PGID: 26593"
    )
    found = summarize([b.user("go"), *ran("c1", "ls docs", output)]).sections[8]
    assert found.endswith("called: Bash `ls docs`, no failure reported\n     > Output: blue.md")


def test_pasted_output_is_not_a_rule():
    records = [b.user("a_test.py:12: the value should not be 3\nNever push to main.")]
    assert summarize(records).sections[1].count("standing") == 1


def test_the_model_reports_at_the_end_of_turns_and_its_findings_since_are_kept():
    records = [
        b.user("why is it slow?", uuid="u1"),
        b.assistant("It is slow because every line is parsed twice.", id="m1"),
        b.user("make it faster, at least by a factor of two", uuid="u2"),
        b.assistant(
            "The second parse comes from the logger.", b.call("c1", "Read", file_path="/p/l.py"), id="m2"
        ),
        b.result("c1"),
        b.assistant(
            "I turn it off there.", b.call("c2", "Read", file_path="/p/m.py", offset=10, limit=5), id="m3"
        ),
        b.result("c2"),
    ]
    found = summarize(records).sections
    assert found[5] == (
        '   - after "why is it slow?" the model reported: "It is slow because every line is parsed twice."'
    )
    assert found[8] == (
        '   - the user\'s last message: "make it faster, at least by a factor of two"\n'
        '   - the model said: "The second parse comes from the logger."\n'
        '   - the model\'s last words: "I turn it off there."\n'
        "   - called: Read `/p/l.py`, done\n"
        "   - called: Read `/p/m.py` lines 10-14, done"
    )


def test_what_the_changes_define_and_begin_with_is_named():
    code = "def parse(text):\n    return text\n\nclass Lexer:\n    pass"
    found = summarize([b.user("write it"), *edited("e1", "/p/a.py", new_string=code)]).sections[8]
    assert found.endswith(
        "   - changed since that message: /p/a.py (1×)\n"
        "   - defined in these changes: parse, Lexer\n"
        "   - called: Edit `/p/a.py`, done\n     > def parse(text):"
    )


def test_a_command_for_the_program_is_not_the_users_last_request():
    leave = "<command-name>/exit</command-name>\n<command-message>exit</command-message>"
    records = [b.user("is it fixed?", uuid="u1"), b.user(leave, uuid="u2")]
    found = summarize(records).sections
    assert found[7] == '   - not answered yet: "is it fixed?"'
    assert found[6] == '   - "is it fixed?"\n   - "/exit"'


def test_a_message_typed_while_the_model_worked_is_the_users():
    attached = {"type": "queued_command", "prompt": "and a linting rule?"}
    records = [
        b.user("go", uuid="u1"),
        b.record({"type": "attachment", "uuid": "q", "parentUuid": None, "attachment": attached}),
    ]
    assert '   - "and a linting rule?"' in summarize(records).sections[6]


def test_open_items_of_an_earlier_summary_go_when_their_state_is_known_anew():
    first = [
        b.user("merge main"),
        *ran("c1", "git merge main", MERGE, is_error=True),
        *ran("c2", "pytest", "1 failed", is_error=True),
        *edited("e1", "/p/a.py"),
    ]
    carried = [b.boundary(), b.summary(summarize(first).text)]
    same = summarize([*carried, b.assistant("I go on.", id="m9")]).sections[7]
    assert same.count("From an earlier summary; it may be done by now: ") == 5
    done = summarize(
        [
            *carried,
            *ran("c8", "git commit -am x", "[main 1a2b3c4] Merge"),
            *ran("c9", "pytest", "9 passed"),
            b.assistant("Merged.", id="m9"),
        ]
    ).sections[7]
    assert done == "   (none)"


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


def test_conclusions_come_from_several_replies_newest_first_and_at_most_as_many_as_set():
    said = [
        b.assistant(
            f"Test {name} fails because the index of {name} is missing.",
            b.call(name, "Read", file_path=f"/p/{name}.py"),
            id=f"m-{name}",
        )
        for name in ("one", "two", "three")
    ]
    answers = [b.result(name) for name in ("one", "two", "three")]
    records = [b.user("go"), *(each for pair in zip(said, answers, strict=True) for each in pair)]
    quoted = [f'"Test {name} fails because the index of {name} is missing."' for name in ("two", "one")]
    every = summarize(records).sections[5]
    assert [each in every for each in quoted] == [True, True]
    few = summarize(records, settings=SummarySettings(conclusions=1)).sections[5]
    assert [each in few for each in quoted] == [False, False]


def test_a_sentence_is_a_reason_for_a_change_if_it_says_more_than_the_name():
    def reason(words: str) -> bool:
        records = [
            b.user("go"),
            b.assistant(words, b.call("c1", "Edit", file_path="/p/a.py", old_string="x", new_string="y")),
            b.result("c1", "updated"),
        ]
        return f'why: "{words}"' in summarize(records).sections[3]

    enough = "a.py " + "so" * 11 + "on"
    assert len(enough) == len("a.py") + 25
    assert [reason(enough), reason(enough[:-1]), reason(enough[:-2])] == [True, True, False]


def test_an_edit_that_failed_is_open_until_its_file_is_changed_or_the_user_speaks():
    call = b.call("e1", "Edit", file_path="/p/a.py", old_string="old", new_string="new")
    failed = [
        b.user("go", uuid="u1"),
        b.assistant(call, id="m-e1"),
        b.user([b.answer("e1", "String to replace not found in file.", is_error=True)], uuid="r-e1"),
    ]
    told = "failed, and the file was not changed since: Edit `/p/a.py`"
    first = summarize(failed)
    assert told in first.sections[7]
    assert told in summarize([b.summary(first.text), *edited("e2", "/p/b.py")]).sections[7]
    for later in (
        [*failed, *edited("e2", "/p/a.py")],
        [*failed, b.user("leave it", uuid="u2")],
        [b.summary(first.text), *edited("e2", "/p/a.py")],
    ):
        assert told not in summarize(later).sections[7]


def test_calls_without_a_result_are_counted_and_end_with_their_turn():
    def call(name: str) -> Record:
        edit = b.call(name, "Edit", file_path="/p/a.py", old_string="old", new_string="new")
        return b.assistant(edit, id="m1", uuid=f"a-{name}")

    records = [b.user("go"), call("e1"), call("e2")]
    assert "   - no result yet: Edit `/p/a.py` (2×)\n" in summarize(records).sections[7] + "\n"
    later = summarize([*records, b.user("go on", uuid="u2")]).sections
    assert later[7] == '   - not answered yet: "go on"'
    assert later[8].endswith("   - called: Edit `/p/a.py`, interrupted, no result\n     > new")
    late = summarize([*records, b.user("go on", uuid="u2"), b.result("e2")]).sections
    assert late[8].endswith("   - called: Edit `/p/a.py`, done\n     > new")


def test_an_edit_that_failed_was_refused_or_has_no_result_did_not_change_its_file():
    def call(name: str, path: str) -> Record:
        edit = b.call(name, "Edit", file_path=path, old_string="old", new_string=f"text of {name}")
        return b.assistant(edit, id=f"m-{name}")

    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    records = [
        b.user("go"),
        call("e1", "/p/a.py"),
        b.result("e1"),
        call("e2", "/p/a.py"),
        b.user([b.answer("e2", "String to replace not found in file.", is_error=True)], uuid="r2"),
        call("e3", "/p/b.py"),
        b.user([b.answer("e3", refusal, is_error=True)], uuid="r3"),
        call("e4", "/p/c.py"),
    ]
    found = summarize(records).sections
    assert found[3] == "   - /p/a.py (edited 1×)\n     last change:\n     > text of e1"
    assert "   - changed since that message: /p/a.py (1×)\n" in found[8]
    assert "   - no result yet: Edit `/p/c.py`" in found[7]


def test_only_what_successful_edits_define_is_named():
    def written(name: str, path: str, text: str, **more: object) -> list[Record]:
        call = b.call(name, "Write", file_path=path, content=text)
        return [
            b.assistant(call, id=f"m-{name}"),
            b.user([b.answer(name, "written", **more)], uuid=f"r-{name}"),
        ]

    records = [
        b.user("go"),
        *written("c1", "/p/a.py", "def parse_header():\n    pass"),
        *written("c2", "/p/b.py", "def never_written():\n    pass", is_error=True),
    ]
    found = summarize(records).sections[8]
    assert "changed since that message: /p/a.py (1×)" in found
    assert "defined in these changes: parse_header\n" in found + "\n"
    assert "never_written" not in found.partition("defined in these changes")[2].splitlines()[0]


def test_a_task_that_a_program_wrapped_is_kept_but_gives_no_rules_in_the_users_name():
    """As mini-SWE-agent and OpenHands begin: without it nobody knows what the work is about."""
    words = "<pr_description>\nDelete only these fields. Never trust the cache.\n</pr_description>\nMend it."
    records = [
        b.user(words, uuid="u1"),
        *ran("c1", "ls", "a.py"),
    ]
    first = summarize(records)
    quoted = words.replace("\n", "\n     ")
    assert first.sections[1] == f'   - the task as a program handed it over: "{quoted}"'
    assert first.sections[6] == "   (none)"
    assert first.sections[7] == "   - at work on, and not reported as done: the task in 1"
    again = summarize([b.boundary(), b.summary(first.text), *ran("c2", "ls", "b.py")])
    assert again.sections[1] == first.sections[1]


@pytest.mark.parametrize(
    "opening",
    [
        [b.user("<local-command-stdout>built</local-command-stdout>", uuid="u1")],
        [b.user("<environment_context>linux</environment_context>", uuid="u1"), b.user("go", uuid="u2")],
        [b.user("go", uuid="u1"), b.assistant("yes"), b.user("<event>it rained</event>", uuid="u2")],
    ],
)
def test_what_a_program_says_beside_a_person_or_later_is_no_task(opening):
    assert "the task as a program" not in summarize([*opening, *ran("c1", "ls", "a.py")]).text


def test_the_first_request_is_one_with_words_if_there_is_any():
    records = [
        b.user("/review", uuid="u1"),
        b.user("Mend the parser.", uuid="u2"),
        b.user("Go on.", uuid="u3"),
    ]
    assert summarize(records).sections[1] == '   - first: "Mend the parser."\n   - latest: "Go on."'
    bare = summarize([b.user("/review", uuid="u1"), b.user("/again", uuid="u2")]).sections[1]
    assert bare == '   - first: "/review"\n   - latest: "/again"'
