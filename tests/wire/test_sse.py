"""Events come out the same, wherever the bytes are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.wire.sse import ServerEvent, SseReader


def read_in(pieces):
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)]


SPELLED = (
    b'\xef\xbb\xbf: hello\r\nevent: one\r\ndata: {"a":\r\ndata:  1}\r\n\r\n'
    b"id: 7\rdata\rdata:x:y\r\r\n\nevent: lost\n\n"
)
EVENTS = [ServerEvent("one", b'{"a":\n 1}'), ServerEvent("", b"\nx:y")]


def test_every_line_end_and_every_cut_gives_the_same_events():
    for at in range(len(SPELLED) + 1):
        assert read_in([SPELLED[:at], SPELLED[at:]]) == EVENTS
    assert read_in(bytes([each]) for each in SPELLED) == EVENTS


def test_an_event_is_there_with_the_byte_that_ends_it():
    reader = SseReader()
    assert reader.feed(b"event: a\ndata: 1\n") == []
    assert reader.feed(b"\n") == [ServerEvent("a", b"1")]
    assert reader.feed(b"data: 2\r\r") == [ServerEvent("", b"2")]
    assert reader.feed(b"\ndata: 3\n\n") == [ServerEvent("", b"3")]


def test_a_line_end_that_comes_in_two_pieces_is_one_and_the_next_is_another():
    reader = SseReader()
    pieces = [b"data: 1\r", b"\n", b"\n", b"data: 2\n", b"\n"]
    assert [reader.feed(piece) for piece in pieces] == [
        [],
        [],
        [ServerEvent("", b"1")],
        [],
        [ServerEvent("", b"2")],
    ]


def test_a_name_that_is_not_text_is_kept_as_far_as_it_can_be_read():
    assert read_in([b"event: a\xff\ndata: 1\n\n"]) == [ServerEvent("a\ufffd", b"1")]


lines = st.lists(
    st.tuples(st.sampled_from(["a", "message_stop", ""]), st.text("xyz:{} é", max_size=9)), max_size=5
)


@given(lines, st.sampled_from(["\n", "\r", "\r\n"]), st.data())
def test_what_was_written_is_read_in_any_pieces(events, end, data):
    wanted = [ServerEvent(name, text.encode()) for name, text in events]
    written = b"".join(f"event: {name}{end}data: {text}{end}{end}".encode() for name, text in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=6)))
    edges = [0, *cuts, len(written)]
    pieces = [written[start:stop] for start, stop in itertools.pairwise(edges)]
    assert read_in(pieces) == wanted


@pytest.mark.parametrize("rest", [b"data: 1", b"data: 1\n", b"event: x\ndata"])
def test_what_has_not_ended_is_no_event(rest):
    assert read_in([rest]) == []


def test_a_line_break_before_the_first_event_ends_nothing_and_a_mark_behind_it_is_no_mark():
    assert read_in([b"\ndata: 1\n\n"]) == [ServerEvent("", b"1")]
    assert read_in([b"\n\xef\xbb\xbfdata: 1\n\n"]) == []


def test_an_event_forgets_its_name_and_data_when_it_ends():
    written = b"event: a\ndata: 1\n\ndata: 2\n\nevent: b\n\ndata: 3\n\n"
    assert read_in([written]) == [ServerEvent("a", b"1"), ServerEvent("", b"2"), ServerEvent("", b"3")]
