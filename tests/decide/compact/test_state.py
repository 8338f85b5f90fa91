"""What is remembered from one compaction to the next: who is told, and what the breakers know."""

from datetime import UTC, datetime, timedelta
from typing import Any

import builders as b
import pytest
from decide.compact.bench import LIMITS, MODEL, Bench, turns

from everturn.decide.compact.breakers import CompactionBreaker, RefillBreaker
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.state import CompactionState
from everturn.decide.compact.strategies import NO_NOTES
from everturn.decide.compact.triggers import Proposal, ProposalState
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionChain,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
    Receipt,
    RestorationPlan,
)
from everturn.decide.effects import Emit, Flow, HookOutcome, ModelFailure, RunHooks
from everturn.decide.events import (
    BreakerClosed,
    BreakerOpened,
    EventContext,
    NotesRejected,
    ProposalAnswered,
    make_compaction_done,
    make_compaction_not_done,
)
from everturn.history.log import Log
from everturn.measure.accounting import accounts_of
from everturn.measure.capabilities import Capabilities
from everturn.measure.thresholds import ThresholdSettings
from everturn.measure.tokens import TokenCounter

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MOMENT = EventContext(at=NOON, model="claude-opus-5")
AUTO, MANUAL = CompactionRequest(trigger="auto"), CompactionRequest(trigger="manual")
SOON = CompactionChain(follows="b1", turns_since=3)


def run(flow: Flow[Any], hooks: HookOutcome | None = None) -> tuple[Any, list[Any]]:
    """What a flow returns, and what it asked for; events without their wrapper."""
    asked, reply = list[Any](), None
    try:
        while True:
            effect = flow.send(reply)
            asked.append(effect.event if isinstance(effect, Emit) else effect)
            reply = (hooks or HookOutcome()) if isinstance(effect, RunHooks) else None
    except StopIteration as end:
        return end.value, asked


def plan(asked: CompactionRequest = AUTO, chain: CompactionChain = SOON) -> CompactionPlan:
    return CompactionPlan(
        asked=asked, summarized=(), kept=(), strategies=("fork",), restoration=RestorationPlan(), pins=(),
        tokens_before=150_000, expected_after=9_000, expected_dollars=0.1, chain=chain, why="full",
    )  # fmt: skip


def made(*attempts: Attempt, of: CompactionPlan | None = None) -> Compaction:
    return Compaction(
        boundary=b.boundary(), summary=b.summary("In short."), restored=(), kept=None, attempts=attempts,
        receipt=Receipt(retained=(), recoverable=(), dropped=()), tokens_before=150_000, tokens_after=9_000,
        plan=of,
    )  # fmt: skip


FORKED = Attempt(strategy="fork", text="In short.")
SILENT = Attempt(strategy="fork", problem="no answer", failure=ModelFailure("timeout", "no answer"))


LATER = CompactionChain(follows="b1", turns_since=4)


def context(chain: CompactionChain = SOON, *strategies: str) -> CompactionContext:
    return CompactionContext(
        view=Log([]).view, size=0, limits=LIMITS, model=MODEL, capabilities=Capabilities(),
        counts=TokenCounter(), chain=chain, captured=None,  # type: ignore[arg-type]
        settings=CompactSettings(strategies=strategies or ("fork",)),
    )  # fmt: skip


def fail(state: CompactionState, times: int) -> list[Any]:
    """The events of the last of these failures."""
    told = list[Any]()
    for _ in range(times):
        state.grant_calls(AUTO, context(), NOON)
        told = run(state.failed(CompactionFailed(attempts=(SILENT,), why="why", plan=plan()), MOMENT))[1]
    return told


def spend(state: CompactionState, calls: int) -> None:
    for _ in range(calls):
        state.count_call(NOON)


NOT_DONE = make_compaction_not_done(plan(), CompactionFailed(attempts=(SILENT,), why="why"), MOMENT)


@pytest.mark.spec("CP-22")
def test_the_third_failure_in_a_row_opens_the_breaker_once_and_a_summary_closes_it():
    state = CompactionState()
    assert fail(state, 2) == [NOT_DONE]
    detail = (
        "3 compactions in a row have failed, the last one because: fork: no answer. Automatic compaction is "
        "off. The next try is at 12:10 UTC, or after 20 more calls; a compaction by hand is possible at any "
        "time."
    )
    assert fail(state, 1) == [
        NOT_DONE,
        BreakerOpened(moment=MOMENT, breaker="failures", count=3, detail=detail),
    ]
    assert fail(state, 1) == [NOT_DONE]
    state.grant_calls(MANUAL, context(), NOON)
    assert run(state.succeeded(made(FORKED), MOMENT)) == (
        (),
        [BreakerClosed(moment=MOMENT, breaker="failures")],
    )
    assert state.breaker == CompactionBreaker()


