"""The dashboard in a real browser: at every width, with the keyboard, for a screen reader, and live."""

import hashlib
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from replay.browser import browser
from small_session import SmallSession, call, compacted, text
from web_dashboard.client import Client
from web_dashboard.conftest import MakeDashboard, ids, paused, write
from web_dashboard.test_security import HOSTILE

from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.head import HeadTool
from everturn.session.bill import UsageTotals
from everturn.session.state_file import SessionState
from everturn.twin.sockets import url_of
from everturn.web_dashboard.server import DashboardServer, bind
from everturn.web_dashboard.watcher import Watcher

# `make browser` puts it there: npm's package axe-core 4.14.0, under the Mozilla Public License 2.0.
AXE = Path(__file__).parents[2] / "build" / "axe-core-4.14.0" / "package" / "axe.min.js"
AXE_SHA256 = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
GRAVE = ("serious", "critical")
# What only a session of everturn has: its own calls, what it decided by price, and the tools it sends.
DECIDED = SessionState(
    asides={"compact": UsageTotals(calls=2, dollars=Decimal("0.25")), "hold": UsageTotals(calls=1)},
    decisions=(
        EconomicDecision(
            at=datetime(2026, 1, 5, 10, 20, tzinfo=UTC),
            kind="hold",
            done=True,
            why="held for $0.041, expected saving $0.190: 63% of pauses this long end within the hour",
        ),
    ),
    head=(HeadTool(name="Read", tokens=400, calls=3), HeadTool(name=f"mcp__{'x' * 300}", tokens=2_000)),
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def served(tmp_path: Path, make_dashboard: MakeDashboard) -> Iterator[tuple[Client, str]]:
    """A dashboard on a socket that watches its folder; its clock is the real one."""
    root = tmp_path / "sessions"
    session = paused()
    session.human(f"And now? {HOSTILE}").reply("m3", text(HOSTILE), read=60_000, written=900, out=30)
    path = write(root / "a.jsonl", session)
    path.with_name("a.jsonl.state.json").write_bytes(msgspec.json.encode(DECIDED))
    write(root / "c.jsonl", compacted(), project="/home/me/builder")
    client = make_dashboard(root, clock=lambda: datetime.now(UTC).timestamp())
    ready = threading.Event()
    server = DashboardServer(client.dashboard, ready.set)
    watcher = Watcher(client.dashboard.places, client.dashboard.indexer)
    with bind(0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        client.dashboard.start()
        watcher.start()
        assert ready.wait(timeout=20)
        yield client, url_of(listener)
        server.should_exit = True
        thread.join(timeout=20)
        watcher.stop()


def opened(chromium: Any, served: tuple[Client, str], width: int, scheme: str) -> tuple[Any, list[str]]:
    """A page of a browser that knows the key, and everything it complains about or asks of others."""
    client, base = served
    page = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    ).new_page()
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda problem: trouble.append(str(problem)))
    page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
    page.on(
        "request", lambda asked: None if asked.url.startswith((base, "data:")) else trouble.append(asked.url)
    )
    page.goto(f"{base}/?key={client.dashboard.key}")
    return page, trouble


def pages(client: Client) -> list[str]:
    a, c = ids(client)["a"], ids(client)["c"]
    return ["/", "/sessions", a, "/recall?q=loop", "/what-if", f"{c}/difference/3"]


@pytest.mark.spec("DB-9", "DB-10")
def test_every_page_fits_every_width_and_asks_nobody_else(chromium, served):
    client, base = served
    # 640 is a window of 1280 at 200 %.
    for width, scheme, shown in ((390, "dark", 6), (640, "light", 3), (2560, "dark", 3)):
        page, trouble = opened(chromium, served, width, scheme)
        for path in pages(client)[:shown]:
            page.goto(base + path)
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert (path, width, max(0, wide)) == (path, width, 0)
            assert page.evaluate("['header', 'nav', 'main'].every((each) => document.querySelector(each))")
        assert trouble == []
        page.context.close()


@pytest.mark.spec("DB-9", "DB-10")
def test_names_without_spaces_do_not_make_a_page_wider(chromium, served, tmp_path: Path):
    client, base = served
    name = "x" * 3_000
    session = SmallSession(model=f"claude-{name}")
    session.human(name).reply("m1", call("c1", name, file_path=name), written=50_000).result("c1", name)
    session.reply("m2", text(name), written=60_000)
    write(tmp_path / "sessions" / "long.jsonl", session, project=f"/{name}")
    client.dashboard.indexer.update()
    page, trouble = opened(chromium, served, 390, "light")
    place = ids(client)["long"]
    found: list[tuple[str, int]] = []
    for path in (
        "/",
        "/sessions",
        place,
        f"{place}/text/2",
        f"{place}/difference/2",
        f"/recall?q={name[:50]}",
    ):
        page.goto(base + path)
        found.append((path, max(0, page.evaluate("document.documentElement.scrollWidth - innerWidth"))))
    assert [each for each in found if each[1]] == []
    assert trouble == []
    page.context.close()


