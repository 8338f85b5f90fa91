"""Several writers and one session file, on one machine: a session, a middleware, commands, and programs that
know no lock.

In turns: each of them opens, says something, compacts, undoes or leaves, whenever it likes. At once:
processes that open, append and close as fast as they can, and somebody who removes the lock. Whoever is told
that something is kept finds it in the file; whoever cannot write is told so in words; lines are never mixed.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import builders as b
from click.testing import CliRunner
from faults.talks import Talk
from reliability.crashes import Stumbled, forked
from reliability.scenes import Desk, quiet
from reliability.scratch import in_memory

import everturn
from everturn.adapters.anthropic_sdk.middleware import AnthropicSDKMiddleware
from everturn.cli import main
from everturn.decide.events import PassedThrough
from everturn.errors import StoreError
from everturn.session.store import JsonlStore
from everturn.session.store.lock import SUFFIX
from everturn.wire.claude_code_reader import parse_session_file

STEPS = 7
WRITERS = 3
ROUNDS = 4
LONG = "Look closely at what the login test has shown. " * 20
# What mixed lines look like, and lines that a writer did not know of.
MIXED = frozenset({"torn", "glued", "hole", "not_json", "not_utf8", "checksum"})


class Mixed(AssertionError):
    """Something that was acknowledged is gone, or two writers have written into each other."""


def wrote(seed: int) -> Counter[str]:
    rng = random.Random(f"writers {seed}")
    with TemporaryDirectory(prefix="everturn-writers-", dir=in_memory()) as folder, quiet():
        return in_turns(Path(folder), rng) if rng.random() < 0.5 else at_once(Path(folder), rng)


# ── in turns ─────────────────────────────────────────────────────────────────────────────────────


class Office:
    """One file, and everybody who wants to write it. The middleware has begun it."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.counts: Counter[str] = Counter()
        # Every word that somebody was told is kept.
        self.kept: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.desk = Desk(folder)
        self.session: everturn.Session | None = None
        # What the middleware says of files that it cannot write; its conversation is then in memory only.
        self.problems: list[PassedThrough] = []
        self.middleware = self._middleware()
        self.call()
        (self.path,) = folder.glob("*.jsonl")

    def _middleware(self) -> AnthropicSDKMiddleware:
        def listen(event: Any) -> None:
            if isinstance(event, PassedThrough):
                self.problems.append(event)

        return everturn.middleware(folder=self.folder, config=None, listen=listen)

    def new_words(self) -> str:
        self.counts["said"] += 1
        return f"Said as number {self.counts['said']}. {LONG}"

    def call(self) -> None:
        """Through the middleware, which goes on in a file of its own where this one is not free."""
        words = self.new_words()
        self.messages.append({"role": "user", "content": words})
        self.desk.box.script(f"Answer {self.counts['said']}.")
        reply = self.desk.box.client(middleware=[self.middleware]).messages.create(
            model="claude-haiku-4-5",
            max_tokens=500,
            messages=self.messages,  # type: ignore[arg-type]
        )
        self.messages.append(
            {"role": "assistant", "content": [{"type": "text", "text": reply.content[0].text}]}
        )  # type: ignore[union-attr]
        self.kept += [] if self.problems else [words]

    def leave(self) -> None:
        """The next program of the same kind; it knows what it is sent."""
        self.middleware.close()
        self.problems.clear()
        self.middleware = self._middleware()

    def open(self) -> None:
        if self.session is not None:
            return
        with self._told():
            self.session = self.desk.open(self.path, fsync="never")

    def send(self) -> None:
        self.open()
        if self.session is None:
            return
        words = self.new_words()
        self.desk.box.script(f"Answer {self.counts['said']}.")
        with self._told():
            self.session.send(words)
            self.kept.append(words)
            return
        # What a store that stopped has is seen by the next one.
        self.close()

    def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def command(self) -> None:
        name = self.rng.choice(("compact", "undo"))
        done = CliRunner(env={"ANTHROPIC_API_KEY": None}).invoke(main, [name, str(self.path)])
        if done.exit_code and not done.stderr.startswith("Error: "):
            raise Mixed(
                f"everturn {name} ended with {done.exit_code} and said {done.output!r}"
            ) from done.exception
        self.counts[f"{name} {done.exit_code}"] += 1

    def stranger(self) -> None:
        """Another program appends a line, without asking anybody."""
        words = self.new_words()
        line = {"type": "user", "uuid": f"stranger-{self.counts['said']}", "parentUuid": None, "isMeta": True}
        with self.path.open("ab") as file:
            file.write(json.dumps({**line, "message": {"role": "user", "content": words}}).encode() + b"\n")
        self.kept.append(words)
        self.counts["faults"] += 1

    def _told(self) -> "suppress":
        """Whoever cannot write is told with an error of the store."""
        office = self

        class Told(suppress):
            def __exit__(self, kind: Any, problem: Any, trace: Any) -> bool:
                if problem is not None and isinstance(problem, StoreError):
                    office.counts[type(problem).__name__] += 1
                return bool(super().__exit__(kind, problem, trace))

        return Told(StoreError)

    def check(self) -> None:
        self.close()
        self.middleware.close()
        data = {path: path.read_bytes() for path in self.folder.glob("*.jsonl")}
        missing = [words for words in self.kept if not any(words.encode() in each for each in data.values())]
        if missing:
            raise Mixed(f"{len(missing)} acknowledged messages are in no file: {missing[0][:40]}")
        for path in data:
            check_lines(path)
        self.open()
        self.send()
        if not self.kept[-1].startswith(f"Said as number {self.counts['said']}."):
            raise Mixed("the session does not go on")
        self.close()


