"""Rounds, tool pairs and the positions where a conversation may be cut.

A round is one model response with the results of its calls. A cut anywhere else would separate a call from
its result or a thinking block from its message, and the API refuses both (CP-12).
"""

from collections.abc import Iterable, Sequence

import msgspec

from everturn.history.blocks import Block, fields_of
from everturn.history.records import PAUSED, Record
from everturn.history.repair import SERVER_CALLS


class Round(msgspec.Struct, frozen=True):
    """Records [start, stop) of a view: a response and the results that answer it. `message_id` is empty for
    the records before the first response.
    """

    start: int
    stop: int
    message_id: str


class ToolPairs(msgspec.Struct, frozen=True):
    """Tool calls and results by id, in the order of their first appearance."""

    answered: tuple[str, ...]
    unanswered: tuple[str, ...]
    orphans: tuple[str, ...]
    repeated: tuple[str, ...]


def pair_tool_calls(records: Iterable[Record]) -> ToolPairs:
    calls: dict[str, int] = {}
    results: dict[str, int] = {}
    for record in records:
        for block in record.blocks:
            if block.is_call:
                calls[block.call] = calls.get(block.call, 0) + 1
            elif block.is_result:
                results[block.call] = results.get(block.call, 0) + 1
    return ToolPairs(
        answered=tuple(call for call in calls if call in results),
        unanswered=tuple(call for call in calls if call not in results),
        orphans=tuple(call for call in results if call not in calls),
        repeated=tuple(call for call in calls if calls[call] > 1 or results.get(call, 0) > 1),
    )


def split_rounds(records: Sequence[Record]) -> tuple[Round, ...]:
    """Split records into rounds. Every record is in exactly one; the parts of a split response share one."""
    if not records:
        return ()
    starts: list[tuple[int, str]] = [(0, "")]
    for at, record in enumerate(records):
        if record.kind == "assistant" and (not record.message_id or record.message_id != starts[-1][1]):
            if at == 0:
                starts.clear()
            starts.append((at, record.message_id))
    stops = [start for start, _ in starts[1:]] + [len(records)]
    return tuple(Round(start, stop, name) for (start, name), stop in zip(starts, stops, strict=True))


def find_cut_points(records: Sequence[Record]) -> tuple[int, ...]:
    """Positions where the records may be divided without separating what belongs together."""
    open_ties = [0] * (len(records) + 1)
    for first, last in (*_tie_by_name(records), *_tie_paused(records)):
        open_ties[first] += 1
        open_ties[last] -= 1
    points: list[int] = []
    held = 0
    for at in range(len(records)):
        if held == 0:
            points.append(at)
        held += open_ties[at]
    return (*points, len(records))


def _tie_by_name(records: Sequence[Record]) -> Iterable[Sequence[int]]:
    """The first and the last record of each message, and of each call with its result."""
    messages: dict[str, list[int]] = {}
    calls: dict[str, list[int]] = {}
    for at, record in enumerate(records):
        if name := record.message_id:
            messages.setdefault(name, [at, at])[1] = at
        for block in record.blocks:
            if name := _call_of(block):
                calls.setdefault(name, [at, at])[1] = at
    return (*messages.values(), *calls.values())


def _call_of(block: Block) -> str:
    """The id of a call, on the call and on its result. That of a call which the provider runs is in its
    fields: its result may be in the reply that goes on."""
    return str(fields_of(block).get("id", "")) if block.kind in SERVER_CALLS else block.call


def _tie_paused(records: Sequence[Record]) -> Iterable[Sequence[int]]:
    """Each paused reply, and the reply that goes on with it."""
    paused = -1
    for at, record in enumerate(records):
        if record.kind == "assistant":
            if paused >= 0:
                yield paused, at
            paused = at if record.reply is not None and record.reply.stop_reason == PAUSED else -1
        elif record.kind == "user":
            paused = -1
