"""`everturn audit`, called as people call it."""

import csv
import io
import json
import shutil
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result
from small_session import SmallSession, call, compacted, reading, text

from everturn.catalog.names import short_id
from everturn.catalog.places import files_below
from everturn.cli import audit_watch, main
from everturn.cli.period import parse_moment
from everturn.dashboard.audit import render_changes
from everturn.dashboard.layout import Screen
from everturn.replay.audit import Audit, audit
from everturn.replay.sessions import read_sessions

PEOPLE_SEE = {"COLUMNS": "100", "NO_COLOR": None, "FORCE_COLOR": None}


def run(*args: object) -> Result:
    return CliRunner(env=PEOPLE_SEE).invoke(main, ["audit", *map(str, args)])


def audited(*args: object) -> dict:
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def paused(session: SmallSession, at: int, pause: timedelta) -> SmallSession:
    """The session with a pause before that line and no other change."""
    for line in session.lines[at:]:
        moment = datetime.fromisoformat(line["timestamp"]) + pause
        line["timestamp"] = moment.isoformat().replace("+00:00", "Z")
    return session


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    session = reading()
    for line in session.lines:
        line["cwd"] = "/home/me/parser"
    (tmp_path / "one.jsonl").write_bytes(session.to_bytes())
    return tmp_path


def test_calls_are_counted_once_and_priced_by_kind(folder):
    report = audited(folder)
    # By hand: at 5 dollars a million for input and 25 for output, reads at 0.1 and writes at 1.25 of input.
    assert report["total"] == {
        "calls": 4,
        "tokens": {"input": 115, "cache_read": 84_010, "cache_write_5m": 39_885, "output": 520},
        "dollars": pytest.approx(0.304861, abs=1e-6),
        "dollars_by_kind": {
            "input": pytest.approx(0.000575),
            "cache_read": pytest.approx(0.042005),
            "cache_write_5m": pytest.approx(0.249281, abs=1e-6),
            "output": pytest.approx(0.013),
        },
        "hit_rate": pytest.approx(84_010 / 124_010),
        "unpriced": {},
    }
    assert {name: [*rows] for name, rows in report["by"].items()} == {
        "session": [str(folder / "one.jsonl")],
        "day": ["2026-01-05"],
        "week": ["2026-01-05"],
        "month": ["2026-01"],
        "project": ["/home/me/parser"],
        "model": ["claude-opus-4-5-20251101"],
        "agent": ["claude-code"],
    }


def test_a_response_repeated_in_another_file_counts_once_with_its_last_usage(folder):
    before = audited(folder)["total"]
    longer = reading().human("And now?").reply("m5", text("Now this."), read=39_900, written=100, out=7)
    longer.lines[-3]["message"]["usage"]["output_tokens"] = 1_100
    (folder / "two.jsonl").write_bytes(longer.to_bytes())
    report = audited(folder)
    assert (report["total"]["calls"], report["repeated_calls"]) == (5, 4)
    assert report["total"]["tokens"]["output"] == before["tokens"]["output"] + 1_000 + 7
    assert [row["calls"] for row in report["sessions"]] == [4, 1]
    # What was known keeps the project that it was first seen in.
    by_project = {Path(name).name: row["calls"] for name, row in report["by"]["project"].items()}
    assert by_project == {"parser": 4, folder.name: 1}


def test_a_break_in_a_repeated_history_counts_once(tmp_path):
    broken = SmallSession().human("Go.").reply("a1", text("Went."), written=50_000).human("On.")
    broken.reply("a2", text("Gone."), written=50_100)
    (tmp_path / "one.jsonl").write_bytes(broken.to_bytes())
    broken.human("And?").reply("a3", text("Done."), read=50_100, written=100)
    (tmp_path / "two.jsonl").write_bytes(broken.to_bytes())
    report = audited(tmp_path)
    assert [(each["session"], each["number"]) for each in report["breaks"]] == [("one", 2)]
    assert [row["breaks"] for row in report["sessions"]] == [1, 0]


def test_files_read_twice_and_what_filled_the_context_are_told(folder):
    report = audited(folder)
    (again,) = report["reads_again"]
    assert (again["path"], again["count"], again["wasted"]) == ("/home/me/parser.py", 2, report["wasted"])
    assert again["wasted"] > 3_000
    assert max(report["filled"], key=report["filled"].get) == "tool results"
    assert [*report["tools"]] == ["Read", "Bash"]


