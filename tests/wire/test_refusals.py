"""What the API says when it refuses thinking, and what only sounds like it."""

import pytest

from everturn.wire.refusals import refuses_thinking


@pytest.mark.parametrize(
    "message",
    [
        "messages.5.content.0: Invalid `signature` in `thinking` block",
        "messages.5.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior`.",
        "messages.3.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message "
        "cannot be modified. These blocks must remain as they were in the original response.",
    ],
)
def test_thinking_that_does_not_fit_is_recognised(message: str):
    assert refuses_thinking(message)


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When "
        "`thinking` is enabled, a final `assistant` message must start with a thinking block.",
        '"thinking.type.enabled" is not supported for this model.',
        "compaction_signature_invalid",
        "prompt is too long: 1000123 tokens > 1000000 maximum",
        "thinking cannot be modified",
    ],
)
def test_a_refusal_for_another_reason_is_not_taken_for_one_of_thinking(message: str):
    assert not refuses_thinking(message)
