"""pi's session JSONL: a header, then entries.

Older files are a list. Newer files are a tree, of which the path to the newest entry is read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.history.records import Usage
from everturn.replay.readers.record_builder import (
    RecordBuilder,
    ReplyDetails,
    call_block,
    recorded_cost,
    text_of_parts,
    texts,
)
from everturn.replay.readers.values import Json, Reader, RecordedConversation, SourceFile
from everturn.wire.json_values import is_list, is_object

_COUNTS: Final = ("input", "cacheWrite", "cacheRead", "output")


_NO_HEADER: Final = "the first line, which names the session, is missing"


def _recognises(source: SourceFile) -> bool:
    messages = [
        message
        for line in source.lines
        if line.get("type") == "message" and is_object(message := line.get("message"))
    ]
    return bool(messages) and (_has_header(source.lines) or any(_is_distinctive(each) for each in messages))


def _has_header(lines: Sequence[Json]) -> bool:
    first = lines[0]
    return first.get("type") == "session" and "id" in first and "cwd" in first


def _is_distinctive(message: Json) -> bool:
    """Whether only pi writes such a message, so that a file without its first line is recognised."""
    usage = message.get("usage")
    is_reply = message.get("role") == "assistant" and "provider" in message
    return (is_reply and is_object(usage) and "cacheRead" in usage) or (
        message.get("role") == "toolResult" and "toolCallId" in message
    )


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    # Compactions count entries from the header, so an empty one stands in for it.
    lines: Sequence[Json] = source.lines if _has_header(source.lines) else [{}, *source.lines]
    lost = () if _has_header(source.lines) else (_NO_HEADER,)
    path = _newest_path(lines)
    book = RecordBuilder(texts(lines[0].get("id")))
    # The record of each entry, by position and by id, for compactions that keep recent entries.
    places: dict[Any, str] = {}
    left_out = 0
    costs: list[Any] = []
    for at, entry in enumerate(lines):
        if at not in path:
            left_out += 1
            continue
        before = book.last
        if entry.get("type") == "compaction":
            _compaction(entry, book, places)
        elif is_object(message := entry.get("message")):
            _message(message, book, entry.get("timestamp"))
            costs.append(_cost(message))
        if book.last != before:
            places[at] = places[entry.get("id", at)] = book.last
    notes = (f"{left_out} entries on abandoned branches",) if left_out else ()
    yield RecordedConversation(
        (book.thread,), "", (*lost, *notes, *book.notes), flaws=lost, cost=recorded_cost(*costs)
    )


def _newest_path(lines: Sequence[Json]) -> set[int]:
    """Positions of the entries that lead to the newest one; all of them in files without links."""
    if not any("parentId" in line for line in lines):
        return set(range(len(lines)))
    places = {texts(line.get("id")): at for at, line in enumerate(lines) if at}
    path = {0}
    at: int | None = len(lines) - 1
    while at is not None and at not in path:
        path.add(at)
        at = places.get(texts(lines[at].get("parentId")))
    return path


def _message(message: Json, book: RecordBuilder, at: Any) -> None:
    match message.get("role"):
        case "user":
            book.user(_blocks(message.get("content")), at)
        case "assistant":
            usage = _usage(message.get("usage"))
            said = ReplyDetails(
                model=texts(message.get("model")), usage=usage, stop_reason=texts(message.get("stopReason"))
            )
            book.assistant(_blocks(message.get("content")), said, at)
        case "toolResult":
            content = [{"type": "text", "text": text_of_parts(message.get("content"))}]
            call = texts(message.get("toolCallId"))
            book.result(call, content, at, failed=message.get("isError"))
        case "bashExecution":
            ran = f"Ran `{texts(message.get('command'))}`\n{texts(message.get('output'))}"
            book.user(ran, at)
        case _:
            pass


def _blocks(content: Any) -> list[Block]:
    if not is_list(content):
        return [text_block(text_of_parts(content))]
    return [_block(each) for each in content if is_object(each)]


def _block(part: Json) -> Block:
    match part.get("type"):
        case "toolCall":
            return call_block(texts(part.get("id")), texts(part.get("name")), part.get("arguments"))
        case "thinking":
            signature = texts(part.get("thinkingSignature"))
            words = texts(part.get("thinking"))
            return block_from_fields({"type": "thinking", "thinking": words, "signature": signature})
        case "image":
            source = {"type": "base64", "media_type": part.get("mimeType"), "data": part.get("data")}
            return block_from_fields({"type": "image", "source": source})
        case _:
            return text_block(text_of_parts(part))


def _usage(usage: Any) -> Usage | None:
    """pi's counts are disjoint, like ours."""
    if not is_object(usage):
        return None
    plain, written, read, output = (usage.get(name) or 0 for name in _COUNTS)
    return Usage(plain, written, read, output) if plain + written + read else None


def _cost(message: Json) -> Any:
    usage = message.get("usage")
    cost = usage.get("cost") if is_object(usage) else None
    return cost.get("total") if is_object(cost) else None


def _compaction(entry: Json, book: RecordBuilder, places: dict[Any, str]) -> None:
    first = entry.get("firstKeptEntryId", entry.get("firstKeptEntryIndex"))
    kept = places.get(first, "")
    if not kept and isinstance(first, int):
        # The entry itself may not have a record (a change of settings): use the next one that has.
        kept = next((places[at] for at in sorted(p for p in places if isinstance(p, int)) if at >= first), "")
    tokens = entry.get("tokensBefore")
    count = tokens if isinstance(tokens, int) else 0
    book.compaction(texts(entry.get("summary")), entry.get("timestamp"), tokens=count, kept=kept)


PI: Final = Reader("pi", _recognises, _conversations)
