"""Measures what the first call of a thread had besides its messages.

That is system prompt and tools, and the history before a file that begins in the middle.
"""

from collections.abc import Sequence
from typing import Final

from everturn.history.blocks import text_block
from everturn.replay.playing.counting import (
    PreambleSizes,
    ScaledCosts,
    count_opening,
    find_preamble_reads,
    sent_blocks,
)
from everturn.replay.playing.steps import ReplayThread

# New blocks have at most four times the tokens of their estimate, or a fourth of them, with some slack for
# small ones.
FACTOR: Final = 4
SLACK_ABOVE: Final = 500
SLACK_BELOW: Final = 200
# System prompt and tools of a file that begins in the middle and never shows them: the median of the main
# sessions whose beginning is recorded.
_USUAL_PREAMBLE: Final = 27_000
# If a later context is smaller than this share of what the first one had besides its messages, that was not
# only system prompt, tools and memory files.
_LEAST_OPENING: Final = 0.75


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
    has_all = read > levels[-1] and is_size_of(first.context - read, costs.all(sent_blocks(first.before)))
    # If what was not read is as large as what is new, the cache had all of the history before the file.
    tokens = (read if has_all else rest) - levels[-1]
    return _preamble(levels, levels[-1]), split_past(tokens, read - levels[-1])


def _count_opening(thread: ReplayThread, costs: ScaledCosts) -> int:
    """What the first call that reports something had besides the messages up to it."""
    at = next((at for at, step in enumerate(thread.calls) if step.context), 0)
    said = (record for step in thread.calls[:at] for record in (*step.before, *step.reply))
    more = costs.all(sent_blocks(said)) + 2 * at * costs.turn
    return max(0, count_opening(thread.calls[at], costs) - more)


def split_past(tokens: int, cached: int) -> tuple[int, ...]:
    """The past in two parts if the cache was read up to a position within it."""
    if 0 < cached < tokens:
        return cached, tokens - cached
    return (tokens,) if tokens > 0 else ()


def is_size_of(tokens: int, estimate: int) -> bool:
    return estimate / FACTOR - SLACK_BELOW <= tokens <= estimate * FACTOR + SLACK_ABOVE


def _preamble(levels: Sequence[int], total: int) -> PreambleSizes:
    parts = tuple(end - start for start, end in zip((0, *levels), levels, strict=False))
    return PreambleSizes(parts, opening=total - (levels[-1] if levels else 0))
