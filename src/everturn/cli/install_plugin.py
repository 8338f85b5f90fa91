"""The plugin part of `everturn install claude-code` and `everturn uninstall claude-code`."""

import os
from collections.abc import Sequence
from typing import Final

import everturn
from everturn.adapters.claude_code import plugin
from everturn.adapters.claude_code.settings import files
from everturn.adapters.claude_code.settings.entries import InstallOptions, check_settings, has_our_hooks
from everturn.cli.output import say
from everturn.errors import UsageError
from everturn.processes import environment_without_keys, find_program, run_process

CLAUDE: Final = "claude"
# It starts a program of 200 MB, on a machine that may be busy.
SECONDS: Final = 60.0


def install_plugin(wanted: InstallOptions, settings: str, *, dry_run: bool) -> None:
    """Write the plugin and let Claude Code install it; without Claude Code, say how."""
    text = files.read_settings_file(settings).text
    check_settings(text, settings)
    if has_our_hooks(text):
        raise UsageError(
            f"{settings} has everturn's hooks already, and they would run twice. Run "
            "`everturn uninstall claude-code` first."
        )
    folder = plugin.plugin_folder(os.environ)
    made = plugin.make_plugin_files(wanted, everturn.__version__)
    if dry_run:
        say(f"Would write a plugin to {folder} and install it with `claude plugin install {plugin.PLUGIN}`:")
        say("".join(f"  {path}\n" for path in made), nl=False)
        return
    plugin.write_plugin(folder, made)
    if problem := plugin.install_plugin(folder, run_claude, scope="user"):
        say(f"The plugin is in {folder}, but Claude Code does not have it: {problem}")
        say(f"Try: claude plugin marketplace add {folder} && claude plugin install {plugin.PLUGIN}")
        raise SystemExit(1)
    say(f"Installed the plugin {plugin.PLUGIN} from {folder}; `claude plugin list` shows it.")


def refuse_second_hooks() -> None:
    """Hooks in the settings would run beside those of the plugin."""
    folder = plugin.plugin_folder(os.environ)
    if os.path.isdir(folder):
        raise UsageError(
            f"everturn's hooks are installed as a plugin ({folder}). Update it with --plugin, or run "
            "`everturn uninstall claude-code` first."
        )


def uninstall_plugin(*, dry_run: bool) -> bool:
    """Remove the plugin. Returns whether there is one."""
    folder = plugin.plugin_folder(os.environ)
    if not os.path.isdir(folder):
        return False
    if dry_run:
        say(f"Would remove the plugin {plugin.PLUGIN} and {folder}.")
    elif problem := plugin.remove_plugin(folder, run_claude):
        say(f"Claude Code did not remove the plugin {plugin.PLUGIN}: {problem}")
        say(f"Try: claude plugin uninstall {plugin.PLUGIN}; then delete {folder}.")
        raise SystemExit(1)
    else:
        say(f"Removed the plugin {plugin.PLUGIN} and {folder}.")
    return True


def run_claude(arguments: Sequence[str]) -> str:
    """Run Claude Code's own command. Returns what went wrong, or ""."""
    program = find_program(CLAUDE, os.environ.get("PATH", ""), outside=os.getcwd())
    if not program:
        return "the program 'claude' was not found."
    done = run_process(
        [program, *arguments], environment=environment_without_keys(os.environ), seconds=SECONDS
    )
    if done.is_late:
        return f"`claude {' '.join(arguments)}` did not end within {SECONDS:.0f} s."
    if done.code:
        said = (done.errors or done.output).decode(errors="replace").strip().splitlines()
        return said[-1] if said else f"`claude {' '.join(arguments)}` ended with {done.code}."
    return ""
