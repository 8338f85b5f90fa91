"""Results too large to show go to a file before the model ever sees them (MC-17).

Only results that no request has carried are looked at, so each is decided once: what was shown stays, what
was offloaded stays offloaded (an appended edit). Nothing that was sent changes, so no cache breaks, no bound
thinking is lost and nothing waits for a tool loop. Errors, and results that are not text alone, stay.
"""

from hashlib import blake2b
from string import ascii_letters, digits
from typing import Final

from everturn.decide.micro.context import MicroContext, MicroPlan, OffloadPlan, no_change, several
from everturn.decide.result_tracker import NewResult
from everturn.history.blocks import text_of

_SAFE: Final = frozenset(ascii_letters + digits + "_-")
# Long enough for every id that providers give, short enough for every file system.
_MAX_NAME_LENGTH: Final = 100


def plan_offloading(situation: MicroContext) -> MicroPlan:
    chosen = _chosen(situation)
    if not chosen:
        return no_change("every new result may be shown")
    limit = situation.options.micro.oversize.preview
    plans = tuple(_plan(fresh, why, limit) for fresh, why in chosen)
    saved = sum(_saved(fresh, plan) for (fresh, _), plan in zip(chosen, plans, strict=True))
    why = f"moves {several(len(plans), 'new result')} to files, saves {saved:,} tokens"
    return MicroPlan("oversize", why=why, tokens_saved=saved, offload=plans)


def _chosen(situation: MicroContext) -> list[tuple[NewResult, str]]:
    """Those over their own limit, then the largest until the message fits; in the order they came.

    A file that was read is moved only where the message does not fit: reading the copy would be the same read
    again (MC-21).
    """
    settings, results = situation.options.micro.oversize, situation.results
    held = sum(results.shown_characters(fresh.result) for fresh in results.newest)
    chosen: dict[str, str] = {}
    candidates = [fresh.result for fresh in _candidates(situation)]
    for result in candidates:
        if result.characters > settings.single and not result.is_file_read:
            chosen[result.call] = f"a result may hold {settings.single:,} characters"
            held -= result.characters - settings.preview
    for result in sorted(candidates, key=lambda result: -result.characters):
        if held > settings.message and result.call not in chosen:
            chosen[result.call] = f"the results of a message may hold {settings.message:,} characters"
            held -= result.characters - settings.preview
    return [(fresh, chosen[fresh.result.call]) for fresh in results.newest if fresh.result.call in chosen]


def _candidates(situation: MicroContext) -> list[NewResult]:
    results, preview = situation.results, situation.options.micro.oversize.preview
    return [
        fresh
        for fresh in results.newest
        if fresh.result.characters > preview
        and not fresh.result.is_error
        and not results.was_seen(fresh.result.call)
        and not results.was_offloaded(fresh.result.call)
        and not results.is_offload_file(fresh.result.path)
    ]


def _plan(fresh: NewResult, why: str, limit: int) -> OffloadPlan:
    content = text_of(fresh.block)
    return OffloadPlan(
        fresh.result.call, file_name(fresh.result.call), content, preview(content, limit), len(content), why
    )


def _saved(fresh: NewResult, plan: OffloadPlan) -> int:
    tokens = fresh.result.tokens
    return tokens - tokens * len(plan.preview) // max(1, plan.characters)


def preview(text: str, limit: int) -> str:
    """The beginning of a text, cut at the end of a line unless that would take more than half of it."""
    if len(text) <= limit:
        return text
    beginning = text[:limit]
    at = beginning.rfind("\n")
    return beginning[:at] if at * 2 >= limit else beginning


def file_name(call: str) -> str:
    """Derived from the call id, so that it never changes; an id that is not a plain name gets a digest."""
    plain = "".join(letter if letter in _SAFE else "_" for letter in call)[:_MAX_NAME_LENGTH]
    if plain == call and call:
        return f"{plain}.txt"
    return f"{plain}-{blake2b(call.encode(errors='surrogatepass'), digest_size=6).hexdigest()}.txt"
