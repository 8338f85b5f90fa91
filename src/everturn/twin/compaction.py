"""Summaries made by the API itself: at a threshold (`compact_20260112`) and on demand (`compaction`).

Both make one more model call over the whole conversation (api-facts 2.4, 2.5), with its own usage: an
iteration of type `compaction` that is not part of the top-level usage. At the threshold, the reply follows
the summary; on demand, the summary is the reply. The speaker writes the summary. When the client sends its
block back, the messages before it are dropped (`drop_before_compaction`).
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from everturn.measure.prefix_cache import PromptLayout
from everturn.twin.context_editing import COMPACT, edit_blocks, get_edits
from everturn.twin.options import TwinOptions
from everturn.twin.parse import make_block
from everturn.twin.request_layout import RequestLayout
from everturn.twin.values import ModelOutput, ParsedBlock, ParsedMessage, ParsedRequest
from everturn.wire.json_values import is_object

# Tokens that the default summary prompt adds after the last block. Measured once: 48 in all (api-facts 2.4).
INSTRUCTION_TOKENS: Final = 45


@dataclass(frozen=True, slots=True)
class ThresholdCompaction:
    """The options of a `compact_20260112` edit whose threshold is reached."""

    instructions: str | None
    pauses: bool


def find_threshold_compaction(
    request: ParsedRequest, layout: RequestLayout, options: TwinOptions
) -> ThresholdCompaction | None:
    for edit in get_edits(request):
        if edit.get("type") == COMPACT:
            trigger = edit.get("trigger") or {"value": options.compaction_default_trigger}
            if layout.total >= trigger["value"]:
                return ThresholdCompaction(edit.get("instructions"), bool(edit.get("pause_after_compaction")))
    return None


def find_requested_compaction(request: ParsedRequest) -> dict[str, Any] | None:
    asked = request.body.get("compaction")
    return asked if is_object(asked) and request.endpoint == "messages" else None


def summary_prompt(layout: RequestLayout) -> PromptLayout:
    """The prompt of the summary call: the request's prompt, with its breakpoints, plus the instructions."""
    prompt = layout.prompt
    return msgspec.structs.replace(prompt, total=prompt.total + INSTRUCTION_TOKENS)


def extract_summary(output: ModelOutput) -> str | None:
    """The summary, or None if the model called a tool, refused, or returned no text."""
    if output.stop_reason in ("tool_use", "refusal") or any(
        b.get("type") == "tool_use" for b in output.content
    ):
        return None
    text = "".join(str(block.get("text", "")) for block in output.content if block.get("type") == "text")
    return text or None


def replace_with_summary(request: ParsedRequest, block: dict[str, Any]) -> ParsedRequest:
    """The request with the summary in place of all its messages."""
    return replace(request, messages=(ParsedMessage("assistant", (make_block(block),)),))


def drop_before_compaction(request: ParsedRequest) -> ParsedRequest:
    """Drop everything before the last compaction block. Blocks without content are ignored."""
    if "compaction" not in request.kinds:
        return request
    request = edit_blocks(request, lambda _, block: None if _is_failed_compaction(block) else block)
    for number in range(len(request.messages) - 1, -1, -1):
        message = request.messages[number]
        for index in range(len(message.blocks) - 1, -1, -1):
            if message.blocks[index].kind == "compaction":
                opening = replace(message, blocks=message.blocks[index:])
                return replace(request, messages=(opening, *request.messages[number + 1 :]))
    return request


def _is_failed_compaction(block: ParsedBlock) -> bool:
    return block.kind == "compaction" and block.body.get("content") is None
