"""What a session is replayed under: a policy, how long its prefix lives, and whether it is kept alive (RP-8).

A scheme is written as the name of a policy and switches: `claude-code+1h+refresh`. `refresh` knows how long a
pause will be and acts only where that pays; `refresh-blind` does not, and gives up when it has spent as much.

Names that exist here only: `summarize-85` does nothing but compact at 85 % of the window, `recorded` edits as
the recording did and never by itself, `oracle` is a bound. What a policy does is decided in `decide/`.
"""

from typing import Final, Literal

import msgspec

from everturn.decide.policy import POLICIES, Policy
from everturn.errors import UsageError
from everturn.measure.prefix_cache import Ttl
from everturn.measure.thresholds import ThresholdSettings

# never: the conversation ends at the window. recorded: at the recorded boundaries. automatic: at the mark.
CompactionMode = Literal["never", "recorded", "automatic"]


class ReplayPolicy(msgspec.Struct, frozen=True):
    """`model` is empty for the recorded one, `window` 0 for what the recording shows."""

    name: str
    policy: Policy
    ttl: Ttl = "5m"
    refresh: bool = False
    model: str = ""
    compacts: CompactionMode = "never"
    window: int = 0
    # Whether it knows which results will be used again: a bound, and nothing to run live (RP-9).
    foresight: bool = False
    # Refreshes without knowing how long a pause will be: until it has spent what writing again costs.
    blind: bool = False


# The automatic mark lies at a share of the whole window: no reserves are taken off before it.
_AT_85: Final = Policy(
    name="summarize-85",
    about="everything is summarized once 85 % of the window are used, and nothing happens before",
    thresholds=ThresholdSettings(output_reserve=0, auto_margin=0, auto_percent=85.0),
)
_AS_RECORDED: Final = Policy(
    name="recorded", about="cleared and compacted where the recording says so, and nowhere else"
)
_ORACLE: Final = Policy(
    name="oracle", about="a bound: clears what is never used again, when that is free or pays"
)
# Clearing alone does not keep a long session inside its window, so those who only clear compact at the mark
# as every agent does; a window that slides never gets there, and `none` ends there.
_COMPACTS: Final[dict[str, CompactionMode]] = {
    "claude-code": "automatic",
    "frugal": "automatic",
    "when-cold": "automatic",
    "clear-keep-3": "automatic",
    "masking": "automatic",
    "summarize-85": "automatic",
    "oracle": "automatic",
    "recorded": "recorded",
}
_ORDER: Final = (
    "none", "recorded", "claude-code", "frugal", "when-cold", "clear-keep-3", "masking", "sliding-window",
    "summarize-85", "oracle",
)  # fmt: skip
_POLICIES: Final = {**POLICIES, **{each.name: each for each in (_AT_85, _AS_RECORDED, _ORACLE)}}

REPLAY_POLICIES: Final = {
    name: ReplayPolicy(
        name, _POLICIES[name], compacts=_COMPACTS.get(name, "never"), foresight=name == _ORACLE.name
    )
    for name in _ORDER
}


def parse_policy(text: str, *, model: str = "", window: int = 0) -> ReplayPolicy:
    """The scheme that a name and its switches stand for."""
    name, *switches = text.strip().split("+")
    found = REPLAY_POLICIES.get(name)
    if found is None:
        raise UsageError(f"There is no policy {name!r}. Choose one of: {', '.join(REPLAY_POLICIES)}.")
    unknown = [each for each in switches if each not in ("5m", "1h", "refresh", "refresh-blind")]
    if unknown or {"5m", "1h"} <= set(switches) or {"refresh", "refresh-blind"} <= set(switches):
        raise UsageError(
            f"{text!r} cannot be read: a policy takes +5m or +1h, and +refresh or +refresh-blind."
        )
    found = msgspec.structs.replace(found, window=window)
    found = msgspec.structs.replace(found, blind="refresh-blind" in switches)
    refresh = found.blind or "refresh" in switches
    return apply_switches(found, ttl="1h" if "1h" in switches else "5m", refresh=refresh, model=model)


def apply_switches(found: ReplayPolicy, *, ttl: Ttl, refresh: bool, model: str = "") -> ReplayPolicy:
    """The scheme with these switches; its name says which are set."""
    kept = "+refresh-blind" if found.blind else "+refresh" if refresh else ""
    name = found.name.partition("+")[0] + ("+1h" if ttl == "1h" else "") + kept
    return msgspec.structs.replace(found, name=name, ttl=ttl, refresh=refresh, model=model)
