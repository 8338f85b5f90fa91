"""Installs the entries into a settings file, after writing a backup and a receipt. Installing twice is safe.

The write order is backup, receipt, settings: after a crash in between, the settings are unchanged.
"""

import os
from datetime import datetime
from difflib import unified_diff

import msgspec

from everturn.adapters.claude_code.settings import receipts
from everturn.adapters.claude_code.settings.edit_entries import add_entries, find_empty_containers
from everturn.adapters.claude_code.settings.entries import InstallOptions, check_settings
from everturn.adapters.claude_code.settings.files import (
    SettingsFile,
    check_writable,
    read_settings_file,
    replace_file,
)
from everturn.errors import StoreError
from everturn.safe_files import make_folder


class Installation(msgspec.Struct, frozen=True):
    """A planned change of one file. Without messages there is nothing to do."""

    file: SettingsFile
    text: str
    messages: tuple[str, ...]
    replaced: str = ""

    @property
    def is_needed(self) -> bool:
        return bool(self.messages)

    def diff(self) -> str:
        before = "" if self.file.data is None else self.file.text
        lines = unified_diff(
            before.splitlines(keepends=True),
            self.text.splitlines(keepends=True),
            self.file.path,
            self.file.path,
        )
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def plan_installation(path: str, wanted: InstallOptions, *, replacing: bool = False) -> Installation:
    """Plan the change. Raises InputError or UsageError if the file cannot be changed."""
    file = read_settings_file(path)
    check_settings(file.text, file.display_path)
    change = add_entries(file.text, wanted, replace=replacing)
    return Installation(file, change.text, change.messages, change.replaced)


def apply_installation(planned: Installation, now: datetime, *, may_make_folder: bool = False) -> str:
    """Write the change and return the path of the backup; "" if there was no file."""
    file = planned.file
    folder = os.path.dirname(file.target)
    makes_folder = may_make_folder and not os.path.lexists(folder)
    try:
        if makes_folder:
            make_folder(folder)
        check_writable(file)
        receipt = _receipt(planned, now, made_folder=makes_folder)
        receipts.write_receipt(file.path, receipt)
    except OSError as problem:
        raise StoreError(
            f"Could not back up {file.display_path}: {problem.strerror}. Nothing was changed."
        ) from None
    replace_file(file, file.render(planned.text))
    return receipt.backup


def _receipt(planned: Installation, now: datetime, *, made_folder: bool) -> receipts.InstallReceipt:
    file = planned.file
    after = receipts.digest(file.render(planned.text))
    before = receipts.read_receipt(file.path)
    if before and before.after == receipts.digest(file.data):
        # Only everturn changed the file since, so the first backup is still the original.
        replaced = before.replaced or planned.replaced
        return msgspec.structs.replace(before, after=after, replaced=replaced)
    return receipts.InstallReceipt(
        before=receipts.digest(file.data),
        after=after,
        backup=receipts.back_up(file, now),
        replaced=planned.replaced or (before.replaced if before else ""),
        empty_before=find_empty_containers(file.text),
        made_folder=made_folder,
    )
