"""A settings file on disk: read with all that must survive a change, written whole or not at all.

A link is followed, and the file behind it is replaced, so that the link stays. Between reading and writing
somebody else may have written: the bytes are compared again at the last moment.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from typing import Final, NamedTuple

from everturn.errors import InputError, StoreError

# Backups and receipts hold what the settings hold, and there may be keys in those.
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_BYTE_ORDER_MARK: Final = "\ufeff"
EMPTY: Final = "{}\n"


class SettingsFile(NamedTuple):
    """A file as it was found. `target` is what a link leads to; `data` is None where there is no file yet."""

    path: str
    target: str
    data: bytes | None
    mode: int = FILE_MODE

    @property
    def text(self) -> str:
        """What can be changed: an empty file is an empty object."""
        text = (self.data or b"").decode().removeprefix(_BYTE_ORDER_MARK)
        return text if text.strip() else EMPTY

    def render(self, text: str) -> bytes:
        """A text as this file spells it: with its byte order mark, where it has one."""
        mark = _BYTE_ORDER_MARK if (self.data or b"").startswith(_BYTE_ORDER_MARK.encode()) else ""
        return (mark + text).encode()

    @property
    def said(self) -> str:
        return (
            self.path
            if self.target == os.path.abspath(self.path)
            else f"{self.path} (a link to {self.target})"
        )


def read_settings_file(path: str) -> SettingsFile:
    """InputError, in words, where it cannot be read or is no text."""
    target = os.path.realpath(path)
    try:
        with open(target, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            found = SettingsFile(path, target, file.read(), mode)
    except FileNotFoundError:
        return SettingsFile(path, target, None)
    except IsADirectoryError:
        raise InputError(f"{path} is a directory; name the settings file in it.") from None
    except OSError as problem:
        raise InputError(
            f"{path} cannot be read: {problem.strerror}. Check its permissions (ls -l {target})."
        ) from None
    try:
        found.text  # noqa: B018, asked for its error
    except UnicodeDecodeError as problem:
        raise InputError(
            f"{path} is not UTF-8 (byte {problem.start}). Nothing was changed; save it as UTF-8 first."
        ) from None
    return found


def check_writable(file: SettingsFile) -> None:
    """StoreError, in words, before anything is written. A read-only file is meant: also root is refused."""
    if file.data is not None and not file.mode & stat.S_IWUSR:
        raise StoreError(
            f"{file.said} is read-only. Nothing was changed; `chmod u+w {file.target}` allows it, or another "
            "program keeps this file, and the change belongs there."
        )
    folder = os.path.dirname(file.target)
    if not os.path.isdir(folder):
        raise StoreError(
            f"There is no folder {folder}. Nothing was changed; check the path, or make it first."
        )
    if not os.access(folder, os.W_OK):
        raise StoreError(
            f"The folder {folder} may not be written to. Nothing was changed; check its permissions."
        )


def replace_file(file: SettingsFile, data: bytes | None) -> None:
    """The file with other bytes, or gone for None; nothing where it is no longer what was read."""
    if read_settings_file(file.path).data != file.data:
        raise StoreError(
            f"{file.said} was changed by somebody else just now. Nothing was written; try again."
        )
    try:
        if data is None:
            os.unlink(file.target)
        else:
            write_file(file.target, data, file.mode)
    except OSError as problem:
        raise StoreError(f"{file.said} could not be written: {problem.strerror}. It is as it was.") from None


def write_file(path: str, data: bytes, mode: int = FILE_MODE) -> None:
    """Beside it, durable, then in its place: a crash leaves the old file or the new one."""
    unfinished = f"{path}.{os.getpid()}.tmp"
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with open(fd, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(unfinished, mode)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise


def user_settings(environment: Mapping[str, str]) -> str:
    return os.path.join(_user_folder(environment), "settings.json")


def user_servers(environment: Mapping[str, str]) -> str:
    """Where Claude Code keeps a user's MCP servers: beside the settings only where their folder is set."""
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
