"""When automatic compaction stops trying: it fails, or it does not help (CP-22, CP-23).

Both are values that whoever drives the session keeps; their words are for the user. When a compaction is
due: `when.py`.
"""

from typing import Final

import msgspec

from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import Chain
from everturn.measure.accounting import Metrics


class Breaker(msgspec.Struct, frozen=True):
    """Failures in a row. A compaction that had nothing to do is no failure, and is not reported here."""

    failures: int = 0
    last: str = ""
    limit: int = DEFAULTS.failures

    def failed(self, why: str) -> "Breaker":
        return msgspec.structs.replace(self, failures=self.failures + 1, last=why)

    def succeeded(self) -> "Breaker":
        """By whatever way and whoever asked for it."""
        return Breaker(limit=self.limit)

    @property
    def is_open(self) -> bool:
        return self.failures >= self.limit

    @property
    def says(self) -> str:
        """The state in words; "" where there is nothing to tell."""
        if not self.failures:
            return ""
        state = f"{self.failures} compactions in a row have failed, the last one because: {self.last}."
        if not self.is_open:
            return state
        return f"{state} Automatic compaction is off until one succeeds: compact by hand, or start anew."


class Refill(msgspec.Struct, frozen=True):
    """How many compactions in a row came a few turns after the one before."""

    in_a_row: int = 0

    def compacted(self, chain: Chain, settings: CompactSettings = DEFAULTS) -> "Refill":
        return Refill(self.in_a_row + 1) if is_rapid(chain, settings) else Refill()

    def stops(self, chain: Chain, settings: CompactSettings = DEFAULTS) -> bool:
        """Whether the compaction that is due now would be one too many."""
        return is_rapid(chain, settings) and self.in_a_row + 1 >= settings.refills


def is_rapid(chain: Chain, settings: CompactSettings = DEFAULTS) -> bool:
    return bool(chain.follows) and chain.turns_since <= settings.refill_turns


_FIGURES: Final = ("human", "assistant", "local_output", "thinking", "images", "injected")


def filled_by(metrics: Metrics, settings: CompactSettings = DEFAULTS) -> str:
    """What fills a context, largest first, with its share."""
    parts = {f"results of {tool}": tokens for tool, tokens in metrics.tool_results.items()}
    parts |= {f"calls of {tool}": tokens for tool, tokens in metrics.tool_requests.items()}
    parts |= {name.replace("_", " "): getattr(metrics, name) for name in _FIGURES}
    largest = sorted(parts.items(), key=lambda part: -part[1])[: settings.culprits]
    total = metrics.total or 1
    return ", ".join(f"{name} {100 * tokens // total}%" for name, tokens in largest if tokens)
