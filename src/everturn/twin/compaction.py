"""Summaries made by the API: at a threshold (`compact_20260112`) and on demand (`compaction`).

Both run one more call of the model over the whole conversation (api-facts 2.4, 2.5), with its own usage: an
iteration of type `compaction`, left out of the top-level usage. At the threshold the reply goes on behind the
summary; on demand the summary is the reply. What a summary says is the speaker's; when its block comes back,
`editing.since_compaction` forgets what stands before it.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from everturn.measure.prefix_cache import PromptLayout
from everturn.twin.context_editing import COMPACT, get_edits
from everturn.twin.options import TwinOptions
from everturn.twin.parse import make_block
from everturn.twin.request_layout import RequestLayout
from everturn.twin.values import ModelOutput, ParsedMessage, ParsedRequest

# What the default summary prompt adds after the last block; measured once as 48 in all (api-facts 2.4).
INSTRUCTION_TOKENS: Final = 45


@dataclass(frozen=True, slots=True)
class ThresholdCompaction:
    """The threshold edit of a request that has reached it."""

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
    return asked if isinstance(asked, dict) and request.endpoint == "messages" else None


def summary_prompt(layout: RequestLayout, instructions_tokens: int = INSTRUCTION_TOKENS) -> PromptLayout:
    """The conversation with the request for a summary behind it; the markers are those of the request."""
    return replace(layout.prompt, total=layout.prompt.total + instructions_tokens)


def extract_summary(said: ModelOutput) -> str | None:
    """The summary, or None where the model called a tool, refused, or said nothing."""
    if said.stop_reason in ("tool_use", "refusal") or any(b.get("type") == "tool_use" for b in said.content):
        return None
    text = "".join(str(block.get("text", "")) for block in said.content if block.get("type") == "text")
    return text or None


def replace_with_summary(request: ParsedRequest, block: dict[str, Any]) -> ParsedRequest:
    """What the model goes on with: the summary in place of every message it summarizes."""
    return replace(request, messages=(ParsedMessage("assistant", (make_block(block),)),))
