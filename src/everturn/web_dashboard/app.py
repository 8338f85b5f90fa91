"""The dashboard as an ASGI application: addresses, errors as pages, and the stream of events."""

from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from everturn.errors import EverturnError, SessionLocked
from everturn.replay.page.markup import Html
from everturn.safe_files import MAX_SESSION_BYTES, open_stream
from everturn.web_dashboard import queries, views
from everturn.web_dashboard.dashboard import Dashboard
from everturn.web_dashboard.security import AsgiApp, Guard
from everturn.web_dashboard.views import NotFound

if TYPE_CHECKING:
    from everturn.web_dashboard.actions import ActionResult

MAX_BODY_BYTES: Final = 64 * 1024
_CHUNK_BYTES: Final = 1 << 20
# The script asks for a part of a page with this header.
PART_HEADER: Final = "x-part"
# name: (package, file, media type). The report is that of `everturn replay --html`.
ASSETS: Final = {
    "report.css": ("everturn.replay.page", "style.css", "text/css"),
    "report.js": ("everturn.replay.page", "page.js", "text/javascript"),
    "dashboard.css": ("everturn.web_dashboard.static", "dashboard.css", "text/css"),
    "dashboard.js": ("everturn.web_dashboard.static", "dashboard.js", "text/javascript"),
    "icon.svg": ("everturn.web_dashboard.static", "icon.svg", "image/svg+xml"),
}

Endpoint = Callable[[Request], Awaitable[Response]]


class ActionRequest(msgspec.Struct):
    """The body of an action: a focus for the summary, or the text to pin."""

    text: str = ""


class CompareRequest(msgspec.Struct):
    sessions: list[str]
    policies: list[str]


def make_app(dashboard: Dashboard) -> AsgiApp:
    """The dashboard, guarded: every request needs its key, every action its token."""
    routes = _Routes(dashboard)
    app: Any = Starlette(
        routes=[
            Route("/", routes.page(lambda request: views.overview(dashboard, _query(request)))),
            Route("/sessions", routes.page(lambda request: views.sessions(dashboard, _query(request)))),
            Route(
                "/session/{id}",
                routes.page(lambda request: _later().session(dashboard, _id(request), _query(request))),
            ),
            Route("/session/{id}/export", routes.export),
            Route(
                "/session/{id}/call/{number:int}", routes.part("call", lambda *given: _later().call(*given))
            ),
            Route(
                "/session/{id}/text/{number:int}", routes.part("text", lambda *given: _later().text(*given))
            ),
            Route(
                "/session/{id}/difference/{number:int}",
                routes.part("difference", lambda *given: _later().difference(*given)),
            ),
            Route(
                "/session/{id}/replaced/{boundary}",
                routes.part("replaced", lambda *given: _later().replaced(*given)),
            ),
            Route(
                "/session/{id}/record/{uuid}", routes.part("record", lambda *given: _later().record(*given))
            ),
            Route("/session/{id}/{action}", routes.act, methods=["POST"]),
            Route("/recall", routes.page(lambda request: views.recall(dashboard, _query(request)))),
            Route("/what-if", routes.page(lambda request: _later().what_if(dashboard, _query(request)))),
            Route("/what-if", routes.compare, methods=["POST"]),
            Route("/what-if/{id}", routes.page(lambda request: _later().comparison(dashboard, _id(request)))),
            Route("/events", routes.events),
            Route("/static/{name}", _asset),
        ],
        exception_handlers={404: routes.not_found},
    )
    return Guard(app, key=dashboard.key, token=dashboard.token)


def _later():
    """The views that need many imports; a module has no type of its own."""
    from everturn.web_dashboard import session_views

    return session_views


