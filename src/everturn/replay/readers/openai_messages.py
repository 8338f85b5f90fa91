"""Chat messages in OpenAI's format: system, user, assistant with tool_calls, tool.

A list, a request body with `messages`, or lines of either; and tau-bench's file of many conversations.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeGuard

from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.history.records import Usage
from everturn.replay.readers.record_builder import (
    RecordBuilder,
    ReplyDetails,
    call_block,
    text_of_parts,
    texts,
    usage_from_counts,
)
from everturn.replay.readers.values import Json, Reader, RecordedConversation, RecordedPreamble, SourceFile
from everturn.wire.json_values import is_list, is_object

_DATA_URL: Final = re.compile(r"data:(?P<media>[\w/+.-]+);base64,(?P<data>.+)", re.DOTALL)


def read_messages(messages: Iterable[Any], builder: RecordBuilder, *, model: str = "") -> str:
    """Adds the messages and returns the system prompt among them."""
    system: list[str] = []
    for message in messages:
        if not is_object(message):
            continue
        match message.get("role"):
            case "system" | "developer":
                system.append(text_of_parts(message.get("content")))
            case "user":
                builder.user(content_blocks(message.get("content")), message.get("timestamp"))
            case "assistant":
                _assistant(message, builder, model)
            case "tool" | "function":
                _tool(message, builder)
            case _:
                continue
    return "\n\n".join(words for words in system if words)


def _assistant(message: Json, builder: RecordBuilder, model: str) -> None:
    blocks = list(content_blocks(message.get("content")))
    for call in message.get("tool_calls") or ():
        made = call.get("function") if is_object(call) else None
        if is_object(made):
            blocks.append(call_block(texts(call.get("id")), texts(made.get("name")), made.get("arguments")))
    if is_object(made := message.get("function_call")):
        blocks.append(call_block(texts(made.get("name")), texts(made.get("name")), made.get("arguments")))
    response = response_of(message)
    said = ReplyDetails(
        model=texts(response.get("model")) or model,
        id=texts(response.get("id")),
        usage=openai_usage(response.get("usage")),
    )
    builder.assistant(blocks, said, response.get("created") or message.get("timestamp"))


def response_of(message: Json) -> Json:
    """The raw response stored with a message (mini-SWE-agent), or the message itself."""
    extra = message.get("extra")
    response = extra.get("response") if is_object(extra) else None
    return response if is_object(response) else message


def _tool(message: Json, builder: RecordBuilder) -> None:
    ids = message.get("tool_call_ids")
    call = texts(message.get("tool_call_id")) or (ids[0] if is_list(ids) and ids else "")
    content = text_of_parts(message.get("content"))
    builder.result(call or texts(message.get("name")), content, message.get("timestamp"))


def content_blocks(content: Any) -> Iterator[Block]:
    if not is_list(content):
        yield text_block(text_of_parts(content))
        return
    for part in content:
        yield (_image(part) if is_object(part) and "image_url" in part else text_block(text_of_parts(part)))


def _image(part: Json) -> Block:
    url = part["image_url"].get("url", "") if is_object(part["image_url"]) else str(part["image_url"])
    inline = _DATA_URL.fullmatch(url)
    source = (
        {"type": "base64", "media_type": inline["media"], "data": inline["data"]}
        if inline
        else {"type": "url", "url": url}
    )
    return block_from_fields({"type": "image", "source": source})


def openai_usage(usage: Any) -> Usage | None:
    if not is_object(usage):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if is_object(details) else 0
    return usage_from_counts(
        prompt=usage.get("prompt_tokens"), read=cached, output=usage.get("completion_tokens")
    )


def is_openai(messages: Any) -> bool:
    """Whether a list of messages has something that only OpenAI's format has."""
    return are_messages(messages) and any(
        message["role"] in ("system", "developer", "tool", "function")
        or "tool_calls" in message
        or any(part in ("image_url", "input_text", "output_text") for part in _part_types(message))
        for message in messages
    )


def are_messages(value: Any) -> TypeGuard[list[Json]]:
    return (
        is_list(value)
        and bool(value)
        and all(is_object(each) and isinstance(each.get("role"), str) for each in value)
        and any("content" in each for each in value)
    )


def _part_types(message: Json) -> Iterator[Any]:
    content = message.get("content")
    for part in content if is_list(content) else ():
        if is_object(part):
            yield part.get("type")


def lists_of_messages(source: SourceFile) -> list[tuple[Json, list[Json]]]:
    """Lists of messages, each with the object around it: a list, a request body, or lines of either."""
    whole = source.whole
    if are_messages(whole):
        return [({}, whole)]
    if is_object(whole) and are_messages(whole.get("messages")):
        return [(whole, whole["messages"])]
    if source.lines and are_messages(list(source.lines)):
        return [({}, list(source.lines))]
    bodies = source.lines or (whole if is_list(whole) else ())
    if bodies and all(is_object(body) and are_messages(body.get("messages")) for body in bodies):
        return [(body, body["messages"]) for body in bodies]
    return []


def _recognises(source: SourceFile) -> bool:
    return any(is_openai(messages) for _, messages in lists_of_messages(source))


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    found = lists_of_messages(source)
    for number, (around, messages) in enumerate(found, start=1):
        builder = RecordBuilder()
        system = read_messages(messages, builder, model=texts(around.get("model")))
        key = "" if len(found) == 1 else str(number)
        preamble = RecordedPreamble(system, around.get("tools"))
        yield RecordedConversation((builder.thread,), key, builder.notes, preamble)


OPENAI: Final = Reader("openai-messages", _recognises, _conversations)


def _is_tau(source: SourceFile) -> bool:
    whole = source.whole
    return (
        is_list(whole)
        and bool(whole)
        and all(is_object(each) and "task_id" in each and are_messages(each.get("traj")) for each in whole)
    )


def _tau(source: SourceFile) -> Iterator[RecordedConversation]:
    for each in source.whole:
        builder = RecordBuilder()
        system = read_messages(each["traj"], builder)
        key = f"task{each['task_id']}-trial{each.get('trial', 0)}"
        yield RecordedConversation((builder.thread,), key, builder.notes, RecordedPreamble(system))


TAU_BENCH: Final = Reader("tau-bench", _is_tau, _tau)
