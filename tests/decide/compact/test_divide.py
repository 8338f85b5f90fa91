"""Where a view is divided (CP-12)."""

import builders as b
import pytest
from decide.compact.bench import manual, turns
from hypothesis import given
from hypothesis import strategies as st
from random_logs import sound_logs

from everturn.decide.compact.divide import Division, divide_view, first_words, messages_in
from everturn.decide.compact.values import CompactionSkipped
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.rounds import pair_tool_calls


def names(records: tuple[Record, ...]) -> list[str]:
    return [record.uuid for record in records]


def split(form: str, at: str, records: list[Record] | None = None) -> tuple[list[str], list[str], str]:
    found = divide_view(Log(records or turns(2)).view, manual(form=form, at=at))
    assert isinstance(found, Division), found
    return names(found.summarized), names(found.kept), found.moved


@pytest.mark.spec("CP-12")
def test_both_forms_divide_in_front_of_the_record():
    old, new = ["u1", "a1", "r1", "b1"], ["u2", "a2", "r2", "b2"]
    assert split("up_to", "u2") == (old, new, "")
    assert split("from", "u2") == (new, old, "")


@pytest.mark.spec("CP-12")
def test_a_cut_inside_a_round_moves_to_where_more_is_kept():
    moved = "record r2 lies inside a round, so the cut is before "
    assert split("up_to", "r2") == (
        ["u1", "a1", "r1", "b1", "u2"],
        ["a2", "r2", "b2"],
        moved + "a2",
    )
    assert split("from", "r2") == (["b2"], ["u1", "a1", "r1", "b1", "u2", "a2", "r2"], moved + "b2")


def test_the_boundary_before_is_on_neither_side_of_what_is_kept():
    records = [b.boundary("b0"), b.summary(uuid="s0", parent="b0"), *turns(2)]
    assert split("from", "u2", records)[1] == ["s0", "u1", "a1", "r1", "b1"]


@pytest.mark.parametrize(("form", "at"), [("up_to", "u1"), ("from", "b2-next")])
def test_a_part_without_messages_is_refused(form: str, at: str):
    records = [*turns(2), b.system(uuid="b2-next")]
    assert divide_view(Log(records).view, manual(form=form, at=at)) == CompactionSkipped(
        "There is nothing to compact: the part that would be summarized has no messages yet."
    )


@pytest.mark.spec("CP-12")
@given(sound_logs(), st.data())
def test_no_cut_separates_a_call_from_its_result_or_the_pieces_of_a_message(
    records: list[Record], data: st.DataObject
):
    at = data.draw(st.sampled_from(records)).uuid
    form = data.draw(st.sampled_from(["from", "up_to"]))
    found = divide_view(Log(records).view, manual(form=form, at=at))
    if isinstance(found, CompactionSkipped):
        return
    for side in (found.summarized, found.kept):
        assert pair_tool_calls(side).orphans == ()
        assert pair_tool_calls(side).unanswered == ()
    pieces = [{record.message_id for record in side} - {""} for side in (found.summarized, found.kept)]
    assert pieces[0] & pieces[1] == set()


def test_the_place_of_a_cut_is_told_by_its_first_words():
    assert first_words([b.attachment("x"), b.user("fix\n the   parser now")], 12) == "fix the pars"


def test_pieces_of_one_response_are_one_message():
    assert messages_in([b.assistant("a", id="m"), b.assistant("b", id="m"), b.user("c"), b.system()]) == 2


def test_a_stretch_begins_with_the_first_words_that_anyone_said():
    records = [
        b.attachment("x"),
        b.user(" ", uuid="u0"),
        b.user("Mend\n  the parser.", uuid="u1"),
        b.user("no", uuid="u2"),
    ]
    assert first_words(records) == "Mend the parser."
    assert first_words(records, 4) == "Mend"
    assert first_words(records[:2]) == ""
