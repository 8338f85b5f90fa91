"""The values of a simulation: calls, their sums, and a run (RP-7). How they come about: `simulate.py`."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from everturn.replay.refetches import Refetch

# main: a recorded call. compact: the call that writes a summary. refresh: a call for nothing but the cache.
# fault: the call that fetches again what is no longer visible.
CallSource = Literal["main", "compact", "refresh", "fault"]


class SimulatedCall(msgspec.Struct, frozen=True):
    """One call as it would have been billed. `number` is that of the recorded call it belongs to."""

    thread: str
    number: int
    at: datetime
    source: CallSource
    read: int
    write_5m: int
    write_1h: int
    plain: int
    output: int
    dollars: Decimal
    context: int
    # Results hidden before this call, and everything that was done before it, in words.
    cleared: int = 0
    why: str = ""
    # Why much less was read than the last call left behind; empty where it was not.
    broke: str = ""
    faults: tuple[Refetch, ...] = ()
    model: str = ""


class ReplayCost(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars by kind: the recorded calls by kind of token, everything that a policy adds as a whole."""

    plain: Decimal = Decimal(0)
    write_5m: Decimal = Decimal(0)
    write_1h: Decimal = Decimal(0)
    read: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    summaries: Decimal = Decimal(0)
    # The extra calls, and the first payment for what they fetched.
    faults: Decimal = Decimal(0)
    refresh: Decimal = Decimal(0)

    @property
    def dollars(self) -> Decimal:
        return sum((getattr(self, name) for name in ReplayCost.__struct_fields__), Decimal(0))


class RetainedCount(msgspec.Struct, frozen=True):
    """How many of so many things that mattered still stand in the context at the end (BY-6)."""

    kept: int = 0
    total: int = 0


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of a run. `calls` are the recorded ones that were made; tokens are those of all calls."""

    calls: int = 0
    spent: ReplayCost = ReplayCost()
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    plain: int = 0
    output: int = 0
    peak: int = 0
    mean: float = 0.0
    breaks: dict[str, int] = {}
    compactions: int = 0
    refreshes: int = 0
    faults: int = 0
    # By what it is: user_instructions, paths, identifiers, errors.
    left: dict[str, RetainedCount] = {}

    @property
    def dollars(self) -> Decimal:
        return self.spent.dollars

    @property
    def hit_rate(self) -> float:
        """The share of all input that was read from the cache."""
        return self.read / max(1, self.read + self.write_5m + self.write_1h + self.plain)

    @property
    def faults_per_100(self) -> float:
        return 100 * self.faults / max(1, self.calls)


class ReplayRun(msgspec.Struct, frozen=True):
    """A session under a scheme. `ended_early` says where it no longer fitted; empty where it always did."""

    session: str
    scheme: str
    calls: tuple[SimulatedCall, ...]
    totals: Totals
    ended_early: str = ""
    # What was assumed: models measured as others, the counting ratio, the window.
    notes: tuple[str, ...] = ()
    # What no policy can undercut, for the calls that were made (RP-9).
    floor: Decimal = Decimal(0)
