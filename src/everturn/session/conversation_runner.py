"""A conversation with a provider: the engine decides, this sends and remembers.

Time and ids come from whoever starts it. Nothing is decided here; a turn's effects are performed and its
answer is appended, byte for byte as it came.
"""

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from everturn.decide.cache_breaks import DetectedBreak, Diagnosis
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionRequest
from everturn.decide.events import (
    Event,
    EventContext,
    cache_broken,
    micro_compacted,
    prediction_missed,
    reason_of,
    repaired,
)
from everturn.decide.micro.declarative import AppliedContextEdit, applied_edits
from everturn.engine import CompactionOutcome, Conversation, Flow, ReplyAssessment, Turn
from everturn.history.blocks import Block, result_block, text_block
from everturn.history.edits import ServerCleared
from everturn.history.records import Record, RecordKind, ReplyMeta, Usage, make_edit_record
from everturn.history.repair import Repair
from everturn.session.drivers import EffectHandler, drive
from everturn.session.effect_handler import LocalEffectHandler
from everturn.session.upstream import (
    RawResponse,
    Send,
    Stream,
    UpstreamError,
    as_stream,
    clamp_usage,
    drain,
    parse_message,
)
from everturn.wire.anthropic import Response
from everturn.wire.overflow import parse_overflow

T = TypeVar("T")
# What is about to happen, for whoever must be ready for it.
StepKind = Literal["turn", "compaction"]


class PreparedRequest(msgspec.Struct, frozen=True):
    """A request that is ready to be sent: its turn, its bytes, and the betas its header must name."""

    turn: Turn
    body: bytes
    betas: tuple[str, ...]


class Exchange(msgspec.Struct, frozen=True):
    """One call: what was decided, what came back, and what that says about the cache."""

    turn: Turn
    response: Response
    settled: ReplyAssessment


