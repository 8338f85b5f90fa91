"""How full the context is: what the API last reported, plus an estimate of what came since (TOK-5, 6, 8).

The anchor is the newest response with usage. Streaming splits a response into several records with one
message id and tool results come between them, so the tail begins after the FIRST part: a result between two
parts is new to the model. The later parts are then counted twice, in the output and in the tail. That
overestimates, which is the safe side, and recorded files often report the output of the first part only.

A meter measures one view. When a compaction, an undo or a trim replaces the view, make a new meter with
`make_meter` and the same token counter: nothing is counted again. Which thresholds a size has reached:
`thresholds.py`.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from everturn.history.blocks import THINKING, TOOL_RESULT
from everturn.history.edits import (
    CacheDeleted,
    CacheDeletionsEnded,
    Cleared,
    Compacted,
    Edit,
    Offloaded,
    ThinkingDropped,
)
from everturn.history.log import View
from everturn.history.records import Record, reported_usage
from everturn.measure.tokens import NOTHING, TokenCount, TokenCounter

SizeBasis = Literal["usage", "estimate"]

# "[Old tool result content cleared]" at four characters per token. The text itself is in view/fragments.
PLACEHOLDER_TOKENS: Final = 8


class ContextSize(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` is the canonical size: `reported` plus the padded `estimated_tail`."""

    tokens: int
    reported: int
    estimated_tail: int
    # The tail without padding: what a calibration corrects, but for `kept`.
    rough_tail: int
    # The record after which the tail begins; "" if no usage is known.
    anchor: str
    basis: SizeBasis
    # Unpadded tokens hidden before the anchor since it was reported: `tokens` still includes them. Negative
    # if deletions that the report left out have ended since.
    freed: int = 0
    # Of the tail, what was kept through a compaction and is as the provider has counted it.
    kept: int = 0

    @property
    def next_request(self) -> int:
        """The expected size of the next request: the size without what was hidden since the report."""
        return max(0, self.tokens - self.freed)


class _Place(NamedTuple):
    """The position after a record, and the count of everything up to and including it."""

    ordinal: int
    uuid: str
    before: TokenCount


class _Anchor(NamedTuple):
    place: _Place
    reported: int
    message_id: str


class _Held(NamedTuple):
    """Tokens that the record at a position holds, or no longer holds."""

    ordinal: int
    tokens: int


