"""Backup and receipt of an installation, stored beside the settings file, so that it can be undone exactly.

settings.json.everturn.json                  the receipt
settings.json.everturn-20261115-104100.bak   the original file
"""

import json
import os
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

import msgspec

from everturn.adapters.claude_code.settings.files import SettingsFile
from everturn.safe_files import read_file, replace_file

RECEIPT_SUFFIX: Final = ".everturn.json"


class InstallReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of the file before and after; `backup` is "" if there was no file."""

    before: str
    after: str
    backup: str = ""
    # The JSON text of the status line that ours replaced.
    replaced: str = ""
    # Containers that were empty before the installation; uninstalling keeps them.
    empty_before: tuple[str, ...] = ()
    made_folder: bool = False


def digest(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hexdigest()


def receipt_path(path: str) -> str:
    return path + RECEIPT_SUFFIX


def read_receipt(path: str) -> InstallReceipt | None:
    """The receipt; None if missing or unreadable. Our entries are then recognised by their command."""
    try:
        found = msgspec.json.decode(read_file(receipt_path(path), follow=False), type=InstallReceipt)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if _is_beside(found.backup, path) else None


def _is_beside(backup: str, path: str) -> bool:
    """Whether a backup has the place and the name that `back_up` gives. A project's receipt lies in the
    project: whoever wrote it must not be able to name another file."""
    name = os.path.basename(path)
    return not backup or (
        os.path.dirname(os.path.abspath(backup)) == os.path.dirname(os.path.abspath(path))
        and os.path.basename(backup).startswith(f"{name}.everturn-")
        and backup.endswith(".bak")
    )


def write_receipt(path: str, receipt: InstallReceipt) -> None:
    fields: dict[str, Any] = msgspec.to_builtins(receipt)
    replace_file(receipt_path(path), json.dumps(fields, indent=2).encode() + b"\n", sync=True)


def back_up(file: SettingsFile, now: datetime) -> str:
    """Copy the file beside its path (not beside the target of a link); "" if it does not exist."""
    if file.data is None:
        return ""
    stem = f"{file.path}.everturn-{now:%Y%m%d-%H%M%S}"
    names = [f"{stem}.bak", *(f"{stem}-{number}.bak" for number in range(2, 1_000))]
    path = next(name for name in names if not os.path.lexists(name))
    replace_file(path, file.data, sync=True)
    return path
