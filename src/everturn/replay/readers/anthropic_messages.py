"""Plain lists of Messages API messages: a list, a request body with `messages`, or lines of either."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.history.records import Usage
from everturn.replay.readers.openai_messages import is_openai, lists_of_messages
from everturn.replay.readers.record_builder import RecordBuilder, ReplyDetails, text_of_parts, texts
from everturn.replay.readers.values import Reader, RecordedConversation, RecordedPreamble, SourceFile


def read_messages(messages: Iterable[dict[str, Any]], notebook: RecordBuilder, *, model: str = "") -> None:
    for message in messages:
        at = message.get("timestamp")
        if message.get("role") == "assistant":
            said = ReplyDetails(
                model=texts(message.get("model")) or model,
                id=texts(message.get("id")),
                usage=_usage(message.get("usage")),
                stop_reason=texts(message.get("stop_reason")),
            )
            notebook.assistant(_blocks(message.get("content")), said, at)
        elif message.get("role") == "user":
            _user(message, notebook, at)


def _user(message: dict[str, Any], notebook: RecordBuilder, at: Any) -> None:
    words: list[Block] = []
    for block in _blocks(message.get("content")):
        if block.is_result:
            fields = msgspec.json.decode(block.raw)
            notebook.result(block.call, fields.get("content") or "", at, failed=fields.get("is_error"))
        else:
            words.append(block)
    notebook.user(words, at)


def _blocks(content: Any) -> list[Block]:
    if not isinstance(content, list):
        return [text_block(text_of_parts(content))]
    return [
        block_from_fields(each)
        if isinstance(each, dict) and "type" in each
        else text_block(text_of_parts(each))
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
        notebook = RecordBuilder()
        read_messages(messages, notebook, model=texts(around.get("model")))
        key = "" if len(found) == 1 else str(number)
        head = RecordedPreamble(text_of_parts(around.get("system")), around.get("tools"))
        yield RecordedConversation((notebook.thread,), key, notebook.notes, head)


ANTHROPIC: Final = Reader("anthropic-messages", _recognises, _conversations)
