"""All options as one tree: every surface passes this value to the engine.

Its leaves are the configuration keys: `micro.time.keep`, `compact.strategies`, `store.folder`. A default is
defined in the settings class of its own subject; this file gives each a place in the tree. The loader
(`session/config/load.py`) decides where values come from and which of them wins.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from everturn.decide.cache_breaks import BreakSettings
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.notes.settings import NotesSettings
from everturn.decide.settings import MicroSettings, MicroStepName
from everturn.decide.tools import DEFAULT_TOOLS, ToolKinds
from everturn.measure.thresholds import ThresholdSettings
from everturn.view.key_parameters import TtlSettings

DEFAULT_POLICY: Final = "economic"
DEFAULT_MODEL: Final = "claude-opus-5"
ProviderName = Literal["anthropic", "bedrock", "vertex", "twin+cache_edits", "plain"]
EventContent = Literal["omitted", "included"]


class Secret:
    """An API key. Printing it never shows its value; code that needs it calls `reveal`."""

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
    """Which API is called, and with which key. A project's file cannot change it: it
    could send the key elsewhere.
    """

    name: ProviderName = "anthropic"
    api_key: Secret = Secret()
    auth_token: Secret = Secret()
    base_url: str = ""


class ThinkingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The `thinking` field of requests; nothing is sent while `type` is empty."""

    type: Literal["", "enabled", "adaptive", "disabled"] = ""
    budget_tokens: int | None = None
    display: str = ""

    def to_field(self) -> dict[str, Any] | None:
        if not self.type:
            return None
        extra = {"budget_tokens": self.budget_tokens, "display": self.display}
        return {"type": self.type} | {name: value for name, value in extra.items() if value}


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The provider's prompt cache: how long entries live, and when a loss is reported."""

    ttl: TtlSettings = TtlSettings()
    breaks: BreakSettings = BreakSettings()


class RecallSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the model gets a tool that finds what it no longer sees (BY-4)."""

    enabled: bool = False


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Instruction files such as CLAUDE.md and AGENTS.md in the system prompt (NM-1, NM-2)."""

    enabled: bool = False
    # Attach the memory files of sub-directories when a file there is read.
    nested: bool = True
    # Notice changes on disk while the session runs; needs the package `watchfiles`.
    watch: bool = False


class HookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Hooks from settings files in Claude Code's shape (HK-2)."""

    enabled: bool = True
    files: tuple[str, ...] = ()
    # Digests of hooks in a project's settings that a person has approved (CF-4).
    trusted: tuple[str, ...] = ()


class EventSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where events go (TL-2) and whether they carry message content (TL-3)."""

    log: bool = False
    transcript: bool = False
    prometheus: bool = False
    otel: bool = False
    content: EventContent = "omitted"


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    # Where the middleware and the adapters keep transcripts; empty for the user's data folder.
    folder: str = ""
    # "memory" keeps nothing on disk. A Session always has its file, or a place in the store below.
    kind: Literal["files", "memory"] = "files"
    # memory:, a folder, sqlite:PATH or postgresql://USER:PASSWORD@HOST/DATABASE; a session is then named, not
    # a file. It may hold a password, so it is never shown. Empty: files, as above.
    url: Secret = Secret()
    # Whose conversations these are; others in the same store see nothing of them.
    tenant: str = "default"
    # The longest that one operation of a database may take, in seconds. Our choice.
    deadline: float = 5.0
    # Of a Session. Adapters never wait for the disk: what is lost, the caller still has and sends again.
    fsync: Literal["always", "batch", "never"] = "always"


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    # An agent that calls tools this often for one question is stuck. Our choice.
    rounds: int = 200
    # Conversations that the middleware or an adapter holds in memory; the least recently used is closed.
    conversations: int = 256


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `everturn gateway` does where neither its command line, a tenant nor a request says so."""

    mode: Literal["observe", "manage"] = "observe"
    # Tenants whose conversations are held through pauses (EC-11), with their own keys; "*" for all.
    hold_tenants: tuple[str, ...] = ()


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are counted before the API reports them (TOK-7)."""

    # Correct estimates by what the session's own usage reports.
    calibrate: bool = True


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a surface was configured with. `everturn config` prints every key with its origin."""

    # The preset that values come from unless something else sets them.
    policy: str = DEFAULT_POLICY
    # False: requests pass unchanged, nothing is cleared or compacted.
    enabled: bool = True
    model: str = ""
    # The context window in tokens, where the model table does not know it.
    window: int | None = None
    # The SDK requires streaming for answers that may take longer than ten minutes; below this it does not.
    max_tokens: int = 16_000
    thinking: ThinkingSettings = ThinkingSettings()
    effort: str = ""
    source: str = "main"
    provider: ProviderSettings = ProviderSettings()
    micro: MicroSettings = MicroSettings()
    thresholds: ThresholdSettings = ThresholdSettings()
    cache: CacheSettings = CacheSettings()
    tools: ToolKinds = DEFAULT_TOOLS
    compact: CompactSettings = CompactSettings()
    economy: EconomySettings = EconomySettings()
    notes: NotesSettings = NotesSettings()
    recall: RecallSettings = RecallSettings()
    memory: MemorySettings = MemorySettings()
    hooks: HookSettings = HookSettings()
    events: EventSettings = EventSettings()
    store: StoreSettings = StoreSettings()
    limits: LimitSettings = LimitSettings()
    tokens: TokenSettings = TokenSettings()
    gateway: GatewayOptions = GatewayOptions()
    # Rows of the model table that a user adds or overrides, by model name (CF-6).
    models: Mapping[str, Mapping[str, Any]] = {}

    @property
    def may_compact(self) -> bool:
        """Whether a compaction may happen at all, including one that a person requests."""
        return self.enabled and self.compact.enabled

    @property
    def keeps_notes(self) -> bool:
        return self.may_compact and self.notes.enabled

    @property
    def holds_cache(self) -> bool:
        """Whether calls of our own keep the cache alive during pauses (EC-11)."""
        return self.enabled and self.economy.enabled and self.economy.holds

    @property
    def defers_tools(self) -> bool:
        """Whether tools that were never called may be left out of the prompt (EC-10)."""
        return self.enabled and self.economy.enabled and self.economy.defer_tools

    @property
    def steps(self) -> tuple[MicroStepName, ...]:
        """The micro-compactions that are switched on, in order."""
        if not (self.enabled and self.micro.enabled):
            return ()
        return tuple(step for step in self.micro.steps if getattr(self.micro, step).enabled)

    @property
    def declares(self) -> bool:
        """Whether requests ask the API to clear content itself."""
        return self.enabled and self.micro.enabled and self.micro.declare and self.micro.declarative.enabled

    @property
    def effective_thresholds(self) -> ThresholdSettings:
        auto = self.thresholds.auto_compaction and self.may_compact
        return msgspec.structs.replace(self.thresholds, auto_compaction=auto)
