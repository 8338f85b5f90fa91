"""Thinking in replayed requests: what they ask for, and what the API demands of them (RP-16)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from everturn.history.blocks import Block, block_from_fields
from everturn.history.edits import ThinkingDropped
from everturn.history.log import Log
from everturn.history.messages import Message, find_last_prompt
from everturn.measure.model import Model
from everturn.replay.playing.steps import ReplayStep

# The budget that Claude Code asks for. Recordings do not hold it; it is part of the cache key and constant.
THINKING_BUDGET: Final = 31_999


def thinking_parameter(model: Model, step: ReplayStep) -> Mapping[str, Any] | None:
    """The `thinking` field of a request; None for the model's default."""
    if not step.thinks or not model.thinking:
        return None
    if "adaptive" in model.thinking:
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": min(THINKING_BUDGET, model.max_output - 1)}


def drop_stripped(model: Model, messages: Sequence[Message], log: Log) -> ThinkingDropped | None:
    """Removes thinking that the API would not show to the model. The engine keeps it while a tool loop runs,
    because the API demands it in the mode `enabled`; here every request is what is billed.
    """
    if model.keeps_thinking:
        return None
    prompt = find_last_prompt(messages)
    if not any(block.is_thinking for message in messages[:prompt] for block in message.blocks):
        return None
    kept = {block.raw for message in messages[prompt:] for block in message.blocks if block.is_thinking}
    until = (each.uuid for each in log.view.records if any(block.raw in kept for block in each.blocks))
    return ThinkingDropped("", f"{model.id} uses only the thinking of the last turn", next(until, ""))


def make_thought(call: str) -> Block:
    """The thinking before a call that no recording has. In the mode `enabled` a reply starts with it, or the
    API refuses it in the next request.
    """
    return block_from_fields(
        {"type": "thinking", "thinking": "[not in the recording]", "signature": f"replay-{call}"}
    )
