"""What a replay costs beside reading the file: one session of about 4 MB under several policies. Ratios only.

a session of 4 MB under seven policies     below 5 s
"""

import sys
import tempfile
from pathlib import Path

import msgspec
from _timing import best

from everturn.replay.policies import parse_policy
from everturn.replay.sessions import ReplaySession, read_session
from everturn.replay.simulate import index_uses, simulate
from everturn.replay.synthetic import SessionShape, generate_session

POLICIES = (
    "none", "recorded", "claude-code", "when-cold", "clear-keep-3", "masking", "sliding-window",
)  # fmt: skip
SECONDS = 5.0


def main() -> int:
    lines = list(generate_session(seed=7, tokens=450_000, shape=SessionShape(boundaries=2, idle_gaps=6)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(b"\n".join(lines))
        session = read_session(path)
        size = path.stat().st_size
    assert isinstance(session, ReplaySession)
    plain = best(lambda: [msgspec.json.decode(line) for line in lines])
    index = best(lambda: index_uses(session), 3)
    uses = index_uses(session)
    print(f"a session of {size / 1e6:.1f} MB: indexing its uses costs {index / plain:.1f} plain decodes")
    whole = index
    for name in POLICIES:
        seconds = best(lambda name=name: simulate(session, parse_policy(name), uses), 3)
        whole += seconds
        print(f"  {name:<16} {seconds / plain:6.1f} plain decodes")
    ok = whole < SECONDS
    print(f"all {len(POLICIES)}: {whole / plain:.0f} plain decodes, {whole:.2f} s (below {SECONDS:.0f} s)")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
