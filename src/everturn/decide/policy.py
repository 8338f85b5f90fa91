"""Policies: named bundles of every setting, so that two can be compared on one session (CF-3).

A policy says which micro-compactions are tried, in which order, and with which numbers. Those that imitate
other systems do what those really do, rolling edits and all: their cost is what a comparison should show.
"""

from typing import Final, Literal

import msgspec

from everturn.decide.settings import BudgetSettings, MicroSettings
from everturn.decide.tools import ALL_ALIKE, DEFAULT_TOOLS, ToolKinds
from everturn.errors import UsageError
from everturn.measure.thresholds import ThresholdSettings
from everturn.view.key_parameters import TtlSettings

StepName = Literal["oversize", "time", "cached", "budget", "masking", "clear_at", "window"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    about: str = ""
    # Tried in this order; the first that acts is the only one. "oversize" stands beside the others.
    steps: tuple[StepName, ...] = ()
    micro: MicroSettings = MicroSettings()
    ttl: TtlSettings = TtlSettings()
    thresholds: ThresholdSettings = ThresholdSettings()
    tools: ToolKinds = DEFAULT_TOOLS
    # Whether requests carry a `context_management` (MC-13).
    declares: bool = False


_ALL: Final = (
    Policy(
        name="claude-code",
        about="cold: clear; warm: delete in the cache where possible; large results go to files",
        steps=("oversize", "time", "cached", "budget"),
        declares=True,
    ),
    Policy(
        name="frugal",
        about="like claude-code, and results beyond the budget are cleared even where that costs a cache",
        steps=("oversize", "time", "cached", "budget"),
        micro=MicroSettings(budget=BudgetSettings(where="everywhere")),
        declares=True,
    ),
    Policy(name="when-cold", about="clear old results once the cache is surely cold", steps=("time",)),
    Policy(name="none", about="nothing is ever changed; ends at the window"),
    Policy(name="sliding-window", about="the oldest rounds are dropped at a budget", steps=("window",)),
    Policy(
        name="clear-keep-3",
        about="all but the newest results are cleared, as the API's clear_tool_uses does",
        steps=("clear_at",),
        tools=ALL_ALIKE,
    ),
    Policy(
        name="masking",
        about="only the newest results are shown, decided anew on every turn",
        steps=("masking",),
        tools=ALL_ALIKE,
    ),
)

POLICIES: Final = {each.name: each for each in _ALL}


def get_policy(name: str) -> Policy:
    found = POLICIES.get(name)
    if found is None:
        raise UsageError(f"There is no policy {name!r}. Choose one of: {', '.join(sorted(POLICIES))}.")
    return found
