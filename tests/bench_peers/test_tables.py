from datetime import UTC, datetime
from decimal import Decimal

import pytest
from peers.compacting import Survived
from peers.playing import Played
from peers.tables import BASE, Table, compaction_table, dollars_table, into, turn_table
from peers.turn import OURS, Speed
from peers.work import Report

from everturn.replay.runs import ReplayRun, SimulatedCall, totals_of

PAGE = "before\n<!-- peers: turn -->\nold\n<!-- end of peers: turn -->\nafter\n"


def played(policy: str, dollars: list[int], *, refused: int = 0, ended: str = "") -> Played:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    calls = tuple(
        SimulatedCall(
            "main", number, moment, "main", read=9, write_5m=1, write_1h=0, plain=0, output=1,
            dollars=Decimal(each), context=10, model="claude-opus-4-5",
        )
        for number, each in enumerate(dollars, start=1)
    )  # fmt: skip
    run = ReplayRun("told", policy, calls, totals_of(calls, {}), ended)
    return Played(run, refused, ("first message must be a user's",) * bool(refused))


def cell(table: Table, row: str, column: str) -> str:
    (found,) = [each for each in table.rows if each[0] == row]
    return found[table.head.index(column)]


def test_dollars_are_compared_over_the_calls_that_both_made() -> None:
    reports = [
        Report("everturn", played=[played(BASE, [1, 1, 8])]),
        Report("other", played=[played("other", [1, 2], refused=1, ended="full")]),
    ]
    table = dollars_table(reports)
    assert cell(table, BASE, "ratio") == "1.00"
    assert cell(table, "other", "ratio") == "1.50"
    assert (cell(table, "other", "unfinished"), cell(table, "other", "refused")) == ("1", "1")
    assert "other was refused, for example: first message must be a user's" in table.notes


def test_a_peer_that_was_not_measured_is_named_with_the_reason() -> None:
    table = turn_table([Report("other", problems={"other": "could not be installed: no such package"})])
    assert table.notes == ("Not measured: other, could not be installed: no such package",)


def test_times_are_compared_within_one_process() -> None:
    slow = [Speed(OURS, 50_000, 2e-3, 3e-3, 0.1, 2e-3), Speed(OURS, 1_000_000, 2e-3, 3e-3, 0.1, 2e-3)]
    theirs = [Speed("peer", 50_000, 4e-3, 5e-3, 0, 2e-3), Speed("peer", 1_000_000, 80e-3, 90e-3, 0, 2e-3)]
    ours = [Speed(OURS, 50_000, 1e-3, 1e-3, 0.1, 1e-3), Speed(OURS, 1_000_000, 1e-3, 1e-3, 0.1, 1e-3)]
    table = turn_table([Report(OURS, speeds=ours), Report("peer", speeds=[*slow, *theirs])])
    assert table.rows == (
        ("everturn", "1.00", "1.00", "1.0", "0.00", "1.0"),
        ("peer", "4.00", "80.00", "90.0", "1.00", "40.0"),
    )


def test_what_survives_is_told_per_token_too() -> None:
    shares = dict.fromkeys(("user_instructions", "paths", "identifiers", "errors"), 1.0) | {"pending": None}
    kept = [
        Survived(OURS, "h", 100_000, 10_000, shares, 1.0, 1.0, 0.01),
        Survived("other", "h", 100_000, 5_000, shares, 0.5, 0.6, 0.002),
    ]
    table = compaction_table([Report("all", survived=kept)])
    assert cell(table, "other", "ratio") == "1.00"
    assert (cell(table, "other", "of before"), cell(table, "other", "tasks")) == ("5%", "–")


def test_a_table_takes_the_place_of_the_one_before() -> None:
    assert into(PAGE, "turn", ["new"]) == PAGE.replace("old", "new")


def test_a_page_without_a_place_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(SystemExit, match="Put <!-- peers: dollars --> and"):
        into(PAGE, "dollars", ["new"])
