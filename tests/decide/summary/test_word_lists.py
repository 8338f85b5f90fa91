"""Every word of the lists that a reader knows: commands, statuses, languages, tags, signs of a merge."""

import builders as b
import pytest

from everturn.decide.authorship import typed_words, without_wrapped
from everturn.decide.compact.breakers import filled_by
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Attempt
from everturn.decide.effects import ModelFailure
from everturn.decide.events import find_failure_reason
from everturn.decide.extractive.reading import commands as c
from everturn.decide.extractive.reading.calls import read_tool_actions
from everturn.decide.extractive.reading.facts import TaskItem, is_local
from everturn.decide.extractive.reading.merges import MergeState
from everturn.decide.extractive.reading.tasks import TaskList
from everturn.decide.extractive.reading.walk import extract_facts
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing.files import concepts, shared_root
from everturn.decide.retention.matching import Item, RetainedItems, SummaryText, match, plain, telling_words
from everturn.history.blocks import block_from_fields, result_block
from everturn.measure.accounting import Metrics
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE


def words(text: str) -> list[str]:
    return text.split()


# ── who wrote a text ─────────────────────────────────────────────────────────────────────────────

HTML = words(
    "a abbr article aside b blockquote body br button canvas code dd div dl dt em fieldset figure "
    "footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input label legend li link main "
    "meta nav ol option p pre script section select small span strong style sub sup svg table tbody "
    "td template textarea tfoot th thead tr ul video"
)


def test_elements_of_web_pages_are_typed_by_people_and_other_tags_are_not():
    for tag in HTML:
        text = f"<{tag.upper()} class='x'> why is this red?"
        assert typed_words(text) == text
        assert without_wrapped(f"Look:\n<{tag}>x</{tag}>") == f"Look:\n<{tag}>x</{tag}>"
    for tag in ("bash-stdout", "task-notification", "blink", "aa"):
        assert typed_words(f"<{tag}>out</{tag}>") == ""
        assert without_wrapped(f"Look:\n<{tag}>x</{tag}> here") == "Look:\n\n here"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("<command-name>/fix</command-name><command-args> it </command-args>", "/fix it"),
        ("<command-message>fix is running</command-message>\n<command-name>/fix</command-name>", "/fix"),
        ("<command-args>it</command-args>", "it"),
        ("<bash-input> ls -l </bash-input>", "! ls -l"),
        ("<system-reminder>x</system-reminder> So?", "So?"),
        ("<ide_opened_file>a.py</ide_opened_file>\n<ide_selection>b</ide_selection>Why?", "Why?"),
        ("<system-reminder>a</system-reminder> b </system-reminder> c", "c"),
        ("<system-reminder>never closed", ""),
        ("\ufeff\u200b <system-reminder>x</system-reminder>\u2060 Hi\u200b", "Hi"),
        ("[Request interrupted by user for tool use]  ", ""),
        ("[Request interrupted by user] but why?", "[Request interrupted by user] but why?"),
        ("a < b > c", "a < b > c"),
        ("<1>", "<1>"),
    ],
)
def test_of_a_text_what_a_person_typed_is_found(text: str, typed: str):
    assert typed_words(text) == typed


@pytest.mark.parametrize(
    "command",
    words(
        "/exit /quit /clear /compact /model /cost /context /config /login /logout /help /status /resume /mcp "
        "/permissions /memory /doctor /usage /rewind"
    ),
)
def test_commands_for_the_program_are_told_from_requests(command: str):
    assert is_local(command)
    assert is_local(f"{command} now please")
    assert not is_local(f"{command}s")
    assert not is_local(command[1:])


# ── commands ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "program",
    [
        *words("cat head tail sed grep rg ag less more ls find fd awk wc echo printf nl jq tree stat file"),
        *words("which pwd diff sort xxd"),
        *(f"git {each}" for each in words("log show diff blame grep reflog cat-file ls-files")),
    ],
)
def test_programs_that_only_print_are_known_by_name(program: str):
    assert c.only_prints(f"{program} a b")
    assert c.only_prints(f"cd /p && {program} a; X=1 {program} b | make test")
    assert not c.only_prints(f"{program}x a")
    assert not c.only_prints(f"{program} a && make")


