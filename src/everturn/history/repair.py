"""Makes a broken turn valid: with explicit placeholders, and a report of every change (TR-11).

A turn is one assistant message and the user content that answers it. Crashes, interrupts and other tools
leave calls without results, results without calls, and ids used twice; the API refuses all three. Ids and
placeholders are derived from the records, never random: equal input gives equal bytes.
"""

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any, Literal

import msgspec

from everturn.history.blocks import (
    TOOL_RESULT,
    TOOL_USE,
    Block,
    block_from_fields,
    fields_of,
    parts_of,
    result_block,
    text_block,
    with_field,
)
from everturn.history.blocks import text_of as words_of

RepairKind = Literal[
    "missing_result", "orphan_result", "repeated_result", "repeated_call", "repeated_block", "blank_text",
    "misplaced_block", "missing_start", "trailing_thinking", "tool_input", "negative_usage", "server_call",
    "missing_tool",
]  # fmt: skip

# Calls of tools that the provider runs. Their results are in the same message, or in the reply that goes on.
SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
# Block kinds that both a result and a user's message may contain.
STANDS_ALONE = frozenset({"image", "document", "search_result"})

NO_RESULT = "[No result was recorded for this call: the session was interrupted or the record is lost]"


class Repair(msgspec.Struct, frozen=True):
    """One change that was needed for the API to accept a view. `where` is a call id, or empty."""

    kind: RepairKind
    where: str
    what: str


def distinct_calls(
    blocks: Sequence[Block], used: MutableMapping[str, int], repairs: list[Repair]
) -> list[Block]:
    """The blocks of an assistant message, with every call id made unique over the earlier ones."""
    found: list[Block] = []
    here: set[Block] = set()
    for block in blocks:
        if not block.is_call:
            found.append(block)
            continue
        if block in here:
            repairs.append(Repair("repeated_block", block.call, "the same call was recorded twice"))
            continue
        here.add(block)
        if not block.call or block.call in used:
            renamed = _renamed(block, _unused(block.call, used))
            what = f"a second call with this id is now {renamed.call}"
            repairs.append(Repair("repeated_call", block.call, what))
            block = renamed
        used[block.call] = 1
        found.append(block)
    return found


def end_server_calls(
    blocks: Sequence[Block], repairs: list[Repair], *, before: Sequence[Block] = ()
) -> list[Block]:
    """The blocks of an assistant message after which the user has spoken. A call of a tool that the provider
    runs (web search) gets no result any more, and without one the API refuses the message: an error is put
    behind it, before calls that the user's message answers. `before`: the blocks of earlier replies, whose
    calls may still run (code that calls several tools, one after the other)."""
    ends = [_unavailable(call, repairs) for call in open_server_calls([*before, *blocks])]
    at = next((at for at, block in enumerate(blocks) if block.is_call), len(blocks)) if ends else 0
    return [*blocks[:at], *ends, *blocks[at:]]


def open_server_calls(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """The fields of those calls of the provider's own tools that have no result in these blocks."""
    return [fields_of(call) for call in server_calls_under_way(blocks)]


def server_calls_under_way(blocks: Sequence[Block]) -> list[Block]:
    """The same as blocks."""
    calls = [block for block in blocks if block.kind in SERVER_CALLS]
    answered = {block.call for block in blocks if block.kind.endswith(TOOL_RESULT)} if calls else ()
    return [call for call in calls if fields_of(call).get("id") not in answered]


def _unavailable(call: dict[str, Any], repairs: list[Repair]) -> Block:
    id, name = str(call.get("id", "")), str(call.get("name", ""))
    what = "a call of the provider's own tool without a result got an error"
    repairs.append(Repair("server_call", id, what))
    if call["type"] == "mcp_tool_use":
        fields = {"type": "mcp_tool_result", "tool_use_id": id, "is_error": True, "content": NO_RESULT}
        return block_from_fields(fields)
    kind = "tool_search_tool_result" if name.startswith("tool_search_tool_") else f"{name}_{TOOL_RESULT}"
    error = {"type": f"{kind}_error", "error_code": "unavailable"}
    return block_from_fields({"type": kind, "tool_use_id": id, "content": error})


def _unused(call: str, used: MutableMapping[str, int]) -> str:
    """An id derived from the recorded one: `toolu_x-2`, `toolu_x-3`, ..."""
    base = call or "toolu_unnamed"
    times = used.get(call, 1) + 1
    while f"{base}-{times}" in used:
        times += 1
    used[call] = times
    return f"{base}-{times}"


def pair_results(
    calls: Sequence[Block], results: Iterable[Block], original: Sequence[str], repairs: list[Repair]
) -> tuple[list[Block], list[Block]]:
    """Exactly one result per call, in the order of arrival; results that answer no call become text.

    `original` holds the recorded ids of the calls, where `calls` have new ones: a result is matched to its
    call by position among those with the same recorded id.
    """
    waiting: dict[str, list[str]] = {}
    for call, recorded in zip(calls, original, strict=True):
        waiting.setdefault(recorded, []).append(call.call)
    known = set(waiting)
    found: list[Block] = []
    strays: list[Block] = []
    for block in results:
        open_calls = waiting.get(block.call)
        if open_calls:
            name = open_calls.pop(0)
            found.append(block if name == block.call else _renamed(block, name))
            continue
        strays.extend(_told(block, repairs, is_repeat=block.call in known))
    for name in (name for names in waiting.values() for name in names):
        repairs.append(Repair("missing_result", name, "a call without a result got a placeholder"))
        found.append(result_block(name, NO_RESULT, is_error=True))
    return found, strays


def _told(block: Block, repairs: list[Repair], *, is_repeat: bool) -> list[Block]:
    """A result that answers no call, as text and images."""
    kind: RepairKind = "repeated_result" if is_repeat else "orphan_result"
    which = "second result of" if is_repeat else "result without"
    repairs.append(Repair(kind, block.call, f"a {which} its call is shown as text"))
    words = [f"[A {which} tool call {block.call or '(no id)'}]", words_of(block)]
    parts = [part for part in parts_of(block) if part.kind != "text"]
    words += [part.raw.decode() for part in parts if part.kind not in STANDS_ALONE]
    pictures = [part for part in parts if part.kind in STANDS_ALONE]
    return [text_block("\n".join(filter(None, words))), *pictures]


def _renamed(block: Block, name: str) -> Block:
    field = {TOOL_USE: "id", TOOL_RESULT: "tool_use_id"}[block.kind]
    return with_field(block, field, name)
