"""What the API is asked to clear by itself: the request's `context_management` (MC-13 to MC-15).

Independent of the other kinds. The public API counts what it keeps in tool uses, not in tokens, so the keep
target is expressed by what must go at least: trigger minus target; `keep` stays at the API's default. Both
parts, results and inputs, are one edit, for one edit can do both (api-facts 2.2).

What is composed here is part of the cache key (api-facts 3), and an edit that stops firing would put back
what it had taken out. The API could also keep the last turn's thinking alone, but would then drop one turn's
thinking in every request and break the cache each time. So it is asked to keep all, and after an idle hour
our own edit drops all but the last turns, once (`decide/thinking.py`).
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from everturn.decide.micro.context import several
from everturn.decide.settings import DeclarativeSettings
from everturn.measure.capabilities import Capabilities
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable

CLEAR_THINKING: Final = "clear_thinking_20251015"
CLEAR_TOOL_USES: Final = "clear_tool_uses_20250919"
# The header that edits of both types need (api-facts 2.1).
BETA: Final = "context-management-2025-06-27"

# With this header, of any date, replies come without readable thinking: there is nothing worth keeping.
REDACTING_BETA: Final = "redact-thinking-"

Thinking = Literal["none", "present", "redacted"]


def thinking_in_replies(mode: str, betas: Iterable[str]) -> Thinking:
    """What the replies to requests with this thinking mode and these beta headers hold."""
    if mode == "disabled":
        return "none"
    return "redacted" if any(beta.startswith(REDACTING_BETA) for beta in betas) else "present"


def build_context_management(
    tools: Iterable[str],
    *,
    thinking: Thinking,
    settings: DeclarativeSettings,
    capabilities: Capabilities,
    table: ToolTable = DEFAULT_TOOL_TABLE,
) -> dict[str, Any] | None:
    """`context_management` for a request with these tools; None where nothing is asked for."""
    if not capabilities.context_editing:
        return None
    edits = [*_thinking_edit(thinking, settings), *_tool_edit(tools, settings, table)]
    return {"edits": edits} if edits else None


def _thinking_edit(thinking: Thinking, settings: DeclarativeSettings) -> list[dict[str, Any]]:
    """Without it a model that drops old thinking by itself would do so in every request."""
    if not settings.thinking or thinking != "present":
        return []
    return [{"type": CLEAR_THINKING, "keep": "all"}]


def keeps_all_thinking(management: object) -> bool:
    """Whether a request with this `context_management` shows the model the thinking of all turns."""
    if management is None:
        return False
    try:
        edits = msgspec.convert(management, _AskedManagement).edits
    except msgspec.ValidationError:
        return False
    return any(edit.type == CLEAR_THINKING and edit.keep in ("all", {"type": "all"}) for edit in edits)


def _tool_edit(tools: Iterable[str], settings: DeclarativeSettings, table: ToolTable) -> list[dict[str, Any]]:
    names = sorted(set(tools))
    table = settings.add_tools(table)
    rows = {name: table.find(name) for name in names}
    emptied = [name for name in names if settings.tool_inputs and rows[name].has_large_input]
    results = {
        name
        for name in names
        if settings.tool_results and rows[name].is_reproducible and not rows[name].has_large_input
    }
    clearable = results.union(emptied)
    if not clearable:
        return []
    edit: dict[str, Any] = {
        "type": CLEAR_TOOL_USES,
        "trigger": {"type": "input_tokens", "value": settings.trigger},
        "clear_at_least": {"type": "input_tokens", "value": settings.clear_at_least},
    }
    if excluded := [name for name in names if name not in clearable]:
        edit["exclude_tools"] = excluded
    if emptied:
        edit["clear_tool_inputs"] = emptied
    return [edit]


class _AskedEdit(msgspec.Struct):
    type: str = ""
    keep: object = None


class _AskedManagement(msgspec.Struct):
    edits: tuple[_AskedEdit, ...] = ()


class AppliedContextEdit(msgspec.Struct, frozen=True):
    """One edit that the API reports as applied: how many uses or turns went, and how many tokens."""

    edit: str
    cleared: int = 0
    tokens: int = 0

    @property
    def detector_notice(self) -> Literal["nothing", "deleted"]:
        return "deleted" if self.cleared or self.tokens else "nothing"


_CLEARED_BY: Final = {CLEAR_THINKING: "thinking turn", CLEAR_TOOL_USES: "tool use"}


def describe_applied(applied: Iterable[AppliedContextEdit]) -> str:
    """What the API cleared, in words; "" where it cleared nothing."""
    return ", ".join(
        f"{several(edit.cleared, _CLEARED_BY.get(edit.edit, 'item'))} ({edit.tokens:,} tokens)"
        for edit in applied
        if edit.detector_notice == "deleted"
    )


class _AppliedEdit(msgspec.Struct):
    type: str = ""
    cleared_tool_uses: int = 0
    cleared_thinking_turns: int = 0
    cleared_input_tokens: int = 0


class _Management(msgspec.Struct):
    applied_edits: tuple[_AppliedEdit, ...] = ()


def applied_edits(reported: object) -> tuple[AppliedContextEdit, ...]:
    """From a response's `context_management`, decoded; what cannot be read says nothing."""
    try:
        edits = msgspec.convert(reported, _Management).applied_edits
    except msgspec.ValidationError:
        return ()
    return tuple(
        AppliedContextEdit(
            edit.type, edit.cleared_tool_uses + edit.cleared_thinking_turns, edit.cleared_input_tokens
        )
        for edit in edits
    )
