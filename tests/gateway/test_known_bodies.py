"""Of a body that continues a known one only what is new is decoded, with the result of decoding all of it."""

import json
import random
from hashlib import blake2b
from typing import Any

import msgspec
import pytest
from gateway.lab import MODEL, OpenLab, RawUpstream, message, reply, wait_until

from everturn.adapters.tracking import chain
from everturn.adapters.tracking.caller_request import read_request
from everturn.adapters.tracking.list_memo import OwnedList
from everturn.gateway import known_bodies
from everturn.gateway.known_bodies import BodyMemo

LONG = "The token comes late, and the test does not wait for it. " * 40


def decoded(decode: Any, body: bytes) -> Any:
    """The decoded body with its keys in order, or the kind of the error."""
    try:
        found = decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        return type(problem)
    return found, json.dumps(found)


def random_message(choose: random.Random) -> Any:
    words = choose.choice(["a", 'quote " here', "caf\u00e9", "messages", '"messages":[', "\\", "]}", "{["])
    text = f"{words} {choose.random()} {LONG[: choose.randrange(1500)]}"
    kinds: list[Any] = [text, [{"type": "text", "text": text}], [], 1.5, None, {"messages": [text]}]
    return choose.choice([{"role": "user", "content": choose.choice(kinds)}] * 6 + [text, 12, []])


def spell(choose: random.Random, head: str, messages: list[Any], tail: str) -> bytes:
    separators = choose.choice([(",", ":"), (", ", ": "), (" ,\n", " :\t")])
    text = json.dumps(messages, separators=separators, ensure_ascii=choose.random() < 0.5)
    return f'{{{head}"messages"{separators[1]}{text}{tail}'.encode()


HEADS = [
    "",
    '"model":"m", ',
    '"model":"n","x":{"messages":[1]},',
    '"messages":[1],',
    '"a":[{"role":"user"}],',
]
TAILS = [
    "}",
    ' , "system":"s","tools":[{"name":"t"}]}',
    ',"model":"other"}',
    ',"messages":[2]}',
    ',"mess\\u0061ges":[3]}',
    ',"messages":"text"}',
    "",
    ",}",
    "} ",
    "}x",
]


def change(choose: random.Random, messages: list[Any]) -> list[Any]:
    new = [random_message(choose) for _ in range(choose.randrange(3))]
    match choose.randrange(8):
        case 0 if messages:
            return [*messages[:-1], random_message(choose), *new]
        case 1 if messages:
            at = choose.randrange(len(messages))
            return [*messages[:at], *new, *messages[at + 1 :]]
        case 2:
            return messages[: choose.randrange(len(messages) + 1)]
        case _:
            return [*messages, *new]


