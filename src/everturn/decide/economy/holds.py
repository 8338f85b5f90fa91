"""Whether to keep the cache alive through a pause (EC-2), by a call that reads it and asks for nothing."""

import msgspec

from everturn.decide.economy.pauses import HOUR, PauseTable
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.resets import spending_limit
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.economy.state import EconomyState
from everturn.history.records import Usage


class HoldDecision(msgspec.Struct, frozen=True, kw_only=True):
    """`holds` with the terms of the comparison, in dollars (EC-1)."""

    holds: bool
    cost: float
    expected: float
    chance: float
    why: str


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

    def after_hold(self, usage: Usage) -> "HoldInputs":
        """The same an hour later, if that hold was answered and nobody has spoken."""
        state = self.state.after_hold(self.prices.whole(usage))
        return msgspec.structs.replace(self, state=state, silence=self.silence + HOUR)


def decide_hold(given: HoldInputs) -> HoldDecision:
    state, prices, settings = given.state, given.prices, given.settings
    size = state.prompt + state.output
    # The first hold writes the reply behind the prefix for an hour; later ones read it.
    new = 0 if state.holds else state.output
    units = prices.read * (size - new) + prices.write_1h * new + prices.output * given.least_output
    cost, chance = units * prices.dollars, given.pauses.chance(given.silence)
    expected = chance * max(0.0, (prices.write_5m - prices.read) * size * prices.dollars)
    why = (
        f"${cost:.3f} to hold, expected saving ${expected:.3f}: {chance:.0%} of pauses this long end within "
        "the hour"
    )
    stop = _stop(state, cost, settings) if expected > cost else ""
    return HoldDecision(
        holds=expected > cost and not stop,
        cost=cost,
        expected=expected,
        chance=chance,
        why=f"{why}; but not now: {stop}" if stop else why,
    )


def _stop(state: EconomyState, cost: float, settings: EconomySettings) -> str:
    limit = spending_limit(state.unmanaged, settings)
    if state.held + cost > settings.hold_dollars:
        return f"holds have cost ${state.held:.2f} of ${settings.hold_dollars:.2f}"
    if state.spent + cost > limit:
        return f"${state.spent + cost:.3f} with it is above the limit of ${limit:.3f}"
    return ""
