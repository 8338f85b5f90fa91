"""The sources of configuration: TOML files, environment and arguments, parsed into values (CF-1, CF-2).

`load.py` decides which source wins.
"""

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.errors import UsageError
from everturn.session.config.keys import (
    KEYS,
    MODELS,
    RENAMED_KEYS,
    RENAMED_VALUES,
    SECTIONS,
    ConfigKey,
    InvalidConfigValue,
    allowed,
    parse_boolean,
    parse_text_value,
    parse_value,
)
from everturn.wire.json_values import as_mapping

# Whose file it is. A project's file may have been written by a stranger.
ConfigScope = Literal["user", "project"]
# Keys that a project's file may not set: where the user's API key is sent, which programs run, where data is
# stored, and the prices of models.
NOT_FOR_PROJECTS: Final = ("provider.", "hooks.", "events.", "store.", "models.", "gateway.")


class ConfigSource(msgspec.Struct, frozen=True):
    """The values of one source. Problems prevent the start; notes are only shown."""

    origin: Mapping[str, str] = {}
    values: Mapping[str, Any] = {}
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class TomlFile(msgspec.Struct, frozen=True):
    text: str
    name: str
    whose: ConfigScope = "user"


class KnownVariable(NamedTuple):
    """A well-known environment variable, the key it sets, and how."""

    variable: str
    key: str
    how: Literal["value", "value where it is in range", "switches off", "switches on"] = "value"


