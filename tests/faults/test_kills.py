"""Killed at every operation and inside every write: after a restart the view is the old one or the new one.

Most trials die in this process, by an exception that nothing catches, on a disk in memory; some hundred are
forked processes that are killed with SIGKILL on a real disk. Both ask the same of what is left.
"""

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from faults.disks import Inode, MemoryDisk, Trap, When
from faults.talks import Batch, Talk, flat, seen, talk

from everturn.history.log import Log
from everturn.history.records import Record
from everturn.session.store import FileSystem, JsonlStore, LocalFileSystem

PATH = "/folder/session.jsonl"
SEED = 20_261_115


class Killed(BaseException):
    """Death: not an error, so that no handler of errors catches it."""


def die() -> None:
    raise Killed


@dataclass(frozen=True)
class Point:
    """Where to die while batch number `batch` is appended."""

    batch: int
    operation: int
    when: When
    after_bytes: int = 0


def append_all(io: FileSystem, path: str, batches: Sequence[Batch], acknowledge: Callable[[], None]) -> None:
    with JsonlStore.open(path, io=io) as store:
        for batch in batches:
            store.append(batch)
            acknowledge()


def points(batches: Sequence[Batch], *, every_byte: int) -> Iterator[Point]:
    """Before and after each operation of each append; and within its write, after every so many bytes."""
    for at in range(len(batches)):
        disk = disk_with(batches[:at])
        trap = Trap(disk, die)
        before = len(disk.files[PATH].data)
        append_all(trap, PATH, batches[at : at + 1], lambda: None)
        for number, _ in enumerate(trap.done, start=1):
            yield Point(at, number, "before")
            yield Point(at, number, "after")
        # The first write is the lock's, the second one ours.
        write = [n for n, name in enumerate(trap.done, start=1) if name == "write"][1]
        for cut in range(0, len(disk.files[PATH].data) - before, every_byte):
            yield Point(at, write, "inside", cut)


@cache
def bytes_of(batches: tuple[Batch, ...]) -> bytes:
    disk = MemoryDisk()
    append_all(disk, PATH, batches, lambda: None)
    return disk.files[PATH].data


def disk_with(batches: Sequence[Batch]) -> MemoryDisk:
    return MemoryDisk({PATH: Inode(bytes_of(tuple(batches)))})


def check_what_is_left(open_again: Callable[[], JsonlStore], kept: Sequence[Batch], lost: Batch) -> None:
    """`kept` was acknowledged; `lost` was being appended and may be there whole, in part, or not at all."""
    with open_again() as store:
        found = store.records
    before, left = flat(kept), seen(found)
    allowed = [before, (*before, *lost)]
    if not any(record.is_boundary for record in lost):
        allowed += [(*before, *lost[:n]) for n in range(1, len(lost))]
    assert any(left == seen(records) for records in allowed)
    names = [record.uuid for record in found]
    acknowledged = [record.uuid for record in before]
    assert names[: len(acknowledged)] == acknowledged
    boundary = next((record for record in reversed(left[0]) if record.is_boundary), None)
    assert boundary is None or any(record.compact_summary for record in left[0])
    check_that_it_goes_on(open_again, found)


def check_that_it_goes_on(open_again: Callable[[], JsonlStore], found: Sequence[Record]) -> None:
    """What comes next stands on a line of its own, and everything from before is still there."""
    more = Talk(1, "again")
    more.log = Log(found)
    with open_again() as store:
        store.append(more.say())
    with open_again() as store:
        assert seen(store.records) == seen((*found, *more.batches[0]))


def run_in_process(batches: Sequence[Batch], point: Point) -> None:
    start = disk_with(batches[: point.batch])
    trap = Trap(start, die, point.operation, point.when, point.after_bytes)
    acknowledged: list[int] = []
    with pytest.raises(Killed):
        append_all(trap, PATH, batches[point.batch : point.batch + 1], lambda: acknowledged.append(1))
    left = start.after_death()
    kept = batches[: point.batch + len(acknowledged)]
    lost = () if acknowledged else batches[point.batch]
    check_what_is_left(lambda: JsonlStore.open(PATH, io=left), kept, lost)


