"""Grep: files by what is in them, with Python's regular expressions.

The search itself runs in a process of its own that is ended when it takes too long (`grep_worker.py`).
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from everturn.chat.permission import Permissions
from everturn.chat.tools import schema
from everturn.chat.tools.files.workspace import ResolvedPath, Workspace, is_secret, require_read_permission
from everturn.chat.tools.inputs import ToolError, ToolInput
from everturn.chat.tools.search import grep_worker as matching
from everturn.chat.tools.search.file_listing import FileListing, list_files
from everturn.chat.tools.search.glob import filter_listing as named
from everturn.session.files import MAX_FILE_BYTES
from everturn.session.tools import Tool

TIMEOUT_SECONDS: Final = 20.0
MODES: Final = ("files_with_matches", "content", "count")
# Entries that are given where nobody says how many, and at most.
DEFAULT_ENTRIES: Final = 100
MAX_ENTRIES: Final = 2_000
# As for commands (`shell.py`): what comes back must fit beside everything else.
MAX_CHARACTERS: Final = 30_000
MAX_CONTEXT_LINES: Final = 50

DEFINITION: Final = schema.tool_definition(
    "Grep",
    """Search the contents of files with a regular expression (Python's). Gives the paths of files that
    match; with output_mode `content` the matching lines, with `count` their number. What git ignores is left
    out.""",
    {
        "pattern": schema.string_field("The regular expression"),
        "path": schema.string_field("The folder or file to search; the workspace if not given"),
        "glob": schema.string_field("Search only files whose names match, such as `*.py`"),
        "output_mode": schema.enum_field("What to give", *MODES),
        "-i": schema.boolean_field("Ignore case"),
        "-n": schema.boolean_field("Number the lines (content); on unless set to false"),
        "-A": schema.integer_field("Lines to give after each match (content)"),
        "-B": schema.integer_field("Lines to give before each match (content)"),
        "-C": schema.integer_field("Lines to give around each match (content)"),
        "multiline": schema.boolean_field("Let `.` match line ends, and matches span lines"),
        "head_limit": schema.integer_field("How many files or lines to give at most", least=1),
    },
    "pattern",
)


def grep_tool(workspace: Workspace, permissions: Permissions, *, seconds: float = TIMEOUT_SECONDS) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        given = ToolInput("Grep", fields)
        place = workspace.place(given.words("path", "") or ".")
        asked = _asked(given)
        require_read_permission(place, permissions, "Grep")
        listing = _files(workspace, place, given.words("glob", ""))
        files = [(way, listing.name(way)) for way in listing.ways]
        asked |= {"root": listing.folder.real, "files": files}
        return _said(_run_search(asked, seconds), asked)

    return Tool(DEFINITION, run)


def _asked(given: ToolInput) -> dict[str, Any]:
    around = given.number("-C", 0, most=MAX_CONTEXT_LINES)
    is_multiline = given.flag("multiline", False)
    flags = (re.IGNORECASE if given.flag("-i", False) else 0) | (
        re.DOTALL | re.MULTILINE if is_multiline else 0
    )
    return {
        "pattern": given.words("pattern"),
        "flags": int(flags),
        "is_multiline": is_multiline,
        "mode": given.choice("output_mode", MODES),
        "numbers": given.flag("-n", True),
        "before": given.number("-B", around, most=MAX_CONTEXT_LINES),
        "after": given.number("-A", around, most=MAX_CONTEXT_LINES),
        "most": given.number("head_limit", DEFAULT_ENTRIES, least=1, most=MAX_ENTRIES),
        "largest": MAX_FILE_BYTES,
    }


def _files(workspace: Workspace, place: ResolvedPath, pattern: str) -> FileListing:
    if os.path.isdir(place.real):
        listing = list_files(workspace, place)
        # Whoever wants to search a secret names it, and is asked about it.
        open_to_all = tuple(way for way in listing.ways if not is_secret(way))
        listing = FileListing(place, open_to_all, listing.is_cut)
        return named(listing, pattern) if pattern else listing
    if not os.path.isfile(place.real):
        raise ToolError(f"There is no file or folder {place.name}. Find it with Glob.")
    folder = workspace.place(os.path.dirname(place.real))
    return FileListing(folder, (os.path.basename(place.real),))


def _run_search(asked: dict[str, Any], seconds: float) -> dict[str, Any]:
    # Isolated: neither the folder that is searched nor the environment decides what is imported. In a session
    # of its own: an interrupt at the terminal is ours to handle, and ends it.
    command = [sys.executable, "-I", "-S", matching.__file__]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as process:
        try:
            printed, trouble = process.communicate(json.dumps(asked).encode(), seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise ToolError(
                f"The search was stopped after {seconds:g} s. Search fewer files (`path`, `glob`), or use a "
                "pattern without repetitions inside repetitions."
            ) from None
        except BaseException:
            process.kill()
            process.wait()
            raise
    if process.returncode != 0:
        last = trouble.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ToolError(f"The search failed: {last or f'exit code {process.returncode}'}.")
    return json.loads(printed)


def _said(answer: dict[str, Any], asked: dict[str, Any]) -> str:
    if problem := answer.get("problem"):
        raise ToolError(f"{asked['pattern']!r} is no regular expression: {problem}. Escape plain characters.")
    found, notes = answer["found"], []
    if not found:
        return f"Nothing matches {asked['pattern']!r} in {len(asked['files']):,} files."
    text = "\n".join(found)
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS].rpartition("\n")[0] or text[:MAX_CHARACTERS]
        notes.append(f"[Cut after {MAX_CHARACTERS:,} characters; narrow the search.]")
    elif answer["is_more"]:
        notes.append(f"[The first {len(found):,}; there is more. Narrow the search or raise `head_limit`.]")
    return "\n".join([text, *notes])
