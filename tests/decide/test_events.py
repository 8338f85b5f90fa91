"""Events: each decision as a typed value, with the figures that were decided on."""

from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest
from builders import boundary, summary

from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.cache_key_snapshot import CacheKeyChange
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionChain,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    Receipt,
    RestorationPlan,
)
from everturn.decide.economy.trust import HoldCheck
from everturn.decide.effects import FailureKind, HookOutcome, ModelFailure
from everturn.decide.events import (
    CacheBroken,
    CompactionDone,
    CompactionNotDone,
    ContextBreakdown,
    Event,
    EventContext,
    HoldChecked,
    HookTrouble,
    MicroCompacted,
    PredictionMissed,
    Repaired,
    find_failure_reason,
    make_cache_broken,
    make_compaction_done,
    make_compaction_not_done,
    make_hold_checked,
    make_hook_trouble,
    make_micro_compacted,
    make_prediction_missed,
    make_repaired,
    thinking_dropped,
)
from everturn.decide.micro.context import MicroPlan, OffloadPlan, no_change
from everturn.history.edits import Cleared, ThinkingDropped
from everturn.history.records import Usage
from everturn.history.repair import Repair
from everturn.measure.accounting import Metrics, Shares
from everturn.measure.prediction import Prediction, check_prediction

NOW = EventContext(at=datetime(2026, 11, 15, tzinfo=UTC), session="s", model="m")
ASKED = CompactionRequest(trigger="auto")
CHAIN = CompactionChain(follows="b0", turns_since=3, length=2, threshold=167_000)
PLAN = CompactionPlan(
    asked=ASKED,
    summarized=(),
    kept=(),
    strategies=("fork", "direct"),
    restoration=RestorationPlan(),
    pins=(),
    tokens_before=170_000,
    expected_after=9_000,
    expected_dollars=0.1,
    chain=CHAIN,
    why="over the mark",
)
TRIED = (
    Attempt(strategy="fork", problem="empty", usage=Usage(10, 20, 30, 40)),
    Attempt(strategy="direct", text="In short.", usage=Usage(1, 2, 3, 4)),
)


@pytest.mark.spec("TL-1")
def test_a_micro_compaction_says_kind_results_and_tokens():
    plan = MicroPlan("time", (Cleared(("a", "b")),), "cold", tokens_saved=700)
    assert make_micro_compacted(plan, 10_000, NOW) == MicroCompacted(
        moment=NOW,
        kind="time",
        results=2,
        tokens_before=10_000,
        tokens_after=9_300,
        tokens_saved=700,
        why="cold",
    )
    both = MicroPlan("cached", delete=("a",), offload=(OffloadPlan("b", "n", "c", "p", 1),))
    found = make_micro_compacted(both, 10, NOW)
    assert found is not None
    assert found.results == 2
    assert make_micro_compacted(no_change("warm"), 10_000, NOW) is None


@pytest.mark.spec("TL-1")
def test_a_compaction_says_how_it_was_done_and_what_it_cost():
    made = Compaction(
        boundary=boundary(),
        summary=summary(),
        restored=(),
        kept=None,
        attempts=TRIED,
        receipt=Receipt(retained=(), recoverable=(), dropped=()),
        tokens_before=170_000,
        tokens_after=9_500,
    )
    metrics = Metrics(
        tool_requests={"Read": 10},
        tool_results={"Read": 80},
        human=10,
        assistant=0,
        local_output=0,
        other=0,
        thinking=0,
        images=0,
        injected=0,
        attachments={},
        duplicate_reads={},
    )
    shares = Shares(
        human=10, assistant=0, local_output=0, tool_requests=10, tool_results=80, duplicate_reads=0
    )
    done = make_compaction_done(PLAN, made, NOW, metrics)
    assert done.score is None
    assert done == CompactionDone(
        moment=NOW,
        trigger="auto",
        form="full",
        way="direct",
        tokens_before=170_000,
        tokens_after=9_500,
        attempts=2,
        usage=Usage(11, 22, 33, 44),
        chain=CHAIN,
        figures=ContextBreakdown(100, shares, 0, 0),
    )


@pytest.mark.spec("TL-1")
def test_a_failed_compaction_says_why_in_one_word():
    failed = CompactionFailed(attempts=TRIED[:1], why="fork: empty")
    assert make_compaction_not_done(PLAN, failed, NOW) == CompactionNotDone(
        moment=NOW,
        trigger="auto",
        form="full",
        reason="no_summary",
        ways=("fork",),
        tokens_before=170_000,
        usage=Usage(10, 20, 30, 40),
        chain=CHAIN,
        detail="fork: empty",
    )


@pytest.mark.spec("TL-1")
def test_every_failure_of_a_call_has_its_reason():
    for kind in get_args(FailureKind):
        assert (
            find_failure_reason([Attempt(strategy="fork", problem="x", failure=ModelFailure(kind, "x"))])
            == kind
        )
    assert find_failure_reason([]) == "no_summary"
    assert (
        find_failure_reason([Attempt(strategy="fork", text="a summary", problem="over the mark")])
        == "over_threshold"
    )


