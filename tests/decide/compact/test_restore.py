"""What comes back beside the summary, from the records alone (CP-13 to CP-17)."""

from typing import Any

import builders as b
import pytest
from decide.compact.bench import AUTO, Bench, attached, manual, turn, turns

from everturn.decide.compact.restoration import plan_restoration
from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import RestorationPlan
from everturn.decide.effects import FileRead
from everturn.history.blocks import fields_of
from everturn.history.edits import Cleared
from everturn.history.records import Record
from everturn.view.fragments.reminder import attachment_words


def found(summarized: list[Record], kept: list[Record] | None = None, **more: Any) -> RestorationPlan:
    return plan_restoration(summarized, kept or [], DEFAULTS, **more)


def note(kind: str, uuid: str, **fields: Any) -> Record:
    envelope = {"parentUuid": None, "isSidechain": False, "type": "attachment", "uuid": uuid}
    return b.record({**envelope, "attachment": {"type": kind, **fields}})


def used(name: str, tool: str, answer: Any = "done", *, is_error: bool = False, **given: Any) -> list[Record]:
    more = {"is_error": True} if is_error else {}
    return [
        b.assistant(b.call(name, tool, **given), id=f"m-{name}", uuid=f"a-{name}"),
        b.user([b.answer(name, answer, **more)], uuid=f"r-{name}"),
    ]


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_the_sessions_own_files_are_not_read_into_its_summary():
    read = [
        *used("1", "Read", file_path="/s/work.jsonl"),
        *used("2", "Read", file_path="/s/work.jsonl.files/big.txt"),
        *used("3", "Read", file_path="/s/work.jsonlines"),
    ]
    back = found(read, transcript="/s/work.jsonl")
    why = "the session's own: a recall finds what is in it"
    assert back.files == ("/s/work.jsonlines",)
    assert back.skipped == (("/s/work.jsonl.files/big.txt", why), ("/s/work.jsonl", why))


@pytest.mark.spec("CP-13", "CP-14")
def test_files_and_tasks_of_other_agents_are_found():
    read = [
        *used("1", "read", path="pi.py"),
        *used("2", "read_file", absolute_path="/gemini.py"),
        *used("3", "shell", command=["bash", "-lc", "sed -n '1,80p' codex.rs"]),
        *used("4", "str_replace_editor", command="view", path="/hands.py"),
        *used("5", "write_todos", todos=[{"description": "go on", "status": "pending"}]),
    ]
    back = found(read)
    assert (back.files, back.todos) == (
        ("/hands.py", "codex.rs", "/gemini.py", "pi.py"),
        "- [pending] go on",
    )


@pytest.mark.spec("CP-14")
def test_a_tool_that_the_settings_name_is_added_to_those_that_are_known():
    settings = CompactSettings(todo_tools=("mine",))
    mine = used("1", "mine", todos=[{"content": "go on", "status": "pending"}])
    known = used("2", "TodoWrite", todos=[{"content": "stop", "status": "pending"}])
    assert plan_restoration(mine, [], settings).todos == "- [pending] go on"
    assert plan_restoration([*mine, *known], [], settings).todos == "- [pending] stop"


@pytest.mark.spec("CP-13")
def test_the_five_most_recently_read_files_come_back_newest_first():
    again = turn(8, path="src/c2.py")
    assert found([*turns(7), *again]).files == tuple(f"src/c{at}.py" for at in (2, 7, 6, 5, 4))


@pytest.mark.spec("CP-13")
def test_plan_and_memory_files_and_visible_ones_are_passed_over_with_the_reason():
    paths = ["a/CLAUDE.md", "AGENTS.md", "home/.claude/plans/big.md", "my-plan.md", "src/seen.py", "src/x.py"]
    records = [record for at, path in enumerate(paths) for record in turn(at, path=path)]
    records += used("p", "ExitPlanMode", plan="1. go", planFilePath="my-plan.md")
    kept = turn(20, path="src/seen.py")
    assert found(records, kept) == RestorationPlan(
        files=("src/x.py",),
        skipped=(
            ("src/seen.py", "still visible in the kept messages"),
            ("my-plan.md", "a plan file: the plan is restored whole"),
            ("home/.claude/plans/big.md", "a plan file: the plan is restored whole"),
            ("AGENTS.md", "a memory file: it is in the system prompt"),
            ("a/CLAUDE.md", "a memory file: it is in the system prompt"),
        ),
        plan="1. go",
        read=tuple(reversed(paths)),
    )


