"""Work that is not finished, as calls, answers and attachments tell it; and requests that have to fit."""

from typing import Any

import builders as b
import msgspec
import pytest
from decide.compact.bench import LIMITS, MODEL, Bench, manual, turns
from decide.compact.test_restore import note, used

from everturn.decide.compact.call_index import index_calls
from everturn.decide.compact.chain import chain_of
from everturn.decide.compact.context import CompactionContext, LeastTokens
from everturn.decide.compact.divide import first_words, is_said, messages_in
from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.summary_calls import CallObserver, SummaryCalls
from everturn.decide.compact.summary_fitting import (
    cut_to_window,
    ended_at_window,
    estimate_messages,
    explain_too_long,
    learn_from_overflow,
    with_room,
)
from everturn.decide.compact.unanswered import (
    has_unanswered,
    room_for_newest,
    start_of_last_round,
    start_of_unanswered,
    unanswered_parts,
)
from everturn.decide.compact.values import Attempt, CompactionSkipped
from everturn.decide.compact.work import (
    agents_at_work,
    is_planning,
    is_task_finished,
    plan_made,
    todo_list,
)
from everturn.decide.effects import AskModel, ModelAnswer, ModelFailure
from everturn.decide.extractive.settings import SummarySettings
from everturn.history.blocks import text_block
from everturn.history.messages import Message
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model_table import model_or_default
from everturn.measure.outline import Preamble
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE
from everturn.view.forks import CapturedRequest
from everturn.view.fragments.truncated import TRUNCATED
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.anthropic import Request
from everturn.wire.overflow import Overflow


def todos(*rows: tuple[str, str]) -> list[dict[str, str]]:
    return [{"content": words, "status": status} for words, status in rows]


# ── todos ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("records", "lines"),
    [
        ([], ""),
        (used("1", "TodoWrite", todos=todos(("one", "completed"), ("two", "completed"))), ""),
        (
            used("1", "TodoWrite", todos=todos(("one", "completed"), (" two\n words ", "in_progress"))),
            "- [completed] one\n- [in_progress] two words",
        ),
        (
            [
                *used("1", "TodoWrite", todos=todos(("one", "pending"))),
                *used("2", "TodoWrite", todos=todos(("two", "pending")), is_error=True),
            ],
            "- [pending] one",
        ),
        (
            [
                *used("1", "TaskCreate", "Task #1 created", subject="task"),
                *used("2", "TodoWrite", todos=todos(("two", "pending")), is_error=True),
            ],
            "- [pending] #1 task",
        ),
        (
            used("1", "update_plan", plan=[{"step": "a"}, {"description": "b", "id": "7"}, {"status": "x"}]),
            "- [pending] a\n- [pending] #7 b\n- [x] ",
        ),
        (
            [
                *used("1", "TaskCreate", "Task #4 created successfully: a", subject="a"),
                *used("2", "TaskCreate", "ok", subject="b"),
                *used("3", "TaskUpdate", taskId="4", status="completed"),
                *used("4", "TaskUpdate", taskId="2", subject="bb"),
                *used("5", "TaskUpdate", taskId="9", status="in_progress"),
                *used("6", "TaskCreate", "Task #5 created", subject="c"),
                *used("7", "TaskUpdate", taskId="5", status="deleted"),
                *used("8", "TaskUpdate", status="completed"),
            ],
            "- [completed] #4 a\n- [pending] #2 bb\n- [in_progress] #9 ",
        ),
        (
            [
                *used("1", "TodoWrite", todos=todos(("old", "pending"))),
                note("restored_todos", "t1", content=["The list:", "- [pending] #1 one\n- [completed] two"]),
                *used("2", "TaskUpdate", taskId="1", status="in_progress"),
            ],
            "- [in_progress] #1 one\n- [completed] two",
        ),
        (
            [
                note("restored_todos", "t1", content=["The list:", "- [pending] #1 one"]),
                *used("1", "TodoWrite", todos=todos(("new", "pending"))),
            ],
            "- [pending] new",
        ),
        (
            [
                *used("1", "TodoWrite", todos=todos(("new", "pending"))),
                *used("2", "TaskCreate", "Task #1 created", subject="task"),
            ],
            "- [pending] #1 task",
        ),
    ],
)
def test_the_todo_list_is_the_newest_list_with_the_tasks_since(records: list[Record], lines: str):
    assert todo_list(index_calls(records)) == lines


