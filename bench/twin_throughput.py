"""How many requests per second the twin answers beside a server that does nothing, and what memory it takes.

200 KB bodies, not streamed, over loopback, a conversation that grows like an agent's: each request repeats
the one before and adds a little. Client and server are two processes. Both servers are measured in one run,
so the ratio holds on any machine; the stub shows what the client and the socket cost by themselves. On a busy
machine the wall clock says little, so the CPU time of the servers is printed too.

Memory: 20,000 requests with new content, and the memory of the process along the way. It must level off.
"""

import asyncio
import gc
import json
import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from _timing import best

BODY_BYTES = 200_000
REQUESTS = 1_500
ROUNDS = 5
# 300 requests a second where the stub makes 1,000.
TARGET = 0.3
WARM_UP = 20
CONNECTIONS = 2
RESULT_BYTES = 3_000
LAST_TURNS = 8
MEMORY_REQUESTS, MEMORY_STEPS = 20_000, 8
GROWING = (100_000, 400_000, 1_600_000)


def main() -> int:
    bodies = list(_bodies(BODY_BYTES))
    # In turns: what else the machine does meets both.
    rounds = [(_measured(_serve_stub, bodies), _measured(_serve_twin, bodies)) for _ in range(ROUNDS)]
    ratio = median(twin / stub for (stub, _), (twin, _) in rounds)
    (stub, stub_cpu), (twin, twin_cpu) = (
        tuple(median(each[at][part] for each in rounds) for part in range(2)) for at in range(2)
    )
    print(f"stub   {stub:8.0f} requests/s, {stub_cpu:.2f} ms of CPU each")
    size = sum(map(len, bodies)) / len(bodies) / 1000
    print(f"twin   {twin:8.0f} requests/s, {twin_cpu:.2f} ms of CPU each; bodies of {size:.0f} KB")
    reached = ratio >= TARGET
    print(
        f"ratio  {ratio:8.2f} of the stub, the median of {ROUNDS} rounds; wanted {TARGET:.2f}: "
        f"{'reached' if reached else 'NOT REACHED'}"
    )
    _print_growth()
    level = _print_memory()
    return 0 if reached and level else 1


def _print_memory() -> bool:
    """Memory of a process that answers many requests, in MB. True if it levels off."""
    ready: multiprocessing.Queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=_answer_many, args=(ready,), daemon=True)
    process.start()
    found = [ready.get(timeout=1200) for _ in range(MEMORY_STEPS + 2)]
    process.join()
    start, *steps, after_reset = found
    shown = ", ".join(f"{size:.0f}" for size in steps)
    print(
        f"memory {start:8.0f} MB at the start; after each {MEMORY_REQUESTS // MEMORY_STEPS:,} requests: "
        f"{shown}"
    )
    print(f"memory {after_reset:8.0f} MB after a reset")
    half = len(steps) // 2
    level = max(steps[half:]) <= 1.1 * max(steps[:half]) + 5
    print(f"memory {'is level' if level else 'IS NOT LEVEL'} in the second half")
    return level


