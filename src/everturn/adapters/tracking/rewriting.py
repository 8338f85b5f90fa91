"""A caller that rewrites a message of what is summarized, such as notes at the front of its list.

The model sees a summary of it, so what follows need not change: a fork keeps the compaction. The message as
it is now is attached to the newest message of the list, word for word. What was attached or quoted of it
before is left out: those are no longer words of the caller's list.

Otherwise every rewriting would be a list with an unknown beginning, which is summarized anew as a whole.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import msgspec

from everturn.adapters.tracking.caller_request import CallerRequest, read_message_blocks
from everturn.adapters.tracking.chain import is_caller_message
from everturn.adapters.tracking.fork_records import Phrase, phrases_of
from everturn.adapters.tracking.respelling import Rewriting
from everturn.history.blocks import Block, text_block, text_of
from everturn.history.log import Log
from everturn.history.records import Record

# A longer message is not attached: the newest message has to stay small. Our choice.
MAX_CHARACTERS: Final = 20_000
# A summary of which less is left without its quotations is not used. Our choice.
MIN_LEFT: Final = 0.25
# The kind of attachment in which Claude Code keeps what the user said while the model worked.
_SUBTYPE: Final = "queued_command"
_NOW: Final = "The user has changed a message that is summarized above. It now says:\n\n"
_LEFT_OUT: Final = "[A quotation of a message that was changed since is left out.]"
_WORD: Final = re.compile(r"\S+")


class RewrittenRecords(NamedTuple):
    """The records of a fork, and the first one in its view that the parent sent differently, or ""."""

    records: list[Record]
    changed: str = ""


def rewrite_records(
    records: Sequence[Record], request: CallerRequest, rewriting: Rewriting
) -> RewrittenRecords | None:
    """The records with the message as it is now; None if the compaction in force cannot be kept."""
    before = [record for _, record in rewriting.segment.records]
    after = _replace_blocks(before, _read_blocks(request, rewriting))
    if after is None:
        return None
    rewritten = {record.uuid: record for record in after}
    made = [rewritten.get(record.uuid, record) for record in records]
    attached = _attachment(before)
    for at, record in enumerate(made):
        if record.blocks == (attached,):
            made[at] = msgspec.structs.replace(record, blocks=(_attachment(()),), raw=b"")
    for at, gone in _find_quotations(before, made).items():
        shortened = _without_quotes(made[at], gone) if made[at].compact_summary else None
        if shortened is None:
            return None
        made[at] = shortened
    sent = {record.uuid: record for record in records}
    shown = (each.uuid for each in Log(made).view.records if each is not sent[each.uuid])
    return RewrittenRecords([*made, _attach(after, made[-1])], next(shown, ""))


def _find_quotations(before: Sequence[Record], made: Sequence[Record]) -> dict[int, set[Phrase]]:
    """Which summaries and attachments quote the message as it was, by their places, and the phrases of it
    that no message of the list has any more."""
    said, own = phrases_of(before), [at for at, record in enumerate(made) if not is_caller_message(record)]
    quoted = {at: said & phrases_of([made[at]]) for at in own}
    gone = set[Phrase]().union(*quoted.values())
    for record in filter(is_caller_message, made):
        if not gone:
            break
        # One at a time: the phrases of a long list need much memory.
        gone -= phrases_of([record])
    return {at: found & gone for at, found in quoted.items() if found & gone}


def _read_blocks(request: CallerRequest, rewriting: Rewriting) -> list[Block]:
    """What the user says now; nothing if some of it is a system message."""
    links = range(rewriting.first, rewriting.stop)
    if any(request.role(link) != "user" for link in links):
        return []
    content = [request.block(link) for link in links]
    return [
        block
        for each in content
        for block in read_message_blocks({"content": each if isinstance(each, str) else [each]})
    ]


def _replace_blocks(records: Sequence[Record], blocks: Sequence[Block]) -> list[Record] | None:
    """The records with these blocks; None if it cannot be told which has which, or if they are not text."""
    is_text = bool(blocks) and all(block.kind == "text" for block in blocks)
    if not is_text or sum(map(_length, blocks)) > MAX_CHARACTERS:
        return None
    sizes = [len(record.blocks) for record in records] if len(records) > 1 else [len(blocks)]
    if sum(sizes) != len(blocks):
        return None
    rest = iter(blocks)
    return [
        msgspec.structs.replace(record, blocks=tuple(next(rest) for _ in range(size)), raw=b"")
        for record, size in zip(records, sizes, strict=True)
    ]


def _length(block: Block) -> int:
    return len(text_of(block))


# ── the message as it is now ─────────────────────────────────────────────────────────────────────


def _attach(said: Sequence[Record], last: Record) -> Record:
    return Record(
        kind="attachment",
        uuid=str(uuid5(NAMESPACE_OID, f"{said[0].uuid} {last.uuid}")),
        parent=last.uuid,
        timestamp=last.timestamp,
        session=last.session,
        subtype=_SUBTYPE,
        blocks=(_attachment(said),),
    )


def _attachment(said: Sequence[Record]) -> Block:
    """What is attached of these records; of none, what shows nothing."""
    text = "\n\n".join(text_of(block) for record in said for block in record.blocks)
    content = _NOW + text if text else ""
    return Block("attachment", msgspec.json.encode({"type": _SUBTYPE, "prompt": text, "content": content}))


# ── the message as it was ────────────────────────────────────────────────────────────────────────


def _without_quotes(summary: Record, gone: Collection[Phrase]) -> Record | None:
    """A summary without the lines that have one of these phrases; None if too little of it is left."""
    blocks = tuple(_drop_lines(block, gone) for block in summary.blocks)
    if sum(map(_length, blocks)) < MIN_LEFT * sum(map(_length, summary.blocks)):
        return None
    return msgspec.structs.replace(summary, blocks=blocks, raw=b"")


def _drop_lines(block: Block, gone: Collection[Phrase]) -> Block:
    text = text_of(block)
    quoted = _find_quoted_lines(text, gone)
    lines = (
        _LEFT_OUT if at in quoted else line
        for at, line in enumerate(text.split("\n"))
        if not {at - 1, at} <= quoted
    )
    return text_block("\n".join(lines)) if quoted else block


def _find_quoted_lines(text: str, gone: Collection[Phrase]) -> set[int]:
    words = list(_WORD.finditer(text))
    spelled = [word.group() for word in words]
    quoted: set[int] = set()
    for size in {len(phrase) for phrase in gone}:
        for at in range(len(words) - size + 1):
            if tuple(spelled[at : at + size]) in gone:
                first, last = words[at].start(), words[at + size - 1].start()
                quoted.update(range(text.count("\n", 0, first), text.count("\n", 0, last) + 1))
    return quoted
