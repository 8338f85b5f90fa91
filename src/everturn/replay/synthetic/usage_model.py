"""What a made-up call reports as its usage: one estimate of size and one law of the cache.

The law: a call reads from the cache everything that the call before it had cached (`read + write`),
as long as the lifetime has not run out, the model is the same and the beginning is unchanged; it writes
the rest. Otherwise it reads the longest beginning that is still true and still cached, or nothing.

This is the plain model that sessions are made from, kept apart from `measure/` on purpose: a judge that
shares its arithmetic with the judged proves nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from everturn.replay.synthetic.workspace.images import HEIGHT, WIDTH

CHARACTERS_PER_TOKEN = 3  # code and JSON in recorded sessions run nearer 3 than 4
MAIN_OVERHEAD = 18_000  # system prompt and tools: never in the file, always in the context
AGENT_OVERHEAD = 6_000
CLEARED_NOTE = 11  # what stays of a cleared result
IMAGE_PATCH = 28  # pixels on a side, one token each (api-facts 4)
IMAGE_TOKENS = -(-WIDTH // IMAGE_PATCH) * -(-HEIGHT // IMAGE_PATCH)

_encode = msgspec.json.encode


def tokens_of_text(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def tokens_of_block(block: Mapping[str, Any]) -> int:
    """The estimate for one content block. Signatures weigh nothing; all pictures have one size."""
    match block["type"]:
        case "text":
            return tokens_of_text(block["text"])
        case "thinking":
            return tokens_of_text(block["thinking"])
        case "tool_use":
            return tokens_of_text(block["name"] + _encode(block["input"]).decode())
        case "tool_result":
            content = block["content"]
            return tokens_of_text(content) if isinstance(content, str) else tokens_of_blocks(content)
        case "image":
            return IMAGE_TOKENS
        case kind:
            raise ValueError(f"a made-up session holds no {kind!r} blocks; add its size here first")


def tokens_of_blocks(blocks: Sequence[Mapping[str, Any]]) -> int:
    return sum(tokens_of_block(block) for block in blocks)


@dataclass(slots=True)
class UsageModel:
    """Context and cache of one chain. `context` is what the next call would send, overhead included."""

    overhead: int
    lifetime_ms: int
    context: int = 0
    cached: list[int] = field(default_factory=list)
    model: str = ""
    last_call_ms: int = 0

    def __post_init__(self) -> None:
        self.context = self.context or self.overhead

    def add(self, tokens: int) -> None:
        self.context += tokens

    def call(self, *, now_ms: int, model: str, fresh: int) -> dict[str, int]:
        """The input side of the usage of a call; `fresh` tokens at the end stay out of the cache."""
        if model != self.model or now_ms - self.last_call_ms > self.lifetime_ms:
            self.cached = []
        read = self.cached[-1] if self.cached else 0
        write = self.context - read - fresh
        # The system prompt and the tools have a marker of their own: they outlive a changed conversation.
        self.cached = [*(self.cached or [self.overhead]), read + write]
        self.model, self.last_call_ms = model, now_ms
        return {"input": fresh, "write": write, "read": read}

    def go_back(self, context: int) -> None:
        """The conversation now ends earlier: only what was cached up to there can still be read."""
        self.context = context
        self.forget_after(context)

    def forget_after(self, position: int) -> None:
        """The context changed at `position`; no cached beginning that reaches beyond it is true any more."""
        self.cached = [point for point in self.cached if point <= position]
