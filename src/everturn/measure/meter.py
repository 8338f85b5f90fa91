"""How full the context is: what the API last reported, plus an estimate of what came since (TOK-5, 6, 8).

The anchor is the newest response with usage. Streaming cuts a response into several records with one
message id and tool results come between them, so the tail begins after the FIRST piece: a result between
two pieces is new to the model. The later pieces are then counted twice, in the output and in the tail;
that errs on the safe side, and recorded files often report the output of the first piece only.

A meter measures one view. When a compaction, an undo or a trimming replaced the view, make a new one with
`meter_of` and the same counts: nothing is counted again. Which marks a size has passed: `thresholds.py`.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from everturn.history.blocks import RESULT, THINKING
from everturn.history.edits import Cleared, Edit, Offloaded, ThinkingDropped
from everturn.history.log import View
from everturn.history.records import Record, reported_usage
from everturn.measure.tokens import NOTHING, TokenCount, TokenCounter

SizeBasis = Literal["usage", "estimate"]

# "[Old tool result content cleared]" at four characters a token. The words live in view/fragments.
PLACEHOLDER_TOKENS: Final = 8


class ContextSize(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` is the canonical size: `reported` plus the padded `estimated_tail`."""

    tokens: int
    reported: int
    estimated_tail: int
    # The tail without padding: what a calibration corrects.
    rough_tail: int
    # The record after which the tail begins; "" where no usage is known.
    anchor: str
    basis: SizeBasis
    # Unpadded tokens hidden before the anchor since it was reported: `tokens` still includes them.
    freed: int = 0


