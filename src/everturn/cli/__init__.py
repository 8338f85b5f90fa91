"""The command line: one table of commands, one file per command.

A command is imported when it is called, and the list of commands is told from this table, so that
`everturn --help` imports nothing beyond click. To add a command, add a row.
"""

from importlib import import_module

import click

from everturn import __version__
from everturn.errors import EverturnError

# name: (where the command is, what it is for in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "audit": ("everturn.cli.audit:audit", "What recorded sessions cost, and why their cache broke."),
    "chat": ("everturn.cli.chat:chat", "A coding agent in the terminal, in a conversation without end."),
    "compact": ("everturn.cli.compact:compact", "Summarize a recorded session, in its file."),
    "config": ("everturn.cli.config:config", "Every value in force, and where it came from."),
    "context": ("everturn.cli.context:context", "What fills the context of a recorded session."),
    "demo": ("everturn.cli.demo:demo", "Watch everturn work, with no key and no network."),
    "doctor": ("everturn.cli.doctor:doctor", "Look whether all is well, and say what to do."),
    "hook": ("everturn.cli.hook:hook", "What Claude Code calls before and after it acts."),
    "install": ("everturn.cli.install:install", "Put everturn into Claude Code: status line and hooks."),
    "make-session": ("everturn.cli.make_session:make_session", "A made-up session, to try things on."),
    "mcp": ("everturn.cli.mcp:mcp", "Let an agent ask about its own context, over MCP."),
    "recall": ("everturn.cli.recall:recall", "Find words in everything a session ever said."),
    "replay": ("everturn.cli.replay:replay", "What recorded sessions would have cost under other policies."),
    "statusline": ("everturn.cli.statusline:statusline", "The line at the bottom of Claude Code."),
    "twin": ("everturn.cli.twin:twin", "A Messages API on this machine, to develop and test against."),
    "undo": ("everturn.cli.undo:undo", "Take the last compaction of a session back."),
    "expand": ("everturn.cli.expand:expand", "Show what a compaction replaced."),
    "uninstall": ("everturn.cli.uninstall:uninstall", "Take everturn out of Claude Code again."),
}
# Old names of commands; they still work, and say what to type next time.
RENAMED = {"unfold": "expand"}
# Packages that only some commands need, and the extra that brings them.
EXTRAS = {"mcp": "mcp", "anthropic": "anthropic", "uvicorn": "twin", "httpx2": "twin", "starlette": "twin"}


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in RENAMED:
            click.echo(f"`everturn {cmd_name}` is now `everturn {RENAMED[cmd_name]}`.", err=True)
            cmd_name = RENAMED[cmd_name]
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as missing:
            raise missing_package(cmd_name, missing) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except EverturnError as problem:
            raise click.ClickException(str(problem)) from None
        except ModuleNotFoundError as missing:
            raise missing_package(ctx.invoked_subcommand or "", missing) from None


def missing_package(command: str, missing: ModuleNotFoundError) -> Exception:
    """One kind sentence when an extra is not installed; any other missing module is our own fault."""
    extra = EXTRAS.get((missing.name or "").partition(".")[0])
    if extra is None:
        return missing
    return click.ClickException(
        f"`everturn {command}` needs the package {missing.name!r}, which is not installed: "
        f"pip install 'everturn[{extra}]' brings it."
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="everturn")
def main() -> None:
    """A context engine for LLM agents."""
