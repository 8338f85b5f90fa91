"""One tracked conversation: everturn's log of it, next to the message list that the caller keeps.

It holds the log and the engine, and the caller's list with the position of each block in the log
(`caller_list.py`). The log is append-only, so its state when a message arrived is a prefix of its records. A
fork needs nothing else. `recogniser.py` decides which conversation a request belongs to.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from everturn.adapters.tracking.begun_reply import end_as_asked
from everturn.adapters.tracking.caller_list import CallerList, KnownList, SummarizedMatch, first_in_view
from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.chain import end_link, is_caller_message, record_links
from everturn.adapters.tracking.effect_handler import encode_summary_request
from everturn.adapters.tracking.fair_lock import FairLock
from everturn.adapters.tracking.fork_records import take_shared_records
from everturn.adapters.tracking.kept_preambles import KeptPreamble, write_preamble
from everturn.adapters.tracking.message_mark import SUMMARY_MARK, mark_end, mark_last_block
from everturn.adapters.tracking.reporter import log
from everturn.adapters.tracking.respelling import Alignment, Rewriting
from everturn.adapters.tracking.rewriting import RewrittenRecords, rewrite_records
from everturn.adapters.tracking.system_messages import encode_request
from everturn.adapters.tracking.transcript_folder import TranscriptFile
from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.decide.compact.unanswered import has_open_calls
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.decide.economy.trust import HoldCheck
from everturn.decide.effects import AskModel
from everturn.decide.events import EventContext
from everturn.engine import ConversationSettings, Flow
from everturn.engine.wire import ParsedReply, Wire
from everturn.errors import UsageError
from everturn.history.blocks import fields_of
from everturn.history.edits import Edit
from everturn.history.records import Record, make_edit_record
from everturn.measure.outline import Preamble
from everturn.session.bill import Ledger
from everturn.session.cache_holder import CacheHolder, HoldConnection
from everturn.session.conversation_runner import ConversationRunner, PreparedRequest
from everturn.session.state_file import SessionState, write_state
from everturn.session.tool_calls import ToolCalls
from everturn.view.fragments.recalled import NAME as RECALL
from everturn.view.requests import build_request
from everturn.wire.anthropic import Request

# Why the thinking of a reply is not trusted that did not come from a call here.
UNKNOWN_LIST: Final = "it came with a message list that was not known"


class PreparedCall(msgspec.Struct, frozen=True):
    """A request ready to be sent for a caller, and the conversation that its response belongs to."""

    tracked: "TrackedConversation"
    request: CallerRequest
    # None if the request is observed: it is sent as it came.
    prepared: PreparedRequest | None
    body: bytes
    # Length of the chain and the log. If they have grown when the response arrives, it goes to a fork.
    links: int
    records: int

    @property
    def betas(self) -> tuple[str, ...]:
        """The betas that the header must name, including the caller's own."""
        return self.prepared.betas if self.prepared else self.request.parameters.betas

    def fields(self) -> dict[str, Any]:
        """The body, decoded."""
        fields: dict[str, Any] = msgspec.json.decode(self.body)
        if (mark := self.request.message_mark) is not None:
            mark_last_block(fields, mark)
        return fields


