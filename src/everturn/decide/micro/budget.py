"""Clear by size where there is no cache to protect, or nothing gentler to protect it with (MC-16)."""

from everturn.decide.micro.clearing import clearing, seen
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change
from everturn.decide.result_tracker import TrackedResult


def plan_budget_clearing(situation: MicroContext) -> MicroPlan:
    settings, held = situation.policy.micro.budget, situation.results.tokens
    if settings.where == "unprotected" and _has_better(situation):
        return no_change("there is a cache to protect, and a gentler way")
    if held <= settings.tokens:
        return no_change(f"results hold {held:,} of {settings.tokens:,} tokens")
    doomed = _oldest_until_it_fits(situation)
    saved = situation.results.saving(doomed)
    if saved < settings.save_at_least or not doomed:
        return no_change(f"{saved:,} tokens to save, fewer than {settings.save_at_least:,}")
    return clearing("budget", situation, doomed, f"results hold {held:,} of {settings.tokens:,} tokens")


def _has_better(situation: MicroContext) -> bool:
    can = situation.capabilities
    return can.caching and (can.cache_edits or can.context_editing)


def _oldest_until_it_fits(situation: MicroContext) -> list[TrackedResult]:
    settings, left = situation.policy.micro.budget, situation.results.tokens
    doomed: list[TrackedResult] = []
    for result in seen(situation, situation.results.all_but(settings.keep)):
        if left <= settings.tokens:
            break
        doomed.append(result)
        left -= 0 if situation.results.was_deleted(result.call) else result.tokens
    return doomed
