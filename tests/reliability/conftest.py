"""Trials are counted, and told at the end of a run: a number says little without its denominator.

They are not watched by the net of `cache_net.py`: it keeps every request of a test, and tests here have
thousands. Their own judges are stricter where it matters (`provider.py`, `machine.py`).
"""

from collections.abc import Callable

import msgspec
import pytest
from reliability.score import Row, added, check, said
from reliability.trials import Unwatched

KEY = "reliability"


@pytest.fixture(autouse=True)
def unwatched(monkeypatch) -> None:
    monkeypatch.setattr("everturn.session.talk.wiring.Live", Unwatched)


@pytest.fixture
def settle(record_property) -> Callable[[Row, int], int]:
    """The number of trials that were survived, which is all of them, or every failing seed is named. `first`
    is the seed of the first trial."""

    def settled(row: Row, first: int) -> int:
        check(row)
        record_property(KEY, msgspec.json.encode((first, row)).decode())
        return row.survived

    return settled


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what forks: a process that has run thousands of tests is large, and slow to be copied."""
    items.sort(key=lambda item: item.path.name != "test_crashes.py")


def pytest_terminal_summary(terminalreporter):
    passed = terminalreporter.stats.get("passed", [])
    told = [text for report in passed for name, text in report.user_properties if name == KEY]
    rows: dict[str, list[tuple[int, Row]]] = {}
    for first, row in (msgspec.json.decode(text, type=tuple[int, Row]) for text in told):
        rows.setdefault(row.kind, []).append((first, row))
    if rows:
        terminalreporter.section("reliability trials")
    for found in rows.values():
        whole = added([row for _, row in found])
        terminalreporter.write_line(said(whole, f"seeds from {min(first for first, _ in found)}"))
