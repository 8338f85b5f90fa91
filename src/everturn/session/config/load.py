"""The configuration in force: defaults, then the policy, files, environment, arguments (CF-1, CF-3).

Every value remembers where it came from. All that is wrong is told at once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from everturn.errors import InputError
from everturn.session.config.keys import KEYS
from everturn.session.config.shape import DEFAULT_POLICY, Config, of_policy
from everturn.session.config.sources import (
    ConfigScope,
    ConfigSource,
    TomlFile,
    from_arguments,
    from_environment,
    from_toml,
)

PROJECT_FILE: Final = "everturn.toml"


class LoadedConfig(msgspec.Struct, frozen=True):
    """The configuration, where each of its values came from, and what was passed over on the way."""

    config: Config
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        return {name: value_at(self.config, name) for name in KEYS}


def load(
    files: Sequence[TomlFile] = (),
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> LoadedConfig:
    """Later sources win. Raises InputError, which names every key, value, origin and what is allowed."""
    sources = [
        *(from_toml(file) for file in files),
        from_environment(environment or {}),
        from_arguments(arguments or {}),
    ]
    problems = [problem for source in sources for problem in source.problems]
    if problems:
        raise InputError(_told(problems))
    return _layered(sources)


def _layered(sources: Sequence[ConfigSource]) -> LoadedConfig:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        values.update(source.values)
        origins.update(source.origin)
    name = values.get("policy", DEFAULT_POLICY)
    base = of_policy(name)
    config = base
    for key, value in values.items():
        config = _with(config, key.split("."), value)
    from_policy = {
        key: f"policy {name}" if value_at(base, key) != value_at(Config(), key) else "default" for key in KEYS
    }
    notes = tuple(note for source in sources for note in source.notes)
    return LoadedConfig(config, {**from_policy, **origins}, notes)


def value_at(config: msgspec.Struct, key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _with(config: Any, path: Sequence[str], value: Any) -> Any:
    first, *rest = path
    inner = _with(getattr(config, first), rest, value) if rest else value
    return msgspec.structs.replace(config, **{first: inner})


def _told(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n".join(
        [f"The configuration has {len(problems)} problems:", *(f"- {each}" for each in problems)]
    )


def config_files(environment: Mapping[str, str], *, home: Path, cwd: Path) -> tuple[TomlFile, ...]:
    """The user's file, then the project's, as far as they exist. A file that was named must exist."""
    named = environment.get("EVERTURN_CONFIG", "")
    folder = environment.get("XDG_CONFIG_HOME") or home / ".config"
    own = Path(named) if named else Path(folder) / "everturn" / "config.toml"
    found = [_file(own, "user"), _file(cwd / PROJECT_FILE, "project")]
    if named and found[0] is None:
        raise InputError(f"There is no file {named}, which EVERTURN_CONFIG names.")
    return tuple(file for file in found if file is not None)


def config_file(path: Path) -> TomlFile:
    """A file that somebody named, as their own."""
    file = _file(path, "user")
    if file is None:
        raise InputError(f"There is no file {path}.")
    return file


def _file(path: Path, whose: ConfigScope) -> TomlFile | None:
    try:
        return TomlFile(path.read_text(encoding="utf-8"), str(path), whose)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as problem:
        raise InputError(
            f"{path} cannot be read: {problem}. Check its permissions and its encoding."
        ) from None
