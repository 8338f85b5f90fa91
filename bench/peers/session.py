"""The conversation that everyone is measured on, and how each of them spells it.

One made-up session per size, and turns that are added to it one by one: half of them lead up to the size,
half beyond. Peers are given exactly the messages that everturn would send if it edited nothing.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec

from everturn.history.records import Record
from everturn.history.rounds import split_rounds
from everturn.history.threads import split_threads
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.view.flatten import Flattener
from everturn.wire.anthropic import Request
from everturn.wire.claude_code_reader import parse_session_file

SIZES = (50_000, 200_000, 1_000_000)
WARM_UP = 3
TIMED = 20
# Of JSON, signatures and all. The twin bills these sessions at very nearly that.
BYTES_A_TOKEN = 3
# More than the turns beyond the size can need: a round of these sessions has about a thousand.
SPARE_TOKENS = 100_000
ONE_CHAIN = SessionShape(boundaries=0, sidechains=0, images=0, idle_gaps=0, display_copies="short")


class Session(msgspec.Struct, frozen=True):
    """What was said before, and the turns to come: a response each, with what answered it."""

    tokens: int
    before: Sequence[Record]
    turns: Sequence[Sequence[Record]]


def session(tokens: int) -> Session:
    lines = generate_session(seed=7, tokens=tokens + SPARE_TOKENS, shape=ONE_CHAIN)
    records = split_threads(parse_session_file(b"\n".join(lines)).records).main.records
    parts = split_rounds(records)
    sizes = accumulate(_bytes(records[part.start : part.stop]) for part in parts)
    reached = next(at for at, size in enumerate(sizes) if size >= tokens * BYTES_A_TOKEN)
    first = reached - (WARM_UP + TIMED) // 2
    turns = [records[part.start : part.stop] for part in parts[first : first + WARM_UP + TIMED]]
    return Session(tokens, records[: parts[first].start], turns)


def _bytes(records: Sequence[Record]) -> int:
    return sum(len(block.raw) for record in records for block in record.blocks)


def requests(told: Session) -> list[list[dict[str, Any]]]:
    """The messages of each turn's request, as plain JSON values. Requests share the messages they share."""
    flattener = Flattener()
    for record in told.before:
        flattener.add(record)
    asked = [_plain(flattener)]
    for turn in told.turns:
        for record in turn:
            flattener.add(record)
        asked.append(_plain(flattener))
    shared = asked[-1]
    return [[*shared[: len(each) - 1], each[-1]] for each in asked[1:]]


def _plain(flattener: Flattener) -> list[dict[str, Any]]:
    body = Request(model="any", messages=tuple(flattener.flat().messages)).to_bytes()
    return msgspec.json.decode(body)["messages"]


def text_of_result(block: dict[str, Any]) -> str:
    content = block.get("content", "")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
