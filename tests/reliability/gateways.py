"""Whole gateways on one PostgreSQL, and a nemesis. Clients talk to any of them, as through a load balancer.

Each client has a conversation and sends its list, again and elsewhere if no answer comes. Gateways manage:
they record, and compact. The nemesis is that of the replicas. In the end every client asks every gateway the
same, and the rows are compared with the lists of the clients:

    lost       what a managed answer has acknowledged is in its conversation, in the client's order
    doubled    nothing is there twice
    forked     a conversation with a recorded exchange is left for another one only if it ends with a reply
               that the client never got
    compacted  no record has two compactions behind it
    bytes      what every gateway sends for the same request
"""

import asyncio
import hashlib
import json
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final

import aiohttp
from postgres_server import Server
from reliability.replicas import Forked, Nemesis, endure, fork
from surfaces.desk import SUMMARY

from everturn.adapters.tracking import make_parts
from everturn.adapters.tracking.chain import is_caller_message
from everturn.gateway import stores as gateway_stores
from everturn.gateway.app import make_gateway
from everturn.gateway.server import GatewayServer
from everturn.gateway.tokens import TokenEntry, Tokens, digest_token
from everturn.gateway.values import GatewaySettings, Timing
from everturn.history.blocks import fields_of
from everturn.history.records import Record
from everturn.session.store import breaker
from everturn.session.store.postgres.stores import PostgresStores
from everturn.session.transcripts import parse_whole_file

# Managed answers of one trial, and faults.
OPERATIONS: Final = 250
MAX_FAULTS: Final = 14
MAX_GATEWAYS: Final = 4
CLIENTS: Final = 4
DEADLINE: Final = 0.5
LEASE: Final = 0.5
# A client that waits longer asks elsewhere.
PATIENCE: Final = 3.0
# For the operations, and for the end: a machine may be busy with other things.
SECONDS: Final = 120
LIFETIME: Final = 2 * SECONDS + 10
MODEL: Final = "claude-opus-5-5"
TOKEN: Final = "evt_trial"
WORDS: Final = "The login test waits for the token, and the token comes late. " * 15
# A conversation is compacted after about ten exchanges.
OPTIONS: Final[dict[str, Any]] = {"window": 20_000, "max_tokens": 1000, "notes.enabled": False}
LAST: Final = "This is the last question of client"


def gated(seed: int) -> Counter[str]:
    return endure(GatewayNemesis, "gateways", seed)


