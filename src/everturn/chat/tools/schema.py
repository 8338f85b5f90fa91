"""Definitions of tools as the Messages API takes them, without the noise of spelling JSON Schema."""

from collections.abc import Mapping
from typing import Any

FieldSchema = Mapping[str, Any]


def tool_definition(
    name: str, description: str, fields: Mapping[str, FieldSchema], *required: str
) -> dict[str, Any]:
    return {
        "name": name,
        "description": " ".join(description.split()),
        "input_schema": {"type": "object", "properties": dict(fields), "required": list(required)},
    }


def string_field(about: str) -> FieldSchema:
    return {"type": "string", "description": about}


def integer_field(about: str, *, least: int = 0) -> FieldSchema:
    return {"type": "integer", "minimum": least, "description": about}


def boolean_field(about: str) -> FieldSchema:
    return {"type": "boolean", "description": about}


def enum_field(about: str, *options: str) -> FieldSchema:
    return {"type": "string", "enum": list(options), "description": about}
