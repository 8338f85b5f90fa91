"""What the gateway adds to a bare relay, in CPU time per request (GW-22).

Five servers in processes of their own, all on uvicorn with an aiohttp client upstream: a bare relay, which
passes bytes on and does nothing else; the same with what the gateway sets for its process (garbage, freed
memory); a bare relay that decodes and encodes each body; the gateway in observe mode; the gateway in manage
mode. They take turns with the same requests of
one growing conversation, so that their ratio holds on a busy machine. The upstream and the client are not
counted.

    streams   a body of 200 KB, a reply of 200 events; paced at 10 ms with --paced, as a model's are
    bodies    200 KB, 1 MB and 2 MB, not streamed

What manage mode adds is compared with what a decode and an encode add, by the same JSON library. The limits
are those of GW-22; at 200 KB they are not kept (docs/gateway.md).
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvicorn
from _timing import best

from everturn.gateway.server import KEEP_ALIVE_SECONDS

MODEL = "claude-opus-5-5"
SERVERS = ("relay", "tuned", "recode", "observe", "manage")
TARGETS = {"streams": 1.3, "bodies": 1.8, "manage": 2.0}
SIZES = ((200_000, True), (200_000, False), (1_000_000, False), (2_000_000, False))
EVENTS = 200
WARM_UP = 4


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--paced", action="store_true", help="10 ms between the events of a stream")
    parser.add_argument("--kilobytes", default="", help="bodies of other sizes, not streamed: 400,600,1000")
    given = parser.parse_args()
    sizes = [(int(each) * 1000, False) for each in given.kilobytes.split(",") if each] or SIZES
    upstream = _start(_serve_upstream, 0.01 if given.paced else 0.0)
    servers = {name: _start(_serve, name, upstream[1]) for name in SERVERS}
    late = False
    try:
        for size, streamed in sizes:
            spent = asyncio.run(_measure(servers, size, streamed, given.requests))
            late |= _report(spent, size, streamed)
    finally:
        for process, _ in (*servers.values(), upstream):
            process.kill()
    return int(late)


def _report(spent: dict[str, float], size: int, streamed: bool) -> bool:
    name = "streams" if streamed else "bodies"
    ratio = spent["observe"] / spent["relay"]
    fields = _body(size, 0, streamed)
    body = json.dumps(fields).encode()
    relay, tuned, recode, observe, manage = (spent[each] for each in SERVERS)
    in_a_loop = best(lambda: msgspec.json.encode(msgspec.json.decode(body))) * 1000
    added = (manage - relay) / max(recode - relay, 0.01)
    print(
        f"{len(body) / 1000:6.0f} KB {name:8} relay {relay:5.2f} ms (tuned {tuned:5.2f} ms), observe "
        f"{observe:5.2f} ms: {ratio:.2f} times (target {TARGETS[name]}; of a tuned relay "
        f"{observe / tuned:.2f} times); manage {manage:5.2f} ms: adds {added:.1f} times "
        f"a relay that decodes and encodes ({recode - relay:.2f} ms; in a loop {in_a_loop:.2f} ms; "
        f"target {TARGETS['manage']})"
    )
    return ratio > TARGETS[name] or (not streamed and added > TARGETS["manage"])


async def _measure(
    servers: dict[str, tuple[Any, str]], size: int, streamed: bool, requests: int
) -> dict[str, float]:
    """CPU milliseconds per request of each server; they take turns."""
    spent = dict.fromkeys(servers, 0.0)
    async with aiohttp.ClientSession() as session:
        for at in range(WARM_UP + requests):
            body = json.dumps(_body(size, at, streamed)).encode()
            for name, (process, url) in servers.items():
                before = _cpu(process.pid)
                headers = {
                    "content-type": "application/json",
                    "x-claude-code-session-id": f"{size}-{streamed}",
                }
                async with session.post(f"{url}/v1/messages", data=body, headers=headers) as response:
                    await response.read()
                    assert response.status == 200, response.status
                # The gateway records after the reply has been relayed.
                await asyncio.sleep(0.02)
                if at >= WARM_UP:
                    spent[name] += _cpu(process.pid) - before
    return {name: total / requests * 1000 for name, total in spent.items()}


def _cpu(pid: int) -> float:
    """Seconds that a process has used; finer than the clock ticks of /proc/PID/stat."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9 + sum(
            int(each.read_text().split()[0]) / 1e9
            for each in Path(f"/proc/{pid}/task").glob("*/schedstat")
            if each.parent.name != str(pid)
        )
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _body(size: int, turn: int, streamed: bool) -> dict[str, Any]:
    """The request of a turn: a long history, and what the turns since then have added."""
    rounds = max(1, size // 9_000)
    said: list[dict[str, Any]] = []
    for at in range(rounds):
        said.append(
            {"role": "user", "content": [{"type": "text", "text": f"Read part {at}. " + "word " * 880}]}
        )
        said.append(
            {"role": "assistant", "content": [{"type": "text", "text": f"Part {at}. " + "word " * 880}]}
        )
    for at in range(turn):
        said.append({"role": "user", "content": f"Question {at}."})
        said.append({"role": "assistant", "content": [{"type": "text", "text": "word " * EVENTS}]})
    said.append({"role": "user", "content": f"Question {turn}."})
    return {"model": MODEL, "max_tokens": 1000, "stream": streamed, "messages": said}


# ── servers ──────────────────────────────────────────────────────────────────────────────────────


def _start(serve: Callable[..., None], *given: Any) -> tuple[Any, str]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    process = multiprocessing.get_context("fork").Process(target=serve, args=(listener, *given), daemon=True)
    process.start()
    listener.close()
    return process, url


def _run(app: Any, listener: socket.socket, lifespan: Any = "off", **options: Any) -> None:
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        # As the gateway's own. With 5 s, the default, a server closes what its client is about to use.
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        lifespan=lifespan,
        ws="none",
        interface="asgi3",
        **options,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _serve_upstream(listener: socket.socket, pause: float, at_once: int = 1) -> None:
    whole = {"id": "", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn"}
    count = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal count
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message["body"]
        count += 1
        message_fields = {**whole, "id": f"msg_{count}", "usage": _usage(len(body))}
        streamed = b'"stream": true' in body or b'"stream":true' in body
        kind = b"text/event-stream" if streamed else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        if streamed:
            events = _events(message_fields)
            for at in range(0, len(events), at_once):
                part = b"".join(events[at : at + at_once])
                await send({"type": "http.response.body", "body": part, "more_body": True})
                await asyncio.sleep(pause)
            await send({"type": "http.response.body", "body": b""})
        else:
            content = [{"type": "text", "text": "word " * EVENTS}]
            await send(
                {
                    "type": "http.response.body",
                    "body": json.dumps({**message_fields, "content": content}).encode(),
                }
            )

    _run(app, listener)


def _usage(size: int) -> dict[str, int]:
    """What the API would report of a body of so many bytes, nearly all of which it has cached."""
    context, new = size // 4, 300
    return {
        "input_tokens": 10,
        "cache_creation_input_tokens": new - 10,
        "cache_read_input_tokens": context - new,
        "output_tokens": EVENTS,
    }


def _events(message: dict[str, Any]) -> list[bytes]:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
    found = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[delta] * EVENTS,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": EVENTS}},
        {"type": "message_stop"},
    ]
    return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in found]


