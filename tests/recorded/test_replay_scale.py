"""Replay beside what real sessions reported, and its requests before somebody who recomputes their bills."""

import io
import os
from pathlib import Path

import pytest
from replay.request_checker import check

from everturn.replay.policies import REPLAY_POLICIES, parse_policy
from everturn.replay.reported import compute_errors
from everturn.replay.requests_file import make_request_writer
from everturn.replay.runs import ReportedComparison
from everturn.replay.sessions import ReplaySession, read_sessions
from everturn.replay.simulate import index_uses, simulate

DATA = Path(__file__).parents[3] / "shared" / "data" / "claude-code"
# Short sessions of every kind for each run of the tests; all of them with EVERTURN_PROFILE=soak.
FAST = ("sample__*", "fixture__*", "danieldemmel-*", "experiments-worktrees__ef958*")

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the recorded sessions (../shared/data) are not here"
)


def sessions(profile: str) -> list[ReplaySession]:
    fast = sorted(path for pattern in FAST for path in DATA.rglob(f"{pattern}.jsonl"))
    found = read_sessions([DATA] if profile == "soak" else fast)
    return [each for each in found if isinstance(each, ReplaySession)]


@pytest.mark.spec("RP-16")
def test_every_request_of_every_policy_is_accepted_and_its_bill_can_be_recomputed() -> None:
    policies = [
        parse_policy(name) for name in (*REPLAY_POLICIES, "none+refresh", "claude-code+refresh-blind")
    ]
    sent = 0
    for session in sessions(os.environ.get("EVERTURN_PROFILE", "")):
        uses = index_uses(session)
        for policy in policies:
            out = io.BytesIO()
            write = make_request_writer(out, session.name, policy.name)
            simulate(session, policy, uses, observer=write)
            checked = check(iter(out.getvalue().splitlines()))
            problems = (*checked.invalid, *checked.wrong_sums, *checked.wrong_dollars)
            assert problems == ()
            assert checked.worst < 0.005
            sent += sum(bill.requests for bill in checked.bills.values())
    assert sent > 1_000


@pytest.mark.spec("RP-12")
def test_recorded_is_as_near_to_the_reports_as_it_says() -> None:
    sums = ReportedComparison()
    for session in sessions("soak"):
        sums += simulate(session, REPLAY_POLICIES["recorded"], None).reported or ReportedComparison()
    errors = compute_errors(sums)
    assert errors is not None
    assert errors.calls > 3_000
    assert errors.predicted.context_within_1 >= 0.99
    assert errors.predicted.reads_within_5 >= 0.97
    assert abs(errors.predicted.input_dollars) <= 0.03
    assert abs(errors.with_events.input_dollars) <= 0.01
    assert errors.sessions_within_3 >= 0.9
