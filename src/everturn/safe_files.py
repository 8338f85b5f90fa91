"""Opens files that others made, and creates files of our own: every other module does both through here.

Whoever made a file may have made something else in its place: a pipe that blocks for ever, a device without
end, a file of many gigabytes, a link that leads elsewhere. So a file is opened without blocking, must be a
regular one, and is read up to a limit. What we create holds conversations: only its owner may read it,
whatever the umask is. Every refusal is an `OSError` whose `strerror` is a phrase for people.

Imports almost nothing: the status line and the hooks use it, and are started often.
"""

import errno
import os
import stat

# Type checkers know this name; `typing` is slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

FILE_MODE = 0o600
FOLDER_MODE = 0o700
# Larger than any recorded session that we have seen (775 MB).
MAX_SESSION_BYTES = 1 << 30
# Settings, configuration and state, which programs and people write.
MAX_SMALL_BYTES = 16 << 20

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK

KINDS = (
    (stat.S_ISDIR, errno.EISDIR, "it is a directory"),
    (stat.S_ISFIFO, errno.EINVAL, "it is a pipe, not a file"),
    (stat.S_ISSOCK, errno.EINVAL, "it is a socket, not a file"),
    (stat.S_ISCHR, errno.EINVAL, "it is a device, not a file"),
    (stat.S_ISBLK, errno.EINVAL, "it is a device, not a file"),
)


class RefusedFile(OSError):
    """Something that we do not read or write; `why` says why, for people."""

    @property
    def why(self) -> str:
        return self.strerror or "it is refused"


class RefusedFolder(RefusedFile, IsADirectoryError):
    """A directory where a file was expected."""


def is_plain_path(path: str) -> bool:
    """Whether a path is relative and each of its parts is a name: it cannot lead out of its folder."""
    return bool(path) and not {"", ".", ".."}.intersection(path.split("/"))


def describe_kind(mode: int) -> str:
    """What a file is, if it is not a regular one; else ""."""
    if stat.S_ISREG(mode):
        return ""
    return next((what for is_kind, _, what in KINDS if is_kind(mode)), "it is not a regular file")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def open_file(
    path: "str | os.PathLike[str]",
    *,
    below: "str | os.PathLike[str] | None" = None,
    follow: bool = True,
    folder_fd: int | None = None,
) -> int:
    """A descriptor of a regular file. With `below`, `path` is relative to that folder and is opened part by
    part without following links. `follow=False`: the last part must not be a link either."""
    if below is None:
        flags = _READ if follow else _READ | os.O_NOFOLLOW
        return _checked(_opened(os.fspath(path), flags, folder_fd), os.fspath(path))
    if os.fspath(path) in ("", "."):
        raise RefusedFolder(errno.EISDIR, "it is a directory", os.fspath(below))
    if not is_plain_path(os.fspath(path)):
        raise RefusedFile(errno.EPERM, "its path leads out of its folder", os.fspath(path))
    *between, last = os.fspath(path).split("/")
    at = os.open(below, _FOLDER)
    try:
        for part in between:
            outer, at = at, os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(outer)
        return _checked(os.open(last, _READ | os.O_NOFOLLOW, dir_fd=at), os.fspath(path))
    finally:
        os.close(at)


def open_folder(path: "str | os.PathLike[str]") -> int:
    """A descriptor of a folder that is not a link."""
    return _opened(os.fspath(path), _FOLDER | os.O_NOFOLLOW, None)


def _opened(path: str, flags: int, folder_fd: int | None) -> int:
    try:
        return os.open(path, flags, FILE_MODE, dir_fd=folder_fd)
    except OSError as problem:
        raise _explained(problem, path, folder_fd) from None


def _explained(problem: OSError, path: str, folder_fd: int | None) -> OSError:
    # With O_NOFOLLOW a link fails as ENOTDIR if a directory is expected, and as ELOOP otherwise.
    if problem.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(path, folder_fd):
        what = f"{path} is a symbolic link; remove it and check where it came from"
        return RefusedFile(problem.errno, what, path)
    # A socket, or a pipe without a reader.
    if problem.errno == errno.ENXIO:
        return RefusedFile(problem.errno, "it is a socket or a pipe, not a file", path)
    return problem


def _is_link(path: str, folder_fd: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path, dir_fd=folder_fd).st_mode)
    except OSError:
        return False


