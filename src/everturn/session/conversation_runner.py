"""Run a conversation with a provider: the engine decides, the runner sends and records.

Time and ids come from the caller. The runner makes no decisions: it performs the effects of a turn and
appends the reply unchanged, byte for byte.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, Final, Literal, NoReturn, TypeVar

import msgspec

from everturn.decide.cache_breaks import Baseline, DetectedBreak, NoBreak
from everturn.decide.compact.triggers import Proposal, ProposalResponse
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionRequest
from everturn.decide.effects import EffectResult
from everturn.decide.events import (
    Event,
    EventContext,
    KeyChangesRepeated,
    find_failure_reason,
    make_cache_broken,
    make_hold_checked,
    make_micro_compacted,
    make_prediction_missed,
    make_repaired,
)
from everturn.decide.micro.declarative import AppliedContextEdit
from everturn.engine import CompactionOutcome, Conversation, Flow, ReplyAssessment, Turn
from everturn.engine.wire import ParsedReply, Wire
from everturn.errors import ContextFullError, EverturnError, UpstreamError, UsageError
from everturn.history.blocks import Block, result_block, text_block
from everturn.history.edits import ServerCleared
from everturn.history.records import Record, RecordKind, ReplyMeta, Usage, make_edit_record
from everturn.history.repair import Repair
from everturn.session.bill import price_usage
from everturn.session.drivers import EffectHandler, drive
from everturn.session.effect_handler import LocalEffectHandler
from everturn.session.key_change_watch import KeyChangeWatch, RepeatedKeyChanges
from everturn.session.upstream import (
    RawResponse,
    Send,
    Stream,
    as_stream,
    clamp_usage,
    drain,
    parse_reply,
)
from everturn.wire.anthropic import MessagePieces, Response

T = TypeVar("T")
# The step that is about to run.
StepKind = Literal["turn", "compaction"]
# Why the provider refuses a request: it does not fit, or thinking or something else in it is not accepted.
Refusal = Literal["too_long", "thinking", "invalid"]
BAD_REQUEST: Final = 400


class PreparedRequest(msgspec.Struct, frozen=True):
    """A request that is ready to be sent: its turn, its body, and the betas its header must name."""

    turn: Turn
    body: bytes
    betas: tuple[str, ...]


class Exchange(msgspec.Struct, frozen=True):
    """One call: the turn that was sent, the response, and what the response says about the cache."""

    turn: Turn
    response: Response
    settled: ReplyAssessment


class ConversationRunner:
    """One conversation and its connection to the provider. `clock` gives the time, `new_id` makes uuids."""

    def __init__(
        self,
        conversation: Conversation,
        send: Send,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        folder: Path | None = None,
        handler: EffectHandler | None = None,
        keep: Callable[[Sequence[Record]], None] = lambda _: None,
        stream: Stream | None = None,
        tell: Callable[[Event], None] = lambda _: None,
        before: Callable[[StepKind], None] = lambda _: None,
        session: str = "",
        appending: AbstractContextManager[Any] | None = None,
    ) -> None:
        """`keep` makes records durable; a request is sent only after the records it depends on are kept
        (TR-10). `tell` is called with every event (TL-1), `before` with every step before it runs. `session`
        is the session id for the records of a new session. `appending` is a reentrant lock of the caller, if
        its threads append to the same conversation."""
        self.conversation = conversation
        self.handler = handler or LocalEffectHandler(send, folder or Path())
        self._keep = keep
        self._send = send
        self._stream = stream
        self._tell = tell
        self._before = before
        self._session = session
        # From a record's place in the log until it is there: two threads would continue the same record, and
        # a session that is opened again shows one of them. Not held while an effect is performed: a hook may
        # append in a thread of its own.
        self.appending = appending or RLock()
        # An error has ended a step in our own code: the file may hold what the conversation lacks.
        self.is_torn = False
        self._clock = clock
        self._new_id = new_id
        self._repairs: Counter[Repair] = Counter()
        self._spelled = MessagePieces()
        # How many records of the log are durable already.
        self._durable = len(conversation.log.records)
        # Whether the provider or a tool works, and nothing here does: an interrupt leaves nothing half done.
        self.is_waiting = False
        # Why the last request that was too long did not lead to a compaction.
        self._not_compacted = ""
        self._key_changes = KeyChangeWatch(conversation.detector.settings)
        # What a cache key that keeps changing has cost, if there is anything to tell (CB-3).
        self.repeated_changes: RepeatedKeyChanges | None = None
        message_ids = (record.message_id for record in reversed(conversation.log.records))
        self._last_message: str | None = next(filter(None, message_ids), None)

    @property
    def _wire(self) -> Wire:
        return self.conversation.setting.provider_wire

    def add(self, record: Record) -> None:
        """Append a record and make it durable. Whoever makes it from the end of the log holds `appending`."""
        with self._in_step():
            self._keep([*self._unkept, record])
            self.conversation.add(record)
            self._durable = len(self.conversation.log.records)

    def add_from_elsewhere(self, records: Sequence[Record], baselines: Mapping[str, Baseline]) -> None:
        """Append what another process has recorded of this conversation."""
        with self._in_step():
            self._keep([*self._unkept, *records])
            self.conversation.add_from_elsewhere(records, baselines)
            self._durable = len(self.conversation.log.records)

    def say(self, text: str) -> None:
        self.put((text_block(text),))

    def answer(self, results: Sequence[tuple[str, str]]) -> None:
        """Append results of tool calls, each as the id of its call and a text."""
        self.put(tuple(result_block(call, text) for call, text in results))

    def put(self, blocks: tuple[Block, ...]) -> None:
        """Append a user message with these blocks."""
        with self.appending:
            self.add(self._make_record("user", blocks))

    def take(self, kind: RecordKind, blocks: tuple[Block, ...], *, is_observed: bool = False) -> None:
        """Append a message of a caller's list. An assistant message is not a reply to a call here: an
        example, imported history, or the beginning of a reply. With `is_observed`, nothing is decided from
        it. A list may bring many: `keep_appended` makes all of them durable in one step."""
        with self.appending:
            record = self._make_record(kind, blocks)
            (self.conversation.add_observed if is_observed else self.conversation.add)(record)

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end."""
        return drive(flow, self.handler, self.keep_appended)

    def keep_appended(self) -> None:
        """Make durable what a flow has appended since the last call. This runs before each effect, so that an
        interrupt between two effects leaves file and conversation in agreement."""
        with self._in_step():
            self._keep(self._unkept)
            self._durable = len(self.conversation.log.records)

    @contextmanager
    def _in_step(self) -> Generator[None]:
        """A change of file and conversation. Our own errors come before either has changed, or from a store
        that says itself whether it goes on."""
        with self.appending:
            try:
                yield
            except EverturnError:
                raise
            except Exception:
                self.is_torn = True
                raise

    def _stepwise(self, flow: Flow[T]) -> Flow[T]:
        """A flow of the conversation, in which others append only while it waits for an effect."""
        answer: EffectResult = None
        while True:
            with self._in_step():
                try:
                    effect = flow.send(answer)
                except StopIteration as done:
                    return done.value
            answer = yield effect

    @property
    def _unkept(self) -> Sequence[Record]:
        """What is in the log and not durable yet."""
        return self.conversation.log.records[self._durable :]

    @property
    def is_kept(self) -> bool:
        """Whether all of the log is durable."""
        return self._durable >= len(self.conversation.log.records)

    def compact(self, request: CompactionRequest) -> CompactionOutcome:
        return self.run(self.compact_flow(request))

    def compact_flow(self, request: CompactionRequest) -> Flow[CompactionOutcome]:
        """`compact` as a flow."""
        self._before("compaction")
        flow = self.conversation.compact(request, self._clock(), self._new_id)
        return (yield from self._stepwise(flow))

    def answer_proposal(self, proposal: Proposal, response: ProposalResponse) -> CompactionOutcome:
        self._before("compaction")
        flow = self.conversation.answer_proposal(proposal, response, self._clock(), self._new_id)
        return self.run(self._stepwise(flow))

    def call(self) -> Exchange:
        """Send the conversation and record the reply. Provider errors are raised; messages appended before
        stay in the log.

        If the provider refuses the request as too long, the conversation is compacted and sent once more. If
        it refuses a compacted view for another reason, the compaction is undone and the request sent once
        more. A second refusal of the same kind is raised.
        """
        return drain(self._talk(as_stream(self._send)))

    def talk(self) -> Generator[str, None, Exchange]:
        """As `call`, and yield the text as it arrives; in one piece if the provider client cannot stream."""
        return self._talk(self._stream or as_stream(self._send))

    def _talk(self, stream: Stream) -> Generator[str, None, Exchange]:
        handled: set[Refusal] = set()
        self._not_compacted = ""
        while True:
            prepared = self.prepare()
            self.is_waiting = True
            try:
                answered = yield from stream(prepared.body, prepared.betas)
            except UpstreamError as problem:
                self.is_waiting = False
                refusal = self._classify(problem)
                if refusal is None or refusal in handled or not self._handle(refusal, problem):
                    self._raise_with_reason(problem)
                handled.add(refusal)
            else:
                self.is_waiting = False
                return self.record_response(prepared, answered)

    def _classify(self, problem: UpstreamError) -> Refusal | None:
        if self._wire.parse_overflow(problem.message) is not None:
            return "too_long"
        if self._wire.refuses_thinking(problem.message):
            return "thinking"
        return "invalid" if problem.status == BAD_REQUEST else None

    def _raise_with_reason(self, problem: UpstreamError) -> NoReturn:
        """Raise the error of the provider, with the reason why no compaction has helped."""
        why, self._not_compacted = self._not_compacted, ""
        if not why:
            raise problem
        message = f"{problem.message} (The conversation was not compacted: {why})"
        raise UpstreamError(problem.status, problem.kind, message) from problem

    def _handle(self, refusal: Refusal, problem: UpstreamError) -> bool:
        """Whether `prepare` gives a different request now."""
        if refusal == "too_long":
            return self.compact_after_overflow()
        return self.run(self.undo_after_refusal_flow(problem.message))

    # ── the steps of a call, for callers that send the request themselves ────────────────────────

    def prepare(self) -> PreparedRequest:
        """Decide a turn and build its request. The decisions are kept; nothing is sent. Raises
        `KeyboardInterrupt` if a compaction was cancelled meanwhile; the view is then unchanged."""
        return drive(self.prepare_flow(), self.handler, self.keep_appended)

    def prepare_flow(self) -> Flow[PreparedRequest]:
        """`prepare` as a flow, for callers that perform its effects differently, for example with awaits."""
        self._before("turn")
        size = self.conversation.size.tokens
        turn = yield from self._stepwise(self.conversation.turn(self._clock(), self._new_id))
        self.keep_appended()
        self._emit(make_micro_compacted(turn.plan, size, self.event_context()))
        self.emit_repairs()
        if (
            isinstance(turn.compacted, CompactionFailed)
            and find_failure_reason(turn.compacted.attempts) == "cancelled"
        ):
            # A user who cancels the compaction does not want the larger call after it either (CP-7).
            raise KeyboardInterrupt("the compaction before this call was cancelled; nothing was sent")
        self._check_blocking(turn)
        if not turn.captured.messages:
            # The API refuses a request without messages, in words that do not help.
            raise UsageError(
                "There is nothing to send: no message of this conversation has a visible character. "
                "Say something first."
            )
        sent = self._wire.spell_request(
            turn.captured, turn.breakpoints, previous_message=self._last_message, spelled=self._spelled
        )
        return PreparedRequest(turn, sent.body, sent.betas)

    def _check_blocking(self, turn: Turn) -> None:
        """Without automatic compaction, nothing is sent beyond the blocking limit (TOK-15)."""
        settings = self.conversation.setting
        options = settings.options
        is_manual = options.may_compact and not options.thresholds.auto_compaction
        if settings.decides != "engine" or not is_manual:
            return
        limit = self.conversation.thresholds.blocking
        if turn.size.tokens >= limit:
            raise ContextFullError(
                f"The context holds {turn.size.tokens:,} tokens, and the limit without a compaction is "
                f"{limit:,}. Automatic compaction is off: compact by hand, rewind to an earlier message, "
                "choose a model with a larger window, or set thresholds.auto_compaction = true."
            )

    def compact_after_overflow(self) -> bool:
        """Compact after the provider refused a request as too long (CP-26). Returns whether the conversation
        became smaller, so that `prepare` gives a different request. Call it once per refusal."""
        return drive(self.compact_after_overflow_flow(), self.handler, self.keep_appended)

    def compact_after_overflow_flow(self) -> Flow[bool]:
        """`compact_after_overflow` as a flow. If automatic compaction is off, it does nothing."""
        if not self.conversation.setting.options.effective_thresholds.auto_compaction:
            return False
        self._before("compaction")
        outcome = yield from self._stepwise(self.conversation.overflowed(self._clock(), self._new_id))
        self._not_compacted = "" if isinstance(outcome, Compaction) else outcome.why
        return isinstance(outcome, Compaction)

    def undo_after_refusal_flow(self, refusal: str) -> Flow[bool]:
        """Leave out thinking that was refused; otherwise undo the compactions that led to a refused request
        (CP-38). Returns whether there were any, so that `prepare` gives a different request. Call it once per
        refusal."""
        conversation, now = self.conversation, self._clock()
        is_left_out = self._wire.refuses_thinking(refusal) and (
            yield from self._stepwise(conversation.refused_thinking(refusal, now, self._new_id))
        )
        return is_left_out or (yield from self._stepwise(conversation.refused(refusal, now, self._new_id)))

    def record_response(self, prepared: PreparedRequest, answered: RawResponse) -> Exchange:
        """Keep the reply to a prepared request. Raises `InvalidResponseError` if the response holds no reply:
        nothing is kept then, and the prepared request can be sent again."""
        return self.record_reply(prepared, parse_reply(answered, self._wire))

    def record_reply(self, prepared: PreparedRequest, parsed: ParsedReply) -> Exchange:
        """`record_response` of a response that was parsed already."""
        response, applied = self._correct_usage(parsed.response), parsed.applied
        with self._in_step():
            records = self._keep_reply(response, applied)
            self._watch_key(response.reply)
            settled = self.conversation.record_reply(
                records,
                response.reply.usage or Usage(),
                self._clock(),
                diagnosis=parsed.diagnosis,
                applied=applied,
            )
            self._note_reply(response)
        missed = make_prediction_missed(settled.check, self.event_context()) if settled.check else None
        checked = make_hold_checked(settled.hold_check, self.event_context()) if settled.hold_check else None
        self._emit(missed)
        self._emit_break(settled.verdict)
        self._emit(checked)
        return Exchange(prepared.turn, response, settled)

    def _keep_reply(self, response: Response, applied: Sequence[AppliedContextEdit]) -> list[Record]:
        """The records of a reply, made durable; with them its request, where that was left to the reply."""
        reply = self._make_record("assistant", response.blocks, response.reply)
        records = [reply, *self._make_server_edits(applied, reply)]
        self._keep([*self._unkept, *records])
        return records

    def _note_reply(self, response: Response) -> None:
        self._durable = len(self.conversation.log.records)
        self._last_message = response.reply.message_id

    def _emit_break(self, verdict: DetectedBreak | NoBreak) -> None:
        if isinstance(verdict, DetectedBreak):
            self._emit(make_cache_broken(verdict, self.event_context()))

    def _watch_key(self, reply: ReplyMeta) -> None:
        """Before the detector forgets what it has noted of the call (CB-3)."""
        conversation = self.conversation
        source = (conversation.cache.sent or conversation.setting).source
        detector, on = conversation.detector, self._clock().date()
        preambles = detector.preambles(source)
        preamble = preambles[1] if preambles else conversation.setting.preamble

        def price(usage: Usage) -> float:
            return float(price_usage(usage, reply.model, on).dollars)

        found = self._key_changes.after_call(
            detector.baselines.get(source), preamble, reply.usage or Usage(), price
        )
        if found is None:
            return
        self.repeated_changes = found
        if found.is_new:
            self._emit(
                KeyChangesRepeated(
                    moment=self.event_context(),
                    changed=found.changed,
                    calls=found.calls,
                    parts=found.parts,
                    what=found.what,
                    tokens_lost=found.tokens_lost,
                    dollars=found.dollars,
                )
            )

    # ── calls that are sent as their caller made them ────────────────────────────────────────────

    def observe_call(self) -> None:
        """The caller's own request is about to be sent. `keep_appended`, or its reply, makes it durable."""
        self.conversation.observe(self._clock())

    def record_observed_reply(self, parsed: ParsedReply) -> DetectedBreak | NoBreak:
        """Keep the reply to an observed request."""
        response = self._correct_usage(parsed.response)
        with self._in_step():
            records = self._keep_reply(response, parsed.applied)
            self._watch_key(response.reply)
            verdict = self.conversation.record_observed_reply(
                records,
                response.reply.usage or Usage(),
                self._clock(),
                diagnosis=parsed.diagnosis,
            )
            self._note_reply(response)
        self._emit_break(verdict)
        return verdict

    def _emit(self, *events: Event | None) -> None:
        for event in events:
            if event is not None:
                self._tell(event)

    def event_context(self) -> EventContext:
        setting = self.conversation.setting
        return EventContext(
            at=self._clock(), session=self._session, source=setting.source, model=setting.model.id
        )

    def _correct_usage(self, response: Response) -> Response:
        usage = response.reply.usage
        counted = clamp_usage(usage) if usage else usage
        if counted == usage:
            return response
        repair = Repair("negative_usage", "", f"the provider reported {usage}; counts below 0 are taken as 0")
        self._emit(make_repaired([repair], self.event_context()))
        reply = msgspec.structs.replace(response.reply, usage=counted)
        return msgspec.structs.replace(response, reply=reply)

    def emit_repairs(self) -> None:
        """Emit an event for the repairs of the view that were not reported yet."""
        repairs = self.conversation.repairs
        if not repairs:
            return
        found = Counter(repairs)
        new, self._repairs = found - self._repairs, found | self._repairs
        self._emit(make_repaired(tuple(new.elements()), self.event_context()))

    def _make_server_edits(self, applied: Sequence[AppliedContextEdit], after: Record) -> list[Record]:
        """What the API reports it cleared by itself, as records of the log (MC-15)."""
        if not applied:
            return []
        edits = (ServerCleared(each.edit, each.cleared, each.tokens) for each in applied)
        now = self._clock()
        return [make_edit_record(edit, uuid=self._new_id(), after=after, at=now) for edit in edits]

    def _make_record(
        self, kind: RecordKind, blocks: tuple[Block, ...], reply: ReplyMeta | None = None
    ) -> Record:
        now = self._clock()
        in_utc = now if now.tzinfo is UTC else now.astimezone(UTC)
        last = self.conversation.log.tip
        return Record(
            kind=kind,
            uuid=self._new_id(),
            parent=last.uuid if last else "",
            timestamp=in_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            session=(last.session if last else "") or self._session,
            agent=last.agent if last else "",
            sidechain=last.sidechain if last else False,
            blocks=blocks,
            reply=reply,
        )
