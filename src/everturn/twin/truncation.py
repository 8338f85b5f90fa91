"""An answer that does not fit: cut where `max_tokens` or the context window ends (api-facts 5)."""

from dataclasses import replace
from typing import Any

from everturn.measure.model_table import Model
from everturn.twin.count import BlockCounter
from everturn.twin.parse import make_block
from everturn.twin.values import ModelOutput, ParsedRequest


def count_output_tokens(said: ModelOutput, count: BlockCounter) -> int:
    """Never zero: the end of a turn is a token too."""
    if said.output_tokens is not None:
        return said.output_tokens
    return 1 + sum(count(make_block(block)) for block in said.content)


def count_thinking_tokens(said: ModelOutput, count: BlockCounter) -> int:
    kinds = ("thinking", "redacted_thinking")
    return sum(count(make_block(block)) for block in said.content if block.get("type") in kinds)


def truncate_output(
    said: ModelOutput, request: ParsedRequest, prompt_tokens: int, count: BlockCounter
) -> ModelOutput:
    """The answer as far as it fits, and the stop reason that says which limit was met."""
    asked = int(request.body["max_tokens"])
    room = _room(request.model, prompt_tokens)
    limit = min(asked, room)
    if said.is_verbatim or count_output_tokens(said, count) <= limit:
        return said
    reason = "max_tokens" if asked <= room else "model_context_window_exceeded"
    if said.output_tokens is not None:
        return replace(said, output_tokens=limit, stop_reason=reason, stop_sequence=None)
    content = _first_blocks(said, limit, count)
    return ModelOutput(content, reason, output_tokens=limit)


def _room(model: Model, prompt_tokens: int) -> int:
    return max(1, model.window - prompt_tokens)


def _first_blocks(said: ModelOutput, limit: int, count: BlockCounter) -> tuple[dict[str, Any], ...]:
    """Whole blocks while they fit, then the beginning of a text. A call that was not finished is not made."""
    kept: list[dict[str, Any]] = []
    left = limit - 1
    for block in said.content:
        tokens = count(make_block(block))
        if tokens <= left:
            kept.append(block)
            left -= tokens
            continue
        name = "text" if block.get("type") == "text" else "thinking"
        if block.get("type") == name and left > 0:
            words = block[name]
            kept.append({**block, name: words[: max(1, len(words) * left // tokens)]})
        break
    return tuple(kept)
