"""Truncate a reply at `max_tokens` or at the end of the context window (api-facts 5)."""

from dataclasses import replace
from typing import Any

from everturn.twin.count import BlockCounter
from everturn.twin.parse import make_block
from everturn.twin.values import ModelOutput, ParsedRequest


def count_output_tokens(output: ModelOutput, count: BlockCounter) -> int:
    """At least 1, because the end of a turn is a token too."""
    if output.output_tokens is not None:
        return output.output_tokens
    return 1 + sum(count(make_block(block)) for block in output.content)


def count_thinking_tokens(output: ModelOutput, count: BlockCounter) -> int:
    kinds = ("thinking", "redacted_thinking")
    return sum(count(make_block(block)) for block in output.content if block.get("type") in kinds)


def truncate_output(
    output: ModelOutput, request: ParsedRequest, prompt_tokens: int, count: BlockCounter
) -> ModelOutput:
    """The reply cut to the limit, with the stop reason of that limit. Unchanged if it fits."""
    asked = int(request.body["max_tokens"])
    available = max(1, request.model.window - prompt_tokens)
    limit = min(asked, available)
    if output.is_verbatim or count_output_tokens(output, count) <= limit:
        return output
    reason = "max_tokens" if asked <= available else "model_context_window_exceeded"
    if output.output_tokens is not None:
        return replace(output, output_tokens=limit, stop_reason=reason, stop_sequence=None)
    content = _first_blocks(output, limit, count)
    return ModelOutput(content, reason, output_tokens=limit)


def _first_blocks(output: ModelOutput, limit: int, count: BlockCounter) -> tuple[dict[str, Any], ...]:
    """Complete blocks that fit, then the beginning of a text block. A truncated tool call is left out."""
    kept: list[dict[str, Any]] = []
    left = limit - 1
    for block in output.content:
        tokens = count(make_block(block))
        if tokens <= left:
            kept.append(block)
            left -= tokens
            continue
        name = "text" if block.get("type") == "text" else "thinking"
        if block.get("type") == name and left > 0:
            text = block[name]
            kept.append({**block, name: text[: max(1, len(text) * left // tokens)]})
        break
    return tuple(kept)
