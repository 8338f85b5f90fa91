"""The conversations of each tenant, and the work on them: in worker threads, but for what is done at once."""

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from threading import Lock
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from everturn.adapters.tracking import CallerRequest, ConversationTracker, PreparedCall, UnsupportedRequest
from everturn.adapters.tracking.adapter_bill import price_unchanged_reply
from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.adapters.tracking.counting import ConversationBusy
from everturn.adapters.tracking.effect_handler import refuse_to_send
from everturn.adapters.tracking.tracker import NOT_RECORDED, NOT_WRITTEN, RequestAbandoned
from everturn.gateway.bodies import (
    TOO_DEEP,
    ReadReply,
    TooLarge,
    UnreadableBody,
    decompress,
    drop_thinking,
    is_event_stream,
    read_at_once,
    read_reply,
    read_request,
    replace_messages,
)
from everturn.gateway.descriptors import count_conversations
from everturn.gateway.failures import describe_failure
from everturn.gateway.holds import options_of_tenant
from everturn.gateway.limits import MIB
from everturn.gateway.malformed import MALFORMED, is_malformed
from everturn.gateway.memory import ConversationMemory
from everturn.gateway.metrics import GatewayMetrics
from everturn.gateway.savings import ListSize, compute_saved, estimate_list, estimate_unmanaged
from everturn.gateway.stores import ConversationStores
from everturn.gateway.values import GatewaySettings
from everturn.history.edits import CacheDeleted, Cleared, Compacted, Offloaded, Trimmed
from everturn.history.records import Usage
from everturn.session.bill import Bill, UsageTotals, price_usage
from everturn.session.upstream import RawResponse, Send

# Edits that take content out of what is sent. Without one, nothing was saved.
REMOVING: Final = (Cleared, Compacted, Offloaded, Trimmed, CacheDeleted)
COUNTED_UNCHANGED: Final = "the client's list was counted as it came"
# A list with more bytes than this is counted as it came: one of small blocks takes thirty times its size in
# memory, and most of a second. Our choice: the text of a window of a million tokens has 4 MB.
MAX_COUNT_BYTES: Final = 8 * MIB


class ClientRequest(NamedTuple):
    """A request for messages as it arrived, and whose it is."""

    body: bytes
    encoding: str
    betas: Sequence[str]
    # Tells the sessions and agents of a client apart; "" if it does not say.
    scope: str


class NotUnderstood(NamedTuple):
    """Why a request is relayed as it came."""

    why: str
    # Everturn failed; otherwise it cannot be managed.
    is_failure: bool = False


# Everturn had too much to do.
NOT_IN_TIME: Final = NotUnderstood("it could not be prepared in time", is_failure=True)


class PlannedCount(NamedTuple):
    """What is sent for a client's count; None for the client's own bytes. What it was made from is not kept:
    it is many times as large, and the answer may take long."""

    body: bytes | None


class RelayedReply(NamedTuple):
    """What was relayed of a reply."""

    pieces: Sequence[bytes]
    content_type: str
    encoding: str
    request_id: str
    # The client or the upstream has disconnected before its end.
    is_cut: bool


class _Usage(msgspec.Struct):
    model: str = ""
    usage: Usage | None = None


_MANAGEMENT: Final = "context_management ("
# As the API names them: clear_tool_uses_20250919.
_EDIT_KIND: Final = re.compile(r"(clear|compact)(_[a-z]{1,12}){0,3}_20\d{6}")
_decode_usage: Final = msgspec.json.Decoder(_Usage).decode


class _OutOfTime(Exception):
    """Nobody waits for a count any more."""


def _check_time(ends: float) -> None:
    if time.monotonic() > ends:
        raise _OutOfTime


def _without_names(why: str) -> str:
    """Why a request is not supported, without what only its client has written: the kinds of its edits."""
    begin, named, rest = why.partition(_MANAGEMENT)
    kinds, _, end = rest.rpartition(")")
    if not named or all(map(_EDIT_KIND.fullmatch, kinds.split(", "))):
        return why
    return begin + _MANAGEMENT.removesuffix(" (") + end


