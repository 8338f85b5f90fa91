"""When automatic compaction stops trying: it fails, its calls give no summary, or it does not help.

CP-22, CP-23, CP-39. The breaker of failures and calls:

    closed ──failures, or calls without a summary──> open ──10 minutes, or 20 calls──> half-open
       ^                                              ^                                    │
       └── a model writes a summary ──────────────────┼────────────────────────────────────┤
                                                      └── the one try fails ───────────────┘

These are values that whoever drives the session keeps, also across a restart; their words are for the user.
When a compaction is due: `triggers.py`.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import CompactionChain, Strategy
from everturn.measure.accounting import Metrics

# These make no call: they are tried even where no model may be asked any more.
STRATEGIES_WITHOUT_CALLS: Final[tuple[Strategy, ...]] = ("notes", "extractive")

BreakerState = Literal["closed", "half-open", "open"]


class CompactionBreaker(msgspec.Struct, frozen=True, omit_defaults=True):
    """Compactions that failed in a row, and calls in a row that gave no summary. A compaction that had
    nothing to do is not a failure, and is not reported here."""

    failures: int = 0
    last: str = ""
    limit: int = DEFAULTS.failures
    spent: int = 0
    calls: int = DEFAULTS.calls
    # When it opened, or when the last try began, as a timestamp; and the conversation's own calls since then.
    opened_at: float = 0.0
    calls_since: int = 0
    retry_after: float = DEFAULTS.retry_after.total_seconds()
    retry_calls: int = DEFAULTS.retry_calls

    @classmethod
    def from_settings(cls, settings: CompactSettings) -> "CompactionBreaker":
        return cls().with_limits(settings)

    def with_limits(self, settings: CompactSettings) -> "CompactionBreaker":
        """The same counts under these limits. Counts may come from a file: one below zero would buy calls."""
        return msgspec.structs.replace(
            self,
            failures=max(0, self.failures),
            spent=max(0, self.spent),
            calls_since=max(0, self.calls_since),
            limit=settings.failures,
            calls=settings.calls,
            retry_after=settings.retry_after.total_seconds(),
            retry_calls=settings.retry_calls,
        )

    def before_call(self, now: datetime) -> "CompactionBreaker":
        """A model is about to be asked: counted before it is, so that no crash forgets it."""
        return self._changed(now, spent=self.spent + 1)

    def after_failure(self, why: str, now: datetime) -> "CompactionBreaker":
        return self._changed(now, failures=self.failures + 1, last=why)

    def after_success(self, strategy: Strategy) -> "CompactionBreaker":
        """Whoever asked for it. A strategy without a model says nothing about models: their calls without a
        summary stay counted, or a session with such a strategy would pay for them at every compaction."""
        if strategy in STRATEGIES_WITHOUT_CALLS:
            return msgspec.structs.replace(self, failures=0, last="")
        return msgspec.structs.replace(self, failures=0, last="", spent=0, opened_at=0.0, calls_since=0)

    def before_try(self, now: datetime) -> "CompactionBreaker":
        """The one try of a half-open breaker begins: from here on it is open again until the try succeeds."""
        return msgspec.structs.replace(self, opened_at=now.timestamp(), calls_since=0)

    def after_reply(self) -> "CompactionBreaker":
        """A call of the conversation itself was answered."""
        return msgspec.structs.replace(self, calls_since=self.calls_since + 1) if self.is_tripped else self

    def _changed(self, now: datetime, **counts: int | str) -> "CompactionBreaker":
        changed = msgspec.structs.replace(self, **counts)
        return changed.before_try(now) if changed.is_tripped and not self.is_tripped else changed

    @property
    def is_open(self) -> bool:
        """Whether compactions have failed too often; half-open or not."""
        return self.failures >= self.limit

    @property
    def calls_left(self) -> int:
        return max(0, self.calls - self.spent)

    @property
    def is_tripped(self) -> bool:
        return self.is_open or not self.calls_left

    def state(self, now: datetime) -> BreakerState:
        if not self.is_tripped:
            return "closed"
        idle = now.timestamp() - self.opened_at
        # A clock that was set back must not keep it open for ever.
        is_due = not 0 <= idle < self.retry_after or self.calls_since >= self.retry_calls
        return "half-open" if is_due else "open"

    def describe(self) -> str:
        """The state in words; "" where there is nothing to tell."""
        said = [self._failures] if self.failures else []
        if self.spent and not self.calls_left:
            said.append(f"{self.spent} calls for a summary in a row gave none: no model is asked for one.")
        if self.is_tripped:
            said.append(self._next_try)
        return " ".join(said)

    @property
    def _failures(self) -> str:
        what = f"{self.failures} compactions in a row have failed, the last one"
        state = f"{what if self.failures > 1 else 'The last compaction failed'} because: {self.last}."
        return f"{state} Automatic compaction is off." if self.is_open else state

    @property
    def _next_try(self) -> str:
        left = max(0, self.retry_calls - self.calls_since)
        due = datetime.fromtimestamp(self.opened_at, UTC) + timedelta(seconds=self.retry_after)
        when = f"at {due:%H:%M} UTC, or after {left} more calls" if left else "now"
        return f"The next try is {when}; a compaction by hand is possible at any time."


class RefillBreaker(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many compactions in a row came a few turns after the one before; and the boundary behind which that
    was one too many. A few more turns must not end the stop: the loop would only pause (cc#85668). But a
    context that is never compacted again grows, and every call pays for it: after `retry_calls` turns one
    attempt is made, and if the context is full again at once, it stops again."""

    in_a_row: int = 0
    stopped: str = ""

    def compacted(self, chain: CompactionChain, settings: CompactSettings = DEFAULTS) -> "RefillBreaker":
        if is_rapid(chain, settings):
            return RefillBreaker(self.in_a_row + 1)
        return RefillBreaker(self.in_a_row if self._is_behind(chain) else 0)

    def stops(self, chain: CompactionChain, settings: CompactSettings = DEFAULTS) -> bool:
        """Whether the compaction that is due now would be one too many."""
        return is_rapid(chain, settings) and self.in_a_row + 1 >= settings.refills

    def stays_off(self, chain: CompactionChain, settings: CompactSettings = DEFAULTS) -> bool:
        """Whether it was one too many before, nothing was compacted since, and no attempt is due."""
        return self._is_behind(chain) and chain.turns_since < settings.retry_calls

    def _is_behind(self, chain: CompactionChain) -> bool:
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
