"""After a long pause the cache is cold anyway: clearing old results now costs no miss (MC-6, MC-7)."""

import msgspec

from everturn.decide.micro.clearing import clearing, seen
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change
from everturn.history.edits import CacheDeletionsEnded


def plan_time_based_clearing(situation: MicroContext) -> MicroPlan:
    settings = situation.options.micro.time
    if reason := _too_early(situation):
        return no_change(reason)
    keep = max(1, settings.keep)
    to_clear = seen(situation, situation.results.all_but(keep))
    if not to_clear:
        return no_change(f"idle long enough, but nothing to clear beyond the newest {keep}")
    plan = clearing(
        "time", situation, to_clear, f"{_idle_minutes(situation)} minutes idle, the cache is cold"
    )
    return _starting_over(plan, situation) if plan.kind == "time" else plan


def is_cold(situation: MicroContext) -> bool:
    """Whether the pause was so long that no other kind is tried in this turn."""
    return not _too_early(situation)


def _too_early(situation: MicroContext) -> str:
    if not situation.is_main:
        return f"source {situation.source!r} is not the main thread"
    if situation.last_reply is None:
        return "no reply with a readable time"
    if situation.now < situation.last_reply:
        return "the clock went backwards"
    if situation.now - situation.last_reply <= situation.options.micro.time.idle:
        return f"{_idle_minutes(situation)} minutes idle, the cache may be warm"
    return ""


def _idle_minutes(situation: MicroContext) -> int:
    since = situation.last_reply or situation.now
    return int((situation.now - since).total_seconds() // 60)


def _starting_over(plan: MicroPlan, situation: MicroContext) -> MicroPlan:
    """Deletions in a cache that is gone have no effect any more; what they hid is cleared here for good."""
    ended = (CacheDeletionsEnded(plan.why),) if situation.cached.pinned else ()
    return msgspec.structs.replace(plan, edits=(*plan.edits, *ended), resets_cached=True)
