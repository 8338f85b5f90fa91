"""Bytes pass untouched and at once; the body is there when all of it has passed."""

import gc
import gzip
import json
import weakref

import httpx2
import pytest

from everturn.adapters.anthropic_sdk.response_tap import Endings, tap, tap_async

STREAM = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[]}}\n\n'
STOP = b'data: {"type":"message_stop"}\n\n'
SSE = {"content-type": "text/event-stream; charset=utf-8"}
PLAIN = {"content-type": "application/json"}


class Pieces(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, *pieces):
        self.pieces = pieces

    def __iter__(self):
        yield from self.pieces

    async def __aiter__(self):
        for piece in self.pieces:
            yield piece


def refuse(body):
    raise AssertionError(body)


def lose():
    raise AssertionError("lost")


READ = Endings(refuse, lose)


def response(headers, *pieces):
    return httpx2.Response(200, headers=headers, stream=Pieces(*pieces))


def test_a_stream_is_complete_at_its_stop_and_told_before_the_caller_sees_that():
    heard, passed = [], []
    made = response(SSE, STREAM, STOP, b": bye\n\n")
    tap(made, heard.append, READ)
    for piece in made.iter_bytes():
        passed.append((piece, len(heard)))
    assert passed == [(STREAM, 0), (STOP, 1), (b": bye\n\n", 1)]
    assert heard == [b'{"id":"m","content":[]}']


CUT_INPUT = {"type": "input_json_delta", "partial_json": '{"a'}
USED = b"".join(
    b"data: " + json.dumps(event).encode() + b"\n\n"
    for event in (
        {"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 9}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": CUT_INPUT},
    )
)


@pytest.mark.parametrize(
    ("headers", "known"),
    [(SSE, [b'{"model":"m","content":[],"usage":{"input_tokens":9}}']), (PLAIN, ["lost"])],
    ids=["streamed", "plain"],
)
async def test_what_is_abandoned_is_never_complete_and_its_usage_is_told_once(headers, known):
    heard, abandoned = [], []
    endings = Endings(abandoned.append, lambda: abandoned.append("lost"))

    async def hear(body):
        heard.append(body)

    made = response(headers, USED, STOP)
    tap(made, heard.append, endings)
    pieces = made.iter_bytes()
    assert next(pieces) == USED
    pieces.close()
    assert (heard, abandoned) == ([], known)
    made = response(headers, USED, STOP)
    tap_async(made, hear, endings)
    pieces = made.aiter_bytes()
    assert await anext(pieces) == USED
    await pieces.aclose()
    assert (heard, abandoned) == ([], known + known)


def test_a_stream_that_never_began_is_lost():
    lost = []
    made = response(SSE, b": ping\n\n")
    tap(made, refuse, Endings(refuse, lambda: lost.append(made)))
    assert list(made.iter_bytes()) == [b": ping\n\n"]
    assert lost == [made]


@pytest.mark.parametrize("read", ["iter_bytes", "iter_raw", ""], ids=["bytes", "raw", "nothing"])
@pytest.mark.parametrize("headers", [SSE, PLAIN], ids=["streamed", "plain"])
async def test_whoever_closes_a_response_ends_its_reply_at_once_and_once(headers, read):
    told = []
    endings = Endings(lambda known: told.append("abandoned"), lambda: told.append("lost"))

    async def never(body):
        refuse(body)

    made, other = response(headers, USED, STOP), response(headers, USED, STOP)
    tap(made, refuse, endings)
    tap_async(other, never, endings)
    # Kept, so that nothing else ends them.
    pieces = [getattr(made, read)(), getattr(other, f"a{read}")()] if read else []
    if read:
        assert (next(pieces[0]), await anext(pieces[1])) == (USED, USED)
    for _ in range(2):
        made.close()
        await other.aclose()
    assert told == (["abandoned"] * 2 if headers is SSE and read else ["lost"] * 2)
    del pieces
    gc.collect()
    assert len(told) == 2


@pytest.mark.parametrize("read", [lambda made: made.read(), lambda made: b"".join(made.iter_bytes(3)),
                                  lambda made: "".join(made.iter_text()).encode()])  # fmt: skip
def test_a_plain_body_is_complete_at_its_end_however_it_is_read(read):
    heard = []
    made = response(PLAIN, b'{"a"', b":1}")
    tap(made, heard.append, READ)
    assert read(made) == b'{"a":1}'
    assert heard == [b'{"a":1}']


def test_a_body_that_was_packed_is_heard_unpacked():
    heard = []
    made = response({**SSE, "content-encoding": "gzip"}, gzip.compress(STREAM + STOP))
    tap(made, heard.append, READ)
    assert made.read() == STREAM + STOP
    assert heard == [b'{"id":"m","content":[]}']


def test_a_response_that_is_dropped_is_gone_at_once():
    made = response(SSE, STREAM)
    tap(made, print, print)
    itself = weakref.ref(made)
    gc.disable()
    try:
        del made
        assert itself() is None
    finally:
        gc.enable()


async def test_with_awaits_it_is_the_same():
    heard = []

    async def complete(body):
        heard.append(body)

    made = response(SSE, STREAM, STOP)
    tap_async(made, complete, READ)
    assert [(piece, len(heard)) async for piece in made.aiter_bytes()] == [(STREAM, 0), (STOP, 1)]
    plain = response(PLAIN, b"{", b"}")
    tap_async(plain, complete, READ)
    assert await plain.aread() == b"{}"
    assert heard == [b'{"id":"m","content":[]}', b"{}"]


@pytest.mark.parametrize(
    ("headers", "pieces", "body"),
    [
        (SSE, (STREAM, STOP), b'{"id":"m","content":[]}'),
        (PLAIN, (b'{"a"', b":1}"), b'{"a":1}'),
        ({**SSE, "content-encoding": "gzip"}, (gzip.compress(STREAM + STOP),), b'{"id":"m","content":[]}'),
        ({**PLAIN, "content-encoding": "gzip"}, (gzip.compress(b'{"a":1}'),), b'{"a":1}'),
    ],
    ids=["streamed", "plain", "streamed and compressed", "plain and compressed"],
)
async def test_raw_bytes_pass_as_they_were_sent_and_are_read_too(headers, pieces, body):
    heard = []
    made = response(headers, *pieces)
    tap(made, heard.append, READ)
    assert (tuple(made.iter_raw()), heard) == (pieces, [body])

    async def hear(each):
        heard.append(each)

    made = response(headers, *pieces)
    tap_async(made, hear, READ)
    assert (tuple([each async for each in made.aiter_raw()]), heard) == (pieces, [body, body])
