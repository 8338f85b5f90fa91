"""Processes that die, or whose disk fails, in the middle of a write of a session; then what is left is read.

A child is forked, does one scene (`scenes.py`) and is stopped at a chosen call (`saboteur.py`). It tells
through a pipe what it was told is safe. Of what it left, the next process must see: every record that was
acknowledged, in order; the old view or the new one, never a half compaction; small files that are whole.
"""

import json
import os
import random
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from faults.disks import Inode, MemoryDisk
from faults.talks import Batch, flat, seen
from reliability.saboteur import ENDINGS, WRITE, Point, Saboteur
from reliability.scenes import SCENES, Desk, Stage, read_records

from everturn.errors import EverturnError
from everturn.history.edits import Offloaded
from everturn.session.runtime import NOTES_SUFFIX
from everturn.session.state_file import SessionState
from everturn.session.store import JsonlStore, lock
from everturn.session.transcripts import STATE_SUFFIX as STATE
from everturn.wire.claude_code_writer import encode_record

SECONDS = 20
# A whole session is opened and gone on with after every so many trials; the store of it after each one.
GOES_ON_EVERY = 20
PATH = "/folder/session.jsonl"


class Broken(AssertionError):
    """A promise that did not hold: something acknowledged is lost, or a compaction is there by halves."""


class Stumbled(RuntimeError):
    """The trial itself went wrong; nobody knows what it would have shown."""


@dataclass(frozen=True)
class Told:
    """What a child said before its end: the batches that were acknowledged, and the one under way."""

    batches: tuple[Batch, ...]
    under_way: Batch = ()
    calls: tuple[str, ...] = ()
    raised: str = ""
    is_whole: bool = False


# ── the child ────────────────────────────────────────────────────────────────────────────────────


