"""The folder that an agent works in: where a path really leads, and which version of a file it has seen.

A path is resolved first, so that links inside the workspace work, and then opened part by part without
following any link (`session/files.py`): one that is put there in between is refused. What lies elsewhere is
not refused here; whether it may be touched is asked in `permission.py`.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from fnmatch import translate
from pathlib import Path
from typing import Final

import msgspec

from everturn.chat.permission import PermissionRequest, Permissions, to_one_line
from everturn.chat.tools.inputs import ToolError
from everturn.session.files import KINDS, MAX_FILE_BYTES, PROBLEMS, open_below
from everturn.session.memory_files.confined import SECRET_FILE_PATTERNS

_TOP: Final = "/"
_SECRET: Final = re.compile("|".join(translate(pattern) for pattern in SECRET_FILE_PATTERNS))
# Where nothing has the name that was given, names like it are told; of a larger folder, none.
_MAX_NAMES: Final = 1_000


class ResolvedPath(msgspec.Struct, frozen=True):
    """A path with its links resolved: the way down from `base`, and the name to call it by."""

    base: str
    way: str
    name: str
    is_inside: bool

    @property
    def real(self) -> str:
        return os.path.normpath(os.path.join(self.base, self.way))

    @property
    def folder(self) -> str:
        """The folder it lies in, as `name` spells it."""
        return os.path.dirname(self.name) or "."

    @property
    def is_secret(self) -> bool:
        return is_secret(self.way)

    @property
    def is_in_git_folder(self) -> bool:
        """Git runs hooks and trusts its configuration: writing there is running commands."""
        return ".git" in self.way.split("/")


def is_secret(path: str) -> bool:
    """Whether a file holds secrets by its name."""
    return _SECRET.fullmatch(os.path.basename(path).lower()) is not None


class FileVersion(msgspec.Struct, frozen=True):
    """What a file was when it was seen. Times alone can be equal after two quick writes."""

    changed: int
    size: int
    digest: bytes


class Workspace:
    """One folder, and what was seen of it in this session. `environment` is what commands inherit."""

    def __init__(self, root: str | Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.root = Path(os.path.realpath(root))
        self.environment = dict(os.environ if environment is None else environment)
        self._seen: dict[str, FileVersion] = {}

    def place(self, path: str) -> ResolvedPath:
        """Where a path leads. One that no disk could have is refused in words."""
        try:
            real = os.path.realpath(os.path.join(self.root, os.path.expanduser(path)))
        except (OSError, ValueError):
            raise ToolError(
                f"{to_one_line(path)!r} is no path: it holds a character that no name can have."
            ) from None
        root = str(self.root)
        if real == root or real.startswith(root.rstrip("/") + "/"):
            way = os.path.relpath(real, root)
            return ResolvedPath(root, way, way, is_inside=True)
        return ResolvedPath(_TOP, os.path.relpath(real, _TOP), real, is_inside=False)

    # ── which version the model knows ────────────────────────────────────────────────────────────

    def saw(self, place: ResolvedPath, version: FileVersion) -> None:
        self._seen[place.real] = version

    def seen(self, place: ResolvedPath) -> FileVersion | None:
        return self._seen.get(place.real)

    def forget(self) -> None:
        """After the conversation was cleared, nothing has been seen."""
        self._seen.clear()


def make_version(found: os.stat_result, data: bytes) -> FileVersion:
    return FileVersion(found.st_mtime_ns, found.st_size, hashlib.sha256(data).digest())


def require_read_permission(place: ResolvedPath, permissions: Permissions, tool: str = "Read") -> None:
    """Asks where something lies elsewhere, or has the name of a file that holds secrets."""
    if not place.is_inside:
        what = f"look at {to_one_line(place.name)} (outside the workspace)"
        permissions.require(PermissionRequest(tool, what, place.name, f"looking into {place.folder}", "look"))
    elif place.is_secret:
        what = f"read {to_one_line(place.name)} (its name says that it holds secrets)"
        permissions.require(PermissionRequest(tool, what, place.name, f"reading {place.name}", "look"))


@contextmanager
def open_regular_file(place: ResolvedPath) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor of a regular file and what is known of it; anything else is refused in words."""
    try:
        with explain_os_errors(place):
            fd = open_below(place.base, place.way)
    except ToolError as problem:
        raise ToolError(f"{problem}{_similar_names(place)}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            what = next((what for is_it, what in KINDS if is_it(found.st_mode)), "it is no file")
            raise ToolError(f"{place.name}: {what}.{_how_to_list(what, place)}")
        yield fd, found
    finally:
        os.close(fd)


def _how_to_list(what: str, place: ResolvedPath) -> str:
    return f" List it with Glob and path {place.name!r}." if "directory" in what else ""


def _similar_names(place: ResolvedPath) -> str:
    """Names in the same folder that may have been meant."""
    try:
        names = os.listdir(os.path.dirname(place.real))
    except OSError:
        return " Find it with Glob."
    wanted = os.path.basename(place.way)
    if wanted in names or len(names) > _MAX_NAMES:
        return ""
    near = get_close_matches(wanted, names, n=3)
    return f" There is {' and '.join(near)}." if near else " Find it with Glob."


@contextmanager
def explain_os_errors(place: ResolvedPath) -> Iterator[None]:
    """Problems of the system become sentences."""
    try:
        yield
    except OSError as problem:
        why = PROBLEMS.get(problem.errno or 0) or f"the system says {problem.strerror!r}"
        raise ToolError(f"{place.name}: {why}.") from None


def read_all(fd: int, found: os.stat_result, place: ResolvedPath) -> bytes:
    """All bytes of a file that is not too large to be changed."""
    if found.st_size > MAX_FILE_BYTES:
        size, most = found.st_size >> 20, MAX_FILE_BYTES >> 20
        raise ToolError(f"{place.name} is too large to be changed here ({size:,} MB, the most is {most}).")
    with explain_os_errors(place), open(fd, "rb", closefd=False) as file:
        return file.read(MAX_FILE_BYTES + 1)
