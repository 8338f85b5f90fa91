"""The gateway under load: what it adds to a bare relay, and whether memory and descriptors stay flat (GW-22).

Clients send the turns of many conversations, each with a body of 200 KB, and read the streamed replies. Every
turn goes to a bare relay, to the gateway in observe mode and to one in manage mode, in an order by chance, so
that all three meet the same machine. Conversations differ in their first message, so nothing is shared.

    python bench/gateway_load.py --seconds 120 --clients 8,64

Memory grows until the caches are full: conversations, and the bytes of the last bodies. `--in-memory 32`
makes that soon; from then on it has to stay as it is, although new conversations arrive.

    python bench/gateway_load.py --only observe --rate 100 --turns 40 --seconds 3600 --clients 64

An hour at a fixed rate: requests begin when they are due, if a client is free. A conversation that has had
its turns is left for a new one, so that there are always as many open ones and bodies stay as long.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import aiohttp
from gateway import EVENTS, MODEL, _body, _cpu, _serve, _serve_upstream, _start

from everturn.gateway.known_bodies import MAX_BYTES
from everturn.gateway.limits import Limits

SERVERS = ("relay", "observe", "manage")
HEADERS = {"content-type": "application/json"}


class Took(NamedTuple):
    """Seconds of one request until the first byte of its response, and until the last one."""

    first: float
    whole: float


# How much memory may grow once the caches are full: the conversations in it grow with every turn.
GROWTH = 1.1


class Size(NamedTuple):
    """Of a server, after so many requests."""

    megabytes: float
    descriptors: int
    requests: int
    # Seconds of CPU time since it was started.
    cpu: float


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0, help="for each number of clients")
    parser.add_argument("--clients", default="8", help="numbers of clients, one after the other")
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--kilobytes", type=int, default=200)
    parser.add_argument("--in-memory", type=int, default=0, help="conversations that a gateway keeps there")
    parser.add_argument("--paced", action="store_true", help="10 ms between the events of a stream")
    parser.add_argument("--only", choices=SERVERS, help="one of them instead of all three")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, at most; 0: no limit")
    parser.add_argument("--turns", type=int, default=0, help="of a conversation, then a new one; 0: no limit")
    parser.add_argument("--at-once", type=int, default=1, help="events of a stream that come together")
    given = parser.parse_args()
    upstream = _start(_serve_upstream, 0.01 if given.paced else 0.0, given.at_once)
    names = (given.only,) if given.only else SERVERS
    servers = {name: _start(_serve, name, upstream[1], given.in_memory) for name in names}
    is_flat = True
    try:
        for clients in map(int, given.clients.split(",")):
            load = Load(servers, given.conversations, given.kilobytes * 1000, given.rate, given.turns)
            asyncio.run(load.run(clients, given.seconds))
            is_flat &= load.report(
                clients, given.in_memory or Limits().memory_bytes // (1000 * given.kilobytes)
            )
    finally:
        for process, _ in (*servers.values(), upstream):
            process.kill()
    return int(not is_flat)


class Load:
    def __init__(
        self,
        servers: dict[str, tuple[Any, str]],
        conversations: int,
        size: int,
        rate: float = 0.0,
        last_turn: int = 0,
    ) -> None:
        self.servers = servers
        self.rate, self.last_turn = rate, last_turn
        self.begun = 0
        # How often each conversation was left for a new one.
        self.lives = [0] * conversations
        self.rng = random.Random(1)
        self.turns = [0] * conversations
        self.free = list(range(conversations))
        self.took: dict[str, list[Took]] = {name: [] for name in servers}
        self.sizes: dict[str, list[Size]] = {name: [] for name in servers}
        # By server and what went wrong.
        self.failed: Counter[str] = Counter()
        fields = _body(size, 0, True)
        # The same bytes for every conversation, behind a first message of its own; built once.
        self.history = json.dumps(fields["messages"][:-1])[1:-1]
        self.run_id = f"{os.getpid()}-{time.time()}"
        self.seconds = 0.0

    async def run(self, clients: int, seconds: float) -> None:
        began = time.monotonic()
        ends = began + seconds
        timeout = aiohttp.ClientTimeout(total=120)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
            watcher = asyncio.create_task(self._watch(seconds / 20))
            await asyncio.gather(*(self._client(session, began, ends) for _ in range(clients)))
            watcher.cancel()
        self.seconds = time.monotonic() - began

    async def _client(self, session: aiohttp.ClientSession, began: float, ends: float) -> None:
        while time.monotonic() < ends:
            if self.rate:
                due = began + self.begun / self.rate
                self.begun += len(self.servers)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            at = self.free.pop(self.rng.randrange(len(self.free)))
            body = self._spell(at)
            names = self.rng.sample(tuple(self.servers), len(self.servers))
            for name in names:
                self.took[name] += await self._ask(session, name, at, body)
            self.turns[at] += 1
            if self.turns[at] == self.last_turn:
                self.turns[at] = 0
                self.lives[at] += 1
            self.free.append(at)

    async def _ask(
        self, session: aiohttp.ClientSession, name: str, conversation: int, body: bytes
    ) -> list[Took]:
        url = self.servers[name][1]
        began = time.perf_counter()
        headers = {**HEADERS, "x-claude-code-session-id": self._name(conversation)}
        try:
            async with session.post(f"{url}/v1/messages", data=body, headers=headers) as response:
                first = time.perf_counter() - began
                answer = await response.read()
                if response.status == 200:
                    return [Took(first, time.perf_counter() - began)]
                problem = f"{response.status} {answer[:200]!r}"
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = repr(error)
        self.failed[f"{name}: {problem}"] += 1
        return []

    def _spell(self, conversation: int) -> bytes:
        said: list[dict[str, Any]] = []
        for turn in range(self.turns[conversation]):
            said.append({"role": "user", "content": f"Question {turn}."})
            said.append({"role": "assistant", "content": [{"type": "text", "text": "word " * EVENTS}]})
        said.append({"role": "user", "content": f"Question {self.turns[conversation]}."})
        first = json.dumps({"role": "user", "content": f"Conversation {self._name(conversation)}."})
        second = json.dumps({"role": "assistant", "content": "Yes."})
        rest = json.dumps(said)[1:-1]
        head = f'{{"model": "{MODEL}", "max_tokens": 1000, "stream": true, "messages": ['
        return f"{head}{first}, {second}, {self.history}, {rest}]}}".encode()

    def _name(self, conversation: int) -> str:
        return f"{self.run_id} {conversation} {self.lives[conversation]}"

    async def _watch(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            for name, (process, _) in self.servers.items():
                self.sizes[name].append(_size(process.pid, len(self.took[name])))

    def report(self, clients: int, in_memory: int) -> bool:
        requests = sum(map(len, self.took.values()))
        known = sum(1 for each in self.turns if each) + sum(self.lives)
        body = len(self._spell(0)) / 1000
        print(
            f"{clients} clients, {self.seconds:.0f} s, {requests / self.seconds:.1f} requests a second, "
            f"{known} conversations, bodies from {body:.0f} KB, streams of {EVENTS} events, "
            f"{self.failed.total()} failed"
        )
        for problem, count in self.failed.items():
            print(f"  failed {count} times, {problem}")
        is_flat = not self.failed
        bare = self.took.get("relay", [])
        for name in self.servers:
            took, sizes = self.took[name], self.sizes[name]
            middle, last = sizes[len(sizes) // 2], sizes[-1]
            most = max(size.descriptors for size in sizes)
            print(
                f"  {name:8} first byte p50 {_at(took, 0, 0.5):6.1f} ms{_added(took, bare, 0, 0.5)}, "
                f"p99 {_at(took, 0, 0.99):6.1f}{_added(took, bare, 0, 0.99)}; "
                f"whole p50 {_at(took, 1, 0.5):6.1f} ms{_added(took, bare, 1, 0.5)}; "
                f"RSS {sizes[0].megabytes:.0f}, {middle.megabytes:.0f}, {last.megabytes:.0f} MB; "
                f"descriptors {last.descriptors}, at most {most}; "
                f"CPU {1000 * (last.cpu - middle.cpu) / max(1, last.requests - middle.requests):.2f} ms each"
            )
            # One to the client and one to the upstream, kept alive for a while, the server's own, and the
            # transcript and its lock of each conversation in memory.
            is_flat &= most <= 4 * clients + 40 + 2 * in_memory
            kept = max(in_memory, MAX_BYTES / (1000 * body))
            is_full = middle.requests >= 2 * kept
            if is_full:
                is_flat &= last.megabytes <= GROWTH * middle.megabytes
            elif name != "relay":
                print("           the caches were not full at half of the time: memory is not judged")
        return is_flat


def _at(took: Sequence[Took], which: int, share: float) -> float:
    found = sorted(each[which] for each in took)
    return 1000 * (median(found) if share == 0.5 else found[min(len(found) - 1, int(len(found) * share))])


def _added(took: Sequence[Took], bare: Sequence[Took], which: int, share: float) -> str:
    """Beside the relay, if that ran."""
    return f" (+{_at(took, which, share) - _at(bare, which, share):.1f})" if bare else ""


def _size(pid: int, requests: int) -> Size:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    resident = int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return Size(resident, len(list(Path(f"/proc/{pid}/fd").iterdir())), requests, _cpu(pid))


if __name__ == "__main__":
    sys.exit(main())
