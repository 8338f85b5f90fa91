"""The floor that nobody undercuts, and the bounds that know what will be used again."""

from collections import Counter
from decimal import Decimal

import msgspec
import pytest
from builders import assistant, call, user
from hypothesis import given
from hypothesis import strategies as st
from replay.scripts import HEAD, MODEL, START, session, stamp, steps, text

from everturn.measure.model_table import find_model
from everturn.replay.bounds.clairvoyant import PlannedCall, cheapest_plan
from everturn.replay.bounds.floor import compute_floor
from everturn.replay.playing.counting import ScaledCosts, sent_blocks
from everturn.replay.playing.prepared import index_uses
from everturn.replay.policies import REPLAY_POLICIES, parse_policy
from everturn.replay.simulate import simulate

RATES = find_model(MODEL).rates(on=START.date(), prompt_tokens=0)


@pytest.mark.spec("RP-9")
def test_the_floor_is_every_token_once_the_head_read_on_every_call_and_the_output():
    made = session(steps("one", "two"))
    records = made.threads[0].records
    costs = ScaledCosts(find_model(MODEL))
    spoken = costs.all(sent_blocks(r for r in records if r.kind == "assistant"))
    shown = costs.all(sent_blocks(records[:-1]))
    # The head is what the first call reported beyond its message.
    head = HEAD - costs.all(sent_blocks(records[:1])) - costs.turn - costs.trailing
    # Every request has the head: it is read three times.
    assert compute_floor(made, parse_policy("none")) == (
        shown * RATES.input + 3 * head * RATES.read + spoken * RATES.output
    ) / Decimal(1_000_000)
    assert simulate(made, parse_policy("none"), None).floor == compute_floor(made, parse_policy("none"))


@pytest.mark.spec("RP-9")
@given(
    sizes=st.lists(st.integers(1, 30_000), min_size=1, max_size=25),
    gap=st.sampled_from([5.0, 200.0, 400.0, 4_000.0]),
    name=st.sampled_from([*REPLAY_POLICIES, "claude-code+1h", "none+refresh"]),
    window=st.sampled_from([50_000, 200_000]),
)
def test_no_policy_undercuts_the_floor_of_the_calls_that_it_made(sizes, gap, name, window):
    made = session(steps(*[text(size, f"word{at}") for at, size in enumerate(sizes)], gap=gap))
    run = simulate(made, parse_policy(name, window=window), index_uses(made))
    made_calls = Counter(each.thread for each in run.calls if each.source == "main")
    assert run.floor == compute_floor(made, parse_policy(name), made_calls)
    assert run.floor <= run.totals.dollars


def wordy(*, quoted_at: int | None, calls: int = 30):
    """A large result at the beginning, many small ones after it; a later call may quote the large one."""
    large = "def read_everything_at_once(path_of_the_file):\n    return 1\n"
    records = steps(large + text(60_000), *["done"] * calls)
    if quoted_at is None:
        return session(records)
    edit = assistant(
        call("toolu_edit", "Edit", file_path="src/file_1.py", old_string=large, new_string="pass"),
        id="msg_edit", uuid="says-edit", model=MODEL, timestamp=stamp(quoted_at),
    )  # fmt: skip
    again = user("Change it.", uuid="again", timestamp=stamp(quoted_at - 1))
    return session([*records, again, edit])


@pytest.mark.spec("RP-9")
def test_clears_only_clears_what_is_never_used_again_as_soon_as_that_pays():
    made = wordy(quoted_at=None)
    uses = index_uses(made)
    oracle, none = (
        simulate(made, parse_policy("clears-only"), uses),
        simulate(made, parse_policy("none"), uses),
    )
    assert oracle.calls[1].context == none.calls[1].context
    # Seen once, and gone: from then on only small things are read.
    assert oracle.calls[2].context < none.calls[2].context - 50_000
    assert oracle.totals.dollars < none.totals.dollars / 2


@pytest.mark.spec("RP-9")
def test_clears_only_keeps_what_will_be_used():
    made = wordy(quoted_at=1_000)
    uses = index_uses(made)
    oracle, none = (
        simulate(made, parse_policy("clears-only"), uses),
        simulate(made, parse_policy("none"), uses),
    )
    assert oracle.totals.refetches == 0
    cleared = [
        a.number for a, b in zip(oracle.calls, none.calls, strict=True) if a.context < b.context - 50_000
    ]
    assert cleared == []


def behind_a_paste(gaps):
    """A small result that nobody uses, and much that cannot be cleared right behind it."""
    records = steps(text(300), "short", "short", gaps=gaps)
    paste = user(text(40_000), uuid="paste", timestamp=stamp(21))
    return session([*records[:3], paste, *records[3:]])


def saved_by_call(made):
    uses = index_uses(made)
    oracle, none = (
        simulate(made, parse_policy("clears-only"), uses),
        simulate(made, parse_policy("none"), uses),
    )
    return [b.context - a.context for a, b in zip(oracle.calls, none.calls, strict=True)]


@pytest.mark.spec("RP-9")
def test_clears_only_leaves_alone_what_costs_more_to_clear_than_to_read():
    assert saved_by_call(behind_a_paste({})) == [0, 0, 0, 0]


@pytest.mark.spec("RP-9")
def test_clears_only_clears_for_free_when_the_prefix_has_lapsed():
    *before, after = saved_by_call(behind_a_paste({4: 1_000}))
    assert before == [0, 0, 0]
    assert 250 < after < 400


@pytest.mark.spec("EC-12")
def test_the_plan_finds_what_others_kept_in_the_cache_and_pays_no_more_than_anybody_else():
    call = PlannedCall(new=500, needed=0, pause=0.0, read=0.1, write=1.25, plain=1.0, output=Decimal(0))
    warm = msgspec.structs.replace(call, held=10_000)
    assert cheapest_plan([call], 10_000) == 10_500
    assert cheapest_plan([warm], 10_000) == Decimal("1500.0")
    assert cheapest_plan([warm, msgspec.structs.replace(warm, pause=9_000_000.0)], 10_000) <= 1_500 + 2_050
