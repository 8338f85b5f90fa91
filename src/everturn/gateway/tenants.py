"""The conversations of each tenant, and the work on them. Everything here runs in worker threads."""

import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from threading import Lock
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from everturn.adapters.tracking import CallerRequest, ConversationTracker, PreparedCall, UnsupportedRequest
from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.adapters.tracking.effect_handler import refuse_to_send
from everturn.adapters.tracking.tracker import RequestAbandoned
from everturn.gateway.bodies import TOO_DEEP, ReadReply, UnreadableBody, read_reply, read_request
from everturn.gateway.failures import describe_failure
from everturn.gateway.holds import options_of_tenant
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

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def observe(self, given: ClientRequest) -> PreparedCall | NotUnderstood:
        """Record a request that is sent as it came."""

        def prepare(read: CallerRequest, _: Mapping[str, Any]) -> PreparedCall:
            return self.tracker.prepare(read, refuse_to_send)

        return self._understand(given, prepare, observe=True)

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
        try:
            fields = self.read_fields(given)
            read = self.tracker.read(fields, given.betas, scope=given.scope, observe=observe)
            if isinstance(read, UnsupportedRequest):
                return NotUnderstood(read.why)
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
            self.tracker.report_failure(problem, call, why=why)
            self._metrics.note_store(problem)
            return f"a reply was not recorded: {why}"
        return ""

    def _record(self, call: PreparedCall, given: ClientRequest, read: ReadReply, reply: RelayedReply) -> None:
        raw = RawResponse(read.body, reply.request_id)
        said = msgspec.json.decode(read.body, type=_Usage)
        if read.problem or reply.is_cut:
            if said.usage is not None:
                self.tracker.record_partial(call, raw)
        else:
            self.tracker.record_response(call, raw)
            self._memory.note(call.tracked)
        if said.usage is not None:
            self._count(call, given, said.model, said.usage)

    def _count(self, call: PreparedCall, given: ClientRequest, model: str, usage: Usage) -> None:
        today = self.tracker.parts.clock().date()
        self._metrics.add_usage(usage)
        self._metrics.add_dollars("conversation", price_usage(usage, model, today).dollars)
        if call.request.is_observed or not call.body:
            return
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
        self._memory = ConversationMemory(settings.limits.memory_bytes, self._list_trackers)
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
        total: dict[Any, UsageTotals] = {}
        for bill in bills:
            for purpose, spent in bill.parts.items():
                total[purpose] = total.get(purpose, UsageTotals()) + spent
        return Bill(total)

    def close(self) -> None:
        for each in self._known.values():
            each.tracker.close()
        self._stores.close()
