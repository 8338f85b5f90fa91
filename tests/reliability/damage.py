"""A transcript that a disk, a copy or another program has damaged: whatever opens it says what it lost.

A session of ours, sometimes behind lines of another writer, is damaged once: bits, blocks, lines swapped,
doubled, removed, cut. Where a byte that we answer for is no longer what it was, opening must say so, as a
note of the store and as a flaw of the transcript. Then the session is gone on with.
"""

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import builders as b
from faults.talks import talk
from reliability.scratch import in_memory
from reliability.transcripts import Scribe

from everturn.errors import InputError
from everturn.history.log import Log
from everturn.history.threads import split_threads
from everturn.session.store import JsonlStore
from everturn.session.transcripts import open_transcript
from everturn.view.flatten import flatten

# So many different talks; the damage is what varies.
TALKS = 50
BATCHES = 8
TAG = re.compile(rb',"everturnStore":\{[^{}]*"sum":"[0-9a-f]{8}"\}\}(?=\n|\Z)')
BLOCKS = (1, 16, 64, 512, 4_096)


class Silent(AssertionError):
    """Something was lost or changed, and nothing was said."""


def damaged(seed: int) -> Counter[str]:
    rng = random.Random(f"damage {seed}")
    with TemporaryDirectory(prefix="everturn-damage-", dir=in_memory()) as folder:
        path = Path(folder, "session.jsonl")
        has_state = write(path, rng)
        whole = path.read_bytes()
        kind = rng.choice(tuple(DAMAGES))
        left = DAMAGES[kind](whole, rng)
        path.write_bytes(left)
        was_told = told(path)
        if left != whole and is_ours(whole, left, has_state=has_state) and not was_told:
            raise Silent(f"{kind}: {len(whole):,} bytes became {len(left):,}, and opening them says nothing")
        if was_told != "refused":
            go_on(path)
    return Counter({"faults": left != whole, kind: 1, was_told or "silent": 1})


def write(path: Path, rng: random.Random) -> bool:
    """A session; returns whether it has a state beside it."""
    if rng.random() < 0.3:
        path.write_bytes(Scribe(random.Random(rng.randrange(TALKS)), is_broken=False).write(2).data)
    with JsonlStore.open(path, fsync="never") as store:
        for batch in talk(rng.randrange(TALKS), rng.randint(1, BATCHES)):
            store.append(batch)
        has_state = rng.random() < 0.8
        if has_state:
            store.write_state(b"{}")
    return has_state


def told(path: Path) -> str:
    """What opening says of the damage: nothing, that there is some, or that the file is no session."""
    try:
        flaws = open_transcript(path).flaws
        with JsonlStore.open(path, fsync="never") as store:
            if bool(store.notes) < bool(flaws):
                raise Silent(f"the store does not say what the reader says: {flaws[0].what}")
            return "told" if flaws else ""
    except InputError as problem:
        if not str(problem).strip():
            raise Silent("the file is refused without a word") from None
        return "refused"


def is_ours(whole: bytes, left: bytes, *, has_state: bool) -> bool:
    """Whether we answer for what was changed: everything, where a state says how the file ended; without one,
    what comes before the last checksum that is still there. Line breaks at the very end hold nothing."""
    pairs = zip(whole, left, strict=False)
    changed = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(whole), len(left)))
    if TAG.search(left, changed):
        return True
    # Lines of others behind the end are what others may append.
    return has_state and changed < len(whole.rstrip(b"\n"))


def go_on(path: Path) -> None:
    """The next record is kept, and is what the file is gone on with."""
    last = b.user("Where were we?", uuid="the-next")
    with JsonlStore.open(path, fsync="never") as store:
        before = store.flaws
        if store.read_only_reason:
            raise Silent(f"a damaged file cannot be gone on with: {store.read_only_reason}")
        store.append([last])
    with JsonlStore.open(path, fsync="never") as store:
        if store.records[-1].uuid != last.uuid or (before and not store.flaws):
            raise Silent("what was said after the damage is gone, or the damage is no longer told")
        flatten(Log(split_threads(store.records).main.records).view)


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


def _bits(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def _digit(data: bytes, rng: random.Random) -> bytes:
    """A byte that leaves the line readable: no reader would stumble over it."""
    places = [at for at, byte in enumerate(data) if 0x61 <= byte <= 0x7A or 0x30 <= byte <= 0x39]
    at = rng.choice(places)
    return data[:at] + bytes([data[at] - 1 if data[at] in b"z9" else data[at] + 1]) + data[at + 1 :]


def _block(data: bytes, rng: random.Random) -> bytes:
    """A block of zeros, of another part of the file, or of anything."""
    size = min(rng.choice(BLOCKS), len(data))
    at, other = rng.randrange(len(data)), rng.randrange(len(data))
    new = rng.choice((b"\0" * size, data[other : other + size], rng.randbytes(size)))
    return data[:at] + new + data[at + len(new) :]


def _block_gone(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data)), rng.choice(BLOCKS)
    return data[:at] + data[at + size :]


def _block_twice(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data)), rng.choice(BLOCKS)
    return data[: at + size] + data[at:]


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _lines(change: Callable[[list[bytes], random.Random], None]) -> Callable[[bytes, random.Random], bytes]:
    def changed(data: bytes, rng: random.Random) -> bytes:
        lines = data.splitlines(keepends=True)
        change(lines, rng)
        return b"".join(lines)

    return changed


def _swap(lines: list[bytes], rng: random.Random) -> None:
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def _double(lines: list[bytes], rng: random.Random) -> None:
    lines.insert(rng.randint(0, len(lines)), rng.choice(lines))


def _remove(lines: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    del lines[at : at + rng.choice((1, 1, 3))]


def _last_lines(lines: list[bytes], rng: random.Random) -> None:
    del lines[-rng.randint(1, min(3, len(lines))) :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "bits": _bits,
    "digit": _digit,
    "block": _block,
    "block gone": _block_gone,
    "block twice": _block_twice,
    "cut": _cut,
    "lines swapped": _lines(_swap),
    "line doubled": _lines(_double),
    "lines gone": _lines(_remove),
    "last lines gone": _lines(_last_lines),
}