DONE = b.assistant("Done.", id="m9", uuid="a9")


@pytest.mark.parametrize(
    ("records", "finished"),
    [
        ([], False),
        ([b.user("go")], False),
        ([b.user("go"), DONE], True),
        ([b.user("go"), DONE, b.system(), b.attachment("x")], True),
        ([b.user("go"), b.assistant("Look.", b.call("c1"))], False),
        ([*used("1", "TodoWrite", todos=todos(("one", "pending"))), DONE], False),
        ([*used("1", "TodoWrite", todos=todos(("one", "completed"))), DONE], True),
        ([*used("1", "mine", todos=todos(("one", "pending"))), DONE], False),
    ],
)
def test_a_task_is_finished_when_the_model_has_its_last_word_and_nothing_is_open(records, finished):
    settings = CompactSettings(todo_tools=("mine",))
    assert is_task_finished(records, settings, DEFAULT_TOOL_TABLE) is finished


# ── plans and agents ─────────────────────────────────────────────────────────────────────────────


def test_the_plan_is_the_newest_that_was_presented_or_restored():
    first = used("1", "ExitPlanMode", plan="one")
    restored = note("restored_plan", "p1", content=["The plan:", "two"])
    assert plan_made(index_calls([])) == ""
    assert plan_made(index_calls(first)) == "one"
    assert plan_made(index_calls([*first, restored])) == "two"
    assert plan_made(index_calls([restored, *first])) == "one"
    assert plan_made(index_calls([*first, *used("2", "ExitPlanMode", plan="")])) == "one"


@pytest.mark.parametrize(
    ("records", "planning"),
    [
        ([], False),
        (used("1", "EnterPlanMode"), True),
        (used("1", "EnterPlanMode", is_error=True), False),
        ([note("plan_mode", "n1")], True),
        ([note("plan_mode_reentry", "n1")], True),
        ([note("plan_mode", "n1"), note("plan_mode_exit", "n2")], False),
        ([*used("1", "EnterPlanMode"), *used("2", "ExitPlanMode", plan="x")], False),
        ([*used("1", "EnterPlanMode"), *used("2", "ExitPlanMode", plan="x", is_error=True)], True),
        ([*used("1", "EnterPlanMode"), b.assistant(b.call("2", "ExitPlanMode", plan="x"), id="m2")], True),
        ([b.user("go", permissionMode="plan")], True),
        ([b.user("go", permissionMode="plan"), b.user("on", permissionMode="default")], False),
        ([b.user("go", permissionMode="default"), b.user("on", permissionMode="plan")], True),
    ],
)
def test_plan_mode_is_on_from_its_beginning_to_an_approved_plan_or_another_mode(records, planning):
    assert is_planning(index_calls(records)) is planning


def launched(name: str, **given: Any) -> list[Record]:
    return used(f"c-{name}", "Task", f"Async agent launched.\nagentId: {name}", **given)


def collected(name: str, status: str, tool: str = "TaskOutput", **more: Any) -> list[Record]:
    return used(f"o-{name}", tool, f"<status>{status}</status>", **(more or {"task_id": name}))


