"""What a conversation is held with, what a turn comes to, and what its answer says."""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from everturn.decide.betas import betas_of
from everturn.decide.cache_breaks import Break, NoBreak
from everturn.decide.compact.ground import CompactionStyle
from everturn.decide.compact.values import (
    Compaction,
    CompactionFailed,
    NotCompacting,
)
from everturn.decide.effects import Effect
from everturn.decide.micro.situation import MicroPlan
from everturn.decide.policy import Policy
from everturn.decide.snapshot import Change
from everturn.history.records import Record
from everturn.measure.capabilities import Capabilities
from everturn.measure.meter import Size
from everturn.measure.models import Model
from everturn.measure.outline import Costs, Head
from everturn.measure.prediction import Check, Prediction
from everturn.view.forks import CacheSafe
from everturn.view.lifetime import KeyParameters
from everturn.view.markers import Marks
from everturn.view.requests import marked_request
from everturn.wire.anthropic import Request

T = TypeVar("T")
Flow = Generator[Effect, Any, T]
NewId = Callable[[], str]
Outcome = Compaction | CompactionFailed | NotCompacting


NEVER = NotCompacting("this conversation is never compacted")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation is held with. Another model or policy is another setting."""

    model: Model
    capabilities: Capabilities
    policy: Policy
    costs: Costs
    head: Head = Head()
    parameters: KeyParameters
    source: str = "main"
    # Top-level fields of the request that are not part of the key: max_tokens, metadata, ...
    fields: Mapping[str, Any] = {}
    # None: the conversation is never compacted, and ends at the window.
    compaction: CompactionStyle | None = None
    # Whose word holds when model or key parameters change: ours are latched, and wait for the end of a tool
    # loop (PC-10, PC-16); those of a caller that knows nothing of us are sent as they were asked for.
    decides: Literal["engine", "caller"] = "engine"


class Turn(msgspec.Struct, frozen=True):
    """A request that is ready to be sent, and everything that was decided on the way to it."""

    appended: tuple[Record, ...]
    plan: MicroPlan
    marks: Marks
    prediction: Prediction
    changes: tuple[Change, ...]
    size: Size
    notes: tuple[str, ...]
    safe: CacheSafe
    # What came of the check whether to compact: the reason where nothing happened.
    compacted: Outcome = NEVER

    @property
    def betas(self) -> tuple[str, ...]:
        """What the `anthropic-beta` header must name."""
        return betas_of(self.safe)

    def request(self) -> Request:
        """The body. The only step whose cost is the whole conversation: its bytes."""
        return marked_request(self.safe, self.marks)


class Settled(msgspec.Struct, frozen=True):
    """What the answer said about our picture of the cache."""

    check: Check | None
    verdict: Break | NoBreak