class ConversationRunner:
    """One conversation and its way to the provider. `clock` tells the time, `new_id` makes uuids."""

    def __init__(
        self,
        conversation: Conversation,
        send: Send,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        folder: Path | None = None,
        world: EffectHandler | None = None,
        keep: Callable[[Sequence[Record]], None] = lambda _: None,
        stream: Stream | None = None,
        tell: Callable[[Event], None] = lambda _: None,
        before: Callable[[StepKind], None] = lambda _: None,
        session: str = "",
    ) -> None:
        """`keep` makes records durable; nothing is sent before what it depends on is kept (TR-10). `tell`
        hears of every event (TL-1), `before` of every step that is about to be taken; `session` is the id
        that records of a new session carry."""
        self.conversation = conversation
        self.world = world or LocalEffectHandler(send, folder or Path())
        self._keep = keep
        self._send = send
        self._stream = stream
        self._tell = tell
        self._before = before
        self._session = session
        self._clock = clock
        self._new_id = new_id
        self._repairs: Counter[Repair] = Counter()
        said = (record.message_id for record in reversed(conversation.log.records))
        self._last_message: str | None = next(filter(None, said), None)

    def add(self, record: Record) -> None:
        """Something that happened, as it was recorded."""
        self._keep([record])
        self.conversation.add(record)

    def say(self, text: str) -> None:
        self.put((text_block(text),))

    def answer(self, results: Sequence[tuple[str, str]]) -> None:
        """Results of tool calls: the id of each call, and what came out of it."""
        self.put(tuple(result_block(call, text) for call, text in results))

    def put(self, blocks: tuple[Block, ...]) -> None:
        """A message of the user's side, whatever is in it."""
        self.add(self._record("user", blocks))

    def hear(self, blocks: tuple[Block, ...]) -> None:
        """A message of the assistant's that came by another way: an example, a history, half a reply."""
        self.add(self._record("assistant", blocks))

    def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its end."""
        return drive(self._kept(flow), self.world)

    def _kept(self, flow: Flow[T]) -> Flow[T]:
        """What a flow appends is kept before anything that follows from it happens, and each compaction by
        itself: an interrupt between two effects leaves the file with what the conversation knows."""
        records, answer = self.conversation.log.records, None
        at = len(records)
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration as done:
                self._keep(records[at:])
                return done.value
            self._keep(records[at:])
            at = len(records)
            answer = yield effect

    def compact(self, asked: CompactionRequest) -> CompactionOutcome:
        self._before("compaction")
        return self.run(self.conversation.compact(asked, self._clock(), self._new_id))

    def call(self) -> Exchange:
        """Send what has been said. Raises what the provider raises; what was said stays said.

        "Too long" is withheld while one compaction tries to make room; a second refusal is the caller's.
        """
        return drain(self._talk(as_stream(self._send)))

    def talk(self) -> Generator[str, None, Exchange]:
        """As `call`, and its text piece by piece; in one piece where the way to the provider has no other."""
        return self._talk(self._stream or as_stream(self._send))

    def _talk(self, stream: Stream) -> Generator[str, None, Exchange]:
        prepared = self.prepare()
        try:
            answered = yield from stream(prepared.body, prepared.betas)
        except UpstreamError as problem:
            if parse_overflow(problem.message) is None or not self.compact_after_overflow():
                raise
            prepared = self.prepare()
            answered = yield from stream(prepared.body, prepared.betas)
        return self.record_response(prepared, answered)

    # ── the steps of a call, for whoever sends by other means ────────────────────────────────────

    def prepare(self) -> PreparedRequest:
        """Decide about a turn and spell its request. What was decided is kept; nothing is sent. Raises
        `KeyboardInterrupt` where somebody cancelled a compaction on the way: the view is what it was."""
        return drive(self.prepare_flow(), self.world)

    def prepare_flow(self) -> Flow[PreparedRequest]:
        """`prepare` as a flow, for whoever performs its effects by other means: with awaits, for instance."""
        self._before("turn")
        size = self.conversation.size.tokens
        turn = yield from self._kept(self.conversation.turn(self._clock(), self._new_id))
        self._told(micro_compacted(turn.plan, size, self._moment()))
        self.emit_repairs()
        if isinstance(turn.compacted, CompactionFailed) and reason_of(turn.compacted.attempts) == "cancelled":
            # Whoever cancels does not want the call that was to follow, at twice the price (CP-7).
            raise KeyboardInterrupt("the compaction before this call was cancelled; nothing was sent")
        return PreparedRequest(turn, self._body(turn), tuple(turn.betas))

    def compact_after_overflow(self) -> bool:
        """After "too long": whether a compaction made the conversation smaller, so that `prepare` gives
        another request (CP-26). To be asked once for each refusal."""
        return drive(self.compact_after_overflow_flow(), self.world)

    def compact_after_overflow_flow(self) -> Flow[bool]:
        """`made_room` as a flow."""
        self._before("compaction")
        flow = self.conversation.overflowed(self._clock(), self._new_id)
        return isinstance((yield from self._kept(flow)), Compaction)

    def record_response(self, prepared: PreparedRequest, answered: RawResponse) -> Exchange:
        """Keep and remember the answer to what was prepared. Raises `NoMessage` where it is none: nothing of
        it is kept, and what was prepared can be sent again."""
        response = self._counted(parse_message(answered))
        more = _more(answered.body)
        applied = applied_edits(more.context_management)
        reply = self._record("assistant", response.blocks, response.reply)
        records = [reply, *self._facts(applied, reply)]
        self._keep(records)
        settled = self.conversation.record_reply(
            records,
            response.reply.usage or Usage(),
            self._clock(),
            diagnosis=_diagnosis(more),
            applied=applied,
        )
        self._last_message = response.reply.message_id
        missed = prediction_missed(settled.check, self._moment()) if settled.check else None
        broken = isinstance(settled.verdict, DetectedBreak) and cache_broken(settled.verdict, self._moment())
        self._told(missed, broken or None)
        return Exchange(prepared.turn, response, settled)

    def _told(self, *events: Event | None) -> None:
        for event in events:
            if event is not None:
                self._tell(event)

    def _moment(self) -> EventContext:
        setting = self.conversation.setting
        return EventContext(
            at=self._clock(), session=self._session, source=setting.source, model=setting.model.id
        )

    def _counted(self, response: Response) -> Response:
        usage = response.reply.usage
        counted = clamp_usage(usage) if usage else usage
        if counted == usage:
            return response
        repair = Repair("negative_usage", "", f"the provider reported {usage}; what is below 0 is taken as 0")
        self._told(repaired([repair], self._moment()))
        reply = msgspec.structs.replace(response.reply, usage=counted)
        return msgspec.structs.replace(response, reply=reply)

    def emit_repairs(self) -> None:
        """Of everything in view that had to be mended, what nobody has been told of."""
        found = Counter(self.conversation.repairs)
        new, self._repairs = found - self._repairs, found | self._repairs
        self._told(repaired(tuple(new.elements()), self._moment()))

    def _facts(self, applied: Sequence[AppliedContextEdit], after: Record) -> list[Record]:
        """What the API says it cleared by itself, as part of the log (MC-15)."""
        edits = (ServerCleared(each.edit, each.cleared, each.tokens) for each in applied)
        now = self._clock()
        return [make_edit_record(edit, uuid=self._new_id(), after=after, at=now) for edit in edits]

    def _body(self, turn: Turn) -> bytes:
        request = turn.request()
        if not self.conversation.setting.capabilities.diagnostics:
            return request.to_bytes()
        asks = {"diagnostics": {"previous_message_id": self._last_message}}
        return msgspec.structs.replace(request, settings={**request.settings, **asks}).to_bytes()

    def _record(self, kind: RecordKind, blocks: tuple[Block, ...], reply: ReplyMeta | None = None) -> Record:
        now = self._clock().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        last = self.conversation.log.tip
        return Record(
            kind=kind,
            uuid=self._new_id(),
            parent=last.uuid if last else "",
            timestamp=now,
            session=(last.session if last else "") or self._session,
            agent=last.agent if last else "",
            sidechain=last.sidechain if last else False,
            blocks=blocks,
            reply=reply,
        )


class _Reason(msgspec.Struct):
    type: str = ""
    cache_missed_input_tokens: int = 0


class _Diagnostics(msgspec.Struct):
    cache_miss_reason: _Reason | None = None


class _ResponseExtras(msgspec.Struct):
    """What a response says beside its content and usage."""

    diagnostics: _Diagnostics | None = None
    context_management: dict[str, Any] | None = None


def _more(body: bytes) -> _ResponseExtras:
    """What has another shape than we know says nothing; it must not cost us an answer that was paid for."""
    try:
        return msgspec.json.decode(body, type=_ResponseExtras)
    except msgspec.ValidationError:
        return _ResponseExtras()


def _diagnosis(more: _ResponseExtras) -> Diagnosis | None:
    reason = more.diagnostics.cache_miss_reason if more.diagnostics else None
    return Diagnosis(reason.type, reason.cache_missed_input_tokens) if reason else None
