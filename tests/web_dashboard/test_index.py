"""The index: what it counts, what it keeps between runs, and what happens when files or itself break."""

import itertools
import os
import stat
import time
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
import watchfiles
from small_session import SmallSession, compacted, reading, text
from web_dashboard.client import text_of
from web_dashboard.conftest import MakeDashboard, ids, paused, write

from everturn.catalog.places import Places, find_places, list_files
from everturn.replay.audit import audit
from everturn.replay.sessions import read_sessions
from everturn.web_dashboard.index import SessionIndex
from everturn.web_dashboard.indexer import Indexer, stamp_files
from everturn.web_dashboard.queries import Scope, by_period, total
from everturn.web_dashboard.summarize import summarize_file, thin
from everturn.web_dashboard.values import FileSummary, to_dollars
from everturn.web_dashboard.watcher import Watcher

SUMS = "SELECT name, calls, nanos, breaks FROM sessions ORDER BY name"


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    root = tmp_path / "sessions"
    write(root / "a.jsonl", paused())
    write(root / "b.jsonl", reading())
    write(root / "deep" / "c.jsonl", compacted(), project="/home/me/other")
    return root


def places_of(root: Path, tmp_path: Path) -> Places:
    return Places((root,), tmp_path / "own", tmp_path / "cache", any_format=True)


def test_the_totals_are_those_of_the_audit(sessions: Path, make_dashboard: MakeDashboard):
    sums = total(make_dashboard(sessions).dashboard.index, Scope())
    expected = audit(read_sessions([sessions])).total
    assert (sums.calls, to_dollars(sums.nanos)) == (expected.calls, expected.dollars)
    assert (sums.read, sums.output) == (expected.tokens["cache_read"], expected.tokens["output"])


def test_a_response_in_two_files_is_counted_once_whatever_is_read_first(tmp_path: Path):
    root = tmp_path / "sessions"
    first = write(root / "first.jsonl", paused(), is_copy=True)
    more = paused()
    more.human("Go on.").reply("m3", text("Going on."), read=60_000, written=500, out=10)
    second = write(root / "second.jsonl", more, is_copy=True)
    found: list[object] = []
    for order in itertools.permutations([first, second]):
        index = SessionIndex()
        for file in order:
            index.store(summarize_file(str(file)), stamp_files([file]).values(), agent="")
        found.append(index.read(SUMS))
    assert found[0] == found[1]
    assert [(name, calls) for name, calls, *_ in index.read(SUMS)] == [("first", 2), ("second", 1)]


def test_when_the_first_file_is_deleted_the_copy_takes_over_its_calls(tmp_path: Path):
    root = tmp_path / "sessions"
    first = write(root / "first.jsonl", paused(), is_copy=True)
    write(root / "second.jsonl", paused(), is_copy=True)
    index = SessionIndex()
    indexer = Indexer(index, places_of(root, tmp_path), summarize=summarize_file)
    indexer.update()
    assert [row[:2] for row in index.read(SUMS)] == [("first", 2), ("second", 0)]
    first.unlink()
    indexer.update()
    assert [row[:2] for row in index.read(SUMS)] == [("second", 2)]


def test_an_unchanged_file_is_not_read_again_and_a_changed_one_is(sessions: Path, tmp_path: Path):
    read: list[str] = []

    def summarize(path: str) -> FileSummary:
        read.append(Path(path).name)
        return summarize_file(path)

    place = str(tmp_path / "index.sqlite")
    for expected in (["a.jsonl", "b.jsonl", "c.jsonl"], [], ["b.jsonl"]):
        read.clear()
        index = SessionIndex(place)
        Indexer(index, places_of(sessions, tmp_path), summarize=summarize).update()
        index.close()
        assert sorted(read) == expected
        with open(sessions / "b.jsonl", "a") as file:
            file.write("\n" if expected == [] else "")


def test_the_newest_files_are_read_first(sessions: Path, tmp_path: Path):
    for number, name in enumerate(("b.jsonl", "deep/c.jsonl", "a.jsonl")):
        os.utime(sessions / name, (1_000_000 + number, 1_000_000 + number))
    read: list[str] = []

    def summarize(path: str) -> FileSummary:
        read.append(Path(path).name)
        return FileSummary(path)

    Indexer(SessionIndex(), places_of(sessions, tmp_path), summarize=summarize).update()
    assert read == ["a.jsonl", "c.jsonl", "b.jsonl"]


def test_the_files_of_sub_agents_belong_to_the_session_that_started_them(tmp_path: Path):
    root = tmp_path / "sessions"
    main = paused()
    for line in main.lines:
        line["sessionId"] = "s-1"
    agent = SmallSession(agent="a7").human("Look.").reply("x1", text("Seen."), written=2_000, out=5)
    for line in agent.lines:
        line["sessionId"] = "s-1"
    write(root / "s-1.jsonl", main)
    side = write(root / "s-1" / "subagents" / "agent-a7.jsonl", agent)
    index = SessionIndex()
    indexer = Indexer(index, places_of(root, tmp_path), summarize=summarize_file)
    indexer.update()
    assert [row[:2] for row in index.read(SUMS)] == [("s-1", 3)]
    agent.human("Again.").reply("x2", text("Seen."), read=2_000, written=100, out=5)
    for line in agent.lines:
        line["sessionId"] = "s-1"
    write(side, agent)
    indexer.update()
    assert [row[:2] for row in index.read(SUMS)] == [("s-1", 4)]


