"""Moves a large tool result to a file before the model sees it, so that the prompt cache stays valid.

Claude Code accepts a changed result only in the tool's own format: known formats are shrunk, others are left
alone. Results of Read stay complete, because an edit must match the file exactly.
"""

import os
from collections.abc import Mapping
from typing import Final

from everturn.adapters.claude_code.compaction_marker import session_file_name, write_private
from everturn.adapters.claude_code.quick_json import get_path, get_text, is_list, is_object
from everturn.decide.micro.oversize import file_name, preview
from everturn.decide.settings import OversizeSettings
from everturn.view.fragments.offloaded import offloaded_words

# The text fields of a result, by tool (Bash: ecosystem 2.3; the others: from recorded sessions).
TEXT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Bash": ("stdout", "stderr"),
    "Grep": ("content",),
    "WebFetch": ("result",),
}
MCP_PREFIX: Final = "mcp__"


def shrink_result(payload: object, limit: int, folder: str) -> object:
    """The result in its own format with long texts replaced; None if nothing is too long."""
    tool, result = get_text(payload, "tool_name"), get_path(payload, "tool_response")
    # A call that reads a moved result must not be shrunk again.
    if folder in str(get_path(payload, "tool_input")):
        return None
    keep = _TextStore(
        os.path.join(folder, session_file_name(payload)), get_text(payload, "tool_use_id"), limit
    )
    if is_object(result) and tool in TEXT_FIELDS:
        changed = {**result, **{name: keep.words(result.get(name), name) for name in TEXT_FIELDS[tool]}}
        changed = {name: value for name, value in changed.items() if name in result}
    elif tool.startswith(MCP_PREFIX):
        changed = _of_server(result, keep)
    else:
        return None
    return changed if changed != result else None


def _of_server(result: object, keep: "_TextStore") -> object:
    """A text, or a list of content blocks."""
    if is_list(result):
        return [_block(block, number, keep) for number, block in enumerate(result)]
    return keep.words(result, "result")


def _block(block: object, number: int, keep: "_TextStore") -> object:
    if not is_object(block) or block.get("type") != "text":
        return block
    return {**block, "text": keep.words(block.get("text"), str(number))}


class _TextStore:
    """Saves full texts to files named after the call."""

    def __init__(self, folder: str, call: str, limit: int) -> None:
        self._folder = folder
        self._call = call
        self._limit = limit

    def words(self, given: object, part: str) -> object:
        if not isinstance(given, str) or len(given) <= self._limit:
            return given
        path = os.path.join(self._folder, file_name(f"{self._call}-{part}"))
        write_private(path, given)
        shown = min(self._limit, OversizeSettings().preview)
        return offloaded_words(len(given), path, preview(given, shown))
