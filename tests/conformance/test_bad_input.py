"""Whatever is sent: an answer, in the shape of the API, and never a 500."""

import gzip
import json
import random
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from conformance.api import Api, Json, tool, user

pytestmark = pytest.mark.spec("TW-6")
HELLO: Json = {"model": "claude-opus-5", "max_tokens": 10, "messages": [user("hi")]}
PATHS = ["/v1/messages", "/v1/messages/count_tokens"]
BROKEN = {
    "nothing": b"",
    "words": b"hello",
    "half": b'{"model": "claude-opus-5", ',
    "two": b"{} {}",
    "list": b"[]",
    "null": b"null",
    "number": b"5",
    "string": b'"hi"',
    "nan": b'{"model": "claude-opus-5", "max_tokens": NaN, "messages": []}',
    "infinity": b'{"model": "claude-opus-5", "max_tokens": Infinity, "messages": []}',
    "huge number": b'{"model": "claude-opus-5", "max_tokens": 1e400, "messages": []}',
    "long integer": b'{"model": "claude-opus-5", "max_tokens": ' + b"9" * 5000 + b', "messages": []}',
    "not utf-8": b'{"model": "\xff\xfe"}',
    "utf-16": '{"model": "x"}'.encode("utf-16"),
    "bom": b"\xef\xbb\xbf{}",
    "nul": b"\x00" * 100,
    "comment": b'{"model": /* x */ "y"}',
    "trailing comma": b'{"model": "y",}',
}