def check_lines(path: Path) -> None:
    with JsonlStore.open(path, access="read") as store:
        wrong = [flaw for flaw in store.flaws if flaw.kind in MIXED]
    if wrong:
        raise Mixed(f"line {wrong[0].line} of {path.name}: {wrong[0].what}")


def in_turns(folder: Path, rng: random.Random) -> Counter[str]:
    office = Office(folder, rng)
    acts: tuple[Callable[[], None], ...] = (
        office.call, office.call, office.leave, office.leave, office.open, office.send, office.send,
        office.close, office.command, office.command, office.stranger,
    )  # fmt: skip
    for _ in range(STEPS):
        rng.choice(acts)()
    office.check()
    return office.counts


# ── at once ──────────────────────────────────────────────────────────────────────────────────────


def at_once(folder: Path, rng: random.Random) -> Counter[str]:
    """Processes that all want the same file. With somebody who removes the lock, two of them may be in the
    file together for a moment: they are told, or what both wrote is there."""
    path = folder / "session.jsonl"
    removes = rng.random() < 0.3
    with JsonlStore.open(path, fsync="never") as store:
        store.append([b.user("first", uuid="first")])
    seeds = [rng.randrange(10**6) for _ in range(WRITERS)]
    told = _together(lambda at, pipe: _write(path, at, seeds[at], pipe, removes=removes))
    data = path.read_bytes()
    found = {record.uuid for record in parse_session_file(data).records}
    lost = [name for name in told["kept"] if name not in found]
    if lost:
        raise Mixed(f"{len(lost)} acknowledged records are gone: {lost[0]}")
    if not removes:
        check_lines(path)
    return Counter({"faults": len(told["refused"]), "kept": len(told["kept"]), "lock removed": removes})


def _together(act: Callable[[int, int], None]) -> dict[str, list[str]]:
    """What all children said; they run at the same time."""

    def child(pipe: int) -> None:
        for at in range(1, WRITERS):
            if os.fork() == 0:
                act(at, pipe)
                os._exit(0)
        act(0, pipe)
        for _ in range(1, WRITERS):
            os.wait()
        os._exit(0)

    told, code = forked(child)
    if code:
        raise Stumbled(f"a writer ended with {code}")
    found: dict[str, list[str]] = {"kept": [], "refused": [], "wrong": []}
    for line in told.decode().splitlines():
        kind, _, name = line.partition(" ")
        found[kind].append(name)
    if found["wrong"]:
        raise Mixed(f"a writer was stopped by something that is no word about the store: {found['wrong'][0]}")
    return found


def _write(path: Path, at: int, seed: int, pipe: int, *, removes: bool) -> None:
    rng, talk = random.Random(seed), Talk(seed, f"w{at}-")

    def say(kind: str, name: str) -> None:
        os.write(pipe, f"{kind} {name}\n".encode())

    for _ in range(ROUNDS):
        batch = rng.choice((talk.say, talk.work))()
        try:
            with JsonlStore.open(path, fsync="never") as store:
                for record in batch:
                    store.append([record])
                    say("kept", record.uuid)
                if removes and rng.random() < 0.5:
                    with suppress(OSError):
                        os.unlink(f"{path}{SUFFIX}")
        except StoreError as problem:
            say("refused", type(problem).__name__)
        except Exception as problem:
            say("wrong", repr(problem))
