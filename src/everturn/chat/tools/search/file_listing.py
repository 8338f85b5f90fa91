"""Lists the files of a folder: with git inside a repository, otherwise by walking the folder.

Git leaves out ignored files. It runs without the helpers that an untrusted repository may configure. If git
lists nothing (not a repository, an ignored folder), the folder is walked, without build and cache folders.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from everturn.chat.tools.files.workspace import ResolvedPath, Workspace, explain_os_errors

# The listing stops here, and the result says so.
MAX_FILES: Final = 200_000
GIT_TIMEOUT_SECONDS: Final = 10
IGNORED_FOLDERS: Final = frozenset(
    (".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
     ".pytest_cache", ".ruff_cache", ".cache", "target", "dist", "build")
)  # fmt: skip
_GIT: Final = (
    "git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false",
    "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate",
)  # fmt: skip


class FileListing(msgspec.Struct, frozen=True):
    """Sorted paths relative to `folder`."""

    folder: ResolvedPath
    paths: tuple[str, ...]
    is_cut: bool = False

    def name(self, path: str) -> str:
        """The path shown to the model: relative to the workspace, or absolute."""
        joined = path if self.folder.name == "." else os.path.join(self.folder.name, path)
        return os.fsencode(joined).decode("utf-8", "replace")


def list_files(workspace: Workspace, folder: ResolvedPath) -> FileListing:
    found = _from_git(folder.real, workspace.environment)
    if not found:
        with explain_os_errors(folder):
            found = list(islice(_walked(folder.real), MAX_FILES + 1))
    return FileListing(folder, tuple(sorted(found)[:MAX_FILES]), is_cut=len(found) > MAX_FILES)


def _from_git(folder: str, environment: Mapping[str, str]) -> list[str]:
    # GIT_ variables of an outer git process (such as a hook) would point to another repository.
    clean = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    try:
        ran = subprocess.run(
            _GIT,
            cwd=folder,
            env=clean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if ran.returncode != 0:
        return []
    paths = (os.fsdecode(raw) for raw in ran.stdout.split(b"\0") if raw)
    # The index can list deleted files and submodules.
    return [path for path in paths if os.path.isfile(os.path.join(folder, path))]


def _walked(folder: str) -> Iterator[str]:
    def failed(problem: OSError) -> None:
        if problem.filename == folder:
            raise problem

    for at, inner, names in os.walk(folder, onerror=failed):
        inner[:] = sorted(name for name in inner if name not in IGNORED_FOLDERS)
        for name in names:
            if os.path.isfile(os.path.join(at, name)):
                yield os.path.relpath(os.path.join(at, name), folder)
