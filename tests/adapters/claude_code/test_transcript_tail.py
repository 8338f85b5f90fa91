"""The last reply of a transcript, from its end."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.adapters.claude_code.transcript_tail import (
    LIFETIME_SECONDS,
    MAX_TAIL_BYTES,
    parse_timestamp,
    read_last_reply,
    read_last_uuid,
)
from everturn.history.records import record_time, reported_usage
from everturn.history.threads import split_threads
from everturn.measure.prefix_cache import SECONDS
from everturn.wire.claude_code_reader import parse_session_file

DATA = Path(__file__).parents[4] / "shared" / "data" / "claude-code"


def reply(read=0, written=0, fresh=0, at="2026-01-05T10:00:00.500Z", split=None, **fields):
    usage = {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": split,
    }
    message = {"model": "claude-opus-5-5", "usage": usage} | fields.pop("message", {})
    return {"type": "assistant", "uuid": "u1", "timestamp": at, "message": message} | fields


def written(path: Path, *lines: object) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def told(path: str):
    found = read_last_reply(path)
    return found and (found.read, found.written, found.fresh, found.context, found.lifetime, found.when)


HOUR = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 7}
BOTH = {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 7}
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()


def test_the_last_reply_is_told(tmp_path):
    path = written(
        tmp_path / "s.jsonl",
        reply(read=1, written=7, split=HOUR),
        {"type": "user", "message": {"content": "words"}},
        reply(read=8, written=3, fresh=2, at="2026-01-05T12:00:00Z", split=BOTH),
        {"type": "user", "message": {"content": '"usage"'}},
    )
    assert told(path) == (8, 3, 2, 13, 300, NOON)


def test_a_reply_that_wrote_nothing_lives_as_long_as_the_one_before(tmp_path):
    path = written(
        tmp_path / "s.jsonl", reply(written=7, split=HOUR), reply(read=7, at="2026-01-05T12:00:00Z")
    )
    assert told(path) == (7, 0, 0, 7, 3_600, NOON)


def test_where_no_reply_says_a_lifetime_the_shortest_is_taken(tmp_path):
    assert told(written(tmp_path / "s.jsonl", reply(read=7, at="2026-01-05T12:00:00Z"))) == (
        7,
        0,
        0,
        7,
        300,
        NOON,
    )


@pytest.mark.parametrize(
    "aside",
    [
        {"isSidechain": True},
        {"isApiErrorMessage": True},
        {"message": {"model": "<synthetic>"}},
        {"type": "user"},
        {"message": {"usage": None}},
    ],
)
def test_what_is_no_reply_of_the_main_conversation_is_passed_over(tmp_path, aside):
    path = written(tmp_path / "s.jsonl", reply(read=5, at="2026-01-05T12:00:00Z"), reply(read=9, **aside))
    assert told(path) == (5, 0, 0, 5, 300, NOON)


def test_a_line_that_is_still_written_is_passed_over(tmp_path):
    path = written(tmp_path / "s.jsonl", reply(read=5, at="2026-01-05T12:00:00Z"))
    with open(path, "a") as file:
        file.write(json.dumps(reply(read=9))[:-20])
    assert told(path) == (5, 0, 0, 5, 300, NOON)


def test_only_the_end_of_a_long_transcript_is_read(tmp_path):
    long = {"type": "user", "message": {"content": "x" * MAX_TAIL_BYTES}}
    path = written(tmp_path / "s.jsonl", reply(read=5), long)
    assert read_last_reply(path) is None
    written(tmp_path / "s.jsonl", long, reply(read=5, at="2026-01-05T12:00:00Z"))
    assert told(path) == (5, 0, 0, 5, 300, NOON)


@pytest.mark.parametrize("path", ["", "/nowhere/s.jsonl", "/", "a\0b"])
def test_a_transcript_that_cannot_be_read_is_none(path):
    assert (read_last_reply(path), read_last_uuid(path)) == (None, "")


def test_the_last_name_is_found(tmp_path):
    path = written(tmp_path / "s.jsonl", {"uuid": "u1"}, {"uuid": "u2"}, {"type": "queue"}, {"uuid": 3})
    assert read_last_uuid(path) == "u2"


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2400, 1, 1)))
def test_a_time_is_read_as_datetime_reads_it(moment):
    moment = moment.replace(tzinfo=UTC)
    stamp = moment.isoformat().replace("+00:00", "Z")
    assert parse_timestamp(stamp) == pytest.approx(moment.timestamp(), abs=1e-3)


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("2026-01-05T13:00:00+01:00", NOON),
        ("", None),
        ("Z", None),
        ("yesterday", None),
        ("2026-13-05T12:00:00Z", None),
        ("2026-01-05T12:00Z", None),
    ],
)
def test_other_times_are_read_or_none(stamp, seconds):
    assert parse_timestamp(stamp) == seconds


def test_the_lifetimes_are_those_that_everything_else_counts_with():
    assert sorted(LIFETIME_SECONDS.values()) == sorted(SECONDS.values())


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the recorded sessions do not lie beside this checkout (../shared/data)"
)
def test_recorded_sessions_end_as_the_audit_reads_them():
    compared = 0
    for path in sorted(DATA.rglob("*.jsonl")):
        records = split_threads(parse_session_file(path.read_bytes()).records).main.records
        # The audit counts a response by the last record of it that reports usage.
        last = next((record for record in reversed(records) if reported_usage(record)), None)
        found = read_last_reply(str(path))
        if last is None or found is None or last.agent:
            continue
        usage, moment = reported_usage(last), record_time(last)
        assert usage is not None
        expected = usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens
        assert (found.read, found.written, found.fresh) == expected, path.name
        assert found.when == (moment and moment.timestamp()), path.name
        compared += 1
    assert compared > 40
