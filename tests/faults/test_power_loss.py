"""The power goes out: what was not synced may be gone, cut, or a hole of zeros (F05, F10).

With "always" no acknowledged record is lost; with "batch" none that was synced; with "never" the file is
still a session, and what is left of it is a beginning of what was written.
"""

import random

import pytest
from faults.disks import Inode, MemoryDisk
from faults.talks import flat, seen, talk

from everturn.session.store import Fsync, JsonlStore

PATH = "/folder/session.jsonl"
PAGE = 64
SEED = 77


def left_of(inode: Inode, rng: random.Random) -> Inode:
    """What the disk holds: all that was synced, and of the rest any page or none."""
    lost = inode.data[len(inode.synced) :]
    pages = [lost[at : at + PAGE] for at in range(0, len(lost), PAGE)]
    there = b"".join(page if rng.random() < 0.5 else b"\0" * len(page) for page in pages)
    return Inode(inode.synced + there[: rng.randint(0, len(there))])


def lived(fsync: Fsync, batches, *, syncs_at: int) -> MemoryDisk:
    """The disk at the moment of the power cut: the store was never closed."""
    disk = MemoryDisk()
    store = JsonlStore.open(PATH, fsync=fsync, io=disk)
    for at, batch in enumerate(batches, start=1):
        store.append(batch)
        if at == syncs_at:
            store.sync()
    return disk


def found_after(disk: MemoryDisk, rng: random.Random) -> tuple[list[str], JsonlStore]:
    after = MemoryDisk({PATH: left_of(disk.files[PATH], rng)})
    store = JsonlStore.open(PATH, io=after)
    return [record.uuid for record in store.records], store


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize(("fsync", "synced"), [("always", 9), ("batch", 5), ("never", 0)])
def test_a_power_cut_takes_nothing_that_was_synced(fsync, synced, is_soak, record_property):
    rng = random.Random(SEED)
    trials = 5_000 if is_soak else 150
    batches = talk(SEED, 9)
    disk = lived(fsync, batches, syncs_at=5)
    names = [record.uuid for record in flat(batches)]
    safe = [record.uuid for record in flat(batches[:synced])]
    for _ in range(trials):
        found, store = found_after(disk, rng)
        assert found[: len(safe)] == safe
        # A hole may take records in the middle; what is there is in order, and nothing is made up.
        kept = [name for name in found if name in names]
        assert kept == sorted(kept, key=names.index)
        store.close()
    record_property("trials", f"power cuts with {fsync}: {trials:,}, seed {SEED}, 0 synced records lost")


def test_a_power_cut_in_the_middle_of_a_write_leaves_the_old_view_or_the_new():
    rng = random.Random(SEED)
    batches = talk(SEED, 9)
    for at, batch in enumerate(batches):
        if not any(record.is_boundary for record in batch):
            continue
        disk = lived("always", batches[:at], syncs_at=0)
        whole = lived("always", batches[: at + 1], syncs_at=0)
        disk.files[PATH].data = whole.files[PATH].data
        for _ in range(100):
            cut = disk.files[PATH]
            size = rng.randint(len(cut.synced), len(cut.data))
            after = MemoryDisk({PATH: Inode(cut.data[:size])})
            with JsonlStore.open(PATH, io=after) as store:
                assert seen(store.records) in [seen(flat(batches[:at])), seen(flat(batches[: at + 1]))]


def test_batch_syncs_when_told_and_when_closed_and_never_does_not():
    batches = talk(SEED, 3)
    states = {}
    for fsync in ("batch", "never"):
        disk = MemoryDisk()
        store = JsonlStore.open(PATH, fsync=fsync, io=disk)
        store.append(batches[0])
        before = disk.files[PATH].synced
        store.sync()
        synced = disk.files[PATH].synced == disk.files[PATH].data
        store.append(batches[1])
        store.close()
        states[fsync] = (before, synced, disk.files[PATH].synced == disk.files[PATH].data)
    assert states == {"batch": (b"", True, True), "never": (b"", False, False)}
