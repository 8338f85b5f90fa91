"""Gemini CLI's chats. Results are inside the message that made the call; here they follow the reply.

Earlier versions keep a chat as one JSON object. Later ones append JSON lines: first what the chat is, then
messages, each written again when it grows; `$set` replaces fields of the chat, `$rewindTo` removes a message
and all after it.

Thoughts are summaries for display and are never sent again; their tokens count as output.
"""

from collections.abc import Iterable, Iterator
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
    first = source.lines[0] if source.lines else {}
    # The first line of a chat in lines; a chat that is one object has its messages in it.
    if _is_chat(first) and "messages" not in first:
        return True
    whole = source.whole
    messages = whole.get("messages") if is_object(whole) else None
    return (
        is_list(messages)
        and "sessionId" in whole
        and ("projectHash" in whole or any(_type(each) == "gemini" for each in messages))
    )


def _is_chat(line: Json) -> bool:
    return all(isinstance(line.get(name), str) for name in ("sessionId", "projectHash"))


def _read_lines(lines: Iterable[Json]) -> tuple[Json, int]:
    """The chat that the lines make, in the form of a chat that is one object; and how many replies with usage
    are no longer part of it."""
    chat: Json = {}
    # By id, in the order in which they came first: a message that is written again stays in its place.
    messages: dict[str, Json] = {}
    counted: set[str] = set()
    for line in lines:
        changed = line.get("$set")
        if "$rewindTo" in line:
            messages = _rewind(messages, texts(line["$rewindTo"]))
        elif isinstance(line.get("id"), str):
            messages[line["id"]] = line
            counted |= {line["id"]} if is_object(line.get("tokens")) else set()
        elif is_object(changed):
            chat |= changed
            if is_list(kept := changed.get("messages")):
                named = enumerate(each for each in kept if is_object(each))
                messages = {texts(each.get("id")) or f"#{at}": each for at, each in named}
        elif _is_chat(line):
            chat |= line
    return {**chat, "messages": list(messages.values())}, len(counted - messages.keys())


def _rewind(messages: dict[str, Json], to: str) -> dict[str, Json]:
    """Gemini CLI itself takes a message that it does not know for the beginning."""
    known = list(messages)
    kept = known[: known.index(to)] if to in messages else []
    return {id: messages[id] for id in kept}


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    whole, removed = source.whole, 0
    if not is_object(whole) or "messages" not in whole:
        whole, removed = _read_lines(source.lines)
    book = RecordBuilder(texts(whole.get("sessionId")))
    last: Json = {}
    for message in whole["messages"]:
        at = message.get("timestamp") if is_object(message) else None
        if _type(message) == "user":
            if not _only_answers(message.get("content")):
                book.user(text_of_parts(message.get("content")), at)
        elif _type(message) == "gemini":
            last = {**message, "id": last.get("id")} if _goes_on(last, message) else message
            _reply(last, book, at)
        last = last if _type(message) in ("gemini", "info") else {}
    lost = (_removed(removed),) if removed else ()
    yield RecordedConversation((book.thread,), "", (*book.notes, *lost), flaws=lost)


def _removed(replies: int) -> str:
    what, are = ("1 reply was", "is") if replies == 1 else (f"{replies:,} replies were", "are")
    return f"{what} rewound or replaced by a summary, and {are} not counted"


def _only_answers(content: Any) -> bool:
    """Results that the calls of the reply before hold too."""
    return (
        is_list(content)
        and bool(content)
        and all(is_object(part) and "functionResponse" in part for part in content)
    )


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
