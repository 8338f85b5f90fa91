"""Gemini CLI's chat JSON: results stand inside the message that called, so a reply is followed by them here.

Its thoughts are summaries for people and are never sent again; their tokens are part of the output.
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
from everturn.replay.readers.values import Reader, RecordedConversation, SourceFile


def _recognises(source: SourceFile) -> bool:
    whole = source.whole
    messages = whole.get("messages") if isinstance(whole, dict) else None
    return (
        isinstance(messages, list)
        and "sessionId" in whole
        and ("projectHash" in whole or any(_type(each) == "gemini" for each in messages))
    )


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    whole = source.whole
    book = RecordBuilder(texts(whole.get("sessionId")))
    for message in whole["messages"]:
        at = message.get("timestamp") if isinstance(message, dict) else None
        if _type(message) == "user":
            book.user(text_of_parts(message.get("content")), at)
        elif _type(message) == "gemini":
            _reply(message, book, at)
    yield RecordedConversation((book.thread,), "", book.notes)


def _type(message: Any) -> Any:
    return message.get("type") if isinstance(message, dict) else None


def _reply(message: dict[str, Any], book: RecordBuilder, at: Any) -> None:
    calls = [call for call in message.get("toolCalls") or () if isinstance(call, dict)]
    blocks: list[Block] = [text_block(text_of_parts(message.get("content")))]
    blocks += [call_block(texts(call.get("id")), texts(call.get("name")), call.get("args")) for call in calls]
    usage = _usage(message.get("tokens"))
    said = ReplyDetails(model=texts(message.get("model")), id=texts(message.get("id")), usage=usage)
    book.assistant(blocks, said, at)
    for call in calls:
        failed = call.get("status") not in ("success", None)
        book.result(texts(call.get("id")), _result(call), call.get("timestamp") or at, failed=failed)


def _result(call: dict[str, Any]) -> str:
    words: list[str] = []
    for part in call.get("result") or ():
        answer = part.get("functionResponse") if isinstance(part, dict) else None
        response = answer.get("response") if isinstance(answer, dict) else None
        if isinstance(response, dict):
            words.append(texts(response.get("output")) or texts(response.get("error")))
        else:
            words.append(text_of_parts(part))
    return "\n".join(words) or texts(call.get("resultDisplay")) or texts(call.get("status"))


def _usage(tokens: Any) -> Usage | None:
    if not isinstance(tokens, dict):
        return None
    output = (tokens.get("output") or 0) + (tokens.get("thoughts") or 0)
    return usage_from_counts(prompt=tokens.get("input"), read=tokens.get("cached"), output=output)


GEMINI_CLI: Final = Reader("gemini-cli", _recognises, _conversations)
