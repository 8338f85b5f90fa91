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
from everturn.history.blocks import Block, text_block
from everturn.history.edits import Cleared, Edit, ThinkingDropped
from everturn.history.messages import Message
from everturn.history.records import Record, make_edit_record
from everturn.measure.model_table import model_or_default
from everturn.measure.prediction import Prediction
from everturn.replay.playing.cache_billing import CacheEvent, price_call
from everturn.replay.playing.counting import (
    PreambleSizes,
    ScaledCosts,
    count_opening,
    find_preamble_reads,
    sent_blocks,
)
from everturn.replay.playing.player import Player
from everturn.replay.playing.steps import (
    ReplayStep,
    ReplayThread,
    is_past,
    make_filler,
    make_past,
    make_shorter_past,
)

# The new blocks of a call are scaled if the context grew by at most four times their estimate, with some
# tokens of slack for small ones.
_FACTOR: Final = 4
_SLACK_ABOVE: Final = 500
_SLACK_BELOW: Final = 200
# The tokens of two models for the same text differ by less than this factor from what the table says, and the
# preambles that an agent gives to two models by less than this factor from each other.
_LIKELY: Final = 1.5
# System prompt and tools of a file that begins in the middle and never shows them: the median of the main
# sessions whose beginning is recorded.
_USUAL_PREAMBLE: Final = 27_000
# If a later context is smaller than this share of what the first one had besides its messages, that was not
# only system prompt, tools and memory files.
_LEAST_OPENING: Final = 0.75
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


def begins_in_middle(thread: ReplayThread) -> bool:
    """Whether the first record continues something that is not in the file."""
    first = next((record for step in thread.calls for record in (*step.before, *step.reply)), None)
    return first is not None and bool(first.parent) and not first.sidechain


def _falls_below(thread: ReplayThread, opening: int) -> bool:
    """Whether a later context is much smaller than what the first one had besides its messages. System prompt
    and tools hardly shrink, so there was history that the file does not have.
    """
    first = thread.calls[0].model
    contexts = (step.context for step in thread.calls if step.context and step.model == first)
    return min(contexts, default=opening) < opening * _LEAST_OPENING


def measure_opening(
    thread: ReplayThread, costs: ScaledCosts, recorded: str, *, knows_cache: bool
) -> tuple[PreambleSizes, tuple[int, ...]]:
    """The sizes of the preamble, and of the parts of the past if the file begins in the middle of a session.

    `knows_cache` is whether the reported cache reads are those of the cache that is simulated: another
    provider's cache works differently and tells nothing about it.
    """
    first = thread.calls[0]
    if recorded:
        return PreambleSizes((costs.block(text_block(recorded)),), text=recorded), ()
    rest = _count_opening(thread, costs) if knows_cache else count_opening(first, costs)
    if not begins_in_middle(thread) and not (knows_cache and _falls_below(thread, rest)):
        levels = find_preamble_reads(thread.calls, rest, counts_first=True) if knows_cache else ()
        return _preamble(levels or ((rest,) if rest else ()), rest), ()
    levels = find_preamble_reads(thread.calls, rest, counts_first=False)
    # No entry ends inside the preamble, so it is not larger than the least that was ever read.
    reads = (step.usage.cache_read_input_tokens for step in thread.calls)
    least = min((each for each in reads if each and knows_cache), default=rest)
    levels = levels or (min(rest, least, _USUAL_PREAMBLE),)
    read = first.usage.cache_read_input_tokens if knows_cache else 0
    has_all = read > levels[-1] and _is_size_of(first.context - read, costs.all(sent_blocks(first.before)))
    # If what was not read is as large as what is new, the cache had all of the history before the file.
    tokens = (read if has_all else rest) - levels[-1]
    return _preamble(levels, levels[-1]), _split_past(tokens, read - levels[-1])


def _count_opening(thread: ReplayThread, costs: ScaledCosts) -> int:
    """What the first call that reports something had besides the messages up to it."""
    at = next((at for at, step in enumerate(thread.calls) if step.context), 0)
    said = (record for step in thread.calls[:at] for record in (*step.before, *step.reply))
    more = costs.all(sent_blocks(said)) + 2 * at * costs.turn
    return max(0, count_opening(thread.calls[at], costs) - more)


