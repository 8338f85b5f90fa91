"""Whether to keep the cache alive through a pause (EC-2), by a call that reads it and asks for nothing."""

from typing import Literal

import msgspec

from everturn.decide.economy.amounts import format_compared
from everturn.decide.economy.pauses import HOUR, PauseTable
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.refreshes import refresh_chance
from everturn.decide.economy.resets import spending_limit
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.economy.state import EconomyState
from everturn.history.records import Usage

# How the cache is kept: an entry for an hour behind the last reply; one for five minutes; or the last request
# once more, where somebody else places the breakpoints (EC-3).
HoldForm = Literal["hour", "refresh", "repeat"]
# Why there is no hold: it is not worth its price, a limit is reached, or the API would not take it.
Refusal = Literal["", "price", "limit", "request"]


class HoldDecision(msgspec.Struct, frozen=True, kw_only=True):
    """`holds` with the terms of the comparison, in dollars (EC-1)."""

    holds: bool
    cost: float
    expected: float
    chance: float
    why: str
    refusal: Refusal = ""

    def refused(self, why: str) -> "HoldDecision":
        """The same price, for a hold that cannot be sent."""
        return msgspec.structs.replace(self, holds=False, why=f"{why} ({self.why})", refusal="request")


class HoldInputs(msgspec.Struct, frozen=True, kw_only=True):
    """`silence` are the seconds since the last call. `least_output` are the tokens that the API insists on
    writing where it does not accept an empty answer.
    """

    state: EconomyState
    silence: float
    least_output: int
    prices: RelativePrices
    settings: EconomySettings
    pauses: PauseTable
    form: HoldForm = "hour"

    @property
    def interval(self) -> float:
        """Seconds until the next hold of the same pause."""
        return HOUR if self.form == "hour" else self.settings.hold_after.total_seconds()

    def after_hold(self, usage: Usage) -> "HoldInputs":
        """The same an interval later, if that hold was answered and nobody has spoken."""
        state = self.state.after_hold(self.prices.whole(usage))
        return msgspec.structs.replace(self, state=state, silence=self.silence + self.interval)


def decide_hold(given: HoldInputs) -> HoldDecision:
    state, prices, settings, form = given.state, given.prices, given.settings, given.form
    size = state.prompt if form == "repeat" else state.prompt + state.output
    # The first hold writes the reply behind the prefix; later ones read it.
    new = 0 if state.holds or form == "repeat" else state.output
    write = prices.write_1h if form == "hour" else prices.write_5m
    # What the caller has no breakpoint behind is sent at the plain price again.
    cached = min(size, state.cached) if form == "repeat" else size - new
    units = prices.read * cached + (size - new - cached) + write * new + prices.output * given.least_output
    is_hour = form == "hour"
    chance = given.pauses.chance(given.silence) if is_hour else refresh_chance(given.silence)
    cost = units * prices.dollars
    # What others keep alive is read in any case.
    own = max(0, cached + new - state.shared)
    expected = chance * max(0.0, (prices.write - prices.read) * own * prices.dollars)
    shown, saving = format_compared(cost, expected)
    why = (
        f"{shown} to hold, expected saving {saving}: {chance:.0%} of pauses this long end within "
        f"{'the hour' if is_hour else 'five minutes'}"
    )
    stop = _stop(state, cost, settings) if expected > cost else ""
    return HoldDecision(
        holds=expected > cost and not stop,
        cost=cost,
        expected=expected,
        chance=chance,
        why=f"{why}; but not now: {stop}" if stop else why,
        refusal="limit" if stop else "" if expected > cost else "price",
    )


def _stop(state: EconomyState, cost: float, settings: EconomySettings) -> str:
    limit = spending_limit(state.unmanaged, settings)
    limit = min(limit, state.unmanaged * (1 + settings.hold_share))
    if state.held + cost > settings.hold_dollars:
        held, most = format_compared(state.held, settings.hold_dollars, digits=2)
        return f"holds have cost {held} of {most}"
    if state.spent + cost > limit:
        spent, most = format_compared(state.spent + cost, limit)
        return f"{spent} with it is above the limit of {most}"
    return ""
