"""Conversations by chance: every request is one that the API takes, and nothing that was said is lost."""

import pytest
from reliability.kinds import KINDS
from reliability.score import tally
from reliability.trials import Trial

FIRST = 20_261_115
# Shares, so that workers have something to do each; together 1,000 conversations; `make soak` has
# as many as you want.
SHARES = 4
EACH = 250
# What must have happened in every share, or it proves little.
HAPPENED = (
    "ask", "answer", "odd", "compact", "undo", "resume", "crash", "rewind", "pause",
    "Compacted", "Cleared", "Offloaded", "ThinkingDropped", "Trimmed", "Undone", "Pinned",
    "asked: Compaction", "asked: CompactionFailed", "asked: CompactionSkipped",
    "blocks sent", "blocks view", "blocks unfold", "blocks log", "blocks branch", "blocks sidechain",
)  # fmt: skip


@pytest.mark.spec("TR-3", "TR-11", "CP-8", "CP-28")
@pytest.mark.parametrize("share", range(SHARES))
def test_no_conversation_gives_an_invalid_request_or_loses_a_block(share, settle):
    first = FIRST + share * EACH
    done = tally(KINDS["conversations"], range(first, first + EACH))
    settle(done.row, first)
    assert [what for what in HAPPENED if not done.counts[what]] == []


def test_equal_seeds_give_equal_conversations():
    one, other = Trial(FIRST), Trial(FIRST)
    assert (one.run(), one.disk.files) == (other.run(), other.disk.files)