def _checked(fd: int, path: str) -> int:
    try:
        mode = os.fstat(fd).st_mode
        for is_kind, number, what in KINDS:
            if is_kind(mode):
                raise (RefusedFolder if number == errno.EISDIR else RefusedFile)(number, what, path)
        if not stat.S_ISREG(mode):
            raise RefusedFile(errno.EINVAL, "it is not a regular file", path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_file(
    path: "str | os.PathLike[str]",
    *,
    max_bytes: int = MAX_SMALL_BYTES,
    below: "str | os.PathLike[str] | None" = None,
    follow: bool = True,
) -> bytes:
    """All bytes of a regular file. Raises RefusedFile if there are more than `max_bytes`."""
    with open_stream(path, max_bytes=max_bytes, below=below, follow=follow) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise RefusedFile(errno.EFBIG, describe_size(len(data), max_bytes), os.fspath(path))
    return data


def open_stream(
    path: "str | os.PathLike[str]",
    *,
    max_bytes: int = MAX_SMALL_BYTES,
    below: "str | os.PathLike[str] | None" = None,
    follow: bool = True,
) -> "BinaryIO":
    """A regular file of at most `max_bytes`, opened for reading bytes."""
    fd = open_file(path, below=below, follow=follow)
    try:
        if (size := os.fstat(fd).st_size) > max_bytes:
            raise RefusedFile(errno.EFBIG, describe_size(size, max_bytes), os.fspath(path))
    except BaseException:
        os.close(fd)
        raise
    # Not above: an interrupt right behind it would close the descriptor twice.
    return open(fd, "rb")


def stream_of(fd: int) -> "BinaryIO":
    """A descriptor that was opened here, for reading bytes. Closing the stream leaves it open."""
    return open(fd, "rb", closefd=False)


def read_up_to(fd: int, limit: int) -> bytes:
    """The next bytes of a descriptor that was opened here."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := os.read(fd, limit)):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def describe_size(size: int, max_bytes: int) -> str:
    if size >> 20 > max_bytes >> 20 > 0:
        return f"it is too large ({size >> 20:,} MB, the limit is {max_bytes >> 20:,} MB)"
    return f"it is too large ({size:,} bytes, the limit is {max_bytes:,} bytes)"


# ── creating ─────────────────────────────────────────────────────────────────────────────────────────


def make_folder(path: "str | os.PathLike[str]") -> None:
    """Create a folder and its missing parents, each for its owner only. Existing ones stay as they are."""
    missing: list[str] = []
    at = os.path.abspath(path)
    while not os.path.lexists(at):
        missing.append(at)
        at = os.path.dirname(at)
    for each in reversed(missing):
        try:
            os.mkdir(each, FOLDER_MODE)
            # An unusual umask would leave us a folder that we cannot enter.
            os.chmod(each, FOLDER_MODE)
        except FileExistsError:
            # Another process made it in between.
            if not os.path.isdir(each):
                raise


def write_file(path: "str | os.PathLike[str]", data: bytes, *, folder_fd: int | None = None) -> None:
    """Write a file of our own in place: created or closed to others first, never through a link."""
    fd = _checked(_opened(os.fspath(path), _WRITE, folder_fd), os.fspath(path))
    with open(fd, "wb") as file:
        # A file that existed before would keep its mode and its content otherwise.
        os.fchmod(file.fileno(), FILE_MODE)
        file.truncate()
        file.write(data)


def touch_file(path: "str | os.PathLike[str]") -> None:
    """Create an empty file of our own, if there is none; an existing one is closed to others."""
    fd = _checked(_opened(os.fspath(path), _WRITE, None), os.fspath(path))
    try:
        os.fchmod(fd, FILE_MODE)
    finally:
        os.close(fd)


def append_line(path: "str | os.PathLike[str]", line: bytes) -> None:
    """Append durably to a file of our own, in one write. Raises OSError if only a part was written."""
    fd = _checked(_opened(os.fspath(path), _WRITE | os.O_APPEND, None), os.fspath(path))
    try:
        if (written := os.write(fd, line)) != len(line):
            raise OSError(
                errno.ENOSPC, f"only {written:,} of {len(line):,} bytes were written", os.fspath(path)
            )
        os.fsync(fd)
    finally:
        os.close(fd)


def open_for_appending(path: "str | os.PathLike[str]") -> int:
    """A descriptor of a log of our own, created or closed to others first, never through a link."""
    fd = _checked(_opened(os.fspath(path), _WRITE | os.O_APPEND, None), os.fspath(path))
    os.fchmod(fd, FILE_MODE)
    return fd


def edit_text(path: "str | os.PathLike[str]", change: "Callable[[str], str]") -> None:
    """Change a text of the user's, which keeps its mode. A link is refused: it would be replaced."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    text = change(read_file(path, follow=False).decode())
    replace_file(path, text.encode(), mode=mode, may_replace_links=False)


def replace_file(
    path: "str | os.PathLike[str]",
    data: bytes,
    *,
    mode: int = FILE_MODE,
    sync: bool = False,
    may_replace_links: bool = True,
) -> None:
    """Replace a file atomically, as `AtomicFile` does."""
    with AtomicFile(path, mode=mode, sync=sync, may_replace_links=may_replace_links) as file:
        file.write(data)


class AtomicFile:
    """Replaces a file atomically: a crash, or an error in the `with` block, leaves the old content. The
    folder must exist.

    A link of this name is replaced, not followed; `may_replace_links=False` refuses it. Anything else that is
    not a regular file is refused: a device must not become a file.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        *,
        mode: int = FILE_MODE,
        sync: bool = False,
        may_replace_links: bool = True,
    ) -> None:
        self._path, self._mode, self._sync = os.fspath(path), mode, sync
        self._may_replace_links = may_replace_links

    def __enter__(self) -> "BinaryIO":
        self._check()
        # A short name, so that it is valid even if the name of the file has the maximum length.
        self._beside = os.path.join(os.path.dirname(self._path), f".{os.urandom(8).hex()}.tmp")
        self._file = open(os.open(self._beside, _WRITE | os.O_EXCL, FILE_MODE), "wb")
        return self._file

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        if kind is None:
            try:
                self._complete()
            except BaseException as failed:
                self._discard(failed)
                raise
        else:
            self._discard(problem)

    def _complete(self) -> None:
        self._file.flush()
        os.fchmod(self._file.fileno(), self._mode)
        if self._sync:
            os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._beside, self._path)

    def _discard(self, problem: object) -> None:
        """Remove what was written, and name the file in an error that names none, as one of a full disk."""
        if isinstance(problem, OSError) and problem.filename is None:
            problem.filename = self._path
        # Without what is still buffered: writing that could fail again.
        self._file.raw.close()
        # An interrupt may come when it has its name already.
        if os.path.lexists(self._beside):
            os.unlink(self._beside)

    def _check(self) -> None:
        try:
            found = os.lstat(self._path).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISLNK(found) and not self._may_replace_links:
            raise RefusedFile(errno.ELOOP, "it is a symbolic link; name the file itself", self._path)
        if not stat.S_ISLNK(found) and (what := describe_kind(found)):
            raise RefusedFile(errno.EINVAL, what, self._path)
