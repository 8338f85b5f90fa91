"""What the middleware adds to one call of the Anthropic SDK: recognise the list, decide, build, record.

own         the processor time in `handle` of the middleware, with a `call_next` that answers at once: nothing
            of the SDK is in it and nothing is subtracted. Against one decode plus one encode of the body
            (msgspec).
waits       what the clock shows beyond that: on disk, mostly for the device (fsync)
net         a call with the middleware, less the same call without it. Without it, the SDK encodes the body
            with `json`; with it, the SDK gets bytes. `net` is below `own` by that encoding.

Each turn measures all of them one after the other, and medians over the turns are compared: what disturbs the
machine disturbs all. A caller keeps its list, or reads it from a file each time; the transcript is in memory,
or on disk.

`own` is at most 1.5 times one decode plus one encode at 200K and 1M tokens. At 20K tokens that is 0.1 to
0.3 ms, less than Python needs for what is the same at any size: deciding and recording. That time is shown.
On disk, two small files per call come on top.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any, NamedTuple

import anthropic
import httpx2
import msgspec

import everturn

# Tokens, and how many conversations of so many turns are measured.
SIZES = {20_000: (4, 20), 200_000: (2, 15), 1_000_000: (1, 15)}
RATIO, HELD_FROM = 1.5, 200_000
MODEL = "claude-opus-5"
# About 500 tokens for each result: a line of code is about 12.
RESULT_LINES = 40
NUMBERS = count()
SYSTEM = "You maintain a feed parser. " * 200
TOOLS = [
    {
        "name": f"tool_{number}",
        "description": "Reads a file and returns its lines. " * 10,
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
    for number in range(12)
]
COMMON: dict[str, Any] = {"api_key": "k", "base_url": "http://bench", "max_retries": 0}


class Row(NamedTuple):
    name: str
    on_disk: bool = False
    reads_list: bool = False


ROWS = (
    Row("list kept, in memory"),
    Row("list read again, in memory", reads_list=True),
    Row("list kept, on disk", on_disk=True),
)


class Times(NamedTuple):
    """Seconds of one turn."""

    own: float
    waits: float
    net: float
    coding: float


class Endpoint(httpx2.BaseTransport):
    """Answers with the next reply, at once."""

    def __init__(self) -> None:
        self.reply: bytes = b""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=self.reply)


class Recorder(anthropic.Middleware):
    """Keeps a request as the SDK hands it to a middleware, and the response."""

    request: anthropic.APIRequest
    response: anthropic.APIResponse[Any]

    def handle(
        self, request: anthropic.APIRequest, call_next: anthropic.CallNext
    ) -> anthropic.APIResponse[Any]:
        self.request = request
        self.response = call_next(request)
        return self.response


class Clients:
    """One client without the middleware, one with it, and one that only makes requests."""

    def __init__(self, folder: str | None) -> None:
        self.endpoint = Endpoint()
        # Two of them: each sees every turn once.
        self.inside, self.alone = (
            everturn.middleware(config=None, folder=part, compact={"enabled": False})
            for part in ((None, None) if folder is None else (f"{folder}/inside", f"{folder}/alone"))
        )
        self._recorder = Recorder()
        self._plain = self._client()
        self._with_it = self._client(self.inside)
        self._recording = self._client(self._recorder)

    def _client(self, *used: anthropic.Middleware) -> anthropic.Anthropic:
        http = httpx2.Client(transport=self.endpoint)
        return anthropic.Anthropic(**COMMON, http_client=http, middleware=list(used))

    def turn(self, sent: dict[str, Any], data: bytes) -> Times:
        request, call_next = self.record(sent)
        coding = timed(lambda: msgspec.json.encode(msgspec.json.decode(data)))
        own = timed(lambda: self.alone.handle(request, call_next))
        plain = timed(lambda: self._plain.messages.create(**sent))
        with_it = timed(lambda: self._with_it.messages.create(**sent))
        waits = own.elapsed - own.processor
        return Times(own.processor, waits, with_it.processor - plain.processor, coding.processor)

    def record(self, sent: dict[str, Any]) -> tuple[anthropic.APIRequest, Callable[..., Any]]:
        """A request as the SDK hands it to a middleware, and what answers it."""
        self._recording.messages.create(**sent)
        return self._recorder.request, make_call_next(self._recording, self._recorder.response)

    def close(self) -> None:
        self.inside.close()
        self.alone.close()


def make_call_next(client: anthropic.Anthropic, response: anthropic.APIResponse[Any]) -> Callable[..., Any]:
    """Looks like the SDK's own function at the end of the chain, and answers at once."""
    self = client

    def base_handler(_: anthropic.APIRequest) -> Any:
        assert self is not None
        return response

    return base_handler


