"""What was saved is estimated from what a call would have cost with the client's whole list."""

from datetime import date
from decimal import Decimal

from everturn.gateway.savings import ListSize, compute_saved, estimate_list, estimate_unmanaged
from everturn.history.records import Usage


def used(context: int) -> Usage:
    return Usage(cache_read_input_tokens=context)


def test_the_list_is_what_the_api_reports_until_less_is_sent():
    before = ListSize(1_000, 4_000, 0.0)
    known = estimate_list(used(1_500), 6_000, 6_000, before, 1.0, is_added=False, is_reduced=False)
    assert known == ListSize(1_500, 6_000, 1.0)
    # Then it grows with the client's bytes, at the tokens per byte of the list before.
    reduced = estimate_list(used(200), 6_400, 900, known, 2.0, is_added=False, is_reduced=True)
    assert reduced == ListSize(1_600, 6_400, 2.0)
    # A request of a thread has only what is new.
    thread = estimate_list(used(240), 400, 1_100, reduced, 3.0, is_added=True, is_reduced=True)
    assert thread == ListSize(1_700, 6_800, 3.0)


def test_a_list_that_is_long_when_it_is_first_seen_is_measured_by_what_was_sent():
    found = estimate_list(used(200), 8_000, 1_000, None, 1.0, is_added=False, is_reduced=True)
    assert found == ListSize(1_600, 8_000, 1.0)


def test_without_a_call_before_only_reading_is_saved():
    usage = Usage(
        cache_read_input_tokens=100, cache_creation_input_tokens=90, input_tokens=10, output_tokens=7
    )
    unmanaged = estimate_unmanaged(usage, ListSize(1_600, 8_000, 1.0), None, "5m")
    assert unmanaged == Usage(
        cache_read_input_tokens=1_500, cache_creation_input_tokens=90, input_tokens=10, output_tokens=7
    )


def test_a_thread_saves_what_its_list_would_have_cost():
    usage = Usage(cache_read_input_tokens=20_000, cache_creation_input_tokens=500, output_tokens=10)
    before, now = ListSize(240_000, 960_000, 0.0), ListSize(240_500, 962_000, 10.0)
    unmanaged = estimate_unmanaged(usage, now, before, "5m")
    assert (unmanaged.cache_read_input_tokens, unmanaged.cache_creation_input_tokens) == (240_000, 500)
    saved = compute_saved(usage, unmanaged, Decimal("0.01"), "claude-sonnet-4-6", date(2026, 11, 16))
    # 220,000 tokens that were not read again, at $0.30 per million, less the summary.
    assert saved == Decimal("0.056")
