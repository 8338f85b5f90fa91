"""`everturn gateway`: the Messages API with everturn in front."""

import errno
import os
import secrets
import select
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Final

import click

from everturn.cli.configured import config_options, parse_setting
from everturn.cli.output import say
from everturn.cli.signals import stop_on_signals
from everturn.errors import UsageError
from everturn.gateway.access_log import NOT_LOGGED, QueuedLines, make_access_log
from everturn.gateway.app import Gateway, make_gateway
from everturn.gateway.descriptors import allow_many
from everturn.gateway.server import (
    SHUTDOWN_SECONDS,
    GatewayServer,
    look_for_garbage_less,
    open_listener,
    reuse_freed_memory,
)
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
from everturn.terminal_text import printable
from everturn.twin.sockets import url_of

_PATH: Final = click.Path(dir_okay=False, path_type=Path)
_STDERR: Final = 2
# Held while something is written to stderr: an access log may be written there too, and wait.
_stderr_lock: Final = Lock()
# How long it is waited for. Our choice.
_STDERR_SECONDS: Final = 0.1


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
    open_standard_streams()
    allow_many()
    check_reachable(host, tokens_file is not None)
    with open_upstream(upstream) as address, ExitStack() as ended:
        loaded = load_settings(
            upstream=address, mode=mode, settings=settings, config_path=config_path,
            limits=dict(map(parse_limit, limits)), allowed_hosts=(host, *allowed_hosts),
        )  # fmt: skip
        lines = _open_access_log(access_log) if access_log else None
        made = make_gateway(
            loaded,
            tokens=load_tokens(tokens_file) if tokens_file else None,
            log_request=make_access_log(lines.put, lambda: datetime.now(UTC)) if lines else lambda _: None,
            warn=tell,
        )
        if lines is not None:
            lines.on_lost = lambda: made.metrics.degrade(NOT_LOGGED)
            ended.callback(lines.close)
        warn_about_store(made)
        with (
            closing(open_listener(host, port)) as listener,
            closing(_bind_operator(operator_host, operator_port)) as operator,
        ):
            address, metrics = url_of(listener), f"{url_of(operator)}/metrics"
            where = "a twin inside, any API key works" if upstream == TWIN else loaded.upstream

            def say_ready() -> None:
                say(f"export ANTHROPIC_BASE_URL={address}")
                tell(f"{loaded.mode} mode; upstream: {where}; metrics: {metrics}")

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


def open_standard_streams() -> None:
    """What was closed becomes /dev/null: the next files would get the numbers 0 to 2, and the event loop
    aborts when it is to close one of these."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one. A command that is started inherits it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # What was closed is None for Python, and libraries ask it whether it is a terminal.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def tell(text: str) -> None:
    """Say something on stderr that must not decide what happens next, if its disk is full or nobody reads.
    Nor does it wait for somebody who reads: an event loop may be here."""
    if not _stderr_lock.acquire(timeout=_STDERR_SECONDS):
        return
    try:
        with suppress(OSError):
            if _has_room(sys.stderr):
                say(text, err=True)
    finally:
        _stderr_lock.release()


def _has_room(stream: Any) -> bool:
    """Whether a text can be written at once. A pipe has room for 4,096 bytes then, and no text is longer."""
    try:
        return bool(select.select((), (stream,), (), 0)[1])
    except (OSError, ValueError, TypeError):
        # Not a file of the system: a test reads it.
        return True


def warn_about_store(made: Gateway) -> None:
    """A store that does not answer may be back soon; whatever else is wrong with it ends the command."""
    if problem := made.check_store():
        tell(f"Warning: {problem} Until it answers, requests are relayed and not recorded.")


def parse_limit(text: str) -> tuple[str, str]:
    if "=" not in text:
        raise click.BadParameter(f"{text!r} has no '='. Use NAME=VALUE.", param_hint="--limit")
    return parse_setting(text)


def _bind_operator(host: str, port: int) -> socket.socket:
    try:
        return open_listener(host, port)
    except UsageError:
        raise UsageError(
            f"Cannot listen on {host} port {port} for /metrics; another gateway may be running. Choose "
            "another port with --operator-port, or 0 for a free one."
        ) from None


def _open_access_log(name: str) -> QueuedLines:
    if name == "-":
        write_line = _make_writer(_STDERR)

        def write(line: str) -> None:
            # Not with `say`: whoever waits in Python's file would keep all others from it.
            with _stderr_lock:
                write_line(printable(line))

        return QueuedLines(write, warn=tell, say_resumed=write)
    try:
        file = open_for_appending(name)
    except OSError as problem:
        raise UsageError(f"Cannot write the access log {name}: {problem.strerror}.") from None
    return QueuedLines(_make_writer(file), warn=tell, say_resumed=tell)


def _make_writer(file: int) -> Callable[[str], None]:
    is_cut = False

    def write(line: str) -> None:
        nonlocal is_cut
        data = line.encode() + b"\n"
        # In one piece, so that the lines of several processes do not mix.
        written = os.write(file, b"\n" + data if is_cut else data) - is_cut
        is_cut = written < len(data)
        if is_cut:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return write
