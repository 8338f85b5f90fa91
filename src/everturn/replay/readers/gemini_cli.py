"""Gemini CLI's chat JSON. Results are inside the message that made the call; here they follow the reply.

Thoughts are summaries for display and are never sent again; their tokens count as output.
"""

from collections.abc import Iterator
from typing import Any, Final

from everturn.history.blocks import Block, text_block
from everturn.history.records import Usage
from everturn.replay.readers.record_builder import (
    RecordBuilder,
    ReplyDetails,
    call_block,
    text_of_parts,
    texts,
    usage_from_counts,
)
from everturn.replay.readers.values import Json, Reader, RecordedConversation, SourceFile
from everturn.wire.json_values import is_list, is_object


def _recognises(source: SourceFile) -> bool:
    whole = source.whole
    messages = whole.get("messages") if is_object(whole) else None
    return (
        is_list(messages)
        and "sessionId" in whole
        and ("projectHash" in whole or any(_type(each) == "gemini" for each in messages))
    )


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    whole = source.whole
    book = RecordBuilder(texts(whole.get("sessionId")))
    last: Json = {}
    for message in whole["messages"]:
        at = message.get("timestamp") if is_object(message) else None
        if _type(message) == "user":
            book.user(text_of_parts(message.get("content")), at)
        elif _type(message) == "gemini":
            last = {**message, "id": last.get("id")} if _goes_on(last, message) else message
            _reply(last, book, at)
        last = last if _type(message) in ("gemini", "info") else {}
    yield RecordedConversation((book.thread,), "", book.notes)


def _type(message: Any) -> Any:
    return message.get("type") if is_object(message) else None


def _goes_on(last: Json, message: Json) -> bool:
    """Whether a message is the rest of the reply before it: a notice in between makes two messages of one
    reply, of which the second has the calls and no words and no tokens.
    """
    tokens = message.get("tokens")
    was_counted = is_object(tokens) and tokens.get("input")
    return bool(last) and not (last.get("toolCalls") or text_of_parts(message.get("content")) or was_counted)


def _reply(message: Json, book: RecordBuilder, at: Any) -> None:
    calls = [call for call in message.get("toolCalls") or () if is_object(call)]
    blocks: list[Block] = [text_block(text_of_parts(message.get("content")))]
    blocks += [call_block(texts(call.get("id")), texts(call.get("name")), call.get("args")) for call in calls]
    usage = _usage(message.get("tokens"))
    said = ReplyDetails(model=texts(message.get("model")), id=texts(message.get("id")), usage=usage)
    book.assistant(blocks, said, at)
    for call in calls:
        failed = call.get("status") not in ("success", None)
        book.result(texts(call.get("id")), _result(call), call.get("timestamp") or at, failed=failed)


def _result(call: Json) -> str:
    words: list[str] = []
    for part in call.get("result") or ():
        answer = part.get("functionResponse") if is_object(part) else None
        response = answer.get("response") if is_object(answer) else None
        if is_object(response):
            words.append(texts(response.get("output")) or texts(response.get("error")))
        else:
            words.append(text_of_parts(part))
    return "\n".join(words) or texts(call.get("resultDisplay")) or texts(call.get("status"))


def _usage(tokens: Any) -> Usage | None:
    if not is_object(tokens):
        return None
    output = (tokens.get("output") or 0) + (tokens.get("thoughts") or 0)
    return usage_from_counts(prompt=tokens.get("input"), read=tokens.get("cached"), output=output)


GEMINI_CLI: Final = Reader("gemini-cli", _recognises, _conversations)