def _serve(listener: socket.socket, name: str, upstream: str, in_memory: int = 0) -> None:
    """`in_memory` is how many conversations a gateway keeps there; 0 for its default."""
    if name in ("relay", "recode"):
        _run(_bare_relay(upstream, recodes=name == "recode"), listener)
        return
    from everturn.adapters.tracking import make_parts
    from everturn.gateway.app import make_gateway
    from everturn.gateway.server import look_for_garbage_less, make_protocol, reuse_freed_memory
    from everturn.gateway.start import GATEWAY_DEFAULTS
    from everturn.gateway.values import GatewaySettings

    if name == "tuned":
        look_for_garbage_less()
        reuse_freed_memory()
        _run(_bare_relay(upstream), listener)
        return
    limits: dict[str, Any] = {"limits.conversations": in_memory} if in_memory else {}
    parts = make_parts(
        None,
        config=None,
        defaults=GATEWAY_DEFAULTS,
        folder=tempfile.mkdtemp(),
        window=2_000_000,
        **limits,
    )
    settings = GatewaySettings(parts=parts, upstream=upstream, mode=name)  # type: ignore[arg-type]
    gateway = make_gateway(settings)
    look_for_garbage_less()
    reuse_freed_memory()
    _run(gateway.serve, listener, "on", http=make_protocol(settings.limits))


def _bare_relay(upstream: str, *, recodes: bool = False) -> Any:
    session: aiohttp.ClientSession | None = None

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal session
        if session is None:
            session = aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(limit=0))
        pieces: list[bytes] = []
        more = True
        while more:
            message = await receive()
            pieces.append(message["body"])
            more = message["more_body"]
        headers = [(name.decode(), value.decode()) for name, value in scope["headers"] if name != b"host"]
        url = upstream + scope["path"]
        body = b"".join(pieces)
        if recodes:
            body = msgspec.json.encode(msgspec.json.decode(body))
            headers = [each for each in headers if each[0] != "content-length"]
        async with session.request(scope["method"], url, headers=headers, data=body) as response:
            kept = [(name.lower(), value) for name, value in response.raw_headers]
            kept = [each for each in kept if each[0] != b"transfer-encoding"]
            await send({"type": "http.response.start", "status": response.status, "headers": kept})
            async for piece in response.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    return app


if __name__ == "__main__":
    sys.exit(main())
