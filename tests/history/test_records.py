"""Records are immutable facts; time and usage are read from them with care."""

from datetime import UTC, datetime, timedelta

import builders as b
import pytest

from everturn.history.records import CacheCreation, Record, Usage, record_time, reported_usage


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
