"""Clear by size where there is no cache to protect, or the provider offers no way to keep it (MC-16)."""

from everturn.decide.micro.clearing import clearing, seen
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change
from everturn.decide.result_tracker import TrackedResult


def plan_budget_clearing(situation: MicroContext) -> MicroPlan:
    settings, held = situation.options.micro.budget, situation.results.tokens
    can = situation.capabilities
    if settings.where == "uncached" and can.caching:
        return no_change("clearing would write the cache again")
    if settings.where == "unprotected" and can.caching and (can.cache_edits or can.context_editing):
        return no_change("the provider can clear without losing the cache")
    if held <= settings.tokens:
        return no_change(f"results hold {held:,} of {settings.tokens:,} tokens")
    to_clear = _oldest_until_it_fits(situation)
    saved = situation.results.saving(to_clear)
    if saved < settings.save_at_least or not to_clear:
        return no_change(f"{saved:,} tokens to save, fewer than {settings.save_at_least:,}")
    return clearing("budget", situation, to_clear, f"results hold {held:,} of {settings.tokens:,} tokens")


def _oldest_until_it_fits(situation: MicroContext) -> list[TrackedResult]:
    settings, left = situation.options.micro.budget, situation.results.tokens
    to_clear: list[TrackedResult] = []
    for result in seen(situation, situation.results.all_but(settings.keep)):
        if left <= settings.tokens:
            break
        to_clear.append(result)
        left -= 0 if situation.results.was_deleted(result.call) else result.tokens
    return to_clear
