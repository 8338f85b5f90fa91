"""What Claude Code's own settings say about a chat here: hooks, and whether compaction is automatic (CF-4).

The user's files are trusted. What a project's settings contribute is used only if its digest is in
`hooks.trusted`: the file came with the project, and a hook is a program.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from everturn.adapters.claude_code.settings.files import project_settings, user_settings
from everturn.decide.options import HookSettings
from everturn.safe_files import read_file
from everturn.session.hooks.load import HookFile, LoadedHooks, load_hooks

AUTO_COMPACT: Final = "autoCompactEnabled"
_MAX_BYTES: Final = 1_000_000


class ClaudeSettings(NamedTuple):
    files: tuple[HookFile, ...]
    # Keys of `Options` that follow from the settings.
    defaults: Mapping[str, Any]
    # What is ignored because the project's file is not trusted, and how to trust it.
    notes: tuple[str, ...] = ()

    def load_hooks(self, settings: HookSettings) -> LoadedHooks:
        return load_hooks(settings, self.files)


def read_claude_settings(
    environment: Mapping[str, str], folder: Path, trusted: tuple[str, ...]
) -> ClaudeSettings:
    own = Path(user_settings(environment))
    shared = Path(project_settings(str(folder)))
    files = (HookFile(own), *(HookFile(path, is_own=False) for path in (shared, _local(shared))))
    defaults: dict[str, Any] = {}
    notes: list[str] = []
    for file in files:
        enabled = _auto_compact(file.path)
        if enabled is None:
            continue
        if file.is_own or _digest(file.path) in trusted:
            defaults["thresholds.auto_compaction"] = enabled
        else:
            notes.append(
                f"{file.path}: {AUTO_COMPACT} is ignored, because the file is not trusted; to trust it, add "
                f"its digest to hooks.trusted: {_digest(file.path)}"
            )
    return ClaudeSettings(files, defaults, tuple(notes))


def _local(shared: Path) -> Path:
    return shared.with_name("settings.local.json")


def _auto_compact(path: Path) -> bool | None:
    value = _read(path).get(AUTO_COMPACT)
    return value if isinstance(value, bool) else None


def _digest(path: Path) -> str:
    """Of the whole file: what is trusted is what somebody has looked at."""
    try:
        return hashlib.sha256(read_file(path, max_bytes=_MAX_BYTES)).hexdigest()
    except OSError:
        return ""


def _read(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(read_file(path, max_bytes=_MAX_BYTES), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}