class _Routes:
    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    def page(self, make: Callable[[Request], str]) -> Endpoint:
        async def serve(request: Request) -> Response:
            return await run_in_threadpool(self._page, make, request)

        return serve

    def part(self, kind: str, make: Callable[..., Html]) -> Endpoint:
        """A part of the page of a session: alone for the script, as a page for everybody else."""

        def made(request: Request) -> str:
            part = make(self._dashboard, *request.path_params.values(), _query(request))
            if request.headers.get(PART_HEADER):
                return part
            return _later().part_page(self._dashboard, kind, request.path_params, _query(request), part)

        return self.page(made)

    def _page(self, make: Callable[[Request], str], request: Request) -> Response:
        try:
            return HTMLResponse(make(request))
        except EverturnError as problem:
            is_missing = isinstance(problem, NotFound)
            title = "Not found" if is_missing else "This cannot be shown"
            page = views.problem_page(self._dashboard, title, str(problem))
            return HTMLResponse(page, status_code=404 if is_missing else 400)

    async def not_found(self, request: Request, _: Exception) -> Response:
        why = "There is no page at this address."
        page = await run_in_threadpool(views.problem_page, self._dashboard, "Not found", why)
        return HTMLResponse(page, status_code=404)

    async def export(self, request: Request) -> Response:
        """The transcript as it is on disk."""
        try:
            row = await run_in_threadpool(views.find, self._dashboard, _id(request))
        except NotFound as problem:
            return JSONResponse({"why": str(problem)}, status_code=404)
        try:
            opened = open_stream(row.file, max_bytes=MAX_SESSION_BYTES)
        except OSError as problem:
            why = f"{row.file} cannot be read: {problem.strerror}."
            return JSONResponse({"why": why}, status_code=404)
        name = quote(row.file.rpartition("/")[2], errors="replace")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
        return StreamingResponse(_chunks(opened), media_type="application/octet-stream", headers=headers)

    async def act(self, request: Request) -> Response:
        name = request.path_params["action"]
        actions = self._dashboard.tools.actions
        known: dict[str, Callable[[str, str], ActionResult]] = {
            "plan": actions.plan,
            "compact": actions.compact,
            "undo": actions.undo,
            "pin": actions.pin,
        }
        if name not in known:
            return JSONResponse({"why": "There is no such action."}, status_code=404)
        try:
            given = msgspec.json.decode(await _body(request) or b"{}", type=ActionRequest)
            row = await run_in_threadpool(views.find, self._dashboard, _id(request))
            done = await run_in_threadpool(known[name], row.file, given.text)
        except SessionLocked as problem:
            return JSONResponse({"why": str(problem)}, status_code=409)
        except (EverturnError, msgspec.MsgspecError, OSError) as problem:
            return JSONResponse({"why": str(problem)}, status_code=404 if _is_missing(problem) else 400)
        self._dashboard.indexer.look()
        return JSONResponse(msgspec.to_builtins(done))

    async def compare(self, request: Request) -> Response:
        try:
            given = msgspec.json.decode(await _body(request), type=CompareRequest)
            started = await run_in_threadpool(self._compare, given)
        except (EverturnError, msgspec.MsgspecError) as problem:
            return JSONResponse({"why": str(problem)}, status_code=400)
        return JSONResponse({"location": f"/what-if/{started}"})

    def _compare(self, given: CompareRequest) -> str:
        index = self._dashboard.index
        rows = [row for id in dict.fromkeys(given.sessions) if (row := queries.find_session(index, id))]
        return self._dashboard.tools.comparisons.start(rows, ",".join(given.policies))

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._dashboard.hub.stream(), media_type="text/event-stream")


def _chunks(opened: BinaryIO) -> Iterator[bytes]:
    with opened:
        while chunk := opened.read(_CHUNK_BYTES):
            yield chunk


def _is_missing(problem: Exception) -> bool:
    return isinstance(problem, NotFound)


async def _body(request: Request) -> bytes:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise msgspec.ValidationError(f"The request is larger than {MAX_BODY_BYTES:,} bytes.")
    return data


async def _asset(request: Request) -> Response:
    found = ASSETS.get(request.path_params["name"])
    if found is None:
        return Response(status_code=404)
    package, name, media = found
    data = files(package).joinpath(name).read_bytes()
    return Response(data, media_type=media)


def _query(request: Request) -> dict[str, str]:
    return dict(request.query_params)


def _id(request: Request) -> str:
    return request.path_params["id"]
