"""The order of micro-compaction (MC-1).

The kinds of a policy are tried in order, and the first that acts, or has to wait, is the only one. The
time-based kind comes first: when it fires, the cache is known to be cold and the cached kind has nothing to
protect. Moving oversized new results to files changes nothing that was ever sent, so it happens in addition
to the others. What the API clears by itself (`declarative.py`) is independent of all this.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from everturn.decide.micro.budget import plan_budget_clearing
from everturn.decide.micro.cached import plan_cache_deletion
from everturn.decide.micro.clear_at import plan_clear_at
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change
from everturn.decide.micro.masking import plan_masking
from everturn.decide.micro.oversize import plan_offloading
from everturn.decide.micro.time_based import is_cold, plan_time_based_clearing
from everturn.decide.micro.window import plan_sliding_window
from everturn.decide.settings import MicroStepName

STEPS: Final[Mapping[MicroStepName, Callable[[MicroContext], MicroPlan]]] = {
    "oversize": plan_offloading,
    "time": plan_time_based_clearing,
    "cached": plan_cache_deletion,
    "budget": plan_budget_clearing,
    "masking": plan_masking,
    "clear_at": plan_clear_at,
    "window": plan_sliding_window,
}


def plan_micro_compaction(situation: MicroContext) -> MicroPlan:
    steps = situation.options.steps
    if not steps:
        return no_change(f"policy {situation.options.policy!r} changes nothing")
    change = _first_that_acts(situation, tuple(name for name in steps if name != "oversize"))
    return _beside(plan_offloading(situation), change) if "oversize" in steps else change


def _first_that_acts(situation: MicroContext, steps: tuple[MicroStepName, ...]) -> MicroPlan:
    reasons: list[str] = []
    for name in steps:
        plan = STEPS[name](situation)
        if plan.kind != "none":
            return plan
        reasons.append(f"{name}: {plan.why}")
        # Also when it found nothing more to clear: a turn that is decided twice must come out the same.
        if name == "time" and is_cold(situation):
            break
    return no_change("; ".join(reasons))


def _beside(moved: MicroPlan, change: MicroPlan) -> MicroPlan:
    """One plan of both, of the kind that changes the prefix."""
    if change.kind == "none":
        said = moved.why if moved.offload else f"oversize: {moved.why}"
        return msgspec.structs.replace(moved, why="; ".join(part for part in (said, change.why) if part))
    if not moved.offload:
        return change
    why = f"{change.why}; oversize: {moved.why}"
    saved = change.tokens_saved + moved.tokens_saved
    return msgspec.structs.replace(change, why=why, tokens_saved=saved, offload=moved.offload)
