"""The one shape that every peer is brought into: it hears messages, decides, and shows what it would send.

A keeper is a peer's own code around one conversation. What is converted for it, and back from it, stands in
`with_<peer>.py`; nothing there decides what is kept. Messages are plain JSON values of the Messages API.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from everturn.history.records import Usage

Json = dict[str, Any]
# Given all words of a request for a summary, answers the summary (`listening.py`).
Writer = Callable[[str], str]


class Stage(msgspec.Struct, frozen=True):
    """What a keeper is opened with. `compact_at` makes those that summarize do it at so many tokens."""

    window: int
    head: str
    writer: Writer
    model: str = "claude-opus-4-5"
    compact_at: int = 0
    # Whether a turn is timed that must not need a summary: the mark for one is then out of reach.
    only_watches: bool = False
    # Tokens of a block as the provider bills it: for what is decided on the provider's side.
    count: Callable[[Json], int] | None = None


class Keeper(Protocol):
    """One conversation in a peer's hands. Only `decide` is timed."""

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        """A message was said; a reply comes with what the provider reported about it."""
        ...

    def decide(self) -> None:
        """Everything that the peer does before a model is called."""
        ...

    def body(self) -> Json:
        """What it would send: `system` and `messages`, with the cache markers that it places."""
        ...

    def overflowed(self) -> bool:
        """The provider said that the prompt is too long; whether the peer then did something about it."""
        ...


class Kind(msgspec.Struct, frozen=True):
    """A way of keeping that takes part, under the name it has in the tables."""

    name: str
    open: Callable[[Stage], Keeper]
    # Where its cache markers come from.
    caches: str
    # Whether it has a stage that takes a conversation down at once, by a summary or without.
    compacts: bool = False
    # Whether its summaries are written behind the conversation as it was sent, so that they read what is
    # cached; its keeper then has that body as `asked`. All others ask in a call of its own, with another
    # system prompt, of which nothing is cached.
    asks_warm: bool = False
    # How many sessions it plays, shortest first; 0 for all. For those that take minutes for one.
    most_sessions: int = 0
    # Whether the time of its decisions is ours to measure: what a provider does on its side is not.
    is_timed: bool = True


def words_in(value: Any) -> str:
    """All strings inside a value, in order: what a model would read of a request, whoever spelled it."""
    if isinstance(value, str):
        return value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return "\n".join(filter(None, map(words_in, inside)))


def blocks_in(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def marked_at_the_end(messages: list[Json]) -> list[Json]:
    """With one marker on the last block, as the API's automatic caching places it; for peers that leave
    caching to whoever calls the model."""
    *before, last = messages
    *blocks, end = blocks_in(last)
    return [*before, {**last, "content": [*blocks, {**end, "cache_control": {"type": "ephemeral"}}]}]


def marked_head(text: str) -> list[Json]:
    return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
