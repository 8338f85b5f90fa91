"""The folder that the agent works in: resolves paths and records which file versions the model has seen.

A path is resolved first, so links inside the workspace work. It is then opened part by part without following
links (`session/files.py`), so a link created in between is refused. Paths outside the workspace are allowed
here; `permission.py` decides about them.
"""

import hashlib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from everturn.chat.permission import PermissionRequest, Permissions, to_one_line
from everturn.chat.tools.files.guarded import is_hidden, is_secret, runs_code
from everturn.chat.tools.inputs import ToolError
from everturn.safe_files import RefusedFile, open_file, read_up_to
from everturn.session.files import MAX_FILE_BYTES, PROBLEMS

_TOP: Final = "/"
# If a file is not found, similar names are suggested, but not for larger folders.
_MAX_NAMES: Final = 1_000


class ResolvedPath(msgspec.Struct, frozen=True):
    """A path with its links resolved: `relative_path` starts at `base`; `name` is for display."""

    base: str
    relative_path: str
    name: str
    is_inside: bool

    @property
    def real(self) -> str:
        return os.path.normpath(os.path.join(self.base, self.relative_path))

    @property
    def folder(self) -> str:
        """The parent folder, for display."""
        return os.path.dirname(self.name) or "."

    @property
    def is_secret(self) -> bool:
        return is_secret(self.relative_path)

    @property
    def runs_code(self) -> bool:
        return runs_code(self.relative_path)

    @property
    def is_hidden(self) -> bool:
        return is_hidden(self.relative_path)


class NotARegularFile(ToolError):
    """A directory, a pipe or a device; similar names would not help."""


class FileVersion(msgspec.Struct, frozen=True):
    """The state of a file when it was read. The digest is needed: two quick writes can share one time."""

    changed: int
    size: int
    digest: bytes


class Excerpt(NamedTuple):
    """What one Read call asks for: the resolved path, the first line and the number of lines."""

    path: str
    first: int
    lines: int


class Workspace:
    """One folder, and the file versions that the model has seen. Commands inherit `environment`."""

    def __init__(self, root: str | Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.root = Path(os.path.realpath(root))
        self.environment = dict(os.environ if environment is None else environment)
        self._seen: dict[str, FileVersion] = {}
        self._shown: set[Excerpt] = set()

    def resolve(self, path: str) -> ResolvedPath:
        """The real location of a path. Raises ToolError for an impossible path."""
        try:
            real = os.path.realpath(os.path.join(self.root, os.path.expanduser(path)))
        except (OSError, ValueError):
            raise ToolError(
                f"{to_one_line(path)!r} is not a valid path: it contains a character that no name can have."
            ) from None
        root = str(self.root)
        if real == root or real.startswith(root.rstrip("/") + "/"):
            relative = os.path.relpath(real, root)
            return ResolvedPath(root, relative, relative, is_inside=True)
        return ResolvedPath(_TOP, os.path.relpath(real, _TOP), real, is_inside=False)

    # ── versions seen by the model ───────────────────────────────────────────────────────────────

    def record_version(self, target: ResolvedPath, version: FileVersion) -> None:
        self._seen[target.real] = version

    def seen_version(self, target: ResolvedPath) -> FileVersion | None:
        return self._seen.get(target.real)

    def record_shown(self, excerpt: "Excerpt") -> None:
        """The content of an excerpt was sent to the model."""
        self._shown.add(excerpt)

    def was_shown(self, excerpt: "Excerpt") -> bool:
        return excerpt in self._shown

    def forget_shown(self) -> None:
        """After results were cleared: the next read sends the content again. Versions stay known."""
        self._shown.clear()

    def forget(self) -> None:
        """After a compaction or in a new conversation: a file must be read again before it is changed."""
        self._seen.clear()
        self.forget_shown()


def make_version(found: os.stat_result, data: bytes) -> FileVersion:
    return FileVersion(found.st_mtime_ns, found.st_size, hashlib.sha256(data).digest())


def require_read_permission(target: ResolvedPath, permissions: Permissions, tool: str = "Read") -> None:
    """Ask for permission if the file is outside the workspace or its name suggests secrets. "Always" covers
    the other files of a folder, but of files with secrets, and of hidden ones outside, only this one."""
    if target.is_inside and not target.is_secret:
        return
    reasons = [] if target.is_inside else ["outside the workspace"]
    reasons += ["its name suggests that it contains secrets"] if target.is_secret else []
    what = f"{'read' if target.is_inside else 'look at'} {to_one_line(target.name)} ({', '.join(reasons)})"
    folder = target.name if os.path.isdir(target.real) else target.folder
    is_alone = target.is_secret or target.is_hidden
    key = f"reading {target.name}" if is_alone else f"looking into {folder}"
    permissions.require(PermissionRequest(tool, what, target.name, key, "look"))


@contextmanager
def open_regular_file(target: ResolvedPath) -> Generator[tuple[int, os.stat_result]]:
    """A file descriptor and its stat. Raises ToolError for anything but a regular file."""
    try:
        with explain_os_errors(target):
            fd = _opened(target)
    except ToolError as problem:
        is_other = isinstance(problem, NotARegularFile)
        raise ToolError(f"{problem}{'' if is_other else _similar_names(target)}") from None
    try:
        yield fd, os.fstat(fd)
    finally:
        os.close(fd)


def _opened(target: ResolvedPath) -> int:
    try:
        return open_file(target.relative_path, below=target.base)
    except RefusedFile as problem:
        what = problem.why
        raise NotARegularFile(f"{target.name}: {what}.{_how_to_list(what, target)}") from None


def _how_to_list(what: str, target: ResolvedPath) -> str:
    return f" List it with Glob and path {target.name!r}." if "directory" in what else ""


def _similar_names(target: ResolvedPath) -> str:
    """Suggest similar names in the same folder."""
    try:
        names = os.listdir(os.path.dirname(target.real))
    except OSError:
        return " Find it with Glob."
    wanted = os.path.basename(target.relative_path)
    if wanted in names or len(names) > _MAX_NAMES:
        return ""
    near = get_close_matches(wanted, names, n=3)
    return f" Did you mean {' or '.join(near)}?" if near else " Find it with Glob."


@contextmanager
def explain_os_errors(target: ResolvedPath) -> Generator[None]:
    """Turn OSError into a ToolError with a readable message."""
    try:
        yield
    except OSError as problem:
        why = PROBLEMS.get(problem.errno or 0) or f"{problem.strerror}"
        raise ToolError(f"{target.name}: {why}.") from None


def read_all(fd: int, found: os.stat_result, target: ResolvedPath) -> bytes:
    """All bytes of a file. Raises ToolError if it is too large to edit."""
    if found.st_size > MAX_FILE_BYTES:
        size, most = found.st_size >> 20, MAX_FILE_BYTES >> 20
        raise ToolError(f"{target.name} is too large to edit ({size:,} MB; the maximum is {most} MB).")
    with explain_os_errors(target):
        return read_up_to(fd, MAX_FILE_BYTES + 1)
