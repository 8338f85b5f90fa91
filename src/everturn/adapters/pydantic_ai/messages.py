"""Converts the parts of pydantic-ai messages to blocks of the API, and the engine's blocks back to messages.

A call of a tool that the provider runs, and its result, become blocks of their own kinds: they are not
parted, and the provider refuses one without the other. System prompts and parts that change settings do not
become blocks. They stay with their message, and move to
the front if that message is summarized. A part of an unknown kind is one text block to the engine; the model
gets the original part.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
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
    find_answering_model,
    make_opaque_block,
)
from everturn.adapters.framework.messages import Fields
from everturn.history.records import PAUSED

# Parts that stay even if their message is summarized: system prompts and changes of settings.
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
# The id that pydantic-ai gives to a redacted thinking part.
REDACTED: Final = "redacted_thinking"
# How the names of tools of MCP servers begin that the provider calls itself.
MCP: Final = "mcp_server"


class ConvertedMessage(NamedTuple):
    """A message, its blocks in the API's format, and for each block the index of the part it comes from."""

    message: ModelMessage
    converted: FrameworkMessage
    owners: list[int]

    @property
    def permanent_parts(self) -> list[Any]:
        return [part for part in self.message.parts if part.part_kind in PERMANENT_PARTS]


# ── to the engine ────────────────────────────────────────────────────────────────────────────────


def convert_message(message: ModelMessage) -> ConvertedMessage:
    found = [(block, at) for at, part in enumerate(message.parts) for block in _blocks(part)]
    role = "assistant" if isinstance(message, ModelResponse) else "user"
    return ConvertedMessage(
        message, FrameworkMessage(role, [block for block, _ in found]), [at for _, at in found]
    )


def to_framework_reply(response: ModelResponse, model: str, default_id: str) -> FrameworkReply:
    """A reply with its usage; `default_id` is used if the reply has no id."""
    usage = response.usage
    counted = FrameworkUsage(
        input_tokens=usage.input_tokens,
        cache_read=usage.cache_read_tokens,
        cache_written=usage.cache_write_tokens,
        written_1h=getattr(usage, "cache_write_1h_tokens", 0) or 0,
        output_tokens=usage.output_tokens,
    )
    return FrameworkReply(
        id=response.provider_response_id or default_id,
        model=find_answering_model(response.model_name, model),
        blocks=convert_message(response).converted.blocks,
        usage=counted if usage.has_values() else None,
        stop_reason=_stop_reason(response),
    )


def _stop_reason(response: ModelResponse) -> str:
    if response.state == "suspended":
        return PAUSED
    return "max_tokens" if response.finish_reason == "length" else ""


def _blocks(part: Any) -> list[Fields]:
    match part.part_kind:
        case "user-prompt":
            return _content_blocks(part.content)
        case "text":
            return _text_blocks(part.content)
        case "retry-feedback":
            return _text_blocks(part.model_response())
        case "retry-prompt" if part.tool_name is None:
            return _text_blocks(part.model_response())
        case "retry-prompt":
            return [_result(part, part.model_response()) | {"is_error": True}]
        case "tool-return":
            return [_return_block(part)]
        case "tool-call":
            call = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
            return [{"type": "tool_use", **call}]
        case "thinking":
            return [_thinking_block(part)]
        case "builtin-tool-call":
            call = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
            return [{"type": "mcp_tool_use" if _is_mcp(part) else "server_tool_use", **call}]
        case "builtin-tool-return":
            return [_provider_result(part)]
        case kind if kind in PERMANENT_PARTS:
            return []
        case _:
            return [make_opaque_block(part)]


def _content_blocks(content: Any) -> list[Fields]:
    items = [content] if isinstance(content, str) else content
    return [block for item in items for block in _item_blocks(item)]


def _item_blocks(item: Any) -> list[Fields]:
    """One item of a user prompt. A file becomes a reference: the engine needs its type, not its bytes."""
    if isinstance(item, str):
        return _text_blocks(item)
    match item.kind:
        case "text-content" | "structured-content":
            return _text_blocks(item.content)
        case "cache-point":
            return []
        case _:
            kind = "image" if _is_image(item) else "document"
            return [{"type": kind, "source": {"type": "url", "url": f"pydantic-ai:{item.identifier}"}}]


def _is_image(item: Any) -> bool:
    """The media type of a URL is not asked for: pydantic-ai raises if the URL does not end with one."""
    return item.kind == "image-url" or (
        not item.kind.endswith("-url") and str(item.media_type).startswith("image/")
    )


def _text_blocks(text: str) -> list[Fields]:
    return [{"type": "text", "text": text}] if text else []


