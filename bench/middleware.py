"""What the middleware adds to one call of the Anthropic SDK: recognise the list, decide, build, record.

added       the time of a call with the middleware, less that of the same call without it; the SDK alone
            encodes the body itself, and with the middleware gets its bytes
against     one decode plus one encode of the body (msgspec). In memory, `added` is at most 1.5 times that at
            200K and 1M tokens. At 20K it is 5 to 10 times that: deciding and recording cost the same at any
            size. On disk, two small files per call come on top.

A caller keeps its list, or reads it from a file each time; the transcript is in memory, or on disk.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import anthropic
import httpx2
import msgspec

import everturn

SIZES = (20_000, 200_000, 1_000_000)
RATIO, HELD_FROM = 1.5, 200_000
TURNS = 15
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


class Costs(NamedTuple):
    added: float
    coding: float


class Endpoint(httpx2.BaseTransport):
    """Answers with the next reply, at once."""

    def __init__(self) -> None:
        self.reply: bytes = b""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=self.reply)


def lines() -> str:
    number = next(NUMBERS)
    return "\n".join(
        f"{line:04d} def parse_{number}_{line}(self, feed): return {line}" for line in range(RESULT_LINES)
    )


def exchange(messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """The list with one more result, and the content of the reply: a sentence and the next call."""
    last = messages[-1]["content"] if messages else ""
    said: Any = "Look at the parser."
    if isinstance(last, list):
        said = [{"type": "tool_result", "tool_use_id": last[-1]["id"], "content": lines()}]
    number = next(NUMBERS)
    call = {
        "type": "tool_use",
        "id": f"toolu_{number:020d}",
        "name": "tool_1",
        "input": {"path": str(number)},
    }
    reply = [{"type": "text", "text": f"I look at part {number} of the parser next."}, call]
    return [*messages, {"role": "user", "content": said}], reply


def response(content: list[Any], tokens: int) -> bytes:
    """All but the newest message is read from the cache."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": tokens, "output_tokens": 40}
    reply = {"id": f"msg_{next(NUMBERS)}", "type": "message", "role": "assistant", "model": MODEL}
    return msgspec.json.encode(reply | {"content": content, "stop_reason": "tool_use", "usage": usage})


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(tokens: int, folder: str | None, *, reads_list: bool) -> Costs:
    """The fastest of several calls: that one was disturbed least."""
    middleware = everturn.middleware(config=None, folder=folder, compact={"enabled": False})
    endpoint = Endpoint()
    common: dict[str, Any] = {"api_key": "k", "base_url": "http://bench", "max_retries": 0}
    with_it = anthropic.Anthropic(
        **common, http_client=httpx2.Client(transport=endpoint), middleware=[middleware]
    )
    without = anthropic.Anthropic(**common, http_client=httpx2.Client(transport=endpoint))
    messages: list[Any] = []
    while len(msgspec.json.encode(messages)) < 4 * tokens:
        messages, reply = exchange(messages)
        messages.append({"role": "assistant", "content": reply})
    calls: list[float] = []
    plain: list[float] = []
    coded: list[float] = []
    for _ in range(TURNS + 1):
        messages, reply = exchange(messages)
        body = {"model": MODEL, "max_tokens": 8_000, "system": SYSTEM, "tools": TOOLS, "messages": messages}
        data = msgspec.json.encode(body)
        coded.append(timed(lambda data=data: msgspec.json.encode(msgspec.json.decode(data))))
        sent = msgspec.json.decode(data) if reads_list else body
        endpoint.reply = response(reply, tokens)
        plain.append(timed(lambda sent=sent: without.messages.create(**sent)))
        calls.append(timed(lambda sent=sent: with_it.messages.create(**sent)))
        messages.append({"role": "assistant", "content": reply})
    middleware.close()
    # The first call reads a list that is not known yet.
    return Costs(min(calls[1:]) - min(plain[1:]), min(coded[1:]))


def main() -> None:
    worst = 0.0
    for name, on_disk, reads_list in (
        ("list kept, in memory", False, False),
        ("list read again, in memory", False, True),
        ("list kept, on disk", True, False),
    ):
        for tokens in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                costs = measure(tokens, folder if on_disk else None, reads_list=reads_list)
            ratio = costs.added / costs.coding
            worst = max(worst, ratio) if tokens >= HELD_FROM and not on_disk else worst
            print(
                f"{name:27} {tokens:>9,} tokens   added {costs.added * 1e3:6.2f} ms   "
                f"decode + encode {costs.coding * 1e3:6.2f} ms   ratio {ratio:5.2f}"
            )
    print(f"worst ratio in memory, from {HELD_FROM:,} tokens on: {worst:.2f} (limit {RATIO})")
    if worst > RATIO:
        sys.exit(f"the middleware adds {worst:.2f} times one decode plus one encode of the body")


if __name__ == "__main__":
    main()
