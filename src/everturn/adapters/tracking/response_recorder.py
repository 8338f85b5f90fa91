"""Records the provider's response to a prepared call: what it cost, in which conversation it belongs, whether
the cache broke.

    reply = recorder.read(call, raw)      paid; None if there is nothing to record
    recorder.record(call, reply)          in the conversation of the call

The caller holds the lock of the call's conversation. While the response was pending, another request may have
continued that conversation, or it was removed from memory: then the reply is recorded where the store has its
request, or in a fork.
"""

import time
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from everturn.adapters.tracking.adapter_bill import AdapterBill
from everturn.adapters.tracking.chain import is_caller_message, is_reply
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.holds import TrackedHolds
from everturn.adapters.tracking.loaded_conversations import ALWAYS_CHANGED, MAX_TRIES, LoadedConversations
from everturn.adapters.tracking.parts import TrackerParts
from everturn.adapters.tracking.recogniser import Recogniser
from everturn.adapters.tracking.reporter import Reporter
from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.economy.trust import HoldCheck
from everturn.engine.wire import ParsedReply
from everturn.errors import StoreError
from everturn.history.records import Usage
from everturn.session.bill import UsageTotals
from everturn.session.cache_break_reports import ReportNotWritten, write_cache_break_report
from everturn.session.store.jsonl_store import FILES_SUFFIX
from everturn.session.upstream import RawResponse

# How old the state of an observed conversation may be. Our choice.
STATE_SECONDS: Final = 10.0


class PaidReply(NamedTuple):
    parsed: ParsedReply
    spent: UsageTotals


class ResponseRecorder:
    def __init__(
        self,
        parts: TrackerParts,
        loaded: LoadedConversations,
        recogniser: Recogniser,
        bill: AdapterBill,
        holds: TrackedHolds,
        reporter: Reporter,
    ) -> None:
        self._parts = parts
        self._loaded = loaded
        self._recogniser = recogniser
        self._bill = bill
        self._holds = holds
        self._reporter = reporter

    def read(self, call: PreparedCall, raw: RawResponse) -> PaidReply | None:
        """The reply, which is paid; None if there is nothing to record."""
        try:
            parsed = call.tracked.wire.parse_reply(raw.body, request_id=raw.request_id)
        except msgspec.DecodeError as problem:
            # The provider's fault: the caller has the same bytes, and asks again or gives up.
            self._reporter.report_problem(
                "the provider's answer could not be read and is not recorded", str(problem)
            )
            return None
        reply = parsed.response.reply
        spent = self._bill.pay_reply(reply.usage or Usage(), reply.model)
        # An empty reply is not recorded: the next request shows what the caller kept of it.
        return PaidReply(parsed, spent) if parsed.response.blocks else None

    def record(self, call: PreparedCall, reply: PaidReply) -> None:
        tracked = call.tracked
        if tracked.is_evicted and self._record_in_store(call, reply):
            return
        if not tracked.is_waiting_for(call) or tracked.is_evicted:
            shared = tracked.known.first(call.links)
            tracked = self._recogniser.factory.fork(call.request, tracked, shared, call.records)
        self._record_in(tracked, call, reply)

    def record_partial(self, call: PreparedCall, raw: RawResponse) -> None:
        """Keep what arrived of a response that was cut off: it is paid, and stored beside the transcript. It
        is not part of the conversation: the next request shows what the caller kept of it."""
        tracked = call.tracked
        reply = tracked.wire.parse_reply(raw.body, request_id=raw.request_id).response.reply
        with tracked.lock.acquire():
            self._bill.pay("conversation", reply.usage or Usage(), reply.model, tracked)
            if tracked.transcript.store is not None:
                name = f"partial-{reply.message_id or self._parts.new_id()}.json"
                tracked.transcript.store.write_blob(name, raw.body)

    def pay_abandoned(self, call: PreparedCall, raw: RawResponse) -> None:
        """Add what is known of an abandoned response to the bill. The lock is not needed, and not taken: an
        event loop may be here while one of its tasks holds it."""
        reply = call.tracked.wire.parse_reply(raw.body, request_id=raw.request_id).response.reply
        self._bill.pay("conversation", reply.usage or Usage(), reply.model, call.tracked)

    def _record_in_store(self, call: PreparedCall, reply: PaidReply) -> bool:
        """For a conversation that was removed from memory, because of an error or because another replica has
        continued it: record the reply where the store has its request. False if a fork has to be made."""
        for _ in range(MAX_TRIES):
            again = self._recogniser.load_again(call)
            if again is None:
                return False
            with self._loaded.in_use(again), again.lock.acquire():
                if not self._loaded.resume(again):
                    continue
                after = again.records[call.records :]
                if len(again.records) >= call.records and not any(map(is_caller_message, after)):
                    # Another replica that got the same request may have compacted the conversation.
                    self._record_in(again, call, reply)
                    return True
                again.transcript.release()
                # The caller's next request has brought it, or the caller got another reply to this one.
                return is_reply(after, reply.parsed.response.blocks)
        raise StoreError(ALWAYS_CHANGED)

    def _record_in(self, tracked: TrackedConversation, call: PreparedCall, reply: PaidReply) -> None:
        with self._loaded.forget_on_error(tracked):
            recorded = tracked.record_response(call, reply.parsed)
            if isinstance(recorded.verdict, DetectedBreak):
                self._report_break(tracked, recorded.verdict)
            self._report_key_changes(tracked)
            if self._holds.is_on:
                self._begin_holds(tracked, call, recorded.hold_check)
            if call.request.is_in_thread:
                tracked.keep_preamble()
            self._bill.charge_reply(reply.spent, tracked)
        # An observed call has decided nothing: what the state says of it only helps to explain later ones.
        is_recent = time.monotonic() - tracked.state_written < STATE_SECONDS
        tracked.is_state_owed = call.request.is_observed and is_recent
        if not tracked.is_state_owed:
            tracked.write_state()
        tracked.transcript.release()

    def _report_break(self, tracked: TrackedConversation, verdict: DetectedBreak) -> None:
        """Write the difference between the two prompts to a file, if there is a transcript (CB-4)."""
        conversation = tracked.runner.conversation
        preambles = conversation.detector.preambles(conversation.setting.source)
        if preambles is not None and tracked.transcript.store is not None:
            folder = Path(tracked.transcript.path + FILES_SUFFIX)
            written = write_cache_break_report(verdict, preambles, folder, at=self._parts.clock())
            if isinstance(written, ReportNotWritten):
                self._reporter.report_problem("a cache break report could not be written", written.why)

    def _report_key_changes(self, tracked: TrackedConversation) -> None:
        """Tell beside the bill what a cache key that keeps changing costs, and once in the log (CB-3)."""
        found = tracked.runner.repeated_changes
        if found is None:
            return
        tracked.ledger.note(found.text, about="cache key")
        self._bill.note(found.text, about=f"cache key {tracked.id}")
        if found.is_new:
            self._reporter.warn_once(f"cache key: {', '.join(found.parts)}", found.text)

    def _begin_holds(self, tracked: TrackedConversation, call: PreparedCall, check: HoldCheck | None) -> None:
        try:
            if tracked is not call.tracked:
                tracked.hold_connection = call.tracked.hold_connection
            self._holds.begin(tracked, call, check)
        except Exception as problem:
            # The reply is recorded; a pause without holds only costs money.
            self._reporter.report_problem("holds could not be planned", repr(problem))
