"""The tables of docs/economy.md: percentages of what was recorded, refetches and the user's words (EC-14)."""

from decimal import Decimal

import pytest

from everturn.errors import UsageError
from everturn.replay.economy_tables import (
    Figures,
    insert_table,
    measure,
    model_policies,
    setting_policies,
    settings_table,
)
from everturn.replay.parallel import ReplayedSession
from everturn.replay.runs import ReplayCost, ReplayRun, RetainedCount, Totals


def run(policy, read, *, refetches=0, kept=10, middle=False):
    totals = Totals(
        calls=50,
        spent=ReplayCost(read=Decimal(read), output=Decimal(1)),
        refetches=refetches,
        left={"user_instructions": RetainedCount(kept, 10)},
    )
    return ReplayRun("session", policy, (), totals, begins_in_middle=middle)


def session(*runs):
    return ReplayedSession("session", "session.jsonl", "claude-opus-4-5", (), "", (), runs)


def test_percentages_leave_out_sessions_that_begin_in_the_middle_and_refetches_do_not():
    sessions = [
        session(run("recorded", 4), run("economic", 2, refetches=1, kept=8)),
        session(run("recorded", 9, middle=True), run("economic", 9, refetches=2, middle=True)),
    ]
    assert measure(sessions, "economic", "recorded") == Figures("60.0", "50.0", 3.0, 90.0)


def test_with_five_sessions_a_percentage_has_its_interval():
    sessions = [session(run("recorded", 4), run("economic", 2)) for _ in range(5)]
    assert measure(sessions, "economic", "recorded").dollars == "60.0 (60.0 to 60.0)"


def test_every_way_to_use_the_policy_has_one_row_with_its_own_options():
    policies = setting_policies()
    assert len({each.name for each in policies}) == len(policies) == 12
    by_name = {each.name: each.options for each in policies}
    plain = by_name["balanced, own model, no holds"]
    assert (plain.economy.holds, plain.compact.summary_model) == (False, "")
    small = by_name["careful, small model, holds"]
    assert (small.economy.holds, small.compact.summary_model) == (True, "claude-haiku-4-5")
    assert {each.model for each in model_policies("claude-opus-5")} == {"claude-opus-5"}
    rows = settings_table([session(*(run(each.name, 4) for each in policies))]).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {each.name}" for each in policies[1:]]


def test_a_table_replaces_what_is_between_its_markers():
    page = "before\n<!-- economy: models -->\nold\n<!-- end of economy: models -->\nafter"
    assert insert_table(page, "models", "new") == page.replace("old", "new")
    with pytest.raises(UsageError, match="no markers"):
        insert_table(page, "settings", "new")
