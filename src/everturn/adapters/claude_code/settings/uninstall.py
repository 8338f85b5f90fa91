"""Uninstalling: the bytes from before where nobody wrote since; else only our entries go.

Without a receipt our entries are known by what they call, and the file is laid out as it is.
"""

import contextlib
import os
from typing import Final

import msgspec

from everturn.adapters.claude_code.settings import receipts
from everturn.adapters.claude_code.settings.entries import NAME, check_settings
from everturn.adapters.claude_code.settings.files import (
    SettingsFile,
    check_writable,
    read_settings_file,
    replace_file,
)
from everturn.adapters.claude_code.settings.remove_entries import remove_entries
from everturn.errors import StoreError

RESTORED_EXACTLY: Final = "the file is as it was before, to the byte"


class Removal(msgspec.Struct, frozen=True):
    """What is to be done to one file, not done yet. `data` None: the file goes, for we made it."""

    file: SettingsFile
    said: tuple[str, ...]
    data: bytes | None = None
    receipt: receipts.InstallReceipt | None = None
    is_exact: bool = False

    @property
    def is_needed(self) -> bool:
        return bool(self.said)


def plan_removal(path: str) -> Removal:
    file, receipt = read_settings_file(path), receipts.read_receipt(path)
    if file.data is None:
        return Removal(file, (), None, receipt)
    if receipt is None and NAME not in file.text:
        # Whatever is wrong with it is no business of ours.
        return Removal(file, (), file.data)
    check_settings(file.text, file.said)
    if receipt and receipts.digest(file.data) == receipt.after:
        original = _original(receipt)
        text = None if original is None else SettingsFile(path, path, original).text
        # A backup may hold entries of ours, where one of an earlier installation had been taken out by hand.
        if text is None or not remove_entries(text).said:
            said = "the file is gone: it was not there before" if text is None else RESTORED_EXACTLY
            return Removal(file, (said,), original, receipt, is_exact=True)
    replaced = receipt.replaced if receipt else ""
    change = remove_entries(
        file.text, replaced=replaced, empty_before=receipt.empty_before if receipt else ()
    )
    return Removal(file, change.said, file.render(change.text), receipt)


def apply_removal(removal: Removal) -> None:
    """Do it. A backup that says nothing new goes; one that may still be wanted stays."""
    if removal.is_needed:
        check_writable(removal.file)
        replace_file(removal.file, removal.data)
    receipt = removal.receipt
    if receipt is None:
        return
    with contextlib.suppress(OSError):
        os.unlink(receipts.receipt_path(removal.file.path))
        if removal.is_exact and receipt.backup:
            os.unlink(receipt.backup)
        if removal.is_exact and receipt.made_folder:
            # Only where it is empty: rmdir refuses otherwise.
            os.rmdir(os.path.dirname(removal.file.target))


def _original(receipt: receipts.InstallReceipt) -> bytes | None:
    if not receipt.backup:
        return None
    try:
        with open(receipt.backup, "rb") as file:
            data = file.read()
    except OSError as problem:
        raise StoreError(
            f"The backup {receipt.backup} cannot be read: {problem.strerror}. Nothing was changed; remove "
            "everturn's receipt beside the settings to take out its entries without it."
        ) from None
    if receipts.digest(data) != receipt.before:
        raise StoreError(f"The backup {receipt.backup} is not what was saved there. Nothing was changed.")
    return data
