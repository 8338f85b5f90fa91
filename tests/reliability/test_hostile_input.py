"""Some trials of each kind with hostile input; `make soak` runs as many as you want."""

import pytest
from reliability.hostile_input import DEFAULT_TRIALS
from reliability.kinds import KINDS
from reliability.score import tally


@pytest.mark.parametrize("name", DEFAULT_TRIALS)
def test_hostile_input_breaks_no_promise(name: str):
    row = tally(KINDS[name], range(DEFAULT_TRIALS[name])).row
    assert (row.lost, row.unknown, row.failures) == (0, 0, ())
