"""Converts LangChain messages to blocks of the API, and the engine's blocks back to messages.

Only what the engine must understand is converted: text, thinking, tool calls, results, images. A message of
an unknown type is one text block to the engine; the model gets the original message.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from everturn.adapters.framework import (
    FrameworkMessage,
    FrameworkReply,
    FrameworkUsage,
    TracedBlocks,
    find_answering_model,
    make_opaque_block,
)
from everturn.adapters.framework.messages import Fields
from everturn.adapters.tracking.chain import digest
from everturn.history.messages import Role
from everturn.wire.json_values import is_object

# Parts of a streamed tool call; the complete call is in the message's `tool_calls`.
_DELTAS: Final = ("input_json_delta", "tool_call_chunk")
_CALLS: Final = ("tool_use", "tool_call", "invalid_tool_call")
# How the URL begins that stands for a file of LangChain: a reference, which no model can read.
_REFERENCE: Final = "langchain:"
# The names of the provider's own calls in LangChain's standard content, and of their blocks in the API.
_SERVER_CALLS: Final = {"remote_mcp": "mcp_tool_use"}
# LangChain's types for files, and the API type with the most similar token cost.
_FILES: Final = {
    "image": "image",
    "image_url": "image",
    "file": "document",
    "audio": "document",
    "video": "document",
}

# Where a tool of LangChain keeps the definition of a tool that its provider defines, and what it may add to
# its own definition.
_DEFINITION: Final = "provider_tool_definition"
_TOOL_EXTRAS: Final = (
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
)


# ── to the engine ────────────────────────────────────────────────────────────────────────────────


def to_framework_message(message: BaseMessage) -> FrameworkMessage:
    if isinstance(message, AIMessage):
        return FrameworkMessage("assistant", reply_blocks(message))
    if isinstance(message, ToolMessage):
        return FrameworkMessage("user", _results(message))
    if isinstance(message, HumanMessage):
        return FrameworkMessage("user", content_blocks(message.content))
    return FrameworkMessage("user", [make_opaque_block(message.model_dump(mode="json"))])


def convert_list(messages: Sequence[BaseMessage]) -> list[FrameworkMessage]:
    """An agent's whole list. System messages at its front have no blocks: they are the system prompt."""
    front = len(list(takewhile(lambda message: isinstance(message, SystemMessage), messages)))
    return [*[FrameworkMessage("user", [])] * front, *map(to_framework_message, messages[front:])]


def content_blocks(content: Any) -> list[Fields]:
    parts = [content] if isinstance(content, str) else content
    return [
        {"type": "text", "text": part} if isinstance(part, str) else _convert_part(part) for part in parts
    ]


def reply_blocks(message: AIMessage) -> list[Fields]:
    """The blocks of a reply. LangChain stores tool calls twice; those in `tool_calls` are authoritative."""
    calls: dict[Any, Fields] = {
        call["id"]: _call(call["id"], call["name"], call["args"]) for call in message.tool_calls
    }
    # Invalid calls are sent too, so the engine must see that they have no result.
    for invalid in message.invalid_tool_calls:
        if invalid["id"] and invalid["name"]:
            calls.setdefault(invalid["id"], _call(invalid["id"], invalid["name"], {}))
    blocks: list[Fields] = []
    for block in map(_convert_standard, content_blocks(message.content)):
        if block.get("type") in _CALLS and block.get("id") in calls:
            blocks.append(calls.pop(block["id"]))
        elif block.get("type") not in _DELTAS and block.get("text") != "":
            blocks.append(block)
    return [*blocks, *calls.values()]


