"""What keeping a session costs, against the machine's own speed: ratios only.

opening again   at most twice the decoding of the file
appending       a turn to a long session takes as long as to an empty one (at most 1.5), without syncs
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec
from _timing import best

from everturn.history.blocks import text_block
from everturn.history.records import Record
from everturn.replay.synthetic import generate_session
from everturn.session.store import JsonlStore
from everturn.wire.claude_code_reader import parse_session_file

TURNS = 300


def append_seconds(path: Path) -> float:
    said = (text_block("Go on, and tell me what you find. " * 20),)
    found: list[float] = []
    with JsonlStore.open(path, fsync="never") as store:
        for turn in range(TURNS):
            record = Record(kind="user", uuid=f"bench-{os.getpid()}-{turn}", blocks=said)
            start = time.perf_counter()
            store.append([record])
            found.append(time.perf_counter() - start)
    return median(found)


def main() -> int:
    data = b"\n".join(generate_session(seed=7, tokens=1_000_000)) + b"\n"
    lines = data.split(b"\n")[:-1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(data)
        opening = best(lambda: JsonlStore.open(path).close())
        decoding = best(lambda: parse_session_file(data))
        plain = best(lambda: [msgspec.json.decode(line) for line in lines])
        to_long, to_empty = append_seconds(path), append_seconds(Path(folder) / "empty.jsonl")
    ratio, growth = opening / decoding, to_long / to_empty
    print(f"opening {len(data) / 1e6:.1f} MB again: {ratio:.2f} decodings of the file (at most 2)")
    print(f"  {opening / plain:.2f} of a plain msgspec decode of its lines")
    print(f"appending to it: {growth:.2f} of appending to an empty one (at most 1.5)")
    ok = ratio <= 2 and growth <= 1.5
    print("all within their bounds" if ok else "OUT OF BOUNDS")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