@pytest.mark.parametrize(
    ("records", "lines"),
    [
        (launched("x1", description=" look\n there "), ("- x1 (running): look there",)),
        (launched("x1", prompt="p" * 90), (f"- x1 (running): {'p' * 80}",)),
        (used("1", "Task", "All is well.", description="look"), ()),
        (used("1", "Task", "Async agent launched.\nagentId: x1", is_error=True, description="look"), ()),
        *(
            ([*launched("x1", description="look"), *collected("x1", status)], ())
            for status in ("completed", "failed", "killed", "cancelled", "stopped")
        ),
        ([*launched("x1", description="look"), *collected("x1", "running")], ("- x1 (running): look",)),
        ([*launched("x1", description="look"), *collected("x1", "completed", agentId="x1")], ()),
        ([*launched("x1", description="look"), *collected("x1", "", "TaskStop", task_id="x1")], ()),
        ([*launched("x1", description="look"), *collected("x1", "", "KillShell", shell_id="x1")], ()),
        (
            [
                *launched("x1", description="look"),
                *used("2", "TaskStop", "no such task", is_error=True, task_id="x1"),
            ],
            ("- x1 (running): look",),
        ),
        (
            [
                *launched("x1", description="look"),
                b.user(
                    "<task-notification>\n<task-id>x1</task-id>\n<status>completed</status></task-notification>"
                ),
            ],
            ("- x1 (completed): look",),
        ),
        (
            [
                *launched("x1", description="look"),
                b.result(
                    "c9",
                    "<task-notification><task-id>x1</task-id><status>completed</status></task-notification>",
                ),
            ],
            ("- x1 (running): look",),
        ),
        (
            [
                note("restored_agents", "n1", content=["Agents:", "- x1 (running): look", "no agent"]),
                *launched("x2", description="there"),
            ],
            ("- x1 (running): look", "- x2 (running): there"),
        ),
    ],
)
def test_agents_are_at_work_until_their_result_was_fetched_or_they_were_stopped(records, lines):
    assert agents_at_work(index_calls(records)) == lines


# ── what is unanswered ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("records", "start", "last_round", "is_open"),
    [
        ([], 0, 0, False),
        ([b.user("a")], 0, 0, True),
        ([b.user("a"), DONE], 0, 1, False),
        ([DONE], 0, 0, False),
        ([b.user("a"), DONE, b.user("b")], 2, 1, True),
        ([b.user("a"), DONE, b.user("b", isMeta=True)], 0, 1, False),
        ([b.user("a"), DONE, b.user("b", isMeta=True), b.user("c")], 2, 1, True),
        ([b.user("a"), *used("1", "Read"), b.user("c")], 1, 1, True),
        ([b.user("a"), b.assistant(" ", id="m1"), b.user("b")], 0, 0, True),
        ([b.summary(), b.user("x")], 1, 0, True),
    ],
)
def test_what_is_unanswered_begins_behind_the_last_reply_and_takes_its_calls_along(
    records, start, last_round, is_open
):
    assert (start_of_unanswered(records), start_of_last_round(records), has_unanswered(records)) == (
        start,
        last_round,
        is_open,
    )


def test_the_words_of_programs_and_results_of_unknown_calls_are_told_as_such():
    records = [
        DONE,
        b.user("<bash-stdout>out</bash-stdout>", uuid="u1"),
        b.user([b.answer("gone", "lost"), b.say("  "), b.say("Why?")], uuid="u2"),
        note("unanswered_message", "n1", content=["What was said last:", "Carried."]),
    ]
    assert unanswered_parts(records) == [
        "(A program put this there; the user did not type it.)\n<bash-stdout>out</bash-stdout>",
        "Why?",
        "Carried.",
    ]


def test_the_room_for_the_newest_message_leaves_a_short_answer_or_all_of_it():
    new, old = model_or_default("claude-opus-4-5").model, model_or_default("claude-opus-4-1").model
    assert room_for_newest(new, {"max_tokens": 30_000}, DEFAULTS) == 196_000
    assert room_for_newest(old, {"max_tokens": 30_000}, DEFAULTS) == 170_000
    assert room_for_newest(old, {"max_tokens": 1_000}, DEFAULTS) == 196_000
    assert room_for_newest(old, {}, DEFAULTS) == 196_000


def test_messages_are_counted_by_response_and_begin_with_their_first_words():
    records = [
        b.system(),
        b.user("  ", uuid="u0"),
        b.user("one\n two", uuid="u1"),
        b.assistant("a", id="m1", uuid="a1"),
        b.assistant("b", id="m1", uuid="a2"),
        b.user("shown", uuid="u2", isVirtual=True),
    ]
    assert [is_said(each) for each in records] == [False, False, True, True, True, False]
    assert (messages_in(records), first_words(records), first_words(records, 5)) == (2, "one two", "one t")
    assert first_words(records[:2]) == ""


