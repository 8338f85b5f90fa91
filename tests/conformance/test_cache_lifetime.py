"""How long entries live, what refreshes them, and how two lifetimes share one request."""

import http.client
import json
from urllib.parse import urlsplit

import pytest
from conformance.api import FIVE, HOUR, MODEL, Api, long, text, tool, user

pytestmark = pytest.mark.spec("TW-2")
FIVE_MINUTES, AN_HOUR = 300, 3600


def split(api: Api, *messages: object, **fields: object) -> tuple[int, int, int, int]:
    """Read, written for an hour, written for five minutes, plain."""
    usage = api.usage(*messages, **fields)
    parts = usage["cache_creation"]
    return (
        usage["cache_read_input_tokens"],
        parts["ephemeral_1h_input_tokens"],
        parts["ephemeral_5m_input_tokens"],
        usage["input_tokens"],
    )


@pytest.mark.parametrize(
    ("marker", "later", "alive"),
    [
        (FIVE, FIVE_MINUTES - 1, True),
        (FIVE, FIVE_MINUTES, True),
        (FIVE, FIVE_MINUTES + 1, False),
        ({"type": "ephemeral", "ttl": "5m"}, FIVE_MINUTES, True),
        ({"type": "ephemeral", "ttl": "5m"}, FIVE_MINUTES + 1, False),
        (HOUR, FIVE_MINUTES + 1, True),
        (HOUR, AN_HOUR, True),
        (HOUR, AN_HOUR + 1, False),
    ],
)
def test_an_entry_is_alive_at_exactly_its_ttl_and_dead_after(api: Api, marker, later: int, alive: bool):
    request = [user(long("a", marker=marker))]
    api.usage(*request)
    api.advance(later)
    assert (api.usage(*request)["cache_read_input_tokens"] > 0) is alive


@pytest.mark.parametrize(("marker", "ttl"), [(FIVE, FIVE_MINUTES), (HOUR, AN_HOUR)])
def test_a_read_refreshes_for_the_same_time_again(api: Api, marker, ttl: int):
    request = [user(long("a", marker=marker))]
    written = api.usage(*request)["cache_creation_input_tokens"]
    for _ in range(4):
        api.advance(ttl - 10)
        assert api.usage(*request)["cache_read_input_tokens"] == written
    api.advance(ttl + 1)
    assert api.usage(*request)["cache_read_input_tokens"] == 0


def test_only_the_entry_that_was_hit_is_refreshed(api: Api):
    both = [user(long("a", marker=FIVE), long("b", marker=FIVE))]
    api.usage(*both)
    api.advance(200)
    longest = api.usage(*both)["cache_read_input_tokens"]
    api.advance(200)
    only_first = [user(long("a", marker=FIVE))]
    assert api.usage(*both)["cache_read_input_tokens"] == longest
    assert api.ledger()[-1]["cache"]["written"], "the entry below the hit had died and is written again"
    assert api.usage(*only_first)["cache_read_input_tokens"] > 0


def test_an_entry_below_a_hit_is_written_again_free(api: Api):
    both = [user(long("a", marker=FIVE), long("b", marker=FIVE))]
    api.usage(user(long("a"), long("b", marker=FIVE)))
    read, hour, five, _ = split(api, *both)
    assert (read > 0, hour, five) == (True, 0, 0)
    assert split(api, user(long("a", marker=FIVE), "else"))[0] > 0


def test_an_hour_marker_that_hits_a_short_entry_leaves_it_short(api: Api):
    api.usage(user(long("a", marker=FIVE)))
    assert split(api, user(long("a", marker=HOUR)))[1:3] == (0, 0)
    api.advance(FIVE_MINUTES + 1)
    assert split(api, user(long("a", marker=HOUR)))[0] == 0


def test_a_short_marker_reads_an_hour_entry_and_keeps_it_for_an_hour(api: Api):
    api.usage(user(long("a", marker=HOUR)))
    api.advance(3000)
    assert split(api, user(long("a", marker=FIVE)))[0] > 0
    api.advance(3000)
    assert split(api, user(long("a", marker=FIVE)))[0] > 0


def test_the_clock_of_an_entry_starts_with_the_request(api: Api):
    """A reply that takes ten seconds to begin does not lengthen the entry's life."""
    api.fault("slow_first_byte", delay_s=10)
    request = [user(long("a", marker=FIVE))]
    api.usage(*request)
    api.advance(FIVE_MINUTES - 9)
    assert api.usage(*request)["cache_read_input_tokens"] == 0


