"""Which tools fill the context, which files were read again, and the largest single results."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from everturn.dashboard.figures.categories import ContextSplit
from everturn.dashboard.grid import apportion
from everturn.history.blocks import Block, fields_of
from everturn.history.records import Record
from everturn.measure.accounting import UNKNOWN_TOOL
from everturn.measure.tool_table import PATH_FIELDS
from everturn.session.recorded import RecordedSession

MAX_RESULTS: Final = 5
# Input fields that describe a call, the most specific first.
_TELLING: Final = (*PATH_FIELDS, "command", "pattern", "query", "url", "description", "prompt")


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """One tool in the view. `share` is the fraction of the context that its requests and results take."""

    tool: str
    calls: int
    request_tokens: int
    result_tokens: int
    share: float


class DuplicateRead(msgspec.Struct, frozen=True, kw_only=True):
    """A file whose content is in the context more than once. All copies but one are wasted tokens."""

    path: str
    count: int
    tokens: int
    wasted: int


class LargeResult(msgspec.Struct, frozen=True, kw_only=True):
    tool: str
    # The path, command or query of the call, on one line; "" if it has none.
    about: str
    tokens: int
    call: str


def tool_table(session: RecordedSession, split: ContextSplit) -> tuple[ToolUse, ...]:
    """Largest first. The columns add up to the categories of tool requests and tool results."""
    tokens = {category.key: category.tokens for category in split.categories}
    requests = _stretched(split.metrics.tool_requests, tokens["tool_requests"])
    results = _stretched(split.metrics.tool_results, tokens["tool_results"])
    calls = Counter(block.tool or UNKNOWN_TOOL for _, block in _blocks(session) if block.is_call)
    used = max(1, session.size.tokens)
    rows = (
        ToolUse(
            tool=tool,
            calls=calls[tool],
            request_tokens=requests.get(tool, 0),
            result_tokens=results.get(tool, 0),
            share=(requests.get(tool, 0) + results.get(tool, 0)) / used,
        )
        for tool in dict.fromkeys([*requests, *results])
    )
    return tuple(sorted(rows, key=lambda row: (-row.request_tokens - row.result_tokens, row.tool)))


def duplicate_reads(split: ContextSplit) -> tuple[DuplicateRead, ...]:
    """The most wasted tokens first."""
    reads = (
        DuplicateRead(
            path=path,
            count=read.count,
            tokens=round(read.total * split.stretch),
            wasted=round(read.wasted * split.stretch),
        )
        for path, read in split.metrics.duplicate_reads.items()
    )
    return tuple(sorted(reads, key=lambda read: (-read.wasted, read.path)))


def largest_results(session: RecordedSession, split: ContextSplit) -> tuple[LargeResult, ...]:
    """Only results that the model still sees, so without cleared ones."""
    calls = {block.call: block for _, block in _blocks(session) if block.is_call}
    hidden = session.view.cleared.keys() | session.view.offloaded.keys()
    sizes: dict[str, int] = {}
    for record in session.view.records:
        for block, tokens in zip(record.blocks, session.counts.of(record).blocks, strict=False):
            if block.is_result and block.call not in hidden:
                sizes[block.call] = tokens
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:MAX_RESULTS]
    return tuple(_large(calls.get(call), call, round(tokens * split.stretch)) for call, tokens in largest)


def _large(request: Block | None, call: str, tokens: int) -> LargeResult:
    tool = request.tool if request is not None and request.tool else UNKNOWN_TOOL
    return LargeResult(tool=tool, about=about(request) if request else "", tokens=tokens, call=call)


def about(request: Block) -> str:
    """What a call is about, on one line."""
    try:
        given = fields_of(request).get("input")
    except msgspec.DecodeError:
        return ""
    if not isinstance(given, dict):
        return ""
    fields = cast(dict[str, Any], given)
    words = (fields[name] for name in _TELLING if isinstance(fields.get(name), str))
    return next((" ".join(word.split()) for word in words if word.strip()), "")


def _blocks(session: RecordedSession) -> Iterator[tuple[Record, Block]]:
    for record in session.view.records:
        for block in record.blocks:
            yield record, block


def _stretched(rough: Mapping[str, int], total: int) -> dict[str, int]:
    return dict(zip(rough, apportion(tuple(rough.values()), total), strict=True))
