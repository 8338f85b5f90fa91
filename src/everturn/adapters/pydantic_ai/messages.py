"""pydantic-ai's parts as blocks of the API, and what the engine shows of them as messages again.

A part that says nothing to the model by itself, or speaks for the system, is no block: it stays beside its
message, and moves to the front where that message is summarized. A part of a kind that is not known here
is one block of text to the engine, and itself again to the model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from everturn.adapters.framework import (
    FrameworkMessage,
    FrameworkReply,
    FrameworkUsage,
    TracedBlocks,
    make_opaque_block,
)

Fields = dict[str, Any]
# They stay whatever becomes of the message that brought them: the system's words, and what changed for it.
PERMANENT_PARTS: Final = frozenset(
    {
        "system-prompt",
        "instruction-delta",
        "instruction-baseline",
        "tool-availability-delta",
        "capability-load-delta",
        "model-settings-delta",
    }
)
# How pydantic-ai marks a thinking part whose words the provider keeps to itself.
REDACTED: Final = "redacted_thinking"


class ConvertedMessage(NamedTuple):
    """A message as a piece, and of each of its blocks the index of the part that it comes from."""

    message: ModelMessage
    piece: FrameworkMessage
    owners: list[int]

    @property
    def held(self) -> list[Any]:
        return [part for part in self.message.parts if part.part_kind in PERMANENT_PARTS]


# ── to the engine ────────────────────────────────────────────────────────────────────────────────


def convert_message(message: ModelMessage) -> ConvertedMessage:
    found = [(block, at) for at, part in enumerate(message.parts) for block in _blocks(part)]
    role = "assistant" if isinstance(message, ModelResponse) else "user"
    return ConvertedMessage(
        message, FrameworkMessage(role, [block for block, _ in found]), [at for _, at in found]
    )


def to_framework_reply(response: ModelResponse, model: str, otherwise: str) -> FrameworkReply:
    """A reply with its usage; `otherwise` is the id of one that has none."""
    usage = response.usage
    counted = FrameworkUsage(
        input_tokens=usage.input_tokens,
        cache_read=usage.cache_read_tokens,
        cache_written=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    return FrameworkReply(
        id=response.provider_response_id or otherwise,
        model=model,
        blocks=convert_message(response).piece.blocks,
        counted=counted if usage.has_values() else None,
        stop_reason="max_tokens" if response.finish_reason == "length" else "",
    )


def _blocks(part: Any) -> list[Fields]:
    match part.part_kind:
        case "user-prompt":
            return _said(part.content)
        case "text":
            return _text(part.content)
        case "retry-feedback":
            return _text(part.model_response())
        case "retry-prompt" if part.tool_name is None:
            return _text(part.model_response())
        case "retry-prompt":
            return [_result(part, part.model_response()) | {"is_error": True}]
        case "tool-return":
            return [_returned(part)]
        case "tool-call":
            call = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
            return [{"type": "tool_use", **call}]
        case "thinking":
            return [_thought(part)]
        case kind if kind in PERMANENT_PARTS:
            return []
        case _:
            return [make_opaque_block(part)]


def _said(content: Any) -> list[Fields]:
    items = [content] if isinstance(content, str) else content
    return [block for item in items for block in _item(item)]


def _item(item: Any) -> list[Fields]:
    """One item of what a user says. A file counts as one, and its bytes stay where they are."""
    if isinstance(item, str):
        return _text(item)
    match item.kind:
        case "text-content" | "structured-content":
            return _text(item.content)
        case "cache-point":
            return []
        case _:
            kind = "image" if item.media_type.startswith("image/") else "document"
            return [{"type": kind, "source": {"type": "url", "url": f"pydantic-ai:{item.identifier}"}}]


def _text(text: str) -> list[Fields]:
    return [{"type": "text", "text": text}] if text else []


def _result(part: Any, content: Any) -> Fields:
    return {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": content}


def _returned(part: ToolReturnPart) -> Fields:
    items = part.content_items(mode="str")
    is_text = all(isinstance(item, str) for item in items)
    result = _result(part, part.model_response_str() if is_text else _said(items))
    return result if part.outcome == "success" else result | {"is_error": True}


def _thought(part: Any) -> Fields:
    if part.id == REDACTED:
        return {"type": "redacted_thinking", "data": part.signature or ""}
    return {"type": "thinking", "thinking": part.content, "signature": part.signature or ""}


# ── and back ─────────────────────────────────────────────────────────────────────────────────────


def build_messages(shown: Sequence[TracedBlocks], sources: Sequence[ConvertedMessage]) -> list[ModelMessage]:
    """Whatever was not touched is the very same object."""
    names = {block["id"]: block["name"] for each in sources for block in each.piece.blocks if _is_call(block)}
    return [_message(each, sources, names) for each in shown]


def collect_permanent_parts(
    shown: Sequence[TracedBlocks], sources: Sequence[ConvertedMessage]
) -> list[ModelMessage]:
    """What is held of messages that are not shown: a request of its own, before all others."""
    seen = {each.source for each in shown}
    held = [part for at, each in enumerate(sources) if at not in seen for part in each.held]
    return [ModelRequest(parts=held)] if held else []


def _message(
    shown: TracedBlocks, sources: Sequence[ConvertedMessage], names: Mapping[str, str]
) -> ModelMessage:
    if shown.source < 0:
        parts = list(_new(shown, names))
        return ModelResponse(parts=parts) if shown.role == "assistant" else ModelRequest(parts=parts)
    source = sources[shown.source]
    if shown.is_untouched:
        return source.message
    parts: list[Any] = [*source.held, *_changed(shown, source)]
    return replace(source.message, parts=parts)


def _changed(shown: TracedBlocks, source: ConvertedMessage) -> Iterator[Any]:
    """The parts of a message of which something was changed: results, or calls that were mended."""
    placed = zip(shown.blocks, shown.places, strict=True)
    for owner, group in groupby(placed, key=lambda each: source.owners[each[1]]):
        part, found = source.message.parts[owner], list(group)
        if all(block == source.piece.blocks[at] for block, at in found):
            yield part
        elif isinstance(part, ToolCallPart):
            yield replace(part, args=found[0][0]["input"])
        else:
            yield replace(part, content=_plainly(found[0][0]))


def _new(shown: TracedBlocks, names: Mapping[str, str]) -> Iterator[Any]:
    for block in shown.blocks:
        if _is_call(block):
            yield ToolCallPart(block["name"], block["input"], block["id"])
        elif block["type"] == "tool_result":
            call = block["tool_use_id"]
            outcome = "failed" if block.get("is_error") else "success"
            yield ToolReturnPart(names.get(call, "unknown"), _plainly(block), call, outcome=outcome)
        elif shown.role == "assistant":
            yield TextPart(_plainly(block))
        else:
            yield UserPromptPart(_plainly(block))


def _is_call(block: Fields) -> bool:
    return block.get("type") == "tool_use"


def _plainly(block: Fields) -> str:
    content = block["content"] if block["type"] == "tool_result" else [block]
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or f"[{part.get('type')}]" for part in content)
