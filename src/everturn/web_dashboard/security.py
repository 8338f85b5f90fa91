"""Who may talk to the dashboard, and what its pages may do (DB-9).

Three things are checked on every request. The Host, Origin and Sec-Fetch-Site headers, which a foreign page
cannot choose (`twin/access.py`). A key, because other users of the same machine can reach its ports too: it
is in the address that the command prints, and then in a cookie. And for actions a token that only our own
pages have.

Responses forbid everything that the pages do not need: foreign and inline scripts, foreign styles, frames,
forms to elsewhere. Inline style attributes are allowed, because charts place their labels with them; they can
load nothing.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from everturn.safe_files import make_folder, read_file, write_file
from everturn.twin.access import check_access
from everturn.twin.values import ApiError

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
COOKIE: Final = "everturn_key"
TOKEN_HEADER: Final = "x-action-token"
_COOKIE_SECONDS: Final = 365 * 24 * 3600
_NO_KEY: Final = (
    "This dashboard is private. Open the address that `everturn dashboard` printed when it started; "
    "after that, links and bookmarks work in this browser.\n"
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, Send], Awaitable[None]]


def load_key(folder: Path) -> str:
    """The key of this user, the same on every run, so that bookmarks keep working."""
    file = folder / "key"
    try:
        if len(found := read_file(file, follow=False).decode().strip()) >= 32:
            return found
    except (OSError, UnicodeDecodeError):
        pass
    made = secrets.token_urlsafe(32)
    try:
        make_folder(folder)
        write_file(file, made.encode())
    except OSError:
        # A folder that cannot be written: the key is valid for this run only.
        pass
    return made


class Guard:
    """An ASGI application around the pages that lets nobody else in and adds the headers."""

    def __init__(self, app: AsgiApp, *, key: str, token: str) -> None:
        self._app, self._key, self._token = app, key, token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): text.decode("latin-1") for name, text in scope["headers"]}
        method = scope["method"]
        try:
            check_access(method, headers, has_body=True)
        except ApiError as error:
            await _answer(send, error.status, "This request does not come from the dashboard itself.\n")
            return
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("key", "")
        if method == "GET" and given and _equal(given, self._key):
            await _welcome(send, scope["path"], [pair for pair in query if pair[0] != "key"], self._key)
        elif not _equal(_cookie(headers), self._key):
            await _answer(send, 403, _NO_KEY)
        elif method not in ("GET", "HEAD") and not _equal(headers.get(TOKEN_HEADER, ""), self._token):
            await _answer(send, 403, "The page is out of date. Reload it and try again.\n")
        else:
            await self._app(scope, receive, _with_headers(send))


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


async def _welcome(send: Send, path: str, query: list[tuple[str, str]], key: str) -> None:
    """Keep the key in a cookie and remove it from the address."""
    # One slash: two would lead to another server.
    place = "/" + path.lstrip("/") + (f"?{urlencode(query)}" if query else "")
    cookie = f"{COOKIE}={key}; HttpOnly; SameSite=Strict; Path=/; Max-Age={_COOKIE_SECONDS}"
    more = {"location": place.encode("ascii", "ignore").decode(), "set-cookie": cookie}
    await _answer(send, 303, "", more)


async def _answer(send: Send, status: int, text: str, more: Mapping[str, str] | None = None) -> None:
    headers = {**HEADERS, "content-type": "text/plain; charset=utf-8", **(more or {})}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": text.encode()})


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message["headers"]}
            fixed = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [
                *message["headers"],
                *(pair for pair in fixed if pair[0] not in known),
            ]
        await send(message)

    return sent
