import json
from pathlib import Path

import builders as b
import pytest
from faults.talks import Talk
from hypothesis import given
from hypothesis import strategies as st

from everturn.errors import UsageError
from everturn.history.blocks import block_from_fields
from everturn.history.edits import Cleared, Undone
from everturn.history.log import Log
from everturn.history.threads import split_threads
from everturn.session.recall.expand import expand_compactions, select_compaction
from everturn.session.recall.index import RecallIndex
from everturn.session.recall.query import MAX_CHARACTERS, MAX_TERMS, Query, parse_query
from everturn.session.recall.search import SNIPPET, Hit, recall, search
from everturn.session.recall.tool import answer_tool
from everturn.session.store import JsonlStore
from everturn.view.fragments import recalled
from everturn.view.fragments.recalled import MAX_CHARACTERS as MOST_ANSWERED

STAMP = {"timestamp": "2026-01-05T10:00:00Z"}


class Session:
    """A session with one compaction, one cleared result, and a sub-agent's record."""

    def __init__(self, folder: Path) -> None:
        self.records = [
            b.user("The port is 8080, never 80.", uuid="u1", **STAMP),
            b.assistant(b.call("c1", "Bash", command="make serve"), uuid="a1", parent="u1", id="m1"),
            b.result("c1", "listening on port 8080", uuid="r1", parent="a1"),
            b.boundary("b1", logical="r1"),
            b.summary("We serve on a port.", uuid="s1", parent="b1"),
            b.assistant(b.call("c2", "Read", file_path="port.py"), uuid="a2", parent="s1", id="m2"),
            b.result("c2", "PORT = 8080", uuid="r2", parent="a2"),
            b.edited(Cleared(("c2",), "old"), "e1", parent="r2"),
            b.user("Go on with the port.", uuid="u2", parent="e1"),
            b.user("Which port?", uuid="x1", isSidechain=True, agentId="side"),
        ]
        self.path = folder / "session.jsonl"
        with JsonlStore.open(self.path) as store:
            store.append(self.records)
        self.log = Log(split_threads(self.records).main.records)
        self.index = RecallIndex(self.path, place=":memory:")

    def recall(self, query: str, limit: int = 10) -> tuple[Hit, ...]:
        return recall(query, limit, index=self.index, log=self.log)

    def answer(self, **given: object) -> str:
        call = block_from_fields({"type": "tool_use", "id": "t", "name": "recall", "input": given})
        return answer_tool(call, index=self.index, log=self.log)


@pytest.fixture(scope="module")
def session(tmp_path_factory) -> Session:
    return Session(tmp_path_factory.mktemp("recall"))


@pytest.mark.spec("BY-4")
def test_each_hit_says_whether_the_model_still_sees_it(session):
    assert {(hit.record, hit.state) for hit in session.recall("port")} == {
        ("u1", "summarized"),
        ("r1", "summarized"),
        ("s1", "visible"),
        ("a2", "visible"),
        ("r2", "cleared"),
        ("u2", "visible"),
        ("x1", "aside"),
    }


@pytest.mark.spec("BY-4")
def test_the_words_from_before_a_compaction_come_back_exactly(session):
    (hit,) = session.recall('"never 80"')
    score = hit.score
    assert hit == Hit(
        record="u1",
        source="user",
        tool="",
        at="2026-01-05T10:00:00Z",
        agent="",
        state="summarized",
        snippet="The port is 8080, «never 80».",
        score=score,
    )
    assert score > 0


def test_of_two_that_fit_equally_the_newer_one_comes_first(tmp_path):
    with JsonlStore.open(tmp_path / "s.jsonl") as store:
        store.append([b.user("needle in hay", uuid=f"u{n}") for n in range(9)])
    index = RecallIndex(tmp_path / "s.jsonl", place=":memory:")
    hits = recall("needle", 3, index=index, log=Log())
    assert [hit.record for hit in hits] == ["u8", "u7", "u6"]


