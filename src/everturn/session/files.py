"""Files read again for a restoration: only below allowed folders, only plain text, never without bound.

A path is resolved first, so that links inside a folder work; then it is opened part by part from that folder
without following any link, so that one put there in between is refused and not followed (S10). What cannot
be read is no error: it is said in words, and the restoration goes on without it. Which files are wanted is
decided in `decide/compact/restoration.py`.
"""

import codecs
import errno
import os
import stat
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from everturn.decide.effects import FileRead, ReadFiles
from everturn.session.memory_files.confined import SECRET_FILE_PATTERNS

# Larger than any source file; what is behind such a name is data, and its beginning says little.
MAX_FILE_BYTES: Final = 32 * 1024 * 1024
# How much is looked at to tell text from data.
SNIFF_BYTES: Final = 8_192
MAX_CHARACTER_BYTES: Final = 4
# Files that hold secrets by custom. They are not put before a model again, whoever read them first (S11).
SECRET: Final = SECRET_FILE_PATTERNS

_PART: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = _PART | os.O_DIRECTORY
# Without waiting: a pipe that nobody writes to would hold us for ever.
_FILE: Final = _PART | os.O_NONBLOCK | os.O_NOCTTY

KINDS: Final = (
    (stat.S_ISDIR, "it is a directory"),
    (stat.S_ISFIFO, "it is a pipe, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
)
PROBLEMS: Final = {
    errno.ENOENT: "it is gone",
    errno.ENOTDIR: "it is gone: a part of its path is no directory",
    errno.EACCES: "it may not be read (permission denied)",
    errno.EPERM: "it may not be read (permission denied)",
    errno.ELOOP: "a link was put in its path while it was being opened",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENXIO: "it is a socket or a pipe, not a file",
}


class UnreadableFileError(Exception):
    """Why there is no text, in words."""


class Roots(msgspec.Struct, frozen=True):
    """Folders below which files may be read. Relative paths start at the first of them."""

    folders: tuple[str, ...]
    secret: tuple[str, ...] = SECRET

    def place(self, path: str) -> tuple[str, str]:
        """The folder that a path is in, and its way down from there, with every link resolved."""
        real = os.path.realpath(os.path.join(self.folders[0], path))
        for folder in self.folders:
            if real.startswith(folder.rstrip("/") + "/"):
                return folder, os.path.relpath(real, folder)
        if real in self.folders:
            raise UnreadableFileError("it is a directory")
        absolute = os.path.abspath(os.path.join(self.folders[0], path))
        way = "leads through a link to" if real != absolute else "is"
        raise UnreadableFileError(f"it {way} a place outside the allowed directories")


def resolve_roots(folders: Iterable[str | Path], *, secret: Sequence[str] = SECRET) -> Roots:
    """Folders as they really are; at least one is needed."""
    real = tuple(os.path.realpath(folder) for folder in folders)
    if not real:
        raise ValueError("at least one folder must be allowed")
    return Roots(real, tuple(secret))


def read_files(asked: ReadFiles, allowed: Roots) -> tuple[FileRead, ...]:
    """Each file as it is now, in the order asked for; `problem` says why there is no text."""
    return tuple(_read(path, asked.max_characters, allowed) for path in asked.paths)


def _read(path: str, most: int, allowed: Roots) -> FileRead:
    try:
        folder, way = allowed.place(path)
        if any(fnmatchcase(os.path.basename(way).lower(), pattern) for pattern in allowed.secret):
            raise UnreadableFileError("its name says that it holds secrets")
        fd = open_below(folder, way)
        try:
            text, is_cut = _text(fd, most)
        finally:
            os.close(fd)
    except UnreadableFileError as why:
        return FileRead(path, problem=str(why))
    except OSError as problem:
        said = PROBLEMS.get(problem.errno or 0) or f"it cannot be read ({problem.strerror})"
        return FileRead(path, problem=said)
    except ValueError:
        return FileRead(path, problem="its name holds a character that no file name can have")
    return FileRead(path, text, is_cut)


def open_below(folder: str, way: str) -> int:
    """Down from the folder, part by part, following nothing."""
    *between, last = way.split("/")
    at = os.open(folder, _FOLDER)
    for part in between:
        at = _below(at, part, _FOLDER)
    return _below(at, last, _FILE)


def _below(at: int, part: str, flags: int) -> int:
    try:
        return os.open(part, flags, dir_fd=at)
    finally:
        os.close(at)


def _text(fd: int, most: int) -> tuple[str, bool]:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableFileError(
            next((what for is_it, what in KINDS if is_it(found.st_mode)), "it is no file")
        )
    if found.st_size > MAX_FILE_BYTES:
        raise UnreadableFileError(
            f"it is too large ({found.st_size >> 20:,} MB, the most is {MAX_FILE_BYTES >> 20})"
        )
    data = _bytes(fd, min(MAX_FILE_BYTES, max(0, most) * MAX_CHARACTER_BYTES + 1))
    if b"\0" in data[:SNIFF_BYTES]:
        raise UnreadableFileError("it is binary, not text")
    is_all = found.st_size <= len(data)
    # Where we stopped, a character may be cut in two; the decoder keeps it back.
    text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(data, final=is_all)
    return text[:most], len(text) > most or not is_all


def _bytes(fd: int, most: int) -> bytes:
    chunks: list[bytes] = []
    while most > 0 and (chunk := os.read(fd, most)):
        chunks.append(chunk)
        most -= len(chunk)
    return b"".join(chunks)
