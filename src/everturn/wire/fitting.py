"""Fields of unknown shape: what fits of an object is read, the rest is forgotten, field by field.

A newer writer may change the type of one field; that must not cost us the others (TR-6). This is the
slow way in, for lines that the fast one refused (`wire/claude_code_reader.py`); the caller reports them.
"""

from typing import Any, TypeVar, get_args

import msgspec

StructT = TypeVar("StructT", bound=msgspec.Struct)

_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def fitting(raw: bytes | msgspec.Raw, shape: type[StructT]) -> StructT:
    """A struct of the fields that fit, also inside of structs; those that do not keep their defaults."""
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
        return {name: fitting(raw, inner[0])} if len(inner) == 1 else {}


def _is_optional_struct(kind: Any) -> bool:
    """A struct that can be made of any part of its fields."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return False
    return not any(field.required for field in msgspec.structs.fields(kind))