def _answer_many(ready: multiprocessing.Queue) -> None:
    from everturn.twin.routes import reset

    twin = _twin()
    ready.put(_memory())
    filler = "def run(value): return value + 1  # nothing special\n" * 190
    for number in range(MEMORY_REQUESTS):
        messages = [{"role": "user", "content": f"{number} {filler}"}]
        request = {"model": "claude-opus-5", "max_tokens": 100, "messages": messages}
        request |= {"cache_control": {"type": "ephemeral"}, "diagnostics": {"previous_message_id": None}}
        _answered(twin, json.dumps(request).encode())
        if (number + 1) % (MEMORY_REQUESTS // MEMORY_STEPS) == 0:
            ready.put(_memory())
    reset(twin)
    gc.collect()
    ready.put(_memory())


def _memory() -> float:
    """The resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _print_growth() -> None:
    """A known conversation with one new turn, in process: what its length costs beside reading the body."""
    import msgspec

    known, new = {}, {}
    for size in GROWING:
        turns = [whole.partition(b"\r\n\r\n")[2] for whole in _bodies(size)]
        twin = _twin()
        _answered(twin, turns[0])
        reading = best(lambda body=turns[-1]: msgspec.json.decode(body))
        known[size] = best(lambda body=turns[0], twin=twin: _answered(twin, body)) / reading
        seconds = [best(lambda body=body, twin=twin: _answered(twin, body), 1) for body in turns[1:]]
        new[size] = min(seconds) / reading
    for name, found in (("repeated", known), ("with a new turn", new)):
        shown = ", ".join(f"{size // 1000} KB {ratio:.1f}" for size, ratio in found.items())
        print(f"a request {name}, in plain decodes of its body: {shown}")


def _twin() -> Any:
    from everturn.twin.build import build_twin

    return build_twin()


def _answered(twin: Any, body: bytes) -> None:
    answer = twin.messages({"x-api-key": "bench", "anthropic-version": "2026-10-21"}, body)
    if answer.status != 200:
        raise SystemExit(f"the twin refused: {answer.body.decode()}")


# ── what is asked ────────────────────────────────────────────────────────────────────────────────


def _bodies(size: int) -> Iterator[bytes]:
    """The last requests of one long conversation of about that size, each a whole HTTP request."""
    messages: list[dict] = [{"role": "user", "content": "Look at all the files."}]
    turns = size // (RESULT_BYTES - 30)
    for turn in range(turns):
        messages += _step(turn)
        if turn >= turns - LAST_TURNS:
            yield _request(messages)


def _step(turn: int) -> list[dict]:
    call = {
        "type": "tool_use",
        "id": f"toolu_{turn}",
        "name": "read_file",
        "input": {"path": f"src/m{turn}.py"},
    }
    content = f"# {turn}\n" + "def run(value): return value + 1  # nothing special\n" * (RESULT_BYTES // 52)
    result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": content}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def _request(messages: list[dict]) -> bytes:
    tool = {
        "name": "read_file",
        "description": "Read a file.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        "cache_control": {"type": "ephemeral"},
    }
    body = json.dumps(
        {
            "model": "claude-opus-5",
            "max_tokens": 1000,
            "thinking": {"type": "disabled"},
            "tools": [tool],
            "system": "You are a careful programmer.",
            "cache_control": {"type": "ephemeral"},
            "messages": messages,
        }
    ).encode()
    head = (
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-api-key: bench\r\n"
        "anthropic-version: 2026-10-21\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


# ── who asks ─────────────────────────────────────────────────────────────────────────────────────


def _measured(serve: Callable, bodies: list[bytes]) -> tuple[float, float]:
    """Requests per second of a server in a process of its own, and its milliseconds of CPU per request."""
    ready: multiprocessing.Queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=serve, args=(ready,), daemon=True)
    process.start()
    try:
        port = ready.get(timeout=60)
        before = _cpu_seconds(process.pid)
        rate = asyncio.run(_ask(port, bodies))
        return rate, (_cpu_seconds(process.pid) - before) * 1000 / (REQUESTS + WARM_UP)
    finally:
        process.terminate()
        process.join()


def _cpu_seconds(pid: int | None) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _ask(port: int, bodies: list[bytes]) -> float:
    await _client(port, bodies, WARM_UP)
    started = time.perf_counter()
    share = REQUESTS // CONNECTIONS
    await asyncio.gather(*(_client(port, bodies, share) for _ in range(CONNECTIONS)))
    return share * CONNECTIONS / (time.perf_counter() - started)


async def _client(port: int, bodies: list[bytes], count: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for index in range(count):
        writer.write(bodies[index % len(bodies)])
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the server refused: {head.decode()}{(await reader.read(500)).decode()}")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    writer.close()


# ── who answers ──────────────────────────────────────────────────────────────────────────────────


def _serve_twin(ready: multiprocessing.Queue) -> None:
    from everturn.twin.app import TwinServer, bind_socket
    from everturn.twin.build import build_twin

    listener = bind_socket("127.0.0.1", 0)
    TwinServer(build_twin(), lambda: ready.put(listener.getsockname()[1])).run(sockets=[listener])


def _serve_stub(ready: multiprocessing.Queue) -> None:
    """The same server, without the twin: reads the body and answers `{}`."""
    import uvicorn

    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    ready.put(listener.getsockname()[1])
    uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off")).run(
        [listener]
    )


if __name__ == "__main__":
    raise SystemExit(main())
