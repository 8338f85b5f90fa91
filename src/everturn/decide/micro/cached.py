"""Delete old results in the provider's cache, which stays warm; our own messages do not change (MC-9, MC-12).

What is marked here becomes part of a request in `cache_edit_state.py`.
"""

from everturn.decide.micro.cache_edit_state import register_results
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change


def plan_cache_deletion(situation: MicroContext) -> MicroPlan:
    settings = situation.options.micro.cached
    if reason := _unable(situation):
        return no_change(reason)
    active = register_results(situation.cached, situation.results).active
    if len(active) < settings.trigger:
        return no_change(f"{len(active)} of {settings.trigger} active results")
    old = active[: max(0, len(active) - max(0, settings.keep))]
    to_clear = tuple(call for call in old if situation.results.was_seen(call))
    if not to_clear:
        return no_change(f"{len(active)} active results, but the model has not seen those beyond the newest")
    saved = situation.results.tokens_of(to_clear)
    return MicroPlan(
        "cached",
        why=f"{len(active)} active results: deletes {len(to_clear)} in the cache, saves {saved:,} tokens",
        tokens_saved=saved,
        delete=to_clear,
        forgotten=situation.results.paths_of(to_clear),
        detector_notice="deleted",
    )


def _unable(situation: MicroContext) -> str:
    if not situation.capabilities.cache_edits:
        return "the provider takes no cache edits"
    if not situation.is_main:
        return f"source {situation.source!r} is not the main thread"
    if situation.cached.rests:
        return "the cache has expired: there is nothing to delete from until it is written again"
    return ""
