"""`everturn config`: the effective configuration, and where each value comes from."""

from pathlib import Path
from typing import cast

import click

from everturn.cli.configured import parse_setting
from everturn.cli.output import say, say_json


@click.command(short_help="Show the effective configuration and the origin of each value.")
@click.option(
    "--file", "path", type=click.Path(path_type=Path), help="Read this file instead of the default ones."
)
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Override a value; can be repeated."
)
@click.option("--changed", is_flag=True, help="Show only values that differ from the defaults.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def config(path: Path | None, settings: tuple[str, ...], changed: bool, as_json: bool) -> None:
    """Show the configuration of this directory: key, value, and where the value comes from.

    Set keys in config.toml, as environment variables (EVERTURN_ and the key in capitals), or with --set.
    Secrets are never shown.
    """
    import msgspec

    from everturn.session.config.load import resolve_options

    given = dict(map(parse_setting, settings))
    loaded = resolve_options(None, given, config=path or "auto", project=Path.cwd())
    shown = {key: value for key, value in loaded.values().items() if _is_shown(loaded.origins[key], changed)}
    if as_json:
        rows = {key: {"value": value, "from": loaded.origins[key]} for key, value in shown.items()}
        say_json(msgspec.json.encode({"values": rows, "notes": loaded.notes}, enc_hook=repr))
        return
    width = max(map(len, shown), default=0)
    for key, value in shown.items():
        origin = loaded.origins[key]
        say(f"{key:<{width}}  {_format_value(value)}" + ("" if origin == "default" else f"  ({origin})"))
    for note in loaded.notes:
        say(f"note: {note}", err=True)


def _is_shown(origin: str, changed: bool) -> bool:
    return not changed or origin != "default"


def _format_value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, cast(tuple[object, ...], value))) or "(none)"
    return "(none)" if value is None or value == "" else str(value)
