"""A shadow: one conversation as we know it, beside the caller's own list of messages.

It has the log and the engine, and the chain of the caller's messages with the place of each in the log. The
log only grows, so what it was when a message came is a beginning of its records: that is all a fork needs.
Which shadow a request belongs to is decided in `tracker.py`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from everturn.adapters.tracking.caller_request import CallerRequest, read_message_blocks
from everturn.adapters.tracking.chain import START, is_caller_message, make_record_link
from everturn.adapters.tracking.fair_lock import FairLock
from everturn.adapters.tracking.transcript_folder import TranscriptFile
from everturn.engine import ConversationSettings, Flow
from everturn.history.records import Record
from everturn.measure.outline import Preamble
from everturn.session.bill import Ledger
from everturn.session.conversation_runner import ConversationRunner, PreparedRequest
from everturn.session.upstream import RawResponse


class PreparedCall(msgspec.Struct, frozen=True):
    """A request that is ready to be sent for a caller, and where its answer belongs."""

    tracked: "TrackedConversation"
    request: CallerRequest
    prepared: PreparedRequest
    # How long chain and log were: an answer that comes after they have grown belongs to a fork.
    links: int
    records: int

    @property
    def body(self) -> bytes:
        return self.prepared.body

    @property
    def betas(self) -> tuple[str, ...]:
        """What the header must name, the caller's own included."""
        return self.prepared.betas

    def fields(self) -> dict[str, Any]:
        """The body as plain values."""
        fields: dict[str, Any] = msgspec.json.decode(self.body)
        if self.request.marks_messages:
            # Its own marker moved with every request; the end of the messages is where it would stand.
            _mark_last(fields["messages"])
        return fields


class TrackedConversation:
    def __init__(self, id: str, live: ConversationRunner, kept: TranscriptFile, ledger: Ledger) -> None:
        self.id = id
        self.runner = live
        self.kept = kept
        self.ledger = ledger
        self.turns = FairLock()
        # Taken out of memory: whoever waited for it looks for the conversation again.
        self.is_evicted = False
        # How many are about to work on it.
        self.wanted = 0
        self.chain: list[bytes] = []
        self._places: list[int] = []
        self._heads: list[bytes] = []
        # The replies that we saw: their ids, each with the number of links up to it.
        self.replies: dict[str, int] = {}
        self._first_reply = 0
        self.head = Preamble()
        self.preamble_digest = b""
        self._ready: PreparedCall | None = None
        for at, record in enumerate(self.records):
            self._note(record, at)

    @property
    def records(self) -> Sequence[Record]:
        return self.runner.conversation.log.records

    @property
    def is_awaiting_reply(self) -> bool:
        """Whether something was sent that has no answer yet."""
        return self._ready is not None

    def has_reply_within(self, links: int) -> bool:
        """Whether a reply that we saw ourselves is among the first links."""
        return 0 < self._first_reply <= links

    def records_before(self, links: int) -> int:
        """How long the log was when what follows these links came: decisions made before it included."""
        return self._places[links] if links < len(self._places) else len(self.records)

    def had_same_preamble(self, links: int, head: bytes) -> bool:
        """Whether everything up to there was said under this system prompt and these tools."""
        return all(each == head for each in self._heads[:links])

    def inherit_preamble(self, parent: "TrackedConversation") -> None:
        """Of a fork: what it begins with was said under its parent's prompts."""
        self.head, self.preamble_digest = parent.head, parent.preamble_digest
        self._heads = parent._heads[: len(self.chain)]

    def prepare_flow(self, request: CallerRequest, setting: ConversationSettings) -> Flow[PreparedCall]:
        """The request as it is to be sent. The same request again, unanswered, gives the same bytes."""
        ready = self._ready
        if ready is not None and ready.request.fingerprint == request.fingerprint:
            return ready
        self.runner.conversation.setting = setting
        self.head, self.preamble_digest = request.head, request.preamble_digest
        for message in request.messages[len(self.chain) :]:
            self._hear(message["role"], message)
        return (yield from self._readying(request))

    def compact_after_overflow_flow(self, ticket: PreparedCall) -> Flow[PreparedCall | None]:
        """After "too long": the same request after a compaction; None where there was none."""
        ready, self._ready = self._ready, None
        if ready is not ticket:
            # Somebody else was faster: made room already, or went on without this answer.
            self._ready = ready
            is_same = ready is not None and ready.request.fingerprint == ticket.request.fingerprint
            return ready if is_same else None
        if not (yield from self.runner.compact_after_overflow_flow()):
            return None
        return (yield from self._readying(ticket.request))

    def fits(self, request: CallerRequest) -> bool:
        """Whether the request goes on where this ends. Not, where somebody went on meanwhile."""
        known = len(self.chain)
        return not self.is_evicted and (
            not known or list(request.chain[known - 1 : known]) == self.chain[-1:]
        )

    def is_waiting_for(self, ticket: PreparedCall) -> bool:
        return (ticket.links, ticket.records) == (len(self.chain), len(self.records))

    def record_response(self, ticket: PreparedCall, answered: RawResponse) -> None:
        at = len(self.records)
        self.runner.record_response(ticket.prepared, answered)
        self._ready = None
        self._note(self.records[at], at)

    def _readying(self, request: CallerRequest) -> Flow[PreparedCall]:
        prepared = yield from self.runner.prepare_flow()
        self._ready = PreparedCall(self, request, prepared, len(self.chain), len(self.records))
        return self._ready

    def _hear(self, role: str, message: Any) -> None:
        at = len(self.records)
        say = self.runner.hear if role == "assistant" else self.runner.put
        self._ready = None
        say(read_message_blocks(message))
        self._note(self.records[at], at)
        if role == "assistant":
            # It may have been thought over a form of the list that we sent once and do not know any more.
            self.runner.conversation.distrust_thinking("it came with a list that was not known")

    def _note(self, record: Record, at: int) -> None:
        if not is_caller_message(record):
            return
        self.chain.append(make_record_link(self.chain[-1] if self.chain else START, record))
        self._places.append(at)
        self._heads.append(self.preamble_digest)
        if record.message_id:
            self.replies[record.message_id] = len(self.chain)
            self._first_reply = self._first_reply or len(self.chain)


def _mark_last(messages: list[dict[str, Any]]) -> None:
    content = messages[-1]["content"]
    if isinstance(content, list) and content:
        content[-1]["cache_control"] = {"type": "ephemeral"}
