"""One tracked conversation: everturn's log of it, next to the message list that the caller keeps.

It holds the log and the engine, and the chain of the caller's blocks with the position of each in the log.
The log is append-only, so its state when a message arrived is a prefix of its records. A fork needs nothing
else. `tracker.py` decides which conversation a request belongs to.

The chain has the caller's words, the log has what was sent. They differ where the caller has left out a part
of what it had sent (`respelling.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.chain import (
    START,
    SYSTEM_TEXT,
    digest,
    is_caller_message,
    record_links,
    role_of,
)
from everturn.adapters.tracking.fair_lock import FairLock
from everturn.adapters.tracking.respelling import Alignment, align, is_identifying, split_segments
from everturn.adapters.tracking.system_messages import encode_request
from everturn.adapters.tracking.transcript_folder import TranscriptFile
from everturn.decide.compact.values import CompactionRequest
from everturn.decide.events import EventContext
from everturn.engine import ConversationSettings, Flow
from everturn.errors import UsageError
from everturn.history.blocks import fields_of
from everturn.history.edits import Edit
from everturn.history.records import Record, make_edit_record
from everturn.measure.outline import Preamble
from everturn.session.bill import Ledger
from everturn.session.conversation_runner import ConversationRunner, Exchange, PreparedRequest
from everturn.session.upstream import RawResponse
from everturn.view.fragments.recalled import NAME as RECALL
from everturn.view.requests import build_request


class PreparedCall(msgspec.Struct, frozen=True):
    """A request ready to be sent for a caller, and the conversation that its response belongs to."""

    tracked: "TrackedConversation"
    request: CallerRequest
    prepared: PreparedRequest
    body: bytes
    # Length of the chain and the log. If they have grown when the response arrives, it goes to a fork.
    links: int
    records: int

    @property
    def betas(self) -> tuple[str, ...]:
        """The betas that the header must name, including the caller's own."""
        return self.prepared.betas

    def fields(self) -> dict[str, Any]:
        """The body, decoded."""
        fields: dict[str, Any] = msgspec.json.decode(self.body)
        if self.request.marks_messages:
            # The caller moves its breakpoint with every request: it belongs on the last block.
            _mark_last(fields["messages"])
        return fields


class CallerList(NamedTuple):
    """The caller's list as a chain, with the position in the log of the record that has each block."""

    chain: list[bytes]
    positions: list[int]


def read_caller_list(records: Sequence[Record]) -> CallerList:
    """The list that a caller has who kept everything as it was sent."""
    found = CallerList([], [])
    for at, record in enumerate(records):
        if is_caller_message(record):
            links = record_links(found.chain[-1] if found.chain else START, record)
            found.chain.extend(links)
            found.positions.extend([at] * len(links))
    return found


