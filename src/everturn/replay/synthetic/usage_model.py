"""The usage that a synthetic call reports: a size estimate and a cache model.

A call reads everything that the previous call had cached (`read + write`) if the TTL has not passed, the
model is the same and the prefix is unchanged; it writes the rest. Otherwise it reads the longest prefix that
is unchanged and still cached, or nothing.

This simple model is deliberately separate from `measure/`: tests compare the two, which would prove nothing
if they shared code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from everturn.replay.synthetic.workspace.images import HEIGHT, WIDTH

CHARACTERS_PER_TOKEN = 3  # code and JSON in recorded sessions are closer to 3 than to 4
MAIN_OVERHEAD = 18_000  # system prompt and tools: in every context, never in the file
AGENT_OVERHEAD = 6_000
CLEARED_NOTE = 11  # tokens that remain of a cleared result
IMAGE_PATCH = 28  # pixels per side of a patch; one token per patch (api-facts 4)
IMAGE_TOKENS = -(-WIDTH // IMAGE_PATCH) * -(-HEIGHT // IMAGE_PATCH)

_encode = msgspec.json.encode


def tokens_of_text(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def tokens_of_block(block: Mapping[str, Any]) -> int:
    """The estimate for one content block. Signatures count nothing; all images have the same size."""
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
            raise ValueError(f"no size is known for {kind!r} blocks; add it here first")


def tokens_of_blocks(blocks: Sequence[Mapping[str, Any]]) -> int:
    return sum(tokens_of_block(block) for block in blocks)


@dataclass(slots=True)
class UsageModel:
    """Context and cache of one thread. `context` is what the next call would send, with system prompt and
    tools.
    """

    overhead: int
    lifetime_ms: int
    context: int = 0
    cached: list[int] = field(default_factory=list[int])
    model: str = ""
    last_call_ms: int = 0

    def __post_init__(self) -> None:
        self.context = self.context or self.overhead

    def add(self, tokens: int) -> None:
        self.context += tokens

    def call(self, *, now_ms: int, model: str, fresh: int) -> dict[str, int]:
        """The input side of the usage of a call; `fresh` tokens at the end are not cached."""
        if model != self.model or now_ms - self.last_call_ms > self.lifetime_ms:
            self.cached = []
        read = self.cached[-1] if self.cached else 0
        write = self.context - read - fresh
        # System prompt and tools have their own breakpoint, so they stay cached when the conversation
        # changes.
        self.cached = [*(self.cached or [self.overhead]), read + write]
        self.model, self.last_call_ms = model, now_ms
        return {"input": fresh, "write": write, "read": read}

    def go_back(self, context: int) -> None:
        """The conversation now ends earlier: only what was cached up to there can still be read."""
        self.context = context
        self.forget_after(context)

    def forget_after(self, position: int) -> None:
        """The context changed at `position`: cached prefixes beyond it are invalid."""
        self.cached = [point for point in self.cached if point <= position]