def test_where_not_all_words_occur_some_will_do_and_that_is_said(session):
    found = search("listening xylophone", index=session.index, log=session.log)
    assert [hit.record for hit in found.hits] == ["r1"]
    assert found.remark == "no passage has all of these words; these have some of them"


@pytest.mark.parametrize(
    ("query", "record"), [("istenin", "r1"), ("= 80", "r2"), ("PORT =", "r2"), ("?", "x1")]
)
def test_what_is_no_word_is_found_by_its_letters(session, query, record):
    assert [hit.record for hit in session.recall(f'"{query}"')] == [record]


def test_scripts_without_blanks_are_searched_by_letters(tmp_path):
    with JsonlStore.open(tmp_path / "s.jsonl") as store:
        store.append(
            [b.user("修复解析器的错误", uuid="u1"), b.user("100% of a_b", uuid="u2"), b.user("100 a.b")]
        )
    index = RecallIndex(tmp_path / "s.jsonl", place=":memory:")
    assert [hit.record for hit in recall("解析器", index=index, log=Log())] == ["u1"]
    assert [hit.record for hit in recall("%", index=index, log=Log())] == ["u2"]


@pytest.mark.parametrize("query", ["", "  ", '""', "\0", '" "'])
def test_a_query_without_words_is_refused_in_words(session, query):
    with pytest.raises(UsageError, match="query is empty"):
        session.recall(query)


def test_quotes_join_words_and_operators_are_words():
    assert parse_query('a "b c" AND d* NEAR( "') == Query(("a", "b c", "AND", "d*", "NEAR("))
    assert parse_query('a "b =" c') == Query(("a", "b =", "c"), is_literal=True)
    assert len(parse_query(" ".join(map(str, range(100)))).terms) == MAX_TERMS
    with pytest.raises(UsageError, match="at most"):
        parse_query("x" * (MAX_CHARACTERS + 1))


@given(st.text(max_size=60) | st.text('"*():^-+{}.,\\%_ ANDORNT\0', max_size=40))
def test_no_query_breaks_the_search(session, query):
    try:
        hits = session.recall(query)
    except UsageError:
        return
    assert len(hits) <= 10
    assert all(hit.snippet for hit in hits)
    assert not any("damaged" in note for note in session.index.notes)


def test_a_snippet_shows_the_place_with_the_most_matches(tmp_path):
    words = "hay " * 100 + "a needle here, a needle there " + "hay " * 100 + "needle"
    with JsonlStore.open(tmp_path / "s.jsonl") as store:
        store.append([b.user(words, uuid="u1")])
    (hit,) = recall("needles", index=RecallIndex(tmp_path / "s.jsonl", place=":memory:"), log=Log())
    assert "a «needle» here, a «needle» there" in hit.snippet
    assert (hit.snippet[0], hit.snippet[-1]) == ("…", "…")
    assert len(hit.snippet) <= SNIPPET + len("…«»«»…")


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("channel", "«channels» change, one «channel» is changing"),
        ("changes", "channels «change», one channel is «changing»"),
        ("one", "channels change, «one» channel is changing"),
    ],
)
def test_words_of_one_stem_are_marked_and_words_that_only_begin_alike_are_not(tmp_path, query, marked):
    with JsonlStore.open(tmp_path / "s.jsonl") as store:
        store.append([b.user("channels change, one channel is changing", uuid="u1")])
    (hit,) = recall(query, index=RecallIndex(tmp_path / "s.jsonl", place=":memory:"), log=Log())
    assert hit.snippet == marked