def lines() -> str:
    number = next(NUMBERS)
    return "\n".join(
        f"{line:04d} def parse_{number}_{line}(self, feed): return {line}" for line in range(RESULT_LINES)
    )


def exchange(messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """The list with one more result, and the content of the reply: a sentence and the next call."""
    last = messages[-1]["content"] if messages else ""
    number = next(NUMBERS)
    said: Any = f"Look at parser {number}."
    if isinstance(last, list):
        said = [{"type": "tool_result", "tool_use_id": last[-1]["id"], "content": lines()}]
    call = {
        "type": "tool_use",
        "id": f"toolu_{number:020d}",
        "name": "tool_1",
        "input": {"path": str(number)},
    }
    reply = [{"type": "text", "text": f"I look at part {number} of the parser next."}, call]
    return [*messages, {"role": "user", "content": said}], reply


def make_body(messages: list[Any]) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 8_000, "system": SYSTEM, "tools": TOOLS, "messages": messages}


def response(content: list[Any], tokens: int) -> bytes:
    """All but the newest message is read from the cache."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": tokens, "output_tokens": 40}
    reply = {"id": f"msg_{next(NUMBERS)}", "type": "message", "role": "assistant", "model": MODEL}
    return msgspec.json.encode(reply | {"content": content, "stop_reason": "tool_use", "usage": usage})


class Timed(NamedTuple):
    processor: float
    elapsed: float


def timed(run: Callable[[], object]) -> Timed:
    elapsed, processor = time.perf_counter(), time.thread_time()
    run()
    return Timed(time.thread_time() - processor, time.perf_counter() - elapsed)


def converse(tokens: int, turns: int, folder: str | None, *, reads_list: bool) -> list[Times]:
    """The turns of one conversation that has about this size."""
    clients = Clients(folder)
    messages: list[Any] = []
    size = 0
    while size < 4 * tokens:
        messages, reply = exchange(messages)
        messages.append({"role": "assistant", "content": reply})
        size += len(msgspec.json.encode(messages[-2:]))
    found: list[Times] = []
    for _ in range(turns + 1):
        messages, reply = exchange(messages)
        body = make_body(messages)
        data = msgspec.json.encode(body)
        clients.endpoint.reply = response(reply, tokens)
        found.append(clients.turn(msgspec.json.decode(data) if reads_list else body, data))
        messages.append({"role": "assistant", "content": reply})
    clients.close()
    # The first call reads a list that is not known yet.
    return found[1:]


def measure(row: Row, tokens: int) -> list[Times]:
    conversations, turns = SIZES[tokens]
    found: list[Times] = []
    for _ in range(conversations):
        with tempfile.TemporaryDirectory() as folder:
            kept = folder if row.on_disk else None
            found += converse(tokens, turns, kept, reads_list=row.reads_list)
    return found


def main() -> None:
    worst = 0.0
    for row in ROWS:
        for tokens in SIZES:
            times = measure(row, tokens)
            own, waits, net, coding = (median(each) * 1e3 for each in zip(*times, strict=True))
            ratio = median(each.own / each.coding for each in times)
            worst = max(worst, ratio) if tokens >= HELD_FROM else worst
            print(
                f"{row.name:27}{tokens:>9,} tokens   own {own:6.2f} ms   decode + encode {coding:6.2f} ms   "
                f"ratio {ratio:5.2f}   waits {waits:5.2f} ms   net {net:6.2f} ms"
            )
    print(f"worst ratio from {HELD_FROM:,} tokens on: {worst:.2f} (limit {RATIO})")
    if worst > RATIO:
        sys.exit(f"the middleware adds {worst:.2f} times one decode plus one encode of the body")


if __name__ == "__main__":
    main()
