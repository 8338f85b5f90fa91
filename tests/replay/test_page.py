"""The page of a replay: what it says, that nothing leaves it, and how it behaves in a real browser."""

import re
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay.browser import browser
from replay.runs import call, make_comparison, run

from everturn.replay.compare import Comparison
from everturn.replay.page import document, formatting, plot, session_comparison
from everturn.replay.page.document import render_page as render_with
from everturn.replay.page.markup import Html, element, json_script
from everturn.replay.page.session_comparison import SessionComparison, build_session_comparison
from everturn.replay.refetches import Refetch

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def render_page(sessions, **more):
    """The page with the table of the same runs."""
    comparison = Comparison()
    for each in sessions:
        comparison.add(each.runs)
    return render_with(sessions, comparison.compared(), **more)


class Names(HTMLParser):
    """Every element that a browser would make of a page, with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def hostile_comparison() -> SessionComparison:
    refetch = Refetch("r", 10, HOSTILE, "path")
    calls = [
        call(1, read=10, why=HOSTILE, broke=HOSTILE, thread=HOSTILE, refetches=(refetch,), cleared=2),
        call(1, read=10, source="compact", why=HOSTILE),
    ]
    return SessionComparison(
        HOSTILE, (run(calls, policy=HOSTILE, ended_early=HOSTILE),), model=HOSTILE, notes=(HOSTILE,)
    )


@pytest.mark.spec("RP-10")
def test_the_page_shows_context_hits_breaks_compactions_refetches_and_cost_by_policy():
    text = render_page([make_comparison("harbour-desk")])
    for label in (
        "Context over",
        "Compacted: ",
        "Cleared: ",
        "Broke: ",
        "Refetches: ",
        "Share read from the cache",
    ):
        assert f'aria-label="{label}' in text
    bars = re.findall(r'class="policy">([^<]+)<', text)
    assert bars == ["frugal+1h", "claude-code", "recorded", "clear-keep-3", "none"]
    assert {"bound floor", "bound clairvoyant"} <= set(re.findall(r'class="(bound \w+)"', text))


def test_what_sessions_say_never_becomes_markup():
    plain, hostile = (
        render_page([SessionComparison("n", hostile_comparison().runs)]),
        render_page([hostile_comparison()], unreadable=[(HOSTILE, HOSTILE)]),
    )
    for text in (plain, hostile):
        found = Names(text).found
        assert [tag for tag, _ in found if tag in ("img", "iframe", "object")] == []
        assert [attrs for _, attrs in found if any(name.startswith("on") for name in attrs)] == []
        scripts = [attrs for tag, attrs in found if tag == "script"]
        assert scripts == [{"type": "application/json"}, {}]


def test_nothing_on_the_page_is_fetched_from_anywhere():
    text = render_page([make_comparison()])
    addresses = [
        value for _, attrs in Names(text).found for name in ("src", "href") if (value := attrs.get(name))
    ]
    assert [each for each in addresses if not each.startswith(("data:", "#"))] == []
    assert "default-src 'none'" in text
    assert re.findall(r"url\(|@import|fetch\(|XMLHttpRequest", text) == []


@given(st.text())
def test_any_text_survives_an_element_and_a_script(said):
    parser = Names(element("p", said, title=said) + json_script(msgspec.json.encode(said).decode()))
    assert [tag for tag, _ in parser.found] == ["p", "script"]
    spelled = json_script(msgspec.json.encode(said).decode()).split(">", 1)[1].removesuffix("</script>")
    assert msgspec.json.decode(spelled) == said
    assert not {"<", ">", "&"} & set(spelled)


def test_markup_is_not_escaped_twice():
    assert element("p", element("b", "a & b")) == Html("<p><b>a &amp; b</b></p>")


def test_layers_are_painted_as_sums_from_the_back():
    drawn = plot.stacked((("low", [1, 2]), ("high", [1, 0])), 2)
    assert (
        drawn == '<path d="M0 1000V0H2V1000Z" class="high"/><path d="M0 1000V500H1V0H2V1000Z" class="low"/>'
    )


def test_marks_of_a_scale_are_round_and_reach_the_largest_value():
    assert plot.ticks(168_000) == (0, 50_000, 100_000, 150_000, 200_000)
    assert plot.ticks(0) == (0, 1)
    assert plot.ticks(0.7) == (0, 0.2, 0.4, pytest.approx(0.6), 0.8)


def test_numbers_are_written_with_few_digits():
    assert [formatting.tokens(n) for n in (7, 1_000, 9_940, 168_400, 2_340_000)] == [
        "7",
        "1.0k",
        "9.9k",
        "168k",
        "2.3M",
    ]
    assert [formatting.dollars(Decimal(n)) for n in ("0", "0.0042", "3.456", "1234.5")] == [
        "$0.00", "$0.0042", "$3.46", "$1,234.50",
    ]  # fmt: skip
    assert formatting.saving(Decimal(66), Decimal(100)) == "34% saved"
    assert formatting.saving(Decimal(263), Decimal(100)) == "costs 163% more"
    assert formatting.saving(Decimal(1), Decimal(0)) == ""


def test_a_policy_that_did_not_come_to_the_end_is_neither_cheapest_nor_baseline():
    short = run([call(1, read=10)], policy="none", ended_early="call 2 does not fit")
    whole = [
        run([call(1, read=10_000), call(2, read=20_000)], policy=name) for name in ("masking", "recorded")
    ]
    found = session_comparison.sum_policies([SessionComparison("s", (short, *whole))])
    assert session_comparison.cheapest(found).policy == "masking"
    assert session_comparison.baseline(found).policy == "recorded"
    assert [each.policy for each in session_comparison.in_order(found)] == ["masking", "recorded", "none"]


def test_a_bound_is_drawn_only_where_it_is_known_for_every_session():
    assert session_comparison.bound([Decimal(1), Decimal(2)]) == Decimal(3)
    assert session_comparison.bound([Decimal(1), None]) is None
    assert session_comparison.bound([]) is None


def test_bounds_are_lines_and_no_policies_and_those_of_whole_runs():
    calls = [call(1, read=10_000), call(2, read=20_000)]
    given = (
        run(calls, floor=Decimal("0.01"), clairvoyant=Decimal("0.02")),
        run(calls[:1], policy="none", ended_early="call 2 does not fit", floor=Decimal("0.005")),
        run(calls[:1], policy="clears-only+1h", is_bound=True),
    )
    found = build_session_comparison(given, name="s", model="m")
    assert found == SessionComparison("s", given[:2], Decimal("0.01"), Decimal("0.02"), "m")
    assert build_session_comparison(given[1:2], name="s") == SessionComparison("s", given[1:2])


def test_sessions_beyond_the_room_are_in_the_table_but_not_drawn(monkeypatch):
    monkeypatch.setattr(session_comparison, "MAX_DRAWN_CALLS", 900)
    cheap = make_comparison("cheap", calls=24)
    bare = tuple(msgspec.structs.replace(each, calls=()) for each in cheap.runs)
    text = render_page([msgspec.structs.replace(cheap, runs=bare), make_comparison("dear", calls=160)])
    assert re.findall(r"<h2>(\w+)</h2>", text)[-1] == "dear"
    assert re.findall(r'data-opens="\d+">(\w+)<', text) == ["dear"]
    assert re.search(r"<td[^>]*><span><span[^>]*>cheap</span></span></td>", text)


def test_no_session_and_no_call_still_make_a_page():
    for nothing in ([], [SessionComparison("empty", (run([]),))]):
        assert "Nothing to replay" in render_page(nothing, unreadable=[("a.txt", "the file is empty")])


def test_the_same_runs_make_the_same_page():
    assert render_page([make_comparison(), make_comparison("b", 40)]) == render_page(
        [make_comparison(), make_comparison("b", 40)]
    )


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture
def opened(chromium, tmp_path):
    """The page opened from a disk at a given width, with everything that it asked for or complained about."""

    def at(width: int, *, scheme: str = "light", sessions=None):
        file = tmp_path / "replay.html"
        file.write_text(
            render_page(sessions or [make_comparison("harbour-desk", 160), make_comparison("quick-fix", 24)]),
            encoding="utf-8",
        )
        view = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        view.asked, view.problems = [], []
        view.on("request", lambda request: view.asked.append(request.url))
        view.on("console", lambda message: view.problems.append(message.text))
        view.on("pageerror", lambda problem: view.problems.append(str(problem)))
        view.on("dialog", lambda dialog: (view.problems.append(dialog.message), dialog.dismiss()))
        view.goto(file.as_uri())
        return view

    return at


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page_without_a_request_a_complaint_or_scrolling_sideways(opened, width, scheme):
    view = opened(width, scheme=scheme)
    assert [url for url in view.asked if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in view.asked if url.startswith("file:")]) == 1
    assert view.problems == []
    assert view.evaluate("document.documentElement.scrollWidth") == width
    background = view.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(n) for n in re.findall(r"\d+", background)) < 200) is (scheme == "dark")


def test_pointing_at_a_call_says_what_it_was_and_why(opened):
    view = opened(1280)
    view.locator("button[data-policy=recorded]:visible").click()
    plots = view.locator(".view:visible .plots")
    plots.focus()
    view.keyboard.press("ArrowRight")
    readout = view.locator(".view:visible .readout")
    assert readout.inner_text().startswith("Call 1 · 1 Nov 09:00 · turn")
    view.locator(".view:visible summary").click()
    view.locator(".view:visible td a", has_text="call 40").first.click()
    # The page follows its address a moment after the click.
    readout.filter(has_text="Cache broke: 48 minutes passed, and the prefix lives for 5").wait_for()
    box = view.locator(".view:visible .plot").first.bounding_box()
    view.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20)
    assert readout.inner_text().startswith("Call 14 ")
    shown = readout.bounding_box()
    assert abs(shown["y"] - box["y"] - 20) < 40
    assert box["x"] <= shown["x"]
    assert shown["x"] + shown["width"] <= box["x"] + box["width"]


def test_a_link_to_a_call_opens_its_session_its_policy_and_its_explanation(opened):
    view = opened(1280)
    view.evaluate("location.hash = '1/claude-code/2'")
    readout = view.locator(".view:visible .readout")
    readout.wait_for(state="visible")
    assert view.locator(".session:visible h2").all_inner_texts() == ["quick-fix"]
    assert view.locator(".view:visible h3").all_inner_texts() == ["Context over time under claude-code"]
    assert readout.inner_text().startswith("Call 3 ")


def test_on_a_phone_every_figure_of_every_table_is_visible_without_scrolling_sideways(opened):
    view = opened(390)
    wide = view.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(e => e.offsetParent)"
        ".map(e => e.scrollWidth - e.clientWidth)"
    )
    assert wide == [0] * len(wide)
    row = view.locator("#policies .cards tbody tr").first
    assert row.locator("td:visible").count() == 11


def test_every_line_of_the_cost_chart_has_a_label_and_no_label_covers_another(opened):
    view = opened(1280)
    chart = view.locator(".session:visible .so-far")
    lines = {each.get_attribute("data-policy") for each in chart.locator("polyline").all()}
    assert set(chart.locator(".end").all_inner_texts()) == lines
    tops = sorted(each.bounding_box()["y"] for each in chart.locator(".end").all())
    assert min(after - before for before, after in pairwise(tops)) > 10


def test_a_minus_before_a_number_is_a_real_one_and_a_hyphen_in_a_name_stays():
    assert formatting.signed("clear-keep-3 saves -1.5% (-$2 to +3)") == "clear-keep-3 saves −1.5% (−$2 to +3)"


def test_sessions_and_policies_are_chosen_by_a_click(opened):
    view = opened(390)
    assert view.locator(".session:visible h2").all_inner_texts() == ["harbour-desk"]
    view.locator("button", has_text="quick-fix").click()
    assert view.locator(".session:visible h2").all_inner_texts() == ["quick-fix"]
    view.locator("button[data-policy=masking], button[data-policy=claude-code]").locator(
        "visible=true"
    ).click()
    assert view.locator(".view:visible h3").all_inner_texts() == ["Context over time under claude-code"]
    assert view.locator("polyline.on").first.get_attribute("data-policy") == "claude-code"


def test_hostile_words_run_nowhere(opened):
    view = opened(1280, sessions=[hostile_comparison()])
    view.locator(".view:visible .plots").focus()
    view.keyboard.press("ArrowRight")
    assert HOSTILE in view.locator(".view:visible .readout").inner_text()
    assert view.problems == []


def test_style_and_script_belong_to_the_package():
    assert document._own("page.js").startswith('"use strict";')
    assert ":root" in document._own("style.css")
