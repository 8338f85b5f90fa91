"""Policies: named presets of `Options`, so that two can be compared on one session (CF-3).

A policy says which micro-compactions are tried, in which order, and with which numbers. Those that imitate
other systems do exactly what those systems do, including rolling edits: a comparison shows what that costs.
"""

from typing import Final

import msgspec

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.options import Options
from everturn.decide.settings import BudgetSettings, MicroSettings
from everturn.decide.tools import ALL_ALIKE
from everturn.errors import UsageError


class Policy(msgspec.Struct, frozen=True):
    name: str
    about: str
    options: Options


def _policy(name: str, about: str, **fields: object) -> Policy:
    return Policy(name, about, Options(policy=name, **fields))  # pyright: ignore[reportArgumentType]


def _fixed(name: str, about: str, micro: MicroSettings, **fields: object) -> Policy:
    """A policy that decides by thresholds, not by price; a summary is as long as it needs to be."""
    by_threshold = {"economy": EconomySettings(enabled=False), "compact": CompactSettings(summary_tokens=0)}
    return _policy(name, about, micro=micro, **(by_threshold | fields))


_ALL: Final = (
    _policy(
        "economic",
        "compact when carrying has cost as much as a reset, or a cold cache must be written anyway",
    ),
    _fixed(
        "claude-code",
        "cold: clear; warm: delete in the cache where possible; large results go to files",
        MicroSettings(budget=BudgetSettings(where="unprotected")),
    ),
    _fixed(
        "frugal",
        "like claude-code, and results beyond the budget are cleared even where that costs a cache",
        MicroSettings(budget=BudgetSettings(where="everywhere")),
    ),
    _fixed(
        "when-cold",
        "clear old results once the cache is surely cold",
        MicroSettings(steps=("time",), declare=False),
    ),
    _fixed(
        "none",
        "nothing is ever changed; the conversation ends when the window is full",
        MicroSettings(steps=(), declare=False),
        compact=CompactSettings(enabled=False, summary_tokens=0),
    ),
    _fixed(
        "sliding-window",
        "the oldest rounds are dropped at a budget",
        MicroSettings(steps=("window",), declare=False),
    ),
    _fixed(
        "clear-keep-3",
        "all but the newest results are cleared, as the API's clear_tool_uses does",
        MicroSettings(steps=("clear_at",), declare=False),
        tools=ALL_ALIKE,
    ),
    _fixed(
        "masking",
        "only the newest results are shown, decided anew on every turn",
        MicroSettings(steps=("masking",), declare=False),
        tools=ALL_ALIKE,
    ),
)

POLICIES: Final = {each.name: each for each in _ALL}


def get_policy(name: str) -> Policy:
    found = POLICIES.get(name)
    if found is None:
        raise UsageError(f"No policy is named {name!r}. Choose one of: {', '.join(sorted(POLICIES))}.")
    return found
