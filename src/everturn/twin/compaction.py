"""Summaries made by the API: at a threshold (`compact_20260112`) and on demand (`compaction`).

Both run one more call of the model over the whole conversation (api-facts 2.4, 2.5), with its own usage: an
iteration of type `compaction`, left out of the top-level usage. At the threshold the reply goes on behind the
summary; on demand the summary is the reply. What a summary says is the speaker's; when its block comes back,
`editing.since_compaction` forgets what stands before it.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from everturn.measure.prefix_cache import Prompt
from everturn.twin.editing import COMPACT, edits_of
from everturn.twin.options import TwinOptions
from everturn.twin.parse import block_of
from everturn.twin.prefix import Layout
from everturn.twin.values import Message, Request, Said

# What the default summary prompt adds after the last block; measured once as 48 in all (api-facts 2.4).
INSTRUCTION_TOKENS: Final = 45


@dataclass(frozen=True, slots=True)
class Trigger:
    """The threshold edit of a request that has reached it."""

    instructions: str | None
    pauses: bool


def triggered(request: Request, layout: Layout, options: TwinOptions) -> Trigger | None:
    for edit in edits_of(request):
        if edit.get("type") == COMPACT:
            trigger = edit.get("trigger") or {"value": options.compaction_default_trigger}
            if layout.total >= trigger["value"]:
                return Trigger(edit.get("instructions"), bool(edit.get("pause_after_compaction")))
    return None


def on_demand(request: Request) -> dict[str, Any] | None:
    asked = request.body.get("compaction")
    return asked if isinstance(asked, dict) and request.endpoint == "messages" else None


def summary_prompt(layout: Layout, instructions_tokens: int = INSTRUCTION_TOKENS) -> Prompt:
    """The conversation with the request for a summary behind it; the markers are those of the request."""
    return replace(layout.prompt, total=layout.prompt.total + instructions_tokens)


def summary_text(said: Said) -> str | None:
    """The summary, or None where the model called a tool, refused, or said nothing."""
    if said.stop_reason in ("tool_use", "refusal") or any(b.get("type") == "tool_use" for b in said.content):
        return None
    text = "".join(str(block.get("text", "")) for block in said.content if block.get("type") == "text")
    return text or None


def behind_summary(request: Request, block: dict[str, Any]) -> Request:
    """What the model goes on with: the summary in place of every message it summarizes."""
    return replace(request, messages=(Message("assistant", (block_of(block),)),))
