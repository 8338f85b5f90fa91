"""Grep: search file contents with Python's regular expressions.

The search runs in a separate process with a timeout (`grep_worker.py`).
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.guarded import is_hidden, is_secret
from everturn.chat.tools.files.workspace import ResolvedPath, Workspace, require_read_permission
from everturn.chat.tools.inputs import (
    ToolError,
    ToolInput,
    boolean_field,
    enum_field,
    integer_field,
    string_field,
    tool_definition,
)
from everturn.chat.tools.search import grep_worker
from everturn.chat.tools.search.file_listing import FileListing, list_files
from everturn.chat.tools.search.glob import filter_listing
from everturn.processes import minimal_environment, run_process
from everturn.session.files import MAX_FILE_BYTES
from everturn.session.tools import Tool

TIMEOUT_SECONDS: Final = 20.0
MODES: Final = ("files_with_matches", "content", "count")
# Default and maximum number of entries.
DEFAULT_ENTRIES: Final = 100
MAX_ENTRIES: Final = 2_000
# The same limit as for commands (`bash.py`).
MAX_CHARACTERS: Final = 30_000
MAX_CONTEXT_LINES: Final = 50

DEFINITION: Final = tool_definition(
    "Grep",
    """Search file contents with a regular expression (Python syntax). Returns the paths of matching files;
    with output_mode `content` the matching lines, with `count` their number. Files that git ignores are left
    out.""",
    {
        "pattern": string_field("The regular expression"),
        "path": string_field("The folder or file to search; default: the workspace"),
        "glob": string_field("Search only files that match this pattern, such as `*.py`"),
        "output_mode": enum_field("What to return", *MODES),
        "-i": boolean_field("Ignore case"),
        "-n": boolean_field("Show line numbers (content); default true"),
        "-A": integer_field("Lines to show after each match (content)"),
        "-B": integer_field("Lines to show before each match (content)"),
        "-C": integer_field("Lines to show before and after each match (content)"),
        "multiline": boolean_field("Let `.` match newlines, and matches span lines"),
        "head_limit": integer_field("Maximum number of files or lines", least=1),
    },
    "pattern",
)


def grep_tool(workspace: Workspace, permissions: Permissions, *, seconds: float = TIMEOUT_SECONDS) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Grep", fields)
        target = workspace.resolve(given.string("path", "") or ".")
        asked = _asked(given)
        require_read_permission(target, permissions, "Grep")
        listing = _files(workspace, target, given.string("glob", ""))
        files = [(path, listing.name(path)) for path in listing.paths]
        asked |= {"root": listing.folder.real, "files": files}
        return _said(_run_search(asked, seconds), asked)

    return Tool(DEFINITION, run)


def _asked(given: ToolInput) -> dict[str, Any]:
    around = given.integer("-C", 0, most=MAX_CONTEXT_LINES)
    is_multiline = given.boolean("multiline", False)
    flags = (re.IGNORECASE if given.boolean("-i", False) else 0) | (
        re.DOTALL | re.MULTILINE if is_multiline else 0
    )
    return {
        "pattern": given.string("pattern"),
        "flags": int(flags),
        "is_multiline": is_multiline,
        "mode": given.enum("output_mode", MODES),
        "numbers": given.boolean("-n", True),
        "before": given.integer("-B", around, most=MAX_CONTEXT_LINES),
        "after": given.integer("-A", around, most=MAX_CONTEXT_LINES),
        "most": given.integer("head_limit", DEFAULT_ENTRIES, least=1, most=MAX_ENTRIES),
        "largest": MAX_FILE_BYTES,
    }


def _files(workspace: Workspace, target: ResolvedPath, pattern: str) -> FileListing:
    if os.path.isdir(target.real):
        listing = list_files(workspace, target)
        # A file with secrets is searched only if it is named, and then with permission. So is a hidden file
        # outside of the workspace.
        open_to_all = tuple(
            path
            for path in listing.paths
            if not is_secret(path) and (target.is_inside or not is_hidden(path))
        )
        listing = FileListing(target, open_to_all, listing.is_cut)
        return filter_listing(listing, pattern) if pattern else listing
    if not os.path.isfile(target.real):
        raise ToolError(f"File or folder not found: {target.name}. Find it with Glob.")
    folder = workspace.resolve(os.path.dirname(target.real))
    return FileListing(folder, (os.path.basename(target.real),))


def _run_search(asked: dict[str, Any], seconds: float) -> dict[str, Any]:
    # -I -S: neither the searched folder nor the environment can change what is imported.
    done = run_process(
        [sys.executable, "-I", "-S", grep_worker.__file__],
        environment=minimal_environment(os.environ),
        seconds=seconds,
        given=json.dumps(asked).encode(),
    )
    if done.is_late:
        raise ToolError(
            f"The search was stopped after {seconds:g} s. Search fewer files (`path`, `glob`), or use a "
            "pattern without nested repetitions."
        )
    if done.code != 0:
        last = done.errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ToolError(f"The search failed: {last or f'exit code {done.code}'}.")
    return json.loads(done.output)


def _said(answer: dict[str, Any], asked: dict[str, Any]) -> str:
    if problem := answer.get("problem"):
        raise ToolError(
            f"{asked['pattern']!r} is not a valid regular expression: {problem}. Escape literal characters."
        )
    found: list[str] = answer["found"]
    notes: list[str] = []
    if not found:
        return f"Nothing matches {asked['pattern']!r} in {len(asked['files']):,} files."
    text = "\n".join(found)
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS].rpartition("\n")[0] or text[:MAX_CHARACTERS]
        notes.append(f"[Cut after {MAX_CHARACTERS:,} characters; narrow the search.]")
    elif answer["is_more"]:
        notes.append(f"[The first {len(found):,}; there are more. Narrow the search or raise `head_limit`.]")
    return "\n".join([text, *notes])
