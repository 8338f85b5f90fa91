"""The power goes out between a write and its sync: of what was not synced, any page may be there or not.

Pages are lost in any order, as a disk's own cache loses them; a lost one is a hole of zeros where a later one
was kept. Everything acknowledged was synced and must be there. Of the write under way any part may have come
through: of a compaction all or nothing may count, of other records each by itself.
"""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations

from faults.disks import Inode, MemoryDisk, Trap
from faults.talks import Batch, flat, seen, talk
from reliability.crashes import Broken

from everturn.history.records import Record
from everturn.session.store import JsonlStore

PATH = "/folder/session.jsonl"
# What a disk writes as one: a sector, a page of the system's cache; and less than both, for the talks are
# small, and a summary has many sectors.
PAGES = (64, 512, 4_096)
BATCHES = 9
# So many different talks; the cuts are what varies.
TALKS = 200


class PowerCut(BaseException):
    """Not an error: nothing in the session can catch it."""


def images(seed: int) -> Counter[str]:
    """One image of a disk after a power cut, read by the next process."""
    rng = random.Random(f"power {seed}")
    batches = talk(rng.randrange(TALKS), BATCHES)
    at = rng.randrange(len(batches))
    page = rng.choice(PAGES)
    left = MemoryDisk({PATH: cut(batches, at, page, rng)})
    with JsonlStore.open(PATH, io=left) as store:
        found = store.records
    check(found, batches[:at], batches[at])
    return Counter({"faults": 1, f"pages of {page}": 1})


def cut(batches: tuple[Batch, ...], at: int, page: int, rng: random.Random) -> Inode:
    """The file as the disk has it when the power goes out before the sync of batch number `at`."""
    disk = MemoryDisk()
    with JsonlStore.open(PATH, io=disk) as store:
        for batch in batches[:at]:
            store.append(batch)

    def out() -> None:
        raise PowerCut

    with suppress(PowerCut):
        # The folder is synced when the store is opened; the second sync is the append's.
        JsonlStore.open(PATH, io=Trap(disk, out, 2, only="fsync")).append(batches[at])
    inode = disk.files[PATH]
    lost = inode.data[len(inode.synced) :]
    pages = [lost[start : start + page] for start in range(0, len(lost), page)]
    there = b"".join(each if rng.random() < 0.5 else b"\0" * len(each) for each in pages)
    return Inode(inode.synced + there[: rng.randint(0, len(there))])


def check(records: Sequence[Record], kept: tuple[Batch, ...], under_way: Batch) -> None:
    safe = [record.uuid for record in flat(kept)]
    if [record.uuid for record in records[: len(safe)]] != safe:
        raise Broken("a record that was synced is gone")
    before = flat(kept)
    allowed = [seen(before), seen((*before, *under_way))]
    if not any(record.is_boundary for record in under_way):
        for size in range(1, len(under_way)):
            allowed += [seen((*before, *some)) for some in combinations(under_way, size)]
    if seen(records) not in allowed:
        raise Broken("after a power cut the view is neither the old one nor the new one")
