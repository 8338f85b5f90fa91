"""The rates that the page of refetches shows."""

from pathlib import Path

import pytest
from small_session import SmallSession, call, text

from everturn.replay.refetches import index_session
from everturn.replay.refetches.accuracy import (
    KEPT,
    RefetchCounts,
    false_refetches,
    main,
    refetches_when_cleared,
    report,
)
from everturn.replay.sessions import read_session

OLD = "total = price * count"


@pytest.fixture
def forgetful(tmp_path: Path) -> Path:
    """A file is read, others follow, and it is edited; at the end the recording itself forgets it."""
    session = SmallSession().human("Fix the price.")
    session.reply("m0", call("c0", "Read", file_path="src/shop.py"), written=9_000).result("c0", f"1\t{OLD}")
    for at in range(1, KEPT + 1):
        session.reply(f"m{at}", call(f"c{at}", "Bash", command=f"step {at}"), read=9_000)
        session.result(f"c{at}", f"done {at}")
    session.reply("m8", call("c8", "Edit", file_path="src/shop.py", old_string=OLD), read=9_000)
    session.result("c8", "edited").boundary(9_500).summary("We fixed it.")
    session.reply("m9", text(f"It was\n```\n{OLD}\n```"), written=3_000)
    path = tmp_path / "session.jsonl"
    path.write_bytes(session.to_bytes())
    return path


def test_clearing_counts_what_the_edit_missed(forgetful):
    session = read_session(forgetful)
    refetches = refetches_when_cleared(session.threads[0], index_session(session), 0, keep=KEPT)
    assert [(refetch.what, refetch.kind) for refetch in refetches] == [(OLD, "line")]
    assert refetches_when_cleared(session.threads[0], index_session(session), 0, keep=KEPT + 1) == []


def test_what_the_recording_did_without_is_a_false_refetch(forgetful):
    session = read_session(forgetful)
    after, refetches = false_refetches(session.threads[0], index_session(session), 0)
    assert (after, [refetch.what for refetch in refetches]) == (1, [OLD])


def test_the_report_has_a_row_for_each_rate(forgetful):
    tally = RefetchCounts()
    tally.add(read_session(forgetful))
    assert report(tally).splitlines() == [
        "|  | line | path | identifier | all |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| uses per call | 0.25 | 0.12 | 0.00 | 0.38 |",
        "| refetches per 100 calls, newest 5 results kept | 12.50 | 0.00 | 0.00 | 12.50 |",
        "| false refetches per 100 calls | 100.00 | 0.00 | 0.00 | 100.00 |",
        "",
        "1 sessions, 8 calls, 1 of them with something hidden; a missing block has 6 tokens on average.",
    ]


def test_the_command_prints_the_report_or_says_that_there_is_nothing(forgetful, tmp_path, capsys):
    assert main([str(forgetful)]) == 0
    assert capsys.readouterr().out.startswith("|  | line | path |")
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 1
    assert capsys.readouterr().out.startswith("No recorded calls found")
