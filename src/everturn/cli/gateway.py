"""`everturn gateway`: the Messages API with everturn in front."""

import os
import secrets
import socket
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from everturn.cli.configured import config_options, parse_setting
from everturn.cli.output import say
from everturn.cli.signals import stop_on_signals
from everturn.errors import UsageError
from everturn.gateway.access_log import LogRequest, make_access_log
from everturn.gateway.app import Gateway, make_gateway
from everturn.gateway.server import SHUTDOWN_SECONDS, GatewayServer, look_for_garbage_less, reuse_freed_memory
from everturn.gateway.start import TWIN, check_reachable, load_settings, open_upstream
from everturn.gateway.tokens import add_token, load_tokens
from everturn.gateway.values import (
    DEFAULT_HOST,
    DEFAULT_OPERATOR_PORT,
    DEFAULT_PORT,
    DEFAULT_UPSTREAM,
    MODES,
    Mode,
)
from everturn.safe_files import open_for_appending
from everturn.twin.sockets import bind_socket, url_of

_PATH: Final = click.Path(dir_okay=False, path_type=Path)


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `everturn gateway` and `everturn run`."""
    for option in (
        click.option(
            "--mode",
            type=click.Choice(MODES),
            help="observe: relay and record. manage: decide. Default: observe.",
        ),
        click.option(
            "--limit", "limits", metavar="NAME=VALUE", multiple=True, help="Change a limit; repeatable."
        ),
        config_options,
    ):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 chooses a free port.",
)
@click.option(
    "--upstream",
    metavar="URL",
    default="",
    help=f"Where requests go; 'twin' starts a local Messages API.  [default: {DEFAULT_UPSTREAM}]",
)
@click.option("--tokens", "tokens_file", type=_PATH, help="File of tokens; required beyond this machine.")
@click.option(
    "--allow-host", "allowed_hosts", multiple=True, metavar="NAME", help="A host name that clients use."
)
@click.option(
    "--operator-port",
    default=DEFAULT_OPERATOR_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of /livez, /readyz and /metrics.",
)
@click.option("--operator-host", default=DEFAULT_HOST, show_default=True, help="Address of that listener.")
@click.option(
    "--shutdown-seconds",
    default=SHUTDOWN_SECONDS,
    show_default=True,
    type=click.IntRange(0),
    help="How long running requests may go on after SIGTERM.",
)
@click.option("--access-log", metavar="FILE", help="Append a line of JSON per request; '-' for stderr.")
@shared_options
@click.pass_context
def gateway(
    context: click.Context,
    *,
    host: str,
    port: int,
    upstream: str,
    tokens_file: Path | None,
    allowed_hosts: tuple[str, ...],
    operator_port: int,
    operator_host: str,
    shutdown_seconds: int,
    access_log: str | None,
    mode: Mode | None,
    limits: tuple[str, ...],
    settings: dict[str, str],
    config_path: Path | None,
) -> None:
    """Put everturn in front of the Messages API, for Claude Code and every other client.

    \b
        everturn gateway
        export ANTHROPIC_BASE_URL=http://127.0.0.1:8377

    In observe mode every byte is relayed unchanged; conversations are recorded, billed and explained. In
    manage mode the engine decides which messages are sent. Keys are passed on and never stored.
    """
    if context.invoked_subcommand is not None:
        return
    check_reachable(host, tokens_file is not None)
    with open_upstream(upstream) as address:
        loaded = load_settings(
            upstream=address, mode=mode, settings=settings, config_path=config_path,
            limits=dict(map(parse_limit, limits)), allowed_hosts=(host, *allowed_hosts),
        )  # fmt: skip
        made = make_gateway(
            loaded,
            tokens=load_tokens(tokens_file) if tokens_file else None,
            log_request=_open_access_log(access_log) if access_log else lambda _: None,
        )
        warn_about_store(made)
        with (
            closing(bind_socket(host, port)) as listener,
            closing(_bind_operator(operator_host, operator_port)) as operator,
        ):
            address, metrics = url_of(listener), f"{url_of(operator)}/metrics"
            where = "a twin inside, any API key works" if upstream == TWIN else loaded.upstream

            def say_ready() -> None:
                say(f"export ANTHROPIC_BASE_URL={address}")
                say(f"{loaded.mode} mode; upstream: {where}; metrics: {metrics}", err=True)

            server = GatewayServer(made, say_ready, operator, shutdown_seconds)
            stop_on_signals(server)
            look_for_garbage_less()
            reuse_freed_memory()
            server.run(sockets=[listener])


@gateway.command()
@click.argument("tenant")
@click.option("--tokens", "tokens_file", type=_PATH, required=True, help="File to add the token to.")
@click.option("--mode", type=click.Choice(MODES), help="Mode of this tenant, instead of the gateway's.")
def token(tenant: str, tokens_file: Path, mode: Mode | None) -> None:
    """Make a token for TENANT and print it. The file gets its digest only, so keep the token."""
    say(add_token(tokens_file, tenant, mode or "", secrets.token_urlsafe(32)))


def warn_about_store(made: Gateway) -> None:
    """A store that does not answer may be back soon; whatever else is wrong with it ends the command."""
    if problem := made.check_store():
        say(f"Warning: {problem} Until it answers, requests are relayed and not recorded.", err=True)


def parse_limit(text: str) -> tuple[str, str]:
    if "=" not in text:
        raise click.BadParameter(f"{text!r} has no '='. Use NAME=VALUE.", param_hint="--limit")
    return parse_setting(text)


def _bind_operator(host: str, port: int) -> socket.socket:
    try:
        return bind_socket(host, port)
    except UsageError:
        raise UsageError(
            f"Cannot listen on {host} port {port} for /metrics; another gateway may be running. Choose "
            "another port with --operator-port, or 0 for a free one."
        ) from None


def _open_access_log(name: str) -> LogRequest:
    def clock() -> datetime:
        return datetime.now(UTC)

    if name == "-":
        return make_access_log(lambda line: say(line, err=True), clock)
    try:
        file = open_for_appending(name)
    except OSError as problem:
        raise UsageError(f"Cannot write the access log {name}: {problem.strerror}.") from None

    def write(line: str) -> None:
        # In one piece, so that the lines of several processes do not mix.
        os.write(file, line.encode() + b"\n")

    return make_access_log(write, clock)
