"""Compares what was sent with what a caller sends later, where the links of the two are not equal.

Callers add text to their newest message and leave it out of their history: reminders, the state of a task,
open files. They also join blocks, or strip their ends. The log keeps what was sent. A later list still
belongs to it if its messages contain nothing that was not sent, and if the replies in it are the ones that
were given here.

Two callers may have sent the same visible words with different additions. So that no conversation gets
another one's additions, a list that lacks them must show replies that only this conversation has: ids of tool
calls, or enough text. Otherwise it is treated as an edit, which sends nothing but the caller's own words.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.chain import digest, digest_block, digest_end, role_of
from everturn.history.blocks import SYSTEM_TEXT, THINKING, fields_of
from everturn.history.records import Record
from everturn.wire.json_values import is_object, is_sequence

# Characters of replies (and of earlier messages) that identify a conversation. Shorter ones, "Done." or a
# greeting, occur in many conversations. Our choice.
MIN_EVIDENCE: Final = 120
# The same where a message was written anew: the summary tells of one that the caller may never have sent.
MIN_GIVEN: Final = 1_000
# Characters that may stand for a result that was cleared, such as "[Old tool result content cleared]". Our
# choice.
MAX_PLACEHOLDER: Final = 200
_MEDIA: Final = ("image", "document")
_REMINDER: Final = ("<system-reminder>", "</system-reminder>")


class Segment(NamedTuple):
    """Consecutive records of one side, with their positions in the log: a reply, or what the caller said."""

    is_reply: bool
    records: list[tuple[int, Record]]

    @property
    def blocks(self) -> list[tuple[str, Any]]:
        """The role and the fields of each block."""
        return [
            (role_of(record, block), fields_of(block))
            for _, record in self.records
            for block in record.blocks
        ]


class SpellingLimits(NamedTuple):
    """Where a list may lack a part of what was sent, as positions in the log: before `summarized`, which the
    model does not see any more, and from `last_turn` on. `rewrites`: one message that is summarized may have
    been written anew."""

    summarized: int = 0
    last_turn: int = 0
    rewrites: bool = False

    def allows(
        self, segment: Segment, sent: Sequence[tuple[str, Any]], now: Sequence[tuple[str, Any]]
    ) -> bool:
        """Whether a segment that was sent like this may be spelled like that now."""
        is_summarized = segment.records[-1][0] < self.summarized
        if segment.records[0][0] < self.last_turn and not (is_summarized and now):
            return False
        if segment.is_reply:
            # A list that ends before a reply asks for another one.
            return bool(now) and is_same_reply(sent, now)
        return is_reduced(sent, now) or (is_summarized and is_pruned(sent, now))

    def may_rewrite(self, segment: Segment) -> bool:
        """Whether another message may stand in the place of what the caller said. Results belong to calls."""
        is_summarized = segment.records[-1][0] < self.summarized
        said = not segment.is_reply and not any(has_result(record) for _, record in segment.records)
        return self.rewrites and is_summarized and said


ANYWHERE: Final = SpellingLimits()


class Rewriting(NamedTuple):
    """What the caller said, and the links of the request that stand in its place."""

    segment: Segment
    first: int
    stop: int


class Alignment(NamedTuple):
    """How far a list agrees with records: `records` has the log position for each link from `start` on."""

    start: int
    links: int
    records: list[int]
    # How many of the records' segments were found in the list.
    segments: int
    is_respelled: bool
    rewriting: Rewriting | None = None


def split_segments(records: Iterable[tuple[int, Record]]) -> list[Segment]:
    """Messages of the caller's list, with their positions in the log, as segments."""
    found: list[Segment] = []
    for at, record in records:
        is_reply = record.kind == "assistant"
        if not found or found[-1].is_reply != is_reply:
            found.append(Segment(is_reply, []))
        found[-1].records.append((at, record))
    return found


def has_result(record: Record) -> bool:
    """Whether a message answers calls: it goes on with a tool loop, and begins no turn."""
    return any(block.is_result for block in record.blocks)


def count_turns(segments: Iterable[Segment]) -> int:
    """How often the caller said something that was not the result of a call."""
    return sum(
        not segment.is_reply and not any(has_result(record) for _, record in segment.records)
        for segment in segments
    )


