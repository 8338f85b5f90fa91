"""A small browser for tests: asks the ASGI application of a dashboard, as its owner or as a stranger."""

import asyncio
import json
from html.parser import HTMLParser
from typing import Any, NamedTuple

from everturn.web_dashboard import app
from everturn.web_dashboard.dashboard import Dashboard
from everturn.web_dashboard.security import COOKIE


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    """Sends what a browser sends from the dashboard's own pages; `headers` of a request change that."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.dashboard = dashboard
        self._app = app.make_app(dashboard)
        self._own = {"host": "127.0.0.1:8686", "cookie": f"{COOKIE}={dashboard.key}"}

    def get(self, path: str, **headers: str) -> Answer:
        return asyncio.run(self._ask("GET", path, b"", {**self._own, **headers}))

    def page(self, path: str) -> str:
        """The text of a page that must be there."""
        found = self.get(path)
        assert found.status == 200, found.text
        return found.text

    def part(self, path: str) -> str:
        found = self.get(path, **{"x-part": "1"})
        assert found.status == 200, found.text
        return found.text

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        own = {**self._own, "content-type": "application/json", "x-action-token": self.dashboard.token}
        sent = {name: text for name, text in {**own, **headers}.items() if text}
        return asyncio.run(self._ask("POST", path, json.dumps(body).encode(), sent))

    def stranger(self, path: str, **headers: str) -> Answer:
        """A request without the key."""
        return asyncio.run(self._ask("GET", path, b"", {"host": "127.0.0.1:8686", **headers}))

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        place, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": place,
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
            "scheme": "http",
            "server": ("127.0.0.1", 8686),
            "client": ("127.0.0.1", 50000),
            "root_path": "",
        }
        sent: list[dict[str, Any]] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not waiting:
                # The browser stays; the application stops to wait when it has answered.
                await asyncio.sleep(3600)
            return waiting.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        data = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
        raw = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
        return Answer(sent[0]["status"], raw, data.decode(errors="replace"))


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text outside of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self._texts: list[str] = []
        self._is_script = False
        self.feed(page)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._is_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._is_script = False

    def handle_data(self, data: str) -> None:
        if not self._is_script:
            self._texts.append(data)


def text_of(page: str) -> str:
    return Elements(page).text
