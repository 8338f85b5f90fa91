"""The soak and its board: which seeds are run, what is written, where it goes."""

import msgspec
import pytest
from reliability.board import written
from reliability.kinds import KINDS, SHARES
from reliability.score import Failure, Row, added
from reliability.soak import Board, Task, drawn, main, tasks

ROWS = (
    Row(kind="conversations", trials=3_000, faults=70, survived=3_000, units=9_000, unit="requests"),
    Row(kind="kills", trials=50, faults=50, survived=48, lost=1, unknown=1, failures=(Failure(7, "gone"),)),
)
BOARD = Board(
    date="2026-11-15",
    commit="abc1234",
    machine="2 cores",
    python="3.11.7",
    seed=1,
    workers=2,
    seconds=90.0,
    durability="fsync always",
    rows=ROWS,
)


def test_every_kind_has_its_share():
    assert SHARES.keys() == KINDS.keys()


def test_a_kind_alone_runs_exactly_the_seeds_that_were_asked_for():
    assert list(tasks("kills", 4711, 1)) == [Task("kills", 4711, 1)]
    seeds = [seed for task in tasks("kills", 10, 250) for seed in range(task.first, task.first + task.count)]
    assert seeds == list(range(10, 260))


def test_all_kinds_run_in_proportion_and_no_seed_twice():
    found: dict[str, list[int]] = {}
    for task in tasks("", 5, 300):
        found.setdefault(task.kind, []).extend(range(task.first, task.first + task.count))
    assert {name: len(seeds) for name, seeds in found.items()} == {name: 3 * n for name, n in SHARES.items()}
    assert all(seeds == list(range(5, 5 + len(seeds))) for seeds in found.values())


def test_rows_of_several_processes_become_one():
    assert added([ROWS[1], ROWS[1]]) == Row(
        kind="kills", trials=100, faults=100, survived=96, lost=2, unknown=2, failures=ROWS[1].failures * 2
    )


def test_the_board_stands_between_its_markers():
    page = "before\n<!-- soak -->\nold\n<!-- /soak -->\nbehind\n"
    assert written(page, BOARD) == (
        "before\n<!-- soak -->\n"
        "| kind | trials | faults injected | survived | lost | unknown | at most |\n"
        "|---|---:|---:|---:|---:|---:|---:|\n"
        "| conversations | 3,000 (9,000 requests) | 70 | 3,000 | 0 | 0 | 1 in 1,000 |\n"
        "| kills | 50 | 50 | 48 | 1 | 1 | - |\n"
        "\n2026-11-15, commit abc1234, seed 1; 2 cores, Python 3.11.7, 2 processes, 1.5 minutes.\n"
        "Durability: fsync always.\n"
        "<!-- /soak -->\nbehind\n"
    )
    with pytest.raises(SystemExit, match="has no <!-- soak -->"):
        written("no place", BOARD)


def test_what_is_printed_names_how_to_run_a_failing_trial_again():
    assert "again: make soak KIND=kills SEED=7 TRIALS=1    # gone" in drawn(BOARD)


def test_a_soak_writes_its_board_as_json(tmp_path, capsys):
    into = tmp_path / "build" / "soak.json"
    asked = ["--kind", "power-cuts", "--trials", "20", "--seed", "3", "--workers", "1", "--into", str(into)]
    assert main([*asked, "--date", "2026-11-15", "--commit", "abc1234"]) == 0
    board = msgspec.json.decode(into.read_bytes(), type=Board)
    (row,) = board.rows
    assert (board.date, board.commit, board.seed) == ("2026-11-15", "abc1234", 3)
    assert (row.kind, row.trials, row.faults, row.survived, row.lost, row.unknown) == (
        "power-cuts",
        20,
        20,
        20,
        0,
        0,
    )
    assert capsys.readouterr().out.splitlines()[-1].startswith("seed 3, ")
