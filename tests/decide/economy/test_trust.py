"""Trust, then check; refreshes of five minutes; and which decisions are kept (EC-1, EC-3)."""

from datetime import UTC, datetime

import msgspec
import pytest
from decide.economy.test_holds import OPUS, QUIET

from everturn.decide.economy.decisions import MAX_DECISIONS, EconomicDecision, add_decision
from everturn.decide.economy.head import HeadTool, decide_deferral
from everturn.decide.economy.holds import decide_hold
from everturn.decide.economy.refreshes import refresh_chance
from everturn.decide.economy.trust import HoldCheck, check_hold
from everturn.history.records import Usage

REFRESH = msgspec.structs.replace(QUIET, form="refresh")
AT = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("read", "seconds", "same", "kept"),
    [
        pytest.param(100, 1_000, True, True, id="all of it was read"),
        pytest.param(50, 1_000, True, True, id="half of it was read"),
        pytest.param(49, 1_000, True, False, id="less than half was read"),
        pytest.param(0, 3_600, True, False, id="at the end of the hour"),
        pytest.param(0, 300, True, None, id="five minutes keep it anyway"),
        pytest.param(0, 3_601, True, None, id="the hour is over"),
        pytest.param(0, 1_000, False, None, id="the prompt has changed"),
    ],
)
def test_only_a_return_between_five_minutes_and_an_hour_tells_about_a_hold(read, seconds, same, kept):
    found = check_hold(held=100, read=read, seconds=seconds, is_same_prompt=same)
    expected = None if kept is None else HoldCheck(kept=kept, read=read, held=100, seconds=seconds)
    assert found == expected


def test_refreshes_are_sent_while_enough_pauses_end_within_five_minutes():
    given, sent = REFRESH, []
    while decide_hold(given).holds:
        sent.append(decide_hold(given).chance)
        given = given.after_hold(Usage(cache_read_input_tokens=100_000))
    assert sent == [54 / 200, 20 / 147]
    assert (given.silence, decide_hold(given).refusal) == (870.0, "price")
    assert decide_hold(given).why.endswith("9% of pauses this long end within five minutes")


@pytest.mark.parametrize(
    ("seconds", "chance"),
    [(0, 54 / 200), (580, 20 / 147), (725, (20 / 147 + 11 / 128) / 2), (2_030, 4 / 107), (2_031, 0.0)],
)
def test_the_chance_of_a_return_within_five_minutes_falls_with_the_silence(seconds, chance):
    assert refresh_chance(seconds) == pytest.approx(chance)


def test_the_last_request_once_more_reads_all_of_it_and_writes_nothing():
    given = msgspec.structs.replace(QUIET, form="repeat", least_output=1)
    assert decide_hold(given).cost == pytest.approx((0.1 * 99_000 + 5.0) * 5e-6)


def decision(number, *, done=True, kind="hold"):
    return EconomicDecision(at=AT, kind=kind, done=done, why=f"number {number}")


def test_of_decisions_against_something_only_the_newest_is_kept():
    known = ()
    for each in (
        decision(1, done=False),
        decision(2),
        decision(3, done=False),
        decision(4, done=False, kind="reset"),
    ):
        known = add_decision(known, each)
    assert [each.why for each in known] == ["number 2", "number 3", "number 4"]


def test_the_latest_decisions_are_kept():
    known = ()
    for number in range(MAX_DECISIONS + 3):
        known = add_decision(known, decision(number))
    assert [each.why for each in known] == [f"number {n}" for n in range(3, MAX_DECISIONS + 3)]
    assert len(known) == 12


def test_tools_are_deferred_when_their_reads_cost_more_than_a_search():
    head = (HeadTool(name="Read", tokens=500, calls=9), HeadTool(name="Old", tokens=9_000))
    found = decide_deferral(head, replies=20, size=10_000, prices=OPUS, kept=())
    assert found is not None
    assert (found.tools, found.tokens) == (("Old",), 9_000)
    assert found.expected == pytest.approx(0.1 * 9_000 * 20 * 5e-6)
    assert found.cost == pytest.approx((0.1 * 500 * 20 + 0.5 * (0.1 * 10_000 + 600 + 1.25 * 9_000)) * 5e-6)


@pytest.mark.parametrize(
    ("replies", "kept", "tokens", "tools"),
    [
        pytest.param(9, (), 9_000, None, id="too early"),
        pytest.param(10, (), 400, (), id="early and too small"),
        pytest.param(20, ("Old",), 9_000, None, id="must stay"),
        pytest.param(20, (), 400, (), id="too small"),
    ],
)
def test_tools_are_kept_otherwise(replies, kept, tokens, tools):
    head = (HeadTool(name="Read", tokens=500, calls=9), HeadTool(name="Old", tokens=tokens))
    found = decide_deferral(head, replies=replies, size=10_000, prices=OPUS, kept=kept)
    assert (found.tools if found else None) == tools
