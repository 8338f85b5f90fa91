"""Observation masking: only the newest results are shown. A rolling edit, one per turn, as published.

A baseline to compare with. It treats all tools the same and also hides what the model has not seen yet.
"""

from everturn.decide.micro.clearing import clearing
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change


def plan_masking(situation: MicroContext) -> MicroPlan:
    keep = situation.options.micro.masking.keep
    to_clear = situation.results.all_but(max(0, keep))
    if not to_clear:
        return no_change(f"no more than {keep} results are shown")
    return clearing("masking", situation, to_clear, f"only the newest {keep} results are shown")
