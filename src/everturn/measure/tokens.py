"""Estimates of the tokens of a block and of a record, without asking the provider (TOK-1 to 4, 7).

The default is characters divided by four; a local tokenizer or the provider's own counts can replace it.
Estimates are rough and get padded; what the provider counted does not. `meter.py` combines usage and
estimates into the size of a whole context; `calibration.py` learns how far the estimate is off in this
session.
"""

from collections.abc import Callable, Mapping, Sequence
from math import floor
from typing import Final, Protocol

import msgspec

from everturn.history.blocks import Block
from everturn.history.records import Record, is_sent
from everturn.measure.images import FLAT, STANDARD, ImageTier, image_tokens, tier_of
from everturn.measure.model import Model


def pad_estimate(tokens: int) -> int:
    """A padded estimate over messages: four thirds of it, rounded up (TOK-4)."""
    return -(-tokens * 4 // 3)


class Estimator(Protocol):
    """Estimates the tokens of a text. `counted` is the provider's count of a whole record, if it was
    requested.
    """

    @property
    def tier(self) -> ImageTier: ...
    def text(self, text: str, /) -> int: ...
    def counted(self, uuid: str, /) -> int | None: ...


class CharactersPerToken(msgspec.Struct, frozen=True):
    """Characters divided by a constant, rounded half up (TOK-1)."""

    characters: float = 4
    tier: ImageTier = STANDARD

    def text(self, text: str, /) -> int:
        return floor(len(text) / self.characters + 0.5)

    def counted(self, uuid: str, /) -> int | None:
        return None


class LocalTokenizer(msgspec.Struct, frozen=True):
    """Any tokenizer that turns a text into a sequence; its length is the count."""

    encode: Callable[[str], Sequence[object]]
    tier: ImageTier = STANDARD

    def text(self, text: str, /) -> int:
        return len(self.encode(text))

    def counted(self, uuid: str, /) -> int | None:
        return None


ROUGH: Final = CharactersPerToken()


class ProviderCounts(msgspec.Struct, frozen=True):
    """Counts from the provider's count endpoint, by record; another estimator for everything else."""

    counts: Mapping[str, int]
    fallback: Estimator = ROUGH

    @property
    def tier(self) -> ImageTier:
        return self.fallback.tier

    def text(self, text: str, /) -> int:
        return self.fallback.text(text)

    def counted(self, uuid: str, /) -> int | None:
        return self.counts.get(uuid)


def rough(text: str) -> int:
    return ROUGH.text(text)


def estimator_for(model: Model) -> CharactersPerToken:
    """An estimator with the average of that model's tokenizer instead of four: more accurate for it, but not
    TOK-1's number.
    """
    return CharactersPerToken(model.chars_per_token, tier_of(model))


class _Text(msgspec.Struct):
    text: str


class _Thinking(msgspec.Struct):
    thinking: str


class _Call(msgspec.Struct):
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Result(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw(b'""')


class _Source(msgspec.Struct):
    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b'""')
    content: msgspec.Raw = msgspec.Raw(b'""')


class _Document(msgspec.Struct):
    source: _Source
    title: str | None = None
    context: str | None = None


class _Kind(msgspec.Struct):
    type: str = ""


_read_text = msgspec.json.Decoder(_Text).decode
_read_thinking = msgspec.json.Decoder(_Thinking).decode
_read_call = msgspec.json.Decoder(_Call).decode
_read_result = msgspec.json.Decoder(_Result).decode
_read_document = msgspec.json.Decoder(_Document).decode
_read_kind = msgspec.json.Decoder(_Kind).decode
_read_string = msgspec.json.Decoder(str).decode
_read_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_any = msgspec.json.Decoder().decode


def compact_json(raw: bytes | msgspec.Raw) -> str:
    """JSON without spaces between tokens and without unneeded escapes: equal values have equal length."""
    data = bytes(raw)
    try:
        if b"\\u" in data:
            return msgspec.json.encode(_read_any(data)).decode()
        return msgspec.json.format(data, indent=-1).decode()
    # A number or a lone surrogate that cannot be encoded again, or not JSON at all: use its length as it is.
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return data.decode(errors="replace")


def _text(raw: bytes, by: Estimator) -> int:
    return by.text(_read_text(raw).text)


def _thinking(raw: bytes, by: Estimator) -> int:
    """The text only: a signature is long, and the model does not see it as text."""
    return by.text(_read_thinking(raw).thinking)


def _call(raw: bytes, by: Estimator) -> int:
    call = _read_call(raw)
    return by.text(call.name + compact_json(call.input))


def _result(raw: bytes, by: Estimator) -> int:
    return _content(_read_result(raw).content, by)


def _content(raw: msgspec.Raw, by: Estimator) -> int:
    """A text, or a list of blocks."""
    content = bytes(raw)
    if content.startswith(b'"'):
        return by.text(_read_string(content))
    if content.startswith(b"["):
        return sum(_estimate(_read_kind(part).type, bytes(part), by) for part in _read_parts(content))
    return 0 if content == b"null" else by.text(compact_json(content))


def _image(raw: bytes, by: Estimator) -> int:
    return image_tokens(raw, by.tier)


def _document(raw: bytes, by: Estimator) -> int:
    """By its text if the block contains it; PDFs and files elsewhere have a flat price."""
    try:
        document = _read_document(raw)
    except msgspec.DecodeError:
        return FLAT
    source, titles = document.source, (document.title or "") + (document.context or "")
    if source.type not in ("text", "content"):
        return FLAT
    return _content(source.data if source.type == "text" else source.content, by) + by.text(titles)


def _as_json(raw: bytes, by: Estimator) -> int:
    return by.text(compact_json(raw))


# Kinds that are not listed here count as their JSON (TOK-3).
_BY_KIND: Final[Mapping[str, Callable[[bytes, Estimator], int]]] = {
    "text": _text,
    "thinking": _thinking,
    "tool_use": _call,
    "tool_result": _result,
    "image": _image,
    "document": _document,
}


def _estimate(kind: str, raw: bytes, by: Estimator) -> int:
    try:
        return _BY_KIND.get(kind, _as_json)(raw, by)
    except msgspec.DecodeError:
        return _as_json(raw, by)


def estimate_block(block: Block, estimator: Estimator = ROUGH) -> int:
    """Unpadded tokens of one block (TOK-2, TOK-3)."""
    return _estimate(block.kind, block.raw, estimator)


class TokenCount(msgspec.Struct, frozen=True, gc=False):
    """Tokens of some records: estimated ones separate from those that the provider counted."""

    guessed: int = 0
    counted: int = 0

    @property
    def total(self) -> int:
        """Unpadded, for accounting and savings."""
        return self.guessed + self.counted

    @property
    def padded(self) -> int:
        """Padding compensates for estimation errors, so provider counts are not padded."""
        return pad_estimate(self.guessed) + self.counted

    def __add__(self, other: "TokenCount") -> "TokenCount":
        return TokenCount(self.guessed + other.guessed, self.counted + other.counted)

    def __sub__(self, other: "TokenCount") -> "TokenCount":
        return TokenCount(self.guessed - other.guessed, self.counted - other.counted)


class RecordCount(msgspec.Struct, frozen=True):
    """One record, in total and per block; a record that is never sent to the model has no blocks here."""

    whole: TokenCount = TokenCount()
    blocks: tuple[int, ...] = ()


NOTHING: Final = RecordCount()


def estimate_record(record: Record, estimator: Estimator = ROUGH) -> RecordCount:
    if not is_sent(record):
        return NOTHING
    blocks = tuple(estimate_block(block, estimator) for block in record.blocks)
    counted = estimator.counted(record.uuid)
    whole = TokenCount(guessed=sum(blocks)) if counted is None else TokenCount(counted=counted)
    return RecordCount(whole, blocks)


class TokenCounter:
    """Counts every record once; meter, accounts and calibration share it (TOK-8)."""

    def __init__(self, estimator: Estimator = ROUGH) -> None:
        self.estimator = estimator
        self._known: dict[str, tuple[tuple[Block, ...], RecordCount]] = {}

    def of(self, record: Record) -> RecordCount:
        known = self._known.get(record.uuid)
        # A record is identified by its uuid; a copy with other blocks under the same uuid is counted again.
        if known is not None and known[0] is record.blocks:
            return known[1]
        count = estimate_record(record, self.estimator)
        self._known[record.uuid] = record.blocks, count
        return count