class Meter:
    """Updated one record at a time; neither `add` nor `size` looks at older records again.

    What is hidden in the tail leaves the size at once. What is hidden before the anchor is part of a total
    that the API reported, and stays in `tokens` until the next usage; `freed` says how much of it is gone.
    """

    def __init__(self, counts: TokenCounter | None = None, *, placeholder: int = PLACEHOLDER_TOKENS) -> None:
        self._counts = TokenCounter() if counts is None else counts
        self._placeholder = placeholder
        self._ordinal = 0
        self._sum = TokenCount()
        self._anchor: _Anchor | None = None
        self._first_piece: dict[str, _Place] = {}
        self._freed = 0
        # What each result holds now; and the size of the replacement for a hidden one, also before it is
        # added.
        self._results: dict[str, _Held] = {}
        self._cleared: set[str] = set()
        self._previews: dict[str, int] = {}
        self._thinking: list[_Held] = []
        self._ordinals: dict[str, int] = {}
        self._savings: list[_Held] = []
        # Results that the provider has deleted from its cache: in our messages, but not in the model's
        # context.
        self._deleted: set[str] = set()
        # A record that the provider counted is being added: what is hidden in it is not in that count.
        self._is_counted = False
        self._kept = 0

    def add(self, record: Record) -> None:
        self._count(record)
        if record.kind == "assistant":
            self._anchor_at(record)
        if record.edit is not None:
            self.apply(record.edit)

    def apply(self, edit: Edit) -> None:
        """Apply an edit that is not a record of the view; `add` does this for those that are."""
        match edit:
            case Cleared(calls=calls):
                self.clear(calls)
            case Offloaded(call=call, preview=preview):
                self.offload(call, preview)
            case ThinkingDropped(since=since, until=until):
                self.drop_thinking(since, until)
            case CacheDeleted(calls=calls):
                self._deleted.update(call for call in calls if call in self._results)
                self._freed += self._reported_tokens(calls)
            case CacheDeletionsEnded():
                self._freed -= self._reported_tokens(self._deleted)
                self._deleted.clear()
            case _:
                pass

    def add_kept(self, record: Record, counted: int | None = None) -> None:
        """Add a record whose usage refers to a different context: one kept from before a boundary, or one
        said after a boundary that was undone. `counted` are the tokens that the provider has counted for it,
        without what edits up to here have hidden.
        """
        before = self._sum
        self._is_counted = counted is not None
        self._count(record)
        if counted is not None:
            self._sum = before + TokenCount(counted=counted)
            self._kept += counted
        if record.edit is not None:
            self.apply(record.edit)
        self._is_counted = False

    def clear(self, calls: Iterable[str]) -> int:
        """From now on these results count as placeholders, also those that are added later.

        Returns the unpadded tokens saved; clearing a result again saves nothing.
        """
        named = tuple(calls)
        self._cleared.update(named)
        return sum(self._shrink(call, self._placeholder) for call in named)

    def offload(self, call: str, preview: str) -> int:
        """From now on this result counts as its preview, unless it is cleared. Returns the tokens saved."""
        tokens = self._previews[call] = self._counts.estimator.text(preview)
        return 0 if call in self._cleared else self._shrink(call, tokens)

    def drop_thinking(self, since: str, until: str = "") -> int:
        """The thinking from that record up to here, or up to `until`, is no longer sent. Returns the tokens
        saved.
        """
        first = bisect_left(self._thinking, _Held(self._ordinals.get(since, self._ordinal + 1), 0))
        end = bisect_left(self._thinking, _Held(self._ordinals.get(until, self._ordinal + 1), 0))
        dropped = self._thinking[first:end]
        del self._thinking[first:end]
        return sum(self._save(held) for held in dropped)

    def size(self) -> ContextSize:
        if self._anchor is None:
            return self.estimate()
        tail = self._tail(self._anchor.place)
        return ContextSize(
            tokens=self._anchor.reported + tail.padded,
            reported=self._anchor.reported,
            estimated_tail=tail.padded,
            rough_tail=tail.total,
            anchor=self._anchor.place.uuid,
            basis="usage",
            freed=self._freed,
        )

    def estimate(self, *, preamble: int = 0, reported: int = 0) -> ContextSize:
        """The size as if no usage were known: all records are tail, plus system prompt and tools (TOK-6).
        `preamble` is an estimate of those two, `reported` what an earlier usage told of them.
        """
        tail = self._tail(_Place(0, "", TokenCount())) + TokenCount(guessed=preamble)
        return ContextSize(
            tokens=reported + tail.padded,
            reported=reported,
            estimated_tail=tail.padded,
            rough_tail=tail.total,
            anchor="",
            basis="estimate",
            kept=min(self._kept, tail.counted),
        )

    def _count(self, record: Record) -> None:
        self._ordinal += 1
        self._ordinals[record.uuid] = self._ordinal
        count = self._counts.of(record)
        if count is NOTHING:
            return
        self._sum += count.whole
        for block, tokens in zip(record.blocks, count.blocks, strict=False):
            kind = block.kind
            if kind == TOOL_RESULT:
                self._note_result(block.call, tokens)
            elif kind in THINKING:
                self._thinking.append(_Held(self._ordinal, tokens))

    def _note_result(self, call: str, tokens: int) -> None:
        self._results[call] = _Held(self._ordinal, tokens)
        if call in self._cleared:
            self._shrink(call, self._placeholder)
        elif call in self._previews:
            self._shrink(call, self._previews[call])

    def _shrink(self, call: str, tokens: int) -> int:
        held = self._results.get(call)
        if held is None or held.tokens == tokens:
            return 0
        self._results[call] = held._replace(tokens=tokens)
        # What the provider has deleted is not in its report, so hiding it as well frees nothing more.
        return self._save(held._replace(tokens=held.tokens - tokens), is_freed=call not in self._deleted)

    def _save(self, saving: _Held, *, is_freed: bool = True) -> int:
        if self._is_counted:
            return 0
        insort(self._savings, saving)
        if is_freed and self._is_reported(saving):
            self._freed += saving.tokens
        return saving.tokens

    def _is_reported(self, held: _Held) -> bool:
        return self._anchor is not None and held.ordinal <= self._anchor.place.ordinal

    def _reported_tokens(self, calls: Iterable[str]) -> int:
        held = (self._results[call] for call in calls if call in self._results)
        return sum(each.tokens for each in held if self._is_reported(each))

    def _anchor_at(self, record: Record) -> None:
        place = _Place(self._ordinal, record.uuid, self._sum)
        message_id = record.message_id
        if message_id:
            place = self._first_piece.setdefault(message_id, place)
        usage = reported_usage(record)
        if usage is None:
            return
        # A later part of the same response reports the same request, which does not include a later clearing.
        if self._anchor is None or not message_id or message_id != self._anchor.message_id:
            self._freed = 0
        self._anchor = _Anchor(place, usage.total, message_id)

    def _tail(self, start: _Place) -> TokenCount:
        tail = self._sum - start.before
        guessed = tail.guessed - self._saved_after(start.ordinal)
        # A result inside a record that the provider counted is subtracted from that count.
        return TokenCount(max(0, guessed), max(0, tail.counted + min(0, guessed)))

    def _saved_after(self, ordinal: int) -> int:
        """Goes back from the newest saving to the anchor, so it costs only the length of the tail."""
        saved = 0
        for saving in reversed(self._savings):
            if saving.ordinal <= ordinal:
                break
            saved += saving.tokens
        return saved


