"""Token counts in a replay: the twin's counts, scaled to match the usage that the session reported (RP-2).

Between two calls the reported context grows by what was appended. The ratio of that growth to the twin's
count of the same blocks scales all estimates of that model in that session; it is reported with the results.
`anchoring.py` then gives each block the size that its own call reported.

A recording does not hold system prompt and tools. They are blocks of constant size: the parts that were read
from the cache where nothing else could be, and the opening, which the first call reported beyond them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from everturn.history.blocks import Block, text_block
from everturn.history.records import Record, is_sent
from everturn.measure.calibration import MAX_FACTOR, MIN_SAMPLES
from everturn.measure.model import Model
from everturn.measure.outline import Preamble
from everturn.replay.playing.steps import ReplayStep
from everturn.twin.costs import TwinCosts

# Two reads of the same part of a preamble differ by a few tokens (a date, a folder).
_SAME_READ: Final = 0.02
# A call that reads less than this share of the context before it has lost its messages. In a file that begins
# in the middle, `most` does not separate the preamble from history.
_LOW_READ: Final = 0.95
_VERY_LOW_READ: Final = 0.5


class PreambleSizes(msgspec.Struct, frozen=True):
    """System prompt and tools: the tokens of each part that ends in a breakpoint, and of the opening.

    The opening is content of the first message that the file does not hold, such as memory files. It has no
    breakpoint of its own and survives compactions.
    """

    parts: tuple[int, ...] = ()
    opening: int = 0
    # System prompt and tools, if the recording has them.
    text: str = ""

    @property
    def tokens(self) -> int:
        return sum(self.parts) + self.opening

    def held(self, read: int) -> int:
        """The tokens of the parts that the provider's cache held, if so much was read, whoever had written
        them. Other conversations of the same agent share them, so they are there at a first call and after
        a pause.
        """
        return max((end for end in accumulate(self.parts) if end <= read), default=0)

    def resized(self, tokens: int, read: int) -> "PreambleSizes":
        """A preamble of another size that begins like this one: as far as the cache was read, at least with
        the first of several parts.
        """
        first = self.parts[0] if len(self.parts) > 1 else 0
        kept = self.held(min(read, tokens)) or (first if first < tokens else 0)
        ends = accumulate(self.parts)
        same = tuple(part for part, end in zip(self.parts, ends, strict=True) if end <= kept)
        rest = PreambleSizes(self.parts[len(same) :], self.opening)
        other = rest.scaled((tokens - kept) / max(1, rest.tokens))
        return PreambleSizes((*same, *other.parts), tokens - kept - sum(other.parts))

    def scaled(self, factor: float) -> "PreambleSizes":
        parts = tuple(round(part * factor) for part in self.parts)
        return PreambleSizes(parts, round(self.opening * factor), self.text)


class ScaledCosts:
    """`measure.outline.Costs`, scaled. Blocks with a known size keep it."""

    def __init__(self, model: Model, ratio: float = 1.0, known: Mapping[bytes, int] | None = None) -> None:
        self._twin = TwinCosts(model)
        self._counted: dict[bytes, int] = dict(known or {})
        self.ratio = ratio
        self.turn = self._twin.turn
        self.tool_prompt = self._twin.tool_prompt
        self.trailing = self._twin.trailing
        self.keeps_thinking = self._twin.keeps_thinking

    def block(self, block: Block, /) -> int:
        known = self._counted.get(block.raw)
        if known is None:
            known = self._counted[block.raw] = max(1, round(self._twin.block(block) * self.ratio))
        return known

    def set_tokens(self, block: Block, tokens: int) -> None:
        """Sets the size of this block, regardless of its bytes."""
        self._counted[block.raw] = tokens

    def all(self, blocks: Iterable[Block]) -> int:
        return sum(map(self.block, blocks))


class CountRatio(msgspec.Struct, frozen=True):
    """The scale for the twin's counts of one model, from the usage of a session."""

    ratio: float = 1.0
    samples: int = 0


def fit_ratio(threads: Iterable[Sequence[ReplayStep]], model: str, plain: ScaledCosts) -> CountRatio:
    """Fitted on pairs of calls with only new records between them."""
    counted = reported = samples = 0
    for steps in threads:
        for last, step in pairwise(steps):
            if not (last.context and step.context and last.model == step.model == model) or step.is_edited:
                continue
            grown, more = plain.all(sent_blocks(last.reply, step.before)), step.context - last.context
            if 0 < grown <= more * MAX_FACTOR and 0 < more <= grown * MAX_FACTOR:
                counted, reported, samples = counted + grown, reported + more, samples + 1
    return CountRatio(reported / counted, samples) if samples >= MIN_SAMPLES else CountRatio(samples=samples)


def sent_blocks(*records: Iterable[Record]) -> Iterable[Block]:
    return (block for some in records for record in some if is_sent(record) for block in record.blocks)


def count_opening(first: ReplayStep, costs: ScaledCosts) -> int:
    """What the first call reported beyond its messages; 0 if it reported nothing."""
    if not first.context:
        return 0
    return max(0, first.context - costs.all(sent_blocks(first.before)) - costs.turn - costs.trailing)


def find_preamble_reads(calls: Sequence[ReplayStep], most: int, *, counts_first: bool) -> tuple[int, ...]:
    """The sizes of the preamble that the recording shows, ascending: what was read from the cache at the
    first call, after a compaction, and where most of the context was gone. At most two, if reads of history
    may be among them.
    """
    low = _LOW_READ if counts_first else _VERY_LOW_READ
    found: list[int] = []
    last = 0
    for step in calls:
        read = step.usage.cache_read_input_tokens
        is_low = counts_first if not last else step.is_compacted or read < last * low
        if 0 < read <= most and is_low:
            found.append(read)
        last = step.context or last
    levels: list[int] = []
    for read in sorted(found):
        if not levels or read > levels[-1] * (1 + _SAME_READ):
            levels.append(read)
    return tuple(levels) if counts_first or len(levels) < 2 else (levels[0], levels[-1])


def make_stand_in_preamble(thread: str, sizes: PreambleSizes) -> tuple[Preamble, dict[Block, int]]:
    """Blocks for system prompt and tools, with their tokens: the recorded text, else placeholders. They name
    their thread, because a recording does not show which threads share a prompt.
    """
    if sizes.text:
        block = text_block(sizes.text)
        return Preamble(system=(block,), marked=(0,)), {block: sizes.tokens}
    what = f"system prompt and tools of {thread}, not recorded"
    parts = sizes.parts or (0,)
    named = [
        f"[{what}: {tokens} tokens]" if at == 0 else f"[{what}, part {at + 1}: {tokens} tokens]"
        for at, tokens in enumerate(parts)
    ]
    blocks = {text_block(text): tokens for text, tokens in zip(named, parts, strict=True)}
    # A request has breakpoints for two of them; entries at the ends between are found by looking back.
    marked = tuple(sorted({0, len(blocks) - 1}))
    if sizes.opening > 0:
        text = f"[start of the conversation of {thread}, not recorded: {sizes.opening} tokens]"
        blocks[text_block(text)] = sizes.opening
    return Preamble(system=tuple(blocks), marked=marked), blocks
