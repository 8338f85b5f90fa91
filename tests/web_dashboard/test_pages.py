"""What the pages say: overview, list, one session, recall, in numbers that can be added up by hand."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from small_session import SmallSession, compacted, reading, text
from web_dashboard.client import Client, Elements, text_of
from web_dashboard.conftest import MakeDashboard, ids, paused, write

from everturn.catalog.names import ID_SHOWN
from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.head import HeadTool
from everturn.measure.money import format_dollars
from everturn.session.bill import UsageTotals
from everturn.session.state_file import SessionState
from everturn.web_dashboard.avoidable import REMEDIES, find_avoidable
from everturn.web_dashboard.periods import choose_period
from everturn.web_dashboard.queries import BreakSums, Scope, by_group, by_period, total

# Of one `paused` session with Claude Opus 4.5: 110,000 tokens written at $6.25, 20 uncached at $5, 130 output
# at $25 per million.
PAUSED = format_dollars(Decimal("0.69085"))
# The second call writes the 50,000 tokens again that it could have read at $0.50.
LOST = format_dollars(Decimal("0.2875"))


@pytest.fixture
def client(tmp_path: Path, make_dashboard: MakeDashboard) -> Client:
    root = tmp_path / "sessions"
    write(root / "a.jsonl", paused())
    write(root / "b.jsonl", reading(), project="/home/me/reader", times="2025-12-31T23")
    write(root / "c.jsonl", compacted(), project="/home/me/builder", times="2025-11-03T08")
    return make_dashboard(root)


@pytest.mark.spec("DB-2")
def test_the_overview_says_what_was_spent_and_what_could_have_been_avoided(client: Client):
    said = text_of(client.page("/?project=/home/me/parser"))
    assert f"Cost {PAUSED} at list price" in said
    assert (
        f"{LOST} of {PAUSED} were cache rewrites after pauses of 5 to 60 minutes "
        "1 break, 50k tokens. A cache TTL of one hour survives these pauses; its writes cost 60% more than "
        "with five minutes. Try claude-code+1h"
    ) in said
    assert "An estimate: writing again minus reading." in said


@pytest.mark.spec("DB-2")
@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("day", ["5 Jan", "31 Dec", "3 Nov"]),
        ("week", ["Week of 5 Jan", "Week of 29 Dec", "Week of 3 Nov"]),
        ("month", ["Jan 2026", "Dec 2025", "Nov 2025"]),
    ],
)
def test_totals_are_by_day_week_and_month(client: Client, by: str, names: list[str]):
    said = text_of(client.page(f"/?by={by}"))
    table = said.partition("As a table")[2].partition("By project")[0]
    places = [table.index(name) for name in names]
    assert places == sorted(places)


@pytest.mark.spec("DB-2")
def test_a_call_at_eleven_in_the_evening_belongs_to_the_next_day_further_east(client: Client):
    index = client.dashboard.index
    scope = Scope(project="/home/me/reader")

    def days(zone: str) -> list[tuple[str, int]]:
        rows = by_period(index, scope, "day", ZoneInfo(zone))
        return [(f"{row.start:%Y-%m-%d}", row.sums.calls) for row in rows]

    assert (days("UTC"), days("Asia/Tokyo")) == ([("2025-12-31", 4)], [("2026-01-01", 4)])
    # Half and quarter hours are zones too.
    assert days("Asia/Kathmandu") == [("2026-01-01", 4)]


def test_periods_without_calls_are_shown_and_sums_are_complete(client: Client):
    rows = by_period(client.dashboard.index, Scope(), "month", ZoneInfo("UTC"))
    assert [f"{row.start:%Y-%m}" for row in rows] == ["2025-11", "2025-12", "2026-01"]
    assert sum(row.sums.nanos for row in rows) == total(client.dashboard.index, Scope()).nanos


@pytest.mark.spec("DB-2")
def test_totals_are_by_project_model_and_agent(client: Client):
    index = client.dashboard.index
    projects = {row.name: row.sums.calls for row in by_group(index, Scope(), "project")}
    assert projects == {"/home/me/builder": 3, "/home/me/parser": 2, "/home/me/reader": 4}
    assert [row.name for row in by_group(index, Scope(), "model")] == ["claude-opus-4-5-20251101"]
    assert [(row.name, row.sessions) for row in by_group(index, Scope(), "agent")] == [("claude-code", 3)]
    said = text_of(client.page("/"))
    assert "By project me/builder" in said
    assert "By model claude-opus-4-5-20251101" in said


def test_a_range_is_compared_with_the_time_before(client: Client):
    assert "on the time before" in text_of(client.page("/?since=2026-01-01&until=2026-01-06"))
    assert "on the time before" not in text_of(client.page("/"))


def test_causes_that_a_policy_avoids_come_first():
    found = find_avoidable(
        [BreakSums("idle", 5, 1, 10, 7), BreakSums("idle", 59, 2, 20, 5), BreakSums("idle", 61, 1, 5, 3),
         BreakSums("unexplained", 0, 1, 9, 100), BreakSums("never heard of", 0, 1, 1, 1)]
    )  # fmt: skip
    assert [(each.remedy, each.count, each.nanos) for each in found] == [
        (REMEDIES["short pause"], 3, 12),
        (REMEDIES["long pause"], 1, 3),
        (REMEDIES["unexplained"], 2, 101),
    ]


def test_the_period_follows_from_the_length_of_the_time():
    assert [choose_period(days * 86_400) for days in (1, 100, 101, 730, 731)] == [
        "day", "day", "week", "week", "month",
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", ["/?since=yesterday", "/?until=2026-99-99", "/sessions?since=1"])
def test_a_wrong_day_is_explained(client: Client, wrong: str):
    found = client.get(wrong)
    assert (found.status, "is not a day. Write it as 2026-11-16." in found.text) == (400, True)


@pytest.mark.spec("DB-3")
def test_the_list_has_title_project_date_model_cost_and_a_small_chart(client: Client):
    page = client.page("/sessions?q=parser.py")
    assert "No session matches" in page
    page = client.page("/sessions?project=/home/me/parser")
    id = ids(client)["a"].rpartition("/")[2]
    assert (
        f"Why does the parser fail? {id[:8]} · me/parser · claude-code 5 Jan 10:33 opus-4-5 "
        f"60k of 200k {PAUSED} 2 0% 1 · {LOST} –"
    ) in text_of(page)
    charts = [each for each in Elements(page).named("svg") if each.get("aria-label")]
    assert [each["aria-label"] for each in charts] == ["context over time, at most 60k"]


@pytest.mark.spec("DB-3")
def test_the_list_is_searched_sorted_and_filtered_by_its_address(client: Client):
    def names(query: str) -> list[str]:
        page = client.page(f"/sessions{query}")
        known = {place: name for name, place in ids(client).items()}
        return [known[link["href"] or ""] for link in Elements(page).named("a") if link.get("href") in known]

    assert names("") == ["a", "b", "c"]
    assert names("?sort=cost") == ["c", "a", "b"]
    assert names("?sort=calls") == ["b", "c", "a"]
    assert names("?q=build") == ["c"]
    assert names("?q=100%25") == []
    assert names("?project=/home/me/reader") == ["b"]
    assert names("?since=2026-01-01") == ["a"]
    assert names("?until=2025-12-01") == ["c"]
    assert names("?model=none-such") == []
    assert names("?sort=nonsense&page=99999999999") == ["a", "b", "c"]


def test_a_long_list_has_pages(tmp_path: Path, make_dashboard: MakeDashboard):
    root = tmp_path / "many"
    for number in range(60):
        small = SmallSession().human(f"Task {number}").reply("m", text("Yes."), written=2_000, out=5)
        write(root / f"s{number:02d}.jsonl", small)
    client = make_dashboard(root)
    assert "Page 1 of 2" in text_of(client.page("/sessions"))
    assert client.page("/sessions?page=2").count('class="session-link"') == 10


@pytest.mark.spec("DB-4")
def test_a_session_shows_its_context_calls_breaks_and_edits(client: Client):
    said = text_of(client.page(ids(client)["a"]))
    assert f"Cost {PAUSED} 2 calls" in said
    assert "Context 60k 30% of 200k: the window of Claude Opus 4.5" in said
    assert f"{LOST} Call 2: 32 minutes idle; the cache entry had a TTL of 5m 50k tokens" in said
    edits = text_of(client.page(ids(client)["c"])).partition("Edits and compactions")[2]
    assert "1 in order Compacted (auto), 160,000 tokens before it before call 3" in edits


def test_a_window_that_no_file_and_no_table_says_is_not_guessed(
    tmp_path: Path, make_dashboard: MakeDashboard
):
    root = tmp_path / "sessions"
    root.mkdir()
    messages = [
        {"id": "1", "type": "user", "content": "Hello."},
        {
            "id": "2",
            "type": "gemini",
            "content": "Hello.",
            "model": "gemini-2.5-flash",
            "tokens": {"input": 12_000, "output": 20, "cached": 2_000},
        },
    ]
    chat = {"sessionId": "g", "projectHash": "p", "messages": messages}
    (root / "gemini.json").write_text(msgspec.json.encode(chat).decode())
    info = {
        "last_token_usage": {"input_tokens": 27_200, "output_tokens": 5},
        "model_context_window": 272_000,
    }
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}
    rollout = [
        {"type": "turn_context", "payload": {"model": "gpt-5"}},
        {"type": "response_item", "payload": said},
        {"type": "event_msg", "payload": {"type": "token_count", "info": info}},
    ]
    (root / "codex.jsonl").write_text("".join(f"{msgspec.json.encode(line).decode()}\n" for line in rollout))
    client = make_dashboard(root)
    gemini, codex = (text_of(client.page(ids(client)[name])) for name in ("gemini", "codex"))
    assert "Context 12k window not known: gemini-2.5-flash is not in the table of models" in gemini
    assert ("Free" in gemini, "Compaction buffer" in gemini) == (False, False)
    assert "Context 27k 10% of 272k: as the file says" in codex
    assert "Free 245k 90%" in codex
    sizes = re.findall(r"<small class=\"soft\">([^<]*)</small></td>", client.page("/sessions"))
    assert sorted(sizes) == ["12k", "27k of 272k"]


@pytest.mark.spec("DB-4")
def test_the_window_is_shown_at_any_call(client: Client):
    place = ids(client)["c"]
    first, last = (text_of(client.part(f"{place}/call/{number}")) for number in (1, 3))
    assert "Call 1 of 3" in first
    assert "Summary" not in first
    assert "150k tokens" in first
    assert "Summary" in last
    assert "31k tokens" in last
    second = text_of(client.part(f"{place}/call/2"))
    assert ("Summary" in second, "Assistant" in second, "Tool requests" in last) == (False, True, False)
    # The slider of the page begins at the call of the address.
    page = Elements(client.page(f"{place}?call=2"))
    sliders = [each for each in page.named("input") if each.get("type") == "range"]
    assert [(each["value"], each["max"]) for each in sliders] == [("2", "3")]


@pytest.mark.spec("DB-4")
def test_what_the_model_saw_at_a_call_is_shown_as_text(client: Client):
    place = ids(client)["a"]
    first, second = (text_of(client.part(f"{place}/text/{number}")) for number in (1, 2))
    assert first.endswith("user Why does the parser fail?")
    assert "def parse(): ..." in second
    assert "2,800 more characters" in second


@pytest.mark.spec("DB-4")
def test_a_break_is_opened_to_the_difference_between_the_two_requests(client: Client):
    said = text_of(client.part(f"{ids(client)['a']}/difference/2"))
    assert "The first block of both requests is the same. The request of call 2 only added 2 blocks." in said
    changed = text_of(client.part(f"{ids(client)['c']}/difference/3"))
    assert "Only in the request before" in changed
    assert "We built it and tested it." in changed.partition("Only in call 3")[2]


def test_a_part_as_a_page_says_what_it_is_and_why_the_cache_broke(client: Client):
    place = ids(client)["a"]

    def head(part: str) -> str:
        return text_of(client.page(f"{place}/{part}")).partition("Back to the session ")[2]

    assert head("difference/2").startswith(
        "Call 2 compared with the call before it Why does the parser fail? Cache broke: 32 minutes idle; the "
        "cache entry had a TTL of 5m The first block of both requests is the same."
    )
    assert head("text/1").startswith("What the model saw at call 1 Why does the parser fail? Call 1 sent 1 ")
    assert "Cache broke" not in client.part(f"{place}/difference/2")
    assert "The cache did not break here" in client.page(f"{ids(client)['c']}/difference/2")
    # No level of headings is left out.
    levels = re.findall(r"<h(\d)", client.page(f"{ids(client)['c']}/difference/3"))
    assert levels == ["1", "2", "3", "3"]


def test_labels_below_a_chart_are_equally_far_apart(tmp_path: Path, make_dashboard: MakeDashboard):
    root = tmp_path / "ten"
    session = SmallSession()
    for number in range(10):
        session.human(f"Question {number}").reply(f"m{number}", text("Yes."), written=2_000 + number, out=5)
    write(root / "ten.jsonl", session)
    client = make_dashboard(root)
    assert re.findall(r">call (\d+)</span>", client.page(ids(client)["ten"])) == ["1", "3", "5", "7", "9"]


@pytest.mark.spec("DB-4")
def test_edits_are_opened_to_what_they_replaced(tmp_path: Path, make_dashboard: MakeDashboard):
    session = paused().cleared("c1", before=60_000, saved=1_000)
    session.human("Now test it.").boundary(60_000).summary("We built it and tested it.")
    receipt = {"type": "hook_additional_context", "content": "Retained: everything."}
    session._add("attachment", attachment=receipt)
    session.reply("m3", text("Yes."), written=2_000, out=5)
    write(tmp_path / "s" / "a.jsonl", session)
    client = make_dashboard(tmp_path / "s")
    page = Elements(client.page(ids(client)["a"]))
    places = [str(each.get("data-load")) for each in page.named("details")]
    cleared, compaction = (text_of(client.part(place)) for place in places if "/replaced/" in place)
    assert "1 that left the context" in cleared
    assert "call of Read" in cleared
    assert "def parse(): ..." in cleared
    instead, _, replaced = compaction.partition("that left the context")
    assert "We built it and tested it." in instead
    assert "Retained: everything." in instead
    assert "Now test it." in replaced


def test_sub_agents_have_their_own_charts(tmp_path: Path, make_dashboard: MakeDashboard):
    session = paused()
    side = SmallSession(agent="a7").human("Look.").reply("x1", text("Seen."), written=2_000, out=5)
    session.lines += side.lines
    write(tmp_path / "s" / "a.jsonl", session)
    client = make_dashboard(tmp_path / "s")
    place = ids(client)["a"]
    assert "Main conversation 2 calls Look. 1 call" in text_of(client.page(place))
    assert "2.0k tokens" in text_of(client.part(f"{place}/call/1?thread=a7"))
    assert client.get(f"{place}?thread=nobody").status == 404


def test_a_session_without_reported_usage_says_that_sizes_are_estimates(
    tmp_path: Path, make_dashboard: MakeDashboard
):
    write(tmp_path / "s" / "a.jsonl", SmallSession().human("Hello there.").reply("m1", text("Hello.")))
    client = make_dashboard(tmp_path / "s")
    assert "The file reports no usage: sizes are estimates" in text_of(client.page(ids(client)["a"]))
    assert "No costs These files report no usage. See the 1 session" in text_of(client.page("/"))


@pytest.mark.parametrize(
    "path",
    ["/session/000000000000", "/nowhere", "/what-if/abc", "{a}/call/99", "{a}/text/99", "{a}/replaced/none",
     "{a}/record/none", "/static/../app.py", "/static/none.css"],
)  # fmt: skip
def test_what_is_not_there_is_said_politely(client: Client, path: str):
    assert client.get(path.format(a=ids(client)["a"])).status in (400, 404)


def test_a_file_that_disappeared_is_said_to_be_gone(client: Client, tmp_path: Path):
    place = ids(client)["a"]
    (tmp_path / "sessions" / "a.jsonl").unlink()
    found = client.get(f"{place}/text/1")
    assert (found.status, "cannot be read: No such file" in found.text) == (400, True)
    assert client.get(place).status == 200


@pytest.mark.spec("DB-6")
def test_recall_finds_words_in_all_sessions_and_shows_them_in_context(client: Client):
    page = client.page("/recall?q=tested+loop")
    assert "No passage has all of these words; these have some of them." in page
    page = client.page("/recall?q=%22loop+ends%22")
    said = text_of(page)
    assert "2 passages in 2 sessions, best first." in said
    assert "<mark>loop</mark>" in page
    links = [str(each["href"]) for each in Elements(page).named("a") if "/record/" in str(each.get("href"))]
    context = client.page(links[0])
    assert 'class="block found"' in context
    assert "def parse(): ..." in text_of(context)


@pytest.mark.parametrize("query", ["%22", "*", "(", "NEAR(", "a'b", "-", "%00", "OR", "zzz"])
def test_a_search_for_anything_gives_a_page(client: Client, query: str):
    assert client.get(f"/recall?q={query}").status in (200, 400)


def test_an_empty_dashboard_says_how_to_begin(tmp_path: Path, make_dashboard: MakeDashboard):
    (tmp_path / "nothing").mkdir()
    client = make_dashboard(tmp_path / "nothing")
    assert "everturn dashboard PATH" in client.page("/")
    assert "No sessions found" in client.page("/sessions")
    reading_still = make_dashboard(tmp_path / "nothing", read=False)
    assert "Looking for sessions" in text_of(reading_still.page("/"))


@pytest.mark.spec("EC-10")
def test_a_session_of_everturn_shows_what_it_decided_by_price_and_which_tools_nobody_called(
    tmp_path: Path, make_dashboard: MakeDashboard
):
    at = datetime(2026, 1, 5, 10, 20, tzinfo=UTC)
    held = EconomicDecision(at=at, kind="hold", done=True, why="held for $0.041, expected saving $0.190: 63%")
    head = (HeadTool(name="Read", tokens=400, calls=3), HeadTool(name="<Deploy>", tokens=2_000))
    asides = {
        "compact": UsageTotals(calls=2, dollars=Decimal("0.25")),
        "hold": UsageTotals(calls=1, unpriced=1),
    }
    path = write(tmp_path / "sessions" / "a.jsonl", paused())
    path.with_name("a.jsonl.state.json").write_bytes(
        msgspec.json.encode(SessionState(asides=asides, decisions=(held,), head=head))
    )
    client = make_dashboard(tmp_path / "sessions")
    said = text_of(client.page(ids(client)["a"]))
    assert (
        "Decided by price the latest first held for $0.041, expected saving $0.190: 63% 5 Jan 10:20" in said
    )
    assert (
        "Calls of everturn beside the conversation, not included in its cost 2 summary calls $0.2500 "
        "1 hold no price" in said
    )
    # Two calls that read 2,000 tokens each.
    assert (
        "Definitions of tools 1 tool never called: 2.0k tokens in every prompt, $0.0020 to read them 2 times"
        in said
    )
    assert "<Deploy> 2.0k never called Read 400 3" in said


def test_the_short_id_that_commands_show_is_an_address_and_is_on_the_page(client: Client):
    where = ids(client)["a"]
    short = where[: where.rindex("/") + 1 + ID_SHOWN]
    assert len(short) < len(where)
    assert text_of(client.page(short)) == text_of(client.page(where))
    assert f" {short.rpartition('/')[2]} · " in text_of(client.page(where))


def test_practice_with_the_twin_is_shown_and_costs_nothing(tmp_path: Path, make_dashboard: MakeDashboard):
    root, session = tmp_path / "sessions", paused()
    session.lines = [line | {"requestId": f"req_practice_{at}"} for at, line in enumerate(session.lines)]
    write(root / "a.jsonl", paused())
    write(root / "p.jsonl", session)
    client = make_dashboard(root)
    overview, listed, page = (text_of(client.page(each)) for each in ("/", "/sessions", ids(client)["p"]))
    assert f"Cost {PAUSED} at list price; 2 practice calls left out" in overview
    assert f"Cache breaks {LOST}" in overview
    assert "60k of 200k practice 0 – – –" in listed
    assert "Cost practice 2 calls of practice with the twin: nothing billed" in page
    assert "Hit rate – practice is left out" in page


def test_the_last_day_that_a_date_can_have_may_end_a_period(client: Client):
    assert f"Cost {PAUSED}" in text_of(client.page("/?since=2026-01-05&until=9999-12-31"))


def test_calls_without_a_known_price_are_not_shown_as_free(tmp_path: Path, make_dashboard: MakeDashboard):
    path = write(tmp_path / "sessions" / "other.jsonl", paused())
    path.write_text(re.sub(r'"model": *"[^"]*"', '"model": "gpt-9"', path.read_text()))
    client = make_dashboard(tmp_path / "sessions")
    pages = [client.page(place) for place in ("/", "/sessions", ids(client)["other"], "/what-if")]
    assert ["no price" in text_of(page) for page in pages] == [True] * 4
    assert ["$0.00" in text_of(page) for page in pages[1:]] == [False] * 3
    assert "gpt-9 no price" in text_of(pages[0])
