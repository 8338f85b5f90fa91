"""`--set KEY=VALUE` and `--config FILE` of a command, loaded as every surface loads them (CF-5)."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from everturn.cli.output import say

Command = TypeVar("Command", bound=Callable[..., Any])


def config_options(command: Command) -> Command:
    """Adds both options, for a command that loads its configuration itself: `settings` are the keys with
    their values, `config_path` is the file or None."""

    @click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        shell_complete=complete_key,
        help="Set a configuration key; repeatable.",
    )
    @click.option(
        "--config",
        "config_path",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Read this file instead of the user's and the project's.",
    )
    @wraps(command)
    def with_settings(*args: Any, settings: tuple[str, ...], **rest: Any) -> Any:
        return command(*args, settings=dict(map(parse_setting, settings)), **rest)

    return with_settings  # pyright: ignore[reportReturnType]  # the decorated function takes the same arguments


def configured(command: Command) -> Command:
    """Adds both options; the command gets the loaded `Options` as `options`. Notices go to stderr."""

    @config_options
    @wraps(command)
    def with_options(*args: Any, settings: dict[str, str], config_path: Path | None, **rest: Any) -> Any:
        from everturn.session.config.load import resolve_options

        loaded = resolve_options(None, settings, config=config_path or "auto", project=Path.cwd())
        for note in loaded.notes:
            say(f"note: {note}", err=True)
        return command(*args, options=loaded.options, **rest)

    return with_options  # pyright: ignore[reportReturnType]  # the decorated function takes the same arguments


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from everturn.session.config.keys import KEYS

    return [f"{key}=" for key in KEYS if key.startswith(incomplete)]


def parse_setting(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise click.BadParameter(f"{setting!r} has no '='. Use KEY=VALUE.", param_hint="--set")
    return key.strip(), value.strip()