@pytest.mark.parametrize(
    ("command", "ran"),
    [
        *((f"{each} run build all", (f"{each} run build",))
          for each in words("npm yarn pnpm mise uv poetry bun deno just docker")),
        *((f"{each} build all", (each,))
          for each in words("pytest tox jest vitest rspec phpunit mypy pyright tsc eslint")),
        ("go build all", ("go build",)),
        ("go -v build", ("go",)),
        ("make > out.txt", ("make",)),
        ("make 2> out.txt", ("make",)),
        ("make 'a b'", ("make",)),
        ("make $X", ("make",)),
        ("make .all", ("make",)),
        ("make a/b", ("make",)),
        ("python -m mypy src", ("python -m mypy",)),
        ("python -m", ("python",)),
        ("# a comment\nmake; make", ("make",)),
        ("A=1 B=2 make x || make y", ("make x", "make y")),
        ("cd /p", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_a_program_is_named_with_its_command_as_far_as_it_has_one(command: str, ran: tuple[str, ...]):
    assert c.programs(command) == ran


@pytest.mark.parametrize(
    ("command", "checks", "delivers"),
    [
        ("make", True, False),
        ("go vet ./...", True, False),
        ("cargo run", True, False),
        ("ls", False, False),
        ("git commit -m x", False, True),
        ("git push", False, True),
        ("git test", False, False),
        ("ls && git push", False, True),
    ],
)
def test_checks_and_deliveries_are_known_by_their_program(command: str, checks: bool, delivers: bool):
    assert (c.is_check(command), c.is_delivery(command)) == (checks, delivers)


def test_tests_are_told_from_other_programs():
    assert c.tests_only(["go test", "npm run e2e", "tox"])
    assert not c.tests_only(["go test", "make lint"])
    assert not c.tests_only(["git test"])
    commands = ("pytest -k x", "pytest a.py::t", "go test -run X", "pytest")
    assert [c.is_narrowed(each) for each in commands] == [True, True, True, False]


# ── merges ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("output", "under_way"),
    [
        ("interactive rebase in progress; onto 1a2b", "a rebase is in progress"),
        ("You are currently rebasing branch 'x'", "a rebase is in progress"),
        ("You have unmerged paths.", "a merge is in progress"),
        (
            "All conflicts fixed but you are still merging.",
            "a merge is in progress, all conflicts fixed, not committed",
        ),
        ("You are currently cherry-picking commit 1a2b.", "a cherry-pick is in progress"),
        (
            "error: could not apply 1a2b... fix",
            "a rebase or cherry-pick stopped at a commit that could not be applied",
        ),
        ("Automatic merge failed; fix conflicts", "a merge is in progress"),
        ("Already up to date.", ""),
    ],
)
def test_an_operation_of_git_that_is_not_finished_is_named(output: str, under_way: str):
    state = MergeState()
    state.note("git status", output, failed=False)
    assert (state.under_way, state.is_known) == (under_way, True)


CONFLICTS = "\n".join(
    [
        "CONFLICT (content): Merge conflict in src/a.py",
        "CONFLICT (modify/delete): b.py deleted in HEAD and modified in x",
        "UU c.py",
        "\tboth modified:   d e.py",
        "deleted by us:   f.py",
    ]
)


def merging(*steps: tuple[str, bool]) -> MergeState:
    state = MergeState()
    state.note("git merge x", CONFLICTS + "\nAutomatic merge failed", failed=True)
    for command, failed in steps:
        state.note(command, "", failed=failed)
    return state


@pytest.mark.parametrize(
    ("command", "failed", "left"),
    [
        ("git add a.py", False, ["b.py", "c.py", "d e.py", "f.py"]),
        ("git add src/a.py c.py", True, ["b.py", "d e.py", "f.py"]),
        ("git rm b.py", False, ["src/a.py", "c.py", "d e.py", "f.py"]),
        ("git rm b.py", True, ["src/a.py", "b.py", "c.py", "d e.py", "f.py"]),
        ("git -C /p add .", False, []),
        *((f"git add {each}", False, []) for each in ("-A", "--all", "-u", "--update")),
        *(
            (f"git {each} --x", False, [])
            for each in ("commit", "merge", "rebase", "cherry-pick", "reset", "am")
        ),
        ("git rebase --continue", True, ["src/a.py", "b.py", "c.py", "d e.py", "f.py"]),
        ("git stash", False, ["src/a.py", "b.py", "c.py", "d e.py", "f.py"]),
        ("make", False, ["src/a.py", "b.py", "c.py", "d e.py", "f.py"]),
    ],
)
def test_a_conflict_is_open_until_its_file_is_added_or_the_operation_ends(command, failed, left):
    assert list(merging((command, failed)).open) == left


def test_a_status_lists_all_conflicts_that_are_left():
    state = merging()
    state.note("git status", "On branch main\nUU c.py", failed=False)
    assert (list(state.open), state.under_way) == (["c.py"], "")


@pytest.mark.parametrize(
    ("said", "is_over"),
    [
        ("The rebase is done.", True),
        ("I aborted the merge", True),
        ("All conflicts are resolved now", True),
        ("The merge is ugly.", False),
        ("x" * 4_000 + " The rebase is done.", False),
    ],
)
def test_a_user_may_say_that_a_merge_is_over(said: str, is_over: bool):
    state = merging()
    state.heard(said)
    assert (state.under_way == "", state.open == {}) == (is_over, is_over)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("completed", "completed"),
        ("done", "completed"),
        ("deleted", "completed"),
        ("cancelled", "completed"),
        ("in_progress", "in_progress"),
        ("pending", "pending"),
        ("whatever", "pending"),
        (None, "pending"),
    ],
)
def test_the_status_of_a_task_is_one_of_three(word, status):
    tasks = TaskList()
    tasks.note("replaces_tasks", "c", {"todos": [{"content": "a", "status": word}]})
    assert tasks.all() == (TaskItem("a", status),)


