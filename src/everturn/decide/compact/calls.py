"""Tool calls with what came of them, and attachments with what they hold: how restoration reads a log.

Only the tools that are asked for are parsed. What a call means is decided where it is looked for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

import msgspec

from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.records import Record


class Called(msgspec.Struct, frozen=True):
    """One call: where it stands in the view, what it was given, and its result where there is one."""

    at: int
    tool: str
    call: str
    given: Mapping[str, Any]
    result: Block | None = None
    failed: bool = False

    @property
    def answer(self) -> str:
        """What came of it, in words; read only where somebody asks, for results are large."""
        return text_of(self.result) if self.result is not None else ""


def called(records: Sequence[Record], wanted: Callable[[Block], bool]) -> tuple[Called, ...]:
    """The calls that are wanted, oldest first."""
    found: dict[str, Called] = {}
    for at, record in enumerate(records):
        for block in record.blocks:
            if not block.call:
                continue
            if block.is_call and wanted(block):
                found[block.call] = Called(at, block.tool, block.call, mapping(_fields(block).get("input")))
            elif block.call in found and block.is_result:
                failed = b"is_error" in block.raw and _fields(block).get("is_error") is True
                found[block.call] = msgspec.structs.replace(found[block.call], result=block, failed=failed)
    return tuple(found.values())


def by_name(*names: str) -> Callable[[Block], bool]:
    return lambda block: block.tool in names


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
    found = ((at, record) for at, record in enumerate(records) if record.kind == "attachment")
    return tuple(
        Attached(at, record.subtype, _fields(record.blocks[0]))
        for at, record in found
        if record.blocks and is_one_of(record.subtype, types)
    )


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
