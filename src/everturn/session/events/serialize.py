"""An event as plain values, for whoever is told of it: the one door through which all sinks go (TL-3).

What is private is left out unless content was asked for, and what looks like a key is struck out even then:
a provider's error may repeat the header it was sent.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from everturn.decide.events import Event

ContentMode = Literal["left out", "included"]

REDACTED_TEXT: Final = "[struck out]"
# Longer texts are cut before any pattern looks at them.
MAX_CHARACTERS: Final = 4_000
# Each begins with fixed letters and is bounded: the cost is that of the text, whatever it holds.
_SECRETS: Final = re.compile(
    r"sk-[A-Za-z0-9_-]{8,512}"
    r"|(?:gh[pousr]|github_pat|glpat|xox[abpors])[_-][A-Za-z0-9_-]{10,512}"
    r"|AKIA[A-Z0-9]{12,64}"
    r"|AIza[A-Za-z0-9_-]{20,128}"
    r"|eyJ[A-Za-z0-9_-]{8,1024}\.[A-Za-z0-9_.-]{8,1024}"
    r"|(?i:bearer|basic)\s{1,4}[A-Za-z0-9+/=._-]{8,1024}"
    r"|(?i:(?:api[_-]?key|token|secret|password|passwd)[\"']{0,1}\s{0,4}[:=]\s{0,4}[\"']{0,1})[^\s\"',;]{4,512}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
    r"|(?<=://)[^\s/@:]{1,128}:[^\s/@]{1,256}(?=@)"
)


def redact_secrets(text: str) -> str:
    """The text without what looks like a secret."""
    return _SECRETS.sub(REDACTED_TEXT, text[:MAX_CHARACTERS])


def serialize_event(event: Event, content: ContentMode = "left out") -> dict[str, Any]:
    """The event's fields as JSON would have them; its name is under "event"."""
    fields = _fields(event, content)
    return {"event": event_name(event), **fields.pop("moment"), **fields}


def event_name(event: Event | type[Event]) -> str:
    kind = event if isinstance(event, type) else type(event)
    return str(kind.__struct_config__.tag)


def _fields(value: msgspec.Struct, content: ContentMode) -> dict[str, Any]:
    hints = get_type_hints(type(value), include_extras=True)
    return {
        name: _plain(getattr(value, name), content)
        for name in value.__struct_fields__
        if content == "included" or not _is_private(hints[name])
    }


def _is_private(hint: Any) -> bool:
    if get_origin(hint) is not None and any(_is_private(part) for part in get_args(hint)):
        return True
    meta = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, msgspec.Meta)]
    return any((part.extra or {}).get("private") for part in meta)


def _plain(value: Any, content: ContentMode) -> Any:
    if isinstance(value, msgspec.Struct):
        return _fields(value, content)
    if isinstance(value, str):
        return redact_secrets(value)
    if isinstance(value, Mapping):
        return {redact_secrets(str(name)): _plain(part, content) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(part, content) for part in value]
    return msgspec.to_builtins(value)


def flatten_fields(
    fields: Mapping[str, Any], prefix: str = ""
) -> dict[str, str | int | float | bool | list[str]]:
    """Nested fields under dotted names; empty ones are left out."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            found |= flatten_fields(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            found |= {prefix + name: [str(part) for part in value]} if value else {}
        elif value is not None and value != "":
            found[prefix + name] = value
    return found