@pytest.mark.spec("RP-3")
def test_every_break_has_its_reason(tmp_path):
    idle = SmallSession().human("Go.").reply("a1", text("Went."), written=50_000).human("On.")
    idle.reply("a2", text("Gone."), read=15_000, written=36_000)
    (tmp_path / "idle.jsonl").write_bytes(paused(idle, 2, timedelta(minutes=20)).to_bytes())
    switched = SmallSession().human("Go.").reply("b1", text("Went."), written=50_000).human("On.")
    switched.model = "claude-sonnet-4-5-20250929"
    switched.reply("b2", text("Gone."), written=51_000)
    (tmp_path / "switched.jsonl").write_bytes(switched.to_bytes())
    cleared = SmallSession().human("Go.").reply("c1", call("t1", "Read", file_path="/a"), written=50_000)
    cleared.result("t1", "words " * 10_000).cleared("t1", before=60_000, saved=20_000)
    cleared.reply("c2", text("Gone."), read=15_000, written=20_000)
    (tmp_path / "cleared.jsonl").write_bytes(cleared.to_bytes())
    lost = SmallSession().human("Go.").reply("d1", text("Went."), written=50_000).human("On.")
    lost.reply("d2", text("Gone."), written=50_100)
    (tmp_path / "lost.jsonl").write_bytes(lost.to_bytes())
    (tmp_path / "compacted.jsonl").write_bytes(compacted().to_bytes())
    report = audited(tmp_path)
    fields = ("session", "number", "reason", "lost", "why")
    assert [tuple(each[name] for name in fields) for each in report["breaks"]] == [
        ("cleared", 2, "clearing", 35_000, "old results were cleared from the context"),
        ("compacted", 3, "compaction", 158_000, "the conversation was compacted"),
        ("idle", 2, "idle", 35_000, "22 minutes idle; the cache entry had a TTL of 5m"),
        (
            "lost",
            2,
            "unexplained",
            50_000,
            "nothing was read: not even the system prompt and tools were in the cache",
        ),
        (
            "switched",
            2,
            "model",
            50_000,
            "the model changed from claude-opus-4-5-20251101 to claude-sonnet-4-5-20250929",
        ),
    ]
    # 35,000 tokens written at 6.25 instead of read at 0.5 dollars a million.
    assert report["breaks"][2]["dollars"] == pytest.approx(35_000 * 5.75 / 1e6)
    # No more than what was really written again: the compacted context is smaller than what was lost.
    assert report["breaks"][1]["dollars"] == pytest.approx(30_000 * 5.75 / 1e6)
    assert report["break_reasons"]["idle"] == {
        "breaks": 1,
        "tokens": 35_000,
        "dollars": pytest.approx(0.20125),
    }


@pytest.mark.spec("RP-3")
def test_the_report_says_how_near_the_predictions_were(folder):
    report = audited(folder)
    assert (report["judged"], report["near"]) == (4, 4)
    assert "Cache reads predicted within 5% of the context on 100.0% of 4 calls." in run(folder).stdout


def test_a_small_drop_is_no_break(tmp_path):
    session = SmallSession().human("Go.").reply("a1", text("Went."), written=50_000).human("On.")
    session.reply("a2", text("Gone."), read=47_600, written=3_000)
    (tmp_path / "small.jsonl").write_bytes(session.to_bytes())
    assert audited(tmp_path)["breaks"] == []


def test_people_see_tables_that_fit_their_screen(folder):
    (folder / "notes.txt").write_text("none")
    done = run(folder, "--by", "model")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "1 session, 4 calls, $0.3049"
    assert "By model" in done.stdout
    assert "By day" not in done.stdout
    assert "unknown format" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_breaks_name_their_session_only_where_there_are_several(tmp_path):
    for name in ("a-name-much-longer-than-any-reason-could-bear", "b"):
        broken = SmallSession().human("Go.").reply(f"{name}1", text("Went."), written=50_000).human("On.")
        broken.reply(f"{name}2", text("Gone."), written=50_100)
        (tmp_path / f"{name}.jsonl").write_bytes(broken.to_bytes())
    alone = run(tmp_path / "b.jsonl").stdout.splitlines()
    assert alone[alone.index("The breaks") + 1].split() == ["call", "lost", "cost", "why"]
    both = run(tmp_path).stdout.splitlines()
    at = both.index("The breaks")
    ids = [
        short_id(str(tmp_path / name))
        for name in ("a-name-much-longer-than-any-reason-could-bear.jsonl", "b.jsonl")
    ]
    assert [line.split()[0] for line in both[at + 1 : at + 4]] == ["session", *ids]


