"""Policies for replay: context management, cache TTL, and whether the cache is refreshed (RP-8).

A replay policy is written as a policy name and switches: `claude-code+1h+refresh`. `refresh` knows how long
each pause is and refreshes only if that is cheaper. `refresh-blind` does not know, and stops when it has
spent as much as a new cache write costs.

Three names exist only here: `summarize-85` compacts at 85 % of the window and does nothing else, `recorded`
repeats the edits of the recording, and `clears-only` is a bound: it knows which results are used again. What
a policy does is defined in `decide/`.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final, Literal

import msgspec

from everturn.decide.compact.settings import CompactSettings, Strategy
from everturn.decide.economy.settings import CAUTIONS, EconomySettings
from everturn.decide.options import Options, TokenSettings
from everturn.decide.policy import POLICIES
from everturn.decide.settings import MicroSettings
from everturn.errors import UsageError
from everturn.measure.prefix_cache import Ttl
from everturn.measure.thresholds import ThresholdSettings

# The policy that repeats what the recording did.
RECORDED: Final = "recorded"
# never: the run ends when the window is full. recorded: at the recorded boundaries. automatic: at the
# threshold.
CompactionMode = Literal["never", "recorded", "automatic"]


class ReplayPolicy(msgspec.Struct, frozen=True):
    """An empty `model` means the recorded one; `window` 0 means the window that the recording shows."""

    name: str
    options: Options
    ttl: Ttl = "5m"
    refresh: bool = False
    model: str = ""
    compacts: CompactionMode = "never"
    window: int = 0
    # Whether it knows which results will be used again. Such a policy is a bound and cannot run live (RP-9).
    foresight: bool = False
    # Refreshes without knowing the length of a pause, until it has spent what a new cache write costs.
    blind: bool = False
    # The model that is asked for summaries; empty for the summarizer without a model (RP-5).
    summarizer: str = ""

    @property
    def knows_future(self) -> bool:
        """Whether it knows what comes: later uses, or how long each pause is. No live agent does."""
        return self.foresight or (self.refresh and not self.blind)

    @property
    def repeats_recording(self) -> bool:
        """Whether the recording itself is replayed, so that its reported usage is what should come out."""
        return self.compacts == "recorded" and self.ttl == "5m" and not (self.refresh or self.model)


_BY_THRESHOLD: Final = EconomySettings(enabled=False)
_WHOLE_SUMMARY: Final = CompactSettings(summary_tokens=0)
_NO_CLEARING: Final = MicroSettings(steps=(), declare=False)
# The threshold of `summarize-85` is a share of the whole window, without reserves.
_AT_85: Final = Options(
    policy="summarize-85",
    micro=_NO_CLEARING,
    compact=_WHOLE_SUMMARY,
    economy=_BY_THRESHOLD,
    thresholds=ThresholdSettings(output_reserve=0, auto_margin=0, auto_percent=85.0),
)
_AS_RECORDED: Final = Options(
    policy="recorded", micro=_NO_CLEARING, compact=_WHOLE_SUMMARY, economy=_BY_THRESHOLD
)
_CLEARS_ONLY: Final = msgspec.structs.replace(_AS_RECORDED, policy="clears-only")
# A recording has no notes, so a summary is obtained from the conversation.
_STRATEGIES: Final[tuple[Strategy, ...]] = ("fork", "direct", "extractive")
# When a policy compacts; "automatic" if it is not here. Clearing alone does not keep a long session inside
# its window, so policies that only clear also compact at the threshold. A sliding window never reaches it,
# and `none` ends there.
_COMPACTS: Final[dict[str, CompactionMode]] = {
    "none": "never",
    "sliding-window": "never",
    "recorded": "recorded",
}
_OPTIONS: Final = {
    **{name: each.options for name, each in POLICIES.items()},
    **{each.policy: each for each in (_AT_85, _AS_RECORDED, _CLEARS_ONLY)},
}
# In which order they are listed; a policy that is new comes last.
_FIRST: Final = (
    "none", "recorded", "claude-code", "frugal", "economic", "when-cold", "clear-keep-3", "masking",
    "sliding-window", "summarize-85", "clears-only",
)  # fmt: skip


def _replay_policy(name: str) -> ReplayPolicy:
    compacts = _COMPACTS.get(name, "automatic")
    how = msgspec.structs.replace(
        _OPTIONS[name].compact, strategies=_STRATEGIES, enabled=compacts == "automatic"
    )
    # Where prices decide, they decide about pauses too.
    economy = msgspec.structs.replace(_OPTIONS[name].economy, holds=_OPTIONS[name].economy.enabled)
    # Recorded counts are exact already: nothing is left to calibrate.
    options = msgspec.structs.replace(
        _OPTIONS[name], compact=how, economy=economy, tokens=TokenSettings(calibrate=False)
    )
    return ReplayPolicy(name, options, compacts=compacts, foresight=name == _CLEARS_ONLY.policy)


REPLAY_POLICIES: Final = {name: _replay_policy(name) for name in dict.fromkeys((*_FIRST, *_OPTIONS))}


# Names that users have seen before; the command says the new one.
FORMER_NAMES: Final = {"oracle": "clears-only"}
# The policy that decides by price.
ECONOMIC: Final = "economic"
# The name under which a user's own options are replayed.
CONFIGURED: Final = "configured"


def _configured(options: Options) -> ReplayPolicy:
    mode: CompactionMode = "automatic" if options.may_compact else "never"
    usable = tuple(each for each in options.compact.strategies if each != "notes")
    compact = msgspec.structs.replace(options.compact, strategies=usable)
    options = msgspec.structs.replace(options, compact=compact, tokens=TokenSettings(calibrate=False))
    return ReplayPolicy(CONFIGURED, options, compacts=mode)


def parse_policy(
    text: str, *, model: str = "", window: int = 0, configured: Options | None = None
) -> ReplayPolicy:
    """Parses a policy name and its switches. `configured` are the options that this name stands for."""
    name, *switches = text.strip().split("+")
    name = FORMER_NAMES.get(name, name)
    found = _configured(configured or Options()) if name == CONFIGURED else REPLAY_POLICIES.get(name)
    if found is None:
        near = get_close_matches(name, [*REPLAY_POLICIES, CONFIGURED], n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"Unknown policy {name!r}. {hint}Choose one of: {', '.join(REPLAY_POLICIES)}.")
    unknown = [each for each in switches if each not in ("5m", "1h", "refresh", "refresh-blind", *CAUTIONS)]
    if unknown or {"5m", "1h"} <= set(switches) or {"refresh", "refresh-blind"} <= set(switches):
        raise UsageError(
            f"Invalid switches in {text!r}: a policy takes +5m or +1h, and +refresh or +refresh-blind; "
            f"`economic` also one of {', '.join(f'+{each}' for each in CAUTIONS)}."
        )
    found = _with_caution(found, [each for each in switches if each in CAUTIONS])
    found = msgspec.structs.replace(found, window=window)
    found = msgspec.structs.replace(found, blind="refresh-blind" in switches)
    refresh = found.blind or "refresh" in switches
    return apply_switches(found, ttl="1h" if "1h" in switches else "5m", refresh=refresh, model=model)


def add_caution(text: str, caution: str) -> str:
    """The written policy with this caution, if it decides by price and names none itself."""
    name, *switches = text.strip().split("+")
    if name != ECONOMIC or not set(CAUTIONS).isdisjoint(switches):
        return text
    return "+".join((name, caution, *switches))


def _with_caution(found: ReplayPolicy, cautions: Sequence[str]) -> ReplayPolicy:
    """`economic+frugal`: the policy with another caution (EC-7)."""
    if not cautions:
        return found
    if len(cautions) > 1 or not found.options.economy.enabled:
        raise UsageError(
            f"Invalid switches +{'+'.join(cautions)}: only `economic` takes one of {', '.join(CAUTIONS)}."
        )
    economy = msgspec.structs.replace(found.options.economy, caution=cautions[0])
    options = msgspec.structs.replace(found.options, economy=economy)
    return msgspec.structs.replace(found, options=options, name=f"{found.name}+{cautions[0]}")


def bill_summaries_as(policy: ReplayPolicy, model: str) -> ReplayPolicy:
    """The policy with summaries that are billed as if this model had written them. Their text is still
    written without a model. A policy that writes no summaries is unchanged.
    """
    asked = use_summarizer(policy, model)
    return msgspec.structs.replace(asked, summarizer="")


def use_summarizer(policy: ReplayPolicy, model: str) -> ReplayPolicy:
    """The policy with summaries by this model. It is asked directly: it has no cached prefix of the recorded
    conversation, and recorded thinking is not valid for it. A policy that writes no summaries is unchanged.
    """
    if policy.compacts != "automatic":
        return policy
    compact = msgspec.structs.replace(
        policy.options.compact, strategies=("direct", "extractive"), summary_model=model
    )
    options = msgspec.structs.replace(policy.options, compact=compact)
    return msgspec.structs.replace(policy, options=options, summarizer=model)


def apply_switches(found: ReplayPolicy, *, ttl: Ttl, refresh: bool, model: str = "") -> ReplayPolicy:
    """The policy with these switches, which also become part of its name."""
    kept = "+refresh-blind" if found.blind else "+refresh" if refresh else ""
    economy = found.options.economy
    base = found.name.partition("+")[0]
    chosen = f"+{economy.caution}" if found.name.startswith(f"{base}+{economy.caution}") else ""
    name = base + chosen + ("+1h" if ttl == "1h" else "") + kept
    return msgspec.structs.replace(found, name=name, ttl=ttl, refresh=refresh, model=model)
