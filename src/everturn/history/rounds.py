"""Rounds, tool pairs and the positions where a conversation may be cut.

A round is one model response with the results of its calls. A cut anywhere else would separate a call from
its result or a thinking block from its message, and the API refuses both (CP-12).
"""

from collections.abc import Iterable, Sequence

import msgspec

from everturn.history.records import Record


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
    # What ties records together, from the first to the last of them: a message, and a call with its result.
    messages: dict[str, list[int]] = {}
    calls: dict[str, list[int]] = {}
    for at, record in enumerate(records):
        if name := record.message_id:
            messages.setdefault(name, [at, at])[1] = at
        for block in record.blocks:
            if name := block.call:
                calls.setdefault(name, [at, at])[1] = at
    open_ties = [0] * (len(records) + 1)
    for first, last in (*messages.values(), *calls.values()):
        open_ties[first] += 1
        open_ties[last] -= 1
    points: list[int] = []
    held = 0
    for at in range(len(records)):
        if held == 0:
            points.append(at)
        held += open_ties[at]
    return (*points, len(records))