@pytest.mark.spec("BY-4")
def test_the_tool_searches_and_opens_what_it_found(session):
    assert session.answer(query="listening") == (
        "1. result of Bash, summarized, record r1\n«listening» on port 8080"
    )
    assert session.answer(record="r1") == "[Record r1]\nlistening on port 8080"
    assert session.answer(query="xylophone").startswith("Nothing in this session has xylophone.")
    assert session.answer(query="listening zzz").startswith("[no passage has all of these words")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "The query is empty"),
        ({"query": 7}, "Invalid input for the recall tool"),
        ({"record": "nope"}, "No record nope with text found"),
        ({"record": "u"}, "2 records have ids that begin with u; give a longer prefix: u1, u2."),
        ({"query": "port", "limit": -3}, "1. "),
    ],
)
def test_a_tool_call_is_answered_in_words_whatever_it_asks(session, given, says):
    assert says in session.answer(**given)


def test_an_answer_is_bounded_and_a_long_record_comes_in_pages(tmp_path):
    text = " ".join(f"word{n}" for n in range(9_000))
    with JsonlStore.open(tmp_path / "s.jsonl") as store:
        store.append([b.user(text, uuid="long"), *(b.user(f"word1 {n} " + "y " * 700) for n in range(50))])
    index = RecallIndex(tmp_path / "s.jsonl", place=":memory:")

    def answer(**given: object) -> str:
        call = block_from_fields({"type": "tool_use", "id": "t", "name": "recall", "input": given})
        return answer_tool(call, index=index, log=Log())

    assert len(answer(query="word1", limit=1_000)) <= MOST_ANSWERED
    pages, at = "", 0
    while True:
        page = answer(record="long", **{"from": at})
        body, _, tail = page.removeprefix("[Record long]\n").partition("\n[Characters ")
        pages += body
        if not tail:
            break
        at = int(tail.rpartition(" ")[2].rstrip(".]"))
    assert pages == text


def test_the_tool_definition_is_what_the_api_takes():
    assert set(recalled.TOOL) == {"name", "description", "input_schema"}
    assert json.loads(json.dumps(recalled.TOOL)) == recalled.TOOL


@pytest.mark.spec("BY-4")
def test_a_summary_unfolds_into_what_it_replaced(session):
    (fold,) = expand_compactions(session.log.records)
    assert (fold.number, fold.boundary.uuid, fold.is_undone) == (1, "b1", False)
    assert [record.uuid for record in fold.replaced] == ["u1", "a1", "r1"]
    assert fold.summary is not None
    assert fold.summary.uuid == "s1"


@pytest.mark.spec("BY-4")
def test_of_several_compactions_each_unfolds_into_the_view_before_it():
    made = Talk(4)
    expected = []
    for _ in range(4):
        made.say()
        made.work()
        before = made.log.view.records
        made.compact()
        now = {record.uuid for record in made.log.view.records}
        expected.append([record.uuid for record in before if record.uuid not in now])
    found = expand_compactions(made.log.records)
    assert [[record.uuid for record in fold.replaced] for fold in found] == expected


def test_an_undone_compaction_and_a_half_one_are_told_apart():
    half, undo = b.boundary("b2"), b.edited(Undone("b1"), "e1")
    records = [b.user("hi"), b.boundary("b1"), b.summary(uuid="s1", parent="b1"), undo, half, b.user("on")]
    first, second = expand_compactions(records)
    assert (first.is_undone, [record.uuid for record in first.replaced]) == (True, ["hi"])
    assert (second.summary, second.replaced) == (None, ())


def test_a_boundary_is_chosen_by_number_or_by_the_beginning_of_its_uuid(session):
    every = expand_compactions([b.user("hi"), b.boundary("ab1"), b.boundary("ab2")])
    assert (
        select_compaction(every, "2").boundary.uuid == select_compaction(every, "ab2").boundary.uuid == "ab2"
    )
    for name, says in (
        ("ab", "2 compactions have ids that begin"),
        ("9", "this session has 1 to 2"),
        ("zz", "No compaction 'zz' found"),
    ):
        with pytest.raises(Exception, match=says):
            select_compaction(every, name)
    with pytest.raises(Exception, match="never compacted"):
        select_compaction((), "1")
