"""One tracked conversation: everturn's log of it, next to the message list that the caller keeps.

It holds the log and the engine, and the chain of the caller's messages with the position of each in the log.
The log is append-only, so its state when a message arrived is a prefix of its records. A fork needs nothing
else. `tracker.py` decides which conversation a request belongs to.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from everturn.adapters.tracking.caller_request import CallerRequest, read_message_blocks
from everturn.adapters.tracking.chain import START, is_caller_message, make_record_link
from everturn.adapters.tracking.fair_lock import FairLock
from everturn.adapters.tracking.transcript_folder import TranscriptFile
from everturn.decide.compact.values import CompactionRequest
from everturn.decide.events import EventContext
from everturn.engine import ConversationSettings, Flow
from everturn.history.records import Record
from everturn.measure.outline import Preamble
from everturn.session.bill import Ledger
from everturn.session.conversation_runner import ConversationRunner, Exchange, PreparedRequest
from everturn.session.upstream import RawResponse


class PreparedCall(msgspec.Struct, frozen=True):
    """A request ready to be sent for a caller, and the conversation that its response belongs to."""

    tracked: "TrackedConversation"
    request: CallerRequest
    prepared: PreparedRequest
    # Length of the chain and the log. If they have grown when the response arrives, it goes to a fork.
    links: int
    records: int

    @property
    def body(self) -> bytes:
        return self.prepared.body

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


class TrackedConversation:
    """One conversation. Its lock must be held while it is worked on."""

    def __init__(
        self, id: str, runner: ConversationRunner, transcript: TranscriptFile, ledger: Ledger
    ) -> None:
        self.id = id
        self.runner = runner
        self.transcript = transcript
        self.ledger = ledger
        self.lock = FairLock()
        # Removed from memory: callers that waited for the lock must look the conversation up again.
        self.is_evicted = False
        # How many callers work on it or wait for its lock.
        self.users = 0
        self.chain: list[bytes] = []
        self._positions: list[int] = []
        self._preamble_digests: list[bytes] = []
        # Recorded replies: message id, and the number of links up to and including it.
        self.replies: dict[str, int] = {}
        self._first_reply = 0
        self.preamble = Preamble()
        self.preamble_digest = b""
        self._ready: PreparedCall | None = None
        self._requested: CompactionRequest | None = None
        for at, record in enumerate(self.records):
            self._add_link(record, at)

    @property
    def records(self) -> Sequence[Record]:
        return self.runner.conversation.log.records

    @property
    def is_awaiting_reply(self) -> bool:
        """Whether a request was prepared whose response is not recorded yet."""
        return self._ready is not None

    def has_reply_within(self, links: int) -> bool:
        """Whether one of the first `links` messages is a reply that was recorded here."""
        return 0 < self._first_reply <= links

    def records_before(self, links: int) -> int:
        """Length of the log when the message after these links arrived, with decisions made before it."""
        return self._positions[links] if links < len(self._positions) else len(self.records)

    def had_same_preamble(self, links: int, preamble_digest: bytes) -> bool:
        """Whether the first `links` messages all had this system prompt and these tools."""
        return all(each == preamble_digest for each in self._preamble_digests[:links])

    def inherit_preamble(self, parent: "TrackedConversation") -> None:
        """For a fork: its shared messages were sent with the parent's system prompt and tools."""
        self.preamble, self.preamble_digest = parent.preamble, parent.preamble_digest
        self._preamble_digests = parent._preamble_digests[: len(self.chain)]

    def prepare_flow(self, request: CallerRequest, setting: ConversationSettings) -> Flow[PreparedCall]:
        """The request to send. A retry of a request without a response gives the same bytes."""
        ready = self._ready
        if ready is not None and ready.request.fingerprint == request.fingerprint:
            return ready
        self.runner.conversation.setting = setting
        self.preamble, self.preamble_digest = request.preamble, request.preamble_digest
        for message in request.messages[len(self.chain) :]:
            self._append(message["role"], message)
        return (yield from self._prepare(request))

    def compact_after_overflow_flow(self, call: PreparedCall) -> Flow[PreparedCall | None]:
        """After "too long": the same request after a compaction; None if nothing could be compacted."""
        ready, self._ready = self._ready, None
        if ready is not call:
            # Another caller has already compacted, or has continued without this response.
            self._ready = ready
            is_same = ready is not None and ready.request.fingerprint == call.request.fingerprint
            return ready if is_same else None
        if not (yield from self.runner.compact_after_overflow_flow()):
            return None
        return (yield from self._prepare(call.request))

    def can_continue(self, request: CallerRequest) -> bool:
        """Whether the request starts with all messages of this conversation. It no longer does if another
        caller has continued the conversation."""
        known = len(self.chain)
        return not self.is_evicted and (
            not known or list(request.chain[known - 1 : known]) == self.chain[-1:]
        )

    def is_waiting_for(self, call: PreparedCall) -> bool:
        return (call.links, call.records) == (len(self.chain), len(self.records))

    def record_response(self, call: PreparedCall, raw: RawResponse) -> Exchange:
        at = len(self.records)
        exchange = self.runner.record_response(call.prepared, raw)
        self._ready = None
        self._add_link(self.records[at], at)
        return exchange

    def request_compaction(self, instructions: str) -> None:
        """Compact before the next request, at any size (CP-27, CP-39)."""
        self._requested = CompactionRequest(trigger="manual", instructions=instructions)
        self._ready = None

    def event_context(self) -> EventContext:
        return self.runner.event_context()

    def _prepare(self, request: CallerRequest) -> Flow[PreparedCall]:
        requested, self._requested = self._requested, None
        if requested is not None:
            yield from self.runner.compact_flow(requested)
        prepared = yield from self.runner.prepare_flow()
        self._ready = PreparedCall(self, request, prepared, len(self.chain), len(self.records))
        return self._ready

    def _append(self, role: str, message: Any) -> None:
        at = len(self.records)
        append = self.runner.hear if role == "assistant" else self.runner.put
        self._ready = None
        append(read_message_blocks(message))
        self._add_link(self.records[at], at)
        if role == "assistant":
            # Its thinking may be bound to a prompt that was sent earlier and is no longer known.
            self.runner.conversation.distrust_thinking("it came with a message list that was not known")

    def _add_link(self, record: Record, at: int) -> None:
        if not is_caller_message(record):
            return
        self.chain.append(make_record_link(self.chain[-1] if self.chain else START, record))
        self._positions.append(at)
        self._preamble_digests.append(self.preamble_digest)
        if record.message_id:
            self.replies[record.message_id] = len(self.chain)
            self._first_reply = self._first_reply or len(self.chain)


def _mark_last(messages: list[dict[str, Any]]) -> None:
    content = messages[-1]["content"]
    if isinstance(content, list) and content:
        content[-1]["cache_control"] = {"type": "ephemeral"}