def test_the_ledger_tells_when_entries_expire(api: Api):
    api.usage(user(long("a", marker=HOUR), long("b", marker=FIVE)))
    written = api.ledger()[-1]["cache"]["written"]
    assert [(e["ttl"], e["expires"]) for e in written] == [
        ("1h", "2026-11-15T01:00:00Z"),
        ("5m", "2026-11-15T00:05:00Z"),
    ]


# Two lifetimes in one request


def mixed(a: str = "a", b: str = "b", c: str = "c") -> list[object]:
    return [user(long(a, marker=HOUR), long(b, marker=FIVE), long(c))]


def test_a_cold_mixed_request_writes_an_hour_part_and_a_short_part(api: Api):
    read, hour, five, plain = split(api, *mixed())
    assert read == 0
    assert abs(hour - five) <= 5
    assert hour + five + plain == api.count(*mixed())
    assert plain > five


def test_reading_the_hour_part_leaves_the_short_part_to_write(api: Api):
    _, hour, five, plain = split(api, *mixed())
    assert split(api, *mixed(b="x")) == (hour, 0, five, plain)


def test_reading_the_short_part_reads_all(api: Api):
    _, hour, five, plain = split(api, *mixed())
    assert split(api, *mixed()) == (hour + five, 0, 0, plain)


def test_after_five_minutes_only_the_hour_part_is_left(api: Api):
    _, hour, five, plain = split(api, *mixed())
    api.advance(FIVE_MINUTES + 1)
    assert split(api, *mixed()) == (hour, 0, five, plain)


def test_a_short_hit_below_an_hour_marker_pays_the_hour_rate_from_the_hit(api: Api):
    """The hit lies at A; the highest hour marker beyond it at B; the last marker at C."""
    small = api.usage(user(long("a", marker=FIVE)))["cache_creation_input_tokens"]
    turns = [user(long("a"), long("b", marker=HOUR), long("c", marker=FIVE), "tail")]
    read, hour, five, plain = split(api, *turns)
    assert read == small
    assert hour > 0
    assert five > 0
    assert read + hour + five + plain == api.count(*turns)


def test_two_hour_markers_are_one_hour_part(api: Api):
    _, hour, five, _ = split(api, user(long("a", marker=HOUR), long("b", marker=HOUR)))
    assert five == 0
    assert split(api, user(long("a"), long("b", marker=HOUR)))[0] == hour


@pytest.mark.parametrize(
    ("fields", "messages", "path"),
    [
        ({}, [user(text("a", FIVE), text("b", HOUR))], "messages.0.content.1"),
        ({"system": [text("s", FIVE)]}, [user(text("b", HOUR))], "messages.0.content.0"),
        ({"system": [text("s", FIVE), text("t", HOUR)]}, [user("b")], "system.1"),
        ({"tools": [tool(cache_control=FIVE)], "system": [text("s", HOUR)]}, [user("b")], "system.0"),
        ({"tools": [tool("x", cache_control=FIVE), tool("y", cache_control=HOUR)]}, [user("b")], "tools.1"),
        (
            {},
            [user(text("a", {"type": "ephemeral", "ttl": "5m"})), user(text("b", HOUR))],
            "messages.1.content.0",
        ),
    ],
)
def test_an_hour_marker_after_a_short_one_is_refused_by_its_path(api: Api, fields, messages, path: str):
    words = api.refused(*messages, **fields)
    assert words.startswith(
        f"{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
        "cache_control block."
    )


# Concurrency


def test_an_entry_is_readable_once_the_writers_stream_begins(api: Api):
    """The second request is sent while the first's stream has been read only to its first event."""
    api.script("many words " * 50)
    parts = urlsplit(api.url)
    writer = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=20)
    body = {"model": MODEL, "max_tokens": 500, "stream": True, "messages": [user(long("a", marker=FIVE))]}
    writer.request("POST", "/v1/messages", json.dumps(body), api.usual)
    stream = writer.getresponse()
    assert b"message_start" in stream.readline()
    assert api.usage(user(long("a", marker=FIVE)))["cache_read_input_tokens"] > 0
    stream.read()
    writer.close()
