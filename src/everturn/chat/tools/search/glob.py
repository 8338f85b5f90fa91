"""Glob: find files by name, most recently changed first."""

import os
from collections.abc import Mapping
from typing import Any, Final

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.workspace import Workspace, require_read_permission
from everturn.chat.tools.inputs import (
    ToolError,
    ToolInput,
    string_field,
    tool_definition,
)
from everturn.chat.tools.search.file_listing import MAX_FILES, FileListing, list_files
from everturn.chat.tools.search.glob_patterns import TooManyChoices, compile_glob
from everturn.session.tools import Tool

# For more, a narrower pattern is better. Our choice.
MAX_NAMES: Final = 100

DEFINITION: Final = tool_definition(
    "Glob",
    """Find files by name, such as `src/**/*.py` or `*.{ts,tsx}`; a pattern without a slash matches in every
    folder. Returns paths, most recently changed first. Files that git ignores are left out.""",
    {
        "pattern": string_field("The glob pattern"),
        "path": string_field("The folder to search; default: the workspace"),
    },
    "pattern",
)


def glob_tool(workspace: Workspace, permissions: Permissions) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Glob", fields)
        folder = workspace.resolve(given.string("path", "") or ".")
        pattern = _from_folder(given.string("pattern"), folder.real)
        require_read_permission(folder, permissions, "Glob")
        if not os.path.isdir(folder.real):
            raise ToolError(
                f"{folder.name} is not a folder. Give a folder as `path` and the file names as `pattern`."
            )
        return _said(filter_listing(list_files(workspace, folder), pattern), pattern)

    return Tool(DEFINITION, run)


def _from_folder(pattern: str, folder: str) -> str:
    inside = pattern.removeprefix(folder.rstrip("/") + "/")
    if inside.startswith(("/", "~")) or ".." in inside.split("/"):
        raise ToolError(
            f"{pattern!r} points outside the folder. Give the folder as `path`, the rest as `pattern`."
        )
    return inside


def filter_listing(listing: FileListing, pattern: str) -> FileListing:
    try:
        is_meant = compile_glob(pattern)
    except TooManyChoices as problem:
        raise ToolError(f"{pattern!r}: {problem}.") from None
    return FileListing(listing.folder, tuple(filter(is_meant, listing.paths)), listing.is_cut)


def _said(found: FileListing, pattern: str) -> str:
    if not found.paths:
        return f"No file matches {pattern!r}."
    newest = sorted(found.paths, key=lambda path: (-_changed(os.path.join(found.folder.real, path)), path))
    names = [found.name(path) for path in newest[:MAX_NAMES]]
    if len(newest) > MAX_NAMES:
        names.append(f"[{MAX_NAMES} of {len(newest):,} files; use a narrower pattern to see others.]")
    if found.is_cut:
        names.append(f"[Only {MAX_FILES:,} files were searched; give a folder as `path`.]")
    return "\n".join(names)


def _changed(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
