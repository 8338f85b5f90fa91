"""The index beside the transcript, killed by the kernel at any byte that SQLite writes.

A limit on the size of files is the trap: the write that reaches it is cut off there, and the next one ends
the process. The index is only derived, so nothing can be lost with it; but what is left must open, catch up,
and find what an index that was never disturbed finds.
"""

import os
import random
import resource
import shutil
import signal
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from faults.talks import flat, talk
from reliability.crashes import Broken, Stumbled, forked

from everturn.session.recall.index import RecallIndex
from everturn.session.recall.query import parse_query
from everturn.session.store import JsonlStore

# Beyond what the index of such a session takes; some trials are not disturbed at all.
MOST_BYTES = 300_000
BATCHES = 30
ASKED = ("parse", "file", "quoted")


@cache
def place() -> TemporaryDirectory[str]:
    """One session for this process, without an index."""
    folder = TemporaryDirectory(prefix="everturn-index-")
    with JsonlStore.open(Path(folder.name, "session.jsonl"), fsync="never") as store:
        store.append(flat(talk(seed=5, length=BATCHES)))
    return folder


def found_in(index: RecallIndex) -> list[list[str]]:
    """What is found for a few words, in an order that does not depend on chance."""
    return [sorted(match.passage.text for match in index.find(parse_query(word), 50)[0]) for word in ASKED]


@cache
def found_in_new() -> list[list[str]]:
    """The same for every trial: each has a copy of the one session."""
    with closing(RecallIndex(Path(place().name, "session.jsonl"), place=":memory:")) as fresh:
        return found_in(fresh)


def indexed(seed: int) -> Counter[str]:
    rng = random.Random(f"index {seed}")
    with TemporaryDirectory(dir=place().name) as folder:
        path = Path(shutil.copy(Path(place().name, "session.jsonl"), folder))
        if rng.random() < 0.3:
            # An older index is there, and catches up.
            _grown(path)
        code = _built(path, limit=rng.randrange(MOST_BYTES))
        if code not in (0, -signal.SIGXFSZ):
            raise Stumbled(f"the child ended with {code}")
        with closing(RecallIndex(path)) as again:
            if found_in(again) != found_in_new():
                raise Broken("an index that was cut off finds other things than a new one")
    killed = int(code != 0)
    return Counter({"faults": killed, "killed": killed})


def _grown(path: Path) -> None:
    whole = path.read_bytes()
    half = whole[: whole.index(b"\n", len(whole) // 2) + 1]
    path.write_bytes(half)
    RecallIndex(path).close()
    path.write_bytes(whole)


def _built(path: Path, *, limit: int) -> int:
    def child(_: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        RecallIndex(path).close()
        os._exit(0)

    return forked(child)[1]
