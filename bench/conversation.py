"""What a conversation costs everturn: adding a turn, opening a file, building a request. Ratios only.

adding a turn       the same at 50K, 200K and 1M tokens (growth exponent below 0.1), and at least 300
                    times less than counting the 1M conversation anew
opening a file      at most 3 times a plain msgspec decode of its lines
request bytes       at most one msgspec encode of the whole
"""

import math
import sys
from statistics import median

import msgspec
from _timing import best, best_of_both, clock

from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.rounds import split_rounds
from everturn.history.threads import split_threads
from everturn.measure.accounting import Accounts
from everturn.measure.meter import Meter
from everturn.measure.thresholds import ThresholdSettings, check_thresholds, compute_thresholds
from everturn.measure.tokens import TokenCounter
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.view.flatten import Flattener
from everturn.wire.anthropic import Request
from everturn.wire.claude_code_reader import parse_session_file

SIZES = (50_000, 200_000, 1_000_000)
# A turn is one call of the model: its response, and the results or the words that answer it.
ROUNDS_A_TURN = 1
ONE_CHAIN = SessionShape(boundaries=0, sidechains=0)


class Opened:
    """A conversation with everything that a turn keeps up to date."""

    def __init__(self, records: list[Record]) -> None:
        self.log, self.counts = Log(), TokenCounter()
        self.meter, self.accounts = Meter(self.counts), Accounts(self.counts)
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        self.log.append(record)
        self.meter.add(record)
        self.accounts.add(record)

    def turn(self, records: list[Record]) -> None:
        for record in records:
            self.add(record)
        settings = ThresholdSettings()
        check_thresholds(self.meter.size().tokens, compute_thresholds(1_000_000, 128_000, settings), settings)
        self.accounts.metrics()


def session(tokens: int) -> tuple[bytes, list[Record]]:
    data = b"\n".join(generate_session(seed=7, tokens=tokens, shape=ONE_CHAIN))
    return data, list(split_threads(parse_session_file(data).records).main.records)


def one_turn(records: list[Record]) -> list[Record]:
    """The last whole round of a session: the same one is added to conversations of every size."""
    last = split_rounds(records)
    return records[last[-1 - ROUNDS_A_TURN].start : last[-1].start]


def turn_seconds(records: list[Record], turn: list[Record]) -> float:
    """Median over many turns, each added to a conversation of about that size."""
    opened = Opened(records)
    renamed = [
        [msgspec.structs.replace(record, uuid=f"{record.uuid}-{times}") for record in turn]
        for times in range(200)
    ]
    found: list[float] = []
    for extra in renamed:
        start = clock()
        opened.turn(extra)
        found.append(clock() - start)
    return median(found)


def main() -> int:
    sessions = {size: session(size) for size in SIZES}
    turn = one_turn(sessions[SIZES[0]][1])
    per_turn = {size: turn_seconds(records, turn) for size, (_, records) in sessions.items()}
    growth = math.log(per_turn[SIZES[-1]] / per_turn[SIZES[0]]) / math.log(SIZES[-1] / SIZES[0])
    _, records = sessions[SIZES[-1]]
    anew = best(lambda: Opened(records), 3)
    shown = ", ".join(f"{size // 1000}K {seconds * 1e6:.0f} µs" for size, seconds in per_turn.items())
    print(f"adding a turn: {shown}")
    print(f"  growth exponent {growth:.3f} (below 0.1)")
    print(f"  counting 1M anew costs {anew / per_turn[SIZES[-1]]:.0f} turns (at least 300)")

    four = b"\n".join(generate_session(seed=7, tokens=1_000_000))[:4_000_000]
    four = four[: four.rindex(b"\n")]
    lines = four.split(b"\n")
    plain, load = best_of_both(
        lambda: [msgspec.json.decode(line) for line in lines],
        lambda: Log(split_threads(parse_session_file(four).records).main.records),
    )
    print(f"opening a {len(four) / 1e6:.1f} MB file: {load / plain:.2f} plain decodes (at most 3)")

    flattener = Flattener()
    for record in records:
        flattener.add(record)
    request = Request(model="m", messages=tuple(flattener.flat().messages))
    body = request.to_bytes()
    value = msgspec.json.decode(body)
    encode, build = best_of_both(
        lambda: msgspec.json.encode(value),
        lambda: Request(model="m", messages=tuple(flattener.since(0))).to_bytes(),
    )
    whole = f"request bytes at 1M tokens ({len(body) / 1e6:.1f} MB)"
    print(f"{whole}: {build / encode:.2f} encodes of the whole (at most 1)")
    ok = growth < 0.1 and anew / per_turn[SIZES[-1]] >= 300 and load / plain <= 3 and build / encode <= 1
    print("all within their bounds" if ok else "OUT OF BOUNDS")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