def test_tasks_are_listed_created_numbered_changed_and_printed():
    tasks = TaskList()
    assert (tasks.is_known, tasks.all()) == (False, ())
    tasks.note("adds_task", "c1", {"subject": "one", "description": "long"})
    tasks.note("adds_task", "c2", {"description": "two"})
    tasks.note("adds_task", "c3", {})
    tasks.number("c1", "Task #7 created successfully")
    tasks.number("c9", "Task #9 created successfully")
    tasks.number("c2", "no number")
    tasks.note("changes_task", "c4", {"taskId": "7", "status": "in_progress"})
    tasks.note("changes_task", "c5", {"taskId": "8", "subject": "eight"})
    tasks.note("changes_task", "c6", {"taskId": "7", "subject": "uno"})
    assert tasks.all() == (
        TaskItem("uno", "in_progress"),
        TaskItem("two"),
        TaskItem("(a task without a name)"),
        TaskItem("eight"),
    )
    tasks.read_list("#7 [completed] one [blocked by #1]\n#8. [pending] eight again\nno task")
    assert tasks.all()[0] == TaskItem("one", "completed")
    assert tasks.all()[3] == TaskItem("eight again")
    plan = [{"step": "a"}, {"subject": "b"}, {"description": "d", "status": "done"}, {"content": ""}, 7]
    tasks.note("replaces_tasks", "c7", {"plan": plan})
    assert tasks.all() == (TaskItem("a"), TaskItem("b"), TaskItem("d", "completed"))
    tasks.note("replaces_tasks", "c8", {"todos": []})
    assert tasks.all() == ()


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


def action(tool: str, **given: object) -> tuple[str, str, str, str]:
    block = block_from_fields({"type": "tool_use", "id": "c", "name": tool, "input": given})
    (found,) = read_tool_actions(block, given, DEFAULT_TOOL_TABLE.find(tool))
    return found.verb, found.target, found.new_text, found.detail


@pytest.mark.parametrize("field", ["new_string", "new_str", "newText", "new_source", "content", "file_text"])
def test_new_text_is_read_from_the_fields_of_every_editor(field: str):
    assert action("Edit", file_path="/a", **{field: "x = 1"}) == ("edited", "/a", "x = 1", "x = 1")
    assert action("Write", file_path="/a", **{field: "x = 1"}) == ("wrote", "/a", "x = 1", "")


@pytest.mark.parametrize("field", ["old_string", "old_str", "oldText"])
def test_lines_that_were_there_before_are_no_change(field: str):
    given = {field: "one\n  two", "new_string": "two\nab\n  three"}
    assert action("Edit", file_path="/a", **given)[3] == "three"


@pytest.mark.parametrize("field", ["subject", "description", "pattern", "query", "url", "skill", "path"])
def test_what_another_tool_was_about_is_read_from_its_most_telling_field(field: str):
    assert action("Grep", **{field: " this "}) == ("other", "this", "", "")
    assert action("TaskCreate", **{field: "this"})[:2] == ("tracked", "this")


