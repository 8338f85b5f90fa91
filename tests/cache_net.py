"""The net under every test that holds a conversation through `Live` (the laws 1 to 3 of the house).

Each request body is looked at as it leaves, in the order of the cache: tools, system, messages; markers are
passed over. A test fails, whatever else it asserts, when

    a request does not extend the one before it, and no edit in the log between the two says why
    a block that nobody edited is not what was recorded, byte for byte
    a cleared result is not what it was when it was first sent so
    the API would refuse the request, unless the error is a test's own (`is_on_purpose`)

A test that moves the prefix on purpose is marked `@pytest.mark.moves_cache_prefix(reason="...")`, with a
sentence as its reason. That lifts the first law for this test, and no other.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
import pytest
from message_rules import find_message_problems

from everturn.history.blocks import Block, block_from_json, result_block, text_of
from everturn.history.edits import ToldAsText
from everturn.history.messages import Message, Role
from everturn.history.repair import NO_RESULT
from everturn.session.conversation_runner import ConversationRunner
from everturn.session.upstream import RawResponse
from everturn.view.fragments.beginning import BEGINNING
from everturn.view.fragments.told_result import told_result
from everturn.view.fragments.unspoken import UNSPOKEN
from everturn.wire.overflow import parse_overflow

MARK: Final = "moves_cache_prefix"
FEWEST_WORDS: Final = 4
# Added on the way out, never by whoever recorded the block.
_OURS: Final = ("cache_control", "cache_reference")

Section = Literal["tools", "system", "messages"]
# A block by the bytes of its fields, in their order.
Fields = tuple[tuple[str, bytes], ...]


class Piece(NamedTuple):
    """One block of a prompt: where it stands, its bytes, and its fields without our own."""

    section: Section
    role: str
    raw: bytes
    fields: Fields


class _Sent(msgspec.Struct):
    role: Role
    content: list[msgspec.Raw]


class _Body(msgspec.Struct):
    messages: list[_Sent]
    tools: list[msgspec.Raw] = []
    system: list[msgspec.Raw] = []


_read_body = msgspec.json.Decoder(_Body).decode
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def fields_of(raw: bytes) -> Fields:
    return tuple((name, bytes(value)) for name, value in _read_fields(raw).items() if name not in _OURS)


def pieces(body: bytes, before: Sequence[Piece] = ()) -> list[Piece]:
    """The prompt of a request in the order of the cache. What is as before is not parsed again."""
    sent = _read_body(body)
    found = [*(("tools", "", raw) for raw in sent.tools), *(("system", "", raw) for raw in sent.system)]
    found += [("messages", message.role, raw) for message in sent.messages for raw in message.content]
    made: list[Piece] = []
    for at, (section, role, raw) in enumerate(found):
        old = before[at] if at < len(before) else None
        same = old is not None and (old.section, old.role, old.raw) == (section, role, bytes(raw))
        made.append(old if old and same else Piece(section, role, bytes(raw), fields_of(bytes(raw))))
    return made


def divergence(before: Sequence[Piece], now: Sequence[Piece]) -> tuple[Section, int] | None:
    """Where a prompt stops repeating the one before it; None when it extends it."""
    for at, (old, new) in enumerate(zip(before, now, strict=False)):
        if old is not new and (old.section, old.role, old.fields) != (new.section, new.role, new.fields):
            return old.section, at
    return ("messages", len(now)) if len(now) < len(before) else None


class Watch:
    """One conversation: its last request, what its log was then, and what was wrong with any request."""

    def __init__(self, live: ConversationRunner, send: Any) -> None:
        self._live = live
        self._send = send
        self._before: list[Piece] = []
        self._records = 0
        self._recorded: set[Fields] = set()
        self._raws: set[bytes] = set()
        self._blocks: dict[bytes, Block] = {}
        self._cleared: dict[str, Fields] = {}
        self.moved: list[str] = []
        self.wrong: list[str] = []
        self._number = 0

    def send(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        self._number += 1
        now = pieces(body, self._before)
        self._check_extension(now)
        self._check_blocks(now)
        self.wrong += [
            f"request {self._number}: {what}" for what in find_message_problems(self._messages(body))
        ]
        self._before, self._records = now, len(self._live.conversation.log.records)
        try:
            return self._send(body, betas)
        except Exception as error:
            self._note_refusal(error)
            raise

    def _messages(self, body: bytes) -> list[Message]:
        sent = _read_body(body).messages
        return [Message(each.role, tuple(map(self._block, map(bytes, each.content)))) for each in sent]

    def _block(self, raw: bytes) -> Block:
        """Most blocks of a request were in the one before it."""
        if (block := self._blocks.get(raw)) is None:
            block = self._blocks[raw] = block_from_json(raw)
        return block

    def _check_extension(self, now: Sequence[Piece]) -> None:
        if (found := divergence(self._before, now)) is None:
            return
        section, at = found
        since = self._live.conversation.log.records[self._records :]
        if section == "messages" and any(record.edit for record in since):
            return
        self.moved.append(
            f"request {self._number} leaves the one before it at block {at} ({section}): "
            f"{_shown(self._before, at)} became {_shown(now, at)}, and no edit says why"
        )

    def _check_blocks(self, now: Sequence[Piece]) -> None:
        log = self._live.conversation.log
        for record in log.records[self._records :]:
            self._raws.update(block.raw for block in record.blocks)
            self._recorded.update(fields_of(block.raw) for block in record.blocks)
        for at, piece in enumerate(now):
            if piece.section != "messages" or piece.raw in self._raws:
                continue
            block = self._block(piece.raw)
            if block.is_result and block.call in log.view.cleared:
                self._check_cleared(block.call, piece.fields)
            elif not (
                piece.fields in self._recorded
                or _is_ours(block, log.view.offloaded)
                or self._is_repaired(block, piece.fields)
                or self._is_told(block)
            ):
                self.wrong.append(
                    f"request {self._number}: block {at} is none that was recorded: {_cut(piece)}"
                )

    def _is_repaired(self, block: Block, fields: Fields) -> bool:
        """What a repair that was reported may change: the id of a pair, an input that did not fit its schema,
        where a picture stands, references to tools, and the end of a call that the provider's tool never
        answered."""
        repairs = self._live.conversation.repairs
        kinds = {repair.kind for repair in repairs}
        if any(repair.kind == "tool_input" and repair.where == block.call for repair in repairs):
            return block.is_call
        if "server_call" in kinds and block.kind.endswith("tool_result") and not block.is_result:
            return True
        if any(repair.kind == "missing_tool" and repair.where == block.call for repair in repairs):
            return block.kind.endswith("tool_result")
        if "misplaced_block" in kinds and block.kind == "text" and text_of(block).encode() in self._raws:
            return True
        if "repeated_call" in kinds and (block.is_call or block.is_result):
            return _without_ids(fields) in map(_without_ids, self._recorded)
        return "orphan_result" in kinds and any(block.raw in raw for raw in self._raws)

    def _is_told(self, block: Block) -> bool:
        """What stands for calls that are told as text: their names, each with what it gave, and pictures that
        were inside of a result."""
        records = self._live.conversation.log.records
        told = {
            name for record in records if isinstance(record.edit, ToldAsText) for name in record.edit.calls
        }
        calls = [each for record in records for each in record.blocks if each.is_call and each.call in told]
        if block.kind != "text":
            return bool(calls) and any(block.raw in raw for raw in self._raws)
        begins = text_of(block).partition("\n")[0]
        return begins.startswith("[Called ") or any(
            begins
            == text_of(told_result(each, result_block(each.call, "", is_error=is_error))[0]).partition("\n")[
                0
            ]
            for each in calls
            for is_error in (False, True)
        )

    def _check_cleared(self, call: str, fields: Fields) -> None:
        if self._cleared.setdefault(call, fields) != fields:
            self.wrong.append(f"request {self._number}: the cleared result of {call} has changed")

    def _note_refusal(self, error: Exception) -> None:
        if getattr(error, "is_on_purpose", False):
            return
        status = getattr(error, "status", None) or getattr(error, "status_code", None)
        # A prompt that is too long is a matter of size, not of form.
        if status == 400 and parse_overflow(str(error)) is None:
            self.wrong.append(f"request {self._number} was refused: {error}")


def _is_ours(block: Block, offloaded: Any) -> bool:
    """What `view/` puts in: previews, reminders, stand-ins, and blocks that tell the provider something."""
    if block.is_result:
        return block.call in offloaded or text_of(block) == NO_RESULT
    if block.kind == "text":
        return block in (BEGINNING, UNSPOKEN) or text_of(block).startswith(("<system-reminder>", "[A "))
    return block.kind == "cache_edits"


def _without_ids(fields: Fields) -> Fields:
    return tuple(field for field in fields if field[0] not in ("id", "tool_use_id"))


def _shown(prompt: Sequence[Piece], at: int) -> str:
    return _cut(prompt[at]) if at < len(prompt) else "nothing"


def _cut(piece: Piece) -> str:
    text = piece.raw.decode(errors="replace")
    return text if len(text) <= 120 else f"{text[:117]}..."


# ── the hooks ────────────────────────────────────────────────────────────────────────────────────

_watched: list[Watch] = []


def pytest_configure(config: pytest.Config) -> None:
    """Every conversation is watched from its beginning on."""
    begin = ConversationRunner.__init__
    if getattr(begin, "is_watched", False):
        return

    def watched(live: ConversationRunner, conversation: Any, send: Any, **more: Any) -> None:
        if not getattr(live, "is_watched", True):
            begin(live, conversation, send, **more)
            return
        watch = Watch(live, send)
        _watched.append(watch)
        begin(live, conversation, watch.send, **more)

    watched.is_watched = True  # type: ignore[attr-defined]
    ConversationRunner.__init__ = watched  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _watched.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    result = yield
    marks = list(item.iter_markers(MARK))
    found = [*(problem for mark in marks if (problem := reason_problem(mark)))]
    found += [what for watch in _watched for what in watch.wrong + ([] if marks else watch.moved)]
    _watched.clear()
    if found:
        more = f"\n... and {len(found) - 5} more" if len(found) > 5 else ""
        pytest.fail("\n".join(found[:5]) + more, pytrace=False)
    return result


def reason_problem(mark: pytest.Mark) -> str:
    """What is wrong with a marker: the reason must be a sentence, or nobody will know why it is there."""
    reason = mark.kwargs.get("reason")
    if mark.args or not isinstance(reason, str) or len(reason.split()) < FEWEST_WORDS:
        return f'{MARK} wants reason="..." in at least {FEWEST_WORDS} words, not {mark.args or reason!r}'
    return ""