@pytest.mark.spec("CP-13", "MC-18")
def test_a_note_that_a_file_is_unchanged_is_not_the_file():
    said = (
        "File unchanged since last read. The content from the earlier Read tool_result in this conversation "
        "is still current — refer to that instead of re-reading."
    )
    kept = used("n", "Read", said, file_path="src/c1.py")
    assert found(turn(1), kept).files == ("src/c1.py",)
    assert found([*turns(6), *kept]).files == tuple(f"src/c{at}.py" for at in (6, 5, 4, 3, 2))
    quoting = used("n", "Read", f"{said}\n" * 20, file_path="src/c1.py")
    assert found(turn(1), quoting).files == ()


@pytest.mark.spec("CP-13")
def test_a_kept_read_that_is_cleared_is_not_visible():
    assert found(turn(1), turn(2, path="src/c1.py"), hidden={"c2": Cleared(("c2",))}).files == ("src/c1.py",)


def test_a_read_that_failed_is_not_tried_again():
    assert found(used("c1", "Read", "no such file", is_error=True, file_path="a.py")).files == ()


@pytest.mark.spec("CP-13")
def test_files_come_as_they_are_now_within_their_budgets_and_problems_are_told():
    bench = Bench(turns(5))
    settings = CompactSettings(file_tokens=100, files_tokens=240)
    files = [
        FileRead("src/c5.py", "new line\n" * 10),
        FileRead("src/c4.py", "x" * 249 + "\n" + "y" * 400),
        FileRead("src/c3.py", problem="it is gone"),
        FileRead("src/c2.py", "z" * 400),
        FileRead("src/c1.py", "w" * 400),
    ]
    done = bench.compact(AUTO, files=files, settings=settings)
    shown = [record for record in done.restored if record.subtype == "restored_file"]
    told = [attachment_words(record.blocks[0]) for record in shown]
    heading = " was read before the compaction. This is its content now "
    assert told == [
        "src/c5.py" + heading + "(whole):\n" + ("new line\n" * 10).strip(),
        "src/c4.py" + heading + "(its beginning; read the rest where needed):\n" + "x" * 249,
        "src/c2.py" + heading + "(whole):\n" + "z" * 400,
    ]
    (left_out,) = [each for each in done.restored if each.subtype == "restored_files_left_out"]
    assert attachment_words(left_out.blocks[0]).splitlines()[1:] == [
        "- src/c3.py: it is gone",
        "- src/c1.py: the budget for restored files is used up",
    ]


def test_a_restored_file_is_restored_again_after_the_next_compaction():
    bench = Bench(turns(2))
    files = [FileRead("src/c2.py", "two"), FileRead("src/c1.py", "one")]
    bench.compact(AUTO, files=files)
    for record in turn(3):
        bench.log.append(record)
    assert bench.planned(AUTO).restoration.files == ("src/c3.py", "src/c2.py", "src/c1.py")


# ── work ─────────────────────────────────────────────────────────────────────────────────────────


def todos(name: str, *statuses: str) -> list[Record]:
    listed = [{"content": f"step {at}", "status": status} for at, status in enumerate(statuses, start=1)]
    return used(name, "TodoWrite", todos=listed)


@pytest.mark.spec("CP-14")
def test_the_todo_list_is_the_last_one_written():
    records = [*turns(1), *todos("t1", "pending", "pending"), *todos("t2", "completed", "in_progress")]
    assert found(records).todos == "- [completed] step 1\n- [in_progress] step 2"
    assert found(turns(1), todos("t3", "pending")).todos == ""
    named = [
        {"id": "7", "content": "look"},
        {"step": "act", "status": "in_progress"},
        {"description": "rest"},
    ]
    listed = found([*turns(1), *used("t5", "TodoWrite", todos=named)]).todos
    assert listed == "- [pending] #7 look\n- [in_progress] act\n- [pending] rest"
    assert found([*records, *todos("t4", "completed", "completed")]).todos == ""


@pytest.mark.spec("CP-14")
def test_tasks_are_followed_from_call_to_call_and_across_a_compaction():
    first = [
        *turns(1),
        *used("k1", "TaskCreate", "Task #1 created successfully: look", subject="look"),
        *used("k2", "TaskCreate", "Task #2 created successfully: act", subject="act"),
        *used("k3", "TaskUpdate", taskId="1", status="in_progress"),
    ]
    bench = Bench(first)
    assert bench.planned(AUTO).restoration.todos == "- [in_progress] #1 look\n- [pending] #2 act"
    bench.compact(AUTO)
    for record in [*turn(2), *used("k4", "TaskUpdate", taskId="1", status="completed")]:
        bench.log.append(record)
    assert bench.planned(AUTO).restoration.todos == "- [completed] #1 look\n- [pending] #2 act"
    for record in used("k5", "TaskUpdate", taskId="2", status="deleted"):
        bench.log.append(record)
    assert bench.planned(AUTO).restoration.todos == ""


