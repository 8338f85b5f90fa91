"""Uninstalls: restores the original bytes if the file did not change since, else removes only our entries.

Without a receipt our entries are recognised by their command, and the layout of the file stays.
"""

import contextlib
import os
from typing import Final

import msgspec

from everturn.adapters.claude_code.settings import receipts
from everturn.adapters.claude_code.settings.edit_entries import remove_entries
from everturn.adapters.claude_code.settings.entries import NAME, check_settings
from everturn.adapters.claude_code.settings.files import (
    SettingsFile,
    check_writable,
    read_settings_file,
    replace_file,
)
from everturn.errors import StoreError
from everturn.safe_files import read_file

RESTORED_EXACTLY: Final = "the original file was restored, byte for byte"


class Removal(msgspec.Struct, frozen=True):
    """A planned removal from one file. `data` None: delete the file, because the installation created it."""

    file: SettingsFile
    messages: tuple[str, ...]
    data: bytes | None = None
    receipt: receipts.InstallReceipt | None = None
    is_exact: bool = False

    @property
    def is_needed(self) -> bool:
        return bool(self.messages)


def plan_removal(path: str) -> Removal:
    file, receipt = read_settings_file(path), receipts.read_receipt(path)
    if file.data is None:
        return Removal(file, (), None, receipt)
    if receipt is None and NAME not in file.text:
        # The file has nothing of ours, so its problems do not matter.
        return Removal(file, (), file.data)
    check_settings(file.text, file.display_path)
    if receipt and receipts.digest(file.data) == receipt.after:
        original = _original(receipt)
        text = None if original is None else SettingsFile(path, path, original).text
        # The backup can contain our entries if an earlier installation was partly removed by hand.
        if text is None or not remove_entries(text).messages:
            said = "the file was deleted: it did not exist before" if text is None else RESTORED_EXACTLY
            return Removal(file, (said,), original, receipt, is_exact=True)
    replaced = receipt.replaced if receipt else ""
    change = remove_entries(
        file.text, replaced=replaced, empty_before=receipt.empty_before if receipt else ()
    )
    return Removal(file, change.messages, file.render(change.text), receipt)


def apply_removal(removal: Removal) -> None:
    """Write the change. The backup is deleted after an exact restore, and kept otherwise."""
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
            # rmdir removes it only if it is empty.
            os.rmdir(os.path.dirname(removal.file.target))


def _original(receipt: receipts.InstallReceipt) -> bytes | None:
    if not receipt.backup:
        return None
    try:
        data = read_file(receipt.backup, follow=False)
    except OSError as problem:
        raise StoreError(
            f"The backup {receipt.backup} could not be read: {problem.strerror}. Nothing was changed. Delete "
            "everturn's receipt beside the settings file to remove the entries without the backup."
        ) from None
    if receipts.digest(data) != receipt.before:
        raise StoreError(f"The backup {receipt.backup} was modified. Nothing was changed.")
    return data