@pytest.mark.spec("TL-1")
@pytest.mark.parametrize(
    ("why", "changes", "cause"),
    [
        (
            "tools changed",
            (CacheKeyChange("tools", "tools changed"), CacheKeyChange("tools", "order")),
            "key_changed",
        ),
        ("possible TTL expiry (idle for more than 1 hour)", (), "expiry"),
        ("likely server-side (prompt unchanged, gap under 5 min)", (), "server_side"),
    ],
)
def test_a_cache_break_says_its_cause_and_what_it_lost(why, changes, cause):
    assert make_cache_broken(DetectedBreak("main", 9_000, why, changes, 12.5), NOW) == CacheBroken(
        moment=NOW, cause=cause, why=why, parts=("tools",) if changes else (), tokens_lost=9_000, idle=12.5
    )


@pytest.mark.spec("TL-1")
def test_a_missed_prediction_is_told_and_a_kept_one_is_not():
    predicted = Prediction(read=100, write_5m=0, write_1h=0, plain=10)
    missed = check_prediction(predicted, Usage(input_tokens=110))
    assert make_prediction_missed(missed, NOW) == PredictionMissed(
        moment=NOW, verdict="read less", predicted_read=100, reported_read=0, missed=100, why=missed.why
    )
    assert make_prediction_missed(check_prediction(predicted, Usage(10, 0, 100)), NOW) is None
    assert make_prediction_missed(check_prediction(predicted, Usage(15, 0, 100)), NOW) is None


@pytest.mark.spec("TL-1")
def test_repairs_are_counted_by_kind():
    repairs = [
        Repair("missing_result", "c1", "x"),
        Repair("missing_result", "c2", "x"),
        Repair("blank_text", "", "y"),
    ]
    assert make_repaired(repairs, NOW) == Repaired(
        moment=NOW, kinds={"missing_result": 2, "blank_text": 1}, details=("c1: x", "c2: x", ": y")
    )
    assert make_repaired([], NOW) is None


def test_a_hook_that_made_no_trouble_is_no_event():
    assert make_hook_trouble("Stop", HookOutcome(context=("x",)), NOW) is None
    assert make_hook_trouble("Stop", HookOutcome(problems=("p",), blocked="b"), NOW) == HookTrouble(
        moment=NOW, hook="Stop", problems=1, is_blocked=True, details=("p", "b")
    )


def test_every_event_has_a_name_of_its_own():
    events = Event.__subclasses__()
    assert len({event.__struct_config__.tag for event in events}) == len(events)


def test_a_size_is_never_negative_after_more_was_saved_than_was_known():
    made = thinking_dropped(ThinkingDropped("a1", why="idle"), 700, 500, NOW)
    assert made == MicroCompacted(
        moment=NOW,
        kind="thinking",
        results=0,
        tokens_before=500,
        tokens_after=0,
        tokens_saved=700,
        why="idle",
    )
    saved = make_micro_compacted(MicroPlan("time", (Cleared(("a",)),), "cold", tokens_saved=700), 500, NOW)
    assert saved is not None
    assert saved.tokens_after == 0


def test_a_micro_compaction_names_the_files_that_it_forgot_and_counts_each_result_once():
    plan = MicroPlan(
        "cached",
        (Cleared(("a", "b")), Cleared(("b",))),
        "cold",
        delete=("b", "c"),
        tokens_saved=7,
        forgotten=("f.py",),
    )
    assert make_micro_compacted(plan, 10, NOW) == MicroCompacted(
        moment=NOW,
        kind="cached",
        results=3,
        tokens_before=10,
        tokens_after=3,
        tokens_saved=7,
        why="cold",
        files=("f.py",),
    )


def test_a_compaction_without_attempts_was_done_by_its_first_strategy_and_says_what_it_is_for():
    asked = CompactionRequest(trigger="manual", form="up_to", at="u1", economics="cold reset: a test")
    made = Compaction(
        boundary=boundary(),
        summary=summary(),
        restored=(),
        kept=None,
        attempts=(),
        receipt=Receipt(retained=(), recoverable=(), dropped=()),
        tokens_before=9,
        tokens_after=5,
    )
    assert make_compaction_done(msgspec.structs.replace(PLAN, asked=asked), made, NOW) == CompactionDone(
        moment=NOW,
        trigger="manual",
        form="up_to",
        way="fork",
        tokens_before=9,
        tokens_after=5,
        attempts=0,
        usage=Usage(),
        chain=CHAIN,
        figures=None,
        why="cold reset: a test",
    )


def test_a_hold_that_was_checked_says_what_it_kept():
    check = HoldCheck(kept=True, read=90, held=100, seconds=600)
    assert make_hold_checked(check, NOW) == HoldChecked(
        moment=NOW, kept=True, tokens_read=90, tokens_held=100, why=check.why
    )


@pytest.mark.parametrize(
    ("outcome", "problems", "blocked", "details"),
    [(HookOutcome(problems=("p", "q")), 2, False, ("p", "q")), (HookOutcome(blocked="b"), 0, True, ("b",))],
)
def test_problems_of_hooks_and_their_refusals_are_told_each_by_itself(outcome, problems, blocked, details):
    assert make_hook_trouble("PreCompact", outcome, NOW) == HookTrouble(
        moment=NOW, hook="PreCompact", problems=problems, is_blocked=blocked, details=details
    )
