"""The table over recorded compactions, made from sessions by hand; the real ones may not be there."""

import pytest
from small_session import compacted

from everturn.replay import retention_table as t


@pytest.mark.spec("BY-6")
def test_every_compaction_has_four_rows_and_the_table_ends_with_means(tmp_path, capsys):
    (tmp_path / "one.jsonl").write_bytes(compacted().to_bytes())
    assert t.main([str(tmp_path)]) == 0
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()
    ]
    assert cells[0] == [
        "session", "#", "summary", "tokens", "user", "corrections", "decisions", "outcomes", "open",
        "last words", "paths", "names", "errors", "wrong", "score",
    ]  # fmt: skip
    authors = ["model", "ours", "ours, same size", "window"]
    assert [row[:3] for row in cells[2:]] == [
        *([*(("one", "1") if author == "model" else ("", "")), author] for author in authors),
        *(["**mean**" if author == "model" else "", "", author] for author in authors),
    ]
    # "Now test it." is the one sentence of three words; the model's summary does not quote it.
    assert [row[4] for row in cells[2:4]] == ["0/1", "1/1"]


def test_ours_at_the_same_size_is_no_larger_than_the_models(tmp_path):
    (tmp_path / "one.jsonl").write_bytes(compacted().to_bytes())
    (row,) = t.rows(tmp_path)
    assert row.kept["ours, same size"].tokens <= row.kept["model"].tokens


def test_what_was_replaced_is_compared_and_not_what_came_after(tmp_path):
    (tmp_path / "one.jsonl").write_bytes(compacted().to_bytes())
    (row,) = t.rows(tmp_path)
    assert row.kept["ours"].user_instructions.total == 1


def test_without_recorded_sessions_it_says_so_and_is_content(tmp_path, capsys):
    assert t.main([str(tmp_path / "nowhere")]) == 0
    assert t.main([str(tmp_path)]) == 0
    missing, empty = capsys.readouterr().out.splitlines()
    assert missing.startswith("No recorded sessions found in")
    assert empty.endswith("there is nothing to compare.")


def test_the_table_takes_its_place_in_a_page_and_nothing_else_moves(tmp_path):
    (tmp_path / "one.jsonl").write_bytes(compacted().to_bytes())
    page = tmp_path / "page.md"
    page.write_text(f"before\n{t.START}\nold\n{t.END}\nafter\n", encoding="utf-8")
    assert t.main([str(tmp_path), "--into", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{t.START}\n| session")
    assert text.endswith(f"|\n{t.END}\nafter\n")
    assert "old" not in text
