"""The replacement for a block that a summary request cannot contain: an image, a document, a summary that the
provider signed and accepts only in its own form, or a search for tools: the request declares no tools, and
the API refuses a reference to one that is not declared (CP-2, CP-35).
"""

from collections.abc import Iterable
from typing import Any

from everturn.history.blocks import Block, fields_of, text_block, text_of
from everturn.wire.json_values import as_object, as_objects

_WORDS = {"image": "[image]", "document": "[document]"}


def stand_in(block: Block) -> Block | None:
    """A placeholder for a block that cannot be summarized; None for any other."""
    words = _WORDS.get(block.kind) or _find_words(block)
    return text_block(words) if words else None


def _find_words(block: Block) -> str:
    match block.kind:
        case "compaction":
            return text_of(block)
        case "tool_reference":
            return _tell_tools([fields_of(block)])
        case "tool_search_tool_result":
            found = as_object(fields_of(block).get("content")).get("tool_references")
            return _tell_tools(as_objects(found))
        case "server_tool_use":
            call = fields_of(block)
            is_search = str(call.get("name", "")).startswith("tool_search_tool_")
            query = as_object(call.get("input")).get("query", "") if is_search else ""
            return f"[searched for tools: {query}]" if is_search else ""
        case _:
            return ""


def _tell_tools(references: Iterable[dict[str, Any]]) -> str:
    return f"[tools found: {', '.join(str(each.get('tool_name', '')) for each in references)}]"