def align(
    segments: Sequence[Segment], request: CallerRequest, start: int, limits: SpellingLimits = ANYWHERE
) -> Alignment:
    """Walk through the segments and the request from link `start` on, as far as they agree."""
    link, places, is_respelled = start, list[int](), False
    rewriting: Rewriting | None = None
    for done, segment in enumerate(segments):
        stop = _run_end(request, link, is_reply=segment.is_reply)
        now = [each for at in range(link, stop) for each in request.blocks(at)]
        sent, digests, digests_now = segment.blocks, _digests(segment.blocks), _digests(now)
        if done + 1 == len(segments) and digests_now[: len(digests)] == digests:
            # The end of what is known: the caller may go on in the same message.
            stop = link + len(digests)
        elif digests_now != digests:
            is_newest = done + 1 == len(segments) and not segment.is_reply
            if not is_newest and limits.allows(segment, sent, now):
                is_respelled = True
            elif not is_newest and now and rewriting is None and limits.may_rewrite(segment):
                rewriting = Rewriting(segment, link, stop)
            else:
                return Alignment(start, link, places, done, is_respelled, rewriting)
        places += _places(segment, stop - link)
        link = stop
    return Alignment(start, link, places, len(segments), is_respelled, rewriting)


def is_reduced(sent: Sequence[tuple[str, Any]], now: Sequence[tuple[str, Any]]) -> bool:
    """Whether everything that the caller says now was sent: in the same order, with parts left out. A system
    message may have become a reminder in front of the user's text. Pictures and documents are no reminders:
    sent for ever where the caller has dropped them, they can cost many times what it saves."""
    if _count_media(sent) != _count_media(now):
        return False
    parts = [_words(role, block) for role, block in sent]
    place = _Place(0, 0)
    for role, block in now:
        is_reminder = _is_reminder(role, block)
        found = _find_part(parts, _Place(0, 0) if is_reminder else place, _words(role, block))
        if found is None:
            return False
        place = place if is_reminder else found
    return True


def is_pruned(sent: Sequence[tuple[str, Any]], now: Sequence[tuple[str, Any]]) -> bool:
    """Whether everything was sent like this, except for what agents drop of their past to save tokens:
    pictures and documents, in results too, and whole results. A text may say so in their place."""
    wanted, at = _flatten(_restore_cleared(sent, now)), 0
    for here, part in enumerate(sent_parts := _flatten(sent)):
        if at < len(wanted) and part.digest == wanted[at].digest:
            at += 1
        elif part.kind not in _MEDIA:
            return False
        elif at < len(wanted) and wanted[at].kind == "text":
            following = next((each for each in sent_parts[here + 1 :] if each.kind not in _MEDIA), None)
            at += following is None or following.digest != wanted[at].digest
    return at == len(wanted)


def is_same_reply(sent: Sequence[tuple[str, Any]], now: Sequence[tuple[str, Any]]) -> bool:
    """Whether a reply came back with its texts joined or stripped."""
    return _canonical_reply(sent) == _canonical_reply(now)


def is_identifying(records: Iterable[Record], least: int = MIN_EVIDENCE) -> bool:
    """Whether these messages, recorded from the first reply on, belong to one conversation only: they have
    the id of a call that was made here, or at least so many characters."""
    characters = 0
    for record in records:
        for block in record.blocks:
            if block.is_call and block.call and record.message_id:
                return True
            characters += len(block.raw) if block.kind == "text" else 0
        if characters >= least:
            return True
    return False


def are_given_here(replies: Iterable[Record]) -> bool:
    """Whether these replies belong to one conversation only, whatever was said before them. Those that came
    with a caller's list, such as examples, may be in many lists."""
    return is_identifying((record for record in replies if record.message_id), MIN_GIVEN)


def _places(segment: Segment, links: int) -> list[int]:
    """A log position for each link. If their number differs, all are at the segment's first record: a fork
    then keeps all of the segment or nothing of it."""
    places = [at for at, record in segment.records for _ in range(_count(record))]
    return places if len(places) == links else [segment.records[0][0]] * links


def _count(record: Record) -> int:
    return sum(digest_block(role_of(record, block), fields_of(block)) is not None for block in record.blocks)


def _run_end(request: CallerRequest, start: int, *, is_reply: bool) -> int:
    stop = start
    while stop < len(request.chain) and (request.role(stop) == "assistant") == is_reply:
        stop += 1
    return stop


def _restore_cleared(
    sent: Iterable[tuple[str, Any]], now: Iterable[tuple[str, Any]]
) -> Iterator[tuple[str, Any]]:
    """What the caller says now, with the results that it has cleared as they were sent."""
    results = {block.get("tool_use_id"): block for _, block in sent if _is_result(block)}
    for role, block in now:
        known = results.get(block.get("tool_use_id")) if _is_result(block) else None
        yield role, known if known is not None and _is_cleared(known, block) else block


def _is_result(block: Any) -> bool:
    return is_object(block) and block.get("type") == "tool_result"


