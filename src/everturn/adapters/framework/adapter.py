"""The base of the framework adapters: options, conversations, bill, recall.

The framework places cache breakpoints, because it knows what each of its models supports. The engine
therefore changes only the messages.
"""

import os
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from everturn.adapters.tracking import (
    ADAPTER_CAPABILITIES,
    ConversationOverview,
    ConversationTracker,
    make_overview,
    make_parts,
    recall_conversation,
)
from everturn.decide.compact.settings import Strategy
from everturn.decide.events import Event
from everturn.decide.options import Options
from everturn.measure.capabilities import Capabilities
from everturn.measure.outline import TokenCosts
from everturn.measure.tokens import Estimator
from everturn.session.bill import Bill
from everturn.session.config.load import ConfigChoice
from everturn.session.hooks.run import Hooks

if TYPE_CHECKING:
    from everturn.session.recall.search import Hit

OTHER_MODEL_STRATEGIES: Final[tuple[Strategy, ...]] = ("notes", "direct", "extractive")


class FrameworkAdapter:
    """The conversations of one adapter.

    `options` is an `Options` tree or the name of a policy; any config key can be a keyword argument. `folder`
    is the folder for transcripts: the user's data folder by default, None to keep conversations in memory
    only. `readable` lists folders from which files may be read again after a compaction. `summary_model` is a
    model of the framework that writes summaries instead of the agent's own model. `new_id`, `costs`,
    `estimator` and `capabilities` are for tests and other providers.
    """

    def __init__(
        self,
        options: Options | str | None = None,
        *,
        summary_model: Any = None,
        config: ConfigChoice = "auto",
        folder: str | os.PathLike[str] | None = "",
        readable: Sequence[str | os.PathLike[str]] = (),
        hooks: Hooks | None = None,
        listen: Callable[[Event], None] = lambda _: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        costs: TokenCosts | None = None,
        estimator: Estimator | None = None,
        capabilities: Capabilities = ADAPTER_CAPABILITIES,
        **overrides: Any,
    ) -> None:
        self.summary_model = summary_model
        if summary_model is not None:
            # Another model has no cached prefix of this conversation, so a fork would save nothing.
            overrides = {"compact.strategies": OTHER_MODEL_STRATEGIES, **overrides}
        parts = make_parts(
            options,
            overrides,
            config=config,
            folder=folder,
            readable=readable,
            # Only messages reach the framework's model, not the API fields that this step needs.
            fixed={"micro.declarative.enabled": False},
            breakpoints="caller",
            hooks=hooks or Hooks(),
            listen=listen,
            clock=clock,
            new_id=new_id,
            costs=costs,
            estimator=estimator,
            capabilities=capabilities,
        )
        self.tracker = ConversationTracker(parts)

    @property
    def bill(self) -> Bill:
        """What all calls of this adapter have cost so far, including summaries."""
        return self.tracker.bill

    @property
    def conversations(self) -> tuple[ConversationOverview, ...]:
        """The conversations in memory, the most recently used last."""
        return tuple(map(make_overview, self.tracker))

    def recall(self, query: str, limit: int = 8, *, conversation: str = "") -> "tuple[Hit, ...]":
        """Search the full history of a conversation, by default the most recently used one."""
        return recall_conversation(self.tracker.find(conversation), query, limit)

    def compact(self, instructions: str = "", *, conversation: str = "") -> None:
        """Compact a conversation, by default the most recently used one, before its next request."""
        self.tracker.find(conversation).request_compaction(instructions)

    def close(self) -> None:
        """Close the transcripts, so that other processes can use them. The next request opens them again."""
        self.tracker.close()