def test_files_without_a_session_are_listed_with_the_reason(sessions: Path, make_dashboard: MakeDashboard):
    (sessions / "half.jsonl").write_bytes(b'{"type": "user", "mess')
    (sessions / "picture.jsonl").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    said = text_of(make_dashboard(sessions).page("/sessions"))
    assert "Files that could not be read 2 files" in said
    assert "picture.jsonl unknown format" in said


def test_the_index_is_closed_to_others(sessions: Path, make_dashboard: MakeDashboard, tmp_path: Path):
    make_dashboard(sessions)
    folder = tmp_path / "cache" / "everturn" / "dashboard"
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}
    assert set(modes.values()) == {"0o600"}
    assert modes.keys() >= {"index.sqlite", "key"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: b"not a database at all, but text" * 40, "it is damaged"),
        (lambda data: data[:100] + b"\xff" * (len(data) - 100), "it is damaged"),
        (lambda data: data[:60] + b"\0\0\0\x63" + data[64:], "schema version 99"),
    ],
)
def test_an_index_that_cannot_be_used_is_made_anew(sessions: Path, tmp_path: Path, damage, why: str):
    place = tmp_path / "index.sqlite"
    for expected in ("", why):
        index = SessionIndex(str(place))
        Indexer(index, places_of(sessions, tmp_path), summarize=summarize_file).update()
        assert [row[0] for row in index.read(SUMS)] == ["a", "b", "c"]
        index.close()
        assert expected in " ".join(index.notes)
        place.write_bytes(damage(place.read_bytes()))
    assert index.notes


def test_damage_that_is_met_later_is_healed_too(sessions: Path, tmp_path: Path):
    index = SessionIndex(str(tmp_path / "index.sqlite"))
    indexer = Indexer(index, places_of(sessions, tmp_path), summarize=summarize_file)
    indexer.update()
    index.read("DELETE FROM usage")
    index._db.execute("DROP TABLE sessions")
    assert index.read("SELECT count(*) FROM sessions") == [(0,)]
    assert "rebuilt" in index.notes[-1]
    indexer.update()
    assert [row[0] for row in index.read(SUMS)] == ["a", "b", "c"]


def test_a_second_dashboard_keeps_its_index_in_memory(sessions: Path, tmp_path: Path):
    place = str(tmp_path / "index.sqlite")
    first, second = SessionIndex(place), SessionIndex(place)
    assert (first.notes, second.notes) == (
        [],
        ["the index is kept in memory only: another dashboard has it open"],
    )
    Indexer(second, places_of(sessions, tmp_path), summarize=summarize_file).update()
    assert (first.read("SELECT count(*) FROM sessions"), second.read("SELECT count(*) FROM sessions")) == (
        [(0,)],
        [(3,)],
    )


def test_a_worker_that_dies_costs_only_its_file(sessions: Path, tmp_path: Path):
    def summarize(path: str) -> FileSummary:
        if path.endswith("b.jsonl"):
            return FileSummary(path, unreadable=((path, "the process ended"),))
        return summarize_file(path)

    index = SessionIndex()
    Indexer(index, places_of(sessions, tmp_path), summarize=summarize).update()
    assert [row[0] for row in index.read(SUMS)] == ["a", "c"]


def test_without_paths_sessions_are_where_the_agents_keep_them(tmp_path: Path):
    environment = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = find_places(environment, home=tmp_path)
    write(tmp_path / ".claude" / "projects" / "p" / "x.jsonl", reading())
    write(tmp_path / "data" / "everturn" / "chat" / "p" / "y.jsonl", reading())
    (tmp_path / "data" / "everturn" / "chat" / "p" / "y.jsonl.state.json").write_text("{}")
    assert [path.name for path in list_files(found)] == ["x.jsonl", "y.jsonl"]
    assert found.cache == tmp_path / "cache" / "everturn" / "dashboard"


def test_a_name_that_is_not_text_is_listed_and_does_not_stop_the_others(
    sessions: Path, make_dashboard: MakeDashboard
):
    strange = os.fsencode(sessions) + b"/\xff\xfe.jsonl"
    os.rename(sessions / "b.jsonl", strange)
    client = make_dashboard(sessions)
    assert set(ids(client)) == {"a", "c"}
    shown = f"{sessions}/\\xff\\xfe.jsonl its name is not valid UTF-8, so no page could link to it; rename it"
    assert f"Files that could not be read 1 file {shown}" in text_of(client.page("/sessions"))
    os.rename(strange, sessions / "b.jsonl")
    client.dashboard.indexer.update()
    assert set(ids(client)) == {"a", "b", "c"}
    assert "could not be read" not in text_of(client.page("/sessions"))


def test_a_small_chart_keeps_the_peaks():
    assert thin([1, 9, 2, 3, 8, 4], 3) == (9, 3, 8)
    assert thin([1, 2], 3) == (1, 2)