def _is_cleared(sent: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a short text stands for a result whose text was much longer."""
    left = _result_text(now.get("content"))
    if left is None or len(left) > MAX_PLACEHOLDER or bool(sent.get("is_error")) != bool(now.get("is_error")):
        return False
    content = sent.get("content") or ()
    parts: Sequence[Any] = content if is_sequence(content) else ({"text": content},)
    return sum(len(part.get("text") or "") for part in parts if is_object(part)) > 2 * len(left)


class _Part(NamedTuple):
    kind: str
    digest: bytes


def _count_media(blocks: Iterable[tuple[str, Any]]) -> int:
    return sum(part.kind in _MEDIA for part in _flatten(blocks))


def _flatten(blocks: Iterable[tuple[str, Any]]) -> list[_Part]:
    """The blocks with content; a result as its frame, its parts and its end."""
    found: list[_Part] = []
    for role, block in blocks:
        kind = block.get("type") if is_object(block) else "text"
        if is_object(block) and kind == "tool_result":
            frame = digest(b"frame", [block.get("tool_use_id"), bool(block.get("is_error"))])
            content = block.get("content") or ()
            parts: Sequence[Any] = content if is_sequence(content) else (content,)
            found += [_Part(kind, frame), *_flatten((role, part) for part in parts), _Part("end", frame)]
        elif (same := digest_block(role, block)) is not None:
            found.append(_Part(str(kind), same))
    return found


def _digests(blocks: Sequence[tuple[str, Any]]) -> list[bytes]:
    """What the links of these blocks are made of, one for each link."""
    found = [each for role, block in blocks if (each := digest_block(role, block)) is not None]
    is_reply = bool(blocks) and blocks[-1][0] == "assistant"
    end = digest_end([block for _, block in blocks]) if is_reply else None
    return found if end is None else [*found, end]


class _Place(NamedTuple):
    """A position in the sent text: a block, and an offset in it."""

    block: int
    offset: int


def _find_part(sent: Sequence[tuple[Any, str]], start: _Place, wanted: tuple[Any, str]) -> _Place | None:
    """The place behind the wanted part, searched for from `start` on; None if it was not sent."""
    key, text = wanted
    for at in range(start.block, len(sent)):
        offset = start.offset if at == start.block else 0
        if sent[at][0] == key and (found := sent[at][1].find(text, offset)) >= 0:
            # A block without text is compared as a whole, and found once.
            return _Place(at, found + len(text)) if sent[at][1] else _Place(at + 1, 0)
    return _find_joined(sent, start, text) if key == "text" else None


def _find_joined(sent: Sequence[tuple[Any, str]], start: _Place, text: str) -> _Place | None:
    """The same for a text that was sent as several blocks."""
    ends: list[tuple[int, int]] = []
    joined = ""
    for at in range(start.block, len(sent)):
        if sent[at][0] == "text":
            joined += sent[at][1][start.offset if at == start.block else 0 :]
            ends.append((len(joined), at))
    found = joined.find(text)
    if found < 0:
        return None
    end = found + len(text)
    left, block = next((left, block) for left, block in ends if left >= end)
    return _Place(block, len(sent[block][1]) - (left - end))


def _words(role: str, block: Any) -> tuple[Any, str]:
    """What must be equal, and the text of which a part may be left out. White space does not count."""
    if isinstance(block, str):
        return "text", _squeeze(block)
    kind = block.get("type")
    if kind in ("text", SYSTEM_TEXT) and isinstance(block.get("text"), str):
        return "text", _squeeze(block["text"])
    if kind == "tool_result":
        texts = _result_text(block.get("content"))
        if texts is not None:
            return (kind, block.get("tool_use_id"), bool(block.get("is_error"))), _squeeze(texts)
    return digest_block(role, block), ""


def _result_text(content: Any) -> str | None:
    """The text of a result; None if it contains something else."""
    if content is None or isinstance(content, str):
        return content or ""
    parts: Sequence[Any] = content if is_sequence(content) else ()
    if not all(is_object(part) and isinstance(part.get("text"), str) for part in parts):
        return None
    return "\n".join(part["text"] for part in parts)


def _squeeze(text: str) -> str:
    for tag in _REMINDER:
        text = text.replace(tag, " ")
    return "".join(text.split())


def _is_reminder(role: str, block: Any) -> bool:
    text = block if isinstance(block, str) else block.get("text")
    return role == "system" or (isinstance(text, str) and text.lstrip().startswith(_REMINDER[0]))


def _canonical_reply(blocks: Iterable[tuple[str, Any]]) -> tuple[str, list[bytes]]:
    texts: list[str] = []
    others: list[bytes] = []
    for role, block in blocks:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") == "text":
            texts.append(str(block.get("text")))
        elif block.get("type") not in THINKING and (found := digest_block(role, block)) is not None:
            others.append(found)
    return _squeeze("".join(texts)), others
