"""The soak and its board: which seeds are run, what is kept and added up, what is written, where it goes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from reliability import board as boards
from reliability import soak
from reliability.board import name_seeds, written
from reliability.kinds import KINDS, SHARES
from reliability.ledger import Ledger, Run, joined, without
from reliability.score import Failure, Kind, Row, added
from reliability.soak import Board, Task, drawn, main, tasks
from reliability.source import files_of, kind_digest
from reliability.workers import WorkerEnded

ROOT = Path(__file__).parents[2]

ROWS = (
    Row(kind="conversations", trials=3_000, faults=70, survived=3_000, units=9_000, unit="requests"),
    Row(kind="kills", trials=50, faults=50, survived=48, lost=1, unknown=1, failures=(Failure(7, "gone"),)),
)
BOARD = Board(
    date="2026-11-15",
    commit="abc1234",
    machine="2 cores",
    python="3.11.7",
    sources={"kills": "0123456789ab"},
    seeds=(1,),
    workers=2,
    seconds=90.0,
    rows=ROWS,
)


def test_every_kind_has_its_share():
    assert SHARES.keys() == KINDS.keys()


def test_a_kind_alone_runs_exactly_the_seeds_that_were_asked_for():
    assert list(tasks("kills", 4711, 1)) == [Task("kills", 4711, 1)]
    seeds = [seed for task in tasks("kills", 10, 250) for seed in range(task.first, task.first + task.count)]
    assert seeds == list(range(10, 260))


def test_a_kind_without_a_share_runs_only_by_its_name():
    assert SHARES["long-callers"] == 0
    assert list(tasks("long-callers", 7, 2)) == [Task("long-callers", 7, 1), Task("long-callers", 8, 1)]


def test_all_kinds_run_in_proportion_and_no_seed_twice():
    found: dict[str, list[int]] = {}
    for task in tasks("", 5, 300):
        found.setdefault(task.kind, []).extend(range(task.first, task.first + task.count))
    in_proportion = {name: 3 * share for name, share in SHARES.items() if share}
    assert {name: len(seeds) for name, seeds in found.items()} == in_proportion
    assert all(seeds == list(range(5, 5 + len(seeds))) for seeds in found.values())


def test_rows_of_several_processes_become_one():
    assert added([ROWS[1], ROWS[1]]) == Row(
        kind="kills", trials=100, faults=100, survived=96, lost=2, unknown=2, failures=ROWS[1].failures * 2
    )


def a_run(seed: int, *rows: Row, date: str = "2026-11-15", source: str = "a") -> Run:
    return Run(
        seed=seed,
        date=date,
        commit="abc1234",
        machine="2 cores",
        python="3.11.7",
        seconds=5_400.0,
        sources={row.kind: source for row in rows},
        rows={row.kind: row for row in rows},
    )


def test_the_board_adds_up_the_runs_between_its_markers():
    page = "before\n<!-- soak -->\nold\n<!-- /soak -->\nbehind\n"
    kills = Row(kind="kills", trials=100, faults=100, survived=100, seconds=1_800.0)
    assert written(page, [a_run(1, *ROWS), a_run(7, kills, date="2026-11-16")]) == (
        "before\n<!-- soak -->\n"
        "| kind | trials | faults injected | survived | lost | unknown | at most | from seed |\n"
        "|---|---:|---:|---:|---:|---:|---:|---|\n"
        "| conversations | 3,000 (9,000 requests) | 70 | 3,000 | 0 | 0 | 1 in 1,000 | 1 |\n"
        "| kills | 150 | 150 | 148 | 1 | 1 | - | 1, 7 |\n"
        "\n2026-11-15, 2026-11-16, commit abc1234; 2 cores, Python 3.11.7; "
        "3.0 hours, 0.5 hours of CPU time.\n"
        f"Durability: {boards.DURABILITY}.\n"
        "<!-- /soak -->\nbehind\n"
    )
    with pytest.raises(SystemExit, match="has no <!-- soak -->"):
        written("no place", [])


def test_the_board_keeps_the_runs_on_this_source_with_the_manual_and_they_count_in_a_clone(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boards, "find_sources", lambda kinds: {"kills": "a"})
    with pytest.raises(SystemExit, match="run `make soak` first"):
        boards.main()
    boards.publish({"00000-9-1.json": a_run(9, ROWS[1], source="old")}, boards.PUBLISHED)
    ours = Ledger(boards.FOLDER, a_run(1, ROWS[1]))
    ours.save()
    boards.PAGE.write_text("<!-- soak -->\n<!-- /soak -->\n", encoding="utf-8")
    boards.main()
    (kept,) = boards.PUBLISHED.iterdir()
    assert msgspec.json.decode(kept.read_bytes(), type=Run) == a_run(1, ROWS[1])
    assert "| kills | 50 | 50 | 48 | 1 | 1 | - | 1 |" in boards.PAGE.read_text(encoding="utf-8")
    clone = Ledger(tmp_path / "empty", Run(seed=2, sources={"kills": "a"}), boards.PUBLISHED)
    assert clone.sum_of("kills") == ROWS[1]
    # Here it is in both folders, and counts once.
    assert Ledger(boards.FOLDER, clone.run, boards.PUBLISHED).sum_of("kills") == ROWS[1]


def test_what_is_printed_names_how_to_run_a_failing_trial_again():
    assert "again: make soak KIND=kills SEED=7 TRIALS=1    # gone" in drawn(BOARD)


def run_soak(tmp_path: Path, *more: str) -> tuple[int, Board]:
    into = tmp_path / "build" / "soak.json"
    places = ("--into", str(into), "--ledger", str(tmp_path / "ledger"), "--published", str(tmp_path / "no"))
    code = main([*more, *places, "--workers", "1", "--date", "2026-11-15", "--commit", "abc1234"])
    return code, msgspec.json.decode(into.read_bytes(), type=Board)


def test_a_soak_writes_its_board_as_json(tmp_path, capsys):
    code, board = run_soak(tmp_path, "--kind", "power-cuts", "--trials", "20", "--seed", "3")
    (row,) = board.rows
    assert (code, board.date, board.commit, board.seeds) == (0, "2026-11-15", "abc1234", (3,))
    assert (row.kind, row.trials, row.faults, row.survived, row.lost, row.unknown) == (
        "power-cuts",
        20,
        20,
        20,
        0,
        0,
    )
    assert board.sources == {"power-cuts": kind_digest(ROOT, "reliability.power")}
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "seed 3, earlier runs on this source: 0"
    assert told[-1].startswith("1 run on this source, last seed 3, ")


def test_runs_on_the_same_source_add_up_and_no_seed_is_run_twice(tmp_path, monkeypatch):
    run_soak(tmp_path, "--kind", "power-cuts", "--trials", "20", "--seed", "3")
    _, board = run_soak(tmp_path, "--kind", "power-cuts", "--trials", "30", "--seed", "3")
    assert (board.seeds, [row.trials for row in board.rows]) == ((3, 3), [30])
    # A fresh seed by default.
    _, board = run_soak(tmp_path, "--kind", "power-cuts", "--trials", "5")
    assert (len(set(board.seeds)), [row.trials for row in board.rows]) == (2, [35])
    monkeypatch.setattr(soak, "kind_digest", lambda root, module: "other")
    _, board = run_soak(tmp_path, "--kind", "power-cuts", "--trials", "5", "--seed", "3")
    assert (board.sources, board.seeds, board.rows[0].trials) == ({"power-cuts": "other"}, (3,), 5)


def test_a_seed_that_failed_is_never_done_and_is_told_with_the_command_that_repeats_it(
    tmp_path, monkeypatch, capsys
):
    def red(seed: int):
        if seed == 5:
            raise AssertionError("a record is gone")
        return {}

    monkeypatch.setitem(KINDS, "kills", Kind("kills", red))
    asked = ("--kind", "kills", "--trials", "9", "--seed", "1")
    code, board = run_soak(tmp_path, *asked)
    command = "make soak KIND=kills SEED=5 TRIALS=1    # AssertionError: a record is gone"
    assert (code, f"red: {command}" in capsys.readouterr().out.splitlines()) == (1, True)
    code, board = run_soak(tmp_path, *asked)
    assert (code, board.rows[0].trials, board.rows[0].lost) == (1, 10, 2)
    capsys.readouterr()
    assert main(["--kind", "kills", "--seed", "5", "--trials", "1"]) == 1
    assert capsys.readouterr().out == f"red: {command}\n"
    assert main(["--kind", "kills", "--seed", "6", "--trials", "1"]) == 0


def start_soak(tmp_path: Path) -> subprocess.Popen[str]:
    """One that would take hours; its first line was read."""
    command = [sys.executable, "-m", "reliability.soak", "--kind", "power-cuts", "--seed", "1"]
    places = ["--into", str(tmp_path / "soak.json"), "--ledger", str(tmp_path / "ledger")]
    alone = ["--published", str(tmp_path / "no"), "--workers", "1"]
    process = subprocess.Popen(
        [*command, *places, *alone],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_with_the_sum_and_no_traceback(tmp_path, number):
    with start_soak(tmp_path) as process:
        os.killpg(process.pid, number)
        out, problems = process.communicate(timeout=60)
    assert (process.returncode, problems) == (soak.INTERRUPTED, "")
    assert out.splitlines()[-1].startswith("1 run on this source, ")
    board = msgspec.json.decode((tmp_path / "soak.json").read_bytes(), type=Board)
    assert sum(row.trials for row in board.rows) < soak.CONVERSATIONS


def test_a_soak_that_is_killed_has_kept_its_trials_and_leaves_no_worker(tmp_path):
    with start_soak(tmp_path) as process:
        while not (kept := list((tmp_path / "ledger").glob("*.json"))):
            time.sleep(0.1)
        process.kill()
        # The pipes are closed when the last worker has ended.
        process.communicate(timeout=60)
    run = msgspec.json.decode(kept[0].read_bytes(), type=Run)
    assert (run.rows["power-cuts"].trials > 0, run.done["power-cuts"][0][0]) == (True, 1)


def test_a_kind_is_loaded_in_the_worker_that_runs_it_and_those_that_fork_have_workers_without_frameworks():
    asked = "import sys; from reliability.kinds import KINDS; KINDS['kills'].load(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert (
        "reliability.crashes" in loaded,
        loaded & {"langchain", "pydantic_ai", "reliability.callers"},
    ) == (
        True,
        set(),
    )
    assert [name for name, kind in KINDS.items() if kind.forks] == ["kills", "disk-failures", "index-kills"]


def test_a_worker_that_dies_is_told_with_the_seeds_that_it_had(tmp_path, monkeypatch):
    def dead(seed: int):
        os._exit(3)

    monkeypatch.setitem(KINDS, "kills", Kind("kills", dead, forks=True))
    with pytest.raises(WorkerEnded, match="has ended in the middle of kills, seeds 1 to 9"):
        run_soak(tmp_path, "--kind", "kills", "--trials", "9", "--seed", "1")


def test_a_fresh_seed_can_be_asked_for_by_name():
    assert (soak.read_seed("fresh"), soak.read_seed("7")) == (None, 7)


def test_what_is_left_of_a_task_is_what_no_run_has_done(tmp_path):
    first = Ledger(tmp_path, Run(seed=1, sources={"kills": "a", "steps": "a"}))
    first.run.note(Task("kills", 10, 5), Row(kind="kills", trials=5, survived=5))
    first.run.note(Task("kills", 20, 3), Row(kind="kills", trials=3, lost=1, failures=(Failure(21, "gone"),)))
    first.save()
    again = Ledger(tmp_path, Run(seed=2, sources={"kills": "a", "steps": "b"}))
    assert again.left_of(Task("kills", 8, 16)) == [
        Task("kills", 8, 2),
        Task("kills", 15, 5),
        Task("kills", 21, 1),
        Task("kills", 23, 1),
    ]
    assert again.left_of(Task("steps", 10, 5)) == [Task("steps", 10, 5)]


def test_spans_are_joined_and_taken_away():
    assert joined([(5, 7), (1, 3), (3, 4), (6, 9)]) == [(1, 4), (5, 9)]
    assert list(without((0, 10), [(0, 2), (4, 5), (9, 12)])) == [(2, 4), (5, 9)]
    assert list(without((0, 10), [(0, 10)])) == []


@pytest.fixture
def project(tmp_path):
    files = {
        "src/everturn/__init__.py": '_HOMES = {"Session": "everturn.session:Session", "d": "everturn.draw"}',
        "src/everturn/session.py": "from everturn.log import Log\n",
        "src/everturn/log.py": "def read():\n    from . import lines\n",
        "src/everturn/lines.py": "if TYPE_CHECKING:\n    from everturn.draw import Picture\n",
        "src/everturn/draw.py": "",
        "src/everturn/twin/verify.py": "import everturn.draw",
        "tests/reliability/power.py": "import everturn\ndef images(seed):\n    everturn.Session\n",
        "tests/reliability/score.py": "",
        "tests/reliability/callers.py": "from everturn.twin import verify\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


EXECUTED = ("__init__", "lines", "log", "session")


def test_the_source_of_a_kind_is_what_its_trials_can_execute(project):
    found = files_of(["reliability.power"], project)
    assert [path.relative_to(project).as_posix() for path in found] == [
        *(f"src/everturn/{name}.py" for name in EXECUTED),
        "tests/reliability/power.py",
    ]


@pytest.mark.parametrize("name", [f"src/everturn/{each}.py" for each in EXECUTED])
def test_a_change_of_what_a_kind_executes_voids_its_runs(project, name):
    before = kind_digest(project, "reliability.power")
    assert kind_digest(project, "reliability.power") == before
    (project / name).write_text((project / name).read_text() + "\nx = 2\n")
    assert kind_digest(project, "reliability.power") != before


@pytest.mark.parametrize("name", ["src/everturn/twin/verify.py", "src/everturn/draw.py"])
def test_a_change_of_what_a_kind_does_not_execute_voids_nothing(project, name):
    before = kind_digest(project, "reliability.power")
    (project / name).write_text("x = 2\n")
    assert kind_digest(project, "reliability.power") == before


def test_a_module_that_a_trial_has_executed_is_in_the_source_of_its_kind():
    """Asked of a process of its own: what is loaded after one trial, and nothing else."""
    asked = (
        "import sys; from reliability.power import images; images(3);"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('everturn') and m.__file__))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {Path(name).resolve() for name in done.stdout.split()}
    assert len(loaded) > 100
    assert loaded <= set(files_of(["reliability.power"], ROOT))


def test_of_many_seeds_the_first_are_named():
    assert name_seeds([7]) == "7"
    assert name_seeds(list(range(12))) == "0, 1, 2 and 9 more"