class GatewayNemesis(Nemesis):
    lifetime, seconds, lease = LIFETIME, SECONDS, LEASE

    def __init__(self, server: Server, tenant: str, folder: Path, rng: random.Random) -> None:
        self._upstream_at = _listen()
        seed = rng.random()
        self._upstream = fork(lambda: asyncio.run(serve_upstream(self._upstream_at, seed)), self.lifetime)
        # Open here, so that a gateway has the address of the one that it replaces.
        self._doors = [_listen() for _ in range(MAX_GATEWAYS)]
        self._free = list(range(MAX_GATEWAYS))
        self._places: dict[int, int] = {}
        super().__init__(server, tenant, folder, rng)
        ports = [self._doors[self._places[each]].getsockname()[1] for each in self._replicas]
        told, self._tell_clients = os.pipe()
        crowd = Crowd(ports, rng.random(), self._writing, folder)
        self._clients = fork(lambda: asyncio.run(crowd.run(told)), self.lifetime)
        os.close(told)

    @property
    def size(self) -> tuple[int, int]:
        return OPERATIONS, MAX_FAULTS

    def _start(self) -> int:
        place = self._free.pop(0)
        self._born += 1
        folder = self.folder / f"g{self._born}"
        upstream = f"http://127.0.0.1:{self._upstream_at.getsockname()[1]}"
        door = self._doors[place]
        pid = fork(lambda: serve_gateway(door, upstream, self.url, folder, self.tenant), self.lifetime)
        self._places[pid] = place
        return pid

    def _kill(self, victim: int) -> None:
        super()._kill(victim)
        if victim in self._places:
            self._free.insert(0, self._places.pop(victim))

    def run(self) -> None:
        super().run()
        # Everything is well again; the clients come to their end.
        self.server.resume()
        os.write(self._tell_clients, b".")
        end = time.monotonic() + SECONDS
        while not self.counts["ended"]:
            if time.monotonic() > end:
                raise TimeoutError(f"the clients did not end in {SECONDS} s")
            self._listen(0.05)

    def end(self) -> None:
        for each in (self._clients, self._upstream):
            os.kill(each, signal.SIGKILL)
            os.waitpid(each, 0)
        super().end()
        for each in (*self._doors, self._upstream_at):
            each.close()
        os.close(self._tell_clients)

    # ── the judge ────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        rows = self._ask(
            "SELECT conversation, data FROM everturn.line WHERE tenant = $1 ORDER BY conversation, at",
            self.tenant,
        )
        lines: dict[str, list[bytes]] = {}
        for row in rows:
            lines.setdefault(row["conversation"], []).append(row["data"] + b"\n")
        found = {name: parse_whole_file(b"".join(each)) for name, each in lines.items()}
        for name, transcript in found.items():
            if transcript.flaws:
                raise Forked(f"{name}: {transcript.flaws[0].what}")
        records = {name: list(each.records) for name, each in found.items()}
        for number in range(CLIENTS):
            said = json.loads((self.folder / f"client-{number}.json").read_text())
            mine = {name: each for name, each in records.items() if _is_of(each, said["messages"])}
            self._check_client(f"client {number}", said, mine)
        self._check_compactions(records)
        strays = len(records) - CLIENTS
        self.counts["strays"] += strays

    def _check_client(self, who: str, said: dict[str, Any], mine: dict[str, list[Record]]) -> None:
        messages: list[str] = said["messages"]
        for name, records in mine.items():
            texts = _texts(records)
            # An answer that the client did not take may be the last one.
            if texts != messages[: len(texts)] and texts[:-1] != messages[: len(texts) - 1]:
                raise Forked(f"{who}: {name} is not what the client has said, {len(texts)} messages")
        for session, length in said["acknowledged"]:
            texts = next((_texts(each) for name, each in mine.items() if name.endswith(session)), [])
            if texts[:length] != messages[:length]:
                raise Forked(
                    f"{who}: {length} messages were acknowledged in {session}, {len(texts)} are there"
                )
        names = list(dict.fromkeys(session for session, _ in said["acknowledged"]))
        for session in names[:-1]:
            old = next(each for name, each in mine.items() if name.endswith(session))
            texts = _texts(old)
            # Without a recorded reply it cannot be found again: examples in lists look the same. With a reply
            # that the client did not get it is a branch that was left: the client has asked once more.
            is_branch = texts != messages[: len(texts)]
            # The last one may have been recorded after the client had gone on.
            is_found = any(each.message_id for each in list(filter(is_caller_message, old))[:-1])
            if is_found and not is_branch:
                raise Forked(f"{who}: {self._tell_left(session, old, said, mine)}")
            self.counts["branches"] += is_branch
        if len(set(said["digests"])) != 1:
            raise Forked(f"{who}: gateways sent {len(set(said['digests']))} different bodies for one request")

    def _tell_left(
        self, session: str, old: list[Record], said: dict[str, Any], mine: dict[str, list[Record]]
    ) -> str:
        """What is needed to find out why."""
        other, first = next(each for each in reversed(said["acknowledged"]) if each[0] != session)
        new = next(each for name, each in mine.items() if name.endswith(other))
        shared = len({each.uuid for each in old} & {each.uuid for each in new})
        replies = sum(1 for each in old if each.message_id)
        lengths = sorted(len(_texts(each)) for each in mine.values())
        return (
            f"{session} with {len(_texts(old))} messages was left for another one ({replies} replies with an "
            f"id, {shared} of {len(old)} records in the other one, which has {first}; all: {lengths})"
        )

    def _check_compactions(self, found: dict[str, list[Record]]) -> None:
        behind: dict[str, str] = {}
        for name, records in found.items():
            for before, record in pairwise(records):
                if record.is_boundary and behind.setdefault(before.uuid, record.uuid) != record.uuid:
                    raise Forked(f"{name}: {before.uuid} has two compactions behind it")
        self.counts["compactions"] += len(behind)


