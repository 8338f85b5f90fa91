"""Which files there are: git's own list inside a repository, a walk elsewhere.

Git knows what is ignored. Its list is asked for without the repository's helpers, which a stranger may have
configured. Where it has nothing to say (no git, an ignored folder), the folder is walked, past what programs
put there.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from everturn.chat.tools.files.workspace import ResolvedPath, Workspace, explain_os_errors

# A folder with more files than this is no project; what is beyond is said to be missing.
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
    """Ways down from `folder`, sorted."""

    folder: ResolvedPath
    ways: tuple[str, ...]
    is_cut: bool = False

    def name(self, way: str) -> str:
        """How a file is called before the model: from the workspace, or absolute."""
        joined = way if self.folder.name == "." else os.path.join(self.folder.name, way)
        return os.fsencode(joined).decode("utf-8", "replace")


def list_files(workspace: Workspace, folder: ResolvedPath) -> FileListing:
    found = _from_git(folder.real, workspace.environment)
    if not found:
        with explain_os_errors(folder):
            found = list(islice(_walked(folder.real), MAX_FILES + 1))
    return FileListing(folder, tuple(sorted(found)[:MAX_FILES]), is_cut=len(found) > MAX_FILES)


def _from_git(folder: str, environment: Mapping[str, str]) -> list[str]:
    # Variables of a surrounding git (in a hook, say) would lead to another repository.
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
    ways = (os.fsdecode(raw) for raw in ran.stdout.split(b"\0") if raw)
    # The index may name files that are gone, and folders that are repositories of their own.
    return [way for way in ways if os.path.isfile(os.path.join(folder, way))]


def _walked(folder: str) -> Iterator[str]:
    def failed(problem: OSError) -> None:
        if problem.filename == folder:
            raise problem

    for at, inner, names in os.walk(folder, onerror=failed):
        inner[:] = sorted(name for name in inner if name not in IGNORED_FOLDERS)
        for name in names:
            if os.path.isfile(os.path.join(at, name)):
                yield os.path.relpath(os.path.join(at, name), folder)