def test_models_without_a_price_are_named_and_in_no_dollar(tmp_path):
    session = SmallSession(model="gpt-9").human("Go.").reply("a1", text("Went."), plain=1_000, out=5)
    (tmp_path / "other.jsonl").write_bytes(session.to_bytes())
    report = audited(tmp_path)
    assert (report["total"]["dollars"], report["total"]["unpriced"]) == (0, {"gpt-9": 1})
    assert "No price known, not included above: gpt-9 (1 call)." in " ".join(run(tmp_path).stdout.split())


def test_a_folder_without_any_session_is_an_error_that_names_its_files(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    done = run(tmp_path)
    assert done.exit_code == 1
    assert "No session to audit." in done.stderr
    assert "notes.txt: unknown format" in done.stderr


def test_reports_of_cache_breaks_are_our_own_and_not_named_as_files_that_could_not_be_read(folder):
    (folder / "notes.txt").write_text("Buy milk.\n")
    (folder / "my.diff").write_text("--- a\n")
    (folder / "cache-break-api-20261101T000000000000.diff").write_text("cache break: the tools changed\n")
    assert [each["path"] for each in audited(folder)["unreadable"]] == [
        str(folder / "my.diff"), str(folder / "notes.txt"),
    ]  # fmt: skip


def test_files_beside_a_session_are_no_sessions_and_not_named_as_unread(tmp_path):
    session = tmp_path / "s.jsonl"
    shutil.copy(Path(__file__).parents[2] / "examples" / "session.jsonl", session)
    beside = tmp_path / "s.jsonl.files"
    beside.mkdir()
    (beside / "toolu_1.txt").write_text("a large result")
    partial = {"role": "assistant", "content": [], "usage": {"input_tokens": 10, "output_tokens": 5}}
    (beside / "partial-msg_1.json").write_text(json.dumps(partial))
    told = audited(tmp_path)
    assert ([each["path"] for each in told["sessions"]], told["unreadable"]) == ([str(session)], [])


def test_a_cut_off_reply_that_cannot_be_read_is_a_call_without_a_known_price(tmp_path):
    session = tmp_path / "s.jsonl"
    shutil.copy(Path(__file__).parents[2] / "examples" / "session.jsonl", session)
    beside = tmp_path / "s.jsonl.files"
    beside.mkdir()
    (beside / "partial-msg_1.json").write_bytes(b"\0\0")
    (beside / "partial-msg_2.json").write_text('{"model": "claude-haiku-4-5"}')
    cut_off = audited(session)["asides"]["cut_off"]
    assert (cut_off["calls"], cut_off["unpriced"], cut_off["dollars"]) == (2, 2, 0)


def test_a_session_without_usage_is_audited_for_what_it_holds(tmp_path):
    talk = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    (tmp_path / "talk.json").write_text(json.dumps(talk))
    done = run(tmp_path)
    assert done.exit_code == 0
    assert "No call in these files reports its usage" in done.stdout
    assert "What filled the context (estimated)" in done.stdout


def later(session: SmallSession, hours: float) -> SmallSession:
    return paused(session, 0, timedelta(hours=hours))


@pytest.fixture
def two_days(tmp_path: Path) -> Path:
    """A session of two calls a day apart, beginning on Monday, 2026-01-05 at 10:00 UTC; and another one."""
    one = SmallSession().human("Fix the login.").reply("a1", text("Done."), written=10_000).human("More.")
    one.reply("a2", text("Done."), read=10_000, written=100)
    (tmp_path / "one.jsonl").write_bytes(paused(one, 2, timedelta(hours=24)).to_bytes())
    two = SmallSession().human("Write a page.").reply("b1", text("Done."), written=20_000)
    (tmp_path / "two.jsonl").write_bytes(later(two, 14 * 24).to_bytes())
    return tmp_path


def test_totals_are_by_session_day_week_month_and_agent_in_the_zone_of_the_reader(two_days):
    def calls(*args: object) -> dict[str, dict[str, int]]:
        by = audited(two_days, *args)["by"]
        names = ("session", "day", "week", "month", "agent")
        return {name: {Path(key).name: row["calls"] for key, row in by[name].items()} for name in names}

    assert calls("--timezone", "UTC") == {
        "session": {"one.jsonl": 2, "two.jsonl": 1},
        "day": {"2026-01-05": 1, "2026-01-06": 1, "2026-01-19": 1},
        "week": {"2026-01-05": 2, "2026-01-19": 1},
        "month": {"2026-01": 3},
        "agent": {"claude-code": 3},
    }
    # 14 hours earlier, the first call was on Sunday.
    early = calls("--timezone", "Etc/GMT+11")
    assert early["day"] == {"2026-01-04": 1, "2026-01-05": 1, "2026-01-18": 1}
    assert early["week"] == {"2025-12-29": 1, "2026-01-05": 1, "2026-01-12": 1}


def test_a_period_counts_the_calls_in_it_not_the_sessions_that_began_in_it(two_days):
    def tokens(*args: object) -> int:
        return audited(two_days, "--timezone", "UTC", *args)["total"]["tokens"].get("cache_write_5m", 0)

    assert tokens("--since", "2026-01-06", "--until", "2026-01-06") == 100
    assert tokens("--until", "2026-01-06") == 10_100
    assert tokens("--since", "20260107") == 20_000
    assert tokens("--since", "2026-01", "--until", "2026-01") == 30_100
    nothing = run(two_days, "--since", "2026-03")
    assert (nothing.exit_code, nothing.stderr) == (
        1, "Error: No session has a call in this period; the last is of 2026-01-19.\n",
    )  # fmt: skip


NOW = datetime(2026, 1, 7, 15, 30, tzinfo=ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    ("words", "since", "until"),
    [
        ("today", "2026-01-07T00:00", "2026-01-08T00:00"),
        ("Yesterday", "2026-01-06T00:00", "2026-01-07T00:00"),
        ("7d", "2025-12-31T00:00", "2026-01-01T00:00"),
        ("2 weeks ago", "2025-12-24T00:00", "2025-12-25T00:00"),
        ("12h", "2026-01-07T03:30", "2026-01-07T03:30"),
        ("monday", "2026-01-05T00:00", "2026-01-06T00:00"),
        ("2025-12", "2025-12-01T00:00", "2026-01-01T00:00"),
        ("20260102", "2026-01-02T00:00", "2026-01-03T00:00"),
        ("2026-01-02T08:00", "2026-01-02T08:00", "2026-01-02T08:00"),
    ],
)
def test_a_time_in_words_is_a_moment_where_the_reader_is(words, since, until):
    zone = ZoneInfo("Asia/Tokyo")
    found = [parse_moment(words, NOW, zone, is_end=is_end) for is_end in (False, True)]
    assert found == [datetime.fromisoformat(each).replace(tzinfo=zone) for each in (since, until)]


@pytest.mark.parametrize("words", ["", "lately", "99999y", "2026-13", "2026-02-30", "-1d", "7 parsecs"])
def test_what_is_no_time_is_refused(words):
    done = run("--since", words, __file__)
    assert (done.exit_code, "is not a time. Use a date" in " ".join(done.stderr.split())) == (2, True)


def test_sessions_are_named_by_title_id_and_date_and_the_most_expensive_comes_first(two_days):
    done = CliRunner(env=PEOPLE_SEE | {"COLUMNS": "60", "TZ": "UTC"}).invoke(main, ["audit", str(two_days)])
    lines = done.stdout.splitlines()
    at = lines.index("By session")
    ids = [short_id(str(two_days / name)) for name in ("two.jsonl", "one.jsonl")]
    assert lines[at + 1 : at + 4] == [
        "session         id        began             calls  dollars",
        f"Write a page.   {ids[0]}  2026-01-19 10:00      1  $0.1250",
        f"Fix the login.  {ids[1]}  2026-01-05 10:00      2  $0.0681",
    ]
    assert max(map(len, lines)) <= 60


def test_csv_is_one_table_with_plain_numbers_and_no_formula(two_days):
    evil = SmallSession().human("=HYPERLINK(1)").reply("c1", text("Done."), written=1_000)
    (two_days / "evil.jsonl").write_bytes(evil.to_bytes())
    assert run(two_days, "--csv", "--by", "month").stdout.splitlines() == [
        "month,calls,input,cache_read,cache_write_5m,cache_write_1h,output,dollars,unpriced_calls",
        "2026-01,4,0,10000,31100,0,0,0.199375,0",
    ]
    rows = list(csv.DictReader(io.StringIO(run(two_days, "--csv").stdout)))
    assert [row["title"] for row in rows] == ["Write a page.", "Fix the login.", "'=HYPERLINK(1)"]


def test_breaks_are_sorted_by_dollars_and_the_difference_is_one_command_away(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dear = SmallSession().human("Go.").reply("a1", text("Went."), written=50_000).human("On.")
    dear.reply("a2", text("Gone."), written=50_100)
    cheap = SmallSession("claude-sonnet-4-5-20250929").human("Go.").reply("b1", text("Went."), written=60_000)
    cheap.human("On.").reply("b2", text("Gone."), written=60_100)
    (tmp_path / "dear.jsonl").write_bytes(dear.to_bytes())
    (tmp_path / "cheap.jsonl").write_bytes(cheap.to_bytes())
    lines = run(tmp_path).stdout.splitlines()
    at = lines.index("The breaks")
    ids = [short_id(str(tmp_path / f"{name}.jsonl")) for name in ("dear", "cheap")]
    assert [line.split()[0] for line in lines[at + 2 : at + 4]] == ids
    assert lines[at + 4] == f"What changed: everturn audit {ids[0]} --break 2"
    assert run(ids[0], "--break", "2").stdout.splitlines() == [
        "The cache broke at call 2: nothing was read: not even the system prompt and tools were in the "
        "cache.",
        "The first block of both requests is the same.",
        "Call 2 only added 2 blocks. So the messages did not break the cache: time, model, tools or system",
        "prompt did.",
    ]
    dear.human("Once more.").reply("a3", text("Gone again."), read=50_100, written=100)
    (tmp_path / "dear.jsonl").write_bytes(dear.to_bytes())
    assert run(ids[0], "--break", "3").stdout.splitlines() == [
        "The cache did not break here.",
        "The first 3 blocks of both requests are the same.",
        "Call 3 only added 2 blocks.",
    ]
    for wrong in ("x", "zz:2"):
        assert run(ids[0], "--break", wrong).exit_code in (1, 2)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("0", "This conversation has 2 calls; there is no call 0."),
        ("1", "Call 1 is the first of this conversation: there is none before it to compare with."),
        ("7", "This conversation has 2 calls; there is no call 7."),
    ],
)
def test_a_call_that_cannot_be_compared_is_named_as_it_was_given(tmp_path, call, why):
    two = SmallSession().human("Go.").reply("a1", text("Went."), written=50_000).human("On.")
    two.reply("a2", text("Gone."), written=50_100)
    (tmp_path / "two.jsonl").write_bytes(two.to_bytes())
    done = run(tmp_path / "two.jsonl", "--break", call)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"Error: {why}\n")


