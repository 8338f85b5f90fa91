"""Many sessions on all cores: the results of one by one, kept between runs; a bad file stops nobody."""

import io
import shutil
import threading
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from everturn.cli import main
from everturn.dashboard.progress import progress
from everturn.errors import StoreError, UsageError
from everturn.replay import sessions as reading
from everturn.replay.page import session_comparison as pages
from everturn.replay.parallel import ReplayOutcome, ResultCache, default_folder, engines, replay_all, replays
from everturn.replay.parallel import result_cache as keeping
from everturn.replay.policies import parse_policy
from everturn.replay.simulate import index_uses, simulate
from everturn.replay.synthetic import SessionShape, generate_session

POLICIES = (parse_policy("recorded"), parse_policy("claude-code"), parse_policy("clear-keep-3+1h"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Three small sessions, and a file that is none."""
    where = tmp_path_factory.mktemp("recorded")
    shape = SessionShape(boundaries=0, images=0, idle_gaps=1, display_copies="short")
    for seed in range(3):
        (where / f"session-{seed}.jsonl").write_bytes(
            b"\n".join(generate_session(seed=seed, tokens=20_000, shape=shape))
        )
    (where / "notes.txt").write_text("nothing here")
    return where


def one_by_one(folder: Path) -> dict[str, tuple]:
    found = {}
    for each in reading.read_sessions([folder]):
        if isinstance(each, reading.ReplaySession):
            uses = index_uses(each)
            found[each.name] = tuple(simulate(each, each_policy, uses) for each_policy in POLICIES)
    return found


def without_effort(outcome: ReplayOutcome) -> ReplayOutcome:
    done = tuple(msgspec.structs.replace(each, computed=0) for each in outcome.sessions)
    return ReplayOutcome(done, outcome.unreadable)


@pytest.mark.spec("RP-10", "RP-11")
def test_workers_find_what_one_process_finds(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(replays, "_SMALL", 0)
    keep = ResultCache(str(tmp_path))
    outcome = replay_all([folder], POLICIES, keep, workers=2)
    found = {each.name: replays.load_calls(each, POLICIES, keep).runs for each in outcome.sessions}
    assert found == one_by_one(folder)
    assert [Path(each.path).name for each in outcome.unreadable] == ["notes.txt"]


def test_a_session_already_replayed_is_not_computed_again(folder, tmp_path, monkeypatch):
    keep = ResultCache(str(tmp_path))
    first = replay_all([folder], POLICIES[:2], keep)
    assert [each.computed for each in first.sessions] == [2, 2, 2]
    again = replay_all([folder], POLICIES, keep)
    assert [each.computed for each in again.sessions] == [1, 1, 1]
    monkeypatch.setattr(replays, "simulate", None)
    assert without_effort(replay_all([folder], POLICIES, keep)) == without_effort(again)


def test_new_code_another_policy_or_another_byte_is_computed_anew(folder, tmp_path, monkeypatch):
    keep = ResultCache(str(tmp_path))
    file = tmp_path / "one.jsonl"
    shutil.copy(folder / "session-0.jsonl", file)
    assert [each.computed for each in replay_all([file], POLICIES[:1], keep).sessions] == [1]
    assert [each.computed for each in replay_all([file], [parse_policy("recorded+1h")], keep).sessions] == [1]
    file.write_bytes(file.read_bytes() + b"\n")
    assert [each.computed for each in replay_all([file], POLICIES[:1], keep).sessions] == [1]
    monkeypatch.setattr(keeping, "code_digest", lambda: "other")
    assert [each.computed for each in replay_all([file], POLICIES[:1], keep).sessions] == [1]


def test_sessions_of_one_file_are_told_apart(tmp_path):
    def line(words: str) -> bytes:
        said = [("user", f"Please look at {words}."), ("assistant", f"I have looked at {words}.")]
        return msgspec.json.encode({"messages": [{"role": role, "content": text} for role, text in said]})

    file = tmp_path / "many.jsonl"
    file.write_bytes(b"\n".join([line("the harbour"), line("the tides, the moon and everything else " * 20)]))
    keep = ResultCache(str(tmp_path / "kept"))
    outcome = replay_all([file], POLICIES[:1], keep)
    assert len(outcome.sessions) == 2, outcome.unreadable
    assert {each.name: replays.load_calls(each, POLICIES[:1], keep).runs for each in outcome.sessions} == {
        name: runs[:1] for name, runs in one_by_one(file).items()
    }


def test_a_kept_result_that_is_broken_is_computed_again(folder, tmp_path):
    keep, file = ResultCache(str(tmp_path)), folder / "session-0.jsonl"
    before = replay_all([file], POLICIES[:1], keep)
    for path in tmp_path.rglob("*.msgpack"):
        path.write_bytes(path.read_bytes()[:20])
    assert replay_all([file], POLICIES[:1], keep) == before
    assert list(tmp_path.rglob("*.unfinished")) == []


def test_the_page_gets_the_calls_of_what_it_draws_and_the_sums_of_the_rest(folder, tmp_path, monkeypatch):
    keep = ResultCache(str(tmp_path))
    found = replay_all([folder], POLICIES, keep).sessions
    drawn = replays.load_comparisons(found, POLICIES, keep)
    assert [bool(run.calls) for each in drawn for run in each.runs] == [True] * 9
    monkeypatch.setattr(pages, "MAX_DRAWN_CALLS", 1)
    bare = replays.load_comparisons(found, POLICIES, keep)
    assert [bool(run.calls) for each in bare for run in each.runs] == [True] * 3 + [False] * 6
    assert [each.name for each in bare] == [each.name for each in drawn]
    assert bare[0] == drawn[0]


@pytest.mark.spec("RP-17")
def test_a_session_that_fails_under_a_policy_is_named_and_the_rest_goes_on(folder, tmp_path, monkeypatch):
    def fails(session, policy, *rest, **more):
        if session.name == "session-1" and policy == POLICIES[1]:
            raise ValueError("a strange record")
        return simulate(session, policy, *rest, **more)

    monkeypatch.setattr(replays, "simulate", fails)
    outcome = replay_all([folder], POLICIES[:2], ResultCache(str(tmp_path)), workers=8)
    assert [(each.name, len(each.runs)) for each in outcome.sessions] == [
        ("session-0", 2),
        ("session-1", 1),
        ("session-2", 2),
    ]
    assert {Path(each.path).name: each.why for each in outcome.unreadable} == {
        "notes.txt": "unknown format",
        "session-1.jsonl": f"it cannot be replayed under {POLICIES[1].name} (ValueError: a strange record)",
    }


def test_a_sub_agent_in_a_file_of_its_own_is_replayed_once(tmp_path):
    lines = list(
        generate_session(seed=4, tokens=30_000, shape=SessionShape(boundaries=0, sidechains=1, images=0))
    )
    records = [msgspec.json.decode(line) for line in lines]
    agent = next(record["agentId"] for record in records if record.get("isSidechain"))
    talk = tmp_path / "talks"
    talk.mkdir()
    main = [line for line, record in zip(lines, records, strict=True) if not record.get("isSidechain")]
    side = [line for line, record in zip(lines, records, strict=True) if record.get("isSidechain")]
    (talk / "main.jsonl").write_bytes(b"\n".join(main))
    (talk / f"agent-{agent}.jsonl").write_bytes(b"\n".join(side))
    outcome = replay_all([talk], POLICIES[:1], ResultCache(str(tmp_path / "kept")))
    whole = [each.name for each in reading.read_sessions([talk]) if isinstance(each, reading.ReplaySession)]
    assert [each.name for each in outcome.sessions] == whole == ["main"]
    assert outcome.sessions[0].agents == (agent,)


def test_with_fewer_files_than_workers_policies_are_spread(folder, tmp_path):
    files = [folder / "session-0.jsonl"]
    keep = ResultCache(str(tmp_path))
    assert [len(task.policies) for task in replays._tasks(files, POLICIES, keep, 4)] == [1, 1, 1]
    assert [len(task.policies) for task in replays._tasks(files, POLICIES, keep, 1)] == [3]
    told: list[tuple[int, int]] = []
    outcome = replay_all(
        files, POLICIES, keep, workers=4, tell=lambda done, of, about: told.append((done, of))
    )
    assert [[run.policy for run in each.runs] for each in outcome.sessions] == [
        [each.name for each in POLICIES]
    ]
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Cannot write results to .*Choose another folder with --cache"):
        replay_all([folder / "session-0.jsonl"], POLICIES[:1], ResultCache(str(tmp_path / "file")))


def test_results_that_vanished_meanwhile_are_said_in_a_sentence(folder, tmp_path):
    keep = ResultCache(str(tmp_path / "kept"))
    (done,) = replay_all([folder / "session-0.jsonl"], POLICIES[:1], keep).sessions
    shutil.rmtree(tmp_path / "kept")
    with pytest.raises(StoreError, match="results of session-0 under recorded are no longer in"):
        replays.load_calls(done, POLICIES[:1], keep)


def test_the_code_that_computes_is_part_of_the_key_and_the_code_that_shows_is_not(monkeypatch):
    read = keeping.read_file
    fresh = keeping.code_digest.__wrapped__

    def with_a_change_in(name: str) -> str:
        changed = lambda path: read(path) + b"#" * path.as_posix().endswith(name)  # noqa: E731
        monkeypatch.setattr(keeping, "read_file", changed)
        return fresh()

    same = with_a_change_in("nowhere.py")
    assert with_a_change_in("replay/page/parts.py") == with_a_change_in("cli/replay.py") == same
    for name in ("everturn/__init__.py", "replay/simulate.py", "engine/conversation.py", "decide/policy.py"):
        assert with_a_change_in(name) != same


def test_workers_file_results_under_the_code_that_started_them(monkeypatch):
    monkeypatch.setattr(keeping, "code_digest", lambda: "mine")
    kept = ResultCache("folder").for_workers()
    monkeypatch.setattr(keeping, "code_digest", lambda: "changed")
    assert kept._path("a") == Path("folder/mine/a.msgpack")
    assert kept.for_workers() == kept


def test_results_are_kept_where_the_desktop_wants_them():
    assert default_folder({"XDG_CACHE_HOME": "/var/tmp/x"}) == Path("/var/tmp/x/everturn/replay")
    assert default_folder({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/everturn/replay"


def test_ray_maps_the_same_function(folder, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: make ray")
    keep = ResultCache(str(tmp_path))
    by_ray = replay_all([folder], POLICIES[:1], keep, engine="ray", workers=2)
    here = replay_all([folder], POLICIES[:1], ResultCache(str(tmp_path / "b")), engine="here")
    assert by_ray == here


def test_without_ray_a_sentence_says_what_brings_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match=r"Install it with: pip install 'everturn\[ray\]'"):
        list(engines.map_tasks(abs, [1, 2], engine="ray", workers=2))


@pytest.mark.spec("RP-10")
def test_progress_is_a_line_every_few_seconds_in_a_pipe_and_a_bar_on_a_terminal():
    # Two waits pass, the third ends: one line after two seconds, one after seven.
    told, waits = threading.Event(), iter((False, False, True))

    def wait(seconds: float) -> bool:
        told.wait(5)
        return next(waits)

    pipe = io.StringIO()
    with progress("Replaying", to=pipe, wait=wait) as tell:
        tell(50, 1000, "folder/red\x1b[31m.jsonl")
        told.set()
    assert pipe.getvalue().splitlines() == [
        "Replaying: 50 of 1,000 (red?[31m.jsonl), 2 s", "Replaying: 50 of 1,000 (red?[31m.jsonl), 7 s",
    ]  # fmt: skip
    quick = io.StringIO()
    with progress("Replaying", to=quick) as tell:
        tell(1, 1, "a.jsonl")
    assert quick.getvalue() == ""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    with progress("Replaying", to=terminal) as tell:
        tell(1, 2, "folder/[bold]odd.jsonl")
    assert "1/2" in terminal.getvalue()
    assert "[bold]odd.jsonl" in terminal.getvalue()


@pytest.mark.spec("RP-10")
def test_one_command_gives_a_table_for_people_json_for_programs_and_a_page(folder, tmp_path):
    asked = [
        "replay",
        str(folder),
        "--policy",
        "recorded,masking,clears-only",
        "--cache",
        str(tmp_path / "kept"),
    ]
    table = CliRunner().invoke(main, asked)
    assert table.exit_code == 0, table.output
    assert [name for name in ("recorded", "masking", "clears-only") if name not in table.stdout] == []
    told = CliRunner().invoke(main, [*asked, "--json", "--html", str(tmp_path / "replay.html")])
    rows = msgspec.json.decode(told.stdout)["rows"]
    assert [row["policy"] for row in rows] == ["recorded", "masking", "clears-only"]
    text = (tmp_path / "replay.html").read_text(encoding="utf-8")
    assert text.count('class="session"') == 3
    assert "notes.txt" in text
    assert 'class="bound clairvoyant"' in text
