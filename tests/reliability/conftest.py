"""Trials are counted, and told at the end of a run (`trials_told.py`).

They are not watched by the net of `cache_net.py`: it keeps every request of a test, and tests here have
thousands. Their own judges are stricter where it matters (`provider.py`, `machine.py`).
"""

from collections.abc import Callable, Iterator

import msgspec
import pytest
from reliability import power
from reliability.indexes import found_in_new
from reliability.score import Row, check
from reliability.trials import Unwatched
from trials_told import RELIABILITY


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """What trials make once in a process, they make with the code of this test."""
    power.forget()
    found_in_new.cache_clear()
    yield
    power.forget()
    found_in_new.cache_clear()


@pytest.fixture(autouse=True)
def unwatched(monkeypatch) -> None:
    monkeypatch.setattr("everturn.session.runtime.ConversationRunner", Unwatched)


@pytest.fixture
def settle(record_property) -> Callable[[Row, int], int]:
    """The number of trials that were survived, which is all of them, or every failing seed is named. `first`
    is the seed of the first trial."""

    def settled(row: Row, first: int) -> int:
        check(row)
        record_property(RELIABILITY, msgspec.json.encode((first, row)).decode())
        return row.survived

    return settled


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what forks: a process that has run thousands of tests is large, and slow to be copied."""
    items.sort(key=lambda item: item.path.name != "test_crashes.py")