class TrackedConversation:
    """One conversation. Its lock must be held while it is worked on."""

    def __init__(
        self,
        id: str,
        runner: ConversationRunner,
        transcript: TranscriptFile,
        ledger: Ledger,
        *,
        caller_list: CallerList | None = None,
        lineage: str = "",
    ) -> None:
        """`caller_list` is the caller's list, if it differs from what the records say. `lineage` is the id of
        the conversation that this one and its sister forks come from."""
        self.id = id
        self.runner = runner
        self.transcript = transcript
        self.ledger = ledger
        self.lineage = lineage or id
        self.lock = FairLock()
        # Removed from memory: callers that waited for the lock must look the conversation up again.
        self.is_evicted = False
        # How many callers work on it or wait for its lock.
        self.users = 0
        self.chain, self._positions = caller_list or read_caller_list(self.records)
        self._preamble_digests: list[bytes] = [b""] * len(self.chain)
        # Recorded replies: message id, and the number of links up to and including it.
        self.replies: dict[str, int] = {}
        self._first_reply = 0
        self._index_replies(0)
        self._has_system_text = any(
            block.kind == SYSTEM_TEXT for record in self.records for block in record.blocks
        )
        # How many messages the caller's list has.
        self.messages = sum(map(is_caller_message, self.records))
        self.preamble = Preamble()
        self.preamble_digest = b""
        self.last_request: CallerRequest | None = None
        self._ready: PreparedCall | None = None
        self._requested: CompactionRequest | None = None

    @property
    def records(self) -> Sequence[Record]:
        return self.runner.conversation.log.records

    @property
    def is_awaiting_reply(self) -> bool:
        """Whether a request was prepared whose response is not recorded yet."""
        return self._ready is not None

    def has_reply_within(self, links: int) -> bool:
        """Whether the first `links` blocks contain a reply that was recorded here."""
        return 0 < self._first_reply <= links

    # ── forks ────────────────────────────────────────────────────────────────────────────────────

    def fork_point(self, links: int) -> int:
        """The number of links that a fork can share: whole records only."""
        while 0 < links < len(self.chain) and self._positions[links] == self._positions[links - 1]:
            links -= 1
        return links

    def records_before(self, links: int) -> int:
        """Length of the log when the message after these links arrived, with decisions made before it."""
        return self._positions[links] if links < len(self._positions) else len(self.records)

    def caller_list(self, links: int) -> CallerList:
        return CallerList(self.chain[:links], self._positions[:links])

    def had_same_preamble(self, links: int, preamble_digest: bytes) -> bool:
        """Whether the first `links` blocks all had this system prompt and these tools."""
        return all(each == preamble_digest for each in self._preamble_digests[:links])

    def inherit_preamble(self, parent: "TrackedConversation") -> None:
        """For a fork: its shared messages were sent with the parent's system prompt and tools."""
        self.preamble, self.preamble_digest = parent.preamble, parent.preamble_digest
        self._preamble_digests = parent._preamble_digests[: len(self.chain)]

    def append_records(self, records: Sequence[Record], caller_list: CallerList) -> None:
        """For a copy: what another process has recorded since."""
        for record in records:
            self.runner.add(record)
        added = len(caller_list.chain) - len(self.chain)
        self.chain, self._positions = caller_list
        self._preamble_digests += [self.preamble_digest] * added
        self.replies = {}
        self._index_replies(0)
        self._ready = None

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def can_continue(self, request: CallerRequest) -> bool:
        """Whether the request starts with all messages of this conversation. It no longer does if another
        caller has continued the conversation."""
        if self.is_evicted:
            return False
        return self._has_all(request) or self._align(request) is not None

    def respelled_links(self, request: CallerRequest) -> int | None:
        """How many links of the request are this conversation with a part of the newest message left out;
        None if they are not."""
        found = None if self._has_all(request) else self._align(request)
        return found.links if found else None

    def sent_last(self) -> bytes:
        """A digest of the newest answered message as it was sent."""
        start = self._last_exchange()
        records = self.records[self._positions[start] :] if start < len(self.chain) else ()
        return digest(*(block.raw for record in records for block in record.blocks))

    def prepare_flow(self, request: CallerRequest, setting: ConversationSettings) -> Flow[PreparedCall]:
        """The request to send. A retry of a request without a response gives the same bytes."""
        ready = self._ready
        if ready is not None and ready.request.fingerprint == request.fingerprint:
            return ready
        if not self._has_all(request):
            self._take_spelling(request)
        self.runner.conversation.setting = setting
        self.preamble, self.preamble_digest = request.preamble, request.preamble_digest
        self.last_request = request
        known = 0 if not request.known else self.messages
        for message in request.new_messages(len(self.chain)):
            append = self.runner.hear if message.role == "assistant" else self.runner.put
            self._ready = None
            append(message.blocks)
            if message.role == "assistant":
                # Its thinking may be bound to a prompt that was sent earlier and is no longer known.
                self.runner.conversation.distrust_thinking("it came with a message list that was not known")
            self._has_system_text = self._has_system_text or message.role == "system"
            self._add_links(len(self.records) - 1, request.chain[len(self.chain) : message.links])
        self.messages = known + len(request.messages)
        return (yield from self._prepare(request))

    def compact_after_overflow_flow(self, call: PreparedCall) -> Flow[PreparedCall | None]:
        """After "too long": the same request after a compaction; None if nothing could be compacted."""
        return (yield from self._prepare_again(call, self.runner.compact_after_overflow_flow()))

    def undo_after_refusal_flow(self, call: PreparedCall, refusal: str) -> Flow[PreparedCall | None]:
        """After a refusal for another reason: the same request without the compactions since the last
        accepted one; None if there were none."""
        return (yield from self._prepare_again(call, self.runner.undo_after_refusal_flow(refusal)))

    def _prepare_again(self, call: PreparedCall, change: Flow[bool]) -> Flow[PreparedCall | None]:
        ready, self._ready = self._ready, None
        if ready is not call:
            # Another caller has already changed it, or has continued without this response.
            self._ready = ready
            is_same = ready is not None and ready.request.fingerprint == call.request.fingerprint
            return ready if is_same else None
        return (yield from self._prepare(call.request)) if (yield from change) else None

    def fits_unchanged(self) -> bool:
        """Whether the caller's own list may fit into the window; long after a compaction it cannot."""
        conversation = self.runner.conversation
        said = filter(is_caller_message, self.records)
        return conversation.estimate_tokens(said) < conversation.setting.model.window

    def is_waiting_for(self, call: PreparedCall) -> bool:
        return (call.links, call.records) == (len(self.chain), len(self.records))

    def record_response(self, call: PreparedCall, raw: RawResponse) -> Exchange:
        at = len(self.records)
        exchange = self.runner.record_response(call.prepared, raw)
        self._ready = None
        self._add_links(at, record_links(self.chain[-1] if self.chain else START, self.records[at]))
        self.messages += 1
        return exchange

    def request_compaction(self, instructions: str) -> None:
        """Compact before the next request, at any size (CP-27, CP-39)."""
        self._requested = CompactionRequest(trigger="manual", instructions=instructions)
        self._ready = None

    def append_edit(self, edit: Edit, uuid: str) -> None:
        """Append an edit that the program asked for. The next request is prepared anew."""
        last = self.runner.conversation.log.tip
        self.runner.add(make_edit_record(edit, uuid=uuid, after=last, at=self.event_context().at))
        self._ready = None

    def find_message(self, uuid: str) -> int:
        """The position in the log of a message that the caller said; of the last one without a uuid. Results
        of tools are not said: without them, the calls before would have no answer."""
        found = [
            at
            for at, record in enumerate(self.records)
            if record.kind == "user"
            and is_caller_message(record)
            and not any(block.is_result for block in record.blocks)
            and uuid in ("", record.uuid)
        ]
        if not found:
            raise UsageError(
                f"The record {uuid!r} is not a message of the caller in the conversation {self.id!r}. "
                "`recall` names the records of messages."
            )
        return found[-1]

    def list_messages(self) -> list[dict[str, Any]]:
        """The messages of the caller's list, as they were sent."""
        found: list[dict[str, Any]] = []
        for record in filter(is_caller_message, self.records):
            for block in record.blocks:
                role, fields = role_of(record, block), fields_of(block)
                if role == "system":
                    fields["type"] = "text"
                if not found or found[-1]["role"] != role:
                    found.append({"role": role, "content": []})
                found[-1]["content"].append(fields)
        return found

    def has_open_recall(self, given: Mapping[str, Any], call: str) -> bool:
        """Whether the last reply has called the recall tool: with this call id, or with these words."""
        last = next((record for record in reversed(self.records) if record.kind == "assistant"), None)
        calls = [block for block in last.blocks if block.is_call and block.tool == RECALL] if last else []
        if call:
            return any(block.call == call for block in calls)
        words = {name: given.get(name) for name in ("query", "record")}
        inputs: list[dict[str, Any]] = [fields_of(block).get("input") or {} for block in calls]
        return any({name: each.get(name) for name in words} == words for each in inputs)

    def event_context(self) -> EventContext:
        return self.runner.event_context()

    def _prepare(self, request: CallerRequest) -> Flow[PreparedCall]:
        requested, self._requested = self._requested, None
        if requested is not None:
            yield from self.runner.compact_flow(requested)
        prepared = yield from self.runner.prepare_flow()
        body = prepared.body
        if self._has_system_text:
            captured = build_request(prepared.turn.captured, prepared.turn.breakpoints)
            body = encode_request(captured, native=request.has_system_messages)
        self._ready = PreparedCall(self, request, prepared, body, len(self.chain), len(self.records))
        return self._ready

    # ── the caller's list ────────────────────────────────────────────────────────────────────────

    def _has_all(self, request: CallerRequest) -> bool:
        known = len(self.chain)
        return not known or list(request.chain[known - 1 : known]) == self.chain[-1:]

    def _last_exchange(self) -> int:
        """Where the last answered message begins in the chain; its length if the last message has no answer
        from here."""
        records, positions = self.records, self._positions
        at = len(self.chain)
        if not at or not records[positions[-1]].message_id:
            return at
        while at and records[positions[at - 1]].kind == "assistant":
            at -= 1
        while at and records[positions[at - 1]].kind == "user":
            at -= 1
        return at

    def _respelling_start(self, request: CallerRequest) -> int:
        """Where the request may differ from what was sent: in the last exchange. A caller that stops using
        system messages spells all of them as reminders."""
        stops_using = self._has_system_text and not request.has_system_messages
        return 0 if stops_using else self._last_exchange()

    def _align(self, request: CallerRequest) -> Alignment | None:
        """How the request spells what was sent, if it lacks a part of it."""
        start = self._respelling_start(request)
        if start >= len(self.chain) or request.known > start:
            return None
        if start and (len(request.chain) < start or request.chain[start - 1] != self.chain[start - 1]):
            return None
        first = self._positions[start]
        newest = enumerate(self.records[first:], first)
        segments = split_segments((at, each) for at, each in newest if is_caller_message(each))
        found = align(segments, request, start)
        if found.segments < len(segments) or not found.is_respelled:
            return None
        last = self.last_request
        is_same_caller = last is None or last.fields.get("metadata") == request.fields.get("metadata")
        is_same_preamble = start > 0 or self.preamble_digest == request.preamble_digest
        return found if is_same_caller and is_same_preamble and self._is_identified(first) else None

    def _is_identified(self, first: int) -> bool:
        """Whether the replies that the caller has show that this is its conversation. Messages before the
        first reply do not count, nor does the one that differs."""
        records = [record for record in self.records if is_caller_message(record)]
        replied = next((at for at, each in enumerate(records) if each.message_id), len(records))
        differs = {record.uuid for record in self.records[first:] if record.kind == "user"}
        return is_identifying(each for each in reversed(records[replied:]) if each.uuid not in differs)

    def _take_spelling(self, request: CallerRequest) -> None:
        """From now on, what was sent is known as the caller spells it."""
        found, start = self._align(request), self._respelling_start(request)
        if found is None:
            return
        digests = self._preamble_digests[start:]
        self.chain[start:] = request.chain[start : found.links]
        self._positions[start:] = found.records
        self._preamble_digests[start:] = [digests[-1]] * len(found.records)
        self.replies = {name: links for name, links in self.replies.items() if links <= start}
        self._index_replies(start)

    def _add_links(self, at: int, links: Sequence[bytes]) -> None:
        """The links of the record at this position in the log."""
        start = len(self.chain)
        self.chain += links
        self._positions += [at] * len(links)
        self._preamble_digests += [self.preamble_digest] * len(links)
        self._index_replies(start)

    def _index_replies(self, start: int) -> None:
        for links in range(start + 1, len(self.chain) + 1):
            record = self.records[self._positions[links - 1]]
            if record.message_id:
                self.replies[record.message_id] = links
        self._first_reply = next(iter(self.replies.values()), 0)


def _mark_last(messages: list[dict[str, Any]]) -> None:
    content = messages[-1]["content"]
    if isinstance(content, list) and content:
        content[-1]["cache_control"] = {"type": "ephemeral"}
