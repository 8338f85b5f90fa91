"""Some trials of each kind with hostile input; `make soak` runs as many as you want."""

import pytest
from reliability.hostile_input import HOSTILE_KINDS
from reliability.kinds import KINDS
from reliability.score import tally

TRIALS = {"hostile-paths": 20, "hostile-transcripts": 60}


@pytest.mark.parametrize("name", [kind.name for kind in HOSTILE_KINDS])
def test_hostile_input_breaks_no_promise(name: str):
    row = tally(KINDS[name], range(TRIALS.get(name, 300))).row
    assert (row.lost, row.unknown, row.failures) == (0, 0, ())