def _result(part: Any, content: Any) -> Fields:
    return {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": content}


def _return_block(part: ToolReturnPart) -> Fields:
    items = part.content_items(mode="str")
    is_text = all(isinstance(item, str) for item in items)
    result = _result(part, part.model_response_str() if is_text else _content_blocks(items))
    return result if part.outcome == "success" else result | {"is_error": True}


def _provider_result(part: Any) -> Fields:
    kind = "mcp" if _is_mcp(part) else part.tool_name
    content = msgspec.json.decode(msgspec.json.encode(part.content, enc_hook=repr))
    return {"type": f"{kind}_tool_result", "tool_use_id": part.tool_call_id, "content": content}


def _is_mcp(part: Any) -> bool:
    return part.tool_name.startswith(MCP)


def _thinking_block(part: Any) -> Fields:
    if part.id == REDACTED:
        return {"type": "redacted_thinking", "data": part.signature or ""}
    return {"type": "thinking", "thinking": part.content, "signature": part.signature or ""}


# ── to pydantic-ai ───────────────────────────────────────────────────────────────────────────────


def build_messages(traced: Sequence[TracedBlocks], sources: Sequence[ConvertedMessage]) -> list[ModelMessage]:
    """The messages for the model. An unchanged message is the original object."""
    names = {
        block["id"]: block["name"] for each in sources for block in each.converted.blocks if _is_call(block)
    }
    provider = {
        part.tool_call_id: part
        for each in sources
        for part in each.message.parts
        if isinstance(part, NativeToolCallPart)
    }
    return [_message(each, sources, names, provider) for each in traced]


def collect_permanent_parts(
    traced: Sequence[TracedBlocks], sources: Sequence[ConvertedMessage]
) -> list[ModelMessage]:
    """A request with the permanent parts of messages that are no longer sent, to go before all others."""
    seen = {each.source for each in traced}
    parts = [part for at, each in enumerate(sources) if at not in seen for part in each.permanent_parts]
    return [ModelRequest(parts=parts)] if parts else []


def _message(
    traced: TracedBlocks,
    sources: Sequence[ConvertedMessage],
    names: Mapping[str, str],
    provider: Mapping[str, NativeToolCallPart],
) -> ModelMessage:
    if traced.source < 0:
        parts = list(_create_parts(traced, names, provider))
        return ModelResponse(parts=parts) if traced.role == "assistant" else ModelRequest(parts=parts)
    source = sources[traced.source]
    if traced.is_untouched:
        return source.message
    parts: list[Any] = [*source.permanent_parts, *_update_parts(traced, source)]
    return replace(source.message, parts=parts)


def _update_parts(traced: TracedBlocks, source: ConvertedMessage) -> Iterator[Any]:
    """The parts of a message in which results were changed or calls were repaired."""
    placed = zip(traced.blocks, traced.positions, strict=True)
    for owner, group in groupby(placed, key=lambda each: source.owners[each[1]]):
        part, found = source.message.parts[owner], list(group)
        if all(block == source.converted.blocks[at] for block, at in found):
            yield part
        elif isinstance(part, ToolCallPart):
            yield replace(part, args=found[0][0]["input"])
        else:
            yield replace(part, content=_to_text(found[0][0]))


def _create_parts(
    traced: TracedBlocks, names: Mapping[str, str], provider: Mapping[str, NativeToolCallPart]
) -> Iterator[Any]:
    for block in traced.blocks:
        if _is_call(block):
            yield ToolCallPart(block["name"], block["input"], block["id"])
        elif block["type"] == "tool_result":
            call = block["tool_use_id"]
            outcome = "failed" if block.get("is_error") else "success"
            yield ToolReturnPart(names.get(call, "unknown"), _to_text(block), call, outcome=outcome)
        elif (call := provider.get(block.get("tool_use_id", ""))) is not None:
            yield _end_provider_call(call, block)
        elif traced.role == "assistant":
            yield TextPart(_to_text(block))
        else:
            yield UserPromptPart(_to_text(block))


def _end_provider_call(call: NativeToolCallPart, block: Fields) -> NativeToolReturnPart:
    """A result for a call of the provider's own tool that gets none any more."""
    content: Any = block["content"]
    if _is_mcp(call):
        content = {"content": content, "is_error": True}
    return NativeToolReturnPart(call.tool_name, content, call.tool_call_id, provider_name=call.provider_name)


def _is_call(block: Fields) -> bool:
    return block.get("type") == "tool_use"


def _to_text(block: Fields) -> str:
    content = block["content"] if block["type"] == "tool_result" else [block]
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or f"[{part.get('type')}]" for part in content)
