"""Clear by size where there is no cache to protect, or nothing gentler to protect it with (MC-16)."""

from everturn.decide.micro.clearing import clearing, seen
from everturn.decide.micro.situation import MicroPlan, Situation, nothing
from everturn.decide.results import Result


def budget(situation: Situation) -> MicroPlan:
    settings, held = situation.policy.micro.budget, situation.results.tokens
    if settings.where == "unprotected" and _has_better(situation):
        return nothing("there is a cache to protect, and a gentler way")
    if held <= settings.tokens:
        return nothing(f"results hold {held:,} of {settings.tokens:,} tokens")
    doomed = _oldest_until_it_fits(situation)
    saved = situation.results.saving(doomed)
    if saved < settings.save_at_least or not doomed:
        return nothing(f"{saved:,} tokens to save, fewer than {settings.save_at_least:,}")
    return clearing("budget", situation, doomed, f"results hold {held:,} of {settings.tokens:,} tokens")


def _has_better(situation: Situation) -> bool:
    can = situation.capabilities
    return can.caching and (can.cache_edits or can.context_editing)


def _oldest_until_it_fits(situation: Situation) -> list[Result]:
    settings, left = situation.policy.micro.budget, situation.results.tokens
    doomed: list[Result] = []
    for result in seen(situation, situation.results.all_but(settings.keep)):
        if left <= settings.tokens:
            break
        doomed.append(result)
        left -= 0 if situation.results.was_deleted(result.call) else result.tokens
    return doomed