def test_the_most_telling_field_comes_first():
    given = {"skill": "f", "url": "e", "query": "d", "pattern": "c", "description": "b", "subject": "a"}
    found = []
    for name in reversed(given):
        found.append(action("Grep", **given)[1])
        given = {key: value for key, value in given.items() if key != name}
    assert found == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, ""),
        ({"offset": 0, "limit": 5}, ""),
        ({"offset": 1}, "from line 1"),
        ({"offset": 1_000, "limit": 0}, "from line 1,000"),
        ({"offset": 1_000, "limit": 1}, "lines 1,000-1,000"),
        ({"offset": 10, "limit": 20}, "lines 10-29"),
        ({"offset": "10", "limit": 20}, ""),
        ({"offset": 10, "limit": "20"}, "from line 10"),
    ],
)
def test_the_lines_that_a_call_read_are_told(given, lines):
    assert action("Read", file_path="/a", **given) == ("read", "/a", "", lines)


def test_a_command_may_be_a_list_of_words_without_its_shell():
    for shell in (["bash", "-lc"], ["sh", "-c"], ["zsh", "-c"]):
        assert action("shell", command=[*shell, "make test", 7]) == ("ran", "make test", "", "")
    assert action("MultiEdit", file_path="/a", edits=[{"new_string": "x = 1"}, {"new_string": "y = 2"}]) == (
        "edited", "/a", "y = 2", "y = 2",
    )  # fmt: skip


# ── concepts and roots ───────────────────────────────────────────────────────────────────────────

LANGUAGES = {
    "c": "C", "cpp": "C++", "cs": "C#", "css": "CSS", "go": "Go", "html": "HTML", "java": "Java",
    "js": "JavaScript", "jsx": "JavaScript", "kt": "Kotlin", "md": "Markdown", "php": "PHP", "py": "Python",
    "rb": "Ruby", "rs": "Rust", "sh": "shell", "sql": "SQL", "swift": "Swift", "toml": "TOML",
    "ts": "TypeScript", "tsx": "TypeScript", "yaml": "YAML", "yml": "YAML",
}  # fmt: skip


@pytest.mark.parametrize(("end", "language"), LANGUAGES.items())
def test_the_language_of_a_file_is_known_by_its_end(end: str, language: str):
    read = b.assistant(b.call("c1", "Read", file_path=f"/p/some.{end.upper()}"))
    other = b.assistant(b.call("c2", "Read", file_path=f"/p/some.{end}x.bin"), id="m2")
    records = [b.user("go"), read, b.result("c1"), other, b.result("c2")]
    entries = [each.text for each in concepts(extract_facts(records), SummarySettings())]
    assert [each for each in entries if each.startswith("files: ")] == [f"files: {language} ×1"]


@pytest.mark.parametrize(
    ("paths", "root"),
    [
        ([], ""),
        (["/p/a.py"], ""),
        (["/p/a.py", "/p/b.py"], "/p/"),
        (["/p/src/a.py", "/p/src/b.py", "/p/c.py"], "/p/src/"),
        (["/p/s/a.py", "/p/s/b.py", "/p/c.py", "/p/d.py", "/p/e.py"], "/p/"),
        (["p/a.py", "p/b.py"], ""),
    ],
)
def test_the_root_is_the_folder_that_saves_most_characters(paths: list[str], root: str):
    assert shared_root(paths) == root


# ── retention ────────────────────────────────────────────────────────────────────────────────────

COMMON = words(
    "about also been before both come could does done down each even every first from have here into "
    "just know like look made make more most much need next only other over please same should some "
    "still such than that their them then there these they this those through very want were what "
    "when where which while will with without would your"
)


def test_common_words_tell_nothing():
    assert telling_words(" ".join(COMMON)) == []
    assert telling_words(" ".join(f"{each}q" for each in COMMON if len(each) < 5)) != []


@pytest.mark.parametrize(
    ("text", "telling"),
    [
        ("The parser stops early", ["parser", "stops", "early"]),
        ("use 8080 or x1", ["8080", "x1"]),
        ("summarise summarised Summarising", ["summar"]),
        ("abcdef abcdefg h264encoder", ["abcdef", "h264encoder"]),
        ("one two six", []),
        (" ".join(f"word{at}" for at in range(30)), [f"word{at}" for at in range(24)]),
        ("snake_case_name", ["snake_case_name"]),
    ],
)
def test_telling_words_are_long_or_have_a_digit_and_lose_their_ends(text: str, telling: list[str]):
    assert telling_words(text) == telling


