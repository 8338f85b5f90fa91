"""Rounds, pairs and cuts, scene by scene. Against a naive model: `tests/laws/test_rounds.py`."""

import builders as b
import pytest

from everturn.history.rounds import Round, ToolPairs, find_cut_points, pair_tool_calls, split_rounds

TURN = [
    b.user("go"),
    b.assistant(b.think("hm"), id="m1"),
    b.assistant(b.call("c1"), id="m1"),
    b.result("c1"),
    b.assistant(b.call("c2"), id="m1"),
    b.result("c2"),
    b.assistant("done", id="m2"),
    b.user("thanks"),
]


@pytest.mark.spec("TR-7")
def test_a_round_is_a_response_with_its_results_however_they_were_interleaved():
    assert split_rounds(TURN) == (Round(0, 1, ""), Round(1, 6, "m1"), Round(6, 8, "m2"))
    assert split_rounds(TURN[1:3]) == (Round(0, 2, "m1"),)
    assert split_rounds([]) == ()
    nameless = [b.assistant("a", id=""), b.assistant("b", id="")]
    assert split_rounds(nameless) == (Round(0, 1, ""), Round(1, 2, ""))


@pytest.mark.spec("TR-7")
def test_cuts_are_between_rounds_only():
    assert find_cut_points(TURN) == (0, 1, 6, 7, 8)
    assert find_cut_points([]) == (0,)


def test_a_call_and_its_result_stay_together_over_any_distance():
    far = [b.assistant(b.call("c"), id="m1"), b.user("wait"), b.assistant("ok", id="m2"), b.result("c")]
    assert find_cut_points(far) == (0, 4)


def test_pairs_are_sorted_into_answered_open_orphaned_and_repeated():
    records = [
        b.assistant(b.call("a"), b.call("b"), b.call("c"), b.call("c")),
        b.result("a"),
        b.result("a", "again"),
        b.result("c"),
        b.result("z"),
    ]
    assert pair_tool_calls(records) == ToolPairs(("a", "c"), ("b",), ("z",), ("a", "c"))