def _texts(records: list[Record]) -> list[str]:
    return [
        "".join(fields_of(block).get("text", "") for block in record.blocks)
        for record in records
        if is_caller_message(record)
    ]


def _is_of(records: list[Record], messages: list[str]) -> bool:
    return bool(messages) and _texts(records)[:1] == messages[:1]


def _listen() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=256)


# ── a gateway ────────────────────────────────────────────────────────────────────────────────────


def serve_gateway(door: socket.socket, upstream: str, url: str, folder: Path, tenant: str) -> None:
    breaker.FIRST_PAUSE, breaker.LONGEST_PAUSE = 0.05, 0.2  # pyright: ignore

    def open_stores(*_: Any, **__: Any) -> PostgresStores:
        return PostgresStores(url, folder, deadline=DEADLINE, lease=LEASE, connections=4)

    gateway_stores.open_configured = open_stores
    parts = make_parts(None, config=None, folder=folder, **OPTIONS, **{"store.url": url})
    settings = GatewaySettings(parts=parts, upstream=upstream, mode="manage", timing=Timing(prepare=1.5))
    tokens = Tokens((TokenEntry(tenant, digest_token(TOKEN)),))
    GatewayServer(make_gateway(settings, tokens=tokens), lambda: None, None, 1).run(sockets=[door])


# ── the upstream ─────────────────────────────────────────────────────────────────────────────────


async def serve_upstream(door: socket.socket, seed: float) -> None:
    rng, numbers = random.Random(seed), count(1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").lower().split("\r\n")
                length = next(int(each[15:]) for each in lines if each.startswith("content-length:"))
                body = await reader.readexactly(length)
                await asyncio.sleep(rng.choice((0, 0.005, 0.03)))
                for piece in answer(body, rng, next(numbers)):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_server(serve, sock=door) as server:
        await server.serve_forever()


def answer(body: bytes, rng: random.Random, number: int) -> list[bytes]:
    """The pieces of a response."""
    if b"summary of" in body or b"detailed summary" in body:
        return [_plain("200 OK", _message(SUMMARY, number, len(body)))]
    if LAST.encode() in body:
        # Refused, so that nothing is recorded: the next gateway gets the same request.
        said = {"type": "overloaded_error", "message": hashlib.sha256(body).hexdigest()}
        return [_plain("529 Overloaded", {"type": "error", "error": said})]
    if rng.random() < 0.03:
        return [_plain("529 Overloaded", {"type": "error", "error": {"type": "overloaded_error"}})]
    text = f"Reply {number}. {WORDS}"
    if not body.startswith(b'{"stream":true') and b'"stream": true' not in body[:40]:
        return [_plain("200 OK", _message(text, number, len(body)))]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    events = _events(_message(text, number, len(body)))
    chunks = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events]
    return [head, *(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks), b"0\r\n\r\n"]


def _plain(status: str, fields: dict[str, Any]) -> bytes:
    body = json.dumps(fields).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _message(text: str, number: int, size: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL,
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": size // 4, "output_tokens": len(text) // 4},
    }  # fmt: skip


def _events(whole: dict[str, Any]) -> list[dict[str, Any]]:
    text = whole["content"][0]["text"]
    parts = [text[at : at + 400] for at in range(0, len(text), 400)]
    return [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": each}}
            for each in parts
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": whole["usage"]},
        {"type": "message_stop"},
    ]


# ── clients ──────────────────────────────────────────────────────────────────────────────────────


class Crowd:
    """All clients, in one process."""

    def __init__(self, ports: list[int], seed: float, pipe: int, folder: Path) -> None:
        self.ports, self.pipe, self.folder = ports, pipe, folder
        self.rng = random.Random(seed)
        self.is_over = False

    async def run(self, told: int) -> None:
        asyncio.get_running_loop().add_reader(told, self._end)
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(
            timeout=timeout, connector=aiohttp.TCPConnector(limit=0, force_close=True)
        ) as http:
            await asyncio.gather(*(Client(self, http, number).run() for number in range(CLIENTS)))
        self.tell("ended all")
        await asyncio.sleep(SECONDS)

    def _end(self) -> None:
        self.is_over = True

    def tell(self, what: str) -> None:
        os.write(self.pipe, f"{what}\n".encode())


