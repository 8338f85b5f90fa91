"""Truncate a reply at `max_tokens` or at the end of the context window (api-facts 5).

Text and thinking keep their beginning. A tool call keeps the beginning of the JSON of its input, which a
stream sends as it is; in the message, only the complete part of the input is left.
"""

from dataclasses import replace
from typing import Any

import msgspec

from everturn.twin.count import BlockCounter
from everturn.twin.parse import make_block
from everturn.twin.partial_json import parse_partial_json
from everturn.twin.values import ModelOutput, ParsedRequest

_encode = msgspec.json.Encoder().encode
_CALLS = ("tool_use", "server_tool_use")


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
    kept, partial_input = _first_blocks(output, limit, count)
    return ModelOutput(kept, reason, output_tokens=limit, partial_input=partial_input)


def _first_blocks(
    output: ModelOutput, limit: int, count: BlockCounter
) -> tuple[tuple[dict[str, Any], ...], str | None]:
    """The blocks that fit, then the beginning of the next one, and the JSON of a tool call that was cut."""
    kept: list[dict[str, Any]] = []
    left = limit - 1
    for block in output.content:
        tokens = count(make_block(block))
        if tokens <= left:
            kept.append(block)
            left -= tokens
            continue
        if left <= 0:
            break
        kind = block.get("type")
        if kind in ("text", "thinking"):
            text = block[kind]
            kept.append({**block, kind: text[: max(1, len(text) * left // tokens)]})
        elif kind in _CALLS:
            written = _encode(block.get("input", {})).decode()
            partial = written[: len(written) * left // tokens]
            kept.append({**block, "input": parse_partial_json(partial)})
            return tuple(kept), partial
        break
    return tuple(kept), None