@pytest.mark.parametrize("tokens", [2**63, 10**25])
def test_a_file_with_impossible_numbers_is_named_and_the_others_are_read(
    sessions: Path, make_dashboard: MakeDashboard, tokens: int
):
    wrong = SmallSession().human("Hello").reply("m1", text("Hi."), plain=tokens, out=1)
    path = write(sessions / "wrong.jsonl", wrong)
    client = make_dashboard(sessions)
    assert sorted(ids(client)) == ["a", "b", "c"]
    page = text_of(client.page("/sessions"))
    assert f"Files that could not be read 1 file {path} it reports {tokens:,} tokens in one call" in page


def test_a_file_that_cannot_be_stored_costs_only_itself(sessions: Path, tmp_path: Path):
    def summarize(path: str) -> FileSummary:
        found = summarize_file(path)
        if not path.endswith("b.jsonl"):
            return found
        (each,) = found.sessions
        return msgspec.structs.replace(found, sessions=(msgspec.structs.replace(each, peak=2**70),))

    index = SessionIndex()
    Indexer(index, places_of(sessions, tmp_path), summarize=summarize).update()
    assert [name for name, *_ in index.read(SUMS)] == ["a", "c"]
    ((why,),) = index.read("SELECT why FROM files WHERE why <> ''")
    assert why.startswith("it cannot be indexed (OverflowError: ")


@pytest.mark.parametrize("times", ["0001-01-01T00", "9999-12-31T23", "2999-12-31T23"])
@pytest.mark.parametrize("by", ["day", "month"])
def test_a_wrong_date_breaks_no_page(sessions: Path, make_dashboard: MakeDashboard, times: str, by: str):
    write(sessions / "ages.jsonl", paused(), times=times)
    client = make_dashboard(sessions, zone=ZoneInfo("Pacific/Kiritimati"))
    assert "No calls" not in text_of(client.page(f"/?by={by}"))
    assert "Context over time" in text_of(client.page(ids(client)["ages"]))
    rows = by_period(client.dashboard.index, Scope(), "day", UTC)
    assert sum(row.sums.calls for row in rows) >= 4
    assert len(rows) < 100


@pytest.mark.spec("DB-5")
def test_a_change_whose_name_is_not_text_does_not_end_the_watch(
    sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("everturn.web_dashboard.watcher._RETRY", 0.01)
    failures = [RuntimeError('Unable to decode path "fo\\xFFld" to string')]
    watch = watchfiles.watch

    def failing_once(*roots: Path, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return watch(*roots, **options)

    monkeypatch.setattr("everturn.web_dashboard.watcher.watchfiles.watch", failing_once)
    index = SessionIndex()
    places = places_of(sessions, tmp_path)
    indexer = Indexer(index, places, summarize=summarize_file)
    watcher = Watcher(places, indexer)
    indexer.start()
    watcher.start()
    try:
        wait_for_sessions(index, ["a", "b", "c"])
        write(sessions / "d.jsonl", paused())
        wait_for_sessions(index, ["a", "b", "c", "d"])
    finally:
        watcher.stop()
        indexer.stop()


@pytest.mark.spec("DB-5")
def test_a_watched_folder_may_disappear_and_come_back(sessions: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("everturn.web_dashboard.watcher._CHECK", 50)
    index = SessionIndex()
    places = places_of(sessions, tmp_path)
    indexer = Indexer(index, places, summarize=summarize_file)
    watcher = Watcher(places, indexer)
    indexer.start()
    watcher.start()
    try:
        wait_for_sessions(index, ["a", "b", "c"])
        sessions.rename(tmp_path / "aside")
        wait_for_sessions(index, [])
        (tmp_path / "aside").rename(sessions)
        wait_for_sessions(index, ["a", "b", "c"])
        (tmp_path / "other").mkdir()
        write(tmp_path / "other" / "d.jsonl", paused())
        # Replaced at once: the name is always there, the folder is another one.
        sessions.rename(tmp_path / "aside")
        (tmp_path / "other").rename(sessions)
        wait_for_sessions(index, ["d"])
    finally:
        watcher.stop()
        indexer.stop()


def wait_for_sessions(index: SessionIndex, names: list[str]) -> None:
    found: list[str] = []
    for _ in range(400):
        found = [name for name, *_ in index.read(SUMS)]
        if found == names:
            return
        time.sleep(0.05)
    assert found == names


def test_sessions_of_other_agents_are_found_where_their_variables_say(tmp_path: Path):
    codex, gemini = tmp_path / "codex", tmp_path / "gemini"
    for folder in (codex / "sessions", codex / "archived_sessions", gemini / ".gemini" / "tmp"):
        folder.mkdir(parents=True)
    environment = {"CODEX_HOME": str(codex), "GEMINI_CLI_HOME": str(gemini)}
    found = find_places(environment, home=tmp_path / "home", others=True).roots
    assert found == (
        tmp_path / "home" / ".claude" / "projects",
        tmp_path / "home" / ".local" / "share" / "everturn",
        codex / "sessions",
        codex / "archived_sessions",
        gemini / ".gemini" / "tmp",
    )
