import os
import sqlite3
import stat
from pathlib import Path

import builders as b
import pytest
from faults.talks import Talk

from everturn.errors import InputError
from everturn.session.recall.database import SCHEMA
from everturn.session.recall.index import MATCH, RecallIndex
from everturn.session.recall.passages import MAX_PASSAGE_CHARACTERS
from everturn.session.recall.query import parse_query
from everturn.session.store import JsonlStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    session = tmp_path / "session.jsonl"
    write(
        session,
        b.user("Why does the parser fail on größer?", uuid="u1"),
        b.assistant(b.call("c1", "Bash", command="pytest tests/test_parser.py"), uuid="a1"),
        b.result("c1", "E   AssertionError: parse_line() returned None", uuid="r1"),
        b.assistant(b.think("A missing return."), "The parser misses a return.", uuid="a2"),
    )
    return session


def write(path: Path, *records) -> None:
    with JsonlStore.open(path) as store:
        store.append(records)


def place_of(path: Path) -> Path:
    return path.with_name(path.name + ".index.sqlite")


def found(index: RecallIndex, query: str) -> list[str]:
    matches, _ = index.find(parse_query(query), 10)
    return [match.passage.uuid for match in matches]


def opened(path: Path, **more) -> RecallIndex:
    return RecallIndex(path, **more)


def check_it_answers(index: RecallIndex) -> None:
    assert found(index, "parser fail") == ["u1"]
    assert found(index, "assertionerror") == ["r1"]


def test_words_are_found_whatever_their_case_ending_or_accent(path):
    index = opened(path)
    assert found(index, "FAILS") == ["u1"]
    assert found(index, "grosser") == []
    assert found(index, "großer") == ["u1"]
    assert found(index, "parse_line") == ["r1"]
    assert found(index, "test_parser.py") == ["a1"]
    index.close()


def test_a_result_is_known_by_the_tool_of_its_call_also_when_that_came_earlier(path):
    index = opened(path)
    index.close()
    write(path, b.result("c1", "second answer", uuid="r2"))
    index = opened(path)
    (match,), _ = index.find(parse_query("second answer"), 1)
    assert (match.passage.tool, match.passage.source) == ("Bash", "result")
    index.close()


def test_the_file_is_its_owner_s_alone_and_leaves_nothing_beside_it(path):
    opened(path).close()
    assert stat.S_IMODE(place_of(path).stat().st_mode) == 0o600
    assert sorted(os.listdir(path.parent)) == [path.name, place_of(path).name]


def test_catching_up_reads_only_what_is_new(path):
    index = opened(path)
    assert index.catch_up() == 0
    write(path, b.user("Now the lexer.", uuid="u2"))
    assert index.catch_up() == 1
    assert found(index, "lexer") == ["u2"]
    index.close()
    index = opened(path)
    assert (index.notes, found(index, "lexer")) == ([], ["u2"])
    index.close()


def test_a_torn_tail_waits_until_it_is_whole_and_a_whole_one_does_not(path):
    line = b.line({"type": "user", "uuid": "u9", "message": {"content": "tokenizer"}})
    path.write_bytes(path.read_bytes() + line[:40])
    index = opened(path)
    assert found(index, "tokenizer") == []
    path.write_bytes(path.read_bytes() + line[40:])
    assert (index.catch_up(), found(index, "tokenizer")) == (1, ["u9"])
    index.close()


def test_a_damaged_index_is_built_anew_with_a_note(path):
    opened(path).close()
    whole = place_of(path).read_bytes()
    for at in range(0, len(whole), 1_024):
        broken = bytearray(whole)
        broken[at : at + 512] = b"\xa5" * 512
        place_of(path).write_bytes(broken)
        index = opened(path)
        check_it_answers(index)
        index.close()
    place_of(path).write_bytes(b"this is no database, and never was")
    index = opened(path)
    assert index.notes[0].startswith("the index was rebuilt: it is damaged (file is not a database)")
    check_it_answers(index)
    index.close()


def test_an_index_that_breaks_while_it_is_open_is_built_anew(path):
    index = opened(path)
    index._db.execute("DROP TABLE words")
    index._db.execute("DROP TABLE passages")
    index._db.commit()
    check_it_answers(index)
    assert "the index was rebuilt" in index.notes[0]
    index.close()


