"""When automatic compaction stops trying: it fails, it is in vain, or it does not help (CP-22, CP-23).

These are values that whoever drives the session keeps, also across a restart; their words are for the user.
When a compaction is due: `triggers.py`.
"""

from typing import Final

import msgspec

from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import CompactionChain, Strategy
from everturn.measure.accounting import Metrics

# These spend nothing: they are tried even where nobody may be asked any more.
WITHOUT_CALLS: Final[tuple[Strategy, ...]] = ("notes", "extract")


class CompactionBreaker(msgspec.Struct, frozen=True, omit_defaults=True):
    """Failures in a row, and calls in a row that came to no summary. A compaction that had nothing to do is
    no failure, and is not reported here."""

    failures: int = 0
    last: str = ""
    limit: int = DEFAULTS.failures
    spent: int = 0
    calls: int = DEFAULTS.calls

    def asked(self) -> "CompactionBreaker":
        """A model is about to be asked: counted before it is, so that no crash forgets it."""
        return msgspec.structs.replace(self, spent=self.spent + 1)

    def failed(self, why: str) -> "CompactionBreaker":
        return msgspec.structs.replace(self, failures=self.failures + 1, last=why)

    def succeeded(self, way: Strategy) -> "CompactionBreaker":
        """Whoever asked for it. A way without a model says nothing about models: their calls in vain stay
        counted, or a session with such a way would pay for them at every compaction."""
        spent = self.spent if way in WITHOUT_CALLS else 0
        return msgspec.structs.replace(self, failures=0, last="", spent=spent)

    @property
    def is_open(self) -> bool:
        return self.failures >= self.limit

    @property
    def calls_left(self) -> int:
        return max(0, self.calls - self.spent)

    @property
    def says(self) -> str:
        """The state in words; "" where there is nothing to tell."""
        said = [self._failures] if self.failures else []
        if self.spent and not self.calls_left:
            said.append(
                f"{self.spent} calls for a summary in a row came to nothing: no model is asked for one until "
                "a compaction by hand has got one."
            )
        return " ".join(said)

    @property
    def _failures(self) -> str:
        state = f"{self.failures} compactions in a row have failed, the last one because: {self.last}."
        if not self.is_open:
            return state
        return f"{state} Automatic compaction is off until one succeeds: compact by hand, or start anew."


class RefillBreaker(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many compactions in a row came a few turns after the one before; and the boundary behind which that
    was one too many. Turns go on being counted there, and their number must not end the stop by itself: the
    loop would only pause (cc#85668)."""

    in_a_row: int = 0
    stopped: str = ""

    def compacted(self, chain: CompactionChain, settings: CompactSettings = DEFAULTS) -> "RefillBreaker":
        return RefillBreaker(self.in_a_row + 1) if is_rapid(chain, settings) else RefillBreaker()

    def stops(self, chain: CompactionChain, settings: CompactSettings = DEFAULTS) -> bool:
        """Whether the compaction that is due now would be one too many."""
        return is_rapid(chain, settings) and self.in_a_row + 1 >= settings.refills

    def stays_off(self, chain: CompactionChain) -> bool:
        """Whether it was one too many before, and nothing has been compacted since."""
        return bool(chain.follows) and chain.follows == self.stopped


def is_rapid(chain: CompactionChain, settings: CompactSettings = DEFAULTS) -> bool:
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
