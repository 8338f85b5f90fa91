"""Tools that a session does not send with every request, because they were never called (EC-10).

Their definitions are still in the request, with `defer_loading`; the API leaves them out of the prompt, and
adds those that the model finds with the search tool where it has found them. So what is cached before stays
cached.
"""

from collections.abc import Collection, Sequence
from datetime import date
from typing import Final

import msgspec

from everturn.measure.model import Model
from everturn.session.tools import Tool

SEARCH: Final = Tool({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"})
# The first models with the search tool. The small models are left out: not all of them have it.
_SINCE: Final = date(2025, 9, 29)


def can_search(model: Model) -> bool:
    return model.released >= _SINCE and model.line != "haiku"


def can_defer(tool: Tool) -> bool:
    """Only tools of the caller's own, and none that says itself how it is sent."""
    given = tool.definition
    return "input_schema" in given and not {"defer_loading", "cache_control"} & set(given)


def defer_tools(tools: Sequence[Tool], names: Collection[str]) -> tuple[Tool, ...]:
    """The tools as they are sent, with the search tool if one of them is deferred."""
    sent = tuple(_defer(tool) if tool.name in names and can_defer(tool) else tool for tool in tools)
    is_searched = any(new is not old for new, old in zip(sent, tools, strict=True))
    return (*sent, SEARCH) if is_searched else sent


def _defer(tool: Tool) -> Tool:
    return msgspec.structs.replace(tool, definition={**tool.definition, "defer_loading": True})
