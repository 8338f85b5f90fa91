"""The settings of a conversation, the result of a turn, and the assessment of its answer."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from everturn.decide.betas import required_betas
from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.decide.cache_key_snapshot import CacheKeyChange
from everturn.decide.compact.values import (
    Compaction,
    CompactionFailed,
    CompactionSkipped,
)
from everturn.decide.economy.trust import HoldCheck
from everturn.decide.micro.context import MicroPlan
from everturn.decide.options import Options
from everturn.engine.wire import AnthropicWire, Wire
from everturn.history.records import Record
from everturn.measure.capabilities import Capabilities
from everturn.measure.meter import ContextSize
from everturn.measure.model_table import Model
from everturn.measure.outline import Preamble, TokenCosts
from everturn.measure.prediction import Prediction, PredictionCheck
from everturn.measure.tokens import Estimator
from everturn.view.breakpoints import Breakpoints
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters
from everturn.view.requests import build_request
from everturn.wire.anthropic import Request

NewId = Callable[[], str]
CompactionOutcome = Compaction | CompactionFailed | CompactionSkipped


def compaction_disabled(options: Options) -> CompactionSkipped:
    """Says which key forbids it; the variable is how another program's users know that key."""
    key = "compact.enabled = false, as DISABLE_COMPACT sets it" if options.enabled else "enabled = false"
    return CompactionSkipped(f"this conversation is never compacted: {key} (`everturn config` says where)")


class ConversationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a conversation. To change the model or the policy, set a new value."""

    model: Model
    capabilities: Capabilities
    options: Options
    costs: TokenCosts
    preamble: Preamble = Preamble()
    parameters: KeyParameters
    source: str = "main"
    # Top-level fields of the request that are not part of the key: max_tokens, metadata, ...
    fields: Mapping[str, Any] = {}
    # Named in summaries as the place of exact details (TR-8); empty if nothing is kept on disk.
    transcript: str = ""
    # Who decides when model or key parameters change. Our own are latched, and wait for the end of a tool
    # loop (PC-10, PC-16); those of a caller that does not know about everturn are sent as requested.
    decides: Literal["engine", "caller"] = "engine"
    # Counts tokens before the API reports them; None for characters / 4 (TOK-7).
    estimator: Estimator | None = None
    # The format of requests and replies; None for the Messages API.
    wire: Wire | None = None

    @property
    def provider_wire(self) -> Wire:
        return self.wire or AnthropicWire(self.capabilities)

    def has_same_model(self, other: "ConversationSettings") -> bool:
        # Nearly always the same object: equality would compare its many fields, several times per turn.
        return self.model is other.model or self.model == other.model

    def counts_like(self, other: "ConversationSettings") -> bool:
        """Whether a reply counts the same under both. Objects that are equal and not the same are rare."""
        return (
            self.model is other.model
            and self.options is other.options
            and self.preamble is other.preamble
            and self.capabilities is other.capabilities
        )


# In the notes of a turn: what its caller has changed is not in it yet.
WAITS: Final = "waits until the tool loop has ended"


class Turn(msgspec.Struct, frozen=True):
    """A request that is ready to be sent, and every decision that led to it."""

    appended: tuple[Record, ...]
    plan: MicroPlan
    breakpoints: Breakpoints
    prediction: Prediction
    changes: tuple[CacheKeyChange, ...]
    size: ContextSize
    notes: tuple[str, ...]
    captured: CapturedRequest
    # The result of the check whether to compact: the reason if nothing happened.
    compacted: CompactionOutcome = CompactionSkipped("")

    @property
    def betas(self) -> tuple[str, ...]:
        """The values for the `anthropic-beta` header."""
        return required_betas(self.captured)

    def request(self) -> Request:
        """The body. The only step that costs the whole conversation: its bytes."""
        return build_request(self.captured, self.breakpoints)


class ReplyAssessment(msgspec.Struct, frozen=True):
    """What the answer says about our expectations of the cache."""

    check: PredictionCheck | None
    verdict: DetectedBreak | NoBreak
    # What the newest deletion in the provider's cache saved, as the provider counts it;
    # reported once (MC-11).
    deletion_saved: int = 0
    # What it tells about the last hold (EC-3).
    hold_check: HoldCheck | None = None
