"""Lists the files of a folder: with git inside a repository, otherwise by walking the folder.

Git leaves out ignored files. It runs without the helpers that an untrusted repository may configure. If git
lists nothing (not a repository, an ignored folder), the folder is walked, without build and cache folders.
"""

import os
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from everturn.chat.tools.files.workspace import ResolvedPath, Workspace, explain_os_errors
from everturn.processes import find_program, minimal_environment, run_process
from everturn.safe_files import is_plain_path

# The listing stops here, and the result says so.
MAX_FILES: Final = 200_000
GIT_TIMEOUT_SECONDS: Final = 10
IGNORED_FOLDERS: Final = frozenset(
    (".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
     ".pytest_cache", ".ruff_cache", ".cache", "target", "dist", "build")
)  # fmt: skip
# Settings of a repository that would run a program or read something else than its own files.
_GIT: Final = (
    "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.hooksPath=/dev/null",
    "-c", "safe.bareRepository=explicit",
    "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate",
)  # fmt: skip
# A repository can name the program that fetches a missing object: nothing is fetched.
_GIT_ENVIRONMENT: Final = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "/bin/false",
}


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
    found = _from_git(folder.real, workspace)
    if not found:
        with explain_os_errors(folder):
            found = list(islice(_walked(folder.real), MAX_FILES + 1))
    return FileListing(folder, tuple(sorted(found)[:MAX_FILES]), is_cut=len(found) > MAX_FILES)


def _from_git(folder: str, workspace: Workspace) -> list[str]:
    path = workspace.environment.get("PATH", "")
    program = find_program("git", path, outside=str(workspace.root))
    if not program:
        return []
    environment = minimal_environment(workspace.environment) | _GIT_ENVIRONMENT
    try:
        ran = run_process(
            [program, "-C", folder, *_GIT], environment=environment, seconds=GIT_TIMEOUT_SECONDS
        )
    except OSError:
        return []
    if ran.code != 0:
        return []
    paths = (os.fsdecode(raw) for raw in ran.output.split(b"\0") if raw)
    # The index can list deleted files, submodules, and, if somebody made it, names that lead out.
    return [path for path in paths if is_plain_path(path) and os.path.isfile(os.path.join(folder, path))]


def _walked(folder: str) -> Iterator[str]:
    def failed(problem: OSError) -> None:
        if problem.filename == folder:
            raise problem

    for at, inner, names in os.walk(folder, onerror=failed):
        inner[:] = sorted(name for name in inner if name not in IGNORED_FOLDERS)
        for name in names:
            if os.path.isfile(os.path.join(at, name)):
                yield os.path.relpath(os.path.join(at, name), folder)
