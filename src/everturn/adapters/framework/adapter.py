"""The base of the framework adapters: options, conversations, and the model that writes summaries.

The framework places cache breakpoints, because it knows what each of its models supports. The engine
therefore changes only the messages.
"""

from collections.abc import Callable
from typing import Any

from everturn.adapters.tracking import ConversationTracker, TrackedConversations, make_parts
from everturn.decide.options import Options


class FrameworkAdapter(TrackedConversations):
    """The conversations of one adapter. Arguments are those of `everturn.middleware`, except `breakpoints`.

    `summary_model` overrides the option `compact.summary_model`; it is the name of a model or a model of the
    framework. `model_name` gives the name of either.
    """

    def __init__(
        self,
        options: Options | str | None = None,
        *,
        summary_model: Any = None,
        model_name: Callable[[Any], str] = str,
        **arguments: Any,
    ) -> None:
        parts = make_parts(
            options,
            summary_model="" if summary_model is None else model_name(summary_model),
            # Only messages reach the framework's model, not the API fields that this step needs.
            fixed={"micro.declarative.enabled": False},
            breakpoints="caller",
            **arguments,
        )
        super().__init__(ConversationTracker(parts))
        # A model of the framework is kept as it was given: its name does not say how it was configured.
        self.summary_model = summary_model or parts.options.compact.summary_model or None
