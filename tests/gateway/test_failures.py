"""What goes wrong beside a conversation: it ends no request, and everybody is told in the right words."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gateway.lab import MODEL, Connection, OpenLab, RawUpstream, Seen, events, message, reply, wait_until

from everturn.errors import InputError, UsageError
from everturn.gateway import app
from everturn.gateway.limits import change_limits
from everturn.gateway.malformed import MALFORMED
from everturn.gateway.tokens import load_tokens
from everturn.gateway.upstream import check_upstream, find_proxy, is_api
from everturn.gateway.values import Timing
from everturn.measure.model_table import find_model
from everturn.measure.pricing import compute_priced_usage
from everturn.session.store.places import open_stores

ASK = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}


def error_of(kind: str, told: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": f"everturn_{kind}", "message": told}}


def ask_raw(running: Any, data: bytes) -> tuple[bytes, dict[str, Any]]:
    """The status line and the body of the answer to these bytes; the connection is closed after it."""
    with running.raw(data) as sock:
        received = b""
        while piece := sock.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], json.loads(body)


# ── the gateway itself ───────────────────────────────────────────────────────────────────────────────


UNLOGGED = "the access log cannot be written"


def test_an_access_log_that_cannot_be_written_ends_no_request_and_is_reported_once(lab: OpenLab):
    logged: list[int] = []
    told: list[str] = []
    is_full = True

    def log(exchange: Any) -> None:
        if is_full:
            raise OSError(28, "No space left on device")
        logged.append(exchange.status)

    running = lab(RawUpstream(), log_request=log, warn=told.append)
    assert [running.ask(ASK).status for _ in range(3)] == [200] * 3
    # A request is logged when its answer has left.
    wait_until(lambda: running.metric("degradations_total", reason=UNLOGGED) == 3)
    is_full = False
    assert running.ask(ASK).status == 200
    wait_until(lambda: bool(logged))
    assert logged == [200]
    assert told == [
        "Warning: the access log cannot be written: No space left on device. Requests are served and not "
        "logged until it can be written again."
    ]
    assert running.metric("degradations_total", reason=UNLOGGED) == 3


@pytest.mark.spec("GW-6")
def test_an_unexpected_exception_has_the_shape_of_the_api_and_is_told_without_its_words(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise LookupError("the key sk-ant-secret")

    told: list[str] = []
    running = lab(RawUpstream(), warn=told.append)
    monkeypatch.setattr(app, "find_route", fail)
    found = running.ask(ASK)
    assert (found.status, json.loads(found.body)) == (
        500,
        error_of(
            "internal_error",
            "The gateway has a defect and could not serve this request. Its operator is told.",
        ),
    )
    assert [re.sub(r"line \d+", "line N", each) for each in told] == [
        "A request (POST before its route) failed by a defect of the gateway: LookupError in "
        "test_failures.py, line N. Please report it."
    ]
    assert running.metric("degradations_total", reason="a request failed by a defect") == 1


@pytest.mark.spec("GW-6")
@pytest.mark.parametrize("line", [b"GET /v1/\xc3\xa9 HTTP/1.1", b"nonsense"])
def test_what_is_not_http_is_refused_in_the_shape_of_the_api(lab: OpenLab, line: bytes):
    assert ask_raw(lab(RawUpstream()), line + b"\r\nhost: localhost\r\n\r\n") == (
        b"HTTP/1.1 400 Bad Request",
        error_of(
            "invalid_http",
            "The request is not valid HTTP/1.1. Send URL paths in ASCII, with other characters as %XX.",
        ),
    )


@pytest.mark.spec("GW-6")
@pytest.mark.parametrize("method", ["CONNECT", "TRACE"])
def test_methods_for_proxies_are_refused_and_not_relayed(lab: OpenLab, method: str):
    upstream = RawUpstream()
    request = f"{method} /v1/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert ask_raw(lab(upstream), request.encode()) == (
        b"HTTP/1.1 405 Method Not Allowed",
        error_of("method_not_allowed", f"The gateway does not serve {method}. Send a method of the API."),
    )
    assert upstream.seen == []


# ── the upstream ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("GW-6")
def test_an_upstream_that_goes_silent_in_a_stream_is_told_from_a_stream_that_is_too_long(lab: OpenLab):
    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        connection.chunk(events()[0])
        time.sleep(3)

    running = lab(RawUpstream(answer), timing=Timing(silence=0.5, session=10.0))
    found = running.ask({**ASK, "stream": True})
    last = found.body.removeprefix(events()[0]).removeprefix(b"event: error\ndata: ")
    assert json.loads(last) == error_of(
        "upstream_silent",
        "The upstream sent nothing for 0.5 s, so the response is not complete. Send the request again.",
    )


@pytest.mark.spec("GW-6")
def test_a_status_that_http_does_not_have_is_a_bad_gateway(lab: OpenLab):
    upstream = RawUpstream(reply(b"{}", "999 Weird"))
    running = lab(upstream)
    told = error_of(
        "upstream_invalid",
        f"The upstream {upstream.url} answered with status 999, which is not from 200 to 599. "
        "Check the gateway's --upstream.",
    )
    for found in (running.ask(ASK), running.ask(method="GET", path="/v1/models")):
        assert (found.status, json.loads(found.body)) == (502, told)


@pytest.mark.spec("GW-4")
def test_header_values_arrive_byte_for_byte_in_any_encoding(lab: OpenLab):
    upstream = RawUpstream()
    running = lab(upstream)
    body = json.dumps(ASK).encode()
    lines = b"x-latin: caf\xe9 \xff\r\nx-utf: caf\xc3\xa9\r\nx-ascii: cafe\r\n"
    head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    status, _ = ask_raw(running, head + lines + b"content-length: %d\r\n\r\n" % len(body) + body)
    [seen] = upstream.seen
    assert (status, seen.body) == (b"HTTP/1.1 200 OK", body)
    sent = [(name, value.encode("latin-1")) for name, value in seen.headers if name.startswith("x-")]
    assert sent == [("x-latin", b"caf\xe9 \xff"), ("x-utf", b"caf\xc3\xa9"), ("x-ascii", b"cafe")]


def test_a_token_goes_on_to_a_gateway_behind_one_that_asks_for_none(lab: OpenLab):
    upstream = RawUpstream()
    token = "evt_" + "a" * 43
    sent = {"x-everturn-token": token, "x-everturn-mode": "observe"}
    assert lab(upstream).ask(ASK, headers=sent).status == 200
    [seen] = upstream.seen
    assert [each for each in seen.headers if each[0].startswith("x-everturn-")] == [
        ("x-everturn-token", token)
    ]


@pytest.mark.parametrize(
    ("url", "is_its_own"),
    [
        ("https://api.anthropic.com", True),
        ("https://API.anthropic.com.:443/x", True),
        ("https://anthropic.com.example.org", False),
        ("http://127.0.0.1:8377", False),
    ],
)
def test_a_token_never_goes_to_the_api(url: str, is_its_own: bool):
    assert is_api(url) == is_its_own


# ── clients ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("GW-3")
@pytest.mark.parametrize("stream", ["true", 1, [], 0])
def test_a_stream_that_is_no_boolean_goes_to_the_api_as_it_came_in_manage_mode(lab: OpenLab, stream: Any):
    refusal = b'{"type":"error","error":{"type":"invalid_request_error","message":"stream"}}'
    upstream = RawUpstream(reply(refusal, "400 Bad Request"))
    sent = json.dumps({**ASK, "stream": stream}).encode()
    found = lab(upstream, mode="manage").ask(sent)
    assert (found.status, found.body) == (400, refusal)
    assert [each.body for each in upstream.seen] == [sent]
    assert found.headers["x-everturn-note"] == "not tracked: its stream is not a boolean"


@pytest.mark.spec("GW-21")
@pytest.mark.parametrize(
    ("headers", "fields", "reason", "label"),
    [
        (
            {"content-encoding": "it's-sk-ant-secret"},
            {},
            "its content-encoding cannot be read",
            "its content-encoding cannot be read",
        ),
        (
            {"content-encoding": "br"},
            {},
            "its content-encoding br cannot be read",
            "its content-encoding br cannot be read",
        ),
        (
            {},
            {"context_management": {"edits": [{"type": "x) secret (y"}]}},
            "it uses context_management, which also clears results",
            "it uses context_management, which also clears results",
        ),
        (
            {},
            {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
            "it uses context_management (clear_tool_uses_20250919), which also clears results",
            "it uses context_management N, which also clears results",
        ),
    ],
)
def test_neither_notes_nor_metrics_repeat_what_only_a_client_has_written(
    lab: OpenLab, headers: dict[str, str], fields: dict[str, Any], reason: str, label: str
):
    running = lab(RawUpstream(), mode="manage")
    found = running.ask({**ASK, **fields}, headers=headers)
    assert found.headers["x-everturn-note"] == f"not tracked: {reason}"
    assert running.gateway.metrics.passed_through == {label: 1}
    assert b"secret" not in running.gateway.metrics.write()


@pytest.mark.spec("GW-2", "GW-24")
@pytest.mark.parametrize("mode", ["observe", "manage"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_reply_to_a_request_that_was_passed_through_is_in_the_bill(
    lab: OpenLab, mode: str, is_streamed: bool
):
    def answer(connection: Connection, _: Seen) -> None:
        if not is_streamed:
            connection.send(reply(json.dumps(message()).encode()))
            return
        connection.begin_stream()
        connection.chunk(b"".join(events()))
        connection.end_stream()

    bills: list[Any] = []
    for extra in ({}, {"compaction": {"type": "x"}}):
        running = lab(RawUpstream(answer), name=f"{mode}-{len(extra)}", mode=mode)
        running.ask({**ASK, **extra, "stream": is_streamed})
        running.settle()
        assert running.gateway.metrics.calls == 1
        assert sum(running.gateway.metrics.passed_through.values()) == len(extra)
        bills.append(running.gateway.tenants.bill.total)
    assert bills[0] == bills[1]
    assert bills[0].dollars > 0


@pytest.mark.spec("GW-24")
@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_what_the_api_has_compacted_by_itself_is_in_the_bill(lab: OpenLab, mode: str):
    parts = [
        {"type": "compaction", "input_tokens": 1_000_000, "output_tokens": 100},
        {"type": "message", "input_tokens": 10, "output_tokens": 5},
    ]
    said = message(iterations=parts)  # type: ignore[arg-type]
    running = lab(
        RawUpstream(lambda connection, _: connection.send(reply(json.dumps(said).encode()))), mode=mode
    )
    running.ask({**ASK, "context_management": {"edits": [{"type": "compact_20260112"}]}})
    running.settle()
    total, model = running.gateway.tenants.bill.total, find_model(MODEL)
    assert model is not None
    expected = compute_priced_usage(said["usage"], model, on=datetime.now(UTC).date()).dollars
    assert (total.calls, total.input, total.output, total.dollars) == (1, 1_000_010, 105, expected)


# ── at the start ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("session_dollars", "inf", "number"),
        ("session_dollars", "nan", "number"),
        ("tenant_dollars", "1e400", "number"),
        ("request_seconds", "9" * 20, "whole number"),
        ("messages", "-1", "whole number"),
        ("messages", "1.5", "whole number"),
    ],
)
def test_a_limit_that_is_no_usable_number_is_refused(name: str, value: str, kind: str):
    with pytest.raises(UsageError) as refused:
        change_limits({name: value})
    assert str(refused.value) == (
        f"The limit {name} is {value!r}; give a {kind} from 0 to 1,000,000,000,000,000."
    )


@pytest.mark.parametrize("url", ["http://ex..ample", "http://a b", "http://a\tb", "http://" + "a" * 64])
def test_an_upstream_that_no_resolver_can_look_up_is_refused(url: str):
    with pytest.raises(UsageError) as refused:
        check_upstream(url)
    assert str(refused.value) == f"The upstream {url!r} is not an address; use https://HOST, or 'twin'."


@pytest.mark.parametrize(
    "url", ["http://[::1]:80/x", "https://api.anthropic.com", "http://my_host.", "http://é.de"]
)
def test_an_upstream_that_can_be_looked_up_is_accepted(url: str):
    assert check_upstream(url + "/") == url


@pytest.mark.parametrize("digest", ["é" * 64, "A" * 64, "a" * 63, "evt_secret"])
def test_a_file_of_tokens_with_something_else_than_a_digest_is_refused(tmp_path: Path, digest: str):
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"tokens": [{"tenant": "team", "sha256": digest}]}))
    with pytest.raises(InputError) as refused:
        load_tokens(file)
    assert str(refused.value) == (
        f"{file} has a sha256 of the tenant team that is not 64 hexadecimal digits in lower case. Remove "
        f"that entry, then make a token: everturn gateway token team --tokens {file}"
    )


@pytest.mark.parametrize("host", ["[", "[::1", "a\u2100b"])
def test_an_address_of_postgresql_that_cannot_be_read_is_refused_without_its_password(host: str):
    with pytest.raises(UsageError) as refused:
        open_stores(f"postgresql://me:secret@{host}/db")
    assert str(refused.value) == (
        "The host in the address of PostgreSQL cannot be read. Write postgresql://USER@HOST:PORT/DATABASE, "
        "with an IPv6 address in brackets."
    )


@pytest.mark.spec("GW-24")
@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_a_malformed_request_goes_to_the_api_as_it_came_and_is_no_failure_of_ours(lab: OpenLab, mode: str):
    """Where its reading fails: the client is wrong, and an operator must not be told of a defect."""
    refusal = b'{"type":"error","error":{"type":"invalid_request_error","message":"tools: wrong"}}'
    upstream = RawUpstream(reply(refusal, "400 Bad Request"))
    running = lab(upstream, mode=mode)
    block, call = {"type": [], "text": "Hello"}, {"type": "tool_use", "id": 5, "name": "t", "input": {}}
    changes: list[dict[str, Any]] = [
        {"tools": {"a": 1}}, {"tools": ["x"]}, {"system": [None]}, {"output_config": "high"},
        {"context_management": {"edits": 5}}, {"messages": [{"role": "user", "content": [block]}]},
        {"messages": [{"role": "assistant", "content": [call]}, *ASK["messages"]]},
    ]  # fmt: skip
    if mode == "manage":
        changes += [{"thinking": "yes"}, {"tool_choice": "auto"}]
    for change in changes:
        answer = running.ask({**ASK, **change})
        assert (answer.status, answer.body) == (400, refusal)
        assert answer.headers["x-everturn-note"] == f"not tracked: {MALFORMED}"
    assert [json.loads(each.body) for each in upstream.seen] == [{**ASK, **change} for change in changes]
    assert dict(running.gateway.metrics.passed_through) == {MALFORMED: len(changes)}
    assert dict(running.gateway.metrics.degradations) == {}


@pytest.mark.spec("GW-3", "GW-24")
@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_a_field_that_would_be_left_out_because_of_its_type_goes_to_the_api_as_it_came(
    lab: OpenLab, mode: str
):
    """0 and {} are as false as an absent field, and a breakpoint is placed anew whatever it was."""
    refusal = b'{"type":"error","error":{"type":"invalid_request_error","message":"wrong"}}'
    upstream = RawUpstream(reply(refusal, "400 Bad Request"))
    running = lab(upstream, mode=mode)
    tool, text = {"name": "t", "input_schema": {"type": "object"}}, {"type": "text", "text": "Hello"}
    marks = [0, "", [], {}, {"type": 5}, "ephemeral"]
    changes: list[dict[str, Any]] = [
        *({name: value} for name in ("system", "tools") for value in (0, False, {}, [{}])),
        *({name: value} for name in ("thinking", "tool_choice", "thread") for value in (0, "", [], {})),
        *({"output_config": value} for value in (0, "", [], {"effort": 0}, {"effort": ""})),
        *({"speed": value} for value in (0, "", [], {})), {"tools": ""},
        *({"cache_control": mark} for mark in marks),
        *({"tools": [{**tool, "cache_control": mark}]} for mark in marks),
        *({"system": [{**text, "cache_control": mark}]} for mark in marks),
    ]  # fmt: skip
    of_messages: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": [block]}]}
        for block in ({}, *({**text, "cache_control": mark} for mark in marks))
    ]
    sent = [json.dumps({**ASK, **change}).encode() for change in (*changes, *of_messages, {"model": ""})]
    assert {running.ask(body).body for body in sent} == {refusal}
    assert [each.body for each in upstream.seen] == sent
    by_reason = dict(running.gateway.metrics.passed_through)
    assert by_reason == {
        MALFORMED: len(changes),
        "messages.N has an unsupported role, field or content": len(of_messages),
        "it has no model or no messages": 1,
    }
    assert dict(running.gateway.metrics.degradations) == {}


@pytest.mark.spec("GW-3")
def test_a_field_that_is_empty_as_the_api_allows_is_managed(lab: OpenLab):
    upstream = RawUpstream()
    running = lab(upstream, mode="manage")
    for change in ({"system": ""}, {"system": []}, {"tools": []}, {"output_config": {}}, {"thinking": None}):
        assert "x-everturn-note" not in running.ask({**ASK, **change}).headers
    assert dict(running.gateway.metrics.passed_through) == {}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "127.9.9.9"])
def test_an_upstream_on_this_machine_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch, host: str):
    """The twin inside is one; the machine of the proxy has a loopback address of its own."""
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    assert find_proxy(f"http://{host}:9000") is None


@pytest.mark.parametrize(
    ("named", "proxy"),
    [
        ("http://me:secret@proxy.example:3128", "http://me:secret@proxy.example:3128"),
        ("proxy.example:3128", "http://proxy.example:3128"),
        ("", None),
    ],
)
def test_a_proxy_is_named_with_a_scheme_or_without(
    monkeypatch: pytest.MonkeyPatch, named: str, proxy: str | None
):
    monkeypatch.setenv("https_proxy", named)
    monkeypatch.setenv("no_proxy", "other.example")
    assert [find_proxy(f"https://{each}.example") for each in ("api", "other")] == [proxy, None]


@pytest.mark.parametrize("named", ["socks5://me:secret@proxy:1", "http://proxy:99999", "http://", "a secret"])
def test_a_proxy_that_cannot_be_used_ends_the_command_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, named: str
):
    monkeypatch.setenv("https_proxy", named)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(UsageError) as refused:
        find_proxy("https://api.example")
    assert str(refused.value) == (
        "The environment variable HTTPS_PROXY is not the address of an HTTP proxy. Use http://HOST:PORT, or "
        "name api.example in NO_PROXY."
    )


def test_a_proxy_that_cannot_be_reached_is_told_from_the_upstream(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    found = lab("http://api.example").ask(method="GET", path="/v1/models")
    told = json.loads(found.body)["error"]["message"]
    assert found.status == 502
    assert "cannot be reached (the proxy that the environment names cannot be reached)" in told
