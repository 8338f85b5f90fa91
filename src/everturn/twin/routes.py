"""Route HTTP requests: the API's own paths, and the control paths under `/twin`.

The server and the in-process transports both request `dispatch`, so a test without a socket gets the same
routes, limits and errors as a client on the network. `dispatch` never raises: every request gets a response.
"""

import ctypes
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import msgspec

from everturn.twin.batch_routes import serve_batches
from everturn.twin.batches import BATCHES_PATH, MAX_BATCH_BYTES
from everturn.twin.clock import VirtualClock, format_time
from everturn.twin.control import decode_object, read_clock, read_faults, read_script
from everturn.twin.memo import clear_memos
from everturn.twin.request_text import find_paths
from everturn.twin.service import MISSING_KEY_ERROR, Twin, find_workspace
from everturn.twin.values import ApiError, HttpResponse, invalid_request

# The range of the virtual clock, small enough that no sum of times overflows.
FIRST_YEAR: Final = 2000
LAST_YEAR: Final = 2200

_NOT_FOUND: Final = ApiError(404, "not_found_error", "Not found")
_WRONG_METHOD: Final = ApiError(405, "invalid_request_error", "Method Not Allowed")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request with lower-case header names and the body as it was sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query: Mapping[str, str] = field(default_factory=dict[str, str])


Handler = Callable[[Twin, HttpRequest], HttpResponse]


def dispatch(twin: Twin, request: HttpRequest) -> HttpResponse:
    """The response to any request, also to an invalid one."""
    try:
        return _handler(request)(twin, request)
    except ApiError as error:
        return twin.error_response(error)


def _handler(request: HttpRequest) -> Handler:
    if request.path == BATCHES_PATH or request.path.startswith(f"{BATCHES_PATH}/"):
        return _batches
    if request.path.startswith(_MODEL_PATH) and len(request.path) > len(_MODEL_PATH):
        methods = {"GET": _model}
    elif request.path in _ROUTES:
        methods = _ROUTES[request.path]
    else:
        raise _NOT_FOUND
    if request.method not in methods:
        raise _WRONG_METHOD
    return methods[request.method]


# ── the API ──────────────────────────────────────────────────────────────────────────────────────


def _messages(twin: Twin, request: HttpRequest) -> HttpResponse:
    return twin.messages(request.headers, decompress_body(twin, request))


def _count_tokens(twin: Twin, request: HttpRequest) -> HttpResponse:
    return twin.count_tokens(request.headers, decompress_body(twin, request))


def _batches(twin: Twin, request: HttpRequest) -> HttpResponse:
    body = decompress_body(twin, request)
    return serve_batches(twin, request.method, request.path, request.headers, request.query, body)


def _models(twin: Twin, request: HttpRequest) -> HttpResponse:
    _check_key(request)
    return twin.models(request.query)


def _model(twin: Twin, request: HttpRequest) -> HttpResponse:
    _check_key(request)
    return twin.model(request.path.removeprefix(_MODEL_PATH))


def _check_key(request: HttpRequest) -> None:
    if find_workspace(request.headers) is None:
        raise MISSING_KEY_ERROR


def find_body_limit(twin: Twin, path: str) -> int:
    """How large the body of a request may be."""
    return MAX_BATCH_BYTES if path == BATCHES_PATH else twin.options.max_body_bytes


def decompress_body(twin: Twin, request: HttpRequest) -> bytes:
    """The decompressed body. Raises if it is larger than the limit, before decompressing all of it."""
    limit = find_body_limit(twin, request.path)
    body = request.body
    codings = [part.strip().lower() for part in request.headers.get("content-encoding", "").split(",")]
    for coding in reversed(codings):
        if coding not in ("", "identity"):
            body = _decompress(body, coding, limit)
    if len(body) > limit:
        raise too_large(twin)
    return body


def too_large(twin: Twin) -> ApiError:
    return ApiError(413, "request_too_large", twin.options.oversized_message)