def tool_fields(tool: Any) -> Fields:
    """A tool in the API's format: for counting tokens, for comparing sets of tools and for its schema.
    LangChain takes functions, its own tools, and definitions as the API, OpenAI or JSON Schema spell them.
    """
    if is_object(tool) and _is_definition(tool):
        return tool
    extras: Any = getattr(tool, "extras", None) or {}
    if (definition := extras.get(_DEFINITION)) is not None:
        return definition
    try:
        function = convert_to_openai_tool(tool)["function"]
    except (ValueError, KeyError):
        if not is_object(tool):
            raise
        # Only the model's own class knows this form: it is counted, and has no schema to fit calls to.
        return tool
    fields = {"name": function["name"], "input_schema": function.get("parameters", {"type": "object"})}
    described = {"description": function["description"]} if "description" in function else {}
    return {**fields, **described, **{name: extras[name] for name in _TOOL_EXTRAS if name in extras}}


def _is_definition(tool: Fields) -> bool:
    """Whether it is sent as it is: the API's own form, or a tool that a provider runs itself."""
    return "input_schema" in tool or tool.get("type", "function") not in ("function", "object")


def to_framework_reply(
    message: AIMessage, model: str, default_id: str, *, is_for_hour: bool = False
) -> FrameworkReply:
    """A reply with its usage; `default_id` is used if the reply has no id. `is_for_hour`: the cache was asked
    to keep the prompt for an hour, for replies that do not say so (streamed ones)."""
    metadata = message.response_metadata
    return FrameworkReply(
        id=metadata.get("id") or message.id or default_id,
        model=find_answering_model(metadata.get("model_name"), model),
        blocks=reply_blocks(message),
        usage=_read_usage(message, is_for_hour=is_for_hour),
        stop_reason=metadata.get("stop_reason") or "",
    )


def _read_usage(message: AIMessage, *, is_for_hour: bool) -> FrameworkUsage | None:
    if (usage := message.usage_metadata) is None:
        return None
    details: Any = usage.get("input_token_details") or {}
    # langchain-anthropic reports cache writes per TTL, and then reports 0 for `cache_creation`.
    written_5m, written_1h = (details.get(f"ephemeral_{ttl}_input_tokens") or 0 for ttl in ("5m", "1h"))
    written = written_5m + written_1h or details.get("cache_creation") or 0
    is_split = written_5m + written_1h > 0
    return FrameworkUsage(
        input_tokens=usage["input_tokens"],
        cache_read=details.get("cache_read") or 0,
        cache_written=written,
        written_1h=written if is_for_hour and not is_split else written_1h,
        output_tokens=usage["output_tokens"],
    )


def _call(id: Any, name: str, args: Any) -> Fields:
    return {"type": "tool_use", "id": id, "name": name, "input": args}


def _results(message: ToolMessage) -> list[Fields]:
    content = message.content
    if isinstance(content, list) and content and all(_is_result(part) for part in content):
        return content_blocks(content)
    blocks = content if isinstance(content, str) else content_blocks(content)
    result: Fields = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": blocks}
    return [result | {"is_error": True} if message.status == "error" else result]


def _is_result(part: Any) -> bool:
    return is_object(part) and part.get("type") == "tool_result"


def _convert_part(part: Fields) -> Fields:
    """An image or file becomes a reference: the engine needs its type, not its bytes."""
    kind = part.get("type")
    if kind not in _FILES or "source" in part:
        return part
    return {"type": _FILES[kind], "source": {"type": "url", "url": f"{_REFERENCE}{digest(part).hex()}"}}


def _convert_standard(block: Fields) -> Fields:
    """A block of a reply in LangChain's standard content (`output_version="v1"`), as the API has it."""
    match block:
        case {"type": "reasoning", "extras": {"signature": str(signature)}}:
            return {"type": "thinking", "thinking": block.get("reasoning", ""), "signature": signature}
        case {"type": "non_standard", "value": {"type": _} as value}:
            return value
        case {"type": "server_tool_call", "id": id, "name": name}:
            kind = _SERVER_CALLS.get(name, "server_tool_use")
            return {"type": kind, "id": id, "name": name, "input": block.get("args", {})}
        case {"type": "server_tool_result", "tool_call_id": id, "extras": {"block_type": str(kind)}}:
            return {"type": kind, "tool_use_id": id, "content": block.get("output")}
        case _:
            return block


