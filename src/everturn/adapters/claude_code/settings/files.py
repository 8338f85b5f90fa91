"""Reads and writes settings files: keeps mode and byte order mark, writes atomically.

A symbolic link is followed and its target replaced, so the link stays. Another program may write between
reading and writing, so the content is compared again just before the file is replaced.
"""

import os
import stat
from collections.abc import Mapping
from typing import Final, NamedTuple

from everturn import safe_files
from everturn.errors import InputError, StoreError
from everturn.safe_files import FILE_MODE, open_stream

_BYTE_ORDER_MARK: Final = "\ufeff"
EMPTY: Final = "{}\n"


class SettingsFile(NamedTuple):
    """A file as it was read. `target` is the resolved path; `data` is None if the file does not exist."""

    path: str
    target: str
    data: bytes | None
    mode: int = FILE_MODE

    @property
    def text(self) -> str:
        """The text to edit; an empty file counts as an empty object."""
        text = (self.data or b"").decode().removeprefix(_BYTE_ORDER_MARK)
        return text if text.strip() else EMPTY

    def render(self, text: str) -> bytes:
        """Encode a text for this file, with its byte order mark if it has one."""
        mark = _BYTE_ORDER_MARK if (self.data or b"").startswith(_BYTE_ORDER_MARK.encode()) else ""
        return (mark + text).encode()

    @property
    def display_path(self) -> str:
        return (
            self.path
            if self.target == os.path.abspath(self.path)
            else f"{self.path} (a link to {self.target})"
        )


def read_settings_file(path: str) -> SettingsFile:
    """Read a settings file. Raises InputError if it cannot be read or is not UTF-8."""
    target = os.path.realpath(path)
    try:
        with open_stream(target) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            found = SettingsFile(path, target, file.read(), mode)
    except FileNotFoundError:
        return SettingsFile(path, target, None)
    except IsADirectoryError:
        raise InputError(f"{path} is a directory; give the settings file in it.") from None
    except OSError as problem:
        raise InputError(
            f"{path} could not be read: {problem.strerror}. Check its permissions (ls -l {target})."
        ) from None
    try:
        found.text  # noqa: B018, raises if it cannot be decoded
    except UnicodeDecodeError as problem:
        raise InputError(
            f"{path} is not UTF-8 (byte {problem.start}). Nothing was changed; save it as UTF-8 first."
        ) from None
    return found


def check_writable(file: SettingsFile) -> None:
    """Raises StoreError if the file cannot be replaced. A read-only file is refused, for root too."""
    if file.data is not None and not file.mode & stat.S_IWUSR:
        raise StoreError(
            f"{file.display_path} is read-only. Nothing was changed. Run `chmod u+w {file.target}`, or make "
            "the change in the program that manages this file."
        )
    folder = os.path.dirname(file.target)
    if not os.path.isdir(folder):
        raise StoreError(
            f"Folder not found: {folder}. Nothing was changed; check the path, or create it first."
        )
    if not os.access(folder, os.W_OK):
        raise StoreError(f"The folder {folder} is not writable. Nothing was changed; check its permissions.")


def replace_file(file: SettingsFile, data: bytes | None) -> None:
    """Replace the content, or delete the file for None. Raises StoreError if it changed since it was read."""
    if read_settings_file(file.path).data != file.data:
        raise StoreError(
            f"{file.display_path} was changed by another program. Nothing was written; try again."
        )
    try:
        if data is None:
            os.unlink(file.target)
        else:
            safe_files.replace_file(file.target, data, mode=file.mode, sync=True)
    except OSError as problem:
        raise StoreError(
            f"{file.display_path} could not be written: {problem.strerror}. It is unchanged."
        ) from None


def user_settings(environment: Mapping[str, str]) -> str:
    return os.path.join(_user_folder(environment), "settings.json")


def user_servers(environment: Mapping[str, str]) -> str:
    """The file with a user's MCP servers: in CLAUDE_CONFIG_DIR if set, else in the home directory."""
    own = environment.get("CLAUDE_CONFIG_DIR")
    return os.path.join(own or os.path.expanduser("~"), ".claude.json")


def project_settings(folder: str) -> str:
    return os.path.join(folder, ".claude", "settings.json")


def project_servers(folder: str) -> str:
    return os.path.join(folder, ".mcp.json")


def transcripts_folder(environment: Mapping[str, str]) -> str:
    return os.path.join(_user_folder(environment), "projects")


def _user_folder(environment: Mapping[str, str]) -> str:
    return environment.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