def forked(act: Callable[[int], None]) -> tuple[bytes, int]:
    """What a child wrote to the pipe, and how it ended."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of threads, which a child that only writes files has no use for.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        # A child that hangs would hold up everything: it is ended by its own alarm.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            act(writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    return told, os.waitstatus_to_exitcode(status)


def _acknowledging(say: Callable[[dict[str, Any]], None]) -> None:
    """Every append is told before it begins and when it returns, whichever session makes it."""
    append = JsonlStore.append

    def told(store: JsonlStore, records: Any) -> None:
        say({"under way": [encode_record(record).decode() for record in records]})
        append(store, records)
        say({"kept": True})

    JsonlStore.append = told  # type: ignore[method-assign]


def played(stage: Stage, scene: str, point: Point) -> tuple[Told, int]:
    """One scene in a child; after a failure it tries to go on, as a program would."""

    def child(pipe: int) -> None:
        write = os.write

        def say(what: dict[str, Any]) -> None:
            write(pipe, json.dumps(what).encode() + b"\n")

        _acknowledging(say)
        # The child plays the process that has opened the session, and owns its lock.
        lock.getpid = os.getppid
        saboteur = Saboteur(point)
        saboteur.install()
        try:
            SCENES[scene](stage.desk, stage.session)
        except EverturnError as problem:
            say({"raised": type(problem).__name__})
        except OSError as problem:
            say({"raised": f"OSError {problem}"})
        say({"calls": saboteur.calls})
        if point.ending != "kill":
            _try_on(stage, say)
        say({"whole": True})
        os._exit(0)

    told, code = forked(child)
    lines = [json.loads(line) for line in told.splitlines() if line.endswith(b"}")]
    return _heard(lines), code


def _try_on(stage: Stage, say: Callable[[dict[str, Any]], None]) -> None:
    try:
        stage.desk.box.script("Still here.")
        stage.session.send("And now?")
    except EverturnError as problem:
        say({"then": type(problem).__name__})


def _heard(lines: Sequence[dict[str, Any]]) -> Told:
    batches: list[Batch] = []
    under_way: Batch = ()
    for line in lines:
        if "under way" in line and not under_way:
            # After a failed append the store takes nothing more: what is on the disk is of the first.
            under_way = read_records("\n".join(line["under way"]).encode())
        elif "kept" in line:
            batches, under_way = [*batches, under_way], ()
    return Told(
        tuple(batches),
        under_way,
        next((tuple(line["calls"]) for line in lines if "calls" in line), ()),
        next((line["raised"] for line in lines if "raised" in line), ""),
        any("whole" in line for line in lines),
    )


# ── the trial ────────────────────────────────────────────────────────────────────────────────────


class Theatre:
    """A stage, and for each scene how it goes when nothing is in its way."""

    def __init__(self, folder: Path) -> None:
        self.stage = Stage(folder)
        self.base = self.stage.base
        self._whole: dict[str, tuple[str, ...]] = {}

    def rehearsed(self, scene: str) -> tuple[str, ...]:
        """The calls of a scene that change the disk."""
        if scene not in self._whole:
            told, code = played(self.stage, scene, Point())
            self.stage.put_back(self._left())
            if code or not told.is_whole:
                raise Stumbled(f"{scene} does not come to its end by itself ({code}, {told.raised})")
            self._whole[scene] = told.calls
        return self._whole[scene]

    def _left(self) -> dict[str, bytes]:
        return self.stage.bytes_now()

    def trial(self, scene: str, point: Point, *, goes_on: bool = False) -> Told:
        """Raises `Broken` where a promise did not hold, `Stumbled` where nobody can say."""
        self.rehearsed(scene)
        told, code = played(self.stage, scene, point)
        left = self._left()
        self.stage.put_back(left)
        if code not in (0, -signal.SIGKILL):
            raise Stumbled(f"{scene} at {point} ended with {code}")
        if told.raised.startswith("OSError"):
            raise Broken(f"{scene}: an error of the disk reached the caller as it is ({told.raised})")
        self.check(left, told)
        if goes_on:
            self.check_that_it_goes_on(left)
        return told

    # ── what is left ─────────────────────────────────────────────────────────────────────────────

    def check(self, left: dict[str, bytes], told: Told) -> None:
        found = self._reopened(left[self.stage.desk.path.name])
        names = [record.uuid for record in found]
        kept = (*self.base, *flat(told.batches))
        safe = [record.uuid for record in kept]
        if names[: len(safe)] != safe:
            lost = [name for name in safe if name not in names]
            raise Broken(f"{len(lost)} acknowledged records are gone: {', '.join(lost[:3])}")
        self._check_view(found, kept, told.under_way)
        self._check_beside(left)
        self._check_offloaded(found, left)

    def _reopened(self, data: bytes) -> Any:
        with JsonlStore.open(PATH, io=MemoryDisk({PATH: Inode(data)}), fsync="never") as store:
            return store.records

    def _check_view(self, found: Any, kept: Batch, batch: Batch) -> None:
        """The old view, or the new one; of an append that is no compaction, any of its records."""
        allowed = [seen(kept), seen((*kept, *batch))]
        if not any(record.is_boundary for record in batch):
            allowed += [seen((*kept, *batch[:n])) for n in range(1, len(batch))]
        if seen(found) not in allowed:
            raise Broken("the view is neither the old one nor the new one")

    def _check_beside(self, left: dict[str, bytes]) -> None:
        """Small files are the old ones or the new ones, never a piece of one."""
        name = self.stage.desk.path.name
        if (state := left.get(name + STATE)) is not None:
            try:
                msgspec.json.decode(state, type=SessionState)
            except msgspec.MsgspecError:
                raise Broken(f"{name}{STATE} is there by halves") from None
        text = left.get(name + NOTES_SUFFIX, b"")
        if not (
            text == self.stage.kept[name + NOTES_SUFFIX]
            or (text.startswith(b"# Notes\nwhat") and len(text) > 900)
        ):
            raise Broken(f"{name}{NOTES_SUFFIX} is there by halves")

    def _check_offloaded(self, found: Any, left: dict[str, bytes]) -> None:
        """A result is in its file before the model is told that it is there."""
        for edit in (record.edit for record in found if isinstance(record.edit, Offloaded)):
            text = left.get(Path(edit.path).relative_to(self.stage.desk.folder).as_posix(), b"").decode()
            if len(text) != edit.characters:
                raise Broken(f"{edit.path} holds {len(text):,} of {edit.characters:,} characters")

    def check_that_it_goes_on(self, left: dict[str, bytes]) -> None:
        """The next process opens the session and is answered."""
        with TemporaryDirectory(dir=self.stage.desk.folder.parent) as place:
            for name, data in left.items():
                path = Path(place, name)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
            desk = Desk(Path(place))
            desk._ids = iter(range(90_000_000, 99_000_000))  # type: ignore[assignment]
            desk.box.script("Good.")
            with desk.open(fsync="never") as session:
                if session.send("Where were we?").text != "Good.":
                    raise Broken("the session does not go on")


@cache
def theatre() -> Theatre:
    """One for this process; its folder goes when the process does."""
    folder = TemporaryDirectory(prefix="everturn-crashes-")
    made = Theatre(Path(folder.name) / "stage")
    made.folder = folder  # type: ignore[attr-defined]
    return made


def points(scene: str) -> list[Point]:
    """Before and after every call, and in the middle of each write."""
    calls = theatre().rehearsed(scene)
    found = [Point(at, when) for at, _ in enumerate(calls, start=1) for when in ("before", "after")]
    return found + [Point(at, "inside") for at, name in enumerate(calls, start=1) if WRITE in name]


def killed(seed: int) -> Counter[str]:
    """A process killed with SIGKILL: at a call by chance; within a write, after any of its bytes."""
    rng = random.Random(f"kill {seed}")
    scene = rng.choice(tuple(SCENES))
    point = rng.choice(points(scene))
    if point.when == "inside":
        point = Point(point.at, "inside", rng.random())
    theatre().trial(scene, point, goes_on=seed % GOES_ON_EVERY == 0)
    return Counter({"faults": 1, scene: 1, point.when: 1})


def refused(seed: int) -> Counter[str]:
    """A disk that fails at a call by chance, once or for ever."""
    rng = random.Random(f"refuse {seed}")
    scene = rng.choice(tuple(SCENES))
    where = rng.choice(points(scene))
    ending, for_ever = rng.choice(ENDINGS), rng.random() < 0.5
    point = Point(where.at, where.when, rng.random(), ending, for_ever)
    told = theatre().trial(scene, point, goes_on=seed % GOES_ON_EVERY == 0)
    return Counter({"faults": 1, scene: 1, ending: 1, "told": bool(told.raised)})