class RecordedReply(NamedTuple):
    """Whether the provider's cache broke, and what the reply says about the hold before it."""

    verdict: DetectedBreak | NoBreak
    hold_check: HoldCheck | None = None


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
        self._log = runner.conversation.log
        self.transcript = transcript
        self.ledger = ledger
        self.lineage = lineage or id
        self.lock = FairLock()
        # Removed from memory: callers that waited for the lock must look the conversation up again.
        self.is_evicted = False
        # When its state was last written, on the monotonic clock, and whether it has changed since.
        self.state_written = float("-inf")
        self.is_state_owed = False
        # How many callers work on it or wait for its lock.
        self.users = 0
        self.known = KnownList(self.records, caller_list)
        # How many messages the caller's list has.
        self.messages = sum(map(is_caller_message, self.records))
        self.preamble = Preamble()
        self.preamble_digest = b""
        self.last_request: CallerRequest | None = None
        self.tool_calls = ToolCalls(runner.conversation)
        # Keeps the provider's cache alive between two requests, where that is switched on.
        self.holder: CacheHolder | None = None
        self.hold_connection = HoldConnection()
        self._ready: PreparedCall | None = None
        self._requested: CompactionRequest | None = None

    @property
    def records(self) -> Sequence[Record]:
        return self._log.records

    @property
    def is_awaiting_reply(self) -> bool:
        """Whether a request was prepared whose response is not recorded yet."""
        return self._ready is not None

    def inherit_preamble(self, parent: "TrackedConversation") -> None:
        """For a fork: its shared messages were sent with the parent's system prompt and tools."""
        self.preamble, self.preamble_digest = parent.preamble, parent.preamble_digest
        self.known.inherit_preambles(parent.known)

    def append_records(self, records: Sequence[Record], caller_list: CallerList, state: SessionState) -> None:
        """For a copy: what another process has recorded since, and its state."""
        self.runner.add_from_elsewhere(records, state.baselines)
        self.runner.conversation.compaction_state.remember(state.breaker, state.refill)
        self.known.extend(caller_list, self.preamble_digest)
        self._ready = None

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def can_continue(self, request: CallerRequest) -> bool:
        """Whether the request starts with all messages of this conversation. It no longer does if another
        caller has continued the conversation."""
        if self.is_evicted:
            return False
        return self.known.is_start_of(request) or self._align(request) is not None

    def write_state(self) -> None:
        """Keep beside the transcript what a restart needs and the records do not hold."""
        if self.transcript.store is None:
            return
        conversation = self.runner.conversation
        compaction, baselines = conversation.compaction_state, dict(conversation.detector.baselines)
        state = SessionState(
            baselines=baselines,
            asides=self.ledger.asides,
            breaker=compaction.breaker,
            refill=compaction.refill,
            settled=self.known.settled_list(),
            economy=conversation.economy.state,
            decisions=conversation.economy.decisions,
            lost_holds=conversation.economy.lost_holds,
            head=self.tool_calls.head,
            preamble=self.transcript.preamble,
        )
        write_state(self.transcript.store, state)
        self.state_written, self.is_state_owed = time.monotonic(), False

    def keep_preamble(self) -> None:
        """For a thread: a replica or a later process that continues it needs the system prompt and tools,
        which are not sent again. They are written once."""
        transcript, kept = self.transcript, KeptPreamble(self.preamble, self.preamble_digest)
        if transcript.store is None or not kept.digest:
            return
        if transcript.preamble != kept.name:
            write_preamble(transcript.store, kept)
            transcript.preamble = kept.name
            self.write_state()

    def respelled_links(self, request: CallerRequest) -> int | None:
        """How many links of the request are this conversation with a part of the newest message left out;
        None if they are not."""
        found = None if self.known.is_start_of(request) else self._align(request)
        return found.links if found else None

    def prepare_flow(self, request: CallerRequest, setting: ConversationSettings) -> Flow[PreparedCall]:
        """The request to send. A retry of a request without a response gives the same bytes."""
        if (ready := self._find_ready(request)) is not None:
            return ready
        self._take_request(request, setting)
        if self._requested is not None and has_open_calls(self._log.view.records):
            # As in a session: between calls and their results, the question stays with them (CP-37).
            yield from self._compact_as_requested()
        self._take_messages(request)
        self.runner.keep_appended()
        return (yield from self._prepare(request))

    def observe(self, request: CallerRequest, setting: ConversationSettings) -> PreparedCall:
        """The same for a request that is sent as it came, and nothing is written: its reply does that, or
        `keep_appended` of the runner. `can_observe` must hold."""
        if (ready := self._find_ready(request)) is not None:
            return ready
        self._take_request(request, setting)
        self._take_messages(request)
        return self._observe(request)

    def can_observe(self, request: CallerRequest) -> bool:
        """Whether `observe` can take a request that is meant for this conversation."""
        is_plain = self._requested is None and not self.is_evicted and not self.transcript.is_shared
        return is_plain and self.known.is_start_of(request)

    def _find_ready(self, request: CallerRequest) -> PreparedCall | None:
        """What was prepared for the same request before, if no response was recorded since."""
        ready = self._ready
        return ready if ready and ready.request.fingerprint == request.fingerprint else None

    def _take_request(self, request: CallerRequest, setting: ConversationSettings) -> None:
        """Take over how the caller spells its list, and what the request says beside it."""
        if not self.known.is_start_of(request) and (spelling := self._align(request)) is not None:
            self.known.take_spelling(request, spelling)
        self.runner.conversation.setting = setting
        self.preamble, self.preamble_digest = request.preamble, request.preamble_digest
        self.last_request = request.without_messages()

    def _take_messages(self, request: CallerRequest) -> None:
        """Append what the request adds to the conversation."""
        before = 0 if not request.known else self.messages
        unknown = ""
        for message in request.new_messages(len(self.known.chain)):
            self._ready = None
            is_reply = message.role == "assistant"
            is_observed = request.is_observed and not is_reply
            self.runner.take("assistant" if is_reply else "user", message.blocks, is_observed=is_observed)
            if is_reply:
                # Its thinking may be bound to a prompt that was sent earlier and is no longer known. What was
                # recorded before it keeps its prompt: clients change replies, such as an input of a call.
                unknown = unknown or self.records[-1].uuid
                self.runner.conversation.distrust_thinking(UNKNOWN_LIST, unknown)
            self.known.has_system_text |= message.role == "system"
            new = request.chain[len(self.known.chain) : message.links]
            self.known.add(len(self.records) - 1, new, self.preamble_digest)
        self.messages = before + len(request.messages)

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
        return (call.links, call.records) == (len(self.known.chain), len(self.records))

    @property
    def wire(self) -> Wire:
        return self.runner.conversation.setting.provider_wire

    def record_response(self, call: PreparedCall, parsed: ParsedReply) -> RecordedReply:
        at = len(self.records)
        if call.prepared is None:
            recorded = RecordedReply(self.runner.record_observed_reply(parsed))
        else:
            settled = self.runner.record_reply(call.prepared, parsed).settled
            recorded = RecordedReply(settled.verdict, settled.hold_check)
        self._ready = None
        links = record_links(self.known.last_link, self.records[at])
        end = end_link(links[-1] if links else self.known.last_link, [self.records[at]])
        if end is not None:
            links.append(end)
        self.known.add(at, links, self.preamble_digest)
        self.messages += 1
        return recorded

    def request_compaction(self, instructions: str) -> None:
        """Compact before the next request, at any size (CP-27, CP-39)."""
        self._requested = CompactionRequest(trigger="manual", instructions=instructions)
        self._ready = None

    def take_requested_compaction(self, parent: "TrackedConversation") -> None:
        """For a fork that goes on in place of its parent: nothing that it lacks was answered."""
        self._requested, parent._requested = parent._requested, None

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
        yield from self._compact_as_requested()
        if request.is_observed:
            return self._observe(request)
        prepared = yield from self.runner.prepare_flow()
        return self._make_ready(request, prepared, self._spell(request, prepared))

    def _compact_as_requested(self) -> Flow[None]:
        requested, self._requested = self._requested, None
        if requested is None:
            return
        outcome = yield from self.runner.compact_flow(requested)
        if not isinstance(outcome, Compaction):
            # Whoever has asked got no answer then: the compaction is made for this request.
            log.warning("everturn: the compaction that was asked for was not made: %s", outcome.why)

    def _spell(self, request: CallerRequest, prepared: PreparedRequest) -> bytes:
        """The bytes of a request as the caller's would be, where the log cannot say all of that."""
        messages = prepared.turn.captured.messages
        is_begun = bool(messages) and messages[-1].role == "assistant"
        if not (self.known.has_system_text or is_begun):
            return prepared.body
        captured = build_request(prepared.turn.captured, prepared.turn.breakpoints)
        if is_begun:
            ended = tuple(end_as_asked(captured.messages, request))
            captured = msgspec.structs.replace(captured, messages=ended)
        return encode_request(
            captured, native=request.has_system_messages, has_config=request.has_message_config
        )

    def _observe(self, request: CallerRequest) -> PreparedCall:
        self.runner.observe_call()
        return self._make_ready(request, None, b"")

    def _make_ready(
        self, request: CallerRequest, prepared: PreparedRequest | None, body: bytes
    ) -> PreparedCall:
        self._ready = PreparedCall(self, request, prepared, body, len(self.known.chain), len(self.records))
        return self._ready

    def encode_hold(self, request: Request) -> bytes:
        """The bytes of a hold, spelled as the last request was."""
        last = self.last_request
        if self.known.has_system_text and last is not None:
            body = encode_request(
                request, native=last.has_system_messages, has_config=last.has_message_config
            )
        else:
            body = request.to_bytes()
        return body if last is None or last.message_mark is None else mark_end(body, last.message_mark)

    def encode_summary(self, effect: AskModel) -> bytes:
        """The bytes of a summary request. One that repeats the conversation is marked as its requests are."""
        last = self.last_request
        # The caller may have stopped using system messages with this request, for a model that refuses them.
        body = encode_summary_request(effect, native=last is not None and last.has_system_messages)
        if effect.parent is None or last is None or last.message_mark is None:
            return body
        return mark_end(body, SUMMARY_MARK)

    def align_summarized(self, request: CallerRequest, *, rewrites: bool) -> SummarizedMatch | None:
        """How far the request is this conversation, if it lacks a part of what is summarized. `rewrites`: or
        if it has a message of it that the same caller has written anew."""
        summarized, last = first_in_view(self.runner.conversation.log), self.last_request
        if not summarized:
            return None
        is_same_caller = last is not None and last.fields.get("metadata") == request.fields.get("metadata")
        rewrites = rewrites and is_same_caller and self.preamble_digest == request.preamble_digest
        return self.known.align_summarized(request, summarized, rewrites=rewrites)

    def rewrite(self, request: CallerRequest, rewriting: Rewriting, cut: int) -> RewrittenRecords | None:
        """The records before `cut` with the message as the request has it now; None if a fork with them would
        lose the compaction."""
        return rewrite_records(take_shared_records(self.records, cut), request, rewriting)

    def _align(self, request: CallerRequest) -> Alignment | None:
        found = self.known.align(request, self.last_request, self.preamble_digest)
        if found is not None:
            return found
        match = self.align_summarized(request, rewrites=False)
        return match.spelling if match and match.is_whole(self.records) else None
