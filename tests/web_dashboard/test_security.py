"""Who may ask the dashboard, what its pages may do, and that session text is data everywhere."""

from pathlib import Path
from urllib.parse import quote

import pytest
from small_session import SmallSession, call, text, thinking
from web_dashboard.client import Client, Elements
from web_dashboard.conftest import MakeDashboard, ids, paused, write

from everturn.web_dashboard.app import ASSETS

HOSTILE = "</script></style></title><script>alert(1)</script><img src=x onerror=alert(2)>\"'&lt;\x00\u202e"
# Elements of our pages that can run something or load something.
ACTIVE = {"script", "link", "img", "iframe", "object", "embed", "style", "base", "frame", "audio", "video"}
PAGES = ("/", "/sessions", "/sessions?q={hostile}", "{session}", "/recall?q=alert", "/recall?q={hostile}",
         "/what-if", "/?project={hostile}", "/nowhere{hostile}", "{session}/text/2", "{session}/difference/2",
         "{session}/call/2", "{session}/replaced/u7", "{session}?thread={hostile}",
         "/what-if?policies={hostile}")  # fmt: skip


@pytest.fixture
def client(tmp_path: Path, make_dashboard: MakeDashboard) -> Client:
    write(tmp_path / "sessions" / "a.jsonl", paused())
    return make_dashboard(tmp_path / "sessions")


@pytest.fixture
def hostile(tmp_path: Path, make_dashboard: MakeDashboard) -> Client:
    """A session with hostile text in every field that a page shows."""
    session = SmallSession(model=f"claude-{HOSTILE}")
    session.human(f"Why? {HOSTILE}").reply("m1", call("c1", HOSTILE, file_path=HOSTILE), written=50_000)
    session.result("c1", HOSTILE).reply("m2", thinking(HOSTILE), written=90_000)
    session.cleared("c1", before=1, saved=1)
    session.human("And?").boundary(160_000, trigger=HOSTILE).summary(HOSTILE)
    session.reply("m3", text(HOSTILE), written=20_000)
    side = SmallSession(agent=HOSTILE).human(HOSTILE).reply("x1", text("Seen."), written=2_000)
    session.lines += side.lines
    name = "<img src=x onerror=alert(3)>"
    write(tmp_path / "sessions" / f"{name}.jsonl", session, project=f"/home/{HOSTILE}")
    (tmp_path / "sessions" / f"{name}.json").write_text("nothing")
    return make_dashboard(tmp_path / "sessions")


@pytest.mark.spec("DB-9")
@pytest.mark.parametrize("path", PAGES)
def test_session_text_never_becomes_markup(hostile: Client, path: str):
    place = next(iter(ids(hostile).values()))
    page = hostile.get(path.format(session=place, hostile=quote(HOSTILE))).text
    found = Elements(page).found
    for name, attributes in found:
        assert not [each for each in attributes if each.startswith("on")]
        assert "javascript:" not in str(attributes.get("href")).lower()
        if name not in ACTIVE:
            continue
        own = str(attributes.get("src") or attributes.get("href") or "").startswith("/static/")
        is_data = name == "script" and attributes.get("type") == "application/json"
        assert own or is_data, (name, attributes)
    assert "<script>alert" not in page
    assert "<img" not in page


@pytest.mark.spec("DB-9")
def test_every_answer_forbids_what_the_pages_do_not_need(client: Client):
    for path in ("/", "/sessions", "/nowhere", "/static/dashboard.js", f"{ids(client)['a']}/export"):
        headers = client.get(path).headers
        rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert rules == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "style-src-attr": "'unsafe-inline'",
            "img-src": "'self' data:",
            "connect-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.spec("DB-9")
@pytest.mark.parametrize("name", ASSETS)
def test_every_asset_is_in_the_package_and_names_no_other_machine(client: Client, name: str):
    found = client.get(f"/static/{name}")
    assert found.status == 200
    rest = found.text.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in rest
    assert "https://" not in rest
    assert "url(//" not in rest
    assert "@import" not in rest


@pytest.mark.spec("DB-9")
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8686"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_request_of_another_page_is_refused(client: Client, headers: dict[str, str]):
    assert client.get("/", **headers).status == 403
    assert client.post(f"{ids(client)['a']}/plan", {}, **headers).status == 403


@pytest.mark.spec("DB-9")
def test_without_the_key_nothing_is_shown(client: Client):
    for path in ("/", "/sessions", "/static/dashboard.js", "/events", "/?key=wrong", "/?key="):
        found = client.stranger(path)
        assert found.status == 403
        assert "Open the address that `everturn dashboard` printed" in found.text
    assert client.stranger("/", cookie="everturn_key=wrong").status == 403


def test_the_key_in_the_address_becomes_a_cookie(client: Client):
    found = client.stranger(f"/sessions?q=a%26b&key={client.dashboard.key}")
    assert (found.status, found.headers["location"]) == (303, "/sessions?q=a%26b")
    cookie = found.headers["set-cookie"]
    assert cookie.startswith(f"everturn_key={client.dashboard.key}; HttpOnly; SameSite=Strict; Path=/")
    # Not a way to send people elsewhere.
    elsewhere = client.stranger(f"//evil.example/?key={client.dashboard.key}")
    assert elsewhere.headers["location"] == "/evil.example/"


def test_the_key_is_the_same_on_the_next_run(tmp_path: Path, make_dashboard: MakeDashboard):
    (tmp_path / "none").mkdir()
    first = make_dashboard(tmp_path / "none").dashboard
    second = make_dashboard(tmp_path / "none").dashboard
    assert first.key == second.key
    assert len(first.key) >= 32
    assert first.token != second.token


@pytest.mark.spec("DB-7")
@pytest.mark.parametrize("token", ["", "wrong"])
@pytest.mark.parametrize("action", ["plan", "compact", "undo", "pin"])
def test_an_action_without_the_token_of_our_pages_is_refused(client: Client, action: str, token: str):
    before = (client.dashboard.places.roots[0] / "a.jsonl").read_bytes()
    found = client.post(f"{ids(client)['a']}/{action}", {"text": "x"}, **{"x-action-token": token})
    assert (found.status, found.text) == (403, "The page is out of date. Reload it and try again.\n")
    assert (client.dashboard.places.roots[0] / "a.jsonl").read_bytes() == before


def test_a_form_of_another_page_cannot_act(client: Client):
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post(f"{ids(client)['a']}/plan", {}, **form).status == 415


def test_a_body_that_is_too_large_or_not_json_is_refused(client: Client):
    place = f"{ids(client)['a']}/pin"
    assert client.post(place, {"text": "x" * 70_000}).status == 400
    assert client.post(place, ["no object"]).status == 400
    assert client.post("/what-if", {"sessions": "all"}).status == 400
