"""everturn as a plugin of Claude Code: a local marketplace with one plugin, loaded from where it is.

A plugin has hooks and an MCP server. It cannot have the status line, which stays in the settings. Claude Code
reads the plugin's files in place, so writing them again is an update.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from everturn import safe_files
from everturn.adapters.claude_code.settings.entries import NAME, InstallOptions, hook_entries, server_entry
from everturn.errors import StoreError

PLUGIN: Final = f"{NAME}@{NAME}"
_ABOUT: Final = (
    "Restores after a compaction what the summary left out, and lets the agent ask about its own context."
)
_README: Final = f"""# everturn

{_ABOUT}

Written by `everturn install claude-code --plugin`, which writes it again after an update of everturn.
Remove it with `everturn uninstall claude-code`. The hooks call the everturn of this machine and never block
your work: they exit with 0, or with 1 and one line of text.
"""

# Runs `claude` with arguments, and returns what went wrong, or "".
RunClaude = Callable[[Sequence[str]], str]


def plugin_folder(environment: Mapping[str, str]) -> str:
    """Where the marketplace is: below the user's data folder."""
    data = environment.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, NAME, "claude-code-plugin")


def make_plugin_files(wanted: InstallOptions, version: str) -> dict[str, str]:
    """The files of the marketplace, by their paths in it."""
    market = {
        "name": NAME,
        "description": "everturn as it is installed on this machine.",
        "owner": {"name": NAME},
        "plugins": [{"name": NAME, "source": f"./{NAME}", "description": _ABOUT}],
    }
    plugin = {
        "name": NAME,
        "version": version,
        "description": _ABOUT,
        "author": {"name": NAME},
        "license": "MIT",
    }
    hooks = {event: [entry] for event, entry in hook_entries(wanted).items()} if wanted.hooks else {}
    files = {
        ".claude-plugin/marketplace.json": _encode(market),
        f"{NAME}/.claude-plugin/plugin.json": _encode(plugin),
        f"{NAME}/hooks/hooks.json": _encode({"hooks": hooks}),
        f"{NAME}/README.md": _README,
    }
    if wanted.server:
        files[f"{NAME}/.mcp.json"] = _encode({"mcpServers": {NAME: server_entry(wanted)}})
    return files


def _encode(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def write_plugin(folder: str, files: Mapping[str, str]) -> None:
    """Write the marketplace; files of an earlier one that this one does not have are removed."""
    try:
        shutil.rmtree(os.path.join(folder, NAME), ignore_errors=True)
        for path, text in files.items():
            whole = os.path.join(folder, path)
            safe_files.make_folder(os.path.dirname(whole))
            safe_files.replace_file(whole, text.encode())
    except OSError as problem:
        raise StoreError(f"{folder} cannot be written: {problem.strerror}.") from None


def install_plugin(folder: str, run_claude: RunClaude, *, scope: str) -> str:
    """Tell Claude Code about the plugin. Returns what went wrong, or ""."""
    return run_claude(("plugin", "marketplace", "add", folder)) or run_claude(
        ("plugin", "install", PLUGIN, "--scope", scope)
    )


def remove_plugin(folder: str, run_claude: RunClaude) -> str:
    """Make Claude Code forget the plugin, and delete it. Returns what went wrong, or ""."""
    problem = run_claude(("plugin", "uninstall", PLUGIN)) or run_claude(
        ("plugin", "marketplace", "remove", NAME)
    )
    if not problem:
        shutil.rmtree(folder, ignore_errors=True)
    return problem
