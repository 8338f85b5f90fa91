"""Where values come from: TOML files, environment, arguments; each read into keys and values (CF-1, CF-2).

Nothing here decides which of them wins: `load.py` does.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.session.config.keys import (
    KEYS,
    SECTIONS,
    ConfigKey,
    InvalidConfigValue,
    allowed,
    parse_boolean,
    parse_text_value,
    parse_value,
)

# A project's file came with the project; the user's own is theirs.
ConfigScope = Literal["user", "project"]
# What a project may not choose: it would decide where the user's key is sent.
NOT_FOR_PROJECTS: Final = "provider."


class ConfigSource(msgspec.Struct, frozen=True):
    """One source, read. Problems stop the start; notes are told and passed over."""

    origin: Mapping[str, str] = {}
    values: Mapping[str, Any] = {}
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class TomlFile(msgspec.Struct, frozen=True):
    text: str
    name: str
    whose: ConfigScope = "user"


class KnownVariable(NamedTuple):
    """An environment name that users already know, and what it does to which key."""

    variable: str
    key: str
    how: Literal["value", "value where it is in range", "switches off", "switches on"] = "value"


KNOWN_VARIABLES: Final = (
    KnownVariable("DISABLE_COMPACT", "switches.compaction", "switches off"),
    KnownVariable("DISABLE_AUTO_COMPACT", "thresholds.auto_compaction", "switches off"),
    KnownVariable("DISABLE_MICROCOMPACT", "switches.micro_compaction", "switches off"),
    # Outside (0, 100] it is ignored (TOK-14).
    KnownVariable("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "thresholds.auto_percent", "value where it is in range"),
    KnownVariable("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "window", "value where it is in range"),
    KnownVariable("API_MAX_INPUT_TOKENS", "micro.declarative.trigger"),
    KnownVariable("API_TARGET_INPUT_TOKENS", "micro.declarative.target"),
    KnownVariable("ENABLE_PROMPT_CACHING_1H", "ttl.eligible", "switches on"),
    KnownVariable("ANTHROPIC_MODEL", "model"),
    KnownVariable("ANTHROPIC_API_KEY", "provider.api_key"),
    KnownVariable("ANTHROPIC_AUTH_TOKEN", "provider.auth_token"),
    KnownVariable("ANTHROPIC_BASE_URL", "provider.base_url"),
)
# Names with our prefix that are no keys: where the file is; and what the test suite reads.
OTHERS: Final = frozenset({"EVERTURN_CONFIG", "EVERTURN_PROFILE", "EVERTURN_WRITE_GOLDEN"})


class _Reading:
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []

    def take(self, name: str, given: Any, origin: str, read: Callable[[ConfigKey, Any], Any]) -> None:
        key = KEYS.get(name)
        if key is None:
            self.problems.append(f"{origin}: there is no key {name!r}.{_did_you_mean(name)}")
            return
        try:
            self.values[name] = read(key, given)
            self.origin[name] = origin
        except InvalidConfigValue:
            self.problems.append(f"{origin}: {name} = {_shown(key, given)}, allowed is {allowed(key)}.")

    def given(self) -> ConfigSource:
        return ConfigSource(self.origin, self.values, tuple(self.problems), tuple(self.notes))


def from_toml(file: TomlFile) -> ConfigSource:
    reading = _Reading()
    try:
        table = tomllib.loads(file.text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        return ConfigSource(problems=(f"{file.name} is no TOML: {problem}.",))
    for name, value in _flat(table):
        if name in SECTIONS:
            example = min(key for key in KEYS if key.startswith(name + "."))
            reading.problems.append(
                f"{file.name}: {name} = {value!r}, but {name} is a section with keys such as {example}."
            )
        elif file.whose == "project" and name.startswith(NOT_FOR_PROJECTS):
            reading.notes.append(f"{file.name}: {name} is not taken from a project's file")
        else:
            reading.take(name, value, file.name, parse_value)
    return reading.given()


def from_arguments(arguments: Mapping[str, Any]) -> ConfigSource:
    """Keys with their dots, or nested mappings; a text is read as a command line would give it."""
    reading = _Reading()
    for name, value in _flat(arguments):
        read = parse_text_value if isinstance(value, str) else parse_value
        reading.take(name, value, "argument", read)
    return reading.given()


def from_environment(environment: Mapping[str, str]) -> ConfigSource:
    """Names that users know first, then our own: who sets one of ours means us. Empty is not set."""
    reading = _Reading()
    for known in KNOWN_VARIABLES:
        if text := environment.get(known.variable, "").strip():
            _known(reading, known, text)
    ours = {key.variable: name for name, key in KEYS.items()}
    for variable in sorted(environment):
        if not variable.startswith("EVERTURN_") or variable in OTHERS or not environment[variable].strip():
            continue
        origin = f"environment {variable}"
        if variable in ours:
            reading.take(ours[variable], environment[variable].strip(), origin, parse_text_value)
        else:
            near = get_close_matches(variable, ours, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            reading.problems.append(f"{origin}: there is no such key.{hint}")
    return reading.given()


def _known(reading: _Reading, known: KnownVariable, text: str) -> None:
    origin = f"environment {known.variable}"
    if known.how == "value":
        reading.take(known.key, text, origin, parse_text_value)
        return
    try:
        if known.how == "value where it is in range":
            reading.values[known.key] = parse_text_value(KEYS[known.key], text)
        elif parse_boolean(text):
            reading.values[known.key] = known.how == "switches on"
        else:
            return
        reading.origin[known.key] = origin
    except InvalidConfigValue:
        if known.how == "value where it is in range":
            reading.notes.append(f"{origin} = {text!r} is ignored: allowed is {allowed(KEYS[known.key])}")
        else:
            reading.problems.append(f"{origin} = {text!r}, allowed is 1 or 0.")


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _did_you_mean(name: str) -> str:
    near = get_close_matches(name, KEYS, n=1)
    if not near:
        # The right word in the wrong section.
        near = [key for key in KEYS if key.rpartition(".")[2] == name.rpartition(".")[2]][:1]
    return f" Did you mean {near[0]}?" if near else " `everturn config` lists all keys."


def _shown(key: ConfigKey, given: Any) -> str:
    """A value in an error. A secret is not shown, nor an address that may hold one."""
    if key.is_secret or key.name == "provider.base_url":
        return "(a value that is not shown)"
    text = repr(given)
    return text if len(text) <= 80 else text[:77] + "..."
