"""What recall costs, against the machine's own speed: ratios only.

asking       a question about 1M tokens takes as long as decoding 1 MB of the transcript (at most 1 in the
             median, at most 4 where words are not found and letters are looked for)
catching up  after one turn, at most a twentieth of building the index
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from _timing import best

from everturn.history.log import Log
from everturn.history.threads import split_threads
from everturn.replay.synthetic import generate_session
from everturn.session.recall.index import RecallIndex
from everturn.session.recall.search import recall
from everturn.wire.claude_code_reader import parse_session_file

QUERIES = (
    "timeout",
    "the parser fails",
    '"def test"',
    "error in configuration file",
    "nothing_has_this_name_anywhere",
    "return",
)


def main() -> int:
    lines = list(generate_session(seed=7, tokens=1_000_000))
    data = b"\n".join(lines) + b"\n"
    one = data[: data.rindex(b"\n", 0, 1_000_000)]
    decode = best(lambda: parse_session_file(one))
    log = Log(split_threads(parse_session_file(data).records).main.records)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(b"\n".join(lines[:-3]) + b"\n")
        start = time.perf_counter()
        index = RecallIndex(path)
        build = time.perf_counter() - start
        with path.open("ab") as file:
            file.write(b"\n".join(lines[-3:]) + b"\n")
        start = time.perf_counter()
        index.catch_up()
        more = time.perf_counter() - start
        asked = {query: best(lambda query=query: recall(query, index=index, log=log)) for query in QUERIES}
        index.close()
    ratio, follow = median(asked.values()) / decode, more / build
    each = ", ".join(f"{query!r} {seconds / decode:.2f}" for query, seconds in asked.items())
    print(f"asking about 1M tokens: {ratio:.2f} decodes of 1 MB in the median (at most 1)")
    print(f"  {each} (at most 4)")
    print(f"catching up with a turn: {follow:.4f} of building (at most 0.05)")
    print(f"  building: {build / decode:.0f} decodes of 1 MB")
    ok = ratio <= 1 and max(asked.values()) / decode <= 4 and follow <= 0.05
    print("all within their bounds" if ok else "OUT OF BOUNDS")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