class _Place(NamedTuple):
    """Just after a record: its position, and the count of everything up to and including it."""

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
    """Fed one record at a time; neither `add` nor `size` looks at older records again.

    What is hidden in the tail leaves the size at once. What is hidden before the anchor was reported by the
    API as part of a total, and stays in `tokens` until the next usage; `freed` says how much of it is gone.
    """

    def __init__(
        self, counts: TokenCounter | None = None, *, fixed: int = 0, placeholder: int = PLACEHOLDER_TOKENS
    ) -> None:
        """`fixed` is the estimate of system prompt and tools, which no record holds."""
        self._counts = TokenCounter() if counts is None else counts
        self._fixed = fixed
        self._placeholder = placeholder
        self._ordinal = 0
        self._sum = TokenCount()
        self._anchor: _Anchor | None = None
        self._first_piece: dict[str, _Place] = {}
        self._freed = 0
        # What each result holds now; what stands in for a hidden one, also before the result is there.
        self._results: dict[str, _Held] = {}
        self._cleared: set[str] = set()
        self._previews: dict[str, int] = {}
        self._thinking: list[_Held] = []
        self._ordinals: dict[str, int] = {}
        self._savings: list[_Held] = []

    def add(self, record: Record) -> None:
        self._count(record)
        if record.kind == "assistant":
            self._anchor_at(record)
        if record.edit is not None:
            self.apply(record.edit)

    def apply(self, edit: Edit) -> None:
        """What an edit hides, where it is no record of the view; `add` does it for those that are."""
        match edit:
            case Cleared(calls=calls):
                self.clear(calls)
            case Offloaded(call=call, preview=preview):
                self.offload(call, preview)
            case ThinkingDropped(since=since):
                self.drop_thinking(since)
            case _:
                pass

    def add_kept(self, record: Record) -> None:
        """A record whose usage speaks of another context than the one in view: kept from before a boundary,
        or said behind one that was undone."""
        self._count(record)
        if record.edit is not None:
            self.apply(record.edit)

    def clear(self, calls: Iterable[str]) -> int:
        """These results count as placeholders from now on, also those that are added later.

        Returns the unpadded tokens saved; a result that is cleared again saves nothing.
        """
        named = tuple(calls)
        self._cleared.update(named)
        return sum(self._shrink(call, self._placeholder) for call in named)

    def offload(self, call: str, preview: str) -> int:
        """This result counts as its preview from now on, unless it is cleared. Returns the tokens saved."""
        tokens = self._previews[call] = self._counts.estimator.text(preview)
        return 0 if call in self._cleared else self._shrink(call, tokens)

    def drop_thinking(self, since: str) -> int:
        """The thinking from that record up to here is no longer sent. Returns the tokens saved."""
        first = bisect_left(self._thinking, _Held(self._ordinals.get(since, self._ordinal + 1), 0))
        dropped = self._thinking[first:]
        del self._thinking[first:]
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

    def estimate(self, *, head: int = 0) -> ContextSize:
        """As if no usage were known: everything is tail, system prompt and tools included (TOK-6). `head` is
        their estimate where it may change; what never does is known from the start."""
        tail = self._tail(_Place(0, "", TokenCount())) + TokenCount(guessed=self._fixed + head)
        return ContextSize(
            tokens=tail.padded,
            reported=0,
            estimated_tail=tail.padded,
            rough_tail=tail.total,
            anchor="",
            basis="estimate",
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
            if kind == RESULT:
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
        return self._save(held._replace(tokens=held.tokens - tokens))

    def _save(self, saving: _Held) -> int:
        insort(self._savings, saving)
        if self._anchor is not None and saving.ordinal <= self._anchor.place.ordinal:
            self._freed += saving.tokens
        return saving.tokens

    def _anchor_at(self, record: Record) -> None:
        place = _Place(self._ordinal, record.uuid, self._sum)
        message_id = record.message_id
        if message_id:
            place = self._first_piece.setdefault(message_id, place)
        usage = reported_usage(record)
        if usage is None:
            return
        # A later piece of the same response reports the same request: it knows nothing of a clearing since.
        if self._anchor is None or not message_id or message_id != self._anchor.message_id:
            self._freed = 0
        self._anchor = _Anchor(place, usage.total, message_id)

    def _tail(self, start: _Place) -> TokenCount:
        tail = self._sum - start.before
        guessed = tail.guessed - self._saved_after(start.ordinal)
        # A result inside a record that the provider counted is cleared from that count.
        return TokenCount(max(0, guessed), max(0, tail.counted + min(0, guessed)))

    def _saved_after(self, ordinal: int) -> int:
        """Walks from the newest saving back to the anchor: only as far as the tail is long."""
        saved = 0
        for saving in reversed(self._savings):
            if saving.ordinal <= ordinal:
                break
            saved += saving.tokens
        return saved


def meter_of(view: View, counts: TokenCounter | None = None, *, fixed: int = 0) -> Meter:
    """A meter that has seen a whole view. What an edit before the view hid is hidden from the start."""
    meter = Meter(counts, fixed=fixed)
    for edit in edits_before(view):
        meter.apply(edit)
    for record in view.records:
        if record.uuid in view.stale or record.uuid in view.shrunk:
            meter.add_kept(record)
        else:
            meter.add(record)
    return meter


def estimate_of(view: View, counts: TokenCounter) -> int:
    """Padded tokens of a view, or of a part of one, as if no usage were known. Where nothing is hidden in it
    they are a sum, for which nobody needs to know what stands where."""
    edits = (record.edit for record in view.records if record.edit is not None)
    if view.cleared or view.offloaded or any(isinstance(edit, ThinkingDropped) for edit in edits):
        return meter_of(view, counts).estimate().tokens
    guessed = counted = 0
    for record in view.records:
        whole = counts.of(record).whole
        guessed += whole.guessed
        counted += whole.counted
    return TokenCount(guessed, counted).padded


def edits_before(view: View) -> tuple[Edit, ...]:
    """Edits before the view that still hide something in it. Those inside it take effect in their turn."""
    inside = {id(record.edit) for record in view.records}
    hiding = {id(edit): edit for edit in (*view.cleared.values(), *view.offloaded.values())}
    return tuple(edit for key, edit in hiding.items() if key not in inside)