@pytest.mark.spec("DB-10")
def test_axe_has_no_grave_complaint_in_light_and_dark(chromium, served):
    if not AXE.exists():
        pytest.skip("axe-core is not there: make browser")
    script = AXE.read_bytes()
    assert hashlib.sha256(script).hexdigest() == AXE_SHA256
    client, base = served
    page, _ = opened(chromium, served, 1280, "light")
    found: list[tuple[str, str, str]] = []
    for path in pages(client)[:5]:
        page.emulate_media(color_scheme="light")
        page.goto(base + path)
        page.evaluate(script.decode())
        said = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        if path in ("/", ids(client)["a"]):
            page.emulate_media(color_scheme="dark")
            said += page.evaluate("axe.run({runOnly: ['color-contrast']})")["violations"]
        found += [
            (path, each["id"], each["nodes"][0]["html"][:200]) for each in said if each["impact"] in GRAVE
        ]
    page.context.close()
    assert found == []


@pytest.mark.spec("DB-4", "DB-10")
def test_everything_is_reached_with_the_keyboard(chromium, served):
    client, base = served
    page, trouble = opened(chromium, served, 1280, "light")
    page.goto(base + ids(client)["c"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.focus(".plots")
    # From the call that is shown, which is the newest.
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".tip").startswith("Call 2 ·")
    page.focus("input[type=range]")
    page.keyboard.press("Home")
    page.wait_for_selector("#call-part h3:text-is('Call 1 of 3')")
    assert page.url.endswith("?call=1")
    page.locator("summary", has_text="What the model saw").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".call-facts .transcript")
    assert "Build it." in page.inner_text(".call-facts .transcript")
    page.evaluate("document.activeElement.blur()")
    page.goto(f"{base}/sessions")
    page.keyboard.press("/")
    page.keyboard.type("build")
    page.keyboard.press("Enter")
    page.wait_for_url("**/sessions?q=build")
    assert trouble == []
    page.context.close()


@pytest.mark.spec("DB-5", "DB-7")
def test_a_running_session_is_followed_and_an_action_asks_once(chromium, served):
    client, base = served
    page, trouble = opened(chromium, served, 1280, "light")
    place = ids(client)["a"]
    page.goto(base + place)
    # What somebody has opened, and where the focus is, must not stop the rest of the page.
    page.click("[data-live=breaks] summary")
    page.wait_for_selector("text=Compare the two requests")
    page.focus(".plots")
    page.keyboard.press("ArrowRight")
    file = client.dashboard.places.roots[0] / "a.jsonl"
    now = datetime.now(UTC)
    more = SmallSession().human("x").reply("live", text("More."), read=60_900, written=40_000, out=10)
    line = more.lines[-1] | {"uuid": "u9", "parentUuid": "u5", "timestamp": now.isoformat()}
    with open(file, "a") as out:
        out.write(json.dumps(line) + "\n")
    page.wait_for_selector(".tile:has-text('4 calls')")
    page.wait_for_selector(".slider:has-text('4 of 4')")
    assert page.get_attribute(".chart", "data-count") == "4"
    assert page.evaluate("document.activeElement.className") == "plots"
    assert page.is_visible("[data-live=breaks] details[open]")
    shown = page.inner_text(".countdown")
    assert shown.startswith("cache expires in ")
    page.wait_for_selector(f".countdown:not(:text-is('{shown}'))")
    # Its agent has just written it, so nothing is done.
    page.click("text=Pin…")
    page.fill("dialog textarea", "Keep this.")
    page.click("dialog .primary")
    page.wait_for_selector("dialog >> text=Nothing was changed >> nth=0")
    assert b"Keep this." not in file.read_bytes()
    page.click("dialog >> text=Close")
    # An hour later the dry run is shown first.
    client.dashboard.tools.actions._clock = lambda: (now + timedelta(hours=1)).timestamp()
    page.click("text=Compact…")
    page.wait_for_selector("dialog >> text=Compact this session?")
    assert b"compact_boundary" not in file.read_bytes()
    page.click("dialog >> text=Cancel")
    assert [each for each in trouble if "409" not in each] == []
    page.context.close()
