"""Load options from defaults, policy, files, environment and arguments; later ones win (CF-1, CF-3, CF-5).

The origin of every value is recorded, and all problems are reported at once. Surfaces call `resolve_options`,
which finds the files and reads the environment; `layer_options` combines them.
"""

import os
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from everturn.decide.options import DEFAULT_POLICY, Options
from everturn.decide.policy import Policy, get_policy
from everturn.errors import InputError, UsageError
from everturn.measure.model_table import add_models
from everturn.safe_files import read_file
from everturn.session.config.keys import KEYS, MODELS
from everturn.session.config.sources import (
    ConfigScope,
    ConfigSource,
    TomlFile,
    from_arguments,
    from_environment,
    from_toml,
)

PROJECT_FILE: Final = "everturn.toml"
# Every session that is opened compares all keys with their defaults.
_GETTERS: Final = {key: attrgetter(key) for key in KEYS}
_DEFAULT: Final = Options()
# "auto": the user's file and the environment. None: neither. A path: that file instead of the user's.
ConfigChoice = Literal["auto"] | str | os.PathLike[str] | None


class LoadedOptions(msgspec.Struct, frozen=True):
    """The options, the origin of each value, and notices about renamed and ignored keys."""

    options: Options
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        return {name: value_at(self.options, name) for name in KEYS}


def resolve_options(
    options: Options | Policy | object | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    config: ConfigChoice = "auto",
    defaults: Mapping[str, Any] | None = None,
    project: Path | None = None,
) -> LoadedOptions:
    """The options of a surface. `options` and `overrides` come from its caller; `defaults` are the surface's
    own. `project` is a folder whose `everturn.toml` is read too; only commands pass it, because a project's
    file may have been written by a stranger."""
    if isinstance(options, Policy):
        options = options.options
    if not isinstance(options, Options | None):
        raise UsageError(
            f"`options` takes an `Options` tree or a `Policy`; this is a {type(options).__name__}."
        )
    if config is None and options is not None and not _is_bare_policy(options):
        return _as_given(options, overrides or {})
    given = {**(_set_values(options) if options else {}), **(overrides or {})}
    environment: Mapping[str, str] = {} if config is None else os.environ
    files: tuple[TomlFile, ...] = ()
    if config == "auto":
        files = config_files(environment, home=Path.home(), cwd=project)
    elif config is not None:
        files = (config_file(Path(config)),)
    loaded = layer_options(files, environment, given, defaults=defaults)
    if loaded.options.models:
        add_models(loaded.options.models, origin=loaded.origins.get(MODELS, ""))
    return loaded


def load_options(*, config: ConfigChoice = "auto", **overrides: Any) -> Options:
    """Load the options from the configuration file, the environment, and these keywords."""
    return resolve_options(None, overrides, config=config).options


def layer_options(
    files: Sequence[TomlFile] = (),
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
) -> LoadedOptions:
    """Combine the sources. Raises `InputError`, which names every wrong key, its value, its origin and the
    allowed values; `UsageError` if only arguments are wrong."""
    from_caller = from_arguments(arguments or {})
    sources = [*(from_toml(file) for file in files), from_environment(environment or {})]
    problems = [problem for source in sources for problem in source.problems]
    if problems or from_caller.problems:
        kind = InputError if problems else UsageError
        raise kind(_describe([*problems, *from_caller.problems]))
    return _layered([*sources, from_caller], defaults or {})


def _layered(sources: Sequence[ConfigSource], defaults: Mapping[str, Any]) -> LoadedOptions:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        values.update(source.values)
        origins.update(source.origin)
    name = values.get("policy", DEFAULT_POLICY)
    base = get_policy(name).options
    differing = _differing(base)
    from_policy = {key: f"policy {name}" if key in differing else "default" for key in KEYS}
    from_surface = dict.fromkeys(defaults, "default of this surface")
    options = base
    for key, value in {**defaults, **values}.items():
        try:
            options = with_value(options, key, value)
        except ValueError as problem:
            # A value whose parts are checked where it is used, for example a row of a table.
            origin = origins.get(key, "argument")
            kind = UsageError if origin == "argument" else InputError
            raise kind(f"{origin}: {key} cannot be used: {problem}.") from None
    notes = tuple(note for source in sources for note in source.notes)
    return LoadedOptions(options, {**from_policy, **from_surface, **origins}, notes)


def value_at(options: msgspec.Struct, key: str) -> Any:
    return _GETTERS[key](options)


def _differing(options: Options) -> dict[str, Any]:
    """The values that are not defaults, by key."""
    values = ((key, get(options), get(_DEFAULT)) for key, get in _GETTERS.items())
    return {key: value for key, value, default in values if value != default}


def with_value(options: Options, key: str, value: Any) -> Options:
    """A copy of the options with a new value for one key."""
    return _with(options, key.split("."), value)


def _with(struct: Any, path: Sequence[str], value: Any) -> Any:
    first, *rest = path
    inner = _with(getattr(struct, first), rest, value) if rest else value
    return msgspec.structs.replace(struct, **{first: inner})


def _set_values(options: Options) -> dict[str, Any]:
    """The policy of these options, and their values that are not defaults. Every other key comes from the
    policy, the files and the environment."""
    values = {**_differing(options), "policy": options.policy}
    return {**values, **({MODELS: options.models} if options.models else {})}


def _is_bare_policy(options: Options) -> bool:
    """`Options(policy="none")` means the preset of that name."""
    return msgspec.structs.replace(options, policy=DEFAULT_POLICY) == Options()


def _as_given(options: Options, overrides: Mapping[str, Any]) -> LoadedOptions:
    """Complete options, which nothing is added to but the overrides."""
    said = from_arguments(overrides)
    if said.problems:
        raise UsageError(_describe(said.problems))
    for key, value in said.values.items():
        options = with_value(options, key, value)
    return LoadedOptions(options, dict(said.origin), said.notes)


def _describe(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n".join(
        [f"The configuration has {len(problems)} problems:", *(f"- {each}" for each in problems)]
    )


def config_files(
    environment: Mapping[str, str], *, home: Path, cwd: Path | None = None
) -> tuple[TomlFile, ...]:
    """The user's file, then the project's, if they exist. The file in EVERTURN_CONFIG must exist."""
    named = environment.get("EVERTURN_CONFIG", "")
    own = user_config_path(environment, home=home)
    found = [_file(own, "user"), _file(cwd / PROJECT_FILE, "project") if cwd else None]
    if named and found[0] is None:
        raise InputError(f"EVERTURN_CONFIG names the file {named}, which does not exist.")
    return tuple(file for file in found if file is not None)


def user_config_path(environment: Mapping[str, str], *, home: Path) -> Path:
    """Where the user's own file is, or would be."""
    named = environment.get("EVERTURN_CONFIG", "")
    folder = environment.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(named) if named else Path(folder) / "everturn" / "config.toml"


def config_file(path: Path) -> TomlFile:
    """A configuration file that the caller named; it counts as the user's own."""
    file = _file(path, "user")
    if file is None:
        raise InputError(f"No file {path} found.")
    return file


def _file(path: Path, whose: ConfigScope) -> TomlFile | None:
    try:
        return TomlFile(read_file(path).decode(), str(path), whose)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
        raise InputError(f"{path} cannot be read: {why}. Check its permissions and its encoding.") from None
