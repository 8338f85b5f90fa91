"""Every guard has a test that fails without it (S06)."""

from collections import Counter

import pytest
from sabotage.conftest import Try
from sabotage.guards import GUARDS, Guard
from sabotage.warm import MOVED

# pytest's own: tests were run, and some of them failed. Anything else would prove nothing.
FAILED = 1
FEWEST = 60


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_its_guard_a_test_fails(guard: Guard, without: Try):
    found = without(guard)
    assert found["code"] == FAILED, found["said"]


def test_with_a_change_that_breaks_nothing_no_test_fails(without: Try):
    """Otherwise red would mean nothing: the same way of running tests, and every one of them is green."""
    gate = GUARDS[0]
    found = without(gate._replace(becomes=f"    pass\n{gate.source}"))
    assert (found["code"], "passed" in found["said"]) == (0, True)


def test_a_guard_that_has_moved_is_named(without: Try):
    found = without(GUARDS[0]._replace(source="if nobody wrote this:"))
    assert found == {
        "code": MOVED,
        "said": f"guard moved: 'if nobody wrote this:' stands 0 times in {GUARDS[0].module}, and not once",
    }


def test_the_table_is_long_enough_and_names_each_guard_once():
    names = Counter(guard.name for guard in GUARDS)
    assert len(names) >= FEWEST
    assert set(names.values()) == {1}