@pytest.mark.spec("TR-10")
def test_a_death_at_any_operation_and_byte_leaves_the_old_view_or_the_new(is_soak, record_property):
    length, seeds, every = (12, range(SEED, SEED + 20), 1) if is_soak else (11, (SEED, SEED + 1), 24)
    trials, possible = 0, 0
    for seed in seeds:
        batches = talk(seed, length)
        possible += sum(1 for _ in points(batches, every_byte=1))
        for point in points(batches, every_byte=every):
            run_in_process(batches, point)
            trials += 1
    said = f"{trials:,} of {possible:,} points, seeds {seeds[0]} to {seeds[-1]}, 0 violations"
    record_property("trials", f"deaths in process: {said}")
    assert trials >= 1_000


@pytest.mark.spec("TR-10")
def test_a_second_death_while_the_first_is_mended_leaves_the_old_view(record_property):
    batches = talk(SEED, 11)
    trials = 0
    for at, batch in enumerate(batches):
        if len(batch) < 3 or not batch[0].is_boundary:
            continue
        whole = disk_with(batches[: at + 1]).files[PATH].data
        # Behind the summary's line: boundary and summary are there, what was brought back is not.
        start = len(disk_with(batches[:at]).files[PATH].data)
        behind = whole.index(b"\n", whole.index(b"\n", start) + 1) + 1
        for left, cut in [(whole[: behind + torn], cut) for torn in (0, 30) for cut in range(0, 700, 9)]:
            disk = MemoryDisk({PATH: Inode(left)})
            talking = Talk(1, "more")
            talking.log = Log(flat(batches[:at]))
            more = talking.say()
            trap = Trap(disk, die, 2, "inside", cut, only="write")
            with pytest.raises(Killed):
                append_all(trap, PATH, [more], lambda: None)
            after = disk.after_death()
            check_what_is_left(lambda disk=after: JsonlStore.open(PATH, io=disk), batches[:at], more)
            trials += 1
    record_property("trials", f"second deaths: {trials:,} points, seed {SEED}, 0 violations")
    assert trials >= 200


def killed_at(path: Path, batches: Sequence[Batch], point: Point) -> int:
    """Append in a child until it is killed; how many batches it was told are safe."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of threads, which a child that only writes files has no use for.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        trap = Trap(
            LocalFileSystem(), lambda: os.kill(os.getpid(), signal.SIGKILL), 0, point.when, point.after_bytes
        )
        acknowledged = 0

        def acknowledge() -> None:
            nonlocal acknowledged
            acknowledged += 1
            os.write(writing, b"+")
            if acknowledged == point.batch:
                trap.at = len(trap.done) + point.operation

        trap.at = point.operation if point.batch == 0 else 0
        append_all(trap, str(path), batches, acknowledge)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = len(pipe.read())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    return told


def real_points(batches: Sequence[Batch], *, every_byte: int) -> Iterator[Point]:
    """The operations of an append on a store that is already open: look, write, sync."""
    sizes = [len(disk_with(batches[:n]).files[PATH].data) for n in range(1, len(batches) + 1)]
    for at in range(1, len(batches)):
        for number in (1, 2, 3):
            yield Point(at, number, "before")
            yield Point(at, number, "after")
        for cut in range(0, sizes[at] - sizes[at - 1], every_byte):
            yield Point(at, 2, "inside", cut)


@pytest.mark.spec("TR-10")
def test_a_process_that_is_killed_with_sigkill_loses_nothing_it_acknowledged(
    is_soak, record_property, tmp_path
):
    batches = talk(SEED, 8)
    every = 3 if is_soak else 54
    chosen = list(real_points(batches, every_byte=every))
    for number, point in enumerate(chosen):
        path = tmp_path / f"{number}.jsonl"
        told = killed_at(path, batches, point)
        # Dead after the last sync and before the word of it: the batch is there, and nobody was told.
        assert told == point.batch
        check_what_is_left(
            lambda path=path: JsonlStore.open(path, fsync="never"), batches[:told], batches[told]
        )
    possible = sum(1 for _ in real_points(batches, every_byte=1))
    said = f"{len(chosen):,} of {possible:,} points, seed {SEED}, 0 violations"
    record_property("trials", f"processes killed with SIGKILL: {said}")
    assert len(chosen) >= 120