@pytest.mark.spec("CP-39")
def test_an_open_breaker_grants_no_call_and_a_half_open_one_grants_one():
    state = CompactionState()
    granted = state.grant_calls(AUTO, context(), NOON)
    assert isinstance(granted, CompactionContext)
    assert granted.calls == 3
    fail(state, 3)
    assert state.grant_calls(AUTO, context(), NOON) == CompactionSkipped(state.breaker.describe())
    without_model = state.grant_calls(AUTO, context(SOON, "fork", "extractive"), NOON)
    assert isinstance(without_model, CompactionContext)
    assert without_model.calls == 0
    by_hand = context()
    assert state.grant_calls(MANUAL, by_hand, NOON) is by_hand
    later = NOON + timedelta(minutes=10)
    one = state.grant_calls(AUTO, context(), later)
    assert isinstance(one, CompactionContext)
    assert one.calls == 1
    # Noted before the call: a crash in the middle of it gives no second try.
    assert isinstance(state.grant_calls(AUTO, context(), later), CompactionSkipped)


@pytest.mark.spec("CP-39")
def test_calls_without_a_summary_are_told_when_they_are_spent_and_when_a_summary_comes():
    state = CompactionState()
    state.grant_calls(AUTO, context(), NOON)
    spend(state, 3)
    told = run(state.failed(CompactionFailed(attempts=(SILENT,), why="why"), MOMENT))[1]
    assert told == [
        BreakerOpened(moment=MOMENT, breaker="summary_calls", count=3, detail=state.breaker.describe())
    ]
    state.grant_calls(MANUAL, context(), NOON)
    assert run(state.succeeded(made(FORKED), MOMENT))[1] == [
        BreakerClosed(moment=MOMENT, breaker="summary_calls")
    ]
    # A summary without a model says nothing about models.
    spend(state, 3)
    state.grant_calls(MANUAL, context(), NOON)
    assert run(state.succeeded(made(), MOMENT))[1] == []
    assert state.breaker.calls_left == 0


def test_calls_that_are_spent_during_a_success_are_told():
    state = CompactionState()
    state.grant_calls(AUTO, context(), NOON)
    spend(state, 3)
    extracted = Attempt(strategy="extractive", text="In short.")
    told = run(state.succeeded(made(SILENT, extracted), MOMENT))[1]
    assert told == [
        BreakerOpened(moment=MOMENT, breaker="summary_calls", count=3, detail=state.breaker.describe())
    ]


@pytest.mark.spec("CP-18")
def test_hooks_hear_the_summary_and_what_they_say_is_returned():
    state = CompactionState()
    done = made(FORKED, of=plan())
    state.proposals = ProposalState(5)
    assert run(state.succeeded(done, MOMENT), HookOutcome(context=("Mind the tests.",))) == (
        ("Mind the tests.",),
        [
            make_compaction_done(plan(), done, MOMENT),
            RunHooks("PostCompact", {"trigger": "auto", "compact_summary": "In short."}),
        ],
    )
    assert (state.proposals, state.refill) == (ProposalState(), RefillBreaker(1))
    run(state.succeeded(made(FORKED, of=plan(chain=LATER)), MOMENT))
    assert state.refill == RefillBreaker()


def test_a_compaction_by_hand_is_not_part_of_a_loop():
    state = CompactionState()
    state.refill = RefillBreaker(2)
    run(state.succeeded(made(FORKED, of=plan(MANUAL)), MOMENT))
    assert state.refill == RefillBreaker()


def test_a_cancellation_is_not_a_failure():
    state = CompactionState()
    state.grant_calls(AUTO, context(), NOON)
    spend(state, 1)
    stopped = Attempt(strategy="fork", problem="stopped", failure=ModelFailure("cancelled", "stopped"))
    run(state.failed(CompactionFailed(attempts=(stopped,), why="why"), MOMENT))
    assert state.breaker == CompactionBreaker()


@pytest.mark.spec("CP-38")
def test_a_view_that_the_api_refused_counts_as_a_failure_of_its_compaction():
    state = CompactionState()
    fail(state, 2)
    state.grant_calls(AUTO, context(), NOON)
    run(state.succeeded(made(FORKED, of=plan()), MOMENT))
    assert state.breaker.failures == 0
    (failed, opened) = run(state.refused("the API refused", MOMENT))[1]
    assert (failed.reason, failed.detail, failed.tokens_before) == (
        "view_refused",
        "the API refused",
        150_000,
    )
    assert opened == BreakerOpened(
        moment=MOMENT, breaker="failures", count=3, detail=state.breaker.describe()
    )
    assert state.breaker.last == "the API refused"


def test_after_a_restart_a_refused_view_has_no_plan_to_tell_of():
    state = CompactionState()
    assert run(state.refused("no", MOMENT)) == (None, [])
    assert (state.breaker.failures, state.breaker.last) == (1, "no")


