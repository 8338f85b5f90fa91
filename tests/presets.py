"""Options for tests: a policy's preset with other numbers, with compactions, or without them."""

import msgspec

from everturn.decide.compact.settings import CompactSettings, Strategy
from everturn.decide.notes.settings import NotesSettings
from everturn.decide.options import Options
from everturn.decide.policy import get_policy
from everturn.decide.settings import MicroSettings

# Notes that somebody puts into a conversation may be its summary.
USABLE_NOTES = NotesSettings(enabled=True)


def preset(policy: str | Options) -> Options:
    """The options of a policy, by its name; options stay as they are."""
    return get_policy(policy).options if isinstance(policy, str) else policy


def with_numbers(policy: str, numbers: MicroSettings) -> Options:
    """A policy with other numbers: its steps stay its own, and so does whether it declares."""
    options = preset(policy)
    own = options.micro
    return msgspec.structs.replace(
        options, micro=msgspec.structs.replace(numbers, steps=own.steps, declare=own.declare)
    )


def with_threshold(policy: str | Options, percent: float) -> Options:
    """Compacts automatically at this share of the window."""
    options = preset(policy)
    thresholds = msgspec.structs.replace(options.thresholds, auto_percent=percent)
    return msgspec.structs.replace(options, thresholds=thresholds)


def compacting(
    policy: str | Options, *strategies: Strategy, compact: CompactSettings | None = None
) -> Options:
    """May compact, also where the policy itself never does, by these strategies."""
    chosen = msgspec.structs.replace(compact or CompactSettings(), enabled=True, strategies=strategies)
    return msgspec.structs.replace(preset(policy), compact=chosen)


def never_compacting(policy: str | Options) -> Options:
    options = preset(policy)
    return msgspec.structs.replace(options, compact=msgspec.structs.replace(options.compact, enabled=False))
