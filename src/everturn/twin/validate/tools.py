"""The tool types and their fields, and the rules between the tools of a request.

Taken from the parameter types of the official SDK 2.8. A tool without `type` is a `custom` tool.
"""

from typing import Any

from everturn.twin.validate.blocks import CACHE_CONTROL_FIELD
from everturn.twin.validate.grammar import Grammar, invalid_field, text
from everturn.twin.values import ParsedBlock, invalid_request
from everturn.wire.json_values import as_object

_CALLERS = "'direct'/'code_execution_20250825'/'code_execution_20260120'/'code_execution_20260521'"
_ANY = f"allowed_callers [allowed_caller], {CACHE_CONTROL_FIELD}, defer_loading bool, strict bool"
_CLIENT = f"{_ANY}, input_examples [object]"
_SEARCH = (
    f"name! 'web_search', {_ANY}, allowed_domains [str]?, blocked_domains [str]?, max_uses positive?, "
    "user_location user_location?"
)
_FETCH = (
    f"name! 'web_fetch', {_ANY}, allowed_domains [str]?, blocked_domains [str]?, max_uses positive?, "
    "citations citations_switch?, max_content_tokens positive?, url_sources url_sources?"
)
_INCLUSION = "response_inclusion 'full'/'excluded'"
_SCREEN = (
    f"name! 'computer', {_CLIENT}, display_height_px! positive, display_width_px! positive, "
    "display_number int?"
)
_CODE = f"name! 'code_execution', {_ANY}"

TOOLS = {
    "custom": f"name! tool_name, input_schema! input_schema, {_CLIENT}, description str, "
    "eager_input_streaming bool?",
    "bash_20241022": f"name! 'bash', {_CLIENT}",
    "bash_20250124": f"name! 'bash', {_CLIENT}",
    "text_editor_20241022": f"name! 'str_replace_editor', {_CLIENT}",
    "text_editor_20250124": f"name! 'str_replace_editor', {_CLIENT}",
    "text_editor_20250429": f"name! 'str_replace_based_edit_tool', {_CLIENT}",
    "text_editor_20250728": f"name! 'str_replace_based_edit_tool', max_characters positive?, {_CLIENT}",
    "memory_20250818": f"name! 'memory', {_CLIENT}",
    "computer_20241022": _SCREEN,
    "computer_20250124": _SCREEN,
    "computer_20251124": f"{_SCREEN}, enable_zoom bool",
    "computer_toolset_20260801": f"{CACHE_CONTROL_FIELD}, configs {{member_config?}}?",
    "browser_toolset_20260801": f"{CACHE_CONTROL_FIELD}, configs {{member_config?}}?",
    "code_execution_20250522": _CODE,
    "code_execution_20250825": _CODE,
    "code_execution_20260120": _CODE,
    "code_execution_20260521": _CODE,
    "web_search_20250305": _SEARCH,
    "web_search_20260209": _SEARCH,
    "web_search_20260318": f"{_SEARCH}, {_INCLUSION}",
    "web_fetch_20250910": _FETCH,
    "web_fetch_20260209": _FETCH,
    "web_fetch_20260309": f"{_FETCH}, use_cache bool",
    "web_fetch_20260318": f"{_FETCH}, use_cache bool, {_INCLUSION}",
    "tool_search_tool_bm25_20251119": f"name! 'tool_search_tool_bm25', {_ANY}",
    "tool_search_tool_bm25": f"name! 'tool_search_tool_bm25', {_ANY}",
    "tool_search_tool_regex_20251119": f"name! 'tool_search_tool_regex', {_ANY}",
    "tool_search_tool_regex": f"name! 'tool_search_tool_regex', {_ANY}",
    "advisor_20260301": f"model! str, name! 'advisor', {_ANY}, caching cache_control?, max_tokens positive?, "
    "max_uses positive?",
    "mcp_toolset": f"mcp_server_name! str, {CACHE_CONTROL_FIELD}, configs {{mcp_config}}?, "
    "default_config mcp_config, tools [mcp_tool]?",
}

_SHAPES = {
    "mcp_config": "defer_loading bool, enabled bool",
    "member_config": "defer_loading bool?, enabled bool?",
    "user_location": "type! 'approximate', city str?, country str?, region str?, timezone str?",
    "url_sources": "client_tool_results url_source, server_tool_results url_source, user_input url_source",
    "named_tool": "name! str, type! 'tool_reference'",
    "input_schema": "type! 'object', properties object?, required [str]?...",
}
_URL_SOURCES = {"all": "", "none": "", "only": "tools! [named_tool]", "except": "tools! [named_tool]"}
_NOT_AT_THE_TOP = ("oneOf", "allOf", "anyOf")


def add_tools(grammar: Grammar) -> None:
    """Define the shapes of all tools."""
    grammar.define("tool_name", text(pattern="^[a-zA-Z0-9_-]{1,128}$"))
    grammar.define("allowed_caller", grammar.kind(_CALLERS))
    grammar.shapes(_SHAPES)
    grammar.family("url_source", _URL_SOURCES)
    grammar.family("tool", TOOLS, untyped="custom")


def kind_of(tool: dict[str, Any]) -> str:
    return tool.get("type") or "custom"


def check_tools(tools: tuple[ParsedBlock, ...]) -> None:
    """Check the rules between tools whose shape is valid."""
    names: set[str] = set()
    for index, tool in enumerate(tools):
        _check_tool(tool.body, f"tools.{index}.{kind_of(tool.body)}")
        name = tool.body.get("name")
        if name in names:
            raise invalid_field("tools", "Tool names must be unique.")
        if name is not None:
            names.add(name)
    if tools and all(tool.body.get("defer_loading") for tool in tools):
        raise invalid_request("At least one tool must have defer_loading=false.")


def _check_tool(body: dict[str, Any], path: str) -> None:
    if body.get("defer_loading") and body.get("cache_control"):
        raise invalid_field(
            path,
            f"Tool '{body.get('name')}' cannot have both defer_loading=true and cache_control set. "
            "Tools with defer_loading cannot use prompt caching.",
        )
    schema = as_object(body.get("input_schema"))
    if any(word in schema for word in _NOT_AT_THE_TOP):
        raise invalid_field(
            f"{path}.input_schema", "input_schema does not support oneOf, allOf, or anyOf at the top level"
        )
    if body.get("allowed_domains") and body.get("blocked_domains"):
        raise invalid_field(path, "Only one of `allowed_domains` or `blocked_domains` can be set.")