def test_a_change_is_one_line_in_a_watched_pipe(tmp_path):
    def now() -> Audit:
        return audit(read_sessions([tmp_path]))

    session = SmallSession().human("Fix \x1b[31mit.").reply("a1", text("Done."), written=10_000)
    path = tmp_path / "one.jsonl"
    path.write_bytes(session.to_bytes())
    before, at, screen = now(), datetime(2026, 1, 5, 12, 0, 1), Screen(100)
    assert render_changes(None, before, at, screen) == ["12:00:01  1 session, 1 call, $0.0625"]
    assert render_changes(before, before, at, screen) == []
    session.human("More.").reply("a2", text("Done."), read=10_000, written=100)
    path.write_bytes(session.to_bytes())
    after, id = now(), short_id(str(path))
    assert render_changes(before, after, at, screen) == [
        f"12:00:01  {id}  Fix ?[31mit.  +1 call, +$0.0056; all 2 calls, $0.0681"
    ]
    path.unlink()
    assert render_changes(after, now(), at, screen) == [f"12:00:01  {id}  is gone; all 0 calls, $0.00"]


def test_only_what_changed_is_read_again_while_watching(two_days, monkeypatch):
    read: list[str] = []
    reading_files = audit_watch.read_sessions
    monkeypatch.setattr(
        audit_watch, "read_sessions", lambda paths: read.extend(p.name for p in paths) or reading_files(paths)
    )
    kept = audit_watch.WatchedSessions(two_days / "own")

    def update() -> tuple[bool, list[str]]:
        read.clear()
        return kept.update(files_below([two_days])), sorted(read)

    assert update() == (True, ["one.jsonl", "two.jsonl"])
    assert update() == (False, [])
    with (two_days / "two.jsonl").open("ab") as file:
        file.write(SmallSession().human("Half a line.").to_bytes()[:-20])
    assert update() == (True, ["two.jsonl"])
    (two_days / "one.jsonl").unlink()
    assert update() == (True, [])


