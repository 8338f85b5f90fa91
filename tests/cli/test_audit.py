"""`everturn audit`, called as people call it."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_session import SmallSession, call, compacted, reading, text

from everturn.cli import main

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
        "day": ["2026-01-05"],
        "project": ["/home/me/parser"],
        "model": ["claude-opus-4-5-20251101"],
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
    assert [line.split()[0] for line in both[at + 1 : at + 4]] == ["session", "a-name-…uld-bear", "b"]


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


def test_a_session_without_usage_is_audited_for_what_it_holds(tmp_path):
    talk = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    (tmp_path / "talk.json").write_text(json.dumps(talk))
    done = run(tmp_path)
    assert done.exit_code == 0
    assert "No call in these files reports its usage" in done.stdout
    assert "What filled the context (estimated)" in done.stdout
