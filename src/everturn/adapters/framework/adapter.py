"""What every adapter of a framework has: conversations, a bill, recall; and how it is told what to do.

Markers are the framework's own business here: it knows how each of its models wants them. The engine is
told that they are the caller's, and decides about the messages alone.
"""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import msgspec

from everturn.adapters.tracking import (
    ConversationOverview,
    ConversationTracker,
    default_folder,
    make_overview,
    manner_of,
    recall_conversation,
)
from everturn.decide.compact.values import Strategy
from everturn.decide.events import Event
from everturn.decide.policy import Policy
from everturn.errors import UsageError
from everturn.measure.capabilities import Capabilities
from everturn.measure.outline import Costs
from everturn.session.bill import Bill
from everturn.session.config.shape import DEFAULT_POLICY, Config
from everturn.session.opening import resolve_config

if TYPE_CHECKING:
    from everturn.session.recall.search import Hit

# A fork declares the agent's tools, runs none of them, and reads the cache that the agent has written.
STRATEGIES: Final[tuple[Strategy, ...]] = ("notes", "fork", "direct", "extract")
# Another model has no such cache.
OTHER_MODEL_STRATEGIES: Final[tuple[Strategy, ...]] = ("notes", "direct", "extract")


PolicyChoice = str | Policy | Config


class AdapterOptions(TypedDict, total=False):
    """What can be said beside a policy. The last five are for tests and other providers."""

    # Where transcripts are kept: the usual place for data if not given, memory alone for None.
    folder: str | os.PathLike[str] | None
    # Folders that files may be read from again after a compaction.
    readable: Sequence[str | os.PathLike[str]]
    # Hears every event.
    listen: Callable[[Event], None]
    # The model's, where the table does not know it.
    window: int | None
    # In which order summaries are tried.
    ways: Sequence[Strategy]
    most: int
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    costs: Costs | None
    capabilities: Capabilities


class FrameworkAdapter:
    """The conversations of one adapter."""

    def __init__(
        self,
        policy: PolicyChoice = DEFAULT_POLICY,
        *,
        summary_model: Any = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        self.summary_model = summary_model
        ways = STRATEGIES if summary_model is None else OTHER_MODEL_STRATEGIES
        more: dict[str, Any] = {"folder": "", "ways": ways, **options}
        chosen = _chosen(policy, more.pop("window", None))
        folder = more.pop("folder")
        more |= {"markers": "the caller's", "ways": tuple(more["ways"])}
        self.tracker = ConversationTracker(
            manner_of(chosen, folder=default_folder() if folder == "" else folder, **more)
        )

    @property
    def bill(self) -> Bill:
        """What all calls through here have cost so far, those for summaries included."""
        return self.tracker.bill

    @property
    def conversations(self) -> tuple[ConversationOverview, ...]:
        """Those in memory, the one used last at the end."""
        return tuple(map(make_overview, self.tracker))

    def recall(self, query: str, limit: int = 8, *, conversation: str = "") -> "tuple[Hit, ...]":
        """Where a conversation, the one used last if none is named, has these words."""
        held = [each for each in self.tracker if conversation in ("", each.id)]
        if not held:
            raise UsageError(f"There is no conversation {conversation!r} in memory; see `conversations`.")
        return recall_conversation(held[-1], query, limit)

    def close(self) -> None:
        """Let other processes go on with the transcripts. The next request opens what it needs again."""
        self.tracker.close()


def _chosen(policy: PolicyChoice, window: int | None) -> PolicyChoice:
    """Nothing is declared to the API: of what the engine decides only messages reach a framework's model."""
    if isinstance(policy, Policy):
        if window is not None:
            raise UsageError("A `Policy` has no window; give a name or a `Config` together with `window`.")
        return policy
    config = resolve_config(policy)
    switches = msgspec.structs.replace(config.switches, declarative=False)
    if not isinstance(policy, Config):
        switches = msgspec.structs.replace(switches, oversize=False)
    return msgspec.structs.replace(config, switches=switches, window=window or config.window)
