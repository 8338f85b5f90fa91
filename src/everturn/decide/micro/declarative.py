"""What the API is asked to clear by itself: the request's `context_management` (MC-13 to MC-15).

Independent of the other kinds. The public API counts what it keeps in tool uses, not in tokens, so the keep
target is expressed by what must go at least: trigger minus target; `keep` stays at the API's default. Both
parts, results and inputs, are one edit, for one edit can do both (api-facts 2.2).

What is composed here is part of the cache key (api-facts 3), and an edit that stops firing would put back
what it had taken out. So the thinking that is kept, once reduced, stays reduced (`thinking_kept`).
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from everturn.decide.settings import DeclarativeSettings
from everturn.decide.tools import matches
from everturn.measure.capabilities import Capabilities

CLEAR_THINKING: Final = "clear_thinking_20251015"
CLEAR_TOOL_USES: Final = "clear_tool_uses_20250919"
# The header that edits of both types need (api-facts 2.1).
BETA: Final = "context-management-2025-06-27"

Thinking = Literal["none", "present", "redacted"]
KeptThinking = Literal["all", "last_turn"]


def thinking_kept(
    before: KeptThinking, *, now: datetime, last_reply: datetime | None, settings: DeclarativeSettings
) -> KeptThinking:
    """All of it until the cache has surely gone cold once; from then on the last turn, until a compaction."""
    if before == "last_turn" or last_reply is None:
        return before
    return "last_turn" if now - last_reply > settings.idle else "all"


def build_context_management(
    tools: Iterable[str],
    *,
    thinking: Thinking,
    kept: KeptThinking,
    settings: DeclarativeSettings,
    capabilities: Capabilities,
) -> dict[str, Any] | None:
    """`context_management` for a request with these tools; None where nothing is asked for."""
    if not capabilities.context_editing:
        return None
    edits = [*_thinking_edit(thinking, kept, settings), *_tool_edit(tools, settings)]
    return {"edits": edits} if edits else None


def _thinking_edit(
    thinking: Thinking, kept: KeptThinking, settings: DeclarativeSettings
) -> list[dict[str, Any]]:
    if not settings.thinking or thinking != "present":
        return []
    turns = {"type": "thinking_turns", "value": max(1, settings.thinking_turns)}
    return [{"type": CLEAR_THINKING, "keep": "all" if kept == "all" else turns}]


def _tool_edit(tools: Iterable[str], settings: DeclarativeSettings) -> list[dict[str, Any]]:
    names = sorted(set(tools))
    results = settings.results_of if settings.tool_results else ()
    inputs = settings.inputs_of if settings.tool_inputs else ()
    clearable = {name for name in names if matches(name, results) or matches(name, inputs)}
    if not clearable:
        return []
    edit: dict[str, Any] = {
        "type": CLEAR_TOOL_USES,
        "trigger": {"type": "input_tokens", "value": settings.trigger},
        "clear_at_least": {"type": "input_tokens", "value": settings.clear_at_least},
    }
    if excluded := [name for name in names if name not in clearable]:
        edit["exclude_tools"] = excluded
    if emptied := [name for name in names if matches(name, inputs)]:
        edit["clear_tool_inputs"] = emptied
    return [edit]


class AppliedContextEdit(msgspec.Struct, frozen=True):
    """One edit that the API reports as applied: how many uses or turns went, and how many tokens."""

    edit: str
    cleared: int = 0
    tokens: int = 0

    @property
    def detector_notice(self) -> Literal["nothing", "deleted"]:
        return "deleted" if self.cleared or self.tokens else "nothing"


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
