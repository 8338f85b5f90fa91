"""Serialize events to plain values; all sinks use this (TL-3).

Private fields are left out unless content is included. Text that looks like an API key is always redacted: a
provider's error message may repeat a request header.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from everturn.decide.events import Event
from everturn.redaction import redact_secrets
from everturn.wire.json_values import as_list, as_mapping, as_sequence

ContentMode = Literal["omitted", "included"]


def serialize_event(event: Event, content: ContentMode = "omitted") -> dict[str, Any]:
    """The event's fields as JSON values; its name is under "event"."""
    fields = _fields(event, content)
    return {"event": event_name(event), **fields.pop("moment"), **fields}


def event_name(event: Event | type[Event]) -> str:
    kind = event if isinstance(event, type) else type(event)
    return str(kind.__struct_config__.tag)


def _fields(value: msgspec.Struct, content: ContentMode) -> dict[str, Any]:
    hints = get_type_hints(type(value), include_extras=True)
    shown = (
        _find_extra(hints[name], "written_as") or name
        for name in value.__struct_fields__
        if content == "included" or not _is_private(hints[name])
    )
    # A field without a value is not written, as in the struct's own JSON.
    found = ((name, getattr(value, name)) for name in shown)
    return {name: _plain(part, content) for name, part in found if part is not msgspec.UNSET}


def _is_private(hint: Any) -> bool:
    if get_origin(hint) is not None and any(_is_private(part) for part in get_args(hint)):
        return True
    return bool(_find_extra(hint, "private"))


def _find_extra(hint: Any, name: str) -> Any:
    """What the annotation of a field says under this name; None if it says nothing."""
    meta = (part for part in getattr(hint, "__metadata__", ()) if isinstance(part, msgspec.Meta))
    return next((part.extra[name] for part in meta if part.extra and name in part.extra), None)


def _plain(value: Any, content: ContentMode) -> Any:
    if isinstance(value, msgspec.Struct):
        return _fields(value, content)
    if isinstance(value, str):
        return redact_secrets(value)
    if (mapping := as_mapping(value)) is not None:
        return {redact_secrets(str(name)): _plain(part, content) for name, part in mapping.items()}
    if (items := as_sequence(value)) is not None:
        return [_plain(item, content) for item in items]
    return msgspec.to_builtins(value)


def flatten_fields(
    fields: Mapping[str, Any], prefix: str = ""
) -> dict[str, str | int | float | bool | list[str]]:
    """Nested fields under dotted names; empty fields are left out."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if (nested := as_mapping(value)) is not None:
            found |= flatten_fields(nested, f"{prefix}{name}.")
        elif (items := as_list(value)) is not None:
            found |= {prefix + name: [str(item) for item in items]} if items else {}
        elif value is not None and value != "":
            found[prefix + name] = value
    return found
