"""Records are immutable facts; time and usage are read from them with care."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import builders as b
import msgspec
import pytest

from everturn.history.edits import Cleared, Compacted, Edit, Pinned
from everturn.history.records import (
    CacheCreation,
    Record,
    ReplyMeta,
    Usage,
    fuller_usage,
    is_sent,
    make_edit_record,
    name_responses,
    parse_time,
    record_time,
    reported_usage,
)


@pytest.mark.spec("TR-3")
def test_a_record_cannot_be_changed_nor_can_what_is_in_it():
    record = b.assistant(b.call("c"), usage={"input_tokens": 1})
    for value, name in [
        (record, "uuid"),
        (record.blocks[0], "raw"),
        (record.reply, "model"),
        (record.reply.usage, "input_tokens"),
    ]:
        with pytest.raises(AttributeError):
            setattr(value, name, "changed")
    assert isinstance(record.blocks, tuple)


@pytest.mark.spec("TR-3")
def test_edits_cannot_be_changed():
    with pytest.raises(AttributeError):
        b.boundary().edit.tokens_before = 0


@pytest.mark.parametrize(
    ("timestamp", "moment"),
    [
        ("2026-11-01T10:00:00.250Z", datetime(2026, 11, 1, 10, 0, 0, 250_000, UTC)),
        ("2026-11-01T10:00:00+02:00", datetime(2026, 11, 1, 8, tzinfo=UTC)),
        ("2026-11-01T10:00:00", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("", None),
        ("yesterday", None),
    ],
)
@pytest.mark.spec("TR-1")
def test_the_time_of_a_record_is_in_utc_or_unknown(timestamp: str, moment: datetime | None):
    found = record_time(b.user("x", timestamp=timestamp))
    assert found == moment
    assert found is None or found.utcoffset() == timedelta(0)
    assert UTC is UTC


def test_usage_adds_up():
    usage = Usage(3, 20, 100, 7, CacheCreation(5, 15))
    assert (usage.context, usage.total) == (123, 130)


def test_usage_counts_only_where_the_api_gave_it():
    some = {"input_tokens": 5, "output_tokens": 1}
    assert reported_usage(b.assistant("x", usage=some)) == Usage(5, output_tokens=1)
    assert reported_usage(b.assistant("x", usage=some, model="<synthetic>")) is None
    assert reported_usage(b.assistant("x", usage=some, isApiErrorMessage=True)) is None
    assert reported_usage(b.assistant("x", usage={"output_tokens": 1})) is None
    assert reported_usage(b.assistant("x")) is None
    assert reported_usage(b.user("x")) is None


def test_a_boundary_and_a_message_id_are_known_by_name():
    assert [b.boundary().is_boundary, b.summary().is_boundary] == [True, False]
    assert [b.assistant("x", id="m7").message_id, b.user("x").message_id] == ["m7", ""]
    assert Record(kind="system", uuid="x").is_boundary is False


def test_negative_counts_of_a_usage_are_zero_and_the_others_stay():
    by_lifetime = CacheCreation(1, 2)
    assert Usage(-1, -2, -3, -4, by_lifetime).clamped == Usage(0, 0, 0, 0, by_lifetime)
    for wrong in (Usage(-1, 6, 7, 8), Usage(5, -1, 7, 8), Usage(5, 6, -1, 8), Usage(5, 6, 7, -1)):
        counts = (
            wrong.input_tokens, wrong.cache_creation_input_tokens, wrong.cache_read_input_tokens,
            wrong.output_tokens,
        )  # fmt: skip
        assert wrong.clamped == Usage(*(max(0, each) for each in counts))


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "2026-13-01"])
def test_a_time_that_no_date_can_hold_is_unknown(text: str):
    assert parse_time(text) is None


def said(**fields: Any) -> Record:
    return Record(**{"kind": "assistant", "uuid": "x", **fields})


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"kind": "user"}, True),
        ({"kind": "assistant"}, True),
        ({"kind": "attachment"}, True),
        ({"kind": "system"}, False),
        ({"kind": "progress"}, False),
        ({"kind": "user", "display_only": True}, False),
        ({"kind": "assistant", "display_only": True}, False),
        ({"kind": "attachment", "display_only": True}, False),
        ({"kind": "assistant", "api_error": True}, False),
        ({"kind": "user", "api_error": True}, True),
        ({"kind": "user", "meta": True, "transcript_only": True, "compact_summary": True}, True),
    ],
)
def test_messages_and_attachments_are_sent_unless_they_are_only_shown(fields: dict[str, Any], sent: bool):
    assert is_sent(said(**fields)) is sent


def test_a_usage_of_no_input_is_none_also_if_the_counts_are_negative():
    for usage, expected in (
        (Usage(1), Usage(1)),
        (Usage(0, 0, 1), Usage(0, 0, 1)),
        (Usage(output_tokens=9), None),
        (Usage(-5, 0, 0, 9), None),
        (Usage(-5, 0, 2, 9), Usage(0, 0, 2, 9)),
    ):
        assert reported_usage(said(reply=ReplyMeta(usage=usage))) == expected


def test_of_two_usages_the_one_with_more_output_is_the_fuller_and_else_the_later():
    less, more = Usage(1, output_tokens=4), Usage(2, output_tokens=5)
    same = Usage(3, output_tokens=4)
    assert [fuller_usage(*pair) for pair in ((None, less), (less, more), (more, less), (less, same))] == [
        less,
        more,
        more,
        same,
    ]


def test_the_records_of_one_response_have_one_name():
    def reply(uuid: str, message: str = "", request: str = "", **fields: Any) -> Record:
        return said(uuid=uuid, reply=ReplyMeta(message, request_id=request, **fields))

    records = [
        reply("1", "m1", "r1"),
        said(kind="user", uuid="2"),
        reply("3", "m1"),
        reply("4", "", "r2"),
        reply("5"),
        said(kind="system", uuid="6"),
        said(kind="progress", uuid="7"),
        reply("8"),
        said(uuid="9"),
        said(kind="attachment", uuid="10"),
        reply("11"),
        reply("12", "m2"),
        reply("13"),
        reply("14", model="<synthetic>"),
        reply("15"),
        reply("16", "m3"),
        said(uuid="17", api_error=True),
        reply("18"),
    ]
    assert name_responses(records[4:5]) == ["5"]
    assert name_responses(records) == [
        "m1", "", "m1", "r2", "5", "", "", "5", "5", "", "11", "m2", "13", "", "15", "m3", "", "18",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "subtype"),
    [
        (Cleared(("c",)), "microcompact_boundary"),
        (Compacted(), "compact_boundary"),
        (Pinned("the port"), "everturn_pinned"),
    ],
)
def test_an_edit_is_a_system_record_behind_the_one_it_follows(edit: Edit, subtype: str):
    after = said(uuid="u", session="s", agent="a", sidechain=True)
    at = datetime(2026, 11, 1, 10, 0, 0, 250_900, timezone(timedelta(hours=2)))
    made = Record(kind="system", uuid="e", timestamp="2026-11-01T08:00:00.250Z", subtype=subtype, edit=edit)
    assert make_edit_record(edit, uuid="e", after=None, at=at) == made
    assert make_edit_record(edit, uuid="e", after=after, at=at) == msgspec.structs.replace(
        made, parent="u", session="s", agent="a", sidechain=True
    )
