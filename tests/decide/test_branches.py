"""The branches that rewinds have left behind."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import builders as b
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everturn.decide.branches import Branch, find_end_of_branch, list_branches
from everturn.decide.rewind import continued_by, is_message, text_of_record
from everturn.history.records import Record


def test_each_branch_is_named_by_its_last_reply_and_what_was_said_last_on_it():
    one = [
        b.user("Try this.", uuid="u1", parent="kept"),
        b.assistant(b.call("c1"), id="m1", uuid="a1", parent="u1"),
        b.result("c1", "one", uuid="r1", parent="a1"),
        b.assistant("Done.", id="m2", uuid="a2", parent="r1"),
    ]
    two = [
        b.user("Or that.", uuid="u2", parent="kept"),
        b.assistant("Yes.", id="m3", uuid="a3", parent="u2"),
        b.user([b.say("No."), b.say("Stop.")], uuid="u3", parent="a3"),
    ]
    assert list_branches([*one, *two]) == (
        Branch("a2", "Try this.", 4),
        Branch("u3", "No.\n\nStop.", 3),
    )


def test_branches_that_part_later_share_their_beginning():
    records = [
        b.user("Begin.", uuid="u1", parent="kept"),
        b.assistant("One.", id="m1", uuid="a1", parent="u1"),
        b.assistant("Two.", id="m2", uuid="a2", parent="u1"),
    ]
    assert list_branches(records) == (Branch("a1", "Begin.", 2), Branch("a2", "Begin.", 2))


def test_a_branch_that_ends_with_results_is_named_by_the_call():
    records = [
        b.assistant(b.call("c1"), id="m1", uuid="a1", parent="kept"),
        b.result("c1", "one", uuid="r1", parent="a1"),
    ]
    assert list_branches(records) == (Branch("a1", "", 2),)


def test_only_messages_make_a_branch():
    """Notices and summaries are not messages, but the messages before them are on the branch."""
    records = [
        b.user("Begin.", uuid="u1", parent="kept"),
        b.system(uuid="s1", parent="u1"),
        b.assistant("One.", id="m1", uuid="a1", parent="s1"),
        b.system(uuid="s2", parent="a1"),
        b.summary("In short.", uuid="sum", parent="s2"),
        b.result("c9", "an answer alone", uuid="r9", parent="elsewhere"),
    ]
    assert list_branches(records) == (Branch("a1", "Begin.", 2),)


def test_records_that_name_each_other_as_parent_are_followed_once():
    one = b.user("Begin.", uuid="u1", parent="a1")
    two = b.assistant("One.", id="m1", uuid="a1", parent="u1")
    three = b.user("Again.", uuid="u2", parent="a1")
    assert list_branches([one, two]) == (Branch("a1", "Begin.", 2),)
    assert list_branches([one, two, three]) == (Branch("u2", "Again.", 3),)


KINDS = {
    "question": lambda uuid: b.user(f"Words of {uuid}.", uuid=uuid),
    "reply": lambda uuid: b.assistant(b.call("c1"), b.call("c2"), id="m1", uuid=uuid),
    "other reply": lambda uuid: b.assistant("Done.", id="m2", uuid=uuid),
    "result": lambda uuid: b.result("c1", "one", uuid=uuid),
    "other result": lambda uuid: b.result("c2", "two", uuid=uuid),
    "notice": lambda uuid: b.system(uuid=uuid),
}
# What a record continues: that many before it, also itself, or the one that comes next.
BACK = st.sampled_from([1, 1, 1, 1, 2, 2, 3, 5, 8, 0, -1])


@st.composite
def trees(draw: st.DrawFn) -> list[Record]:
    """Few names, so that many are the same; and circles."""
    made = draw(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), BACK), min_size=4, max_size=12))
    records: list[Record] = []
    for at, (kind, back) in enumerate(made):
        parent = f"u{at - back}" if at >= back else "kept"
        records.append(msgspec.structs.replace(KINDS[kind](f"u{at}"), parent=parent))
    return records


def named_one_by_one(records: Sequence[Record]) -> tuple[Branch, ...]:
    """As `list_branches`, with all the messages of each branch in a list of its own."""
    known = {record.uuid: record for record in records}
    ways = {record.uuid: way_back(known, record) for record in records if is_message(record)}
    behind = {each.uuid for way in ways.values() for each in way[1:]}
    behind |= {uuid for uuid in ways if continues_itself(known, uuid)}
    found = [way for uuid, way in ways.items() if uuid not in behind]
    for uuid, way in reversed(ways.items()):
        if not any(each.uuid == uuid for other in found for each in other):
            found.append(way)
    listed = list(found)
    for way in found:
        if any(belongs_to(known, way[0], other) for other in listed if other is not way):
            listed = [other for other in listed if other is not way]
    named = [(find_end_of_branch(way[::-1]), said_last(way), len(way)) for way in listed]
    return tuple(Branch(*each) for each in named if each[0])


def way_back(known: dict[str, Record], tip: Record) -> list[Record]:
    way: dict[str, Record] = {}
    at = tip.uuid
    while at in known and at not in way:
        way[at] = known[at]
        at = continued_by(way[at])
    return [each for each in way.values() if is_message(each)]


def continues_itself(known: dict[str, Record], uuid: str) -> bool:
    seen: set[str] = set()
    at = continued_by(known[uuid])
    while at in known and at not in seen:
        seen.add(at)
        at = continued_by(known[at])
    return uuid in seen


def belongs_to(known: dict[str, Record], tip: Record, way: Sequence[Record]) -> bool:
    """Whether it is a piece of a reply on the way, or a result of its calls that the way has not."""
    parent = known.get(tip.parent)
    names = {*(each.uuid for each in way), way[-1].parent}
    replies = {each.message_id for each in way} - {""}
    if tip.kind == "assistant":
        is_piece = parent is not None and parent.message_id == tip.message_id
        return tip.message_id in replies and (is_piece or tip.parent in names)
    answered = {block.call for each in way for block in each.blocks if block.is_result}
    answers = {block.call for block in tip.blocks if block.is_result} - answered
    return parent is not None and bool(answers) and (parent.uuid in names or parent.message_id in replies)


def said_last(way: Sequence[Record]) -> str:
    said = (each for each in way if each.kind == "user" and not any(part.is_result for part in each.blocks))
    return next(map(text_of_record, said), "")


@pytest.mark.spec("CP-36")
@settings(max_examples=8 * settings.default.max_examples)
@given(trees())
def test_branches_are_those_that_are_found_one_by_one(records):
    assert list_branches(records) == named_one_by_one(records)


def python_calls(run: Callable[[], Any]) -> int:
    """How many functions are called: a measure of work that no busy machine disturbs."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def left_behind(trunk: int, branches: int) -> list[Record]:
    """A long beginning, and branches that part at its end."""
    found = [b.user("Begin.", uuid="u0", parent="kept")]
    for turn in range(trunk):
        found.append(b.assistant("One.", id=f"m{turn}", uuid=f"a{turn}", parent=f"u{turn}"))
        found.append(b.user("Go on.", uuid=f"u{turn + 1}", parent=f"a{turn}"))
    for at in range(branches):
        found.append(b.assistant("Done.", id=f"n{at}", uuid=f"left{at}", parent=f"u{trunk}"))
    return found


@pytest.mark.spec("CP-36")
def test_listing_many_branches_with_a_long_beginning_takes_work_for_each_record_once():
    few, many = left_behind(100, 100), left_behind(400, 400)
    assert list_branches(many)[-1] == Branch("left399", "Go on.", 802)
    assert python_calls(lambda: list_branches(many)) < 4.5 * python_calls(lambda: list_branches(few))
