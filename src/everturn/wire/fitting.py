"""Lenient decoding: the fields of an object that fit are read, the others are ignored, field by field.

A newer writer may change the type of one field; the others must stay readable (TR-6). This is the slow path,
for lines that strict decoding refused (`wire/claude_code_reader.py`); the caller reports them.
"""

from typing import Any, TypeVar, get_args

import msgspec

StructT = TypeVar("StructT", bound=msgspec.Struct)

_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def decode_lenient(raw: bytes | msgspec.Raw, shape: type[StructT]) -> StructT:
    """A struct with the fields that fit, also inside nested structs; the others keep their defaults."""
    try:
        given = _read_fields(raw)
    except msgspec.ValidationError:
        return shape()
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(shape):
        if field.encode_name in given:
            found |= _fitting_field(field.name, given[field.encode_name], field.type)
    return shape(**found)


def _fitting_field(name: str, raw: msgspec.Raw, kind: Any) -> dict[str, Any]:
    try:
        return {name: msgspec.json.decode(raw, type=kind)}
    except msgspec.ValidationError:
        inner = [each for each in (kind, *get_args(kind)) if _is_optional_struct(each)]
        return {name: decode_lenient(raw, inner[0])} if len(inner) == 1 else {}


def _is_optional_struct(kind: Any) -> bool:
    """A struct in which every field has a default."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return False
    return not any(field.required for field in msgspec.structs.fields(kind))
