"""Context editing: remove old thinking and old tool results before the model sees the prompt (TW-4).

The client keeps sending the whole history, so an edit applies again to every request above its trigger. Edits
run in the given order (thinking first, which `validate` checks), each on the result of the one before. A
changed block breaks the cached prefix from there on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from everturn.history.blocks import THINKING
from everturn.history.messages import find_last_prompt, is_user_prompt
from everturn.twin.count import make_block_counter
from everturn.twin.options import TwinOptions
from everturn.twin.parse import make_block
from everturn.twin.request_layout import lay_out
from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest
from everturn.wire.json_values import as_objects, is_list, is_object

CLEAR_TOOL_USES: Final = "clear_tool_uses_20250919"
CLEAR_THINKING: Final = "clear_thinking_20251015"
COMPACT: Final = "compact_20260112"

# Defaults of clear_tool_uses (api-facts 2.2).
_TRIGGER: Final = {"type": "input_tokens", "value": 100_000}
_KEEP: Final = {"type": "tool_uses", "value": 3}

BlockEditor = Callable[[ParsedMessage, ParsedBlock], ParsedBlock | None]


@dataclass(frozen=True, slots=True)
class EditedRequest:
    """The request as the model sees it, and the `applied_edits` of the response."""

    request: ParsedRequest
    applied: tuple[dict[str, Any], ...]


def get_edits(request: ParsedRequest) -> list[dict[str, Any]]:
    return as_objects(request.get_object("context_management").get("edits"))


def apply_edits(request: ParsedRequest, options: TwinOptions) -> EditedRequest:
    edits = get_edits(request)
    if not any(edit.get("type") == CLEAR_THINKING for edit in edits):
        request = drop_old_thinking(request)
    applied: list[dict[str, Any]] = []
    for edit in edits:
        step = {CLEAR_THINKING: _clear_thinking, CLEAR_TOOL_USES: _clear_tool_uses}.get(str(edit.get("type")))
        if step is not None:
            request, report = step(request, edit, options)
            applied += [report] if report is not None else []
    return EditedRequest(request, tuple(applied))


def edit_blocks(request: ParsedRequest, edit: BlockEditor) -> ParsedRequest:
    """The request with each block replaced by the result of `edit`; None removes the block."""
    messages: list[ParsedMessage] = []
    for message in request.messages:
        blocks = tuple(new for block in message.blocks if (new := edit(message, block)) is not None)
        messages.append(message if blocks == message.blocks else replace(message, blocks=blocks))
    return replace(request, messages=tuple(messages))


# ── thinking ─────────────────────────────────────────────────────────────────────────────────────


def drop_old_thinking(request: ParsedRequest) -> ParsedRequest:
    """Drop the thinking of earlier turns, for models that keep only the last turn's (api-facts 1.10)."""
    if request.model.keeps_thinking or request.kinds.isdisjoint(THINKING):
        return request
    last_prompt = find_last_prompt(request.messages)
    messages = tuple(_without_thinking(m) if i < last_prompt else m for i, m in enumerate(request.messages))
    return replace(request, messages=messages)


def _clear_thinking(
    request: ParsedRequest, edit: dict[str, Any], options: TwinOptions
) -> tuple[ParsedRequest, dict[str, Any] | None]:
    keep = _kept_turns(edit.get("keep"), request)
    turns = [turn for turn in _turns(request) if _has_thinking(request, turn)]
    cleared = turns[: max(0, len(turns) - keep)] if keep is not None else []
    if not cleared:
        return request, None
    cleared_messages = {number for turn in cleared for number in turn}
    messages = tuple(
        _without_thinking(m) if i in cleared_messages else m for i, m in enumerate(request.messages)
    )
    smaller = replace(request, messages=messages)
    report = {
        "type": CLEAR_THINKING,
        "cleared_thinking_turns": len(cleared),
        "cleared_input_tokens": _count_saved(request, smaller, options),
    }
    return smaller, report


def _kept_turns(keep: Any, request: ParsedRequest) -> int | None:
    """How many turns keep their thinking; None means all. The default depends on the model."""
    if keep is None:
        return None if request.model.keeps_thinking else 1
    if is_object(keep) and keep.get("type") == "thinking_turns":
        return int(keep["value"])
    return None


def _turns(request: ParsedRequest) -> list[list[int]]:
    """The assistant messages between two user prompts; a tool loop is one turn."""
    turns: list[list[int]] = [[]]
    for number, message in enumerate(request.messages):
        if is_user_prompt(message):
            turns.append([])
        elif message.role == "assistant":
            turns[-1].append(number)
    return [turn for turn in turns if turn]


def _has_thinking(request: ParsedRequest, turn: list[int]) -> bool:
    return any(block.kind in THINKING for number in turn for block in request.messages[number].blocks)


def _without_thinking(message: ParsedMessage) -> ParsedMessage:
    return replace(message, blocks=tuple(block for block in message.blocks if block.kind not in THINKING))


# ── tool uses ────────────────────────────────────────────────────────────────────────────────────


def _clear_tool_uses(
    request: ParsedRequest, edit: dict[str, Any], options: TwinOptions
) -> tuple[ParsedRequest, dict[str, Any] | None]:
    uses = [b.body for m in request.messages for b in m.blocks if b.kind == "tool_use"]
    if not _is_triggered(edit.get("trigger") or _TRIGGER, request, len(uses), options):
        return request, None
    kept = int((edit.get("keep") or _KEEP)["value"])
    excluded = frozenset(edit.get("exclude_tools") or ())
    counted = uses if options.keep_counts_excluded else [u for u in uses if u["name"] not in excluded]
    oldest = counted[: max(0, len(counted) - kept)]
    old = {use["id"]: use["name"] for use in oldest if use["name"] not in excluded}
    if not old:
        return request, None
    smaller = edit_blocks(
        request, _make_clearing_editor(old, edit.get("clear_tool_inputs"), options.cleared_placeholder)
    )
    saved = _count_saved(request, smaller, options)
    if not options.cleared_tokens_are_net:
        saved += len(old) * make_block_counter(request.model, options)(
            make_block(_text(options.cleared_placeholder))
        )
    at_least = edit.get("clear_at_least")
    if at_least is not None and saved < at_least["value"]:
        return request, None
    report = {"type": CLEAR_TOOL_USES, "cleared_tool_uses": len(old), "cleared_input_tokens": saved}
    return smaller, report


def _is_triggered(trigger: dict[str, Any], request: ParsedRequest, uses: int, options: TwinOptions) -> bool:
    measured = uses if trigger["type"] == "tool_uses" else lay_out(request, options).total
    return measured > trigger["value"]


def _make_clearing_editor(old: dict[str, str], inputs: Any, placeholder: str) -> BlockEditor:
    emptied = {use for use, name in old.items() if inputs is True or (is_list(inputs) and name in inputs)}

    def edit(_: ParsedMessage, block: ParsedBlock) -> ParsedBlock:
        if block.kind == "tool_result" and block.body.get("tool_use_id") in old:
            return make_block({**block.body, "content": [_text(placeholder)]})
        if block.kind == "tool_use" and block.body.get("id") in emptied:
            return make_block({**block.body, "input": {}})
        return block

    return edit


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _count_saved(before: ParsedRequest, after: ParsedRequest, options: TwinOptions) -> int:
    return max(0, lay_out(before, options).total - lay_out(after, options).total)