# ── requests that fit ────────────────────────────────────────────────────────────────────────────


def context(**more: Any) -> CompactionContext:
    bench = Bench(turns(2))
    view, parameters = bench.log.view, KeyParameters(TtlChoice("5m", ""))
    given: dict[str, Any] = {
        "view": view,
        "size": 1_000,
        "limits": LIMITS,
        "settings": DEFAULTS,
        "model": MODEL,
        "capabilities": ANTHROPIC,
        "counts": bench.counts,
        "chain": chain_of(view, threshold=LIMITS.auto, source="main"),
        "captured": CapturedRequest(MODEL.id, Preamble(), parameters, (), {}),
    }
    return CompactionContext(**(given | more))


def rounds(count: int, tokens: int) -> tuple[Message, ...]:
    made = [Message("user", (text_block("q" * 4 * tokens),))]
    for _ in range(count):
        made += [Message("assistant", (text_block("a" * 4 * tokens),)), Message("user", (text_block("ok"),))]
    return tuple(made)


def test_messages_are_estimated_block_by_block():
    assert estimate_messages(rounds(2, 100), context()) == 302
    assert estimate_messages((), context()) == 0


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        (200_000, ""),
        (200_001, "the conversation has at least 200,001 tokens, and claude-opus-4-5 takes 200,000"),
    ],
)
def test_a_request_that_cannot_fit_says_how_long_it_is(tokens: int, why: str):
    assert explain_too_long(tokens, MODEL) == why
    assert explain_too_long(tokens, MODEL, "it") == why.replace("the conversation", "it")


def test_a_summary_that_ended_at_the_window_asks_for_a_shorter_request():
    def answer(reason: str) -> ModelAnswer:
        return ModelAnswer((text_block("x"),), reason, Usage())

    assert ended_at_window(answer("end_turn"), MODEL) is None
    assert ended_at_window(answer("model_context_window_exceeded"), MODEL) == ModelFailure(
        "too_long",
        "the summary reached the end of the window (200,000 tokens)",
        Overflow("anthropic", 200_001, 200_000),
    )


@pytest.mark.parametrize(
    ("overflow", "size", "expected"),
    [
        (None, 10, None),
        (Overflow("vertex"), 10, Overflow("vertex")),
        # Our count is far from the refusal's: only what it says goes, and room for an extract of it.
        (Overflow("anthropic", 1_300, 1_000), 500, Overflow("anthropic", 1_000 + 300 + 101, 1_000)),
        # Near it: a fifth of the limit is left for the summary.
        (Overflow("anthropic", 1_300, 1_000), 501, Overflow("anthropic", 1_000 + 500 + 167, 1_000)),
        # The reserve is at most what a summary may have, the extract at most its budget.
        (
            Overflow("anthropic", 160_000, 150_000),
            80_000,
            Overflow("anthropic", 150_000 + 30_000 + 7_500, 150_000),
        ),
    ],
)
def test_what_has_to_go_makes_room_for_the_summary_and_an_extract(overflow, size, expected):
    messages = (Message("user", (text_block("x" * 4 * size),)),)
    given = context(summary=SummarySettings(budget=7_500))
    assert with_room(overflow, messages, given) == expected


def test_a_fork_that_was_too_long_tells_the_next_strategy_how_long_the_view_is():
    given = context(least=LeastTokens(100, 20))
    failure = ModelFailure("too_long", "x", Overflow("anthropic", 190, 150))
    for attempt, least in (
        (Attempt(strategy="fork", failure=failure), LeastTokens(100, 90)),
        (Attempt(strategy="direct", failure=failure), LeastTokens(100, 20)),
        (Attempt(strategy="fork", failure=ModelFailure("too_long", "x")), LeastTokens(100, 20)),
        (Attempt(strategy="fork"), LeastTokens(100, 20)),
        (
            Attempt(strategy="fork", failure=ModelFailure("too_long", "x", Overflow("anthropic", 110, 50))),
            LeastTokens(100, 20),
        ),
    ):
        assert learn_from_overflow(attempt, given).least == least


