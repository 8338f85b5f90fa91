"""Observation masking: only the newest results are shown. A rolling edit, one per turn, as published.

A baseline to compare with. It shows all tools alike and also hides what the model has not seen yet.
"""

from everturn.decide.micro.clearing import clearing
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change


def plan_masking(situation: MicroContext) -> MicroPlan:
    keep = situation.policy.micro.masking.keep
    doomed = situation.results.all_but(max(0, keep))
    if not doomed:
        return no_change(f"no more than {keep} results are shown")
    return clearing("masking", situation, doomed, f"only the newest {keep} results are shown")