class Client:
    def __init__(self, crowd: Crowd, http: aiohttp.ClientSession, number: int) -> None:
        self.crowd, self.http, self.number = crowd, http, number
        self.rng = random.Random(crowd.rng.random())
        self.messages: list[dict[str, Any]] = []
        # Conversations, and how many messages were acknowledged in each.
        self.acknowledged: list[tuple[str, int]] = []
        # Every second one names its session, as Claude Code does.
        self.headers = {"x-everturn-token": TOKEN, "x-api-key": "any"}
        if number % 2:
            self.headers["x-claude-code-session-id"] = f"session {number}"

    async def run(self) -> None:
        while not self.crowd.is_over:
            await self._turn()
        # The last reply is in the next list; a gateway that has lost its database manages again soon.
        pauses = _pauses()
        while not await self._turn():
            await asyncio.sleep(next(pauses))
        await asyncio.sleep(0.3)
        self.messages.append({"role": "user", "content": f"{LAST} {self.number}."})
        digests = [await self._compare(port) for port in self.crowd.ports]
        said = [
            each["content"] if isinstance(each["content"], str) else each["content"][0]["text"]
            for each in self.messages
        ]
        kept = {"messages": said, "acknowledged": self.acknowledged, "digests": digests}
        (self.crowd.folder / f"client-{self.number}.json").write_text(json.dumps(kept))

    async def _turn(self) -> bool:
        """One exchange; whether it was managed."""
        length = len(self.messages)
        text = f"Client {self.number} says {length}. {WORDS}"
        self.messages.append({"role": "user", "content": text})
        while (got := await self._ask()) is None:
            await asyncio.sleep(self.rng.uniform(0.005, 0.05))
        reply, session, mode = got
        is_managed = mode == "manage" and session not in ("none", "pending")
        if is_managed:
            self.acknowledged.append((session, len(self.messages)))
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": reply}]})
        if is_managed:
            self.crowd.tell(f"kept c{self.number} {length}")
        else:
            # Not an operation: nothing was promised. It takes a moment, or the list would be long soon.
            self.crowd.tell("unmanaged answer")
            await asyncio.sleep(self.rng.uniform(0.02, 0.1))
        return is_managed

    async def _ask(self) -> tuple[str, str, str] | None:
        """The reply, its conversation and its mode; None if there was none."""
        is_streamed = self.rng.random() < 0.5
        status, headers, body = await self._post(self.rng.choice(self.crowd.ports), is_streamed)
        text = _read_stream(body) if is_streamed else _read_message(body)
        if status != 200 or text is None:
            self.crowd.tell(f"refused {status}")
            return None
        return text, headers["x-everturn-session"], headers["x-everturn-mode"]

    async def _compare(self, port: int) -> str:
        """The digest of what this gateway sends."""
        pauses = _pauses()
        while True:
            status, headers, body = await self._post(port, False)
            if status == 529 and headers["x-everturn-mode"] == "manage" and b"message" in body:
                return json.loads(body)["error"]["message"]
            self.crowd.tell(f"refused {status}")
            await asyncio.sleep(next(pauses))

    async def _post(self, port: int, is_streamed: bool) -> tuple[int, Any, bytes]:
        fields = {"model": MODEL, "max_tokens": 1000, "messages": self.messages}
        sent = {"stream": True, **fields} if is_streamed else fields
        try:
            async with self.http.post(
                f"http://127.0.0.1:{port}/v1/messages", json=sent, headers=self.headers
            ) as response:
                return response.status, response.headers, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return 0, {}, b""


def _pauses() -> Iterator[float]:
    """Longer ones after each: gateways on a busy machine have to come to the end of something."""
    return (min(2.0, 0.1 * 1.5**each) for each in count())


def _read_stream(body: bytes) -> str | None:
    if not body.rstrip().endswith(b'data: {"type": "message_stop"}'):
        return None
    data = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    return "".join(each["delta"]["text"] for each in data if each["type"] == "content_block_delta")


def _read_message(body: bytes) -> str | None:
    try:
        return json.loads(body)["content"][0]["text"]
    except (ValueError, KeyError):
        return None
