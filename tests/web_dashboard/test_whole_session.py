"""One session on the dashboard, from what fills its context to what it would have cost otherwise (BY-8)."""

import time
from pathlib import Path

import pytest
from small_session import text
from web_dashboard.client import Client, Elements, text_of
from web_dashboard.conftest import MakeDashboard, ids, paused, write


def long_session() -> object:
    """A pause that loses the cache, then a compaction."""
    session = paused().human("Now test it.").boundary(60_000).summary("We built it and tested it.")
    return session.reply("m3", text("Yes."), written=2_000, out=5)


def compared(client: Client) -> str:
    chosen = [place.rpartition("/")[2] for place in ids(client).values()]
    found = client.post("/what-if", {"sessions": chosen, "policies": ["recorded", "none"]})
    for _ in range(500):
        page = client.page(found.json["location"])
        if "data-job" not in page:
            return text_of(page)
        time.sleep(0.02)
    raise AssertionError(page)


@pytest.mark.spec("BY-8")
def test_a_session_is_shown_by_turn_with_its_breaks_compactions_and_the_cost_of_alternatives(
    tmp_path: Path, make_dashboard: MakeDashboard
):
    write(tmp_path / "s" / "a.jsonl", long_session())
    client = make_dashboard(tmp_path / "s")
    place = ids(client)["a"]
    windows = [text_of(client.part(f"{place}/call/{number}")) for number in (1, 2, 3)]
    assert [("Tool results" in each, "Summary" in each) for each in windows] == [
        (False, False),
        (True, False),
        (False, True),
    ]
    page = client.page(place)
    assert "Call 2: 32 minutes idle; the cache entry had a TTL of 5m 50k tokens" in text_of(page)
    opened = [str(each.get("data-load")) for each in Elements(page).named("details")]
    [replaced] = [text_of(client.part(each)) for each in opened if "/replaced/" in each]
    instead, _, before = replaced.partition("that left the context")
    assert "We built it and tested it." in instead
    assert "Why does the parser fail?" in before
    assert "1 session, 3 calls, replayed under 2 policies." in compared(client)
    assert "Cumulative cost, one line for each policy" in client.page(place)