@pytest.mark.spec("SM-7")
def test_notes_that_could_not_be_the_summary_are_told_without_what_they_quote():
    unusable = Attempt(strategy="notes", problem="a pin is missing: never push")
    for attempts in ((unusable, SILENT), (unusable, FORKED)):
        state = CompactionState()
        result = CompactionFailed(attempts=attempts, why="") if attempts[1] is SILENT else made(*attempts)
        flow = (
            state.failed(result, MOMENT)
            if isinstance(result, CompactionFailed)
            else state.succeeded(result, MOMENT)
        )
        assert run(flow)[1] == [NotesRejected(moment=MOMENT, why="a pin is missing")]
    no_notes, used = (Attempt(strategy="notes", problem=problem) for problem in (NO_NOTES, ""))
    other = Attempt(strategy="fork", problem="a pin is missing")
    assert (
        run(CompactionState().failed(CompactionFailed(attempts=(no_notes, used, other), why=""), MOMENT))[1]
        == []
    )


def test_what_an_earlier_process_knew_counts_under_the_limits_of_now():
    settings = CompactSettings(failures=5, calls=2, retry_after=timedelta(seconds=7), retry_calls=9)
    state = CompactionState(settings)
    state.remember(CompactionBreaker(failures=4, spent=-3, calls_since=-1), RefillBreaker(-2, "b1"))
    assert (state.breaker, state.refill) == (
        CompactionBreaker(failures=4, limit=5, calls=2, retry_after=7.0, retry_calls=9),
        RefillBreaker(0, "b1"),
    )


def due(
    state: CompactionState, size: int = LIMITS.auto, chain: CompactionChain = SOON
) -> tuple[Any, list[Any]]:
    metrics = accounts_of(Bench(turns(3)).log.view).metrics()
    return run(
        state.due(
            size, LIMITS, ThresholdSettings(), moment=MOMENT, chain=lambda: chain, metrics=lambda: metrics
        )
    )


@pytest.mark.spec("CP-23")
def test_a_context_that_fills_as_fast_as_it_is_compacted_is_told_once():
    state = CompactionState()
    state.refill = RefillBreaker(2)
    found, told = due(state)
    assert isinstance(found, CompactionSkipped)
    assert "results of Read 9" in found.why
    assert told == [BreakerOpened(moment=MOMENT, breaker="rapid_refill", count=3, detail=found.why)]
    assert state.refill == RefillBreaker(2, "b1")
    again, told = due(state)
    assert (isinstance(again, CompactionSkipped), told) == (True, [])
    # It stays off although turns go on; behind another boundary it is due again.
    still, told = due(state, chain=LATER)
    assert (isinstance(still, CompactionSkipped), told) == (True, [])
    assert due(state, chain=CompactionChain(follows="b2", turns_since=4)) == (AUTO, [])
    refilled = state.grant_calls(AUTO, context(), NOON)
    assert refilled == CompactionSkipped("the context fills again as fast as it is compacted")


@pytest.mark.spec("OV-3")
def test_below_the_threshold_nobody_looks_through_the_view():
    def nobody() -> Any:
        raise AssertionError("looked through the view")

    flow = CompactionState().due(
        LIMITS.auto - 1, LIMITS, ThresholdSettings(), moment=MOMENT, chain=nobody, metrics=nobody
    )
    assert isinstance(run(flow)[0], CompactionSkipped)
    state = CompactionState()
    assert state.propose(1, LIMITS, ThresholdSettings(), moment=MOMENT, activity=nobody) is None


def proposed(state: CompactionState, size: int, source: str = "main", **thresholds: bool) -> Proposal | None:
    moment = EventContext(at=NOON, source=source)
    settings = ThresholdSettings(**thresholds)
    return state.propose(size, LIMITS, settings, moment=moment, activity=lambda: "cache_cold")


@pytest.mark.spec("CP-24")
def test_a_compaction_is_proposed_from_its_threshold_on_unless_it_is_off():
    least = round(LIMITS.auto * 0.7)
    state = CompactionState()
    offer = Proposal(AUTO, f"{least:,} of {LIMITS.auto:,} tokens are used, and the cache is cold")
    assert proposed(state, least) == offer
    assert proposed(state, least - 1) is None
    assert proposed(state, LIMITS.auto) is None
    assert proposed(state, least, "compact") is None
    assert proposed(state, least, auto_compaction=False) is None
    deferred = run(state.answer(offer, "defer", least, LIMITS, MOMENT))
    assert deferred == (
        CompactionSkipped("deferred by the user"),
        [ProposalAnswered(moment=MOMENT, response="defer", tokens=least, why=offer.why)],
    )
    assert (state.proposals, proposed(state, least)) == (ProposalState(least + 10_000), None)
    fail(opened := CompactionState(), 3)
    assert proposed(opened, least) is None


def test_an_open_breaker_counts_the_replies_of_the_conversation():
    state = CompactionState()
    state.count_reply()
    assert state.breaker.calls_since == 0
    fail(state, 3)
    state.count_reply()
    assert state.breaker.calls_since == 1