def _decompress(body: bytes, coding: str, limit: int) -> bytes:
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise invalid_request(
            f"content-encoding: {coding[:40]!r} is not supported; use gzip, deflate or none."
        )
    # Some clients send deflate without the zlib header; then the first byte does not name a zlib method.
    raw = coding == "deflate" and (not body or body[0] & 0x0F != 8)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32)
    try:
        # One byte above the limit is enough to know, so a decompression bomb is never expanded.
        plain = inflater.decompress(body, limit + 1)
    except zlib.error as broken:
        raise invalid_request(f"The request body is not valid {coding}: {broken}") from None
    if not inflater.eof and len(plain) <= limit:
        raise invalid_request(f"The request body is not valid {coding}: it ends too early")
    return plain


# ── control ──────────────────────────────────────────────────────────────────────────────────────


def _reset(twin: Twin, request: HttpRequest) -> HttpResponse:
    if decode_object(request.body):
        raise invalid_request("The body of /twin/reset must be empty or {}.")
    reset(twin)
    return _json({"ok": True, "now": format_time(twin.clock.now())})


def reset(twin: Twin) -> None:
    """Restore the initial state: cache, ledger, script, faults and virtual clock. Frees the memory."""
    if isinstance(twin.clock, VirtualClock):
        twin.clock.reset()
    twin.speaker.reset()
    twin.faults.reset()
    twin.reset()
    clear_memos()
    find_paths.cache_clear()
    _return_free_memory()


def _return_free_memory() -> None:
    """Hand what was freed back to the system.

    After a reset no object of the requests is left, but the C library keeps the pages for the next
    allocations: over 100 MB after 20,000 requests. Only glibc has a call for this; elsewhere nothing is done.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _show_clock(twin: Twin, request: HttpRequest) -> HttpResponse:
    mode = "virtual" if twin.clock.is_virtual else "real"
    return _json({"now": format_time(twin.clock.now()), "clock": mode})


def _move_clock(twin: Twin, request: HttpRequest) -> HttpResponse:
    change = read_clock(decode_object(request.body))
    clock = twin.clock
    if not isinstance(clock, VirtualClock):
        raise invalid_request(
            "The twin uses the real clock, which cannot be set. Start it with --clock virtual."
        )
    # `advance_s` is bounded (control.py), so this sum cannot overflow.
    moment = change.set_to or clock.now() + timedelta(seconds=change.advance_s)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise invalid_request(
            f"The virtual clock covers the years {FIRST_YEAR} to {LAST_YEAR}; {moment.year} is outside."
        )
    clock.set(moment)
    return _show_clock(twin, request)


def _script(twin: Twin, request: HttpRequest) -> HttpResponse:
    replies = read_script(decode_object(request.body))
    workspace = find_workspace(request.headers)
    if not replies:
        twin.speaker.clear(workspace=workspace)
    twin.speaker.add(replies, workspace=workspace)
    return _json({"queued": twin.speaker.pending(workspace)})


def _faults(twin: Twin, request: HttpRequest) -> HttpResponse:
    plan = read_faults(decode_object(request.body))
    workspace = find_workspace(request.headers)
    if plan.faults == ():
        twin.faults.clear(workspace=workspace)
    twin.faults.add(plan.faults or (), workspace=workspace)
    if plan.chances is not None:
        twin.faults.set_chances(plan.chances, seed=plan.seed)
    return _json({"queued": twin.faults.pending(workspace)})


def _ledger(twin: Twin, request: HttpRequest) -> HttpResponse:
    return _json(twin.ledger(request.query.get("workspace")))


def _json(value: dict[str, Any] | list[dict[str, Any]]) -> HttpResponse:
    return HttpResponse(200, {"content-type": "application/json"}, msgspec.json.encode(value))


_MODEL_PATH: Final = "/v1/models/"
_ROUTES: Final[dict[str, dict[str, Handler]]] = {
    "/v1/messages": {"POST": _messages},
    "/v1/messages/count_tokens": {"POST": _count_tokens},
    "/v1/models": {"GET": _models},
    "/twin/reset": {"POST": _reset},
    "/twin/clock": {"GET": _show_clock, "POST": _move_clock},
    "/twin/script": {"POST": _script},
    "/twin/faults": {"POST": _faults},
    "/twin/ledger": {"GET": _ledger},
}
