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


def test_pairs_keep_the_order_of_their_first_appearance():
    records = [
        b.result("early"),
        b.assistant(b.call("d"), b.call("c"), id="m1"),
        b.result("c"),
        b.result("c", "again"),
        b.assistant(b.call("d", n=2), id="m2"),
        b.result("d"),
        b.assistant(b.call("e"), b.call("a"), id="m3"),
    ]
    assert pair_tool_calls(records) == ToolPairs(("d", "c"), ("e", "a"), ("early",), ("d", "c"))
    assert pair_tool_calls([]) == ToolPairs((), (), (), ())
    once = [b.assistant(b.call("a")), b.result("a"), b.result("z")]
    assert pair_tool_calls(once) == ToolPairs(("a",), (), ("z",), ())


def test_a_response_that_comes_back_later_is_a_round_of_its_own_and_no_cut_parts_it():
    records = [b.assistant("a", id="m1"), b.assistant("b", id="m2"), b.assistant("c", id="m1"), b.user("d")]
    assert split_rounds(records) == (Round(0, 1, "m1"), Round(1, 2, "m2"), Round(2, 4, "m1"))
    assert find_cut_points(records) == (0, 3, 4)


def test_records_before_the_first_response_are_a_round_without_a_name():
    assert split_rounds([b.user("a"), b.user("b")]) == (Round(0, 2, ""),)
    assert split_rounds([b.user("a"), b.assistant("b", id="")]) == (Round(0, 1, ""), Round(1, 2, ""))
    assert split_rounds([b.assistant("b", id="m"), b.user("a")]) == (Round(0, 2, "m"),)
    assert find_cut_points([b.user("a"), b.user("b")]) == (0, 1, 2)


def test_the_halves_of_a_paused_reply_are_not_parted():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    begin = [b.user("Does it rain?"), b.user("Look.")]
    paused = b.assistant("I look.", id="m1", stop="pause_turn")
    searching = b.assistant(search, id="m1")
    end = [b.assistant(found, "It rains.", id="m2"), b.user("Thanks.")]
    assert find_cut_points([*begin, paused, *end]) == (0, 1, 2, 4, 5)
    # A list of a caller does not say how a reply ended; its open call does.
    assert find_cut_points([*begin, searching, *end]) == (0, 1, 2, 4, 5)
    # The user went on with something else.
    assert find_cut_points([*begin, paused, b.user("Never mind."), *end[1:]]) == (0, 1, 2, 3, 4, 5)