def test_items_are_kept_word_for_word_in_other_words_or_lost_by_weight():
    text = SummaryText("The parser stops early, and commit 1a2b3c4 mends it. Never push to main!")
    items = [
        Item("never PUSH -- to main"),
        Item("Never push to main."),
        Item("early stopping of the parser", weight=2.0),
        Item("parser stops late", exact=True),
        Item("a fix that nobody sees", any_of=("", "1a2b3c4")),
        Item("something completely different", weight=3.0),
        Item("..."),
    ]
    assert match(items, text) == RetainedItems(
        kept=1,
        total=5,
        lost=("parser stops late", "something completely different"),
        loosely=2,
        weighed=1 - 4 / 8,
    )
    assert match([], text) == RetainedItems()
    assert (RetainedItems().share, RetainedItems().loose_share) == (None, None)
    assert (match(items, text).share, match(items, text).loose_share) == (1 / 5, 3 / 5)
    assert match([Item("the parser never")], text, most_words=2).kept == 1


@pytest.mark.parametrize(("gap", "near"), [(0, 1.0), (28, 1.0), (60, 0.5), (200, 0.5)])
def test_words_are_near_within_a_passage(gap: int, near: float):
    text = SummaryText("parser " + "so " * gap + "stops")
    assert text.nearness(["parser", "stops"]) == near
    assert text.nearness([]) == 0.0
    assert text.nearness(["nothing"]) == 0.0


def test_one_telling_word_is_not_enough_for_other_words():
    text = SummaryText("The parser is slow.")
    assert not text.keeps(Item("a parser it is"))
    assert text.keeps(Item("parser slow", least=0.5))
    assert not text.keeps(Item("parser broken entirely", least=0.5))
    assert text.keeps(Item("parser broken", least=0.5))
    assert plain("It's  A_b, c!") == "it s a_b c"


# ── figures and reasons ──────────────────────────────────────────────────────────────────────────


def test_what_fills_a_context_is_told_largest_first_with_its_share():
    empty = dict.fromkeys(words("human assistant local_output other thinking images injected"), 0)
    none = Metrics(tool_requests={}, tool_results={}, attachments={}, duplicate_reads={}, **empty)
    assert filled_by(none) == ""
    for name in words("human assistant local_output thinking images injected"):
        others = {**empty, name: 50, "other": 50 if name in words("thinking images injected") else 0}
        one = Metrics(tool_requests={}, tool_results={}, attachments={}, duplicate_reads={}, **others)
        assert filled_by(one) == f"{name.replace('_', ' ')} 100%"
    mixed = Metrics(
        tool_requests={"Bash": 30},
        tool_results={"Read": 40, "Bash": 10},
        attachments={},
        duplicate_reads={},
        **{**empty, "human": 19, "assistant": 1},
    )
    assert filled_by(mixed) == "results of Read 40%, calls of Bash 30%, human 19%"
    assert filled_by(mixed, CompactSettings(culprits=1)) == "results of Read 40%"


@pytest.mark.parametrize("kind", ["too_long", "api_error", "refused", "timeout", "cancelled", "calls_spent"])
def test_the_reason_of_a_failure_is_that_of_the_last_attempt(kind):
    failed = Attempt(strategy="fork", problem="x", failure=ModelFailure(kind, "x"))
    assert find_failure_reason([Attempt(strategy="direct", text="t"), failed]) == kind
    assert find_failure_reason([failed, Attempt(strategy="direct", text="t")]) == "over_threshold"
    assert find_failure_reason([failed, Attempt(strategy="direct")]) == "no_summary"
    assert find_failure_reason([]) == "no_summary"


def test_only_the_ends_of_a_long_output_are_looked_at():
    failed = "\nFAILED tests/test_a.py::test_b\n"
    near, far = failed + "x" * 39_900, failed + "x" * 40_100
    assert [c.has_failed("make test", result_block("c", text)) for text in (near, far)] == [True, False]
    passed = "12 passed in 0.3s"
    logged = "\nTraceback (most recent call last):\n"
    found = [logged + passed + "y" * count for count in (1_400, 1_600)]
    assert [c.has_failed("make test", result_block("c", text)) for text in found] == [False, True]
    status = ["x" * count + "\nExit code 1\n" + "x" * 500 for count in (300, 400)]
    assert [c.has_failed("make test", result_block("c", text)) for text in status] == [True, False]


def test_of_a_long_command_only_the_beginning_is_read():
    filler = "true;" * 398
    assert c.programs(f"{filler}make a")[-1] == "make a"
    assert c.programs(f"{filler}true;true;make a") == ("true",)
    assert [c.is_narrowed("x" * count + " -k y") for count in (1_990, 2_000)] == [True, False]
