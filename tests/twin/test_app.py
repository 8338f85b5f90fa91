"""The twin on a real socket, with valid and invalid requests."""

import gzip
import http.client
import json
import select
import socket
import threading
import zlib
from urllib.parse import urlsplit

import anthropic
import pytest

from everturn.errors import UsageError
from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin
from everturn.twin.faults import InjectedFault
from everturn.twin.routes import HttpRequest, dispatch
from everturn.twin.sockets import bind_socket
from everturn.twin.speaker import script_reply

OPUS = "claude-opus-5-5"
ASK = {"model": OPUS, "max_tokens": 2000, "messages": [{"role": "user", "content": "Hello"}]}
HEADERS = {"x-api-key": "k", "anthropic-version": "2026-10-21", "content-type": "application/json"}


@pytest.fixture(scope="module")
def url():
    with serve_twin(build_twin()) as address:
        yield address


@pytest.fixture
def ask(url):
    """One request over the socket: its status, its headers and its body."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)

    def send(method, path, body=b"", **headers):
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method, path, body=data, headers=HEADERS | given)
        response = connection.getresponse()
        return response.status, response.headers, response.read()

    send("POST", "/twin/reset")
    yield send
    connection.close()


def error_of(body):
    shown = json.loads(body)
    assert shown["type"] == "error"
    assert shown["request_id"].startswith("req_")
    return shown["error"]


# ── the SDK over a socket ────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("TW-1")
def test_the_sdk_talks_to_the_twin_over_a_socket(url, ask):
    ask("POST", "/twin/script", {"replies": ["One.", "Two, in a few more words."]})
    with anthropic.Anthropic(api_key="k", base_url=url) as client:
        assert client.messages.create(**ASK).content[0].text == "One."
        with client.messages.stream(**ASK) as stream:
            assert stream.get_final_text() == "Two, in a few more words."
        assert client.messages.count_tokens(model=OPUS, messages=ASK["messages"]).input_tokens > 0


@pytest.mark.spec("TW-1")
async def test_the_async_sdk_talks_to_the_twin_over_a_socket(url, ask):
    ask("POST", "/twin/script", {"replies": ["One."]})
    async with anthropic.AsyncAnthropic(api_key="k", base_url=url) as client:
        assert (await client.messages.create(**ASK)).content[0].text == "One."


@pytest.mark.spec("TW-10")
@pytest.mark.parametrize("fault", [{"kind": "cut_stream"}, {"kind": "timeout", "hangs_up": True}])
@pytest.mark.parametrize("stream", [True, False])
def test_a_closed_connection_reaches_the_client_as_one(url, ask, fault, stream):
    ask("POST", "/twin/faults", {"faults": [fault]})
    with pytest.raises((http.client.IncompleteRead, ConnectionError, http.client.RemoteDisconnected)):
        ask("POST", "/v1/messages", ASK | {"stream": stream})


# ── control endpoints ────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("TW-9")
def test_time_is_shown_advanced_set_and_reset(ask):
    def now(method, body=b""):
        return json.loads(ask(method, "/twin/clock", body)[2])["now"]

    assert now("GET") == "2026-11-15T00:00:00Z"
    assert now("POST", {"advance_s": 300}) == "2026-11-15T00:05:00Z"
    assert now("POST", {"set": "2026-10-01T12:00:00+02:00"}) == "2026-10-01T10:00:00Z"
    ask("POST", "/twin/reset", {})
    assert now("GET") == "2026-11-15T00:00:00Z"


@pytest.mark.parametrize(
    "moment", ["1999-12-31T00:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"]
)
def test_the_virtual_clock_has_a_range(ask, moment):
    status, _, body = ask("POST", "/twin/clock", {"set": moment})
    assert status == 400
    assert error_of(body)["message"].startswith("The virtual clock covers the years 2000 to 2200; ")


@pytest.mark.spec("TW-9")
def test_a_real_clock_cannot_be_moved():
    twin = build_twin(clock="real")
    made = dispatch(twin, HttpRequest("POST", "/twin/clock", {}, b'{"advance_s": 1}'))
    assert made.status == 400
    assert "--clock virtual" in error_of(made.body)["message"]
    assert json.loads(dispatch(twin, HttpRequest("GET", "/twin/clock", {})).body)["clock"] == "real"


def test_scripts_and_faults_belong_to_the_key_that_sent_them(ask):
    ask("POST", "/twin/script", {"replies": ["mine"]}, x_api_key="me")
    ask("POST", "/twin/faults", {"faults": ["overloaded"]}, x_api_key="you")

    def heard(key):
        body = json.loads(ask("POST", "/v1/messages", ASK, x_api_key=key)[2])
        return body["error"]["type"] if body["type"] == "error" else body["content"][-1]["text"]

    assert heard("you") == "overloaded_error"
    assert heard("you") != "mine"
    assert heard("me") == "mine"


def test_an_empty_list_clears_the_queue(ask):
    ask("POST", "/twin/script", {"replies": ["a", "b"]})
    ask("POST", "/twin/faults", {"faults": ["overloaded"]})
    assert json.loads(ask("POST", "/twin/script", {"replies": []})[2]) == {"queued": 0}
    assert json.loads(ask("POST", "/twin/faults", {"faults": []})[2]) == {"queued": 0}
    assert ask("POST", "/v1/messages", ASK)[0] == 200


def test_reset_forgets_scripts_faults_cache_and_ledger(ask):
    cached = ASK | {
        "messages": [{"role": "user", "content": "word " * 4000}],
        "cache_control": {"type": "ephemeral"},
    }
    ask("POST", "/v1/messages", cached)
    ask("POST", "/twin/script", {"replies": ["Gone."]})
    ask("POST", "/twin/faults", {"faults": ["overloaded"]})
    ask("POST", "/twin/reset")
    status, _, body = ask("POST", "/v1/messages", cached)
    assert (status, b"Gone." in body) == (200, False)
    assert json.loads(body)["usage"]["cache_read_input_tokens"] == 0
    assert len(json.loads(ask("GET", "/twin/ledger")[2])) == 1


def test_cache_entries_of_a_delayed_response_can_be_read_once_it_has_started(ask):
    cached = ASK | {
        "messages": [{"role": "user", "content": "word " * 4000}],
        "cache_control": {"type": "ephemeral"},
    }
    ask("POST", "/twin/faults", {"faults": [{"kind": "slow_first_byte", "delay_s": 20}]})
    written, read = (json.loads(ask("POST", "/v1/messages", cached)[2])["usage"] for _ in range(2))
    assert read["cache_read_input_tokens"] == written["cache_creation_input_tokens"] > 0


def test_the_ledger_lists_every_request_failed_ones_too(ask):
    ask("POST", "/v1/messages", ASK)
    ask("POST", "/v1/messages", ASK | {"model": "claude-nope"})
    entries = json.loads(ask("GET", "/twin/ledger")[2])
    assert [(entry["status"], entry["dollars"] > 0) for entry in entries] == [(200, True), (404, False)]
    assert json.loads(ask("GET", "/twin/ledger?workspace=other")[2]) == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/twin/clock", b"{"),
        ("/twin/clock", b"[]"),
        ("/twin/clock", {"advance_s": "5"}),
        ("/twin/script", {"replies": [5]}),
        ("/twin/faults", {"faults": [{"kind": "boom"}]}),
        ("/twin/reset", {"everything": True}),
    ],
)
def test_a_wrong_control_body_is_a_400_in_the_shape_of_the_api(ask, path, body):
    status, _, shown = ask("POST", path, body)
    assert (status, error_of(shown)["type"]) == (400, "invalid_request_error")


# ── routes and bodies ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/", 404, "not_found_error"),
        ("POST", "/v1/complete", 404, "not_found_error"),
        ("POST", "/v1/messages/", 404, "not_found_error"),
        ("GET", "/v1/models/claude-nope", 404, "not_found_error"),
        ("GET", "/v1/messages", 405, "invalid_request_error"),
        ("DELETE", "/v1/models", 405, "invalid_request_error"),
        ("POST", "/twin/ledger", 405, "invalid_request_error"),
    ],
)
def test_an_unknown_path_or_method_is_an_error_of_the_api(ask, method, path, status, kind):
    got, headers, body = ask(method, path)
    assert (got, error_of(body)["type"]) == (status, kind)
    assert headers["request-id"] == json.loads(body)["request_id"]


def test_a_head_request_gets_no_body(ask):
    status, _, body = ask("HEAD", "/v1/nothing")
    assert (status, body) == (404, b"")


BODY = json.dumps(ASK).encode()
RAW = zlib.compressobj(wbits=-zlib.MAX_WBITS)


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        ("gzip", gzip.compress(BODY, mtime=0), 200),
        ("deflate", zlib.compress(BODY), 200),
        ("deflate", RAW.compress(BODY) + RAW.flush(), 200),
        ("identity", BODY, 200),
        ("gzip", BODY, 400),
        ("gzip", gzip.compress(BODY, mtime=0)[:-12], 400),
        ("gzip", b"", 400),
        ("br", BODY, 400),
        ("gzip", gzip.compress(b" " * (33 * 1024 * 1024), mtime=0), 413),
        ("gzip, gzip", gzip.compress(gzip.compress(b" " * (33 * 1024 * 1024), mtime=0)), 413),
    ],
)
def test_compressed_bodies_are_decompressed_up_to_the_limit(ask, coding, body, status):
    assert ask("POST", "/v1/messages", body, content_encoding=coding)[0] == status


def test_a_body_over_the_limit_is_refused_and_the_next_request_is_served(ask):
    status, _, body = ask("POST", "/v1/messages", b" " * (32 * 1024 * 1024 + 1))
    assert (status, error_of(body)["type"]) == (413, "request_too_large")
    assert ask("POST", "/v1/messages", ASK)[0] == 200


def test_no_key_is_a_401(url, ask):
    assert ask("POST", "/v1/messages", ASK, x_api_key="")[0] == 401
    assert ask("POST", "/v1/messages", ASK, x_api_key="", authorization="Bearer k")[0] == 200


def test_a_port_in_use_is_a_usage_error():
    with bind_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"Cannot listen on 127.0.0.1 port {port}: .*--port"):
            bind_socket("127.0.0.1", port)


def test_concurrent_requests_are_all_answered(url):
    statuses = []

    def one():
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        connection.request("POST", "/v1/messages", body=BODY, headers=HEADERS)
        statuses.append(connection.getresponse().status)
        connection.close()

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert statuses == [200] * 8


def test_a_client_that_disconnects_does_not_affect_others(url, ask):
    host, port = urlsplit(url).hostname, urlsplit(url).port
    with socket.create_connection((host, port)) as line:
        line.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
    assert ask("POST", "/v1/messages", ASK)[0] == 200


def test_a_summary_is_shortened_to_fit_max_tokens(ask):
    body = {
        "model": "claude-opus-5",
        "max_tokens": 40,
        "messages": [{"role": "user", "content": "Please port the parser to the new API. " * 20}],
        "compaction": {"type": "summarize"},
    }
    status, _, answer = ask("POST", "/v1/messages", body, anthropic_beta="compact-2026-09-04")
    assert (status, json.loads(answer)["stop_reason"]) == (200, "compaction")


# ── clients that go away ─────────────────────────────────────────────────────────────────────────


def go_away(url, *, stream: bool, after: bytes = b"") -> None:
    """Send a request, read until `after` has arrived, and close the connection."""
    body = json.dumps(ASK | {"stream": stream}).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    request = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n{head}content-length: {len(body)}\r\n\r\n"
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as line:
        line.sendall(request.encode() + body)
        read = b""
        while after not in read:
            read += line.recv(64)
        # Some of the response is there and unread: that is what "in the middle" means.
        select.select([line], [], [], 5)


@pytest.mark.parametrize(("stream", "after"), [(True, b"message_start"), (True, b""), (False, b"200")])
def test_a_client_that_goes_away_in_the_middle_uses_up_no_scripted_reply(url, ask, stream, after):
    ask("POST", "/twin/script", {"replies": [" ".join(["One."] * 60), "Two."]})
    go_away(url, stream=stream, after=after)
    said = [json.loads(ask("POST", "/v1/messages", ASK)[2])["content"][-1]["text"] for _ in range(2)]
    assert [text[:4] for text in said] == ["One.", "Two."]


def test_a_client_that_gives_up_during_a_delay_uses_up_no_scripted_reply():
    twin = build_twin(clock="real", script=[script_reply("One."), script_reply("Two.")])
    twin.faults.add([InjectedFault("slow_first_byte", delay_s=30)])
    with serve_twin(twin) as url:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        body = json.dumps(ASK).encode()
        impatient = http.client.HTTPConnection(host, port, timeout=0.3)
        impatient.request("POST", "/v1/messages", body=body, headers=HEADERS)
        with pytest.raises(TimeoutError):
            impatient.getresponse()
        impatient.close()
        with anthropic.Anthropic(api_key="k", base_url=url) as client:
            assert client.messages.create(**ASK).content[-1].text == "One."


def test_a_client_that_reads_everything_and_closes_uses_up_its_reply(url, ask):
    ask("POST", "/twin/script", {"replies": ["One.", "Two."]})
    for word in ("One.", "Two."):
        with (
            anthropic.Anthropic(api_key="k", base_url=url) as client,
            client.messages.stream(**ASK) as stream,
        ):
            assert stream.get_final_text() == word