def make_meter(view: View, counts: TokenCounter | None = None) -> Meter:
    """A meter for a whole view. What an edit before the view hid is hidden from the start."""
    meter = Meter(counts)
    for edit in edits_before(view):
        meter.apply(edit)
    edit = view.boundary.edit if view.boundary is not None else None
    # The first of the kept records brings the count of all of them.
    counted = edit.tokens_kept if isinstance(edit, Compacted) and edit.tokens_kept else None
    for record in view.records:
        if counted is not None and record.uuid in view.stale:
            meter.add_kept(record, counted)
            counted = 0
        elif record.uuid in view.stale or record.uuid in view.shrunk:
            meter.add_kept(record)
        else:
            meter.add(record)
    return meter


def estimate_view(view: View, counts: TokenCounter) -> int:
    """Padded tokens of a view, or of part of one, as if no usage were known. If nothing in it is hidden, this
    is a plain sum and no positions are tracked.
    """
    edits = (record.edit for record in view.records if record.edit is not None)
    if view.cleared or view.offloaded or any(isinstance(edit, ThinkingDropped) for edit in edits):
        return make_meter(view, counts).estimate().tokens
    guessed = counted = 0
    for record in view.records:
        whole = counts.of(record).whole
        guessed += whole.guessed
        counted += whole.counted
    return TokenCount(guessed, counted).padded


def edits_before(view: View) -> tuple[Edit, ...]:
    """Edits before the view that still hide something in it. Those inside the view take effect in their
    order.
    """
    inside = {id(record.edit) for record in view.records}
    hiding = {id(edit): edit for edit in (*view.cleared.values(), *view.offloaded.values())}
    return tuple(edit for key, edit in hiding.items() if key not in inside)
