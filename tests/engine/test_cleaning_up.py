"""What a compaction leaves behind: nothing of the view that it replaced."""

import msgspec
import pytest
from engine.held import Held, each_as_predicted

from everturn.decide.cache_breaks import NoBreak
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.decide.micro.cache_edit_state import CacheEditState
from everturn.measure.capabilities import EXTENDED_TWIN
from everturn.twin.options import TwinOptions
from everturn.view.breakpoints import Breakpoints


@pytest.mark.spec("CP-19")
def test_a_compaction_resets_deletions_results_markers_and_the_baseline(tmp_path):
    options = TwinOptions(extensions=frozenset({"cache_edits"}))
    held = Held(tmp_path, under="claude-code", able=EXTENDED_TWIN, options=options)
    held.allow("extractive")
    for _ in range(5):
        held.burst(3, tokens=900)
    conversation = held.runner.conversation
    assert conversation._tracker.cached.pinned
    assert conversation._tracker.results.count > 0
    assert isinstance(held.runner.compact(CompactionRequest(trigger="manual")), Compaction)
    follows = conversation._tracker
    assert (follows.cached, follows.results.count, follows.flattener.deleted) == (CacheEditState(), 0, set())
    assert (follows.reached, conversation.cache.breakpoints) == (-1, Breakpoints())
    after = held.ask("Go on.")
    verdict = after.settled.verdict
    assert (type(verdict), verdict.why) == (NoBreak, "the first call of this source")
    sent = msgspec.json.decode(after.turn.request().to_bytes())["messages"]
    assert not any(block["type"] == "cache_edits" for message in sent for block in message["content"])
    assert each_as_predicted(held), held.verdicts
