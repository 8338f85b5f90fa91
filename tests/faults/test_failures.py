"""A disk that refuses: every operation of the store fails in turn, once and for ever (F06, F08, F09, F15).

Whatever fails, the caller is told, nothing is acknowledged that is not durable, and nothing acknowledged
before is lost.
"""

import errno
import os

import pytest
from faults.disks import Inode, MemoryDisk, Trap
from faults.talks import Talk, flat, talk

from everturn.errors import StoreError
from everturn.session.store import JsonlStore

PATH = "/folder/session.jsonl"
BATCHES = talk(seed=11, length=6)


def failing(number: int):
    def bite() -> None:
        raise OSError(number, os.strerror(number))

    return bite


def appended(trap: Trap) -> tuple[int, list[str]]:
    """Append until the first refusal, then try on; how many batches were acknowledged, and what was said."""
    told, said = 0, []
    try:
        with JsonlStore.open(PATH, io=trap) as store:
            for batch in BATCHES:
                try:
                    store.append(batch)
                except StoreError as problem:
                    said.append(str(problem))
                else:
                    # A later append must not succeed where an earlier one failed.
                    assert said == []
                    told += 1
    except (StoreError, OSError) as problem:
        said.append(str(problem))
    return told, said


def operations() -> list[str]:
    trap = Trap(MemoryDisk(), failing(errno.EIO))
    assert appended(trap) == (len(BATCHES), [])
    return trap.done


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize("stays_shut", [False, True], ids=["once", "for_ever"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_whatever_operation_fails_nothing_acknowledged_is_lost(number, stays_shut, record_property):
    names = operations()
    # Releasing the lock may fail after the last acknowledgement: looking whether it is ours, removing and
    # closing it. All other failures are told.
    for at, name in enumerate(names, start=1):
        is_release = name in ("remove", "close") or names[at : at + 1] == ["remove"]
        disk = MemoryDisk()
        told, said = appended(Trap(disk, failing(number), at, stays_shut=stays_shut))
        assert said or is_release, (at, name)
        with JsonlStore.open(PATH, io=disk.after_death()) as store:
            found = [record.uuid for record in store.records]
        acknowledged = [record.uuid for record in flat(BATCHES[:told])]
        assert found[: len(acknowledged)] == acknowledged
        synced = disk.files.get(PATH, Inode()).synced
        assert all(record.uuid.encode() in synced for record in flat(BATCHES[:told]))
    record_property("trials", f"failures: {len(names)} of {len(names)} operations, {errno.errorcode[number]}")


@pytest.mark.parametrize("after_bytes", [0, 1, 200])
def test_a_short_write_is_an_error_and_what_it_left_is_kept_aside(after_bytes):
    disk = MemoryDisk()
    made = Talk(1)
    # The first write is the lock's.
    trap = Trap(disk, lambda: None, 3, "inside", after_bytes, only="write", stays_shut=False)
    store = JsonlStore.open(PATH, io=trap)
    store.append(made.say())
    with pytest.raises(StoreError, match=rf"only {after_bytes} of \d+ bytes were written"):
        store.append(made.say())
    left = disk.after_death()
    with JsonlStore.open(PATH, io=left) as store:
        assert [record.uuid for record in store.records] == ["t1"]
        store.append(made.say())
    with JsonlStore.open(PATH, io=left) as store:
        assert [record.uuid for record in store.records] == ["t1", "t3"]


def test_a_full_disk_is_said_with_what_to_do():
    trap = Trap(MemoryDisk(), failing(errno.ENOSPC), 2, only="write")
    store = JsonlStore.open(PATH, io=trap)
    with pytest.raises(StoreError) as told:
        store.append(Talk(1).say())
    assert str(told.value) == (
        f"The last append to {PATH} failed: No space left on device. "
        "Free some disk space, then open the session again."
    )


def test_a_sync_that_failed_is_never_tried_again():
    """A second sync may succeed though the bytes of the first are lost: the store must not ask (F08)."""
    trap = Trap(MemoryDisk(), failing(errno.EIO), 2, only="fsync", stays_shut=False)
    store = JsonlStore.open(PATH, io=trap)
    with pytest.raises(StoreError):
        store.append(Talk(1).say())
    with pytest.raises(StoreError, match="open it again"):
        store.append(Talk(2, "x").say())
    store.close()
    assert trap.done.count("fsync") == 2


def test_a_disk_that_cannot_be_written_is_noticed_when_it_is_opened():
    trap = Trap(MemoryDisk(), failing(errno.EROFS), 1, only="open")
    with pytest.raises(StoreError, match="mounted read-only"):
        JsonlStore.open(PATH, io=trap)


def test_an_interruption_leaves_a_store_that_takes_nothing_more():
    def interrupt() -> None:
        raise KeyboardInterrupt

    trap = Trap(MemoryDisk(), interrupt, 2, "after", only="write", stays_shut=False)
    store = JsonlStore.open(PATH, io=trap)
    with pytest.raises(KeyboardInterrupt):
        store.append(Talk(1).say())
    with pytest.raises(StoreError, match="was interrupted"):
        store.append(Talk(2, "x").say())