def test_the_first_reading_of_a_watch_tells_how_far_it_is(two_days, monkeypatch):
    told: list[tuple[int, int, str]] = []

    @contextmanager
    def progress(what: str):
        assert what == "Reading sessions"
        yield lambda done, of, about: told.append((done, of, Path(about).name))

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_watch, "progress", progress)
    monkeypatch.setattr(audit_watch, "sleep", stop)
    watched = CliRunner().invoke(main, ["audit", str(two_days), "--watch"])
    assert (watched.exit_code, len(watched.stdout.splitlines())) == (0, 1)
    assert sorted(told) == [(0, 2, told[0][2]), (1, 2, told[1][2])]
    assert {name for _, _, name in told} == {"one.jsonl", "two.jsonl"}


def test_a_long_reason_leaves_room_for_the_name_of_the_file(folder):
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    lines = run(folder).stdout.splitlines()
    (named,) = [line for line in lines if "loop.jsonl" in line]
    assert named.rstrip("…").split("  ")[-1].startswith("it is a symbolic link; remove it")


def test_negative_counts_are_taken_as_0(tmp_path):
    session = SmallSession().human("Hello").reply("m1", text("Hi."), written=1_000, plain=-5, out=-70)
    (tmp_path / "one.jsonl").write_bytes(session.to_bytes())
    total = audited(tmp_path)["total"]
    assert (total["tokens"], total["dollars"]) == ({"cache_write_5m": 1_000}, pytest.approx(0.00625))


