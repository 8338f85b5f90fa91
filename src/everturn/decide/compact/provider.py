"""The API's own compaction as a strategy (CP-35): how it is asked for, and how its block is kept.

Its answer is one signed block that must be sent back first in the messages, unchanged, in place of what it
summarizes (api-facts 2.5). So the summary record holds that block and nothing else.
"""

from typing import Any, NamedTuple

import msgspec

from everturn.decide.compact.values import Compaction
from everturn.decide.effects import ModelAnswer
from everturn.history.blocks import Block, fields_of
from everturn.view.forks import CapturedRequest
from everturn.view.requests import build_request
from everturn.wire.anthropic import Request

BETA = "compact-2026-09-04"
KIND = "compaction"
# Cannot be combined with a compaction (api-facts 2.5).
_NOT_BESIDE = ("context_management", "stop_sequences", "output_format")


class ProviderSummary(NamedTuple):
    block: Block
    text: str


def build_compaction_request(captured: CapturedRequest, instructions: str) -> Request:
    asks: dict[str, Any] = {"type": "summarize"} | ({"instructions": instructions} if instructions else {})
    request = build_request(captured, captured.breakpoints)
    fields = {name: value for name, value in request.settings.items() if name not in _NOT_BESIDE}
    return msgspec.structs.replace(request, settings={**fields, "compaction": asks})


def compaction_block(answer: ModelAnswer) -> ProviderSummary | None:
    """The signed block; None where the API gave no summary, which it says with an empty answer."""
    for block in answer.blocks:
        if block.kind == KIND and isinstance(content := fields_of(block).get("content"), str) and content:
            return ProviderSummary(block, content)
    return None


def with_block(made: Compaction, block: Block) -> Compaction:
    """The summary record with the API's block instead of the summary's text."""
    summary = msgspec.structs.replace(made.summary, blocks=(block,))
    return msgspec.structs.replace(made, summary=summary)
