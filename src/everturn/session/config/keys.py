"""The configuration keys, their allowed values, and parsing of values (CF-1).

The keys are derived from the fields of `Options`. `BOUNDS` holds the ranges of numbers; a number without an
entry there is between zero and ten million.
"""

import inspect
import re
import types
from collections.abc import Iterator, Mapping
from datetime import timedelta
from math import inf, isfinite
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from everturn.decide.options import Options, Secret
from everturn.decide.policy import POLICIES
from everturn.wire.json_values import as_sequence


class InvalidConfigValue(Exception):
    """A value that its key does not allow. `sources.py` turns it into a message for the user."""


class Bounds(NamedTuple):
    least: float = 0
    most: float = inf
    # Whether `least` itself is excluded.
    is_open: bool = False

    def hold(self, value: float) -> bool:
        return (value > self.least if self.is_open else value >= self.least) and value <= self.most

    def __str__(self) -> str:
        low = f"above {self.least:g}" if self.is_open else f"{self.least:g} or more"
        if self.most == inf:
            return low
        most = f"{self.most:,.10g}"
        return f"{low} and at most {most}" if self.is_open else f"from {self.least:g} to {most}"


# Every number has an upper limit: a project's file must not be able to make a session spend, wait or search
# without end. In tokens it is more than any model has.
_ANY: Final = Bounds(0, 10_000_000)
_AT_LEAST_ONE: Final = Bounds(1, 10_000_000)
_SHARE: Final = Bounds(0, 1, is_open=True)
_FEW: Final = Bounds(0, 1_000)
BOUNDS: Final[Mapping[str, Bounds]] = {
    "window": _AT_LEAST_ONE,
    "thresholds.auto_percent": Bounds(0, 100, is_open=True),
    "micro.declarative.thinking_turns": _AT_LEAST_ONE,
    "micro.window.tokens": _AT_LEAST_ONE,
    "micro.window.share": _SHARE,
    "max_tokens": _AT_LEAST_ONE,
    "thinking.budget_tokens": Bounds(1024, 10_000_000),
    "store.deadline": Bounds(0, 300, is_open=True),
    "limits.rounds": Bounds(1, 10_000),
    "limits.conversations": Bounds(1, 100_000),
    "cache.breaks.share": Bounds(0, 1),
    "cache.breaks.max_sources": Bounds(1, 1_000),
    "compact.drop_share": _SHARE,
    "compact.cold_share": _SHARE,
    "compact.max_output": _AT_LEAST_ONE,
    # How many summary calls one session can make in vain.
    "compact.failures": Bounds(1, 10),
    "compact.calls": Bounds(0, 20),
    "compact.retries": Bounds(0, 10),
    "compact.refills": Bounds(1, 100),
    "compact.refill_turns": _FEW,
    "compact.retry_calls": _FEW,
    "compact.culprits": _FEW,
    "compact.names": _FEW,
    "compact.files": Bounds(0, 100),
    # Expressions that look for rules see texts of this length.
    "compact.longest_pin": Bounds(0, 10_000),
    "compact.unsent_share": Bounds(0, 1),
    "compact.most_unsent": Bounds(0, 1),
    "compact.most_unanswered": Bounds(0, 1),
    "micro.thinking_worth": _FEW,
    "notes.tool_calls": _FEW,
    "notes.section": _AT_LEAST_ONE,
    "notes.whole": _AT_LEAST_ONE,
}
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s{0,9}(ms|s|m|h|d)?")
YES: Final = frozenset({"1", "true", "yes", "on"})
NO: Final = frozenset({"0", "false", "no", "off"})
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+(?:[/?#][^\s@]*)?")


class ConfigKey(msgspec.Struct, frozen=True):
    name: str
    type: Any
    default: Any

    @property
    def is_secret(self) -> bool:
        return self.type is Secret

    @property
    def bounds(self) -> Bounds:
        return BOUNDS.get(self.name, _ANY)

    @property
    def variable(self) -> str:
        return "EVERTURN_" + self.name.upper().replace(".", "_")


# A separate table: `[models."name"]`, read by `measure/model_table.py` (CF-6).
MODELS: Final = "models"


def _keys(shape: type[msgspec.Struct], prefix: str = "") -> Iterator[ConfigKey]:
    for field in msgspec.structs.fields(shape):
        name = prefix + field.name
        if name == MODELS:
            continue
        if inspect.isclass(field.type) and issubclass(field.type, msgspec.Struct):
            yield from _keys(field.type, name + ".")
        else:
            yield ConfigKey(name, _without_none(field.type), field.default)


def _without_none(kind: Any) -> Any:
    """The type of an optional field without None: `int | None` takes a number if it is set."""
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    return kind


KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _keys(Options)}
SECTIONS: Final = frozenset(
    ".".join(parts[:count]) for parts in (name.split(".") for name in KEYS) for count in range(1, len(parts))
)


# Renamed keys. The old names still work, with a notice that gives the new name. A kind of micro-compaction
# that is new has no old name.
_FORMER_SWITCHES: Final = (
    "oversize", "time", "cached", "budget", "masking", "clear_at", "window", "declarative",
)  # fmt: skip
RENAMED_KEYS: Final[Mapping[str, str]] = {
    "switches.everything": "enabled",
    "switches.compaction": "compact.enabled",
    "switches.micro_compaction": "micro.enabled",
    **{f"switches.{step}": f"micro.{step}.enabled" for step in _FORMER_SWITCHES},
    **{name.removeprefix("cache."): name for name in KEYS if name.startswith("cache.")},
}

# The same for values: a key, its old value, and the new one.
RENAMED_VALUES: Final = (("compact.strategies", "extract", "extractive"),)


def choices_of(key: ConfigKey) -> tuple[str, ...]:
    """The allowed values of a key, or of each item of a list; empty if any text is allowed."""
    kind = get_args(key.type)[0] if get_origin(key.type) is tuple else key.type
    return get_args(kind) if get_origin(kind) is Literal else ()


def allowed(key: ConfigKey) -> str:
    """The allowed values of a key, for messages."""
    if key.name == "policy":
        return f"one of {', '.join(sorted(POLICIES))}"
    if key.name == "provider.base_url":
        return "a URL that begins with https:// or http:// and holds no password"
    if get_origin(key.type) is Literal:
        choices = get_args(key.type)
        # The empty text of a key that need not be set cannot be seen in a list.
        unset = ', or "" to leave it unset' if "" in choices else ""
        return f"one of {', '.join(filter(None, choices))}{unset}"
    if get_origin(key.type) is tuple:
        choices = choices_of(key)
        return f"a list of {', '.join(choices)}" if choices else "a list of texts"
    return {
        bool: "true or false",
        int: f"a whole number, {key.bounds}",
        float: f"a number {key.bounds}",
        timedelta: 'seconds, or a text such as "90s", "60m", "1h"',
        str: "a text",
        Secret: "a text",
    }[key.type]


def parse_value(key: ConfigKey, given: Any) -> Any:
    """The value of a key as a file or a caller gives it; raises `InvalidConfigValue`."""
    kind = key.type
    if kind in (int, float):
        return _number(key, given)
    if kind is timedelta:
        return _duration(given)
    if kind is bool and isinstance(given, bool):
        return given
    if get_origin(kind) is tuple:
        return _texts(key, given)
    if kind is Secret:
        return given if isinstance(given, Secret) else Secret(_text(given))
    if kind is not bool:
        return _chosen(key, _text(given))
    raise InvalidConfigValue


def parse_text_value(key: ConfigKey, text: str) -> Any:
    """Parse the value of a key from text, as an environment variable or the command line gives it."""
    kind = key.type
    if kind is bool:
        return parse_boolean(text)
    if kind in (int, float):
        try:
            return _number(key, kind(text.strip().replace("_", "")))
        except (ValueError, OverflowError):
            raise InvalidConfigValue from None
    if get_origin(kind) is tuple:
        return _texts(key, [part.strip() for part in text.split(",") if part.strip()])
    return parse_value(key, text)


def parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in YES | NO:
        raise InvalidConfigValue
    return word in YES


def _number(key: ConfigKey, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
        raise InvalidConfigValue
    if key.type is int and not isinstance(given, int):
        raise InvalidConfigValue
    if not key.bounds.hold(given):
        raise InvalidConfigValue
    return key.type(given)


def _duration(given: Any) -> timedelta:
    if isinstance(given, timedelta):
        seconds = given.total_seconds()
    elif isinstance(given, str) and (found := _DURATION.fullmatch(given.strip())):
        seconds = float(found[1]) * _UNITS[found[2] or "s"]
    elif isinstance(given, int | float) and not isinstance(given, bool) and isfinite(given):
        seconds = given
    else:
        raise InvalidConfigValue
    # A thousand years: a longer duration is a mistake, and would overflow a datetime.
    if not 0 <= seconds <= 365_000 * _UNITS["d"]:
        raise InvalidConfigValue
    return timedelta(seconds=seconds)


def _texts(key: ConfigKey, given: Any) -> tuple[str, ...]:
    choices, items = choices_of(key), as_sequence(given)
    if items is None or not all(isinstance(item, str) for item in items):
        raise InvalidConfigValue
    if choices and not set(items) <= set(choices):
        raise InvalidConfigValue
    return tuple(items)


def _text(given: Any) -> str:
    if not isinstance(given, str) or "\0" in given:
        raise InvalidConfigValue
    return given


def _chosen(key: ConfigKey, text: str) -> str:
    if key.name == "policy" and text not in POLICIES:
        raise InvalidConfigValue
    if get_origin(key.type) is Literal and text not in get_args(key.type):
        raise InvalidConfigValue
    if key.name == "provider.base_url" and text and not _ADDRESS.fullmatch(text):
        raise InvalidConfigValue
    return text
