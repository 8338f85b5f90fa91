"""Parse the bodies of the control endpoints: `/twin/clock`, `/twin/script` and `/twin/faults`.

A body is checked completely before anything changes. The error names the key, its value and what is allowed.
`--script` and `--faults` files have the same format.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from everturn.twin.faults import FAULT_ENDPOINTS, FAULT_KINDS, FAULT_VENDORS, FaultKind, InjectedFault
from everturn.twin.speaker import ScriptedReply
from everturn.twin.values import ApiError, ModelOutput, invalid_request
from everturn.wire.json_values import is_list, is_object

STOP_REASONS: Final = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
)
# The block types that a script may use, and the required field of each.
_BLOCKS: Final[dict[str, tuple[str, type]]] = {
    "text": ("text", str),
    "thinking": ("thinking", str),
    "redacted_thinking": ("data", str),
    "tool_use": ("name", str),
    "server_tool_use": ("name", str),
    "web_search_tool_result": ("tool_use_id", str),
    "web_fetch_tool_result": ("tool_use_id", str),
    "tool_search_tool_result": ("tool_use_id", str),
}
# The errors that a stream event can carry.
_STREAM_ERRORS: Final = ("overloaded", "rate_limit", "server_error", "timeout")
# Ten years: enough for any test, and small enough that no date overflows.
MAX_SECONDS: Final = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class ClockChange:
    """The body of `POST /twin/clock`."""

    advance_s: float = 0.0
    set_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The body of `POST /twin/faults`; None where a key is missing."""

    faults: tuple[InjectedFault, ...] | None
    chances: dict[FaultKind, float] | None = None
    seed: int = 0