@pytest.mark.spec("CP-14")
def test_the_plan_comes_back_whole_every_time():
    plan = "# Plan\n" + "a step\n" * 5_000
    bench = Bench(
        [
            *turns(1),
            *used("p1", "ExitPlanMode", "approved", plan="old"),
            *used("p2", "ExitPlanMode", plan=plan),
        ]
    )
    for at in range(2, 4):
        bench.compact(AUTO)
        (shown,) = [each for each in bench.log.view.records if each.subtype == "restored_plan"]
        assert fields_of(shown.blocks[0])["content"][1] == plan
        for record in turn(at):
            bench.log.append(record)


@pytest.mark.spec("CP-14")
def test_plan_mode_is_read_from_the_mode_beside_a_persons_words():
    def said(mode: str) -> Record:
        return b.user(f"in {mode}", permissionMode=mode)

    approved = used("x", "ExitPlanMode", "approved", plan="1. go")
    entered = b.attachment("", uuid="on", attachment={"type": "plan_mode"})
    ended = b.attachment("", uuid="off", attachment={"type": "plan_mode_exit"})
    quoted = b.user('look at {"permissionMode":"plan"}', uuid="quoted")
    answers = {
        "planning": [said("default"), said("plan"), *turns(1)],
        "approved": [said("plan"), *approved],
        "left": [said("plan"), said("acceptEdits")],
        "entered again": [said("plan"), *approved, said("plan")],
        "quoted": [quoted],
        "attached": [entered],
        "attached, then ended": [entered, ended],
    }
    modes = {name: found(records).plan_mode for name, records in answers.items()}
    assert [name for name, is_on in modes.items() if is_on] == ["planning", "entered again", "attached"]


@pytest.mark.spec("CP-14")
def test_plan_mode_is_remembered_until_a_plan_is_approved():
    entered = [*turns(1), *used("p1", "EnterPlanMode")]
    refused = [*entered, *used("p2", "ExitPlanMode", "not yet", is_error=True, plan="x")]
    approved = [*refused, *used("p3", "ExitPlanMode", "go", plan="y")]
    assert [found(records).plan_mode for records in (turns(1), entered, refused, approved)] == [
        False, True, True, False,
    ]  # fmt: skip
    bench = Bench(refused)
    for at in range(2, 4):
        bench.compact(AUTO)
        assert "plan_mode" in attached(bench)
        for record in turn(at):
            bench.log.append(record)


LAUNCHED = "Async agent launched successfully.\nagentId: {} (internal). The agent works in the background."


def launched(name: str, what: str) -> list[Record]:
    return used(f"l-{name}", "Task", LAUNCHED.format(name), description=what, prompt="look")


@pytest.mark.spec("CP-16")
def test_agents_at_work_or_not_collected_are_named_so_that_no_second_one_is_started():
    notice = "<task-notification>\n<task-id>a2</task-id>\n<status>completed</status>\n</task-notification>"
    running = "<status>running</status>"
    over = "<task_id>a3</task_id>\n<status>completed</status>\n<output>all good</output>"
    records = [
        *turns(1),
        *launched("a1", "review data"),
        *launched("a2", "review tests"),
        *launched("a3", "review docs"),
        *used("sync", "Task", "All done.", description="quick look"),
        *used("o1", "TaskOutput", running, task_id="a1"),
        *used("o3", "TaskOutput", over, task_id="a3"),
        b.user(notice, uuid="notice"),
        b.assistant(notice.replace("a2", "a1"), id="quoted"),
    ]
    expected = ("- a1 (running): review data", "- a2 (completed): review tests")
    assert found(records).agents == expected
    bench = Bench(records)
    bench.compact(AUTO)
    for record in turn(2):
        bench.log.append(record)
    assert bench.planned(AUTO).restoration.agents == expected
    for record in used("o1b", "TaskOutput", "<status>failed</status>", task_id="a1"):
        bench.log.append(record)
    assert bench.planned(AUTO).restoration.agents == expected[1:]


# ── skills and announcements ─────────────────────────────────────────────────────────────────────


def skill(name: str, body: str) -> list[Record]:
    told = f"Base directory for this skill: skills/{name}\n\n{body}"
    return [
        *used(f"s-{name}", "Skill", f"Launching skill: {name}", skill=name),
        b.user([b.say(told)], uuid=f"body-{name}", isMeta=True),
        b.assistant("ready", id=f"ready-{name}", uuid=f"ready-{name}"),
    ]


