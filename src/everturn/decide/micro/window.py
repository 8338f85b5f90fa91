"""A sliding window: the oldest rounds are dropped, and nothing stands in for them.

A baseline to compare with. A cut never separates a call from its result (`history/rounds.py`); where it costs
little, what is left begins with a person's words. The last round always stays.
"""

from collections.abc import Sequence
from itertools import accumulate

from everturn.decide.micro.bound_thinking import with_thinking
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change, several
from everturn.history.edits import Trimmed
from everturn.history.records import Record, is_sent
from everturn.history.rounds import find_cut_points
from everturn.measure.tokens import TokenCounter, pad_estimate


def plan_sliding_window(situation: MicroContext) -> MicroPlan:
    settings, records = situation.options.micro.window, situation.records
    if situation.size <= settings.tokens:
        return no_change(f"{situation.size:,} tokens, not over {settings.tokens:,}")
    sums = _tokens_from_each_on(records, situation.counts or TokenCounter())
    # What no record holds (system prompt, tools) stays whatever is cut.
    fixed = max(0, situation.size - sums[0])
    limit_left = max(0, int(settings.tokens * settings.share) - fixed)
    cut = _cut(records, sums, limit_left)
    if sums[cut] == sums[0]:
        return no_change(f"{situation.size:,} tokens, but no earlier round to drop")
    return _trimmed(situation, cut, sums[0] - sums[cut])


def _trimmed(situation: MicroContext, cut: int, saved: int) -> MicroPlan:
    records, limit = situation.records, situation.options.micro.window.tokens
    why = f"{situation.size:,} tokens, over {limit:,}: drops {several(cut, 'record')}, saves {saved:,} tokens"
    calls = [block.call for record in records[:cut] for block in record.blocks if block.is_result]
    plan = MicroPlan(
        "window",
        edits=(Trimmed(records[cut].uuid, why),),
        why=why,
        tokens_saved=saved,
        forgotten=situation.results.paths_of(calls),
        detector_notice="deleted",
    )
    said = (record.uuid for record in records[cut:] if record.kind == "assistant")
    return with_thinking(plan, next(said, ""), situation)


def _tokens_from_each_on(records: Sequence[Record], counts: TokenCounter) -> list[int]:
    backwards = accumulate((counts.of(record).whole.total for record in reversed(records)), initial=0)
    return [pad_estimate(total) for total in backwards][::-1]


def _cut(records: Sequence[Record], sums: Sequence[int], limit_left: int) -> int:
    """The earliest legal place from which on everything fits; the last place there is where nothing does."""
    last = max((at for at, record in enumerate(records) if record.kind in ("user", "assistant")), default=0)
    legal = [at for at in find_cut_points(records) if at <= last]
    fitting = [at for at in legal if sums[at] <= limit_left] or legal[-1:]
    # Beginning with a person's words is worth up to half of what could have stayed.
    spoken = [at for at in fitting if _is_spoken(records[at]) and 2 * sums[at] >= sums[fitting[0]]]
    return next(iter(spoken or fitting), 0)


def _is_spoken(record: Record) -> bool:
    results = any(block.is_result for block in record.blocks)
    return record.kind == "user" and not results and is_sent(record)
