"""Features that need a beta header, and the errors without it.

Without the header a field is unknown ("Extra inputs"), and a type of block or tool is not among the expected
ones. Sources: api-facts 2.1, 2.5, 2.6, 7, and the descriptions in the SDK. One of the listed headers is
enough.
"""

from typing import Any

from everturn.twin.validate.blocks import BLOCKS
from everturn.twin.validate.grammar import EXTRA, invalid_field, unknown_tag
from everturn.twin.validate.tools import TOOLS
from everturn.twin.values import ParsedRequest
from everturn.wire.json_values import as_object, as_objects

Headers = tuple[str, ...]

CLEARING: Headers = ("context-management-2025-06-27",)
COMPACT_AT_THRESHOLD: Headers = ("compact-2026-01-12",)
COMPACT_ON_DEMAND: Headers = ("compact-2026-09-04",)
# No header enables these; the twin does, with `TwinOptions.extensions`.
NO_BETA_HEADER: Headers = ()
BINDING_CONTROLS: Headers = ("thinking-binding-controls-2026-08-01",)
_COMPACTION = COMPACT_AT_THRESHOLD + COMPACT_ON_DEMAND
_MCP: Headers = ("mcp-client-2025-11-20", "mcp-client-2026-09-15", "mcp-client-2025-04-04")
_TOOL_CHANGES: Headers = ("mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15")
_COMPUTER_2024: Headers = ("computer-use-2024-10-22",)
_ADVISOR: Headers = ("advisor-tool-2026-03-01",)

PARAMETERS: dict[str, Headers] = {
    "context_management": CLEARING + COMPACT_AT_THRESHOLD,
    "fallbacks": ("server-side-fallback-2026-06-01", "server-side-fallback-2026-07-01"),
    "fallback_credit_token": ("fallback-credit-2026-06-01", "fallback-credit-2026-07-01"),
    "mcp_servers": _MCP,
    "thread": ("message-threads-2026-08-12",),
    "output_format": ("structured-outputs-2025-11-13",),
}
EDITS: dict[str, Headers] = {
    "clear_tool_uses_20250919": CLEARING,
    "clear_thinking_20251015": CLEARING,
    "compact_20260112": COMPACT_AT_THRESHOLD,
}
BLOCK_KINDS: dict[str, Headers] = {
    "compaction": _COMPACTION,
    "tool_addition": _TOOL_CHANGES,
    "tool_removal": _TOOL_CHANGES,
    "advisor_tool_result": _ADVISOR,
    "mcp_tool_use": _MCP,
    "mcp_tool_result": _MCP,
    "mcp_tool_listing": _MCP,
    "fallback": PARAMETERS["fallbacks"],
}
TOOL_KINDS: dict[str, Headers] = {
    "bash_20241022": _COMPUTER_2024,
    "text_editor_20241022": _COMPUTER_2024,
    "computer_20241022": _COMPUTER_2024,
    "computer_20250124": ("computer-use-2025-01-24",),
    "computer_20251124": ("computer-use-2025-11-24",),
    "advisor_20260301": _ADVISOR,
    "mcp_toolset": _MCP,
}
# Fields of a message with role "system".
MESSAGE_FIELDS: dict[str, Headers] = {
    "clear_at": ("mid-conversation-system-clear-at-2026-08-21",),
    "output_config": ("mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"),
}
INLINE_TOOLS: Headers = ("inline-tools-2026-09-15",)
_TASK_BUDGETS: Headers = ("task-budgets-2026-03-13",)
_DISPLAY_UPDATES: Headers = ("thinking-display-updates-2026-08-18",)


def has_beta(request: ParsedRequest, headers: Headers) -> bool:
    return not request.betas.isdisjoint(headers)


def check_parameters(request: ParsedRequest) -> None:
    """Check the fields of the body that need a beta header."""
    body = request.body
    for name, headers in PARAMETERS.items():
        if body.get(name) is not None and not has_beta(request, headers):
            raise invalid_field(name, EXTRA)
    if body.get("compaction") is not None and not has_beta(request, COMPACT_ON_DEMAND):
        needed = COMPACT_ON_DEMAND[0]
        raise invalid_field("compaction", f"the `compaction` parameter requires anthropic-beta: {needed}")
    _check_output_config(request, body.get("output_config"))
    _check_thinking(request, body.get("thinking"))
    _check_edits(request, body.get("context_management"))


def _check_output_config(request: ParsedRequest, config: Any) -> None:
    if config and config.get("task_budget") is not None and not has_beta(request, _TASK_BUDGETS):
        raise invalid_field("output_config.task_budget", EXTRA)


def _check_thinking(request: ParsedRequest, thinking: Any) -> None:
    if not thinking:
        return
    path = f"thinking.{thinking['type']}"
    if thinking.get("block_binding") is not None and not has_beta(request, BINDING_CONTROLS):
        raise invalid_field(f"{path}.block_binding", EXTRA)
    if thinking.get("display") == "updates" and not has_beta(request, _DISPLAY_UPDATES):
        raise invalid_field(f"{path}.display", "Input should be 'summarized' or 'omitted'")


def _check_edits(request: ParsedRequest, management: Any) -> None:
    for index, edit in enumerate(as_objects(as_object(management).get("edits"))):
        if not has_beta(request, EDITS[edit["type"]]):
            known = [kind for kind, headers in EDITS.items() if has_beta(request, headers)]
            raise invalid_field(f"context_management.edits.{index}", unknown_tag(edit["type"], known))


def check_tools(request: ParsedRequest) -> None:
    for index, tool in enumerate(request.tools):
        kind = tool.body.get("type")
        if kind in TOOL_KINDS and not has_beta(request, TOOL_KINDS[kind]):
            raise invalid_field(f"tools.{index}", unknown_tag(kind, _known_types(request, TOOLS, TOOL_KINDS)))


def unexpected_block(kind: str, request: ParsedRequest) -> str:
    return unknown_tag(kind, _known_types(request, BLOCKS, BLOCK_KINDS))


def _known_types(
    request: ParsedRequest, table: dict[str, str], headers_by_kind: dict[str, Headers]
) -> list[str]:
    return [kind for kind in table if kind not in headers_by_kind or has_beta(request, headers_by_kind[kind])]
