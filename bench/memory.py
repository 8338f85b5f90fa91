"""What an open session holds in memory, against the bytes of its view: ratios only.

The view is the JSON of the messages that would be sent. Held is what Python has allocated for the session
(tracemalloc, in a process that does nothing else); resident is what the process grew by, which counts
freed memory that the allocator keeps. At most three times the view is allowed to be held. What a compaction
takes out of view stays in memory, since it can be undone: that is shown, without a bound.
"""

import gc
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import msgspec

from everturn.replay.synthetic import SessionShape, generate_session
from everturn.session.session import Session
from everturn.session.upstream import RawResponse
from everturn.view.flatten import flatten
from everturn.wire.anthropic import Request

SIZES = (200_000, 1_000_000)
ALLOWED = 3
# One chain, all of it in view. Without the copies of results that only a terminal shows: their size is a
# matter of the program that wrote the file.
SHAPE = SessionShape(boundaries=0, sidechains=0, images=0, display_copies="short")
PAGE = 4_096
REPLY = msgspec.json.encode(
    {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [{"type": "text", "text": "It is done."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 10, "output_tokens": 5},
    }
)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def talked(path: Path) -> Session:
    """Opened, and one turn held: what only a turn makes is there too. The policy edits nothing, so all of it
    stays in view."""
    session = Session.open(path, policy="none", send=lambda body, betas: RawResponse(REPLY))
    session.send("Go on, please.")
    return session


def compacted(path: Path) -> Session:
    how = {"strategies": ("extractive",)}
    session = Session.open(path, compact=how, send=lambda body, betas: RawResponse(REPLY))
    session.compact()
    return session


def view_bytes(session: Session) -> int:
    messages = flatten(session.conversation.log.view).messages
    return len(Request(model="", messages=messages).to_bytes())


def measure(path: Path) -> None:
    """In a process of its own: prints the bytes held, the growth of the process, and the view; and again what
    is held and in view after a compaction."""
    # Once for what is made once: caches of the interpreter, compiled expressions.
    talked(path).close()
    gc.collect()
    before = resident()
    session = talked(path)
    gc.collect()
    grown = resident() - before
    session.close()
    del session
    gc.collect()
    tracemalloc.start()
    session = talked(path)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    view = view_bytes(session)
    session.close()
    del session
    gc.collect()
    session = compacted(path)
    gc.collect()
    print(held, grown, view, tracemalloc.get_traced_memory()[0], view_bytes(session))
    session.close()


def ratio_at(tokens: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        data = b"".join(line + b"\n" for line in generate_session(seed=7, tokens=tokens, shape=SHAPE))
        path.write_bytes(data)
        out = subprocess.run(
            [sys.executable, __file__, str(path)], capture_output=True, text=True, check=True
        )
    held, grown, view, held_after, view_after = map(int, out.stdout.split())
    print(
        f"{tokens:>9,} tokens: a view of {view / 1e6:.1f} MB, held {held / view:.2f} times "
        f"(resident {grown / view:.2f}); the file has {len(data) / 1e6:.1f} MB"
    )
    print(
        f"{'':>9} after a compaction: a view of {view_after / 1e6:.1f} MB, held {held_after / 1e6:.1f} MB"
        f" ({held_after / view:.2f} times the view before it)"
    )
    return held / view


def main() -> int:
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
        return 0
    ok = max(map(ratio_at, SIZES)) <= ALLOWED
    print(f"all within {ALLOWED} times the view" if ok else "OUT OF BOUNDS")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
