"""A recorded thread as steps: what came before each response, and the response (RP-2).

Except under the policy `recorded`, boundaries, summaries and clearings of the recording are left out: they
are edits of the recorded policy, not history. A response is one step, however many records it has.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec

from everturn.history.blocks import Block, block_from_fields, fields_of, text_block
from everturn.history.edits import Compacted, KeptSegment, Pinned
from everturn.history.records import (
    Record,
    Usage,
    fuller_usage,
    is_sent,
    name_responses,
    record_time,
    reported_usage,
)
from everturn.history.threads import Thread
from everturn.measure.model_table import model_or_default
from everturn.wire.json_values import is_list, is_object

# For recordings without times: the start, and the time between two calls (shorter than any TTL).
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
DEFAULT_GAP: Final = timedelta(seconds=30)

# The name of the thread that is not a sub-agent.
MAIN_THREAD: Final = "main"

_PAST: Final = "past-"

# Two calls in a row differ by less than this in what they send and read, if nothing was lost.
_LEAST_LOSS: Final = 100

_REFERENCE: Final = b'"tool_reference"'
# Uses of tools that the provider runs: their results are in the same response.
_SERVER_USES: Final = ("server_tool_use", "mcp_tool_use")

RecordedEdits = Literal["as recorded", "left out"]


class ReplayStep(msgspec.Struct, frozen=True):
    """One call. `usage` is the reported one, all zero if nothing was reported."""

    number: int
    at: datetime
    model: str
    before: tuple[Record, ...]
    reply: tuple[Record, ...]
    usage: Usage
    # Whether the recording cleared or compacted something since the previous call.
    is_edited: bool
    # Whether the model was asked to think (RP-16).
    thinks: bool = False

    @property
    def context(self) -> int:
        return self.usage.context

    @property
    def is_compacted(self) -> bool:
        """Whether the recording compacted since the previous call. Known only with its edits."""
        return any(record.is_boundary for record in self.before)


class ReplayThread(msgspec.Struct, frozen=True):
    """A thread: its calls, and the records after the last one."""

    name: str
    calls: tuple[ReplayStep, ...]
    after: tuple[Record, ...] = ()


def build_replay_thread(thread: Thread, edits: RecordedEdits) -> ReplayThread:
    records = tuple(_without_references(record) for record in thread.records)
    keys = name_responses(records)
    pieces: dict[str, list[Record]] = {}
    for record, key in zip(records, keys, strict=True):
        pieces.setdefault(key, []).append(record)
    before: list[Record] = []
    found: list[ReplayStep] = []
    seen: set[str] = set()
    now: datetime | None = None
    is_edited = False
    for record, key in zip(records, keys, strict=True):
        is_edited = is_edited or record.is_boundary or not isinstance(record.edit, Pinned | None)
        if not key:
            before.extend([record] if edits == "as recorded" or _is_history(record) else [])
        elif key not in seen:
            seen.add(key)
            now = _time_of(record, now)
            if not _ends_with_user(before):
                before.append(_make_prompt(thread.agent or MAIN_THREAD, len(found) + 1, record))
            found.append(_make_step(len(found) + 1, now, before, _answered(pieces[key]), is_edited))
            before, is_edited = [], False
    return ReplayThread(thread.agent or MAIN_THREAD, _with_thinking(found), tuple(before))


def _ends_with_user(records: Sequence[Record]) -> bool:
    """Whether a request that ends with these records ends with a user message."""
    return any(record.kind != "assistant" and is_sent(record) and record.blocks for record in records)


def _make_prompt(thread: str, number: int, reply: Record) -> Record:
    """Stands for what was sent before the first reply or between two replies in a row. Without it the request
    would be empty, or end with a reply, which newer models refuse and which no agent sends (RP-16).
    """
    text = f"[not in the recording: the prompt of call {number}]"
    record, _ = make_filler(f"prompt-{thread}-{number}", text)
    # A first reply that continues something still does.
    return msgspec.structs.replace(record, parent=reply.parent, sidechain=reply.sidechain)


def make_filler(uuid: str, text: str) -> tuple[Record, Block]:
    """A message for something that the API saw and the file lacks."""
    block = text_block(text)
    return Record(kind="user", uuid=uuid, meta=True, blocks=(block,)), block


def make_past(thread: str, parts: Sequence[int], since: int = 0) -> tuple[Record, Mapping[Block, int]]:
    """What was said before the file begins, in parts of so many tokens. `since` is the call at which it
    became shorter; 0 for the first one.
    """
    when = f", since call {since}" if since else ""
    texts = [
        f"[history before the recording begins{when}{f', part {at}' if at > 1 else ''}: {tokens} tokens]"
        for at, tokens in enumerate(parts, start=1)
    ]
    blocks = {text_block(text): tokens for text, tokens in zip(texts, parts, strict=True)}
    uuid = f"{_PAST}{thread}-{since}" if since else f"{_PAST}{thread}"
    return Record(kind="user", uuid=uuid, meta=True, blocks=tuple(blocks)), blocks


def make_shorter_past(
    thread: str, parts: Sequence[int], since: int, kept: Sequence[Record]
) -> tuple[tuple[Record, ...], Mapping[Block, int]]:
    """The records that put a shorter past before the `kept` ones, instead of the one before."""
    past, blocks = make_past(thread, parts, since)
    segment = KeptSegment(kept[0].uuid, past.uuid, kept[-1].uuid) if kept else None
    boundary = Record(
        kind="system", uuid=f"{past.uuid}-boundary", subtype="compact_boundary", edit=Compacted(kept=segment)
    )
    return (boundary, msgspec.structs.replace(past, compact_summary=True)), blocks


def is_past(record: Record) -> bool:
    """Whether a record stands for what was said before the file begins."""
    return record.uuid.startswith(_PAST)


def _answered(reply: Sequence[Record]) -> Sequence[Record]:
    """A response whose server tools all have a result: a use or a result alone becomes text. Recordings lack
    one of them if the response was cut off or paused, and the API refuses the other (RP-16).
    """
    blocks = [block for record in reply for block in record.blocks]
    used = {_server_use(block) for block in blocks} - {""}
    told = {_server_result(block) for block in blocks} - {""}
    alone = used ^ told
    if not alone:
        return reply
    return [
        msgspec.structs.replace(
            record,
            blocks=tuple(
                text_block(f"[{block.kind}, its other half is not recorded]")
                if (_server_use(block) or _server_result(block)) in alone
                else block
                for block in record.blocks
            ),
        )
        for record in reply
    ]


def _server_use(block: Block) -> str:
    return _field(block, "id") if block.kind in _SERVER_USES else ""


def _server_result(block: Block) -> str:
    is_theirs = block.kind.endswith("_tool_result") and not block.is_result
    return _field(block, "tool_use_id") if is_theirs else ""


def _field(block: Block, name: str) -> str:
    value = fields_of(block).get(name)
    return value if isinstance(value, str) else ""


def _without_references(record: Record) -> Record:
    """References to tools as text. Recordings do not hold the tools, and the API refuses a reference to one
    that is not in the request (RP-16).
    """
    if not any(block.is_result and _REFERENCE in block.raw for block in record.blocks):
        return record
    return msgspec.structs.replace(record, blocks=tuple(map(_without_reference, record.blocks)))


def _without_reference(block: Block) -> Block:
    fields = fields_of(block)
    content = fields.get("content")
    if not block.is_result or not is_list(content):
        return block
    return block_from_fields({**fields, "content": [_told(part) for part in content]})


def _told(part: Any) -> Any:
    if not is_object(part) or part.get("type") != "tool_reference":
        return part
    return {"type": "text", "text": f"[tool {part.get('tool_name')}, its definition is not recorded]"}


def _with_thinking(steps: Sequence[ReplayStep]) -> tuple[ReplayStep, ...]:
    """Which calls asked for thinking. A recording does not say; the replies show it.

    In the mode `enabled` every reply has thinking, or every first reply of a tool loop if the session did not
    ask for thinking between calls. In the mode `adaptive` the model chooses, so one reply with thinking tells
    for all of that model.
    """
    thinking = [_can_think(step.model) and _has_thinking(step.reply) for step in steps]
    in_loop = [any(block.is_result for record in step.before for block in record.blocks) for step in steps]
    interleaves = any(thought and loops for thought, loops in zip(thinking, in_loop, strict=True))
    adaptive = {
        step.model
        for step, thought in zip(steps, thinking, strict=True)
        if thought and "adaptive" in model_or_default(step.model).model.thinking
    }
    found: list[ReplayStep] = []
    # The model of the first reply of the current tool loop, if that reply has thinking.
    opened_by = ""
    for step, thought, loops in zip(steps, thinking, in_loop, strict=True):
        if not loops:
            opened_by = step.model if thought else ""
        goes_on = loops and not interleaves and bool(found) and found[-1].thinks
        # Within a loop that did not begin with thinking, the API keeps it off.
        thinks = (thought or goes_on) and (not loops or opened_by == step.model)
        thinks = thinks or step.model in adaptive
        found.append(msgspec.structs.replace(step, thinks=thinks))
    doubtful = {model for model in {step.model for step in found} - adaptive if _is_doubtful(found, model)}
    return tuple(
        msgspec.structs.replace(step, thinks=False) if step.model in doubtful else step for step in found
    )


def _can_think(model: str) -> bool:
    return bool(model_or_default(model).model.thinking - {"disabled"})


def _has_thinking(reply: Sequence[Record]) -> bool:
    return any(block.is_thinking for record in reply for block in record.blocks)


def _is_doubtful(steps: Sequence[ReplayStep], model: str) -> bool:
    """Whether most of the changes between thinking and not thinking did not change what the cache read.

    Turning thinking on or off changes the cache key, so the call after it reads less than the one before had
    sent. Replies with and without thinking and no such loss show that the model chose, or that the recording
    lacks thinking. Then no request asks for it: that is accepted with any history.
    """
    changes = lost = 0
    for last, step in pairwise(steps):
        if last.model == step.model == model and last.thinks != step.thinks and not step.is_edited:
            changes += 1
            sent = last.context - last.usage.input_tokens
            lost += sent - step.usage.cache_read_input_tokens > _LEAST_LOSS
    return 2 * lost < changes


def _time_of(record: Record, last: datetime | None) -> datetime:
    """When a call was made; never before the previous one."""
    if last is None:
        return record_time(record) or START
    return max(last, record_time(record) or last + DEFAULT_GAP)


def _make_step(
    number: int, at: datetime, before: Sequence[Record], reply: Sequence[Record], is_edited: bool
) -> ReplayStep:
    usages = (usage for record in reply if (usage := reported_usage(record)))
    usage = reduce(fuller_usage, usages, Usage())
    model = next((record.reply.model for record in reply if record.reply and record.reply.model), "")
    return ReplayStep(number, at, model, tuple(before), tuple(reply), usage, is_edited)


def _is_history(record: Record) -> bool:
    return record.edit is None and not (record.is_boundary or record.compact_summary)


def all_records(thread: ReplayThread) -> Iterator[Record]:
    for step in thread.calls:
        yield from step.before
        yield from step.reply
    yield from thread.after


def models_of(threads: Iterable[ReplayThread]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step.model for thread in threads for step in thread.calls))
