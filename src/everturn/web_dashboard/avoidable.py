"""What cache breaks cost by cause, and what would have avoided them (DB-2).

The cost of a break is an estimate: the price of writing again what the call before had left in the cache,
minus the price of reading it. What the remedy itself costs is not subtracted here; "What if" computes that.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from everturn.web_dashboard.queries import BreakSums

_HOUR: Final = 60


class Remedy(msgspec.Struct, frozen=True):
    """A cause in words, what helps against it, and the policy to try; "" if no policy helps."""

    cause: str
    help: str
    policy: str


class AvoidableCost(msgspec.Struct, frozen=True):
    remedy: Remedy
    count: int
    lost: int
    nanos: int


REMEDIES: Final[Mapping[str, Remedy]] = {
    "short pause": Remedy(
        "cache rewrites after pauses of 5 to 60 minutes",
        "A cache TTL of one hour survives these pauses; its writes cost 60% more than with five minutes.",
        "claude-code+1h",
    ),
    "long pause": Remedy(
        "cache rewrites after pauses of more than 60 minutes",
        "When the cache is cold anyway, clear old results or compact first: then less is written again.",
        "when-cold",
    ),
    "clearing": Remedy(
        "cache rewrites after tool results were cleared",
        "Clear results only when the cache is cold, or by deleting them in the provider's cache.",
        "when-cold",
    ),
    "compaction": Remedy(
        "first calls after a compaction",
        "A new summary has to be written once. Fewer compactions: clear large results before.",
        "frugal",
    ),
    "model": Remedy(
        "cache rewrites after a change of model",
        "Each model has its own cache. Give side tasks to a sub-agent instead of switching.",
        "",
    ),
    "messages": Remedy(
        "cache rewrites because earlier messages changed",
        "A rewind, an edit of earlier messages, or too many blocks at once. Keep the prefix as it was.",
        "",
    ),
    "provider": Remedy(
        "misses of a cache that the provider manages",
        "Implicit caching makes no promise.",
        "",
    ),
    "unexplained": Remedy(
        "cache rewrites without a visible cause",
        "The transcript does not show why: tools or system prompt may have changed.",
        "",
    ),
}


def find_avoidable(found: Iterable[BreakSums]) -> list[AvoidableCost]:
    """By cause: those that a policy can avoid first, the most expensive of them at the top."""
    sums: dict[str, list[int]] = {}
    for each in found:
        row = sums.setdefault(_cause(each), [0, 0, 0])
        row[0] += each.count
        row[1] += each.lost
        row[2] += each.nanos
    costs = (AvoidableCost(REMEDIES[cause], *row) for cause, row in sums.items())
    return sorted(costs, key=lambda each: (not each.remedy.policy, -each.nanos))


def _cause(each: BreakSums) -> str:
    if each.reason == "idle":
        return "short pause" if each.minutes < _HOUR else "long pause"
    return each.reason if each.reason in REMEDIES else "unexplained"
