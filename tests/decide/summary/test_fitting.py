"""Room is granted by share and then by order; entries by rank, short before whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing.fitting import DroppedEntry, SummaryEntry, cost, fit, grants, wanted

SHARES = SummarySettings().shares


def test_the_shares_are_of_one_whole_and_name_all_nine_sections():
    assert abs(sum(SHARES.values()) - 1) < 1e-9
    assert set(SHARES) == set(range(1, 10))
    assert list(SHARES)[:2] == [6, 8]


def test_what_one_section_does_not_need_goes_to_the_first_that_wants_more():
    given = grants({6: 500, 8: 10, 1: 900}, {6: 0.4, 8: 0.2, 1: 0.4}, 1_000)
    assert given == {6: 500, 8: 10, 1: 490}


@given(st.dictionaries(st.sampled_from(list(SHARES)), st.integers(0, 50_000)), st.integers(0, 40_000))
def test_grants_never_exceed_the_room_nor_what_is_wanted(some, room):
    wants = {number: some.get(number, 0) for number in SHARES}
    given = grants(wants, SHARES, room)
    assert sum(given.values()) <= room
    assert all(0 <= given[number] <= wants[number] for number in SHARES)
    assert sum(given.values()) == min(room, sum(wants.values()))


def test_every_entry_gets_its_short_form_before_one_gets_its_whole_story():
    entries = [SummaryEntry("a" * 60, rank=1, short="a"), SummaryEntry("b" * 60, rank=0, short="b")]
    found = fit(3, entries, wanted(entries) - 1)
    assert found.body == f"   - a\n   - {'b' * 60}"
    assert found.dropped == (DroppedEntry(3, "a" * 60, 59),)


def test_an_entry_without_room_is_counted_on_the_page():
    found = fit(4, [SummaryEntry("a" * 60, rank=1), SummaryEntry("b", rank=0)], 10)
    assert found.body == "   - b\n   [1 more left out]"
    assert found.dropped == (DroppedEntry(4, "a" * 60, 60),)


def test_a_shorter_summary_gives_the_users_messages_more_of_its_room():
    short = SummarySettings(shares={6: 0.2, 8: 0.6, 1: 0.2}, short_messages=0.6).shortened_to(3_000)
    assert short.budget == 3_000
    assert short.shares == {6: 0.6, 8: pytest.approx(0.3), 1: pytest.approx(0.1)}
    assert sum(SummarySettings().shortened_to(100).shares.values()) <= 1.0 + 1e-9


def test_entries_that_fill_the_room_to_its_last_character_are_shown_whole():
    entries = [SummaryEntry("a" * 60, rank=1, short="a"), SummaryEntry("b" * 60, rank=0, short="b")]
    whole = fit(3, entries, wanted(entries))
    assert (whole.body, whole.dropped) == (f"   - {'a' * 60}\n   - {'b' * 60}", ())
    assert fit(3, [], 0).body == "   (none)"


def test_short_forms_and_whole_ones_may_fill_the_room_to_its_last_character():
    entries = [SummaryEntry("a" * 9, rank=0, short="a"), SummaryEntry("b" * 9, rank=1, short="b")]
    least = 2 * cost("a")
    found = {
        room: fit(3, entries, room).body for room in (least - 1, least, least + 7, least + 8, least + 15)
    }
    assert found == {
        least - 1: "   - a\n   [1 more left out]",
        least: "   - a\n   - b",
        least + 7: "   - a\n   - b",
        least + 8: "   - aaaaaaaaa\n   - b",
        least + 15: "   - aaaaaaaaa\n   - b",
    }