def nine_thousands(count: int, first: int = 9_000) -> tuple[Message, ...]:
    """A question, and rounds of 9,000 tokens each."""
    made = [Message("user", (text_block("q" * 4 * first),))]
    for _ in range(count):
        made += [Message("assistant", (text_block("a" * 4 * 8_999),)), Message("user", (text_block("ok"),))]
    return tuple(made)


@pytest.mark.parametrize(
    ("messages", "least", "sides", "dropped"),
    [
        pytest.param(nine_thousands(19), 0, (1, 0), 0, id="fits to the last token"),
        pytest.param(nine_thousands(19, 9_001), 0, (1, 0), 2, id="too long by estimate"),
        pytest.param(nine_thousands(10), 180_000, (1, 0), 0, id="fits as it was reported"),
        pytest.param(nine_thousands(10), 190_000, (1, 0), 2, id="too long as it was reported"),
        pytest.param(nine_thousands(10), 380_000, (1, 1), 2, id="half of what was reported"),
        pytest.param(nine_thousands(10), 10**6, (1, 0), 2, id="a ratio beyond belief counts as two"),
        pytest.param(nine_thousands(10), 10**6, (0, 0), 0, id="nothing known of the sides"),
    ],
)
def test_the_oldest_rounds_are_left_out_of_a_request_that_is_known_to_be_too_long(
    messages, least, sides, dropped
):
    """With 180,000 tokens beside the reserve for output, and an extract of at most 12,000."""
    given = context(least=LeastTokens(least, 0), summary=SummarySettings(budget=12_000))
    plan = msgspec.structs.replace(
        Bench(turns(2)).planned(manual()), tokens_summarized=sides[0], tokens_kept=sides[1]
    )
    rest = messages[2 * dropped - 1 :]
    expected = (Message("user", (TRUNCATED,)), *rest) if dropped else messages
    assert cut_to_window(messages, plan, given) == expected


def test_a_newest_round_that_is_too_long_is_not_sent_where_no_model_is_needed():
    messages = (*rounds(1, 10), *rounds(1, 300_000)[1:])
    plan = Bench(turns(2)).planned(manual())
    without = context(settings=CompactSettings(strategies=("direct",)))
    assert isinstance(cut_to_window(messages, plan, without), tuple)
    found = cut_to_window(messages, plan, context())
    assert found == CompactionSkipped(
        "the newest part of the conversation has at least 300,020 tokens, and claude-opus-4-5 takes 200,000"
    )
    assert cut_to_window((), plan, context()) == ()


@pytest.mark.parametrize(
    ("allowed", "why"),
    [
        (0, "no model is asked: too many compactions or summaries of this session have failed"),
        (1, "no model is asked again: the calls for this summary (1) are spent"),
    ],
)
def test_a_model_is_asked_as_often_as_is_allowed_and_a_shorter_retry_is_free(allowed: int, why: str):
    effect = AskModel(Request(model="m", messages=()), (), "compact", "direct")
    retry = msgspec.structs.replace(effect, is_overflow_retry=True)
    seen: list[str] = []

    def answered(asked: AskModel, answer: ModelAnswer | ModelFailure) -> None:
        seen.append("after")

    calls = SummaryCalls(context(calls=allowed), CallObserver(lambda: seen.append("before"), answered))
    answer = ModelAnswer((), "end_turn", Usage())

    def ask(given: AskModel) -> object:
        flow = calls.ask(given)
        try:
            assert next(flow) == given
            flow.send(answer)
        except StopIteration as done:
            return done.value
        raise AssertionError("it did not end")

    found = [ask(effect) for _ in range(allowed + 1)]
    assert found == [*[answer] * allowed, ModelFailure("calls_spent", why)]
    assert ask(retry) == answer
    assert seen == ["before", "after"] * (allowed + 1)
