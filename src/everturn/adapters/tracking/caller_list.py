"""The caller's list of messages, as one conversation knows it: a chain, and where each link is in the log.

The chain has the caller's words, the log has what was sent. They differ where the caller has left out a part
of what it had sent (`respelling.py`); from then on the list is known as the caller spells it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.chain import (
    START,
    SYSTEM_TEXT,
    common_prefix_length,
    digest,
    end_link,
    is_caller_message,
    record_links,
    role_of,
)
from everturn.adapters.tracking.fork_records import take_shared_records
from everturn.adapters.tracking.respelling import (
    Alignment,
    SpellingLimits,
    align,
    are_given_here,
    has_result,
    is_identifying,
    split_segments,
)
from everturn.history.blocks import fields_of
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.session.state_file import SettledList


class CallerList(NamedTuple):
    """The caller's list as a chain, with the position in the log of the record that has each block."""

    chain: list[bytes]
    positions: list[int]


class SummarizedMatch(NamedTuple):
    """A list that lacks a part of what is summarized: how it is spelled, what it shares with the known one,
    and the position in the log of the first message that it does not share."""

    spelling: Alignment
    shared: CallerList
    cut: int

    def is_whole(self, records: Sequence[Record]) -> bool:
        """Whether it continues all of these records. A message that was written anew makes a fork."""
        return self.cut == len(records) and self.spelling.rewriting is None


def first_in_view(log: Log) -> int:
    """The position of the first message that the model sees; those before it are summarized."""
    view = log.view
    if view.boundary is None:
        return 0
    shown = {record.uuid for record in view.records}
    for at, record in enumerate(log.records):
        if record.uuid in shown and is_caller_message(record):
            return at
    return len(log.records)


def read_caller_list(records: Sequence[Record]) -> CallerList:
    """The list that a caller has who kept everything as it was sent."""
    found = CallerList([], [])
    # The reply that is being read, from its last record with a link on, and where the thinking at its end
    # begins.
    reply: list[Record] = []
    begins = 0

    def end_reply() -> None:
        link = end_link(found.chain[-1] if found.chain else START, reply)
        if link is not None:
            found.chain.append(link)
            found.positions.append(begins)
        reply.clear()

    for at, record in enumerate(records):
        if not is_caller_message(record):
            continue
        if record.kind != "assistant" and reply:
            end_reply()
        links = record_links(found.chain[-1] if found.chain else START, record)
        found.chain.extend(links)
        found.positions.extend([at] * len(links))
        if record.kind == "assistant":
            if links or not reply:
                reply, begins = [], at
            elif end_link(START, reply) is None:
                # The thinking begins in a record of its own.
                begins = at
            reply.append(record)
    end_reply()
    return found


