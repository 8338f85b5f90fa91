"""References to tools that a request no longer offers (TR-11).

A search for tools, by the API or by a client's own tool, answers with references to what it found. The API
refuses a request with a reference to a tool that it does not define. A session that is opened again with
fewer tools, or that another program has begun, would never be accepted again.
"""

from collections.abc import Collection, Iterable
from typing import Any, cast

import msgspec

from everturn.history.blocks import Block, block_from_fields, fields_of
from everturn.history.repair import Repair

REFERENCE = "tool_reference"
_REFERENCE_BYTES = b'"tool_reference"'


def read_offered_names(tools: Iterable[Block]) -> frozenset[str] | None:
    """The names of these tools; None if they are not all known: an MCP server names its own."""
    found: set[str] = set()
    for tool in tools:
        try:
            fields = fields_of(tool)
        except (msgspec.DecodeError, RecursionError):
            return None
        if "mcp_server_name" in fields:
            return None
        found.add(str(fields.get("name", "")))
    return frozenset(found)


def with_offered_references(block: Block, offered: Collection[str] | None, repairs: list[Repair]) -> Block:
    """A result without references to other tools: of the client, with their names as text; of the API, with
    those that are left. Byte for byte the same if it has no such reference."""
    if offered is None or _REFERENCE_BYTES not in block.raw:
        return block
    try:
        fields = fields_of(block)
    except (msgspec.DecodeError, RecursionError):
        return block
    content = fields.get("content")
    missing = [name for name in map(_referenced, _parts(content)) if name is not None and name not in offered]
    if not missing:
        return block
    for name in missing:
        what = f"a reference to {name}, which is not a tool of this request, was replaced"
        repairs.append(Repair("missing_tool", block.call, what))
    if isinstance(content, dict):
        left = [part for part in _parts(content) if _referenced(part) not in missing]
        return block_from_fields({**fields, "content": {**_mapping(content), "tool_references": left}})
    return block_from_fields({**fields, "content": [_told(part, missing) for part in _parts(content)]})


def _parts(content: Any) -> list[Any]:
    found = _mapping(content).get("tool_references") if isinstance(content, dict) else content
    return cast(list[Any], found) if isinstance(found, list) else []


def _referenced(part: Any) -> str | None:
    """The name of the tool that a part refers to."""
    fields = _mapping(part)
    return str(fields.get("tool_name", "")) if fields.get("type") == REFERENCE else None


def _told(part: Any, missing: Collection[str]) -> Any:
    name = _referenced(part)
    if name is None or name not in missing:
        return part
    return {"type": "text", "text": f"[reference to the tool {name}]"}


def _mapping(value: Any) -> dict[str, Any]:
    """Files may contain anything: whatever is not an object counts as empty."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
