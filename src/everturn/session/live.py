"""A conversation with a provider: the engine decides, this sends and remembers.

Time and ids come from whoever starts it. Nothing is decided here; a turn's effects are performed and its
answer is appended, byte for byte as it came.
"""

from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from everturn.decide.cache_breaks import Diagnosis
from everturn.decide.micro.declarative import applied_edits
from everturn.engine import Conversation, Settled, Turn, WriteFile
from everturn.history.blocks import Block, result_block, text_block
from everturn.history.records import Kind, Record, Reply, Usage
from everturn.session.upstream import Send
from everturn.wire.anthropic import Response, read_response


class Exchange(msgspec.Struct, frozen=True):
    """One call: what was decided, what came back, and what that says about the cache."""

    turn: Turn
    response: Response
    settled: Settled


class Live:
    """One conversation and its way to the provider. `clock` tells the time, `new_id` makes uuids."""

    def __init__(
        self,
        conversation: Conversation,
        send: Send,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        folder: Path,
    ) -> None:
        self.conversation = conversation
        self._send = send
        self._clock = clock
        self._new_id = new_id
        self._folder = folder
        said = (record.message_id for record in reversed(conversation.log.records))
        self._last_message: str | None = next(filter(None, said), None)

    def add(self, record: Record) -> None:
        """Something that happened, as it was recorded."""
        self.conversation.add(record)

    def say(self, text: str) -> None:
        self._append("user", (text_block(text),))

    def answer(self, results: Sequence[tuple[str, str]]) -> None:
        """Results of tool calls: the id of each call, and what came out of it."""
        self._append("user", tuple(result_block(call, text) for call, text in results))

    def call(self) -> Exchange:
        """Send what has been said. Raises what the provider raises; what was said stays said."""
        turn = perform(self.conversation.turn(self._clock(), self._new_id), self._folder)
        answered = self._send(self._body(turn), turn.betas)
        response = read_response(answered.body, request_id=answered.request_id)
        more = _more(answered.body)
        settled = self.conversation.replied(
            [self._record("assistant", response.blocks, response.reply)],
            response.reply.usage or Usage(),
            self._clock(),
            diagnosis=_diagnosis(more),
            applied=applied_edits(more.context_management),
        )
        self._last_message = response.reply.message_id
        return Exchange(turn, response, settled)

    def _body(self, turn: Turn) -> bytes:
        request = turn.request()
        if not self.conversation.setting.capabilities.diagnostics:
            return request.to_bytes()
        asks = {"diagnostics": {"previous_message_id": self._last_message}}
        return msgspec.structs.replace(request, settings={**request.settings, **asks}).to_bytes()

    def _append(self, kind: Kind, blocks: tuple[Block, ...]) -> None:
        self.conversation.add(self._record(kind, blocks))

    def _record(self, kind: Kind, blocks: tuple[Block, ...], reply: Reply | None = None) -> Record:
        records = self.conversation.log.records
        now = self._clock().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parent = records[-1].uuid if records else ""
        return Record(
            kind=kind, uuid=self._new_id(), parent=parent, timestamp=now, blocks=blocks, reply=reply
        )


def perform(turn: Generator[WriteFile, str, Turn], folder: Path) -> Turn:
    """Drive a turn to its end, doing what it asks for on the way."""
    answer: str | None = None
    while True:
        try:
            effect = turn.send(answer) if answer is not None else next(turn)
        except StopIteration as done:
            return done.value
        answer = _write(effect, folder)


def _write(effect: WriteFile, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / effect.name
    path.write_text(effect.text, encoding="utf-8", errors="surrogatepass")
    return str(path)


class _Reason(msgspec.Struct):
    type: str = ""
    cache_missed_input_tokens: int = 0


class _Diagnostics(msgspec.Struct):
    cache_miss_reason: _Reason | None = None


class _More(msgspec.Struct):
    """What a response says beside its content and usage."""

    diagnostics: _Diagnostics | None = None
    context_management: dict[str, Any] | None = None


def _more(body: bytes) -> _More:
    """What has another shape than we know says nothing; it must not cost us an answer that was paid for."""
    try:
        return msgspec.json.decode(body, type=_More)
    except msgspec.ValidationError:
        return _More()


def _diagnosis(more: _More) -> Diagnosis | None:
    reason = more.diagnostics.cache_miss_reason if more.diagnostics else None
    return Diagnosis(reason.type, reason.cache_missed_input_tokens) if reason else None
