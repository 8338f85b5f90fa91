"""Trials are counted at the end of a run, by the same section as those of `tests/faults`."""

from collections.abc import Callable

import pytest
from reliability.score import Row, check, said


@pytest.fixture
def settle(record_property) -> Callable[[Row, str], None]:
    """No loss and nothing unknown, or every failing seed is named; the count is printed at the end."""

    def settled(row: Row, seeds: str) -> None:
        check(row)
        record_property("trials", said(row, seeds))

    return settled
