"""Several replicas on one PostgreSQL, and a nemesis. Each replica is a process with leases of its own.

Replicas open conversations, append, compact, count, rest and leave as they like, and tell of everything that
was acknowledged. Meanwhile they are killed and stopped, their connections are dropped, delayed, stalled and
cut before the answer, the server is killed and paused, and its clock jumps. Every operation says which record
it saw last. In the end the rows are compared with a plain list: what was acknowledged is there once, and
every operation follows the record that it saw. So nothing is lost or doubled, no conversation has two
branches, and no view was compacted twice.
"""

import asyncio
import os
import random
import select
import shutil
import signal
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import asyncpg
import builders as b
import msgspec
from postgres_proxy import Mode, Proxy
from postgres_server import Server

from everturn.errors import EverturnError
from everturn.history.records import Record
from everturn.session.store import breaker
from everturn.session.store.factory import CounterStep
from everturn.session.store.postgres.stores import PostgresStores
from everturn.session.transcripts import parse_whole_file

# Acknowledged operations of one trial, and at most so many faults: while one lasts, little is acknowledged.
OPERATIONS: Final = 250
MAX_FAULTS: Final = 8
CONVERSATIONS: Final = 6
CAP: Final = 25
DEADLINE: Final = 0.2
LEASE: Final = 0.2
# A trial that takes longer hangs: it is ended, and counts as unknown.
SECONDS: Final = 60
MODES: Final[tuple[Mode, ...]] = ("stalled", "closed", "deaf", "slow")
FAULTS: Final = ("kill", "stop", "drop", *MODES, "restart", "pause", "clock")


class Forked(AssertionError):
    """Something that was acknowledged is gone or doubled, or two replicas have continued one record."""


def survived(seed: int) -> Counter[str]:
    return endure(Nemesis, "replicas", seed)


def endure(kind: "type[Nemesis]", name: str, seed: int) -> Counter[str]:
    rng = random.Random(f"{name} {seed}")
    server = _server()
    with TemporaryDirectory(prefix=f"everturn-{name}-") as folder:
        # Trials of one process share a server, and may have the same seed: each is a tenant of its own.
        nemesis = kind(server, f"t{uuid.uuid4().hex}", Path(folder), rng)
        try:
            nemesis.run()
        finally:
            nemesis.end()
        nemesis.check()
        return nemesis.counts


_SERVERS: dict[int, Server] = {}


def _server() -> Server:
    """One for each process that runs trials; it ends with the process."""
    if os.getpid() not in _SERVERS:
        _SERVERS[os.getpid()] = server = Server()
        Finalize(None, server.stop, exitpriority=1)
    return _SERVERS[os.getpid()]


def fork(act: Callable[[], None], seconds: int = SECONDS) -> int:
    """A process that ends after so many seconds, whatever becomes of this one."""
    with warnings.catch_warnings():
        # Newer Pythons warn of threads; no other thread runs code of ours here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    try:
        act()
    finally:
        os._exit(1)


# ── one replica ──────────────────────────────────────────────────────────────────────────────────


class Replica:
    def __init__(self, url: str, tenant: str, folder: Path, name: str, pipe: int) -> None:
        self.url, self.tenant, self.folder, self.name, self.pipe = url, tenant, folder, name, pipe
        self.rng = random.Random(name)
        self.numbers = 0
        # What is open, and the record that each of them ends with.
        self.open: dict[str, tuple[Any, str]] = {}

    def run(self) -> None:
        # A pause of seconds would be most of a trial.
        breaker.FIRST_PAUSE, breaker.LONGEST_PAUSE = 0.02, 0.1  # pyright: ignore
        stores = None
        while stores is None:
            with suppress(EverturnError):
                stores = PostgresStores(self.url, self.folder, deadline=DEADLINE, lease=LEASE, connections=2)
        while True:
            try:
                self._step(stores)
            except EverturnError as problem:
                self._tell(f"refused {type(problem).__name__}")
                time.sleep(0.002)

    def _step(self, stores: PostgresStores) -> None:
        if self.rng.random() < 0.1:
            if not stores.count(self.tenant, [CounterStep("calls", 1, CAP)]):
                self._tell("counted")
            return
        name = f"c{self.rng.randrange(CONVERSATIONS)}"
        store, tip = self.open.pop(name, (None, ""))
        if store is None:
            store = stores.open(self.tenant, name)
            tip = store.records[-1].uuid if store.records else ""
        elif not store.resume():
            store.close()
            return
        records = self._records(tip)
        try:
            store.append(records)
        except BaseException:
            store.close()
            raise
        self._tell(f"kept {name} {','.join(record.uuid for record in records)}")
        chance = self.rng.random()
        if chance < 0.4:
            store.close()
            return
        self.open[name] = store, records[-1].uuid
        if chance < 0.7:
            store.release()

    def _records(self, tip: str) -> list[Record]:
        """Each says which one it follows."""
        if tip and self.rng.random() < 0.2:
            first, second = self._uuid(), self._uuid()
            return [b.boundary(first, parent=tip), b.summary(f"after {tip}", uuid=second, parent=first)]
        made: list[Record] = []
        for _ in range(self.rng.randint(1, 3)):
            uuid = self._uuid()
            made.append(b.user(f"after {tip}", uuid=uuid, parent=tip))
            tip = uuid
        return made

    def _uuid(self) -> str:
        self.numbers += 1
        return f"{self.name}-{self.numbers}"

    def _tell(self, what: str) -> None:
        os.write(self.pipe, f"{what}\n".encode())


