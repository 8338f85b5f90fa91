"""What the summary without a model costs, against plain decodes of the same records. Ratios only.

summarizing a view    less than ten plain msgspec decodes of its records, at 150K tokens
scoring a summary     shown beside it, without a bound
"""

import sys

import msgspec
from _timing import best

from everturn.decide.extractive import summarize
from everturn.decide.retention import measure_retention
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.measure.tokens import rough
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.wire.claude_code_reader import parse_session_file

SIZES = (50_000, 150_000, 500_000)
JUDGED = 150_000
DECODES = 10
# Without the copies of results that only a terminal shows: they would flatter the ratio.
SHAPE = SessionShape(boundaries=0, sidechains=0, images=0, display_copies="short")


def conversation(tokens: int) -> list[Record]:
    data = b"\n".join(generate_session(seed=7, tokens=tokens, shape=SHAPE))
    return list(split_threads(parse_session_file(data).records).main.records)


def measured(tokens: int) -> float:
    """Plain decodes that one summary costs."""
    records = conversation(tokens)
    lines = [record.raw for record in records]
    decode = msgspec.json.Decoder().decode
    plain = best(lambda: [decode(line) for line in lines])
    summary = summarize(records)
    ours = best(lambda: summarize(records)) / plain
    scored = best(lambda: measure_retention(records, summary.text)) / plain
    print(
        f"{tokens // 1000:>4}K tokens, {len(records):,} records: a summary of {rough(summary.text):,} tokens "
        f"costs {ours:.1f} plain decodes, its score {scored:.1f}"
    )
    return ours


def main() -> int:
    costs = {size: measured(size) for size in SIZES}
    ok = costs[JUDGED] < DECODES
    print(f"{costs[JUDGED]:.1f} of {DECODES} allowed" if ok else f"OUT OF BOUNDS: {costs[JUDGED]:.1f}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
