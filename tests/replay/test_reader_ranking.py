"""The comparison of the score with a reader; the sessions that were read may not be there."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from small_session import compacted

from everturn.replay.retention_table import FOLDER, rows

BENCH = Path(__file__).parents[2] / "bench" / "reader_ranking.py"


@pytest.fixture(scope="module")
def ranking():
    spec = spec_from_file_location("reader_ranking", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_the_sessions_it_says_so_and_is_content(ranking, tmp_path, capsys):
    assert ranking.main([str(tmp_path / "nowhere")]) == 0
    assert capsys.readouterr().out.endswith("so there is nothing to compare.\n")


def test_a_pair_agrees_if_both_prefer_the_same_text_or_neither(ranking, tmp_path, monkeypatch):
    (tmp_path / "one.jsonl").write_bytes(compacted().to_bytes())
    (row,) = rows(tmp_path)
    verdict = ranking.Verdict("ours > model = window", "made up")
    assert [(pair.first, pair.second, pair.reader) for pair in ranking.compare(row, verdict)] == [
        ("model", "ours", "ours"),
        ("model", "window", ""),
        ("ours", "window", "ours"),
    ]
    monkeypatch.setitem(ranking.VERDICTS, ("one", 1), verdict)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{ranking.START}\nold\n{ranking.END}\nafter\n", encoding="utf-8")
    assert ranking.main([str(tmp_path), "--into", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{ranking.START}\nAgreement on all pairs: ")
    assert text.endswith(f"| made up |\n{ranking.END}\nafter\n")


@pytest.mark.spec("BY-6")
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the recorded sessions are not here")
def test_the_score_agrees_with_the_reader_as_often_as_the_page_says(ranking):
    found = [row for row in rows(FOLDER) if (row.session, row.number) in ranking.VERDICTS]
    assert len(found) == len(ranking.VERDICTS) == 22
    page = (Path(__file__).parents[2] / "docs" / "retention.md").read_text(encoding="utf-8")
    assert ranking.render(found) in page
