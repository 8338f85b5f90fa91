"""Where a conversation may be cut, against a model that looks at every pair of records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import broken_logs, sound_logs

from everturn.history.records import Record
from everturn.history.rounds import find_cut_points, split_rounds

any_log = st.one_of(broken_logs(), sound_logs())


def ties(records: list[Record]) -> set[tuple[str, str]]:
    messages = {("message", record.message_id) for record in records}
    calls = {("call", block.call) for record in records for block in record.blocks}
    return (messages | calls) - {("message", ""), ("call", "")}


@pytest.mark.spec("TR-7")
@given(any_log)
def test_a_cut_point_separates_nothing_and_every_other_position_separates_something(records: list[Record]):
    free = [at for at in range(len(records) + 1) if not ties(records[:at]) & ties(records[at:])]
    assert list(find_cut_points(records)) == free


@given(any_log)
def test_every_record_is_in_exactly_one_round(records: list[Record]):
    covered = [at for each in split_rounds(records) for at in range(each.start, each.stop)]
    assert covered == list(range(len(records)))
    for each in split_rounds(records)[1:]:
        assert records[each.start].kind == "assistant"
        pieces = {record.message_id for record in records[each.start : each.stop] if record.reply}
        assert pieces == {each.message_id}
