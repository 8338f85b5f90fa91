"""What a reset keeps: exchanges that are expected to cost more to fetch again than to carry (EC-6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.compact.call_index import index_calls
from everturn.decide.compact.exchanges import choose_exchanges, current_exchanges, read_paths
from everturn.decide.compact.values import RestoredExchange
from everturn.decide.economy.keeping import KeepRule, make_keep_rule
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.reuse import (
    DEFAULT_REUSE,
    KINDS,
    ReuseCount,
    ReuseRow,
    ReuseTable,
    ToolExchange,
    fit_reuse,
)
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.effects import FileRead
from everturn.history.blocks import block_from_fields, result_block
from everturn.history.records import Record, ReplyMeta
from everturn.measure.tokens import ROUGH
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE
from everturn.view.fragments.restored import exchange_text

OPUS = RelativePrices(read=0.1, write_5m=1.25, write_1h=2.0, output=5.0, dollars=5e-6)


def rule(caution="careful", keep_tokens=12_000, price=0.1):
    prices = RelativePrices(price, 1.25, 2.0, 5.0, 5e-6)
    settings = EconomySettings(enabled=True, caution=caution, keep_tokens=keep_tokens)
    return make_keep_rule(DEFAULT_REUSE, 55_000, prices, settings)


def exchange(number, tool, given, answer):
    call = block_from_fields({"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given})
    return [
        Record(kind="assistant", uuid=f"a{number}", blocks=(call,)),
        Record(kind="user", uuid=f"u{number}", blocks=(result_block(f"toolu_{number}", answer),)),
    ]


def choose(records, keep: KeepRule, hidden=()):
    found = choose_exchanges(index_calls(records), keep, ROUGH.text, dict.fromkeys(hidden))
    return [(each.tool, each.path, each.age) for each in found]


def test_a_table_is_counted_by_kind_size_and_age():
    seen = [
        (ToolExchange("reads", 100, 0), True),
        (ToolExchange("reads", 299, 4), False),
        (ToolExchange("reads", 300, 20), False),
        (ToolExchange("edits", 5_000, 5), True),
    ]
    none = ReuseCount()
    assert fit_reuse(seen) == ReuseTable(
        (
            ReuseRow("reads", 0, (ReuseCount(2, 1), none, none)),
            ReuseRow("reads", 1, (none, none, ReuseCount(1, 0))),
            ReuseRow("edits", 3, (none, ReuseCount(1, 1), none)),
        )
    )


def test_a_small_new_edit_is_worth_more_per_token_than_a_large_read_and_an_old_search_is_worth_nothing():
    keep = rule("balanced")
    edit, read, search = (
        keep.gain(ToolExchange("edits", 500, 2)),
        keep.gain(ToolExchange("reads", 7_000, 2)),
        keep.gain(ToolExchange("searches", 2_000, 40)),
    )
    assert edit > read > search
    assert edit > 0 > search


@pytest.mark.spec("EC-6")
def test_of_two_reads_of_a_file_only_the_newer_can_be_kept_and_never_one_that_was_changed_since():
    lines = "total = total + 1\n" * 40
    records = [
        *exchange(1, "Read", {"file_path": "/a.py"}, lines),
        *exchange(2, "Read", {"file_path": "/b.py"}, lines),
        *exchange(3, "Read", {"file_path": "/a.py"}, lines),
        *exchange(4, "Edit", {"file_path": "/b.py", "old_string": "x", "new_string": lines}, "done"),
    ]
    assert choose(records, rule()) == [("Read", "/a.py", 1), ("Edit", "/b.py", 0)]


def test_what_is_no_longer_in_view_or_failed_is_not_kept():
    gone = exchange(1, "Edit", {"file_path": "/a.py", "new_string": "a = 1"}, "done")
    failed = exchange(2, "Edit", {"file_path": "/b.py", "new_string": "b = 1"}, "no such text")
    raw = {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no such text", "is_error": True}
    failed[1] = Record(kind="user", uuid="u2", blocks=(block_from_fields(raw),))
    shown = exchange(3, "Edit", {"file_path": "/c.py", "new_string": "c = 1"}, "done")
    records = [*gone, *failed, *shown]
    assert choose(records, rule(), hidden=["toolu_1"]) == [("Edit", "/c.py", 0)]


@given(
    kinds=st.lists(st.tuples(st.sampled_from(["Read", "Edit", "Grep", "Bash"]), st.integers(0, 9_000))),
    budget=st.integers(0, 20_000),
    price=st.sampled_from([0.025, 0.05, 0.1]),
)
def test_what_is_kept_never_exceeds_its_budget(kinds, budget, price):
    records = [
        record
        for number, (tool, size) in enumerate(kinds)
        for record in exchange(number, tool, {"file_path": f"/{number}"}, "word " * size)
    ]
    keep = rule("careful", budget, price)
    found = choose_exchanges(index_calls(records), keep, ROUGH.text, {})
    assert sum(ROUGH.text(each.text) for each in found) <= budget


@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(0, 10**4))
def test_a_chance_is_between_nothing_and_certainty(kind, tokens, age):
    assert 0.0 <= DEFAULT_REUSE.chance(ToolExchange(kind, tokens, age)) <= 1.0


def read_of(answer: str, tool: str = "Read", path: str = "a.py") -> RestoredExchange:
    return RestoredExchange(tool, path, 3, exchange_text(tool, {"file_path": path}, answer))


@pytest.mark.parametrize(
    ("answer", "now", "stays"),
    [
        ("x = 1\ny = 2\n", FileRead("a.py", "x = 1\ny = 2\n"), True),
        ("x = 1\ny = 2\n", FileRead("a.py", "x = 1\ny = 3\n"), False),
        # A part of a longer file, as Claude Code numbers it, with a remark behind it.
        ("    41→x = 1\n    42→y = a < b\nA remark.", FileRead("a.py", "z\nx = 1\ny = a < b\n"), True),
        ("    41→x = 1\n    42→y = 2\n", FileRead("a.py", "x = 1\n"), False),
        # Nobody knows what the file is like now.
        ("x = 1\n", FileRead("a.py", problem="it does not exist"), True),
        ("x = 1\n", FileRead("a.py", "y = 2\n", is_cut=True), True),
        ("x = 1\n", FileRead("b.py", "y = 2\n"), True),
    ],
)  # fmt: skip
@pytest.mark.spec("EC-6")
def test_a_read_is_not_kept_if_its_file_no_longer_has_its_lines(answer, now, stays):
    read = read_of(answer)
    # An edit shows no state of its file.
    edit = read_of("The file was changed.", tool="Edit")
    kept = current_exchanges((edit, read), (now,), DEFAULT_TOOL_TABLE)
    assert kept == ((edit, read) if stays else (edit,))


def test_only_files_that_kept_calls_have_read_are_looked_at_each_once():
    kept = (read_of("x"), read_of("y"), read_of("z", tool="Bash"), read_of("w", path=""))
    assert read_paths(kept, DEFAULT_TOOL_TABLE) == ("a.py",)


@pytest.mark.parametrize("kind", ["image", "document", "tool_reference"])
def test_a_result_that_is_more_than_text_is_not_kept(kind):
    plain = exchange(1, "Read", {"file_path": "/a.py"}, "x = 1\n" * 200)
    words = {"type": "text", "text": "x = 1\n" * 200}
    for answer, kept in ([words], [("Read", "/a.py", 0)]), ([words, {"type": kind}], []):
        fields = {"type": "tool_result", "tool_use_id": "toolu_1", "content": answer}
        shown = Record(kind="user", uuid="u1", blocks=(block_from_fields(fields),))
        assert choose([plain[0], shown], rule()) == kept


def kept_before(number: int, **fields: object) -> Record:
    payload = {"type": "restored_exchange", **fields}
    return Record(
        kind="attachment",
        uuid=f"k{number}",
        subtype="restored_exchange",
        blocks=(block_from_fields(payload),),
    )


def test_what_an_earlier_reset_kept_may_be_kept_again_and_has_aged():
    text = exchange_text("Edit", {"file_path": "/a.py", "new_string": "a = 1"}, "done")
    records = [
        kept_before(1, tool="Edit", path="/a.py", age=2, content=["It was made before:", text]),
        kept_before(2, tool="Edit", path="/x.py", age="old", content=["It was made before:", text]),
        kept_before(3, tool="Edit", path="/y.py"),
        *exchange(1, "Edit", {"file_path": "/b.py", "new_string": "b = 1"}, "done"),
        *exchange(2, "Edit", {"file_path": "/c.py", "new_string": "c = 1"}, "done"),
    ]
    found = choose_exchanges(index_calls(records), rule(), ROUGH.text, {})
    assert [(each.path, each.age) for each in found] == [
        ("/a.py", 4),
        ("/x.py", 2),
        ("/b.py", 1),
        ("/c.py", 0),
    ]
    assert found[0] == RestoredExchange("Edit", "/a.py", 4, text)


def test_pieces_of_one_response_age_an_exchange_once():
    first = exchange(1, "Edit", {"file_path": "/a.py", "new_string": "a = 1"}, "done")
    later = [
        Record(kind="assistant", uuid=f"p{at}", reply=ReplyMeta(message_id=name))
        for at, name in enumerate(("m1", "m1", "m2", "", ""))
    ]
    assert choose([*first, *later], rule()) == [("Edit", "/a.py", 4)]
