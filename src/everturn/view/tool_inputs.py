"""Checks tool inputs against the tool's schema: normalized if that is safe, otherwise
kept and reported (FLAT-5).

The API accepts only an object as input. Models and other tools have recorded inputs as JSON strings, and
numbers and booleans as text; those are converted back. An input that still does not fit is sent as recorded:
the model said it, and the tool answered it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from everturn.history.blocks import Block, block_from_fields, fields_of
from everturn.history.repair import Repair
from everturn.wire.json_values import is_object

Schemas = Mapping[str, Mapping[str, Any]]

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def read_schemas(tools: Iterable[Block]) -> Schemas:
    """The schemas of tools by name, from their definitions; the API's own tools have none."""
    return {tool.tool: schema for tool in tools if (schema := _schema_of(tool))}


def _schema_of(tool: Block) -> Mapping[str, Any]:
    try:
        return _mapping(fields_of(tool).get("input_schema"))
    except (msgspec.DecodeError, RecursionError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    """A schema may also be `true`, and files may contain anything: whatever is not an
    object counts as empty.
    """
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def fitted_call(block: Block, tools: Schemas, repairs: list[Repair]) -> Block:
    """The call in the form in which it may be sent. Byte for byte the same unless its input was converted."""
    if not block.is_call or (block.tool not in tools and b'"input":{' in block.raw):
        return block
    try:
        fields = fields_of(block)
    except (msgspec.DecodeError, RecursionError) as error:
        repairs.append(
            Repair("tool_input", block.call, f"{block.tool}: not checked, {error}; sent as recorded")
        )
        return block
    value, offered = fields.get("input"), tools.get(block.tool, {})
    if _fits_plainly(value, offered):
        return block
    schema = {"type": "object", **offered}
    try:
        fitted = _read_back(value, schema)
        misfits = misfit(fitted, schema)
    except RecursionError:
        repairs.append(Repair("tool_input", block.call, f"{block.tool}: nested too deeply; sent as recorded"))
        return block
    if misfits:
        repairs.append(Repair("tool_input", block.call, f"{block.tool}: {misfits[0]}; sent as recorded"))
    if not isinstance(fitted, dict):
        fitted = cast(Any, {"input": fitted})
    if fitted == value and isinstance(value, dict):
        return block
    repairs.append(Repair("tool_input", block.call, f"{block.tool}: the input was converted by its schema"))
    return block_from_fields({**fields, "input": fitted})


# What a value of these types may be called in a schema.
_PLAIN: dict[type, str] = {str: "string", bool: "boolean", int: "integer"}


def _fits_plainly(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether an object has only texts, booleans and whole numbers, all as its schema wants them: the usual
    case, in which there is nothing to convert and nothing to report."""
    properties, required = schema.get("properties"), schema.get("required")
    if type(value) is not dict or type(properties) is not dict or schema.get("type", "object") != "object":
        return False
    parts, wanted = cast(dict[str, Any], value), cast(dict[str, Any], properties)
    for name, part in parts.items():
        inner = wanted.get(name)
        if not is_object(inner) or "enum" in inner or _plain_kind(part) != inner.get("type"):
            return False
    if "enum" in schema or (required is not None and type(required) is not list):
        return False
    return not required or all(name in parts for name in cast(list[Any], required) if isinstance(name, str))


def _plain_kind(value: object) -> str:
    return _PLAIN.get(type(value), "")


def _read_back(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value with texts converted to the type in the schema, if that is unambiguous."""
    kind = schema.get("type")
    if isinstance(value, str) and kind in ("object", "array", "integer", "number", "boolean"):
        value = _from_words(value, kind)
    if isinstance(value, dict) and isinstance(properties := schema.get("properties"), dict):
        parts = cast(dict[str, Any], properties)
        fields = cast(dict[str, Any], value)
        return {name: _read_back(part, _mapping(parts.get(name))) for name, part in fields.items()}
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [_read_back(part, cast(dict[str, Any], items)) for part in cast(list[Any], value)]
    return cast(Any, value)


def _from_words(words: str, kind: str) -> Any:
    try:
        found = msgspec.json.decode(words)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return words
    return found if _is_a(found, kind) else words


def misfit(value: Any, schema: Mapping[str, Any], path: str = "input") -> list[str]:
    """Where a value does not fit its schema, as text. Checks types, enums, properties and items."""
    kinds = schema.get("type")
    allowed = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(allowed, Sequence) and not any(_is_a(value, kind) for kind in cast(Sequence[Any], allowed)):
        return [f"{path} should be {kinds}, is {_shown(value)}"]
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        return [f"{path} should be one of {_shown(choices)}, is {_shown(value)}"]
    if isinstance(value, dict):
        return _misfits_inside(cast(dict[str, Any], value), schema, path)
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        parts = enumerate(cast(list[Any], value))
        inner = cast(dict[str, Any], items)
        return [found for at, part in parts for found in misfit(part, inner, f"{path}.{at}")]
    return []


def _misfits_inside(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> list[str]:
    properties, required = _mapping(schema.get("properties")), schema.get("required")
    needed = cast(list[Any], required) if isinstance(required, list) else []
    missing = [name for name in needed if isinstance(name, str) and name not in value]
    found = [f"{path}.{name} is missing" for name in missing]
    for name, part in value.items():
        if name in properties:
            found.extend(misfit(part, _mapping(properties[name]), f"{path}.{name}"))
        elif schema.get("additionalProperties") is False:
            found.append(f"{path}.{name} is not known to the tool")
    return found


def _is_a(value: Any, kind: Any) -> bool:
    wanted = _TYPES.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        return True
    # In Python a bool is an int; in JSON it is not.
    return isinstance(value, wanted) and (kind == "boolean" or not isinstance(value, bool))


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