def test_practice_with_the_twin_is_left_out_of_the_totals_and_that_is_said(folder):
    before = audited(folder)
    session = SmallSession().human("Hello").reply("p1", text("Hi."), written=50_000, out=10)
    session.human("Again").reply("p2", text("Hi."), written=50_000, out=10)
    # Half an hour later: a cache break, if it were billed.
    session.lines[-1]["timestamp"] = "2026-01-05T10:40:00Z"
    lines = [line | {"requestId": f"req_practice_{at}"} for at, line in enumerate(session.lines)]
    (folder / "practice.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    after = audited(folder)
    assert {name: after[name] for name in ("total", "by", "breaks")} == {
        name: before[name] for name in ("total", "by", "breaks")
    }
    assert [row["practice"] for row in after["sessions"]] == [0, 2]
    said = " ".join(run(folder).output.split())
    assert "2 calls were practice with the twin: nothing was billed, and no total includes them." in said


def test_the_last_day_that_a_date_can_have_may_end_a_period(folder):
    assert audited(folder, "--until", "9999-12-31")["total"] == audited(folder)["total"]


def test_sessions_of_codex_and_gemini_are_found_and_a_sum_without_prices_is_not_zero_dollars(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    usage = {"input": 900, "output": 5, "cached": 100, "thoughts": 0, "tool": 0, "total": 905}
    said = [
        {"id": "a", "timestamp": "2026-01-10T02:08:26Z", "type": "user", "content": "Hello"},
        {
            "id": "b", "timestamp": "2026-01-10T02:08:35Z", "type": "gemini", "content": "Hi.",
            "tokens": usage, "model": "a-model-without-price",
        },
    ]  # fmt: skip
    found = {"sessionId": "s", "projectHash": "h", "startTime": said[0]["timestamp"], "messages": said}
    chats = tmp_path / ".gemini" / "tmp" / "h" / "chats"
    codex = tmp_path / ".codex" / "sessions" / "2026"
    for folder in (chats, codex):
        folder.mkdir(parents=True)
    (chats / "session-1.json").write_text(json.dumps(found))
    (chats.parent / "logs.json").write_text("[]")
    (codex / "rollout-1.jsonl").write_bytes(reading().to_bytes())
    report = audited()
    assert sorted(Path(row["path"]).name for row in report["sessions"]) == [
        "rollout-1.jsonl",
        "session-1.json",
    ]
    assert report["unreadable"] == []
    shutil.rmtree(codex)
    assert run().output.splitlines()[0] == "1 session, 1 call, no price is known"


def test_the_summary_of_a_fork_counts_though_its_calls_are_known_and_that_of_a_copy_does_not(folder):
    """A fork has the calls of the session it came from, until its first reply."""
    session = (folder / "one.jsonl").read_bytes()
    for name, dollars in (("one", "0.10"), ("two-a-copy", "0.10"), ("three-a-fork", "0.25")):
        (folder / f"{name}.jsonl").write_bytes(session)
        state = {"asides": {"compact": {"calls": 1, "dollars": dollars}}}
        (folder / f"{name}.jsonl.state.json").write_text(json.dumps(state))
    report = audited(folder)
    assert (report["total"]["calls"], report["asides"]["compact"]["dollars"]) == (4, 0.35)
