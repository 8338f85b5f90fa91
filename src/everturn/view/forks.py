"""Forks: a second request that shares the parent's cached prefix byte for byte (PC-12, PC-13).

What a fork must not change is captured from the parent's last request as one value; a fork is that value plus
its own new messages. It has the same breakpoints as its parent, so it reads what the parent wrote and writes
nothing (`requests.py`). A fork's own state (detector, micro-compaction) is created where it runs; nothing of
it is reachable from here (PC-14).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from everturn.errors import UsageError
from everturn.history.messages import Message
from everturn.measure.outline import Preamble
from everturn.view.breakpoints import Breakpoints
from everturn.view.key_parameters import KeyParameters


class CapturedRequest(msgspec.Struct, frozen=True):
    """Everything in the cache key, as the parent last sent it, and the positions of its breakpoints."""

    model: str
    preamble: Preamble
    parameters: KeyParameters
    messages: tuple[Message, ...]
    # The other top-level fields of the parent's request; none of them is part of the key.
    settings: Mapping[str, Any]
    breakpoints: Breakpoints = Breakpoints()


class Fork(msgspec.Struct, frozen=True):
    """What a fork sends. It is one request: calls of tools in its answer are not run (`decide/`)."""

    parent: CapturedRequest
    messages: tuple[Message, ...]
    settings: Mapping[str, Any]

    @property
    def all_messages(self) -> tuple[Message, ...]:
        return (*self.parent.messages, *self.messages)


def make_fork(
    parent: CapturedRequest,
    messages: tuple[Message, ...],
    *,
    max_output: int | None = None,
) -> Fork:
    """A fork of the parent's conversation. A separate output limit is refused if it would change how the
    model thinks: a thinking budget must stay below the limit, so the two belong together.
    """
    settings = dict(parent.settings)
    if max_output is not None:
        if not _may_limit(parent.parameters.thinking, max_output):
            raise UsageError(
                f"An output limit of {max_output} is not above the thinking budget that the parent's cache "
                "was written with. Leave the limit out: the fork then uses its parent's."
            )
        settings["max_tokens"] = max_output
    return Fork(parent, messages, settings)


def _may_limit(thinking: Mapping[str, Any] | None, limit: int) -> bool:
    budget = (thinking or {}).get("budget_tokens")
    return not isinstance(budget, int) or limit > budget
