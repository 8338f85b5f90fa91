"""Tool calls with their results, and attachments with their content: how restoration reads a log.

Restoration asks many questions about the same records. One walk indexes them (`index_calls`), and every
question is a lookup. What a call means is decided by the caller.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, cast

import msgspec

from everturn.history.blocks import TOOL_RESULT, TOOL_USE, Block, fields_of, parts_of, text_of
from everturn.history.edits import Compacted
from everturn.history.records import Record
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolPurpose, ToolRow, ToolTable, path_read


class Called(msgspec.Struct, frozen=True):
    """One call: where it stands in the view, and its result where there is one.

    Input and result are decoded on demand: most calls are only looked up.
    """

    at: int
    block: Block
    result: Block | None = None

    @property
    def tool(self) -> str:
        return self.block.tool

    @property
    def given(self) -> Mapping[str, Any]:
        return mapping(_fields(self.block).get("input"))

    @property
    def failed(self) -> bool:
        result = self.result
        return result is not None and b"is_error" in result.raw and _fields(result).get("is_error") is True

    @property
    def answer(self) -> str:
        """The text of its result."""
        return text_of(self.result) if self.result is not None else ""


class _Spot(NamedTuple):
    """A block, its number among all blocks, and the place of its record."""

    number: int
    at: int
    block: Block


class CallIndex(msgspec.Struct, frozen=True):
    """What one walk through records found: calls by tool, the newest result of each, attachments; and what
    may have loaded tools, which are earlier compactions and results with blocks inside."""

    records: Sequence[Record]
    calls: Mapping[str, Sequence[_Spot]]
    results: Mapping[str, _Spot]
    attachments: Sequence[tuple[int, Record]]
    loaders: Sequence[Compacted | Block]
    tools: ToolTable = DEFAULT_TOOL_TABLE

    def called(self, *purposes: ToolPurpose) -> tuple[Called, ...]:
        """The calls of tools that do one of these, oldest first."""
        made = {spot.block.call: spot for spot in self._calls_where(lambda row: row.does in purposes)}
        return tuple(self._with_result(spot) for spot in made.values())

    def every(self) -> tuple[Called, ...]:
        """All calls, oldest first."""
        return tuple(map(self._with_result, self._calls_where(lambda row: True)))

    def file_reads(self) -> tuple[tuple[str, Called], ...]:
        """The calls that read one file, each with its path, oldest first."""
        made = {
            spot.block.call: (path, spot)
            for spot in self._calls_where(lambda row: row.may_read)
            if (path := path_read(spot.block, self.tools))
        }
        return tuple((path, self._with_result(spot)) for path, spot in made.values())

    def _calls_where(self, wanted: Callable[[ToolRow], bool]) -> list[_Spot]:
        found = (spots for tool, spots in self.calls.items() if wanted(self.tools.find(tool)))
        return sorted(spot for spots in found for spot in spots)

    def _with_result(self, call: _Spot) -> Called:
        result = self.results.get(call.block.call)
        # One that came before belongs to an earlier call of the same id.
        if result is None or result.number < call.number:
            return Called(call.at, call.block)
        return Called(call.at, call.block, result.block)

    def attached(self, *types: str) -> tuple["Attached", ...]:
        return _attached(self.attachments, types)


def index_calls(records: Sequence[Record], tools: ToolTable = DEFAULT_TOOL_TABLE) -> CallIndex:
    calls: dict[str, list[_Spot]] = {}
    results: dict[str, _Spot] = {}
    attachments: list[tuple[int, Record]] = []
    loaders: list[Compacted | Block] = []
    number = 0
    for at, record in enumerate(records):
        if record.kind == "attachment":
            attachments.append((at, record))
        elif isinstance(record.edit, Compacted):
            loaders.append(record.edit)
        for block in record.blocks:
            number += 1
            if block.kind == TOOL_USE and block.call:
                calls.setdefault(block.tool, []).append(_Spot(number, at, block))
            elif block.kind == TOOL_RESULT:
                results[block.call] = _Spot(number, at, block)
                if not _PLAIN.match(block.raw):
                    loaders.append(block)
    return CallIndex(records, calls, results, attachments, loaders, tools)


class Attached(msgspec.Struct, frozen=True):
    """One attachment: where it stands, and its payload."""

    at: int
    type: str
    payload: Mapping[str, Any]

    @property
    def parts(self) -> tuple[str, ...]:
        """Content that is a list of texts, as our own attachments have it; the first one is a heading."""
        return strings(self.payload.get("content"))


def attached(records: Sequence[Record], *types: str) -> tuple[Attached, ...]:
    """The attachments of these types, for whoever asks nothing else of the records."""
    return _attached(
        ((at, record) for at, record in enumerate(records) if record.kind == "attachment"), types
    )


def _attached(found: Iterable[tuple[int, Record]], types: Sequence[str]) -> tuple[Attached, ...]:
    return tuple(
        Attached(at, record.subtype, _fields(record.blocks[0]))
        for at, record in found
        if record.subtype in types and record.blocks
    )


# A result as everybody spells it whose content is a string: no block can be inside. Its beginning tells, and
# the rest need not be looked at, which is most of what a conversation is made of.
_PLAIN: Final = re.compile(
    rb'\{\s*(?:"(?:type|tool_use_id)"\s*:\s*"[^"\\]*"\s*,\s*|"is_error"\s*:\s*\w+\s*,\s*)*"content"\s*:\s*"'
)


def parts_inside(result: Block, *kinds: str) -> list[Block]:
    """The blocks of these kinds in the content of a result."""
    if _PLAIN.match(result.raw) or not any(kind.encode() in result.raw for kind in kinds):
        return []
    return [part for part in parts_of(result) if part.kind in kinds]


def is_one_of(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _fields(block: Block) -> Mapping[str, Any]:
    try:
        return mapping(fields_of(block))
    except (msgspec.DecodeError, RecursionError):
        return {}


def mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(mapping(each) for each in cast(list[Any], value)) if isinstance(value, list) else ()


def strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(each for each in cast(list[Any], value) if isinstance(each, str))


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""
