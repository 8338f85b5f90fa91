from datetime import UTC, datetime, timedelta, timezone

import pytest

from everturn.twin.clock import RealClock, VirtualClock, format_time


@pytest.mark.spec("TW-9")
def test_virtual_time_starts_on_the_default_date_and_moves_only_when_told():
    clock = VirtualClock()
    assert format_time(clock.now()) == "2026-11-15T00:00:00Z"
    assert clock.now() == clock.now()
    clock.advance(300.5)
    assert clock.now() == datetime(2026, 11, 15, 0, 5, 0, 500_000, tzinfo=UTC)


def test_virtual_time_can_be_set_to_the_past_and_reset():
    clock = VirtualClock()
    clock.set(datetime(2026, 10, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert format_time(clock.now()) == "2026-10-01T00:00:00Z"
    clock.set(datetime(2026, 10, 2))
    assert format_time(clock.now()) == "2026-10-02T00:00:00Z"
    clock.reset()
    assert clock.now() == VirtualClock().now()


def test_real_time_is_the_time_of_this_machine():
    before = datetime.now(UTC)
    assert before <= RealClock().now() <= datetime.now(UTC)
