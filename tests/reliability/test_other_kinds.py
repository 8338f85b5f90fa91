"""Damage, jumping clocks, earlier versions, several writers, callers of every habit."""

import pytest
from reliability.damage import DAMAGES
from reliability.kinds import KINDS
from reliability.long_callers import talked
from reliability.score import tally
from reliability.upgrade import sessions

FIRST = 20_261_115
# Shares, so that workers have something to do each.
SHARES = 2


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize("share", range(SHARES))
def test_whatever_opens_a_damaged_transcript_says_what_it_lost(share, settle):
    first = FIRST + share * 500
    done = tally(KINDS["damage"], range(first, first + 500))
    settle(done.row, first)
    assert min(done.counts[what] for what in (*DAMAGES, "told", "refused")) > 0


@pytest.mark.spec("TR-3")
@pytest.mark.parametrize("share", range(SHARES))
def test_a_clock_that_jumps_both_ways_loses_nothing(share, settle):
    first = FIRST + share * 80
    done = tally(KINDS["clocks"], range(first, first + 80))
    settle(done.row, first)
    assert done.counts["faults"] > 80


@pytest.mark.spec("TR-6", "TR-9")
def test_sessions_of_earlier_versions_are_as_they_were_left_and_can_be_continued(settle):
    done = tally(KINDS["upgrade"], range(FIRST, FIRST + 100))
    settle(done.row, FIRST)
    assert min(done.counts[what] for what in (*(name for _, name in sessions()), "middleware")) > 0


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize("share", range(SHARES))
def test_several_writers_of_one_file_lose_nothing_and_mix_nothing(share, settle):
    first = FIRST + share * 50
    done = tally(KINDS["two-writers"], range(first, first + 50))
    settle(done.row, first)
    assert min(done.counts[what] for what in ("kept", "said", "SessionLocked", "lock removed", "undo 1")) > 0


@pytest.mark.parametrize("share", range(SHARES))
def test_callers_of_every_habit_get_their_own_requests_with_their_newest_message(share, settle):
    first = FIRST + share * 4
    done = tally(KINDS["callers"], range(first, first + 4))
    settle(done.row, first)
    assert min(done.counts[what] for what in ("summaries", "restarts", "tools", "faults")) > 0
    assert min(done.counts[what] for what in ("pauses", "prune", "compact", "undo", "prefill")) > 0
    with_habits, without = done.counts["micro-dollars"], done.counts["micro-dollars without habits"]
    assert 0 < with_habits < 1.15 * without


def test_a_caller_that_stays_in_one_conversation_is_a_trial_too():
    """Twenty steps; `make soak KIND=long-callers` takes hundreds."""
    done = talked(FIRST + 5, steps=20)
    assert (done["steps"], done["requests"] > 20, done["summaries"] > 0) == (20, True, True)
