"""What a conversation is held with, what a turn comes to, and what its answer says."""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from everturn.decide.betas import betas_of
from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.decide.cache_key_snapshot import CacheKeyChange
from everturn.decide.compact.context import CompactionOptions
from everturn.decide.compact.values import (
    Compaction,
    CompactionFailed,
    CompactionSkipped,
)
from everturn.decide.effects import Effect
from everturn.decide.micro.context import MicroPlan
from everturn.decide.policy import Policy
from everturn.history.records import Record
from everturn.measure.capabilities import Capabilities
from everturn.measure.meter import ContextSize
from everturn.measure.model_table import Model
from everturn.measure.outline import Costs, Preamble
from everturn.measure.prediction import Prediction, PredictionCheck
from everturn.view.breakpoints import Breakpoints
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters
from everturn.view.requests import build_request
from everturn.wire.anthropic import Request

T = TypeVar("T")
Flow = Generator[Effect, Any, T]
NewId = Callable[[], str]
CompactionOutcome = Compaction | CompactionFailed | CompactionSkipped


COMPACTION_DISABLED = CompactionSkipped("this conversation is never compacted")


class ConversationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation is held with. Another model or policy is another setting."""

    model: Model
    capabilities: Capabilities
    policy: Policy
    costs: Costs
    head: Preamble = Preamble()
    parameters: KeyParameters
    source: str = "main"
    # Top-level fields of the request that are not part of the key: max_tokens, metadata, ...
    fields: Mapping[str, Any] = {}
    # None: the conversation is never compacted, and ends at the window.
    compaction: CompactionOptions | None = None
    # Whose word holds when model or key parameters change: ours are latched, and wait for the end of a tool
    # loop (PC-10, PC-16); those of a caller that knows nothing of us are sent as they were asked for.
    decides: Literal["engine", "caller"] = "engine"


class Turn(msgspec.Struct, frozen=True):
    """A request that is ready to be sent, and everything that was decided on the way to it."""

    appended: tuple[Record, ...]
    plan: MicroPlan
    breakpoints: Breakpoints
    prediction: Prediction
    changes: tuple[CacheKeyChange, ...]
    size: ContextSize
    notes: tuple[str, ...]
    captured: CapturedRequest
    # What came of the check whether to compact: the reason where nothing happened.
    compacted: CompactionOutcome = COMPACTION_DISABLED

    @property
    def betas(self) -> tuple[str, ...]:
        """What the `anthropic-beta` header must name."""
        return betas_of(self.captured)

    def request(self) -> Request:
        """The body. The only step whose cost is the whole conversation: its bytes."""
        return build_request(self.captured, self.breakpoints)


class ReplyAssessment(msgspec.Struct, frozen=True):
    """What the answer said about our picture of the cache."""

    check: PredictionCheck | None
    verdict: DetectedBreak | NoBreak