def _split_past(tokens: int, cached: int) -> tuple[int, ...]:
    """The past in two parts if the cache was read up to a position within it."""
    if 0 < cached < tokens:
        return cached, tokens - cached
    return (tokens,) if tokens > 0 else ()


def _is_size_of(tokens: int, estimate: int) -> bool:
    return estimate / _FACTOR - _SLACK_BELOW <= tokens <= estimate * _FACTOR + _SLACK_ABOVE


def _preamble(levels: Sequence[int], total: int) -> PreambleSizes:
    parts = tuple(end - start for start, end in zip((0, *levels), levels, strict=False))
    return PreambleSizes(parts, opening=total - (levels[-1] if levels else 0))


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
        elif growth <= _FACTOR * estimate + _SLACK_ABOVE:
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
        if _is_size_of(room, new):
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
        if (dropped := _old_thinking_behind(player, turn, since)) is not None:
            first, until = dropped
            yield (_edit_record(player, step, ThinkingDropped(first, why, until)),)
        if shorter := self._shorten_past(player, step, since):
            yield shorter
        # The results of the last reply are what the call answers.
        for call in _results_behind(player, turn, since):
            yield (_edit_record(player, step, Cleared((call,), why)),)

    def _shorten_past(self, player: Player, step: ReplayStep, since: int) -> tuple[Record, ...]:
        """What was cleared in the history before the file begins is not in the file. It is what the context
        has too much, if the cache was read up to a position within that history.
        """
        excess = player.plan(step.at).prediction.total - step.context
        start, tokens = player.preamble_sizes.tokens, self._past - excess
        shown = player.conversation.log.view.records
        past = next((at for at, record in enumerate(shown) if is_past(record) and record.blocks), None)
        if past is None or since >= start + self._past or tokens <= 0 or excess <= _SLACK_BELOW:
            return ()
        records, blocks = make_shorter_past(
            player.thread.name, _split_past(tokens, since - start), step.number, shown[past + 1 :]
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


def _old_thinking_behind(player: Player, turn: Turn, since: int) -> tuple[str, str] | None:
    """The records of the first thinking behind a position, and of the first that must stay: that of the
    current tool loop. "" if the request is not within a loop; None if there is nothing to drop.
    """
    behind = {block.raw for block, start in _placed(player, turn) if block.is_thinking and start >= since}
    kept = {block.raw for block in _thinking_of_loop(turn.captured.messages)}
    thoughts = [
        (record.uuid, {block.raw for block in record.blocks if block.is_thinking})
        for record in player.conversation.log.view.records
    ]
    first = next((uuid for uuid, raws in thoughts if raws & behind), "")
    until = next((uuid for uuid, raws in thoughts if raws & kept), "")
    return (first, until) if first and first != until else None


def _thinking_of_loop(messages: Sequence[Message]) -> list[Block]:
    """The thinking since the last message without tool results: the API demands it in the mode `enabled`."""
    found: list[Block] = []
    for message in reversed(messages):
        if message.role == "user" and not any(block.is_result for block in message.blocks):
            break
        found += [block for block in message.blocks if block.is_thinking]
    return found


def _results_behind(player: Player, turn: Turn, since: int) -> list[str]:
    hidden = player.conversation.log.view.cleared
    last = turn.captured.messages[-1].blocks if turn.captured.messages else ()
    new = {block.call for block in last if block.is_result}
    return [
        block.call
        for block, start in _placed(player, turn)
        if block.is_result and start >= since and block.call not in new and block.call not in hidden
    ]


def _placed(player: Player, turn: Turn) -> Iterator[tuple[Block, int]]:
    """The blocks of the messages with their first position in tokens."""
    prompt = player.forecast.prompt
    blocks = [block for message in turn.captured.messages for block in message.blocks]
    if prompt is None:
        return
    ends = prompt.ends[:]
    first = len(ends) - len(blocks)
    for at, block in enumerate(blocks, start=first):
        yield block, ends[at - 1] if at else 0


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
