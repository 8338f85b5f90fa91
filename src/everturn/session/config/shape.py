"""What can be configured: one value that holds every number of every chapter (CF-1, CF-2).

Its leaves are the configuration's keys: `micro.time.keep`, `thresholds.auto_percent`. A number is written
where it is used, in the settings of its own chapter; here it only gets a name.
"""

from typing import Final

import msgspec

from everturn.decide.cache_breaks import BreakSettings
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.notes.settings import NotesSettings
from everturn.decide.policy import Policy, StepName, get_policy
from everturn.decide.settings import MicroSettings
from everturn.decide.tools import DEFAULT_TOOLS, ToolKinds
from everturn.measure.thresholds import ThresholdSettings
from everturn.view.key_parameters import TtlSettings

DEFAULT_POLICY: Final = "claude-code"


class Secret:
    """A key. It is shown to nobody; whoever needs it asks for it by name."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "(set, not shown)" if self._value else "(not set)"


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The way to the API. A project's file cannot change it: it could send the key elsewhere."""

    api_key: Secret = Secret()
    auth_token: Secret = Secret()
    base_url: str = ""


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """What may happen at all. Auto-compaction is `thresholds.auto_compaction`, notes are `notes.enabled`."""

    everything: bool = True
    compaction: bool = True
    micro_compaction: bool = True
    # One for each kind of micro-compaction.
    oversize: bool = True
    time: bool = True
    cached: bool = True
    budget: bool = True
    masking: bool = True
    clear_at: bool = True
    window: bool = True
    declarative: bool = True


class Config(msgspec.Struct, frozen=True, kw_only=True):
    policy: str = DEFAULT_POLICY
    model: str = ""
    # The window in tokens, where it is guessed wrong.
    window: int | None = None
    switches: Switches = Switches()
    micro: MicroSettings = MicroSettings()
    thresholds: ThresholdSettings = ThresholdSettings()
    ttl: TtlSettings = TtlSettings()
    tools: ToolKinds = DEFAULT_TOOLS
    breaks: BreakSettings = BreakSettings()
    compact: CompactSettings = CompactSettings()
    notes: NotesSettings = NotesSettings()
    provider: ProviderSettings = ProviderSettings()

    @property
    def compacts(self) -> bool:
        """Whether a compaction may happen, also one that a person asks for."""
        return self.switches.everything and self.switches.compaction

    @property
    def takes_notes(self) -> bool:
        return self.compacts and self.notes.enabled

    def in_force(self) -> Policy:
        """The policy with everything that was configured, and without what is switched off."""
        switches = self.switches
        micro_on = switches.everything and switches.micro_compaction
        chosen = get_policy(self.policy)
        return msgspec.structs.replace(
            chosen,
            steps=tuple(step for step in chosen.steps if micro_on and self._is_on(step)),
            micro=self.micro,
            thresholds=msgspec.structs.replace(
                self.thresholds, auto_compaction=self.thresholds.auto_compaction and self.compacts
            ),
            ttl=self.ttl,
            tools=self.tools,
            declares=chosen.declares and micro_on and switches.declarative,
        )

    def _is_on(self, step: StepName) -> bool:
        return getattr(self.switches, step)


def of_policy(name: str) -> Config:
    """The configuration that a policy stands for; raises UsageError where there is none of that name."""
    chosen = get_policy(name)
    return Config(
        policy=name, micro=chosen.micro, thresholds=chosen.thresholds, ttl=chosen.ttl, tools=chosen.tools
    )