# ── the nemesis ──────────────────────────────────────────────────────────────────────────────────


class Nemesis:
    lifetime = seconds = SECONDS
    lease = LEASE

    def __init__(self, server: Server, tenant: str, folder: Path, rng: random.Random) -> None:
        self.server, self.tenant, self.folder, self.rng = server, tenant, folder, rng
        self.counts: Counter[str] = Counter()
        self.kept: dict[str, list[list[str]]] = {}
        self.counted = 0
        self._buffer = b""
        self._reading, self._writing = os.pipe()
        self._born = 0
        self._open_door()
        # Process ids of the replicas.
        self._replicas = [self._start() for _ in range(rng.choice((2, 4)))]
        self.counts[f"of {len(self._replicas)}"] += 1

    def _open_door(self) -> None:
        """The proxy is a process, too: one with threads should not fork."""
        told, self._tell_door = os.pipe()
        self._heard_door, answers = os.pipe()
        folder, server = self.folder / "door", self.server.folder
        folder.mkdir()

        def serve() -> None:
            proxy = Proxy(server, folder)
            os.write(answers, b".")
            while order := os.read(told, 1):
                if order == b"d":
                    proxy.drop()
                else:
                    proxy.set(("open", *MODES)[int(order)])
                os.write(answers, b".")

        self._door = fork(serve, self.lifetime)
        os.close(told)
        os.close(answers)
        os.read(self._heard_door, 1)
        self.url = self.server.url(host=str(folder))

    def _order(self, order: str) -> None:
        os.write(self._tell_door, order.encode())
        os.read(self._heard_door, 1)

    def _start(self) -> int:
        self._born += 1
        name = f"r{self._born}-{self.rng.randrange(10**6)}"
        replica = Replica(self.url, self.tenant, self.folder / name, name, self._writing)
        return fork(replica.run)

    @property
    def size(self) -> tuple[int, int]:
        """Acknowledged operations, and faults."""
        return OPERATIONS, MAX_FAULTS

    def run(self) -> None:
        end = time.monotonic() + self.seconds
        done = 0
        operations, faults = self.size
        while done < operations:
            if time.monotonic() > end:
                raise TimeoutError(f"only {done} operations in {self.seconds} s")
            self._listen(self.rng.uniform(0.005, 0.03))
            # Spread over the operations, so that each falls into the middle of some.
            if done > (self.counts["faults"] + 0.5) * operations / (faults + 1) and faults:
                self._hurt(self.rng.choice(FAULTS))
            done = sum(map(len, self.kept.values())) + self.counted
        self.counts["operations"] += done

    def _listen(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._reading], [], [], left)[0]:
                *lines, self._buffer = (self._buffer + os.read(self._reading, 65536)).split(b"\n")
                for line in lines:
                    self._hear(line.decode().split())

    def _hear(self, words: list[str]) -> None:
        self.counts[words[0]] += 1
        if words[0] == "kept":
            self.kept.setdefault(words[1], []).append(words[2].split(","))
        elif words[0] == "counted":
            self.counted += 1
        else:
            self.counts[words[1]] += 1

    def _hurt(self, fault: str) -> None:
        self.counts["faults"] += 1
        self.counts[fault] += 1
        pause = self.rng.choice((0.02, 0.1, 1.2 * self.lease))
        if fault == "kill":
            self._kill(victim := self.rng.choice(self._replicas))
            self._replicas[self._replicas.index(victim)] = self._start()
        elif fault == "stop":
            victim = self.rng.choice(self._replicas)
            os.kill(victim, signal.SIGSTOP)
            self._listen(pause)
            os.kill(victim, signal.SIGCONT)
        elif fault == "drop":
            self._order("d")
        elif fault == "restart":
            self.server.crash()
            self._listen(pause / 3)
            self.server.start()
        elif fault == "pause":
            self.server.pause()
            self._listen(pause)
            self.server.resume()
        elif fault == "clock":
            self._turn_clock()
        else:
            self._order(str(1 + MODES.index(fault)))
            self._listen(pause)
            self._order("0")

    def _turn_clock(self) -> None:
        """What a clock that jumps by an hour does to leases, and back again. A lease that the dead hold for
        an hour is then ended: nobody waits for it here."""
        hour = "interval '1 hour'" if self.rng.random() < 0.5 else "interval '-1 hour'"
        for until in (
            f"lease_until + {hour}",
            f"lease_until - {hour}",
            "least(lease_until, clock_timestamp())",
        ):
            # In an order, or it could wait for a replica that renews several leases and waits for it.
            self._ask(
                "WITH turned AS (SELECT name FROM everturn.conversation WHERE tenant = $1 "
                "AND isfinite(lease_until) ORDER BY name FOR UPDATE) "
                f"UPDATE everturn.conversation SET lease_until = {until} "
                "WHERE tenant = $1 AND name IN (SELECT name FROM turned)",
                self.tenant,
            )
            self._listen(0.02)

    def _kill(self, victim: int) -> None:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)

    def end(self) -> None:
        for each in (*self._replicas, self._door):
            self._kill(each)
        self.server.resume()
        self._listen(0.001)
        for each in (self._reading, self._writing, self._tell_door, self._heard_door):
            os.close(each)
        shutil.rmtree(self.folder / "door", ignore_errors=True)

    # ── the judge ────────────────────────────────────────────────────────────────────────────────

    def _ask(self, statement: str, *values: Any) -> list[Any]:
        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self.server.url(), timeout=10)
            try:
                return await connection.fetch(statement, *values)
            finally:
                connection.terminate()

        try:
            return asyncio.run(ask())
        except asyncpg.DeadlockDetectedError:
            # The server ended our statement, not a replica's: nothing of it has happened.
            return asyncio.run(ask())

    def check(self) -> None:
        for name in (f"c{number}" for number in range(CONVERSATIONS)):
            rows = self._ask(
                "SELECT line.at, line.data, conversation.lines FROM everturn.line JOIN everturn.conversation "
                "ON conversation.tenant = line.tenant AND conversation.name = line.conversation "
                "WHERE line.tenant = $1 AND line.conversation = $2 ORDER BY at",
                self.tenant,
                name,
            )
            self._check_rows(name, rows)
        (counter,) = self._ask(
            "SELECT coalesce(sum(amount), 0) FROM everturn.counter WHERE tenant = $1", self.tenant
        )
        if not self.counted <= counter[0] <= CAP:
            raise Forked(f"{self.counted} were counted, the counter says {counter[0]} of {CAP}")

    def _check_rows(self, name: str, rows: list[Any]) -> None:
        if [row["at"] for row in rows] != list(range(len(rows))) or {row["lines"] for row in rows} > {
            len(rows)
        }:
            raise Forked(f"{name}: rows are missing")
        transcript = parse_whole_file(b"".join(row["data"] + b"\n" for row in rows))
        if transcript.flaws:
            raise Forked(f"{name}: {transcript.flaws[0].what}")
        uuids = [record.uuid for record in transcript.records]
        if len(set(uuids)) < len(uuids):
            raise Forked(f"{name}: a record is there twice")
        self._check_kept(name, uuids)
        before = ["", *uuids]
        for at, record in enumerate(transcript.records):
            if record.is_boundary:
                self.counts["compactions"] += 1
                continue
            seen = before[at - 1] if record.compact_summary else before[at]
            said = msgspec.json.decode(record.raw)["message"]["content"]
            if said != f"after {seen}":
                raise Forked(f"{name}: {record.uuid} is {said}, and it follows {seen}")

    def _check_kept(self, name: str, uuids: list[str]) -> None:
        places = {uuid: at for at, uuid in enumerate(uuids)}
        for batch in self.kept.get(name, []):
            if any(each not in places for each in batch):
                raise Forked(f"{name}: {batch} was acknowledged, and is lost")
            first = places[batch[0]]
            if [places[each] for each in batch] != list(range(first, first + len(batch))):
                raise Forked(f"{name}: {batch} was acknowledged, and is not together")
