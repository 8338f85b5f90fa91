"""The power goes out between a write and its sync: of what was not synced, any page may be there or not.

Pages are lost in any order, as a disk's own cache loses them; a lost one is a hole of zeros where a later one
was kept. Everything acknowledged was synced and must be there. Of the write under way any part may have come
through: of a compaction all or nothing may count, of other records each by itself.
"""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
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
    number = rng.randrange(TALKS)
    at = rng.randrange(len(batches_of(number)))
    page = rng.choice(PAGES)
    left = MemoryDisk({PATH: cut(written(number, at), page, rng)})
    with JsonlStore.open(PATH, io=left) as store:
        found = store.records
    check(found, number, at)
    return Counter({"faults": 1, f"pages of {page}": 1})


# The talks are few and the cuts are many: what does not depend on the cut is made once in a process.


@cache
def batches_of(number: int) -> tuple[Batch, ...]:
    return talk(number, BATCHES)


@cache
def written(number: int, at: int) -> Inode:
    """The file, and what of it is synced, when the power goes out before the sync of batch number `at`."""
    batches, disk = batches_of(number), MemoryDisk()
    with JsonlStore.open(PATH, io=disk) as store:
        for batch in batches[:at]:
            store.append(batch)

    def out() -> None:
        raise PowerCut

    with suppress(PowerCut):
        # The folder is synced when the store is opened; the second sync is the append's.
        JsonlStore.open(PATH, io=Trap(disk, out, 2, only="fsync")).append(batches[at])
    return disk.files[PATH]


@cache
def allowed_views(number: int, at: int) -> tuple[tuple[object, ...], ...]:
    """The old view and the new one; of an append that is no compaction, that of any of its records."""
    before, under_way = flat(batches_of(number)[:at]), batches_of(number)[at]
    allowed = [seen(before), seen((*before, *under_way))]
    if not any(record.is_boundary for record in under_way):
        for size in range(1, len(under_way)):
            allowed += [seen((*before, *some)) for some in combinations(under_way, size)]
    return tuple(allowed)


def forget() -> None:
    """What was made with other code counts no more: tests break it on purpose."""
    for made in (batches_of, written, allowed_views):
        made.cache_clear()


def cut(inode: Inode, page: int, rng: random.Random) -> Inode:
    """The file as the disk has it afterwards."""
    lost = inode.data[len(inode.synced) :]
    pages = [lost[start : start + page] for start in range(0, len(lost), page)]
    there = b"".join(each if rng.random() < 0.5 else b"\0" * len(each) for each in pages)
    return Inode(inode.synced + there[: rng.randint(0, len(there))])


def check(records: Sequence[Record], number: int, at: int) -> None:
    safe = [record.uuid for record in flat(batches_of(number)[:at])]
    if [record.uuid for record in records[: len(safe)]] != safe:
        raise Broken("a record that was synced is gone")
    if seen(records) not in allowed_views(number, at):
        raise Broken("after a power cut the view is neither the old one nor the new one")