class TenantConversations:
    """The conversations of one tenant. Safe to use from threads."""

    def __init__(
        self,
        tracker: ConversationTracker,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        memory: ConversationMemory,
    ) -> None:
        self.tracker = tracker
        self._memory = memory
        self._limits = settings.limits
        self._metrics = metrics
        self._sizes: WeakKeyDictionary[TrackedConversation, ListSize] = WeakKeyDictionary()
        self._summaries: WeakKeyDictionary[TrackedConversation, Decimal] = WeakKeyDictionary()
        self._removed: WeakKeyDictionary[TrackedConversation, tuple[bool, int]] = WeakKeyDictionary()
        # What the replies to requests have cost that are in no conversation.
        self.unrecorded = UsageTotals()
        self._lock = Lock()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def observe(self, given: ClientRequest) -> PreparedCall | NotUnderstood:
        """Record a request that is sent as it came."""

        def prepare(read: CallerRequest, _: Mapping[str, Any]) -> PreparedCall:
            return self.tracker.prepare(read, refuse_to_send)

        return self._understand(given, prepare, observe=True)

    def observe_at_once(self, given: ClientRequest) -> PreparedCall | NotUnderstood | None:
        """The same on the event loop, for a request that continues a conversation in memory; None for any
        other. It is written with its reply, or by `keep_request`."""
        try:
            fields = read_at_once(
                given.body, given.encoding, max_messages=self._limits.messages, scope=given.scope
            )
            # What a thread continues may have to be read from the store.
            if fields is None or fields.get("thread") is not None:
                return None
            read = self.tracker.read(fields, given.betas, scope=given.scope, observe=True)
            if isinstance(read, UnsupportedRequest):
                return NotUnderstood(_without_names(read.why))
            return self.tracker.observe_at_once(read)
        except RecursionError:
            return None
        except Exception as problem:
            # The other way may succeed: it reads the conversation from its store.
            self.tracker.report_problem("a request was recorded in a second attempt", repr(problem))
            return None

    def keep_request(self, call: PreparedCall) -> None:
        """Write a request of `observe_at_once` whose reply has not come yet."""
        try:
            self.tracker.keep_request(call)
            self._memory.note(call.tracked)
        except Exception as problem:
            why = describe_failure(problem)
            self.tracker.report_failure(problem, call, why=why, outcome=NOT_WRITTEN)
            self._metrics.note_store(problem)

    def prepare(
        self,
        given: ClientRequest,
        send: Send,
        on_read: Callable[[CallerRequest, bool], None],
        hold: Send | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> PreparedCall | NotUnderstood:
        """Decide what is sent. `on_read` is told the request, and whether its reply is streamed, before
        `send` is used for a summary. `hold` sends holds after it. `is_wanted`: somebody waits for it."""

        def prepare(read: CallerRequest, fields: Mapping[str, Any]) -> PreparedCall:
            on_read(read, fields.get("stream") is True)
            return self.tracker.prepare(read, send, hold, is_wanted)

        return self._understand(given, prepare, observe=False)

    def _understand(
        self,
        given: ClientRequest,
        prepare: Callable[[CallerRequest, Mapping[str, Any]], PreparedCall],
        *,
        observe: bool,
    ) -> PreparedCall | NotUnderstood:
        fields: Mapping[str, Any] = {}
        try:
            fields = self.read_fields(given)
            read = self.tracker.read(fields, given.betas, scope=given.scope, observe=observe)
            if isinstance(read, UnsupportedRequest):
                return NotUnderstood(_without_names(read.why))
            # Not replaced by what we would send: the API says what is wrong with it.
            if not observe and not isinstance(fields.get("stream"), bool | None):
                return NotUnderstood("its stream is not a boolean")
            prepared = prepare(read, fields)
            self._memory.note(prepared.tracked)
            self._metrics.note_store(None)
            return prepared
        except UnreadableBody as problem:
            return NotUnderstood(str(problem))
        except RecursionError:
            # The parser goes deeper than what works on the values.
            return NotUnderstood(TOO_DEEP)
        except RequestAbandoned as problem:
            # What became of it was told when it was abandoned.
            return NotUnderstood(str(problem), is_failure=True)
        except Exception as problem:
            if is_malformed(fields):
                return NotUnderstood(MALFORMED)
            why = describe_failure(problem)
            self.tracker.report_failure(problem, why=why)
            self._metrics.note_store(problem)
            return NotUnderstood(why, is_failure=True)

    def read_fields(self, given: ClientRequest) -> Mapping[str, Any]:
        """The fields of a request; raises `UnreadableBody`."""
        limits = self._limits
        return read_request(
            given.body,
            given.encoding,
            max_bytes=limits.decompressed_bytes,
            max_messages=limits.messages,
            scope=given.scope,
        )

    # ── counts ───────────────────────────────────────────────────────────────────────────────────

    def plan_count(
        self, given: ClientRequest, ends: float, *, has_thinking: bool = True
    ) -> PlannedCount | NotUnderstood:
        """What is sent for a count of a client's list; without thinking, after a refusal, None if thinking
        cannot be the reason. Nothing is changed. It is given up at `ends`, by the monotonic clock, and so is
        waiting for a conversation that somebody works on."""
        limits = self._limits
        fields: Mapping[str, Any] = {}
        try:
            _check_time(ends)
            content = b"".join(decompress([given.body], given.encoding, MAX_COUNT_BYTES))
            if len(content) > MAX_COUNT_BYTES:
                raise TooLarge
            _check_time(ends)
            # Not kept: it would take the place of the request that the next one continues.
            fields = read_request(
                content, "", max_bytes=limits.decompressed_bytes, max_messages=limits.messages, is_kept=False
            )
            if fields.get("thread") is not None:
                # The whole list would be counted in addition to what the API has of the thread.
                return NotUnderstood("it counts in a thread")
            _check_time(ends)
            plan = self.tracker.plan_count(fields, given.betas, scope=given.scope, ends=ends)
            if plan is None:
                return NotUnderstood("it is not supported")
            _check_time(ends)
            messages = plan.encoded_messages() if has_thinking else plan.encoded_messages_without_thinking()
            if messages is None:
                return PlannedCount(None)
            _check_time(ends)
            return PlannedCount(replace_messages(content, messages))
        except TooLarge:
            return NotUnderstood("it is too large", is_failure=True)
        except _OutOfTime:
            return NOT_IN_TIME
        except UnreadableBody as problem:
            return NotUnderstood(str(problem))
        except RecursionError:
            return NotUnderstood(TOO_DEEP)
        except ConversationBusy:
            return NotUnderstood("its conversation is busy", is_failure=True)
        except Exception as problem:
            if is_malformed(fields):
                return NotUnderstood(MALFORMED)
            return self._report_uncounted(problem)

    def leave_out_thinking(self, given: ClientRequest) -> bytes | None:
        """The client's own list without its thinking; None if it has none, or cannot be read."""
        try:
            limit = self._limits.decompressed_bytes
            return drop_thinking(b"".join(decompress([given.body], given.encoding, limit)))
        except (UnreadableBody, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None
        except Exception as problem:
            self._report_uncounted(problem)
            return None

    def _report_uncounted(self, problem: Exception) -> NotUnderstood:
        why = describe_failure(problem)
        self.tracker.report_problem(f"{why}; {COUNTED_UNCHANGED}", repr(problem))
        return NotUnderstood(why, is_failure=True)

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def record(self, call: PreparedCall, given: ClientRequest, reply: RelayedReply) -> str:
        """Record a reply. Returns why that was not possible, or ""."""
        try:
            read = read_reply(
                reply.pieces, reply.content_type, reply.encoding, max_bytes=self._limits.reply_bytes
            )
            self._record(call, given, read, reply)
        except UnreadableBody as problem:
            self.tracker.report_problem("a reply was not recorded", str(problem))
            return f"a reply was not recorded: {problem}"
        except Exception as problem:
            why = describe_failure(problem)
            self.tracker.report_failure(problem, call, why=why, outcome=NOT_RECORDED)
            self._metrics.note_store(problem)
            return f"a reply was not recorded: {why}"
        return ""

    def count_unrecorded(self, reply: RelayedReply) -> str:
        """Count what a reply has cost whose request was not understood. Always returns "": nobody is told
        that it could not be read, because the request was reported already."""
        try:
            read = read_reply(
                reply.pieces, reply.content_type, reply.encoding, max_bytes=self._limits.reply_bytes
            )
            said = _decode_usage(read.body)
            spent = price_unchanged_reply(read.body, self.tracker.parts.clock().date())
        except (UnreadableBody, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return ""
        if said.usage is not None and spent is not None:
            with self._lock:
                self.unrecorded += spent
            self._metrics.add_usage(said.usage)
            self._metrics.add_dollars("conversation", spent.dollars)
        return ""

    def _record(self, call: PreparedCall, given: ClientRequest, read: ReadReply, reply: RelayedReply) -> None:
        raw = RawResponse(read.body, reply.request_id)
        try:
            said = _decode_usage(read.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise UnreadableBody("it was cut off" if reply.is_cut else "it is not JSON") from None
        except RecursionError:
            raise UnreadableBody(TOO_DEEP) from None
        price = None
        try:
            # A stream says itself where it ends: a client may close it then, before the upstream does.
            if read.problem or (reply.is_cut and not is_event_stream(reply.content_type)):
                if said.usage is not None:
                    self.tracker.record_partial(call, raw)
            else:
                price = self.tracker.record_response(call, raw)
                self._memory.note(call.tracked)
                self._metrics.note_store(None)
        finally:
            # A reply is paid before it is written, so it is counted also if its store fails.
            if said.usage is not None:
                spent = price or price_usage(said.usage, said.model, self.tracker.parts.clock().date())
                self._metrics.add_usage(said.usage)
                self._metrics.add_dollars("conversation", spent.dollars)
        if said.usage is not None and call.body and not call.request.is_observed:
            self._count_saved(call, given, said.model, said.usage)

    def _count_saved(self, call: PreparedCall, given: ClientRequest, model: str, usage: Usage) -> None:
        tracked = call.tracked
        is_reduced = self._has_removed(tracked)
        before = self._sizes.get(tracked)
        now = self._sizes[tracked] = estimate_list(
            usage, len(given.body), len(call.body), before, time.monotonic(),
            is_added=call.request.known > 0, is_reduced=is_reduced,
        )  # fmt: skip
        spent = tracked.ledger.bill.parts["compact"].dollars
        summaries = spent - self._summaries.get(tracked, Decimal())
        self._summaries[tracked] = spent
        if is_reduced:
            ttl = call.request.parameters.lifetime.ttl
            unmanaged = estimate_unmanaged(usage, now, before, ttl)
            today = self.tracker.parts.clock().date()
            self._metrics.add_saved(compute_saved(usage, unmanaged, summaries, model, today))

    def _has_removed(self, tracked: TrackedConversation) -> bool:
        """Whether something was taken out of what is sent. Each record is looked at once."""
        found, seen = self._removed.get(tracked, (False, 0))
        records = tracked.records
        found = found or any(isinstance(each.edit, REMOVING) for each in records[seen:])
        self._removed[tracked] = found, len(records)
        return found


class Tenants:
    """The conversations of all tenants. Tenants share nothing: each has a tracker and a store of its own."""

    def __init__(
        self, settings: GatewaySettings, stores: ConversationStores, metrics: GatewayMetrics
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._metrics = metrics
        self._lock = Lock()
        self._known: dict[str, TenantConversations] = {}
        # Those that replicas share have no files.
        most = sys.maxsize if stores.is_shared else count_conversations()
        self._memory = ConversationMemory(settings.limits.memory_bytes, self._list_trackers, most)
        metrics.watch_memory(self._memory)

    def _list_trackers(self) -> list[ConversationTracker]:
        with self._lock:
            return [each.tracker for each in self._known.values()]

    def find(self, tenant: str) -> TenantConversations:
        with self._lock:
            if tenant not in self._known:
                given = self._settings.parts

                def listen(event: Any) -> None:
                    self._metrics.listen(event)
                    given.listen(event)

                parts = msgspec.structs.replace(
                    given,
                    options=options_of_tenant(given.options, tenant),
                    listen=listen,
                    transcripts=self._stores.find_transcripts(tenant),
                )
                tracker = ConversationTracker(parts)
                self._known[tenant] = TenantConversations(
                    tracker, self._settings, self._metrics, self._memory
                )
            return self._known[tenant]

    @property
    def bill(self) -> Bill:
        """What all calls have cost, summaries included."""
        bills = [each.tracker.bill for each in self._known.values()]
        unrecorded = sum((each.unrecorded for each in self._known.values()), UsageTotals())
        total: dict[Any, UsageTotals] = {"conversation": unrecorded}
        for bill in bills:
            for purpose, spent in bill.parts.items():
                total[purpose] = total.get(purpose, UsageTotals()) + spent
        return Bill(total)

    def close(self) -> None:
        for each in self._known.values():
            each.tracker.close()
        self._stores.close()
