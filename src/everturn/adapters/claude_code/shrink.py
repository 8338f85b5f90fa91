"""A huge tool result, moved to a file before the model ever sees it, so that no cache breaks for it.

Claude Code takes a result back only in the shape of the tool that gave it: known shapes are shrunk, all
others stay. A file that was read stays whole as well: an edit must match it letter by letter.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from everturn.adapters.claude_code.compaction_marker import session_file_name, write_private
from everturn.adapters.claude_code.quick_json import get_path, get_text
from everturn.decide.micro.oversize import file_name, preview
from everturn.decide.settings import OversizeSettings
from everturn.view.fragments.offloaded import offloaded_words

# Where the text of a result is, by tool (Bash: ecosystem 2.3; the others as recorded sessions have them).
TEXT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Bash": ("stdout", "stderr"),
    "Grep": ("content",),
    "WebFetch": ("result",),
}
MCP_PREFIX: Final = "mcp__"


def shrink_result(payload: object, limit: int, folder: str) -> object:
    """The result in its own shape with long texts replaced; None where nothing is too long."""
    tool, result = get_text(payload, "tool_name"), get_path(payload, "tool_response")
    # Whoever reads a moved result wants to see it: moving it again would never end.
    if folder in str(get_path(payload, "tool_input")):
        return None
    keep = _TextStore(
        os.path.join(folder, session_file_name(payload)), get_text(payload, "tool_use_id"), limit
    )
    if isinstance(result, dict) and tool in TEXT_FIELDS:
        changed = {**result, **{name: keep.words(result.get(name), name) for name in TEXT_FIELDS[tool]}}
        changed = {name: value for name, value in changed.items() if name in result}
    elif tool.startswith(MCP_PREFIX):
        changed = _of_server(result, keep)
    else:
        return None
    return changed if changed != result else None


def _of_server(result: object, keep: "_TextStore") -> object:
    """A text, or a list of blocks of which some are texts."""
    if isinstance(result, list):
        return [_block(block, number, keep) for number, block in enumerate(result)]
    return keep.words(result, "result")


def _block(block: object, number: int, keep: "_TextStore") -> object:
    if not isinstance(block, dict) or block.get("type") != "text":
        return block
    return {**block, "text": keep.words(block.get("text"), str(number))}


class _TextStore:
    """Where the whole of each text goes, under a name that the call gives it."""

    def __init__(self, folder: str, call: str, limit: int) -> None:
        self._folder = folder
        self._call = call
        self._limit = limit

    def words(self, given: Any, part: str) -> Any:
        if not isinstance(given, str) or len(given) <= self._limit:
            return given
        path = os.path.join(self._folder, file_name(f"{self._call}-{part}"))
        write_private(path, given)
        shown = min(self._limit, OversizeSettings().preview)
        return offloaded_words(len(given), path, preview(given, shown))