def damage(choose: random.Random, body: bytes) -> bytes:
    """Now and then something is missing, doubled or not text at all."""
    if choose.random() < 0.85:
        return body
    at = choose.randrange(max(1, len(body) - 40), len(body))
    return (
        body[:at] + choose.choice([b"", b",", b"]", b"\xff", b"}", b'"']) + body[at + choose.randrange(2) :]
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_body_is_read_as_if_all_of_it_were_decoded(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_bodies, "MIN_BYTES", 0)
    # What begins alike is compared.
    monkeypatch.setattr(known_bodies, "KEY_BYTES", 4)
    choose, memo, continued = random.Random(seed), BodyMemo(), 0
    for _ in range(25):
        messages: list[Any] = []
        head, tail = choose.choice(HEADS), choose.choice(TAILS)
        for _ in range(12):
            messages = change(choose, messages)
            if choose.random() < 0.2:
                head, tail = choose.choice(HEADS), choose.choice(TAILS)
            style = random.Random(seed)
            body = damage(choose, spell(style, head, messages, tail))
            found = decoded(lambda data: memo.decode(data, "s"), body)
            assert found == decoded(msgspec.json.decode, body), body
            continued += isinstance(found, tuple) and isinstance(found[0].get("messages"), OwnedList)
    # Most of them were not decoded as a whole.
    assert continued > 60


@pytest.mark.parametrize(
    ("known", "body"),
    [
        (b'{"messages":[{"role":"user"}]}', b'{"messages":[{"role":"user"},]}'),
        (b'{"messages":[{"role":"user"}],"a":1}', b'{"messages":[{"role":"user"},],"a":2}'),
        (b'{"messages":[12]}', b'{"messages":[123]}'),
        (b'{"messages":[12],"a":1}', b'{"messages":[12,3],"a":1,"a":2}'),
        (b'{"a":1,"messages":[12]}', b'{"a":1,"messages":[12],"a":2,"b":3}'),
        (b'{"messages":[12]}', b'{"messages":[12],"messages":[3]}'),
        (b'{"messages":[12]}', b'{"messages":[12]}}'),
    ],
)
def test_what_follows_known_messages_is_not_taken_for_something_else(
    known: bytes, body: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(known_bodies, "MIN_BYTES", 0)
    monkeypatch.setattr(known_bodies, "KEY_BYTES", 4)
    memo = BodyMemo()
    memo.decode(known, "s")
    assert decoded(lambda data: memo.decode(data, "s"), body) == decoded(msgspec.json.decode, body)


def test_the_memory_for_bodies_is_limited():
    memo = BodyMemo(max_bytes=40_000)
    for session in range(20):
        body = json.dumps({"messages": [{"role": "user", "content": LONG * 4 + str(session)}]}).encode()
        memo.decode(body, str(session))
    held = sum(len(each.body) for alike in memo._known.values() for each in alike)
    assert held == memo._bytes
    assert 25_000 < held <= 40_000


class Work:
    """Bytes that are decoded or scanned, and bytes that are digested."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded = self.digested = 0
        for name in ("decode_json", "_decode_list", "_decode_fields"):
            monkeypatch.setattr(known_bodies, name, self._counting(getattr(known_bodies, name)))
        monkeypatch.setattr(chain, "blake2b", self._digest)

    def _counting(self, decode: Any) -> Any:
        def counted(data: Any) -> Any:
            self.decoded += len(bytes(data))
            return decode(data)

        return counted

    def _digest(self, data: bytes = b"", **options: Any) -> Any:
        self.digested += len(data)
        return blake2b(data, **options)

    def take(self) -> tuple[int, int]:
        found, self.decoded, self.digested = (self.decoded, self.digested), 0, 0
        return found


@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_a_turn_decodes_and_digests_what_is_new_however_long_the_list_is(
    lab: OpenLab, mode: str, monkeypatch: pytest.MonkeyPatch
):
    upstream = RawUpstream()
    running = lab(upstream, mode=mode)
    said: list[dict[str, Any]] = []
    for at in range(40):
        said.append({"role": "user", "content": f"Read part {at} to {mode}. {LONG}"})
        said.append({"role": "assistant", "content": f"Part {at} tells {mode}: {LONG}"})
    tools = [{"name": "read", "description": LONG, "input_schema": {"type": "object"}}]
    work = Work(monkeypatch)
    spent: list[tuple[int, int]] = []
    for turn in range(4):
        said.append({"role": "user", "content": f"Question {turn}."})
        answer = message(f"Answer {turn}.", f"msg_{turn}")
        upstream.answers = [reply(json.dumps(answer).encode())]
        body = {"model": MODEL, "max_tokens": 100, "messages": said, "tools": tools}
        headers = {"x-claude-code-session-id": "s1"}
        assert running.ask(body, headers=headers).status == 200
        wait_until(lambda: not running.gateway.recorder.is_busy)
        said.append({"role": "assistant", "content": answer["content"]})
        spent.append(work.take())
    (decoded_at_first, digested_at_first), *later = spent
    assert decoded_at_first > 180_000
    assert digested_at_first > 180_000
    assert max(decoded for decoded, _ in later) < 1_000
    assert max(digested for _, digested in later) < 1_000


# What a client may send behind its messages, from one request to the next.
FIELDS: list[dict[str, Any]] = [
    {"system": "Be brief."},
    {"system": "Be brief."},
    {"system": "Be brief.", "metadata": {"user_id": "u1"}},
    {"system": [{"type": "text", "text": "Be long.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
    {"tools": [{"name": "read", "input_schema": {}}], "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    {"tools": [{"name": "read", "input_schema": {}}], "cache_control": {"type": "ephemeral"}},
    {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    {"compaction": {}},
    {},
]


def test_what_is_read_besides_the_messages_is_that_of_the_request_itself():
    memo = BodyMemo()
    messages: list[Any] = []
    for at, fields in enumerate([*FIELDS, *reversed(FIELDS)]):
        messages += [{"role": "user", "content": f"{at} {LONG}"}, {"role": "assistant", "content": "Yes."}]
        last = {"role": "user", "content": [{"type": "text", "text": "And?", "cache_control": {"ttl": "5m"}}]}
        given = {"model": MODEL, "max_tokens": 10, "messages": [*messages, last], **fields}
        body = json.dumps(given).encode()
        for who in ("caller", "everturn", "caller"):
            found = memo.decode_at_once(body, "s") or memo.decode(body, "s")
            assert read_request(found, breakpoints=who) == read_request(given, breakpoints=who)
