"""Observation masking: only the newest results are shown. A rolling edit, one per turn, as published.

A baseline to compare with. It shows all tools alike and also hides what the model has not seen yet.
"""

from everturn.decide.micro.clearing import clearing
from everturn.decide.micro.situation import MicroPlan, Situation, nothing


def masking(situation: Situation) -> MicroPlan:
    keep = situation.policy.micro.masking.keep
    doomed = situation.results.all_but(max(0, keep))
    if not doomed:
        return nothing(f"no more than {keep} results are shown")
    return clearing("masking", situation, doomed, f"only the newest {keep} results are shown")