def test_an_index_of_another_version_is_built_anew(path):
    opened(path).close()
    with sqlite3.connect(place_of(path)) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    db.close()
    index = opened(path)
    assert index.notes == ["the index was rebuilt: it has schema version 2, and this everturn uses 1"]
    check_it_answers(index)
    index.close()


@pytest.mark.parametrize("change", ["shorter", "replaced"])
def test_an_index_of_another_transcript_is_built_anew(path, change):
    opened(path).close()
    if change == "shorter":
        path.write_bytes(path.read_bytes()[: path.read_bytes().index(b"\n") + 1])
    else:
        path.write_bytes(path.read_bytes().replace(b"parser fail", b"parser fall"))
    index = opened(path)
    assert index.notes == ["the index was rebuilt: it was built from a different transcript"]
    assert found(index, "fall") == (["u1"] if change == "replaced" else [])
    index.close()


def test_a_second_process_builds_its_own_in_memory(path):
    first = opened(path)
    second = opened(path)
    assert second.notes == ["the index is kept in memory only: database is locked"]
    check_it_answers(second)
    check_it_answers(first)
    first.close()
    second.close()


def test_where_nothing_can_be_written_it_is_kept_in_memory(path):
    index = opened(path, place=str(path.parent / "gone" / "index"))
    assert index.notes[0].startswith("the index is kept in memory only: ")
    check_it_answers(index)
    index.close()


def test_a_library_without_fts5_finds_the_same_by_letters(path):
    index = opened(path, words="none")
    assert index.notes == ["this SQLite has no FTS5: passages are searched one by one"]
    check_it_answers(index)
    index.close()


def test_a_transcript_that_is_not_there_is_an_error_of_the_caller(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        RecallIndex(tmp_path / "gone.jsonl", place=":memory:")


def test_a_long_text_is_found_by_the_passage_that_has_the_words(tmp_path):
    path = tmp_path / "long.jsonl"
    text = "\n".join(f"line {n} of the log" for n in range(5_000)).replace("line 4321", "needle 4321")
    write(path, b.user(text, uuid="u1"), b.user("x" * 5_000 + " needlework", uuid="u2"))
    index = RecallIndex(path)
    (match, *rest), _ = index.find(parse_query("needle"), 10)
    assert ([m.passage.uuid for m in rest], match.passage.uuid) == ([], "u1")
    assert "needle 4321" in match.passage.text
    assert len(match.passage.text) <= MAX_PASSAGE_CHARACTERS
    for uuid, whole in (("u1", text), ("u2", "x" * 5_000 + " needlework")):
        assert "".join(piece.text for piece in index.passages_of(uuid)) == whole
    index.close()


def test_bookkeeping_and_what_was_only_displayed_are_not_found(tmp_path):
    path = tmp_path / "s.jsonl"
    write(path, b.progress(), b.system(), b.user("hidden", isVirtual=True), *Talk(1).pin())
    index = RecallIndex(path)
    assert index._db.execute("SELECT count(*) FROM passages").fetchone() == (0,)
    assert found(index, "hidden") == []
    index.close()


def test_what_recall_answered_is_not_found_again(tmp_path):
    path = tmp_path / "s.jsonl"
    asked = b.assistant(b.call("c1", "recall", query="needle"), uuid="a1")
    write(path, b.user("needle", uuid="u1"), asked, b.result("c1", "1. user: needle", uuid="r1"))
    index = RecallIndex(path)
    assert found(index, "needle") == ["u1"]
    index.close()


def test_fits_are_ranked_as_the_search_engine_ranks_them_and_equal_ones_by_age(tmp_path):
    path = tmp_path / "many.jsonl"
    said = [f"parser {'fails ' * (at % 5)}{'and more ' * (at % 3)}" for at in range(60)]
    write(path, *(b.user(words, uuid=f"u{at}") for at, words in enumerate(said)))
    index = opened(path)
    ranked = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"
    for asked in ("parser", "fails", "parser OR more"):
        assert (
            index._db.execute(MATCH, (asked, 40)).fetchall()
            == index._db.execute(ranked, (asked, 40)).fetchall()
        )
    index.close()
