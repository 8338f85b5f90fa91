"""The economic policy in replays: never much dearer than doing nothing, and charged for the end."""

from decimal import Decimal

import pytest
from builders import assistant, call
from hypothesis import example, given, settings
from hypothesis import strategies as st
from replay.scripts import session, steps, text

from everturn.decide.economy.reuse import fit_reuse
from everturn.replay.compare import pair_costs
from everturn.replay.playing.prepared import index_uses
from everturn.replay.policies import bill_summaries_as, parse_policy
from everturn.replay.reuse_table import exchanges_of, format_table
from everturn.replay.simulate import simulate


@pytest.mark.spec("EC-8")
@given(
    sizes=st.lists(st.integers(1, 12_000), min_size=2, max_size=16),
    pauses=st.dictionaries(st.integers(2, 17), st.sampled_from([280.0, 310.0, 1_000.0, 4_000.0, 20_000.0])),
    model=st.sampled_from(["claude-opus-4-5", "claude-opus-5-5", "claude-fable-5-2", "claude-haiku-5-5"]),
    caution=st.sampled_from(["frugal", "balanced", "careful"]),
    cheap=st.booleans(),
    gap=st.sampled_from([20.0, 150.0, 285.0, 295.0]),
)
# Every pause is held, and ends before the entry would have expired: each hold is a loss.
@example([9_000] * 6, {}, "claude-opus-4-5", "frugal", True, 295.0)
# Large results, which a budget for results would clear in a warm cache.
@example([9_000] * 8, {}, "claude-opus-4-5", "frugal", True, 295.0)
@settings(max_examples=15, deadline=None)
def test_no_session_costs_much_more_than_the_same_calls_without_holds_and_resets(
    sizes, pauses, model, caution, cheap, gap
):
    made = session(steps(*[text(size, f"word{at}") for at, size in enumerate(sizes)], gap=gap, gaps=pauses))
    policy = parse_policy(f"economic+{caution}", model=model)
    policy = bill_summaries_as(policy, "claude-haiku-4-5") if cheap else policy
    ours = simulate(made, policy, None).calls
    costs = pair_costs(ours, simulate(made, parse_policy("none", model=model), None).calls)
    assert costs.dollars <= costs.of + max(Decimal("0.03") * costs.of, Decimal("0.05"))


@pytest.mark.spec("EC-13")
def test_a_hold_after_the_last_call_is_charged():
    made = session(steps(*[text(9_000, f"word{at}") for at in range(6)]))
    held = simulate(made, parse_policy("economic"), None)
    last = held.calls[-1]
    assert (last.source, (last.at - held.calls[-2].at).total_seconds()) == ("refresh", 290.0)
    assert "52% of pauses this long end within the hour" in last.why
    assert held.totals.spent.refresh == last.dollars > 0


def test_a_read_whose_line_is_replaced_later_counts_as_needed_and_the_others_do_not():
    line = "    return parse_all_of_it(path_of_the_file, with_everything=True)"
    records = steps(f"def read_everything_at_once(path_of_the_file):\n{line}\n", *["done"] * 14)
    edit = call("toolu_99", "Edit", file_path="src/file_1.py", old_string=line, new_string="    return 1")
    records[-1] = assistant(edit, id="msg_16", uuid="says-16", timestamp=records[-1].timestamp)
    made = session(records)
    seen = list(exchanges_of(made, index_uses(made)))
    assert [exchange.age for exchange, is_needed in seen if is_needed] == [9, 14]
    assert format_table(fit_reuse(seen)) == '_row("reads", 0, (10, 0), (15, 2), (0, 0)),'
