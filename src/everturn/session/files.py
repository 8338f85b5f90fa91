"""Read files again to restore them after a compaction: text files below allowed folders, up to a size limit.

A path is resolved first, so that links inside a folder work. Then it is opened component by component from
that folder without following links, so that a link created in between is refused (S10). A file that cannot
be read is not an error: the result says why, and the restoration continues without it. Which files to read
is decided in `decide/compact/restoration.py`.
"""

import codecs
import errno
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from everturn.decide.effects import FileRead, ReadFiles
from everturn.safe_files import RefusedFile, describe_size, open_file, read_up_to
from everturn.session.memory_files.confined import SECRET_FILE_PATTERNS

# Larger than any source file. A file above this is data, and its beginning would not help the model.
MAX_FILE_BYTES: Final = 32 * 1024 * 1024
# How many bytes are checked to tell text from binary data.
SNIFF_BYTES: Final = 8_192
MAX_CHARACTER_BYTES: Final = 4
# File names that usually hold secrets. Such files are not sent to the model again (S11).
SECRET: Final = SECRET_FILE_PATTERNS

PROBLEMS: Final = {
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "it does not exist: a part of its path is not a directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "a symbolic link appeared in its path while it was being opened",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENXIO: "it is a socket or a pipe, not a file",
}


class UnreadableFileError(Exception):
    """The file cannot be read; the message says why."""


class Roots(msgspec.Struct, frozen=True):
    """Folders below which files may be read. Relative paths are resolved from the first."""

    folders: tuple[str, ...]
    secret: tuple[str, ...] = SECRET

    def place(self, path: str) -> tuple[str, str]:
        """The root that a path is in, and the path relative to it, with all links resolved."""
        real = os.path.realpath(os.path.join(self.folders[0], path))
        for folder in self.folders:
            if real.startswith(folder.rstrip("/") + "/"):
                return folder, os.path.relpath(real, folder)
        if real in self.folders:
            raise UnreadableFileError("it is a directory")
        absolute = os.path.abspath(os.path.join(self.folders[0], path))
        what = "is a symbolic link to a path" if real != absolute else "is"
        raise UnreadableFileError(f"it {what} outside the allowed directories")


def resolve_roots(folders: Iterable[str | Path], *, secret: Sequence[str] = SECRET) -> Roots:
    """The folders with links resolved; at least one is required."""
    real = tuple(os.path.realpath(folder) for folder in folders)
    if not real:
        raise ValueError("at least one folder must be allowed")
    return Roots(real, tuple(secret))


def read_files(effect: ReadFiles, allowed: Roots) -> tuple[FileRead, ...]:
    """Read each file, in the order requested; `problem` says why a file has no text."""
    return tuple(_read(path, effect.max_characters, allowed) for path in effect.paths)


def _read(path: str, max_characters: int, allowed: Roots) -> FileRead:
    try:
        folder, relative = allowed.place(path)
        if any(fnmatchcase(os.path.basename(relative).lower(), pattern) for pattern in allowed.secret):
            raise UnreadableFileError("its name suggests that it holds secrets")
        fd = open_file(relative, below=folder)
        try:
            text, is_cut = _text(fd, max_characters)
        finally:
            os.close(fd)
    except UnreadableFileError as problem:
        return FileRead(path, problem=str(problem))
    except RefusedFile as problem:
        return FileRead(path, problem=problem.why)
    except OSError as problem:
        reason = PROBLEMS.get(problem.errno or 0) or f"it cannot be read ({problem.strerror})"
        return FileRead(path, problem=reason)
    except ValueError:
        return FileRead(path, problem="its name holds a character that is not allowed in file names")
    return FileRead(path, text, is_cut)


def _text(fd: int, max_characters: int) -> tuple[str, bool]:
    found = os.fstat(fd)
    if found.st_size > MAX_FILE_BYTES:
        raise UnreadableFileError(describe_size(found.st_size, MAX_FILE_BYTES))
    data = read_up_to(fd, min(MAX_FILE_BYTES, max(0, max_characters) * MAX_CHARACTER_BYTES + 1))
    if b"\0" in data[:SNIFF_BYTES]:
        raise UnreadableFileError("it is binary, not text")
    is_all = found.st_size <= len(data)
    # The data may end within a character; the decoder leaves such a character out.
    text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(data, final=is_all)
    return text[:max_characters], len(text) > max_characters or not is_all
