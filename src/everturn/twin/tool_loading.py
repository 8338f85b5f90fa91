"""Deferred tools: which ones the model has found, and how the twin's model finds them.

A tool with `defer_loading` is outside the prefix until a `tool_reference` in the messages names it: in the
result of a tool search by the API, or in a tool result of the client. Its definition then counts where it is
first referred to, so the prefix before that stays cached.
"""

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from everturn.twin.request_text import new_id
from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest, invalid_request
from everturn.wire.json_values import as_object, as_objects, is_list

TOOL_SEARCH_RESULT: Final = "tool_search_tool_result"
_SEARCH_TOOLS: Final = ("tool_search_tool_regex", "tool_search_tool_bm25")
_MAX_FOUND: Final = 5
_MAX_QUERY_CHARS: Final = 200
_WORD: Final = re.compile(r"[a-z]{3,40}")


def find_all_references(message: ParsedMessage) -> tuple[str, ...]:
    """The names of the tools that a message refers to, computed once."""
    found: tuple[str, ...] | None = message.computed.get("references")
    if found is None:
        found = tuple(name for block in message.blocks for name in find_references(block))
        message.computed["references"] = found
    return found


def find_references(block: ParsedBlock) -> list[str]:
    """The names of the tools that a block refers to."""
    if block.kind not in (TOOL_SEARCH_RESULT, "tool_result"):
        return []
    content = block.body.get("content")
    parts = content if is_list(content) else as_object(content).get("tool_references")
    return [str(part.get("tool_name")) for part in as_objects(parts) if part.get("type") == "tool_reference"]


def find_loaded_tools(request: ParsedRequest) -> tuple[ParsedBlock, ...]:
    """The tools that the model can call: those in the prefix, and deferred ones that were found."""
    if not any(is_deferred(tool) for tool in request.tools):
        return request.tools
    found = {name for message in request.messages for name in find_all_references(message)}
    return tuple(tool for tool in request.tools if not is_deferred(tool) or tool.body.get("name") in found)


def is_deferred(tool: ParsedBlock) -> bool:
    return tool.body.get("defer_loading") is True


def check_references(request: ParsedRequest) -> None:
    """Raise ApiError if the messages refer to a tool that is not offered."""
    if request.kinds.isdisjoint(("tool_reference", TOOL_SEARCH_RESULT)):
        return
    names = {str(tool.body.get("name")) for tool in request.tools}
    for message in request.messages:
        for name in find_all_references(message):
            if name not in names:
                raise invalid_request(f"Tool reference '{name}' not found in available tools")


def find_loads(request: ParsedRequest) -> dict[tuple[int, int], tuple[ParsedBlock, ...]]:
    """The deferred tools that are loaded by each block of the messages, by message and position."""
    deferred = {str(tool.body.get("name")): tool for tool in request.tools if is_deferred(tool)}
    if not deferred:
        return {}
    loads: dict[tuple[int, int], tuple[ParsedBlock, ...]] = {}
    for number, message in enumerate(request.messages):
        for index, block in enumerate(message.blocks):
            found = [deferred.pop(name) for name in find_references(block) if name in deferred]
            if found:
                loads[number, index] = tuple(found)
    return loads


# ── searching ────────────────────────────────────────────────────────────────────────────────────


def search_tools(
    request: ParsedRequest, candidates: Sequence[ParsedBlock], prompt: str, *, rng: random.Random
) -> tuple[dict[str, Any], ...]:
    """A search for deferred tools as blocks of a reply: the call and its result. () without a search tool."""
    name = next(_search_tools(request), None)
    if name is None or not candidates:
        return ()
    found = _rank(candidates, prompt)[:_MAX_FOUND]
    id = new_id("srvtoolu_", rng)
    words = [str(tool.body.get("name")) for tool in found]
    query = "|".join(words)[:_MAX_QUERY_CHARS] if name == _SEARCH_TOOLS[0] else " ".join(words)
    call = {"type": "server_tool_use", "id": id, "name": name, "input": {"query": query[:_MAX_QUERY_CHARS]}}
    references = [{"type": "tool_reference", "tool_name": word} for word in words]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    return call, {"type": TOOL_SEARCH_RESULT, "tool_use_id": id, "content": content}


def _search_tools(request: ParsedRequest) -> Iterator[str]:
    for tool in request.tools:
        kind = str(tool.body.get("type") or "")
        yield from (name for name in _SEARCH_TOOLS if kind.startswith(name))


def _rank(candidates: Sequence[ParsedBlock], prompt: str) -> list[ParsedBlock]:
    """The tools whose names and descriptions share most words with the prompt first."""
    asked = set(_WORD.findall(prompt[:4_000].lower()))

    def shared(tool: ParsedBlock) -> int:
        text = f"{tool.body.get('name')} {tool.body.get('description')}"[:2_000].lower()
        return -len(asked & set(_WORD.findall(text)))

    return sorted(candidates, key=shared)