def decode_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a control request; an empty body is an empty object."""
    if not body.strip():
        return {}
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise invalid_request(f"The body is not valid JSON: {error}") from None
    return _object(value, "body")


def read_clock(body: Mapping[str, Any]) -> ClockChange:
    _only(body, ("advance_s", "set"), "body")
    if len(body) != 1:
        raise invalid_request('Give either {"advance_s": seconds} or {"set": "2026-11-15T00:00:00Z"}.')
    if "advance_s" in body:
        return ClockChange(advance_s=_seconds(body["advance_s"], "advance_s"))
    return ClockChange(set_to=_moment(body["set"]))


def read_script(body: Mapping[str, Any]) -> tuple[ScriptedReply, ...]:
    _only(body, ("replies",), "body")
    if "replies" not in body:
        raise _wrong("replies", None, 'a list such as [{"content": "Hello", "stop_reason": "end_turn"}]')
    return tuple(_reply(item, f"replies[{i}]") for i, item in enumerate(_list(body["replies"], "replies")))


def read_faults(body: Mapping[str, Any]) -> FaultPlan:
    _only(body, ("faults", "random"), "body")
    if not body:
        raise _wrong("faults", None, 'a list such as [{"kind": "overloaded", "times": 1}]')
    chances, seed = _random(_object(body["random"], "random")) if "random" in body else (None, 0)
    if "faults" not in body:
        return FaultPlan(None, chances, seed)
    items = _list(body["faults"], "faults")
    return FaultPlan(tuple(_fault(item, f"faults[{i}]") for i, item in enumerate(items)), chances, seed)


# ── a scripted reply ─────────────────────────────────────────────────────────────────────────────


def _reply(item: Any, path: str) -> ScriptedReply:
    if isinstance(item, str):
        item = {"content": item}
    reply = _object(item, path)
    _only(reply, ("content", "stop_reason", "stop_sequence", "when", "output_tokens"), path)
    if "content" not in reply:
        raise _wrong(f"{path}.content", None, "a text, or a list of blocks")
    output = ModelOutput(
        _content(reply["content"], f"{path}.content"),
        _one_of(reply.get("stop_reason") or "", ("", *STOP_REASONS), f"{path}.stop_reason"),
        stop_sequence=_text_or_none(reply.get("stop_sequence"), f"{path}.stop_sequence"),
        output_tokens=None if reply.get("output_tokens") is None else _count(reply, "output_tokens", path),
    )
    return ScriptedReply(output, _text_or_none(reply.get("when"), f"{path}.when"))


def _content(value: Any, path: str) -> tuple[dict[str, Any], ...]:
    if isinstance(value, str):
        return ({"type": "text", "text": value},)
    return tuple(_block(item, f"{path}[{index}]") for index, item in enumerate(_list(value, path)))


def _block(item: Any, path: str) -> dict[str, Any]:
    block = _object(item, path)
    kind = _one_of(block.get("type"), tuple(_BLOCKS), f"{path}.type")
    needed, of_type = _BLOCKS[kind]
    if not isinstance(block.get(needed), of_type):
        raise _wrong(f"{path}.{needed}", block.get(needed), "a text")
    if "input" in block:
        _object(block["input"], f"{path}.input")
    if block.get("id") is not None and not isinstance(block["id"], str):
        raise _wrong(f"{path}.id", block["id"], "a text, or leave it out: the twin creates ids")
    return block


# ── faults ───────────────────────────────────────────────────────────────────────────────────────

_Check = Callable[[Mapping[str, Any], str, str], Any]


def _fault(item: Any, path: str) -> InjectedFault:
    given = {"kind": item} if isinstance(item, str) else _object(item, path)
    _only(given, tuple(_FAULT_CHECKS), path)
    if "kind" not in given:
        raise _wrong(f"{path}.kind", None, _any_of(FAULT_KINDS))
    return InjectedFault(**{key: _FAULT_CHECKS[key](given, key, path) for key in given})


def _random(given: Mapping[str, Any]) -> tuple[dict[FaultKind, float], int]:
    _only(given, ("seed", "chances"), "random")
    seed = _count(given, "seed", "random") if "seed" in given else 0
    chances = _object(given.get("chances", {}), "random.chances")
    for kind, chance in chances.items():
        _one_of(kind, FAULT_KINDS, "random.chances")
        if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 <= chance <= 1:
            raise _wrong(f"random.chances.{kind}", chance, "a number from 0 to 1")
    return cast(dict[FaultKind, float], chances), seed


def _choice(*allowed: str) -> _Check:
    return lambda given, key, path: _one_of(given[key], allowed, f"{path}.{key}")


def _optional_choice(*allowed: str) -> _Check:
    return lambda given, key, path: None if given[key] is None else _choice(*allowed)(given, key, path)


def _wait(given: Mapping[str, Any], key: str, path: str) -> float:
    return _seconds(given[key], f"{path}.{key}")


def _count(given: Mapping[str, Any], key: str, path: str) -> int:
    value = given[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(f"{path}.{key}", value, "a whole number, 0 or more")
    return value


def _times(given: Mapping[str, Any], key: str, path: str) -> int:
    if _count(given, key, path) == 0:
        raise _wrong(f"{path}.{key}", 0, "1 or more")
    return given[key]


def _flag(given: Mapping[str, Any], key: str, path: str) -> bool:
    if not isinstance(given[key], bool):
        raise _wrong(f"{path}.{key}", given[key], "true or false")
    return given[key]


def _headers(given: Mapping[str, Any], key: str, path: str) -> dict[str, str]:
    headers = _object(given[key], f"{path}.{key}")
    for name, value in headers.items():
        if not _is_header(name) or not isinstance(value, str | int) or not _is_header_value(str(value)):
            raise _wrong(f"{path}.{key}.{name}", value, "an HTTP header with printable ASCII text")
    return {name.lower(): str(value) for name, value in headers.items()}


def _is_header(name: str) -> bool:
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()


def _is_header_value(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _words(given: Mapping[str, Any], key: str, path: str) -> str | None:
    return _text_or_none(given[key], f"{path}.{key}")


def _retry_after(given: Mapping[str, Any], key: str, path: str) -> float | None:
    return None if given[key] is None else _wait(given, key, path)


_FAULT_CHECKS: Final[dict[str, _Check]] = {
    "kind": _choice(*FAULT_KINDS),
    "times": _times,
    "after": _count,
    "endpoint": _optional_choice(*FAULT_ENDPOINTS),
    "message": _words,
    "retry_after": _retry_after,
    "headers": _headers,
    "vendor": _choice(*FAULT_VENDORS),
    "tokens": _count,
    "limit": _count,
    "delay_s": _wait,
    "hangs_up": _flag,
    "after_events": _count,
    "error": _choice(*_STREAM_ERRORS),
}
assert set(_FAULT_CHECKS) == {field.name for field in fields(InjectedFault)}


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────


def _wrong(key: str, value: Any, allowed: str) -> ApiError:
    """The error of every wrong value: which key, its value, and what is allowed."""
    shown = repr(value)
    found = "is missing" if value is None else f"is {shown if len(shown) <= 80 else shown[:80] + '...'}"
    return invalid_request(f"{key} {found}; allowed: {allowed}.")


def _any_of(allowed: tuple[str, ...]) -> str:
    return ", ".join(name for name in allowed if name)


def _only(given: Mapping[str, Any], allowed: tuple[str, ...], path: str) -> None:
    for key in given:
        if key not in allowed:
            raise invalid_request(
                f"{path} has an unknown key {key!r} with {given[key]!r:.80}; allowed: {_any_of(allowed)}."
            )


def _object(value: Any, path: str) -> dict[str, Any]:
    if not is_object(value):
        raise _wrong(path, value, "a JSON object")
    return value


def _list(value: Any, path: str) -> list[Any]:
    if not is_list(value):
        raise _wrong(path, value, "a list")
    return value


def _one_of(value: Any, allowed: tuple[str, ...], path: str) -> Any:
    if value not in allowed:
        raise _wrong(path, value, _any_of(allowed))
    return value


def _text_or_none(value: Any, path: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _wrong(path, value, "a text")
    return value


def _seconds(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SECONDS:
        raise _wrong(path, value, f"seconds, from 0 to {MAX_SECONDS}")
    return value


def _moment(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _wrong("set", value, "a time such as 2026-11-15T00:00:00Z") from None
