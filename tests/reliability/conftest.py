"""Trials are counted at the end of a run, by the same section as those of `tests/faults`.

They are not watched by the net of `cache_net.py`: it keeps every request of a test, and tests here have
thousands. Their own judges are stricter where it matters (`provider.py`, `machine.py`).
"""

from collections.abc import Callable

import pytest
from reliability.score import Row, check, said
from reliability.trials import Unwatched


@pytest.fixture(autouse=True)
def unwatched(monkeypatch) -> None:
    monkeypatch.setattr("everturn.session.talk.wiring.Live", Unwatched)


@pytest.fixture
def settle(record_property) -> Callable[[Row, str], None]:
    """No loss and nothing unknown, or every failing seed is named; the count is printed at the end."""

    def settled(row: Row, seeds: str) -> None:
        check(row)
        record_property("trials", said(row, seeds))

    return settled