# ── to LangChain ─────────────────────────────────────────────────────────────────────────────────


def build_messages(traced: Sequence[TracedBlocks], sources: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages for the model. An unchanged message is the original object."""
    messages: list[BaseMessage] = []
    for each in traced:
        if each.is_untouched:
            messages.append(sources[each.source])
            continue
        blocks = _restore_parts(each.blocks, sources)
        if each.source >= 0:
            messages.append(_update_message(sources[each.source], blocks))
        else:
            messages += _create_messages(each.role, blocks)
    return messages


def _restore_parts(blocks: Sequence[Fields], sources: Sequence[BaseMessage]) -> list[Fields]:
    """The blocks with LangChain's own parts in the place of references to files."""
    if not any(_has_reference(block) for block in blocks):
        return list(blocks)
    known = {
        reference: part
        for source in sources
        for part in source.content
        if is_object(part) and (reference := _reference(_convert_part(part)))
    }
    return [_restore_part(block, known) for block in blocks]


def _restore_part(block: Fields, known: Mapping[str, Fields]) -> Fields:
    """A file that is in no message any more is named: only its reference was recorded."""
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        return {**block, "content": [_restore_part(part, known) for part in block["content"]]}
    if not (reference := _reference(block)):
        return block
    return known.get(reference) or {"type": "text", "text": f"[{block['type']}]"}


def _has_reference(block: Fields) -> bool:
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        return any(map(_reference, block["content"]))
    return bool(_reference(block))


def _reference(block: Fields) -> str:
    """The reference that stands for a file, or nothing."""
    match block:
        case {"source": {"type": "url", "url": str(url)}} if url.startswith(_REFERENCE):
            return url
        case _:
            return ""


def _update_message(source: BaseMessage, blocks: Sequence[Fields]) -> BaseMessage:
    if isinstance(source, AIMessage):
        fields = _reply_fields(_restore_standard(blocks, source), as_text=isinstance(source.content, str))
        # LangChain reads standard content as a list of blocks.
        if source.response_metadata.get("output_version") == "v1" and isinstance(fields["content"], str):
            fields["content"] = content_blocks(fields["content"]) if fields["content"] else []
        return source.model_copy(update=fields)
    if isinstance(source, ToolMessage) and len(blocks) == 1:
        return source.model_copy(update={"content": blocks[0]["content"]})
    return source.model_copy(update={"content": list(blocks)})


def _restore_standard(blocks: Sequence[Fields], source: AIMessage) -> list[Fields]:
    """The blocks with the parts of standard content that became one of them."""
    pairs = [(_convert_standard(part), part) for part in source.content if is_object(part)]
    changed = [(block, part) for block, part in pairs if block is not part]
    return [next((part for known, part in changed if known == block), block) for block in blocks]


def _create_messages(role: Role, given: Sequence[Fields]) -> Iterator[BaseMessage]:
    if role == "assistant":
        yield AIMessage(**_reply_fields(given, as_text=True))
        return
    for is_result, group in groupby(given, key=_is_result):
        blocks = list(group)
        if is_result:
            for block in blocks:
                yield ToolMessage(
                    block["content"],
                    tool_call_id=block["tool_use_id"],
                    status="error" if block.get("is_error") else "success",
                )
        else:
            yield HumanMessage(_simplify_content(blocks))


def _reply_fields(blocks: Sequence[Fields], *, as_text: bool) -> Fields:
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    content = [block for block in blocks if block.get("type") != "tool_use"] if as_text else list(blocks)
    return {
        "content": _simplify_content(content),
        "tool_calls": [
            {"type": "tool_call", "id": each["id"], "name": each["name"], "args": each["input"]}
            for each in calls
        ],
        "invalid_tool_calls": [],
    }


def _simplify_content(blocks: list[Fields]) -> Any:
    """A single text block becomes a string, which every model accepts."""
    if not blocks:
        return ""
    is_text = len(blocks) == 1 and blocks[0].get("type") == "text"
    return blocks[0]["text"] if is_text else blocks
