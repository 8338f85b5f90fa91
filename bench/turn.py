"""What one turn's decisions cost: micro-compaction, markers, prediction, snapshot; not the request's bytes.

the decisions       the same at 50K, 200K and 1M tokens (growth exponent below 0.1)
against the bytes   at 1M tokens, less than half of building the request that they are about
against the whole   at least 100 times less than deciding everything anew from the log
"""

import math
import sys
from datetime import UTC, datetime, timedelta
from itertools import count
from statistics import median

import msgspec
from _timing import best, clock

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.options import Options
from everturn.engine import Conversation, ConversationSettings, Turn
from everturn.history.records import Record, Usage, record_time
from everturn.history.rounds import split_rounds
from everturn.history.threads import split_threads
from everturn.measure.capabilities import ANTHROPIC, EXTENDED_TWIN, Capabilities
from everturn.measure.model_table import find_model
from everturn.replay.demo_session import coding_preamble
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.twin.costs import TwinCosts
from everturn.view.key_parameters import KeyParameters, choose_ttl
from everturn.wire.claude_code_reader import parse_session_file

SIZES = (50_000, 200_000, 1_000_000)
GROWTH, SHARE, ANEW = 0.1, 0.5, 100
TURNS = 200
ONE_CHAIN = SessionShape(boundaries=0, sidechains=0, idle_gaps=0)
NEVER_TWICE = count()


def setting(able: Capabilities) -> ConversationSettings:
    model, kept = find_model("claude-opus-5"), Options(compact=CompactSettings(enabled=False))
    assert model is not None
    return ConversationSettings(
        model=model,
        capabilities=able,
        options=kept,
        costs=TwinCosts(model),
        preamble=coding_preamble(),
        parameters=KeyParameters(choose_ttl("main", "conversation", kept.cache.ttl, able)),
        fields={"max_tokens": 8_000},
    )


def conversation(records: list[Record], able: Capabilities) -> tuple[Conversation, datetime]:
    """A conversation of these records that has been under way for a while: each reply was a call."""
    held = Conversation(setting(able))
    now = datetime(2026, 11, 1, tzinfo=UTC)
    for record in records:
        now = record_time(record) or now
        if record.kind == "assistant" and held.log.records[-1].kind != "assistant":
            drive(held, now)
            held.record_reply([record], Usage(cache_read_input_tokens=1), now)
        else:
            held.add(record)
    return held, now


def drive(held: Conversation, now: datetime) -> Turn:
    turn = held.turn(now, lambda: f"bench-{next(NEVER_TWICE)}")
    try:
        effect = next(turn)
        while True:
            effect = turn.send(f"kept/{effect.name}")
    except StopIteration as done:
        return done.value


def renamed(turn: list[Record]) -> list[Record]:
    """The same turn once more, under other names: a call id is used once."""
    name = f"-{next(NEVER_TWICE)}".encode()
    found: list[Record] = []
    for record in turn:
        blocks = tuple(
            msgspec.structs.replace(
                block,
                call=block.call + name.decode(),
                raw=block.raw.replace(block.call.encode(), block.call.encode() + name),
            )
            if block.call
            else block
            for block in record.blocks
        )
        reply = record.reply and msgspec.structs.replace(record.reply, message_id=name.decode())
        found.append(
            msgspec.structs.replace(record, uuid=record.uuid + name.decode(), blocks=blocks, reply=reply)
        )
    return found


def turn_seconds(records: list[Record], last: list[Record], able: Capabilities) -> tuple[float, Turn]:
    """Median over many turns of a conversation of about that size, each a reply and what answers it."""
    held, now = conversation(records, able)
    found: list[float] = []
    turn = drive(held, now)
    for _ in range(TURNS):
        said, *answers = renamed(last)
        held.record_reply([said], Usage(cache_read_input_tokens=1), now)
        now += timedelta(seconds=5)
        start = clock()
        for record in answers:
            held.add(record)
        turn = drive(held, now)
        found.append(clock() - start)
    return median(found), turn


def measured(name: str, sessions: dict[int, list[Record]], last: list[Record], able: Capabilities) -> bool:
    turns = {size: turn_seconds(records, last, able) for size, records in sessions.items()}
    seconds = {size: spent for size, (spent, _) in turns.items()}
    longest, largest = seconds[SIZES[-1]], sessions[SIZES[-1]]
    growth = math.log(longest / seconds[SIZES[0]]) / math.log(SIZES[-1] / SIZES[0])
    share = longest / best(lambda: turns[SIZES[-1]][1].request().to_bytes())
    now = record_time(largest[-1]) or datetime(2026, 11, 1, tzinfo=UTC)
    anew = best(lambda: drive(Conversation(setting(able), largest), now), 2) / longest
    shown = ", ".join(f"{size // 1000}K {spent * 1e6:.0f} µs" for size, spent in seconds.items())
    print(f"a turn's decisions, {name}: {shown}")
    print(f"  growth exponent {growth:.3f} (below {GROWTH})")
    print(f"  {share:.2f} of building the request's bytes at 1M tokens (below {SHARE})")
    print(f"  deciding anew from the log of 1M tokens costs {anew:.0f} turns (at least {ANEW})")
    return growth < GROWTH and share < SHARE and anew >= ANEW


def main() -> int:
    sessions: dict[int, list[Record]] = {}
    for size in SIZES:
        data = b"\n".join(generate_session(seed=7, tokens=size, shape=ONE_CHAIN))
        records = list(split_threads(parse_session_file(data).records).main.records)
        sessions[size] = records[: split_rounds(records)[-2].start]
    # The same turn everywhere: what is compared is the conversation behind it.
    again = split_rounds(records)[-2]
    last = records[again.start : again.stop]
    able = {"public API": ANTHROPIC, "with deletions in the cache": EXTENDED_TWIN}
    within = [measured(name, sessions, last, each) for name, each in able.items()]
    print("all within their bounds" if all(within) else "OUT OF BOUNDS")
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