@pytest.mark.spec("CP-15")
def test_skills_come_back_most_recent_first_across_compactions():
    bench = Bench([*turns(1), *skill("lint", "Run the linter."), *skill("ship", "Tag it.")])
    expected = (
        ("ship", "Base directory for this skill: skills/ship\n\nTag it."),
        ("lint", "Base directory for this skill: skills/lint\n\nRun the linter."),
    )
    assert bench.planned(AUTO).restoration.skills == expected
    bench.compact(AUTO)
    for record in turn(2):
        bench.log.append(record)
    assert bench.planned(AUTO).restoration.skills == expected
    kept = skill("lint", "Run the linter.")
    assert [name for name, _ in found(list(bench.log.view.records), kept).skills] == ["ship"]


@pytest.mark.spec("CP-15")
def test_a_skill_without_instructions_before_someone_speaks_again_is_not_restored():
    used_only = skill("lint", "Run the linter.")
    call, result, body, ready = used_only
    assert found([*turns(1), call, result, ready, body]).skills == ()
    assert found([*turns(1), call, result, b.user("Go on.", uuid="go"), body]).skills == ()
    assert found([*turns(1), call, result]).skills == ()
    assert [name for name, _ in found([*turns(1), *used_only]).skills] == ["lint"]


@pytest.mark.spec("CP-17")
def test_an_agent_type_that_was_removed_again_is_not_announced():
    added = note(
        "agent_listing_delta", "x1", addedTypes=["A", "B"], addedLines=["- A", "- B"], removedTypes=[]
    )
    removed = note("agent_listing_delta", "x2", addedTypes=[], addedLines=[], removedTypes=["A", "C"])
    assert found([*turns(1), added, removed]).listings == (("Agent types that can be started", ("- B",)),)


@pytest.mark.spec("CP-15")
def test_a_long_skill_is_cut_and_says_so_and_all_stay_within_their_budget():
    records = [record for name in "abcdef" for record in skill(name, f"line {name}\n" * 4_000)]
    done = Bench([*turns(1), *records]).compact(AUTO)
    shown = [fields_of(each.blocks[0]) for each in done.restored if each.subtype == "restored_skill"]
    assert [each["name"] for each in shown] == ["f", "e", "d", "c", "b"]
    assert shown[0]["content"][0] == (
        "The skill f was invoked in this session and still applies; only its beginning is shown, "
        "invoke it again for the rest:"
    )
    assert all(4_990 < len(each["content"][1]) / 4 <= 5_000 for each in shown)


@pytest.mark.spec("CP-17")
def test_tools_agents_and_servers_are_announced_again_as_differences_and_skill_names_are_not():
    records = [
        *turns(1),
        note("skill_listing", "x0", content="- lint: ...", skillCount=1),
        note(
            "deferred_tools_delta",
            "x1",
            addedNames=["WebFetch", "LSP", "Cron"],
            addedLines=[],
            removedNames=[],
        ),
        note("deferred_tools_delta", "x2", addedNames=[], removedNames=["Cron"]),
        note(
            "agent_listing_delta",
            "x3",
            addedTypes=["Explore"],
            addedLines=["- Explore: looks"],
            removedTypes=[],
        ),
        note("mcp_instructions_delta", "x4", addedNames=["db"], addedBlocks=["Ask first."], removedNames=[]),
    ]
    kept = [*turn(2), note("deferred_tools_delta", "x5", addedNames=["LSP"], removedNames=[])]
    expected = (
        ("Agent types that can be started", ("- Explore: looks",)),
        ("Instructions of MCP servers", ("Ask first.",)),
    )
    back = found(records, kept)
    assert (back.tools, back.listings) == (("WebFetch",), expected)
    taken = note("deferred_tools_delta", "x6", addedNames=[], removedNames=["WebFetch"])
    assert found(records, [*kept, taken]).tools == ()
    bench = Bench(records)
    bench.compact(AUTO)
    assert attached(bench) == ["restored_tools", "restored_listing", "restored_listing", "compaction_receipt"]
    for record in turn(3):
        bench.log.append(record)
    again = bench.planned(AUTO).restoration
    assert (again.tools, again.listings) == (("WebFetch", "LSP"), expected)


@pytest.mark.spec("CP-17")
def test_tools_that_a_search_loaded_are_named_on_every_boundary():
    loaded = [{"type": "tool_reference", "tool_name": "WebSearch"}]
    bench = Bench([*turns(1), *used("ts", "ToolSearch", loaded, query="web")])
    for at in range(2, 4):
        done = bench.compact(manual())
        assert done.boundary.edit is not None
        assert done.boundary.edit.discovered_tools == ("WebSearch",)  # type: ignore[union-attr]
        for record in turn(at):
            bench.log.append(record)
