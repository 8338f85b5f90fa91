"""Content blocks of a program's messages and of tool results, checked before they are recorded.

What is recorded is sent with every later request: one block that the API refuses would end the conversation.
A message is refused with a sentence. A tool result is not, because the model waits for it: blocks of MCP
become those of the API, and any other value becomes its JSON. Types that are not listed here are the API's to
judge in a message.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from everturn.session.valid_text import make_encodable
from everturn.wire.json_values import as_mapping, as_sequence, is_mapping, is_sequence

_Check = Callable[[object], bool]


class _Shape(msgspec.Struct, frozen=True):
    """The fields that a block must have, with a check of each, and those that it may have."""

    needs: Mapping[str, _Check]
    may_have: frozenset[str] = frozenset()


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value)


# Sources of pictures and documents; one of another type is the API's to judge.
_SOURCES: Final[Mapping[str, Mapping[str, _Check]]] = {
    "base64": {"data": _is_filled, "media_type": _is_filled},
    "text": {"data": _is_text, "media_type": _is_filled},
    "url": {"url": _is_filled},
    "file": {"file_id": _is_filled},
    "content": {"content": lambda value: isinstance(value, str) or is_sequence(value)},
}


def _is_source(value: object) -> bool:
    fields = as_mapping(value) or {}
    if not isinstance(fields.get("type"), str):
        return False
    return all(check(fields.get(name)) for name, check in _SOURCES.get(fields["type"], {}).items())


# From the parameter types of the official SDK 2.8, as in `twin/validate/blocks.py`; tests compare the two.
SHAPES: Final[Mapping[str, _Shape]] = {
    "text": _Shape({"text": _is_text}, frozenset({"citations"})),
    "image": _Shape({"source": _is_source}, frozenset({"transformations"})),
    "document": _Shape({"source": _is_source}, frozenset({"citations", "context", "title"})),
    "search_result": _Shape(
        {"content": is_sequence, "source": _is_text, "title": _is_text}, frozenset({"citations"})
    ),
    "tool_reference": _Shape({"tool_name": _is_filled}),
    "browser_state": _Shape({"tabs": is_sequence}, frozenset({"state_changes"})),
    "tool_result": _Shape({"tool_use_id": _is_filled}, frozenset({"content", "is_error", "toolset_name"})),
    "container_upload": _Shape({"file_id": _is_filled}),
}
# What the API takes in the list of a tool result; everything else there becomes text.
RESULT_PARTS: Final = frozenset(
    {"text", "image", "document", "search_result", "tool_reference", "browser_state"}
)
# Fields of every block. `cache_reference` is an extension (api-facts 9).
_EVERYWHERE: Final = frozenset({"type", "cache_control", "cache_reference"})
# The pictures that the API reads.
_PICTURES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF: Final = "application/pdf"


def find_flaw(fields: Mapping[str, Any]) -> str:
    """Why the API would refuse this block of a message; "" if it takes it, or if we do not know its type."""
    kind = fields.get("type")
    if not isinstance(kind, str) or not kind:
        hint = "; send the content of a message, not the message itself" if "role" in fields else ""
        return f"it has no `type`{hint}"
    shape = SHAPES.get(kind)
    if shape is None:
        return ""
    if problem := _find_wrong_field(kind, shape, fields):
        return problem
    unknown = sorted(fields.keys() - shape.needs.keys() - shape.may_have - _EVERYWHERE)
    return f"a block of type {kind} has no field `{unknown[0]}`" if unknown else ""


def _find_wrong_field(kind: str, shape: _Shape, fields: Mapping[str, Any]) -> str:
    wrong = next((name for name, check in shape.needs.items() if not check(fields.get(name))), None)
    if wrong is None:
        return ""
    return f"the field `{wrong}` of a block of type {kind} is {'wrong' if wrong in fields else 'missing'}"


def to_result_content(value: object) -> str | list[dict[str, Any]]:
    """What a tool returned, as the content of its result. The API refuses empty texts in it."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    parts = [_as_fields(part) for part in as_sequence(value) or ()]
    found = [part for part in parts if part is not None and isinstance(part.get("type"), str)]
    if as_sequence(value) is None or len(found) < len(parts):
        return _to_json(value)
    return [_to_result_part(part) for part in found if part["type"] != "text" or part.get("text")]


def _to_result_part(fields: Mapping[str, Any]) -> dict[str, Any]:
    part = _from_mcp(fields)
    kind = str(part["type"])
    shape = SHAPES.get(kind) if kind in RESULT_PARTS else None
    if shape is None or _find_wrong_field(kind, shape, part) or not _is_readable(part):
        return {"type": "text", "text": _to_json(fields)}
    known = shape.needs.keys() | shape.may_have | _EVERYWHERE
    return {name: field for name, field in part.items() if name in known}


def _from_mcp(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A picture or an embedded resource of MCP as a block of the API; any other block as it is."""
    if fields["type"] == "image" and "source" not in fields:
        return _from_base64(fields.get("data"), fields.get("mimeType")) or fields
    resource = as_mapping(fields.get("resource"))
    if fields["type"] != "resource" or resource is None:
        return fields
    if isinstance(resource.get("text"), str):
        return {"type": "text", "text": resource["text"]}
    return _from_base64(resource.get("blob"), resource.get("mimeType")) or fields


def _from_base64(data: object, media_type: object) -> dict[str, Any] | None:
    if not _is_filled(data) or media_type not in {*_PICTURES, _PDF}:
        return None
    kind = "document" if media_type == _PDF else "image"
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


def _is_readable(part: Mapping[str, Any]) -> bool:
    """Whether a picture in the bytes of a result is of a kind that the API reads."""
    source = as_mapping(part.get("source")) or {}
    is_picture = part["type"] == "image" and source.get("type") == "base64"
    return not is_picture or source["media_type"] in _PICTURES


def _as_fields(part: object) -> Mapping[str, Any] | None:
    """A block as a mapping; the clients of MCP and the SDK have objects."""
    if is_mapping(part):
        return part
    dump = getattr(part, "model_dump", None)
    return as_mapping(dump(mode="json", by_alias=True, exclude_none=True)) if callable(dump) else None


def _to_json(value: object) -> str:
    return msgspec.json.encode(make_encodable(value), enc_hook=str).decode()
