"""The command line: one table of commands, one file per command.

A command is imported when it is called, and `everturn --help` lists this table, so that help imports nothing
but click. To add a command, add a row.
"""

import errno
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from everturn import __version__
from everturn.cli.output import say
from everturn.errors import EverturnError
from everturn.terminal_text import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name: (module and function, description in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "audit": (
        "everturn.cli.audit:audit",
        "Show what recorded sessions cost, and the causes of cache breaks.",
    ),
    "chat": ("everturn.cli.chat:chat", "A coding agent in the terminal, with unlimited conversation length."),
    "compact": ("everturn.cli.compact:compact", "Compact a recorded session: append a summary to its file."),
    "completion": (
        "everturn.cli.completion:completion",
        "Print the script that makes your shell complete these commands.",
    ),
    "config": (
        "everturn.cli.config:config",
        "Show the effective configuration and the origin of each value.",
    ),
    "context": ("everturn.cli.context:context", "Show what fills the context of a recorded session."),
    "dashboard": (
        "everturn.cli.dashboard:dashboard",
        "See sessions, context and cost in the browser.",
    ),
    "demo": ("everturn.cli.demo:demo", "See everturn at work, without an API key or network."),
    "doctor": ("everturn.cli.doctor:doctor", "Check the installation and suggest fixes."),
    "gateway": (
        "everturn.cli.gateway:gateway",
        "Run the gateway: everturn in front of the API, for any client.",
    ),
    "export": ("everturn.cli.export:export", "Write a conversation of a store as a session file."),
    "hook": ("everturn.cli.hook:hook", "Handle a Claude Code hook (called by Claude Code)."),
    "install": ("everturn.cli.install:install", "Install the status line and hooks into Claude Code."),
    "make-session": (
        "everturn.cli.make_session:make_session",
        "Generate a synthetic session for experiments.",
    ),
    "mcp": ("everturn.cli.mcp:mcp", "Run an MCP server: agents ask about their own context."),
    "recall": ("everturn.cli.recall:recall", "Search the full history of a session."),
    "replay": (
        "everturn.cli.replay:replay",
        "Show what recorded sessions would have cost under other policies.",
    ),
    "run": ("everturn.cli.run:run", "Run a command, such as claude, behind a gateway of its own."),
    "statusline": (
        "everturn.cli.statusline:statusline",
        "Print the Claude Code status line (called by Claude Code).",
    ),
    "tune": ("everturn.cli.tune:tune", "Fit the economic policy to your own sessions."),
    "twin": ("everturn.cli.twin:twin", "Run a local Messages API for development and tests."),
    "undo": ("everturn.cli.undo:undo", "Undo the last compaction of a session."),
    "expand": ("everturn.cli.expand:expand", "Show what a compaction replaced."),
    "uninstall": ("everturn.cli.uninstall:uninstall", "Remove everturn from Claude Code."),
}
# What shells report for a program that Ctrl-C ended.
INTERRUPTED = 130
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Old command names; they still work and print the new name.
RENAMED = {"unfold": "expand"}
# Packages that only some commands need, and the extra that installs them.
EXTRAS = {
    "mcp": "mcp", "anthropic": "anthropic", "uvicorn": "twin", "httpx2": "twin", "starlette": "twin",
    "aiohttp": "gateway", "httptools": "gateway", "prometheus_client": "gateway", "watchfiles": "dashboard",
}  # fmt: skip


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in RENAMED:
            say(f"`everturn {cmd_name}` is now `everturn {RENAMED[cmd_name]}`.", err=True)
            cmd_name = RENAMED[cmd_name]
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as missing:
            raise missing_package(cmd_name, missing) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in COMMANDS or name in RENAMED or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = get_close_matches(name, [*COMMANDS, *RENAMED], n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "See the list: everturn --help"
        raise click.UsageError(f"No such command {name!r}. {hint}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        """From the table: click would import every command to ask for its description."""
        from click.shell_completion import CompletionItem

        fitting = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        named = [CompletionItem(name, help=COMMANDS[name][1]) for name in fitting]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as problem:
            raise make_printable(problem) from None

    def invoke(self, ctx: click.Context) -> object:
        _check_folder()
        try:
            return super().invoke(ctx)
        except EverturnError as problem:
            raise make_printable(click.ClickException(str(problem))) from None
        except click.ClickException as problem:
            raise make_printable(problem) from None
        except ModuleNotFoundError as missing:
            raise missing_package(ctx.invoked_subcommand or "", missing) from None
        except OSError as problem:
            if problem.errno not in _NO_SPACE:
                raise
            _drop_output()
            where = f" {problem.filename}" if problem.filename else " the output"
            said = f"Cannot write{where}: {problem.strerror}. Free some space, or write elsewhere."
            raise make_printable(click.ClickException(said)) from None
        except KeyboardInterrupt:
            click.echo(err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


def _drop_output() -> None:
    """What is still in the buffer cannot be written either, and Python would say so once more at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _check_folder() -> None:
    """Configuration and sessions are those of the current folder, which may have been deleted."""
    try:
        os.getcwd()
    except OSError:
        raise click.ClickException("The current folder no longer exists. Change to another one.") from None


def make_printable(problem: click.ClickException) -> click.ClickException:
    """The same error; file names and values in its message cannot control the terminal."""
    # The message is declared as final; a new error would lose the usage line and the exit code.
    object.__setattr__(problem, "message", printable(problem.message, keeps_lines=True))
    return problem


def missing_package(command: str, missing: ModuleNotFoundError) -> Exception:
    """A readable error if an extra is not installed; any other missing module is a bug."""
    extra = EXTRAS.get((missing.name or "").partition(".")[0])
    if extra is None:
        return missing
    # The dashboard needs packages of another extra too; its own installs all of them.
    extra = command if command == "dashboard" else extra
    return click.ClickException(
        f"`everturn {command}` needs the package {missing.name!r}, which is not installed. "
        f"Run: pip install 'everturn[{extra}]'"
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="everturn")
def main() -> None:
    """A context engine for LLM agents: what they cost, why, and less of it.

    \b
    Begin in the folder of a project, or anywhere:
      everturn audit        what your sessions cost, by session and day, and why
      everturn context      what fills the context of the newest session here
      everturn replay       what that session would have cost under other policies
      everturn dashboard    all of it in the browser

    A SESSION is a file, an id as these commands show it, or a part of a title.
    """
