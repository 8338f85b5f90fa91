"""A web page cannot drive the twin: Host, Origin and content type are checked on every path."""

import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest

from everturn.twin.access import check_access
from everturn.twin.app import make_app, serve_twin
from everturn.twin.build import build_twin
from everturn.twin.values import ApiError

HELLO = json.dumps(
    {"model": "claude-opus-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
)
PATHS = [
    ("POST", "/v1/messages", HELLO),
    ("POST", "/v1/messages/count_tokens", HELLO),
    ("GET", "/v1/models", None),
    ("POST", "/v1/messages/batches", "{}"),
    ("POST", "/twin/reset", "{}"),
    ("POST", "/twin/clock", '{"advance_s": 60}'),
    ("POST", "/twin/script", '{"replies": ["x"]}'),
    ("POST", "/twin/faults", '{"faults": ["overloaded"]}'),
    ("GET", "/twin/ledger", None),
    ("GET", "/anything", None),
]


@pytest.fixture(scope="module")
def address():
    with serve_twin(build_twin()) as url:
        yield urlsplit(url)


def send(address, method, path, body, headers):
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    for name, value in {"host": address.netloc, "x-api-key": "k", **headers}.items():
        connection.putheader(name, value)
    data = (body or "").encode()
    connection.putheader("content-length", str(len(data)))
    connection.endheaders(data)
    response = connection.getresponse()
    told = json.loads(response.read())
    connection.close()
    return response.status, told.get("error", {}).get("message", "") if isinstance(told, dict) else ""


@pytest.mark.parametrize(("method", "path", "body"), PATHS)
@pytest.mark.parametrize(
    ("headers", "says"),
    [
        (
            {"host": "evil.example"},
            "The Host header is 'evil.example', and the twin answers only to localhost",
        ),
        ({"origin": "https://evil.example"}, "The Origin header is 'https://evil.example': a web page sent"),
        ({"origin": "null"}, "The Origin header is 'null': a web page sent"),
        ({"sec-fetch-site": "cross-site"}, "A web page sent this request"),
    ],
)
def test_a_foreign_host_or_origin_is_refused_on_every_path(address, method, path, body, headers, says):
    status, message = send(address, method, path, body, {"content-type": "application/json"} | headers)
    assert (status, message[: len(says)]) == (403, says)


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"]
)
@pytest.mark.parametrize(("method", "path", "body"), [row for row in PATHS if row[0] == "POST"])
def test_a_body_that_a_page_may_send_unasked_is_refused_on_every_path(address, method, path, body, kind):
    status, message = send(address, method, path, body, {"content-type": kind})
    assert (status, message) == (415, f"The content-type is '{kind}'; send the body as application/json.")


def test_nothing_of_a_refused_request_takes_effect(address):
    for method, path, body in PATHS:
        send(
            address,
            method,
            path,
            body,
            {"origin": "https://evil.example", "content-type": "application/json"},
        )
    status, _ = send(address, "POST", "/v1/messages", HELLO, {"content-type": "application/json"})
    assert status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost"},
        {"host": "LOCALHOST:8585"},
        {"host": "api.localhost:1"},
        {"host": "127.0.0.1:8585"},
        {"host": "192.168.1.5"},
        {"host": "[::1]:8585"},
        {"host": "my-box:8585"},
        {},
        {"host": "localhost:1", "origin": "http://localhost:1"},
        {"host": "localhost", "sec-fetch-site": "same-origin"},
        {"host": "localhost", "content-type": "application/json; charset=utf-8"},
    ],
)
def test_programs_on_this_machine_are_answered(headers):
    check_access("POST", headers, has_body=True, allowed_hosts=("my-box",))


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[evil]", "1.2.3"]
)
def test_names_that_a_page_can_point_at_this_machine_are_refused(host):
    with pytest.raises(ApiError):
        check_access("GET", {"host": host}, has_body=False)


def test_the_application_takes_names_that_are_allowed():
    assert callable(make_app(build_twin(), allowed_hosts=["host.docker.internal"]))


def raw(address, data: bytes) -> bytes:
    """What the server answers to bytes that no client library would send, until it closes the connection."""
    with socket.create_connection((address.hostname, address.port), timeout=5) as line:
        line.sendall(data)
        return b"".join(iter(lambda: line.recv(65_536), b""))


LEDGER = b"GET /twin/ledger HTTP/1.1\r\nconnection: close\r\n"
RESET = b"POST /twin/reset HTTP/1.1\r\nhost: localhost\r\nx-api-key: k\r\nconnection: close\r\n"
SCRIPT = RESET.replace(b"reset", b"script") + b"content-type: application/json\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (LEDGER + b"host: localhost\r\n\r\n", b"200"),
        (LEDGER + b"host: localhost\r\nhost: evil.example\r\n\r\n", b"403"),
        (LEDGER + b"host: localhost:80\r\nhost: evil.example\r\n\r\n", b"403"),
        (LEDGER + b"host: localhost:80@evil.example\r\n\r\n", b"403"),
        (LEDGER + b"host: localhost:evil.example\r\n\r\n", b"403"),
        (LEDGER + b"host: [::1].evil.example\r\n\r\n", b"403"),
        (LEDGER + b"host: 127.0.0.1.evil.example\r\n\r\n", b"403"),
        (LEDGER + b"host: 2130706433\r\n\r\n", b"403"),
        (
            LEDGER + b"host: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n\r\n",
            b"403",
        ),
        (LEDGER + b"host: localhost\r\nx: a\r\n sec-fetch-site: none\r\n\r\n", b"400"),
        (RESET + b"content-type: application/jsonx\r\ncontent-length: 2\r\n\r\n{}", b"415"),
        (RESET + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}{", b"400"),
        (RESET + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + LEDGER, b"400"),
        (SCRIPT + b"content-length: 50011\r\n\r\n" + b'{"replies":' + b"[" * 50_000, b"400"),
    ],
)
def test_a_request_that_two_readers_could_read_differently_is_refused(address, sent, status):
    answer = raw(address, sent)
    assert (answer.split(b" ", 2)[1], answer.count(b"HTTP/1.1 ")) == (status, 1)
