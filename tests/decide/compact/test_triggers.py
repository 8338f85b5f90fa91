"""When a compaction is due, and who stops it (CP-20, CP-22, CP-23, CP-24)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import builders as b
import msgspec
import pytest
from decide.compact.bench import LIMITS, Bench, turns

from everturn.decide.compact.breakers import CompactionBreaker, RefillBreaker, filled_by
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.triggers import (
    Proposal,
    ProposalState,
    answer_proposal,
    propose_compaction,
    should_compact,
)
from everturn.decide.compact.values import CompactionChain, CompactionRequest, CompactionSkipped
from everturn.measure.accounting import accounts_of
from everturn.measure.thresholds import ThresholdSettings

FULL = LIMITS.auto
AUTO = CompactionRequest(trigger="auto")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def failing(*reasons: str) -> CompactionBreaker:
    breaker = CompactionBreaker()
    for why in reasons:
        breaker = breaker.after_failure(why, NOON)
    return breaker


OPEN = failing("a", "b", "no answer")
SOON = CompactionChain(follows="b1", turns_since=3)


def decide(size: int = FULL, **more: Any) -> CompactionRequest | CompactionSkipped:
    given = {
        "thresholds": ThresholdSettings(),
        "source": "main",
        "now": NOON,
        "breaker": CompactionBreaker(),
        "refill": RefillBreaker(),
        "chain": CompactionChain(),
    }
    return should_compact(size, LIMITS, **(given | more))


@pytest.mark.spec("CP-20")
def test_it_is_due_from_the_mark_on():
    assert decide(FULL) == AUTO
    assert decide(FULL, source="main:style:terse") == AUTO
    assert decide(FULL - 1) == CompactionSkipped(
        f"{FULL - 1:,} tokens are below the automatic threshold of {FULL:,}"
    )


@pytest.mark.spec("CP-20")
@pytest.mark.parametrize("source", ["compact", "session_memory", "compact:fork"])
def test_a_compaction_never_compacts_itself(source: str):
    assert decide(source=source) == CompactionSkipped(f"{source} is itself part of a compaction")


@pytest.mark.spec("CP-20")
def test_disabled_is_disabled():
    off = ThresholdSettings(auto_compaction=False)
    assert decide(thresholds=off) == CompactionSkipped("automatic compaction is disabled")


@pytest.mark.spec("CP-20", "CP-22")
def test_three_failures_in_a_row_open_the_breaker_and_a_success_closes_it():
    told = (
        "3 compactions in a row have failed, the last one because: no answer. Automatic compaction is off. "
        "The next try is at 12:10 UTC, or after 20 more calls; a compaction by hand is possible at any time."
    )
    assert decide(breaker=OPEN) == CompactionSkipped(told)
    assert OPEN.describe() == told
    assert decide(breaker=failing("a", "b")) == AUTO
    assert decide(breaker=failing("a", "b").after_success("notes").after_failure("c", NOON)) == AUTO
    assert decide(breaker=OPEN.after_success("extractive")) == AUTO
    assert CompactionBreaker().describe() == ""


@pytest.mark.spec("CP-39")
@pytest.mark.parametrize(
    ("later", "replies", "state"),
    [
        (0, 0, "open"),
        (599, 19, "open"),
        (600, 0, "half-open"),
        (1, 20, "half-open"),
        # A clock that was set back.
        (-1, 0, "half-open"),
    ],
)
def test_an_open_breaker_is_half_open_after_ten_minutes_or_twenty_calls(later, replies, state):
    spent = CompactionBreaker()
    for _ in range(3):
        spent = spent.before_call(NOON)
    for breaker in (OPEN, spent):
        for _ in range(replies):
            breaker = breaker.after_reply()
        now = NOON + timedelta(seconds=later)
        assert breaker.state(now) == state
        assert breaker.before_try(now).state(now) == "open"
        assert breaker.after_success("fork").state(now) == "closed"


def test_replies_are_counted_only_while_a_breaker_is_open():
    assert failing("a").after_reply() == failing("a")


@pytest.mark.spec("CP-23")
def test_a_context_that_refills_at_once_again_and_again_stops_the_loop_and_is_told_what_fills_it():
    refill = RefillBreaker().compacted(CompactionChain()).compacted(SOON).compacted(SOON)
    metrics = accounts_of(Bench(turns(3)).log.view).metrics()
    assert decide(refill=refill, chain=SOON, filled_by=filled_by(metrics)) == CompactionSkipped(
        "The context was full again 3 turns after a compaction, 3 times in a row, so another one "
        "would not help. What fills it: results of Read 98%, calls of Read 0%, human 0%. "
        "Ask for less at once, or move what is large into files. The next attempt comes after 17 more turns."
    )


@pytest.mark.spec("CP-23")
def test_after_many_turns_one_attempt_is_made_and_a_context_that_is_full_at_once_stops_it_again():
    stopped = RefillBreaker(2, "b1")
    assert decide(refill=stopped, chain=CompactionChain(follows="b1", turns_since=19)) != AUTO
    due = CompactionChain(follows="b1", turns_since=20)
    assert decide(refill=stopped, chain=due) == AUTO
    tried = stopped.compacted(due)
    assert tried == RefillBreaker(2)
    assert isinstance(
        decide(refill=tried, chain=CompactionChain(follows="b2", turns_since=3)), CompactionSkipped
    )
    # Work that lasted longer ends it: what refilled the context is gone.
    assert tried.compacted(CompactionChain(follows="b2", turns_since=4)) == RefillBreaker()


@pytest.mark.spec("CP-23")
def test_work_between_two_compactions_starts_the_count_anew():
    late = CompactionChain(follows="b1", turns_since=4)
    refill = RefillBreaker().compacted(SOON).compacted(SOON)
    assert decide(refill=refill, chain=late) == AUTO
    assert decide(refill=refill.compacted(late), chain=SOON) == AUTO
    assert decide(refill=RefillBreaker().compacted(SOON), chain=SOON) == AUTO


MARK = round(LIMITS.auto * 0.7)


@pytest.mark.spec("CP-24")
@pytest.mark.parametrize(
    ("moment", "good"), [("cache_cold", "the cache is cold"), ("task_finished", "the task is finished")]
)
def test_a_good_moment_above_the_lower_mark_is_proposed(moment: Any, good: str):
    assert propose_compaction(MARK, LIMITS, activity=moment, before=ProposalState()) == Proposal(
        AUTO, f"{MARK:,} of {LIMITS.auto:,} tokens are used, and {good}"
    )


@pytest.mark.spec("CP-24")
@pytest.mark.parametrize(
    ("size", "moment", "before", "why"),
    [
        (
            MARK - 1,
            "cache_cold",
            ProposalState(),
            f"{MARK - 1:,} tokens are below the threshold for a proposal, {MARK:,}",
        ),
        (MARK, "busy", ProposalState(), "the cache is warm and the task is not finished"),
        (
            MARK,
            "cache_cold",
            ProposalState(MARK + 1),
            f"the user was asked; not again below {MARK + 1:,} tokens",
        ),
        (
            FULL,
            "cache_cold",
            ProposalState(),
            "the automatic threshold is reached: that compaction needs no proposal",
        ),
    ],
)
def test_at_any_other_time_nothing_is_proposed(size: int, moment: Any, before: ProposalState, why: str):
    assert propose_compaction(size, LIMITS, activity=moment, before=before) == CompactionSkipped(why)


@pytest.mark.spec("CP-24")
def test_the_user_accepts_defers_or_declines():
    made = Proposal(AUTO, "a good moment")
    said = {
        word: answer_proposal(made, word, size=MARK, limits=LIMITS) for word in ("accept", "defer", "decline")
    }
    assert said == {
        "accept": (AUTO, ProposalState()),
        "defer": (CompactionSkipped("deferred by the user"), ProposalState(MARK + 10_000)),
        "decline": (CompactionSkipped("declined by the user"), ProposalState(LIMITS.auto)),
    }
    assert decide(FULL) == AUTO


@pytest.mark.spec("CP-39")
def test_calls_that_are_spent_do_not_stop_a_compaction_that_needs_none():
    spent = CompactionBreaker(spent=3, opened_at=NOON.timestamp())
    assert spent.state(NOON) == "open"
    assert decide(breaker=spent) == AUTO


def test_what_fills_a_context_is_named_only_if_it_takes_something():
    spoken = [b.user("Four score and seven years ago our fathers brought forth.", uuid="u")]
    assert filled_by(accounts_of(Bench(spoken).log.view).metrics()) == "human 100%"


def test_a_breaker_counts_opens_and_closes_as_whole_values():
    closed = CompactionBreaker(limit=2, calls=3, retry_after=600.0, retry_calls=20)
    change = msgspec.structs.replace
    once = closed.after_failure("down", NOON)
    twice = once.after_failure("still", NOON)
    assert once == change(closed, failures=1, last="down")
    assert twice == change(closed, failures=2, last="still", opened_at=NOON.timestamp())
    # A failure of an open one does not open it anew.
    assert twice.after_failure("x", NOON + timedelta(hours=1)).opened_at == NOON.timestamp()
    assert twice.after_reply() == change(twice, calls_since=1)
    assert once.after_reply() is once
    later = NOON + timedelta(minutes=1)
    assert twice.after_reply().before_try(later) == change(twice, opened_at=later.timestamp())
    assert twice.after_reply().after_success("fork") == closed
    spent = closed.before_call(NOON).before_call(NOON)
    assert (spent, spent.calls_left, spent.is_tripped) == (change(closed, spent=2), 1, False)
    tripped = spent.before_call(NOON)
    assert tripped == change(closed, spent=3, opened_at=NOON.timestamp())
    assert (tripped.calls_left, tripped.is_tripped, tripped.is_open) == (0, True, False)
    assert tripped.before_call(NOON).calls_left == 0
    assert change(twice, spent=1).after_success("extractive") == change(
        closed, spent=1, opened_at=NOON.timestamp()
    )
    assert change(twice, spent=1).after_success("notes").spent == 1


def test_counts_of_a_breaker_from_a_file_are_never_negative_and_have_the_limits_of_now():
    settings = CompactSettings(failures=5, calls=6, retry_after=timedelta(minutes=1), retry_calls=7)
    read = CompactionBreaker(failures=-1, spent=-2, calls_since=-3, last="x", opened_at=9.0)
    limits = {"limit": 5, "calls": 6, "retry_after": 60.0, "retry_calls": 7}
    assert read.with_limits(settings) == CompactionBreaker(last="x", opened_at=9.0, **limits)
    assert CompactionBreaker.from_settings(settings) == CompactionBreaker(**limits)
    kept = CompactionBreaker(failures=1, spent=2, calls_since=3).with_limits(settings)
    assert (kept.failures, kept.spent, kept.calls_since) == (1, 2, 3)


@pytest.mark.parametrize(
    ("seconds", "calls", "state"),
    [
        (0, 0, "open"),
        (599, 0, "open"),
        (600, 0, "half-open"),
        (-1, 0, "half-open"),
        (0, 19, "open"),
        (0, 20, "half-open"),
    ],
)
def test_an_open_breaker_allows_a_try_after_its_time_or_its_calls(seconds: int, calls: int, state: str):
    opened = CompactionBreaker(
        failures=3, limit=3, opened_at=NOON.timestamp(), calls_since=calls, retry_after=600.0, retry_calls=20
    )
    assert opened.state(NOON + timedelta(seconds=seconds)) == state
    assert CompactionBreaker().state(NOON) == "closed"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, ""),
        (
            {"failures": 1, "last": "down"},
            "The last compaction failed because: down.",
        ),
        (
            {"failures": 3, "last": "down"},
            "3 compactions in a row have failed, the last one because: down. Automatic compaction is off. "
            "The next try is at 12:10 UTC, or after 20 more calls; a compaction by hand is possible at any "
            "time.",
        ),
        (
            {"spent": 3, "calls_since": 18},
            "3 calls for a summary in a row gave none: no model is asked for one. The next try is at 12:10 "
            "UTC, or after 2 more calls; a compaction by hand is possible at any time.",
        ),
        (
            {"failures": 3, "last": "down", "calls_since": 20},
            "3 compactions in a row have failed, the last one because: down. Automatic compaction is off. "
            "The next try is now; a compaction by hand is possible at any time.",
        ),
    ],
)
def test_a_breaker_tells_its_state_in_words(fields: dict[str, Any], told: str):
    given = {"limit": 3, "calls": 3, "retry_after": 600.0, "retry_calls": 20, "opened_at": NOON.timestamp()}
    assert CompactionBreaker(**{**given, **fields}).describe() == told


@pytest.mark.parametrize(
    ("chain", "before", "after", "stops", "stays_off"),
    [
        (CompactionChain(), RefillBreaker(2), RefillBreaker(0), False, False),
        (CompactionChain(follows="b", turns_since=3), RefillBreaker(1), RefillBreaker(2), False, False),
        (CompactionChain(follows="b", turns_since=3), RefillBreaker(2), RefillBreaker(3), True, False),
        (CompactionChain(follows="b", turns_since=4), RefillBreaker(2), RefillBreaker(0), False, False),
        (CompactionChain(follows="b", turns_since=19), RefillBreaker(2, "b"), RefillBreaker(2), False, True),
        (CompactionChain(follows="b", turns_since=20), RefillBreaker(2, "b"), RefillBreaker(2), False, False),
        (CompactionChain(follows="c", turns_since=19), RefillBreaker(2, "b"), RefillBreaker(0), False, False),
    ],
)
def test_compactions_that_follow_each_other_at_once_are_counted_and_stopped(
    chain, before, after, stops, stays_off
):
    assert (before.compacted(chain), before.stops(chain), before.stays_off(chain)) == (
        after,
        stops,
        stays_off,
    )
