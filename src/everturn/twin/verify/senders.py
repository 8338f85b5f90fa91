"""Send probes: to a twin in this process, or to a server."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx2
import msgspec

from everturn.errors import UpstreamError
from everturn.twin.build import build_twin
from everturn.twin.clock import VirtualClock
from everturn.twin.options import TwinOptions
from everturn.twin.speaker import script_reply
from everturn.twin.verify.values import Probe, ProbeRequest, ProbeResponse, SendProbe
from everturn.wire.json_values import as_object, is_list, is_object

PATHS: Final = {"messages": "/v1/messages", "count_tokens": "/v1/messages/count_tokens"}
_TRIES: Final = 3
_MAX_RETRY_SECONDS: Final = 60.0
_TIMEOUT_SECONDS: Final = 120.0


def make_twin_sender(probe: Probe, options: TwinOptions, *, salt: str) -> SendProbe:
    """A sender to a new twin, whose clock is moved instead of waiting."""
    twin = build_twin(options=options, script=[script_reply(text) for text in probe.script])

    def send(request: ProbeRequest) -> ProbeResponse:
        assert isinstance(twin.clock, VirtualClock)
        twin.clock.advance(request.wait)
        handle = twin.messages if request.endpoint == "messages" else twin.count_tokens
        response = handle(_headers(request, "verify"), encode_request(request, salt))
        sent = b"".join(chunk for _, chunk in response.stream) if response.stream else response.body
        return _read(response.status, sent)

    return send


@contextmanager
def open_http_sender(
    url: str,
    key: str,
    *,
    salt: str,
    wait: Callable[[float], None] = time.sleep,
    transport: httpx2.BaseTransport | None = None,
) -> Generator[SendProbe, None, None]:
    """A sender to a server. A refusal for load or limits is tried again a few times."""
    client = httpx2.Client(
        base_url=url.rstrip("/"), timeout=_TIMEOUT_SECONDS, follow_redirects=False, transport=transport
    )

    def post(request: ProbeRequest, body: bytes) -> httpx2.Response:
        try:
            return client.post(PATHS[request.endpoint], content=body, headers=_headers(request, key))
        except httpx2.HTTPError as problem:
            raise UpstreamError(0, "connection_error", f"{url} did not answer: {problem}") from None

    def send(request: ProbeRequest) -> ProbeResponse:
        if request.wait:
            wait(request.wait)
        body = encode_request(request, salt)
        response = post(request, body)
        for _ in range(_TRIES - 1):
            if response.status_code in (429, 529):
                wait(_retry_seconds(response.headers))
                response = post(request, body)
        return _read(response.status_code, response.content)

    with client:
        yield send


def _retry_seconds(headers: Mapping[str, str]) -> float:
    given = headers.get("retry-after", "")
    return min(float(given), _MAX_RETRY_SECONDS) if given.replace(".", "", 1).isdigit() else 2.0


def _headers(request: ProbeRequest, key: str) -> dict[str, str]:
    headers = {"x-api-key": key, "content-type": "application/json"}
    headers |= {"anthropic-version": request.version} if request.version else {}
    return headers | ({"anthropic-beta": request.betas} if request.betas else {})


def encode_request(request: ProbeRequest, salt: str) -> bytes:
    return request.raw or msgspec.json.encode(_salted(dict(request.body), salt))


def _salted(value: Any, salt: str) -> Any:
    if isinstance(value, str):
        return value.replace("{salt}", salt)
    if is_object(value):
        return {name: _salted(item, salt) for name, item in value.items()}
    return [_salted(item, salt) for item in value] if is_list(value) else value


def _read(status: int, sent: bytes) -> ProbeResponse:
    if sent.startswith(b"event:"):
        return ProbeResponse(status, _read_stream(sent))
    try:
        return ProbeResponse(status, as_object(msgspec.json.decode(sent)))
    except (msgspec.DecodeError, ValueError):
        return ProbeResponse(status, {"error": {"message": sent[:200].decode("utf-8", "replace")}})


def _read_stream(sent: bytes) -> dict[str, Any]:
    """The names of the events in order, repeated ones once, and the usage of the message."""
    names: list[str] = []
    usage: dict[str, Any] = {}
    for line in sent.decode("utf-8", "replace").splitlines():
        if line.startswith("event: ") and line[7:] not in (*names[-1:], "ping"):
            names.append(line[7:])
        if line.startswith("data: "):
            data = as_object(msgspec.json.decode(line[6:].encode()))
            usage |= as_object(as_object(data.get("message")).get("usage")) | as_object(data.get("usage"))
    return {"events": names, "usage": usage}
