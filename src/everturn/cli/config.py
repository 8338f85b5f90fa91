"""`everturn config`: every value in force, and where it came from."""

import os
from pathlib import Path

import click


@click.command(short_help="Every value in force, and where it came from.")
@click.option(
    "--file", "path", type=click.Path(path_type=Path), help="Read this file instead of the usual ones."
)
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set a value, as an argument would."
)
@click.option("--changed", is_flag=True, help="Only what is not a default.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def config(path: Path | None, settings: tuple[str, ...], changed: bool, as_json: bool) -> None:
    """Show the configuration of this directory: key, value, and where the value came from.

    Keys can be set in config.toml, as environment variables (EVERTURN_ and the key in capitals), and with
    --set. Secrets are never shown.
    """
    import msgspec

    from everturn.session.config.load import config_file, config_files, load

    files = (config_file(path),) if path else config_files(os.environ, home=Path.home(), cwd=Path.cwd())
    loaded = load(files, os.environ, dict(map(_parse_setting, settings)))
    shown = {key: value for key, value in loaded.values().items() if _is_shown(loaded.origins[key], changed)}
    if as_json:
        rows = {key: {"value": value, "from": loaded.origins[key]} for key, value in shown.items()}
        click.echo(msgspec.json.encode({"values": rows, "notes": loaded.notes}, enc_hook=repr))
        return
    width = max(map(len, shown), default=0)
    for key, value in shown.items():
        origin = loaded.origins[key]
        click.echo(
            f"{key:<{width}}  {_format_value(value)}" + ("" if origin == "default" else f"  ({origin})")
        )
    for note in loaded.notes:
        click.echo(f"note: {note}", err=True)


def _parse_setting(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise click.BadParameter(f"{setting!r} has no '='; write KEY=VALUE.", param_hint="--set")
    return key.strip(), value.strip()


def _is_shown(origin: str, changed: bool) -> bool:
    return not changed or origin != "default"


def _format_value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "(none)"
    return "(none)" if value is None or value == "" else str(value)
