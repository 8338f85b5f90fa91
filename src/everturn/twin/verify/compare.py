"""Take the compared values out of responses, and compare them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from everturn.twin.verify.values import ComparedField, Comparison, Probe, ProbeResponse
from everturn.wire.json_values import is_list, is_object

_TOLERANCE: Final = 0.15


def observe(probe: Probe, responses: Sequence[ProbeResponse]) -> tuple[Any, ...]:
    """The compared values of one side, in the form in which they are compared and shown."""
    return tuple(_observe(each, responses) for each in probe.compares)


def _observe(compared: ComparedField, responses: Sequence[ProbeResponse]) -> Any:
    response = responses[compared.request]
    if compared.path == "status":
        return response.status
    value = find_value(response.body, compared.path)
    if compared.how == "zero":
        return "something" if value else "nothing"
    if compared.how == "thirds":
        total = sum(_number(response.body, name) for name in _PARTS)
        return round(3 * value / total) if isinstance(value, int | float) and total else 0
    return value


_PARTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _number(body: Mapping[str, Any], name: str) -> int:
    value = find_value(body, f"usage.{name}")
    return value if isinstance(value, int) else 0


def find_value(value: Any, path: str) -> Any:
    """The value at a path such as `content.0.type`; None if there is none. `*` takes it of every item."""
    first, _, rest = path.partition(".")
    if first == "*" and is_list(value):
        return [find_value(item, rest) if rest else item for item in value]
    if is_object(value):
        found = value.get(first)
    elif is_list(value) and first.lstrip("-").isdigit() and -len(value) <= int(first) < len(value):
        found = value[int(first)]
    else:
        return None
    return find_value(found, rest) if rest else found


def are_equal(ours: Any, theirs: Any, how: Comparison) -> bool:
    if how != "near" or not all(isinstance(each, int | float) for each in (ours, theirs)):
        return ours == theirs
    return abs(ours - theirs) <= _TOLERANCE * max(abs(ours), abs(theirs))


def find_differences(probe: Probe, ours: Sequence[Any], theirs: Sequence[Any]) -> list[int]:
    """The numbers of the compared fields that differ."""
    rows = enumerate(zip(probe.compares, ours, theirs, strict=True))
    return [at for at, (compared, our, their) in rows if not are_equal(our, their, compared.how)]
