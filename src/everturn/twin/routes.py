"""Which request goes where: the API's own paths, and the control paths under `/twin`.

Sockets and in-process transports both come through `answer`, so a test without a socket meets the same
routes, limits and errors as a client on the network. It never raises: whatever was sent, there is an answer.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import msgspec

from everturn.twin.clock import VirtualClock, format_time
from everturn.twin.control import decode_object, read_clock, read_faults, read_script
from everturn.twin.service import MISSING_KEY_ERROR, Twin, find_workspace
from everturn.twin.values import ApiError, HttpResponse, invalid_request

# The calendar of the virtual clock: inside it, no sum of times can overflow.
FIRST_YEAR: Final = 2000
LAST_YEAR: Final = 2200

_NOT_FOUND: Final = ApiError(404, "not_found_error", "Not found")
_WRONG_METHOD: Final = ApiError(405, "invalid_request_error", "Method Not Allowed")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request, header names in lower case, the body as it was sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Twin, HttpRequest], HttpResponse]


def dispatch(twin: Twin, call: HttpRequest) -> HttpResponse:
    try:
        return _handler(call)(twin, call)
    except ApiError as refusal:
        return twin.refused(refusal)


def _handler(call: HttpRequest) -> Handler:
    if call.path.startswith(_MODEL_PATH) and len(call.path) > len(_MODEL_PATH):
        methods = {"GET": _model}
    elif call.path in _ROUTES:
        methods = _ROUTES[call.path]
    else:
        raise _NOT_FOUND
    if call.method not in methods:
        raise _WRONG_METHOD
    return methods[call.method]


# ── the API ──────────────────────────────────────────────────────────────────────────────────────


def _messages(twin: Twin, call: HttpRequest) -> HttpResponse:
    return twin.messages(call.headers, decompress_body(twin, call))


def _count_tokens(twin: Twin, call: HttpRequest) -> HttpResponse:
    return twin.count_tokens(call.headers, decompress_body(twin, call))


def _models(twin: Twin, call: HttpRequest) -> HttpResponse:
    _check_key(call)
    return twin.models(call.query)


def _model(twin: Twin, call: HttpRequest) -> HttpResponse:
    _check_key(call)
    return twin.model(call.path.removeprefix(_MODEL_PATH))


def _check_key(call: HttpRequest) -> None:
    if find_workspace(call.headers) is None:
        raise MISSING_KEY_ERROR


def decompress_body(twin: Twin, call: HttpRequest) -> bytes:
    """The body without its compression; never more of it than the API takes."""
    limit = twin.options.max_body_bytes
    body = call.body
    codings = [part.strip().lower() for part in call.headers.get("content-encoding", "").split(",")]
    for coding in reversed(codings):
        if coding not in ("", "identity"):
            body = _decompressed(body, coding, limit)
    if len(body) > limit:
        raise too_large(twin)
    return body


def too_large(twin: Twin) -> ApiError:
    return ApiError(413, "request_too_large", twin.options.oversized_message)


def _decompressed(body: bytes, coding: str, limit: int) -> bytes:
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise invalid_request(
            f"content-encoding: {coding[:40]!r} is not supported; use gzip, deflate or none."
        )
    # Some clients send deflate without the zlib header: then the first byte is no zlib method.
    raw = coding == "deflate" and (not body or body[0] & 0x0F != 8)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32)
    try:
        # One byte more than allowed is enough to know: a bomb is never unpacked.
        plain = inflater.decompress(body, limit + 1)
    except zlib.error as broken:
        raise invalid_request(f"The request body is not valid {coding}: {broken}") from None
    if not inflater.eof and len(plain) <= limit:
        raise invalid_request(f"The request body is not valid {coding}: it ends too early")
    return plain


# ── control ──────────────────────────────────────────────────────────────────────────────────────


def _reset(twin: Twin, call: HttpRequest) -> HttpResponse:
    if decode_object(call.body):
        raise invalid_request("body of /twin/reset takes no keys; send {}.")
    reset(twin)
    return _json({"ok": True, "now": format_time(twin.clock.now())})


def reset(twin: Twin) -> None:
    """Everything as it was at the start: cache, ledger, script, faults, virtual time."""
    if isinstance(twin.clock, VirtualClock):
        twin.clock.reset()
    twin.speaker.reset()
    twin.faults.reset()
    twin.reset()


def _show_clock(twin: Twin, call: HttpRequest) -> HttpResponse:
    mode = "virtual" if twin.clock.is_virtual else "real"
    return _json({"now": format_time(twin.clock.now()), "clock": mode})


def _move_clock(twin: Twin, call: HttpRequest) -> HttpResponse:
    change = read_clock(decode_object(call.body))
    clock = twin.clock
    if not isinstance(clock, VirtualClock):
        raise invalid_request(
            "The twin runs on the real clock, which cannot be moved. Start it with --clock virtual."
        )
    # `advance_s` is bounded (control.py), so the sum stays inside the calendar whatever the clock shows now.
    moment = change.set_to or clock.now() + timedelta(seconds=change.advance_s)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise invalid_request(
            f"The virtual clock runs from the year {FIRST_YEAR} to {LAST_YEAR}, not to {moment.year}."
        )
    clock.set(moment)
    return _show_clock(twin, call)


def _script(twin: Twin, call: HttpRequest) -> HttpResponse:
    lines = read_script(decode_object(call.body))
    workspace = find_workspace(call.headers)
    if not lines:
        twin.speaker.clear(workspace=workspace)
    twin.speaker.add(lines, workspace=workspace)
    return _json({"queued": twin.speaker.waiting(workspace)})


def _faults(twin: Twin, call: HttpRequest) -> HttpResponse:
    plan = read_faults(decode_object(call.body))
    workspace = find_workspace(call.headers)
    if plan.faults == ():
        twin.faults.clear(workspace=workspace)
    twin.faults.add(plan.faults or (), workspace=workspace)
    if plan.chances is not None:
        twin.faults.draw(plan.chances, seed=plan.seed)
    return _json({"queued": twin.faults.waiting(workspace)})


def _ledger(twin: Twin, call: HttpRequest) -> HttpResponse:
    return _json(twin.ledger(call.query.get("workspace")))


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