class KnownList:
    """`records` is the log, which grows; `known` the caller's list, if it differs from what the log says."""

    def __init__(self, records: Sequence[Record], known: CallerList | None = None) -> None:
        self._records = records
        self.chain, self._positions = known or read_caller_list(records)
        self._preamble_digests: list[bytes] = [b""] * len(self.chain)
        # Recorded replies: message id, and the number of links up to and including it.
        self.replies: dict[str, int] = {}
        self._first_reply = 0
        # Where the last turn begins in the chain; kept up to date, because a tool loop may be long.
        self._turn_start = 0
        self._index_replies(0)
        self.has_system_text = any(block.kind == SYSTEM_TEXT for record in records for block in record.blocks)

    @property
    def last_link(self) -> bytes:
        return self.chain[-1] if self.chain else START

    def has_reply_within(self, links: int) -> bool:
        """Whether the first `links` blocks contain a reply that was recorded here."""
        return 0 < self._first_reply <= links

    def has_rewritten_reply(self, links: int) -> bool:
        """Whether a reply from here follows the first `links` blocks, with a reply of the caller's own among
        them: a caller that changes every reply has put its words in the place of this one too."""
        if not 0 < links < len(self._positions) or not self._begins_reply(links):
            return False
        return any(self._records[at].kind == "assistant" for at in self._positions[:links])

    def _begins_reply(self, links: int) -> bool:
        """Whether a reply from here follows the first `links` blocks, also one that the caller has begun."""
        for link in range(links, len(self._positions)):
            record = self._records[self._positions[link]]
            if record.message_id or record.kind != "assistant":
                return bool(record.message_id)
        return False

    def add(self, at: int, links: Sequence[bytes], preamble_digest: bytes) -> None:
        """The links of the record at this position in the log."""
        start = len(self.chain)
        self.chain += links
        self._positions += [at] * len(links)
        self._preamble_digests += [preamble_digest] * len(links)
        self._index_replies(start)

    def extend(self, longer: CallerList, preamble_digest: bytes) -> None:
        """The same list with what another process has recorded since. The caller may have left out a part of
        what was known."""
        added = len(longer.chain) - len(self.chain)
        self.chain, self._positions = longer
        self._preamble_digests += [preamble_digest] * added
        del self._preamble_digests[len(self.chain) :]
        self.replies = {}
        self._index_replies(0)

    def list_messages(self) -> list[dict[str, Any]]:
        """The messages of the list, as they were sent."""
        found: list[dict[str, Any]] = []
        for record in filter(is_caller_message, self._records):
            for block in record.blocks:
                role, fields = role_of(record, block), fields_of(block)
                if role == "system":
                    fields["type"] = "text"
                if not found or found[-1]["role"] != role:
                    found.append({"role": role, "content": []})
                found[-1]["content"].append(fields)
        return found

    def _index_replies(self, start: int) -> None:
        """Index what was added to the chain behind its first `start` links."""
        was_reply = not start or self._records[self._positions[start - 1]].kind == "assistant"
        for links in range(start + 1, len(self.chain) + 1):
            record = self._records[self._positions[links - 1]]
            for name in self._reply_ids(links):
                self.replies[name] = links
            is_reply = record.kind == "assistant"
            if was_reply and not is_reply and not has_result(record):
                self._turn_start = links - 1
            was_reply = is_reply
        self._first_reply = next(iter(self.replies.values()), 0)

    def _reply_ids(self, links: int) -> list[str]:
        """The ids of the recorded replies that end with this link: a caller that has begun a reply joins the
        model's words to its own, in one block."""
        first = self._positions[links - 1]
        stop = self._positions[links] if links < len(self._positions) else len(self._records)
        if self._records[first].kind != "assistant":
            stop = first
        records = self._records[first : max(stop, first + 1)]
        return [record.message_id for record in records if record.message_id]

    # ── forks ────────────────────────────────────────────────────────────────────────────────────

    def fork_point(self, links: int) -> int:
        """The number of links that a fork can share: whole records only."""
        while 0 < links < len(self.chain) and self._positions[links] == self._positions[links - 1]:
            links -= 1
        return links

    def records_before(self, links: int) -> int:
        """Length of the log when the message after these links arrived, with decisions made before it."""
        return self._positions[links] if links < len(self._positions) else len(self._records)

    def links_before(self, record: int) -> int:
        """The number of links of the records before this position in the log."""
        return bisect_left(self._positions, record)

    def first(self, links: int) -> CallerList:
        return CallerList(self.chain[:links], self._positions[:links])

    def had_same_preamble(self, links: int, preamble_digest: bytes) -> bool:
        """Whether the first `links` blocks all had this system prompt and these tools."""
        return all(each == preamble_digest for each in self._preamble_digests[:links])

    def inherit_preambles(self, parent: "KnownList") -> None:
        """For a fork: its shared messages were sent with the parent's system prompt and tools."""
        shared = parent._preamble_digests[: len(self.chain)]
        # What the caller has split since has more links than it had.
        self._preamble_digests = shared + shared[-1:] * (len(self.chain) - len(shared))

    # ── lists that lack a part of what was sent ──────────────────────────────────────────────────

    def is_start_of(self, request: CallerRequest) -> bool:
        """Whether the request starts with all of this list, block by block."""
        known = len(self.chain)
        return not known or list(request.chain[known - 1 : known]) == self.chain[-1:]

    def sent_last(self) -> bytes:
        """A digest of the newest answered turn as it was sent."""
        start = self._last_turn()
        records = self._records[self._positions[start] :] if start < len(self.chain) else ()
        return digest(*(block.raw for record in records for block in record.blocks))

    def settled_list(self) -> SettledList:
        """The part of the caller's list before the last answered turn. It is kept for after a restart,
        when the chain has to be read from the records, which have what was sent."""
        start = self._last_turn()
        return SettledList(start, self.chain[start - 1].hex()) if start else SettledList()

    def align(
        self, request: CallerRequest, last: CallerRequest | None, preamble_digest: bytes
    ) -> Alignment | None:
        """How the request spells what was sent, if it lacks a part of it. `last` is the last request of the
        conversation, `preamble_digest` that of its system prompt and tools."""
        start = self._respelling_start(request)
        if start >= len(self.chain) or request.known > start:
            return None
        if start and (len(request.chain) < start or request.chain[start - 1] != self.chain[start - 1]):
            return None
        first = self._positions[start]
        newest = enumerate(self._records[first:], first)
        segments = split_segments((at, each) for at, each in newest if is_caller_message(each))
        found = align(segments, request, start)
        if found.segments < len(segments) or not found.is_respelled:
            return None
        if found.links < request.last_answered_reply:
            # A part is left out in the next request. This one has replies from elsewhere in between.
            return None
        is_same_caller = last is None or last.fields.get("metadata") == request.fields.get("metadata")
        is_same_preamble = start > 0 or preamble_digest == request.preamble_digest
        # A caller that names its session has said whose request it is.
        is_identified = bool(request.scope) or self._is_identified(first)
        return found if is_same_caller and is_same_preamble and is_identified else None

    def align_summarized(
        self, request: CallerRequest, summarized: int, *, rewrites: bool = False
    ) -> SummarizedMatch | None:
        """How far the request is this list, if it lacks a part of what is summarized: of the records before
        position `summarized`. They are not sent any more, so what they lack changes nothing. `rewrites`: one
        of them may have been written anew."""
        start = self.fork_point(common_prefix_length(self.chain, request.chain))
        if start >= len(self._positions) or self._positions[start] >= summarized or request.known > start:
            return None
        first, turn = self._positions[start], self._last_turn()
        newest = enumerate(self._records[first:], first)
        segments = split_segments((at, each) for at, each in newest if is_caller_message(each))
        last_turn = self._positions[turn] if turn < len(self._positions) else len(self._records)
        found = align(segments, request, start, SpellingLimits(summarized, last_turn, rewrites))
        if not found.is_respelled and found.rewriting is None:
            return None
        same, rest = segments[: found.segments], segments[found.segments :]
        replies = [record for each in same if each.is_reply for _, record in each.records]
        if not (is_identifying(replies) if found.rewriting is None else are_given_here(replies)):
            return None
        cut = rest[0].records[0][0] if rest else len(self._records)
        if rest and first_in_view(Log(take_shared_records(self._records, cut))) < summarized:
            # A fork would lose the compaction, and show what the caller has left out.
            return None
        shared = list(request.chain[: found.links])
        return SummarizedMatch(found, CallerList(shared, [*self._positions[:start], *found.records]), cut)

    def take_spelling(self, request: CallerRequest, found: Alignment) -> None:
        """From now on, what was sent is known as the caller spells it."""
        start = found.start
        digests = self._preamble_digests[start:]
        self.chain[start:] = request.chain[start : found.links]
        self._positions[start:] = found.records
        if len(digests) != len(found.records):
            self._preamble_digests[start:] = [digests[-1]] * len(found.records)
        self.replies = {name: links for name, links in self.replies.items() if links <= start}
        self._index_replies(start)

    def _last_turn(self) -> int:
        """Where the last turn begins in the chain: what the caller said, with the tool loop behind it; the
        chain's length if the last message has no answer from here. A caller keeps what it adds to a message
        until the loop has ended."""
        records, positions = self._records, self._positions
        if not positions or not records[positions[-1]].message_id:
            return len(self.chain)
        return self._turn_start

    def _respelling_start(self, request: CallerRequest) -> int:
        """Where the request may differ from what was sent: in the last turn. A caller that stops using
        system messages spells all of them as reminders."""
        stops_using = self.has_system_text and not request.has_system_messages
        return 0 if stops_using else self._last_turn()

    def _is_identified(self, first: int) -> bool:
        """Whether the replies that the caller has show that this is its conversation. Messages before the
        first reply do not count, nor does the one that differs."""
        records = [record for record in self._records if is_caller_message(record)]
        replied = next((at for at, each in enumerate(records) if each.message_id), len(records))
        differs = {record.uuid for record in self._records[first:] if record.kind == "user"}
        return is_identifying(each for each in reversed(records[replied:]) if each.uuid not in differs)
