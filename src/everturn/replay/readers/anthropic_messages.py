"""Plain lists of Messages API messages: a list, a request body with `messages`, or lines of either."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.history.records import Usage
from everturn.replay.readers.openai_messages import is_openai, lists_of_messages
from everturn.replay.readers.record_builder import RecordBuilder, ReplyDetails, text_of_parts, texts
from everturn.replay.readers.values import Json, Reader, RecordedConversation, RecordedPreamble, SourceFile
from everturn.wire.json_values import is_list, is_object


def read_messages(messages: Iterable[Json], builder: RecordBuilder, *, model: str = "") -> None:
    for message in messages:
        at = message.get("timestamp")
        if message.get("role") == "assistant":
            said = ReplyDetails(
                model=texts(message.get("model")) or model,
                id=texts(message.get("id")),
                usage=_usage(message.get("usage")),
                stop_reason=texts(message.get("stop_reason")),
            )
            builder.assistant(_blocks(message.get("content")), said, at)
        elif message.get("role") == "user":
            _user(message, builder, at)


def _user(message: Json, builder: RecordBuilder, at: Any) -> None:
    words: list[Block] = []
    for block in _blocks(message.get("content")):
        if block.is_result:
            fields = msgspec.json.decode(block.raw)
            builder.result(block.call, fields.get("content") or "", at, failed=fields.get("is_error"))
        else:
            words.append(block)
    builder.user(words, at)


def _blocks(content: Any) -> list[Block]:
    if not is_list(content):
        return [text_block(text_of_parts(content))]
    return [
        block_from_fields(each) if is_object(each) and "type" in each else text_block(text_of_parts(each))
        for each in content
    ]


def _usage(usage: Any) -> Usage | None:
    try:
        return msgspec.convert(usage, Usage)
    except msgspec.ValidationError:
        return None


def _recognises(source: SourceFile) -> bool:
    found = lists_of_messages(source)
    return bool(found) and not any(is_openai(messages) for _, messages in found)


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    found = lists_of_messages(source)
    for number, (around, messages) in enumerate(found, start=1):
        builder = RecordBuilder()
        read_messages(messages, builder, model=texts(around.get("model")))
        key = "" if len(found) == 1 else str(number)
        preamble = RecordedPreamble(text_of_parts(around.get("system")), around.get("tools"))
        yield RecordedConversation((builder.thread,), key, builder.notes, preamble)


ANTHROPIC: Final = Reader("anthropic-messages", _recognises, _conversations)
