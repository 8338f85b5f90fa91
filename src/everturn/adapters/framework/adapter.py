"""The base of the framework adapters: options, conversations, and the model that writes summaries.

The framework places cache breakpoints, because it knows what each of its models supports. The engine
therefore changes only the messages.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from everturn.adapters.framework.messages import FrameworkMessage, build_body, make_opaque_block
from everturn.adapters.framework.replies import may_have_cost
from everturn.adapters.tracking import (
    CallerRequest,
    ConversationTracker,
    TrackedConversations,
    make_parts,
)
from everturn.adapters.tracking.summary_retries import make_send_error
from everturn.decide.options import Options
from everturn.errors import UsageError


def convert_unknown(messages: Sequence[Any]) -> list[FrameworkMessage]:
    return [FrameworkMessage("user", [make_opaque_block(message)]) for message in messages]


class FrameworkAdapter(TrackedConversations):
    """The conversations of one adapter. Arguments are those of `everturn.middleware`, except `breakpoints`.

    `summary_model` overrides the option `compact.summary_model`; it is the name of a model or a model of the
    framework. `model_name` gives the name of either. `convert` gives a list of its messages as blocks.
    """

    def __init__(
        self,
        options: Options | str | None = None,
        *,
        summary_model: Any = None,
        model_name: Callable[[Any], str] = str,
        convert: Callable[[Sequence[Any]], Sequence[FrameworkMessage]] = convert_unknown,
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
        self._convert = convert

    @contextmanager
    def asking_for_summary(self) -> Generator[None]:
        """A call for a summary. If it ends without a reply that may have been paid, the bill says so."""
        try:
            yield
        except BaseException as problem:
            if may_have_cost(problem):
                self.tracker.note_lost_reply()
            if isinstance(problem, Exception):
                raise make_send_error(problem) from problem
            raise

    def rewind(
        self, uuid: str = "", *, conversation: str = "", messages: Sequence[Any] | None = None
    ) -> list[Any]:
        """As for every adapter. With the framework's own list in `messages`, its beginning is returned: the
        same objects, which also have what everturn does not keep, such as the bytes of a picture."""
        if messages is None:
            return super().rewind(uuid, conversation=conversation)
        fork = self.tracker.rewind(self.tracker.find(conversation), uuid)
        return list(messages[: self._count_messages(messages, fork.known.chain)]) if fork else []

    def _count_messages(self, messages: Sequence[Any], chain: Sequence[bytes]) -> int:
        """How many of the messages are the list that is known by this chain."""
        read = self.tracker.read(build_body("any", self._convert(messages)))
        links = len(chain)
        if not isinstance(read, CallerRequest) or list(read.chain[links - 1 : links]) != [chain[-1]]:
            raise UsageError("These messages are not the list of the conversation that is rewound.")
        return read.positions[links - 1].message + 1