KNOWN_VARIABLES: Final = (
    KnownVariable("DISABLE_COMPACT", "compact.enabled", "switches off"),
    KnownVariable("DISABLE_AUTO_COMPACT", "thresholds.auto_compaction", "switches off"),
    KnownVariable("DISABLE_MICROCOMPACT", "micro.enabled", "switches off"),
    # Outside (0, 100] it is ignored (TOK-14).
    KnownVariable("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "thresholds.auto_percent", "value where it is in range"),
    KnownVariable("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "window", "value where it is in range"),
    KnownVariable("API_MAX_INPUT_TOKENS", "micro.declarative.trigger"),
    KnownVariable("API_TARGET_INPUT_TOKENS", "micro.declarative.target"),
    KnownVariable("ENABLE_PROMPT_CACHING_1H", "cache.ttl.eligible", "switches on"),
    KnownVariable("ENABLE_PROMPT_CACHING_1H_BEDROCK", "cache.ttl.bedrock_1h", "switches on"),
    KnownVariable("ANTHROPIC_MODEL", "model"),
    KnownVariable("ANTHROPIC_API_KEY", "provider.api_key"),
    KnownVariable("ANTHROPIC_AUTH_TOKEN", "provider.auth_token"),
    KnownVariable("ANTHROPIC_BASE_URL", "provider.base_url"),
)
# The keys by the name of their variable, under old names too.
OURS: Final = {
    **{key.variable: name for name, key in KEYS.items()},
    **{"EVERTURN_" + name.upper().replace(".", "_"): name for name in RENAMED_KEYS},
}
# Names with our prefix that are not keys: where the file is, and what the test suite reads.
OTHERS: Final = frozenset({"EVERTURN_CONFIG", "EVERTURN_PROFILE"})
TEST_PREFIX: Final = "EVERTURN_WRITE_"


class _Reading:
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []

    def take(self, name: str, given: Any, origin: str, read: Callable[[ConfigKey, Any], Any]) -> None:
        if name in RENAMED_KEYS:
            self.notes.append(f"{origin}: {name} is now {RENAMED_KEYS[name]}")
            name = RENAMED_KEYS[name]
        key = KEYS.get(name)
        if key is None:
            self.problems.append(f"{origin}: no key is named {name!r}.{_did_you_mean(name)}")
            return
        try:
            self.values[name] = read(key, given)
            self.origin[name] = origin
        except InvalidConfigValue:
            self.problems.append(f"{origin}: {name} = {_shown(key, given)}, allowed is {allowed(key)}.")
            return
        for renamed, old, new in RENAMED_VALUES:
            if name == renamed and old in self.values[name]:
                self.notes.append(f"{origin}: {old!r} in {name} is now {new!r}")

    def take_models(self, entries: Any, origin: str) -> None:
        rows = as_mapping(entries)
        if rows is None or not all(isinstance(row, Mapping) for row in rows.values()):
            self.problems.append(
                f'{origin}: {MODELS} holds one table for each model, such as [models."name"].'
            )
            return
        self.values[MODELS] = {str(name): dict(row) for name, row in rows.items()}
        self.origin[MODELS] = origin

    def given(self) -> ConfigSource:
        return ConfigSource(self.origin, self.values, tuple(self.problems), tuple(self.notes))


def from_toml(file: TomlFile) -> ConfigSource:
    reading = _Reading()
    try:
        table = tomllib.loads(file.text)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        return ConfigSource(problems=(f"{file.name} is not valid TOML: {problem}.",))
    models = table.pop(MODELS, {})
    if models and file.whose == "project":
        reading.notes.append(f"{file.name}: {MODELS} is ignored; a project's file may not set it")
    elif models:
        reading.take_models(models, file.name)
    for name, value in _flat(table):
        if name in SECTIONS:
            example = min(key for key in KEYS if key.startswith(name + "."))
            reading.problems.append(
                f"{file.name}: {name} = {value!r}, but {name} is a section with keys such as {example}."
            )
        elif file.whose == "project" and name.startswith(NOT_FOR_PROJECTS):
            reading.notes.append(f"{file.name}: {name} is ignored; a project's file may not set it")
        else:
            reading.take(name, value, file.name, parse_value)
    return reading.given()


def from_arguments(arguments: Mapping[str, Any]) -> ConfigSource:
    """Read keyword arguments: dotted keys, nested mappings, or settings structs. Strings are parsed as on the
    command line. True or False for a section sets its `enabled` key. None is a key that is not set."""
    reading = _Reading()
    arguments = dict(arguments)
    if models := arguments.pop(MODELS, None):
        reading.take_models(models, "argument")
    for name, value in _flat(_unpacked(arguments)):
        if value is None and (name in KEYS or name in SECTIONS or name in RENAMED_KEYS):
            continue
        if f"{name}.enabled" in KEYS and isinstance(value, bool):
            name = f"{name}.enabled"
        read = parse_text_value if isinstance(value, str) else parse_value
        reading.take(name, value, "argument", read)
    return reading.given()


def from_environment(environment: Mapping[str, str]) -> ConfigSource:
    """Read well-known variables first, then EVERTURN_ variables, which win. An empty variable is not set."""
    reading = _Reading()
    for known in KNOWN_VARIABLES:
        if text := environment.get(known.variable, "").strip():
            _known(reading, known, text)
    for variable in sorted(environment):
        is_ours = variable.startswith("EVERTURN_") and not variable.startswith(TEST_PREFIX)
        if not is_ours or variable in OTHERS or not environment[variable].strip():
            continue
        origin = f"environment {variable}"
        if variable in OURS:
            reading.take(OURS[variable], environment[variable].strip(), origin, parse_text_value)
        else:
            near = get_close_matches(variable, OURS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            reading.problems.append(f"{origin}: no key has this name.{hint}")
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


def _unpacked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert settings structs to mappings."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, msgspec.Struct):
            fields = {field: getattr(value, field) for field in value.__struct_fields__}
            found[name] = _unpacked(fields)
        elif (section := as_mapping(value)) is not None:
            found[name] = _unpacked(section)
        else:
            found[name] = value
    return found


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if (section := as_mapping(value)) is not None:
            yield from _flat(section, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def check_arguments(given: Iterable[str], arguments: Collection[str], renamed: Collection[str]) -> None:
    """Raise for a keyword that looks like one of a program's other arguments. Others are looked for among the
    keys of the configuration."""
    for name in given:
        if name in KEYS or name in SECTIONS or name in renamed:
            continue
        near = get_close_matches(name, [*KEYS, *SECTIONS, *arguments], n=1)
        if near and near[0] in arguments:
            raise UsageError(f"argument: {name!r} is neither an argument nor a key. Did you mean {near[0]}?")


def _did_you_mean(name: str) -> str:
    near = get_close_matches(name, KEYS, n=1)
    if not near:
        # A key with this name in another section.
        near = [key for key in KEYS if key.rpartition(".")[2] == name.rpartition(".")[2]][:1]
    return f" Did you mean {near[0]}?" if near else " `everturn config` lists all keys."


def _shown(key: ConfigKey, given: Any) -> str:
    """A value for an error message. Secrets, and URLs that may hold one, are not shown."""
    if key.is_secret or key.name == "provider.base_url":
        return "(a value that is not shown)"
    text = repr(given)
    return text if len(text) <= 80 else text[:77] + "..."