def deep(levels: int) -> Any:
    it: Any = "x"
    for _ in range(levels):
        it = [it]
    return it


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_body_is_a_bad_request(api: Api, path: str, data: bytes):
    answer = api.send("POST", path, raw=data)
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
    assert answer.json["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize("path", [*PATHS, "/twin/script", "/twin/faults", "/twin/clock"])
@pytest.mark.parametrize("levels", [200, 100_000])
def test_deep_nesting_is_a_bad_request(api: Api, path: str, levels: int):
    data = b'{"messages": ' + b"[" * levels + b"]" * levels + b"}"
    assert api.send("POST", path, raw=data).status == 400
    data = b'{"a":' * levels + b"1" + b"}" * levels
    assert api.send("POST", path, raw=data).status == 400


def test_a_deeply_nested_tool_input_is_no_server_error(api: Api):
    used = {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": deep(150)}}
    body = {**HELLO, "messages": [user("a"), {"role": "assistant", "content": [used]}]}
    assert api.send("POST", "/v1/messages", body).status in {200, 400}


def test_a_lone_surrogate_is_no_server_error(api: Api):
    data = json.dumps({**HELLO, "messages": [user("x \ud800 y")]}).encode()
    assert api.send("POST", "/v1/messages", raw=data).status == 400


def test_a_surrogate_pair_is_a_letter(api: Api):
    data = json.dumps({**HELLO, "messages": [user("\U0001f98a")]}).encode()
    assert b"ud83e" in data
    assert api.send("POST", "/v1/messages", raw=data).status == 200


def test_a_body_over_32_megabytes_is_too_large(api: Api):
    data = json.dumps({**HELLO, "messages": [user("w" * (32 * 1024 * 1024))]}).encode()
    answer = api.send("POST", "/v1/messages", raw=data)
    assert (answer.status, answer.error["type"]) == (413, "request_too_large")
    assert answer.error["message"] == "Request exceeds the maximum size"


def test_a_compressed_body_is_read(api: Api):
    headers = api.usual | {"content-encoding": "gzip"}
    answer = api.send("POST", "/v1/messages", raw=gzip.compress(json.dumps(HELLO).encode()), headers=headers)
    assert answer.status == 200, answer.data


def test_a_bomb_is_too_large(api: Api):
    headers = api.usual | {"content-encoding": "gzip"}
    answer = api.send("POST", "/v1/messages", raw=gzip.compress(b" " * (64 * 1024 * 1024)), headers=headers)
    assert answer.status == 413


@pytest.mark.parametrize(
    ("encoding", "data"),
    [("gzip", b"not gzip"), ("gzip", gzip.compress(b"{}", mtime=0)[:-4]), ("br", b"{}"), ("zip", b"{}")],
)
def test_a_wrong_encoding_is_a_bad_request(api: Api, encoding: str, data: bytes):
    answer = api.send("POST", "/v1/messages", raw=data, headers=api.usual | {"content-encoding": encoding})
    assert answer.status in {400, 415}
    assert answer.json["type"] == "error"


WRONG = [
    None,
    5,
    -1,
    1.5,
    "",
    "words",
    True,
    [],
    {},
    [[]],
    [None],
    {"type": None},
    {"type": "x"},
    {"type": []},
]


@pytest.mark.parametrize(
    "field",
    [
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "metadata",
        "stop_sequences",
        "stream",
        "cache_control",
        "context_management",
        "compaction",
        "diagnostics",
        "service_tier",
        "inference_geo",
        "speed",
        "temperature",
        "top_p",
        "top_k",
        "container",
        "mcp_servers",
        "thread",
    ],
)
def test_a_wrong_type_anywhere_is_answered(api: Api, field: str):
    headers = api.usual | {
        "anthropic-beta": "context-management-2025-06-27,compact-2026-01-12,compact-2026-09-04"
    }
    for value in WRONG:
        for path in PATHS:
            answer = api.send("POST", path, {**HELLO, field: value}, headers=headers)
            assert answer.status in {200, 400, 404}, (field, value, answer.data)


@pytest.mark.parametrize(
    "field",
    [
        "type",
        "text",
        "source",
        "content",
        "id",
        "name",
        "input",
        "tool_use_id",
        "thinking",
        "signature",
        "cache_control",
        "citations",
    ],
)
def test_a_wrong_type_inside_a_block_is_answered(api: Api, field: str):
    blocks: list[Json] = [
        {"type": "text", "text": "x"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
        {"type": "tool_use", "id": "t", "name": "look", "input": {}},
        {"type": "tool_result", "tool_use_id": "t", "content": "x"},
        {"type": "thinking", "thinking": "x", "signature": "y"},
        {"type": "compaction", "content": "x"},
    ]
    for block in blocks:
        for value in WRONG:
            content = [{**block, field: value}]
            for role in ("user", "assistant"):
                turns = [user("a"), {"role": role, "content": content}, user("b")]
                answer = api.send("POST", "/v1/messages", {**HELLO, "messages": turns, "tools": [tool()]})
                assert answer.status in {200, 400}, (block, field, value, answer.data)


def test_random_damage_is_always_answered(api: Api):
    chance = random.Random(11)
    whole = json.dumps({**HELLO, "tools": [tool()], "system": [{"type": "text", "text": "s"}]}).encode()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        assert api.send("POST", "/v1/messages", raw=bytes(data)).status in {200, 400, 404}


@pytest.mark.parametrize(
    "head",
    [
        b"GARBAGE\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: nonsense\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    ],
    ids=["garbage", "length", "chunk", "tls"],
)
def test_what_is_not_http_is_answered_or_hung_up_on(api: Api, head: bytes):
    parts = urlsplit(api.url)
    with socket.create_connection((str(parts.hostname), parts.port), timeout=10) as line:
        line.sendall(head)
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass
    assert api.ask("hi").status == 200


def test_a_client_that_leaves_in_the_middle_harms_nobody(api: Api):
    parts = urlsplit(api.url)
    with socket.create_connection((str(parts.hostname), parts.port), timeout=10) as line:
        line.sendall(
            b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: k\r\nContent-Length: 1000\r\n\r\n{"
        )
    assert api.ask("hi").status == 200
    assert [e["status"] for e in api.ledger()][-1] == 200


def test_chunked_bodies_are_read(api: Api):
    parts = urlsplit(api.url)
    data = json.dumps(HELLO).encode()
    head = (
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\n"
    )
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(data[i : i + 30]), data[i : i + 30]) for i in range(0, len(data), 30)
    )
    with socket.create_connection((str(parts.hostname), parts.port), timeout=10) as line:
        line.sendall(
            head.encode() + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks + b"0\r\n\r\n"
        )
        answer = b""
        while part := line.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("header", ["x" * 5000, "ü".encode().decode("latin-1"), "a b c"])
def test_strange_keys_are_keys(api: Api, header: str):
    assert api.send("POST", "/v1/messages", HELLO, headers=api.usual | {"x-api-key": header}).status in {
        200,
        431,
    }


def test_unknown_betas_are_answered(api: Api):
    answer = api.ask("hi", betas="nonsense-2026-01-01")
    assert answer.status in {200, 400}
