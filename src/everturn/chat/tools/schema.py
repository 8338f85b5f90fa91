"""Definitions of tools as the Messages API takes them, without the noise of spelling JSON Schema."""

from collections.abc import Mapping
from typing import Any

Field = Mapping[str, Any]


def definition(name: str, description: str, fields: Mapping[str, Field], *required: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": " ".join(description.split()),
        "input_schema": {"type": "object", "properties": dict(fields), "required": list(required)},
    }


def words(about: str) -> Field:
    return {"type": "string", "description": about}


def number(about: str, *, least: int = 0) -> Field:
    return {"type": "integer", "minimum": least, "description": about}


def flag(about: str) -> Field:
    return {"type": "boolean", "description": about}


def choice(about: str, *options: str) -> Field:
    return {"type": "string", "enum": list(options), "description": about}
