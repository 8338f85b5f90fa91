"""Anchors a replay to the usage that a recording reports: each call has the context that was billed (RP-12).

The recording is played once as it was made. Before each call, what the engine would send is compared with the
reported context (R), and the difference is explained:

- the new blocks are larger or smaller than estimated: their sizes are scaled to meet R;
- much more was billed than the file holds: a block of its own, named so, holds the rest (`unrecorded`, or
  `restored` after a recorded compaction);
- less was billed than before: something was removed that the file does not tell. Thinking is removed first,
  then a part of what was said before the file begins, then old results, and only behind the position up to
  which the cache was read.

Sizes, unrecorded content and what the provider's cache did on its own apply to every policy. Restored content
and inferred removals belong to the recording alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from everturn.engine import Turn
from everturn.history.blocks import Block
from everturn.history.edits import Cleared, Edit, ThinkingDropped
from everturn.history.messages import Message
from everturn.history.records import Record, make_edit_record
from everturn.measure.model_table import model_or_default
from everturn.measure.prediction import Prediction
from everturn.replay.playing.cache_billing import CacheEvent, price_call
from everturn.replay.playing.counting import (
    PreambleSizes,
    sent_blocks,
)
from everturn.replay.playing.opening import FACTOR, SLACK_ABOVE, SLACK_BELOW, is_size_of, split_past
from everturn.replay.playing.player import Player
from everturn.replay.playing.removals import find_removable
from everturn.replay.playing.steps import (
    ReplayStep,
    ReplayThread,
    is_past,
    make_filler,
    make_past,
    make_shorter_past,
)

# The tokens of two models for the same text differ by less than this factor from what the table says, and the
# preambles that an agent gives to two models by less than this factor from each other.
_LIKELY: Final = 1.5
# A read that differs from the prediction by more than this share of the context is an event of the provider's
# cache: an entry was lost early, or one was found that the file does not explain.
_EVENT_SHARE: Final = 0.003
_MIN_EVENT_TOKENS: Final = 150


class Anchors(msgspec.Struct, frozen=True, kw_only=True):
    """What the reported usage of one thread tells. Everything by call is by its number."""

    preamble: PreambleSizes
    # Tokens of blocks by their bytes, for each recorded model.
    sizes: Mapping[str, Mapping[bytes, int]] = {}
    # What the API saw and the file lacks: part of the history under every policy.
    unrecorded: Mapping[int, tuple[Record, ...]] = {}
    # What belongs to the recorded policy: restored content, inferred removals.
    recorded_only: Mapping[int, tuple[Record, ...]] = {}
    # What the provider's cache did that the file does not explain.
    events: Mapping[int, CacheEvent] = {}
    # For each call, the tokens of the preamble that the provider's cache held.
    warm: Mapping[int, int] = {}
    # The preambles that begin at a later call, because another model was given another one.
    preambles: Mapping[int, PreambleSizes] = {}
    # Tokens of history before the first record of the file, in parts that were cached apart.
    past: tuple[int, ...] = ()

    @property
    def begins_in_middle(self) -> bool:
        return bool(self.past)


class Anchoring:
    """Collects the anchors of a thread while a player plays it as recorded."""

    def __init__(self, past: Sequence[int] = (), *, knows_cache: bool) -> None:
        # Tokens of what was said before the file begins.
        self._past = sum(past)
        # Whether what was read and removed is told by the cache that is simulated. Another provider's context
        # may shrink for reasons of its own (Gemini leaves out old reasoning), which is no edit of the agent.
        self._knows_cache = knows_cache
        self.sizes: dict[str, dict[bytes, int]] = {}
        self.unrecorded: dict[int, tuple[Record, ...]] = {}
        self.recorded_only: dict[int, tuple[Record, ...]] = {}
        self.events: dict[int, CacheEvent] = {}
        self.warm: dict[int, int] = {}
        self.preambles: dict[int, PreambleSizes] = {}
        # The last preamble of each model.
        self._preamble_of: dict[str, PreambleSizes] = {}
        self._sent: tuple[Message, ...] = ()
        self._model = ""

    def adjust(self, player: Player, step: ReplayStep) -> None:
        """Makes the next request of the player as large as the recording reports."""
        if self._model not in ("", player.recorded_model):
            self._carry_sizes(player, step)
        if self._knows_cache:
            player.forecast.warm = player.preamble_sizes.held(step.usage.cache_read_input_tokens)
            self.warm |= {step.number: player.forecast.warm} if player.forecast.warm else {}
        turn = player.plan(step.at)
        if step.context:
            turn = self._meet(player, step, turn)
            if self._knows_cache:
                self._find_event(player, step, turn.prediction)
        self._sent, self._model = turn.captured.messages, player.recorded_model
        self._preamble_of[self._model] = player.preamble_sizes

    def _meet(self, player: Player, step: ReplayStep, turn: Turn) -> Turn:
        """The turn whose context is the reported one, as far as that can be explained."""
        blocks = self._new_blocks(player, turn)
        estimate = player.costs.all(blocks)
        growth = step.context - (turn.prediction.total - estimate)
        if growth < len(blocks):
            turn = self._remove(player, step, turn) if self._knows_cache else turn
        elif growth <= FACTOR * estimate + SLACK_ABOVE:
            estimate = growth
        self._set_sizes(player, blocks, estimate)
        return self._fill(player, step, player.plan(step.at))

    def _carry_sizes(self, player: Player, step: ReplayStep) -> None:
        """After a change of the model: what the last one has anchored, in the tokens of this one. This is
        done before the request is planned, which counts everything.

        Models with one tokenizer count the same text alike; what differs then is what the agent gives them as
        system prompt and tools. With another tokenizer everything is scaled to what the call reports.
        """
        known = self.sizes.setdefault(player.recorded_model, {})
        blocks = [block for message in self._sent for block in message.blocks]
        before = self.sizes.get(self._model, {})
        carried = {
            block: before[block.raw] for block in blocks if block.raw not in known and block.raw in before
        }
        # The same bytes may have been sent more than once.
        carried_tokens = sum(before[block.raw] for block in blocks if block in carried)
        reply = player.thread.calls[step.number - 2].reply
        new = player.costs.all(sent_blocks(reply, step.before))
        rest = sum(known[block.raw] for block in blocks if block.raw in known) + player.costs.trailing
        rest += player.costs.turn * (len(self._sent) + 2)
        factor = model_or_default(self._model).model.chars_per_token
        factor /= model_or_default(player.recorded_model).model.chars_per_token
        own = self._preamble_of.get(player.recorded_model)
        can_fit = bool(step.context and not step.is_edited and carried)
        if factor == 1 and can_fit and self._knows_cache:
            self._fit_preamble(player, step, new, step.context - rest - carried_tokens)
        elif factor != 1:
            scaled = 0 if own else player.preamble_sizes.tokens
            rest += new + (own.tokens if own else 0)
            reported = (step.context - rest) / (carried_tokens + scaled) if can_fit else factor
            is_likely = factor / _LIKELY < reported < factor * _LIKELY
            factor = reported if is_likely else factor
            # What does not fit may be a different preamble, so it is not made larger on top of that.
            last = player.preamble_sizes
            self._set_preamble(player, step, own or (last.scaled(factor) if is_likely else last))
        for block, tokens in carried.items():
            known[block.raw] = max(1, round(tokens * factor))
            player.costs.set_tokens(block, known[block.raw])

    def _fit_preamble(self, player: Player, step: ReplayStep, new: int, beyond: int) -> None:
        """The preamble that a model is given when it takes over. `new` is the estimate of what was added, and
        `beyond` are the tokens of that and of the preamble.

        It is the one that this model had before, or the one that the last model had, whichever fits better;
        if the call reports too much or too little for both, it has another size. Thinking that the model is
        not shown explains some of what is missing.
        """
        last, thoughts = player.preamble_sizes, 0
        if not model_or_default(player.recorded_model).model.keeps_thinking:
            sent = (block for message in self._sent for block in message.blocks)
            thoughts = player.costs.all(block for block in sent if block.is_thinking)
        own = self._preamble_of.get(player.recorded_model, last)
        added = [(sizes, beyond + shown - sizes.tokens) for sizes in (own, last) for shown in (0, thoughts)]
        best, room = min(added, key=lambda each: abs(each[1] - new))
        tokens = best.tokens + room - new
        if is_size_of(room, new):
            self._set_preamble(player, step, best)
        elif not best.text and best.tokens / _LIKELY < tokens < best.tokens * _LIKELY:
            self._set_preamble(player, step, best.resized(tokens, step.usage.cache_read_input_tokens))

    def _set_preamble(self, player: Player, step: ReplayStep, sizes: PreambleSizes) -> None:
        if sizes != player.preamble_sizes:
            self.preambles[step.number] = sizes
            player.resize_preamble(sizes)

    def _new_blocks(self, player: Player, turn: Turn) -> list[Block]:
        """The blocks that no call before has anchored."""
        messages = turn.captured.messages
        same = next(
            (at for at, (old, new) in enumerate(zip(self._sent, messages, strict=False)) if old != new),
            min(len(self._sent), len(messages)),
        )
        known = self.sizes.setdefault(player.recorded_model, {})
        found = {block.raw: block for message in messages[same:] for block in message.blocks}
        return [block for raw, block in found.items() if raw not in known]

    def _set_sizes(self, player: Player, blocks: Sequence[Block], total: int) -> None:
        known = self.sizes.setdefault(player.recorded_model, {})
        for block, tokens in _share(blocks, [player.costs.block(each) for each in blocks], total):
            known[block.raw] = tokens
            player.costs.set_tokens(block, tokens)
        player.conversation.recount()

    def _fill(self, player: Player, step: ReplayStep, turn: Turn) -> Turn:
        """Adds a block for what was billed and is not in the file."""
        missing = step.context - turn.prediction.total
        if missing <= 0:
            return turn
        was_edited = step.number in self.recorded_only or step.is_edited
        what = "restored after the compaction, not recorded" if was_edited else "not in the recording"
        thread = player.thread.name
        record, block = make_filler(
            f"unrecorded-{thread}-{step.number}", f"[{what}, before call {step.number}: {missing} tokens]"
        )
        self.sizes.setdefault(player.recorded_model, {})[block.raw] = missing
        player.costs.set_tokens(block, missing)
        kept = self.recorded_only if was_edited else self.unrecorded
        kept[step.number] = (*kept.get(step.number, ()), record)
        player.add_recorded(record)
        return player.plan(step.at)

    def _remove(self, player: Player, step: ReplayStep, turn: Turn) -> Turn:
        """Removes what the recording no longer sent: thinking first, then of what was said before the file
        begins, then the oldest results.
        """
        # The cache was read up to here, so nothing before it has changed.
        since = step.usage.cache_read_input_tokens
        for records in self._removals(player, step, turn, since):
            self.recorded_only[step.number] = (*self.recorded_only.get(step.number, ()), *records)
            for record in records:
                player.add_recorded(record)
            if player.plan(step.at).prediction.total <= step.context:
                break
        return player.plan(step.at)

    def _removals(
        self, player: Player, step: ReplayStep, turn: Turn, since: int
    ) -> Iterator[tuple[Record, ...]]:
        why = "the reported context shrank"
        # Found before the first removal: each one changes the plan, and with it every position behind it.
        found = find_removable(player, turn, since)
        if found.thinking is not None:
            first, until = found.thinking
            yield (_edit_record(player, step, ThinkingDropped(first, why, until)),)
        if shorter := self._shorten_past(player, step, since):
            yield shorter
        for call in found.results:
            yield (_edit_record(player, step, Cleared((call,), why)),)

    def _shorten_past(self, player: Player, step: ReplayStep, since: int) -> tuple[Record, ...]:
        """What was cleared in the history before the file begins is not in the file. It is what the context
        has too much, if the cache was read up to a position within that history.
        """
        excess = player.plan(step.at).prediction.total - step.context
        start, tokens = player.preamble_sizes.tokens, self._past - excess
        shown = player.conversation.log.view.records
        past = next((at for at, record in enumerate(shown) if is_past(record) and record.blocks), None)
        if past is None or since >= start + self._past or tokens <= 0 or excess <= SLACK_BELOW:
            return ()
        records, blocks = make_shorter_past(
            player.thread.name, split_past(tokens, since - start), step.number, shown[past + 1 :]
        )
        known = self.sizes.setdefault(player.recorded_model, {})
        for block, size in blocks.items():
            known[block.raw] = size
            player.costs.set_tokens(block, size)
        self._past = tokens
        return records

    def _find_event(self, player: Player, step: ReplayStep, predicted: Prediction) -> None:
        reported = step.usage.cache_read_input_tokens
        if abs(predicted.read - reported) <= max(_MIN_EVENT_TOKENS, _EVENT_SHARE * step.context):
            return
        event = CacheEvent("lost" if reported < predicted.read else "found", reported)
        player.forecast.event = event
        corrected = player.plan(step.at).prediction
        change = _price(player, step, corrected) - _price(player, step, predicted)
        if change:
            self.events[step.number] = msgspec.structs.replace(event, dollars=change)
        else:
            # No breakpoint of ours can find such an entry.
            player.forecast.event = None


def _edit_record(player: Player, step: ReplayStep, edit: Edit) -> Record:
    return make_edit_record(edit, uuid=player.new_id(), after=player.conversation.log.tip, at=step.at)


def _price(player: Player, step: ReplayStep, parts: Prediction) -> Decimal:
    return price_call(player.model, step.at, parts, 0)


def _share(blocks: Sequence[Block], estimates: Sequence[int], total: int) -> Iterator[tuple[Block, int]]:
    """Shares a total over blocks in proportion to their estimates, each at least one token."""
    whole, done, given = sum(estimates) or 1, 0, 0
    for block, estimate in zip(blocks, estimates, strict=True):
        done += estimate
        tokens = max(1, round(total * done / whole) - given)
        given += tokens
        yield block, tokens


def with_anchors(thread: ReplayThread, anchors: Anchors, *, as_recorded: bool) -> ReplayThread:
    """The thread with what the API saw and the file lacks; with the inferred edits if it is the recording."""
    calls: list[ReplayStep] = []
    past, _ = make_past(thread.name, anchors.past)
    for step in thread.calls:
        added = anchors.recorded_only.get(step.number, ()) if as_recorded else ()
        added = (*added, *anchors.unrecorded.get(step.number, ()))
        before = (past, *step.before) if step.number == 1 and anchors.past else step.before
        calls.append(msgspec.structs.replace(step, before=(*before, *added)))
    return ReplayThread(thread.name, tuple(calls), thread.after)
