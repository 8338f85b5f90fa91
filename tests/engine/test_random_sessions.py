"""Laws over sessions by chance; the net (`cache_net.py`) holds its own laws over the same sessions."""

import os
from collections import Counter
from pathlib import Path

import pytest
from engine.random_sessions import STEPS, Session

# Four shares, so that two workers have something to do each.
SHARES = 4
SESSIONS = 10_000 if os.environ.get("EVERTURN_PROFILE") == "soak" else 100


@pytest.mark.moves_cache_prefix(reason="the head changes by chance, also in mid-session")
@pytest.mark.spec("PC-16", "PC-8", "BY-9")
@pytest.mark.parametrize("share", range(SHARES))
def test_no_request_on_a_model_that_binds_thinking_is_ever_refused(tmp_path: Path, share: int):
    edits: Counter[str] = Counter()
    for seed in range(share, SESSIONS, SHARES):
        session = Session(seed, tmp_path)
        # A refusal raises; so does anything else that goes wrong on the way.
        session.run()
        edits.update(session.held.edits)
        assert len(session.held.done) == STEPS, seed
        assert session.wrong == [], seed
    kinds = ("Cleared", "Offloaded", "ThinkingDropped", "Trimmed", "Compacted", "CacheDeleted")
    assert min(edits[kind] for kind in (*kinds, "CacheDeletionsEnded")) > 0, edits
