"""Manage mode: the engine decides what of `messages` is sent."""

import gzip
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway.lab import (
    MODEL,
    Connection,
    Lab,
    OpenLab,
    RawUpstream,
    Seen,
    events,
    message,
    open_lab,
    reply,
    wait_until,
)
from surfaces.desk import SUMMARY

from everturn.gateway.limits import CapSettings
from everturn.gateway.values import Timing

TOO_LONG = (
    b'{"type":"error","error":{"type":"invalid_request_error",'
    b'"message":"prompt is too long: 250000 tokens > 200000 maximum"}}'
)
LONG = "The login test waits for the token, and the token comes late. " * 60


def is_summary(seen: Seen) -> bool:
    return b"summary of" in seen.body or b"detailed summary" in seen.body


def conversation(rounds: int) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for at in range(rounds):
        said.append({"role": "user", "content": f"Read part {at}. {LONG}"})
        said.append({"role": "assistant", "content": f"Part {at} says: {LONG}"})
    return [*said, {"role": "user", "content": "Go on."}]


def body_of(rounds: int, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 100, "zzz_unknown": 1, "messages": conversation(rounds), **fields}


def answering(reply_to: Any) -> Any:
    """An upstream that writes summaries, and answers other requests with `reply_to`."""

    def answer(connection: Connection, seen: Seen) -> None:
        if is_summary(seen):
            connection.send(reply(json.dumps(message(SUMMARY, "msg_summary")).encode()))
        elif isinstance(reply_to, bytes):
            connection.send(reply_to)
        else:
            reply_to(connection, seen)

    return answer


OK = reply(json.dumps(message()).encode())
SMALL = {"window": 40_000, "max_tokens": 1000, "notes.enabled": False}


def managed(lab: OpenLab, upstream: RawUpstream, **settings: Any) -> Lab:
    return lab(upstream, mode="manage", overrides=settings.pop("overrides", SMALL), **settings)


@pytest.mark.spec("GW-3", "GW-9")
def test_a_long_conversation_is_compacted_and_the_rest_goes_as_it_came(lab: OpenLab):
    upstream = RawUpstream(answering(OK))
    running = managed(lab, upstream)
    system = [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}]
    sent = body_of(12, system=system)
    found = running.ask(sent, headers={"anthropic-beta": "future-1", "anthropic-version": "2023-06-01"})
    assert found.status == 200
    assert "compacted: " in found.headers["x-everturn-note"]
    *summaries, last = upstream.seen
    assert [is_summary(each) for each in summaries] == [True] * len(summaries)
    assert summaries
    got = json.loads(last.body)
    assert (got["model"], got["zzz_unknown"], got["max_tokens"]) == (MODEL, 1, 100)
    assert [block["text"] for block in got["system"]] == ["first", "second"]
    assert len(last.body) < len(json.dumps(sent)) / 2
    assert last.header("anthropic-version") == "2023-06-01"
    assert "future-1" in (last.header("anthropic-beta") or "")
    running.settle()
    bill = running.gateway.tenants.bill
    assert (bill.parts["conversation"].calls, bill.parts["compact"].calls) == (1, len(summaries))
    # The next request continues the compacted view, and saves.
    sent["messages"] += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "More."}]
    running.ask(sent)
    running.settle()
    assert len(upstream.seen) == len(summaries) + 2
    assert running.gateway.metrics.saved != 0


@pytest.mark.spec("PC-16", "GW-3")
def test_a_request_that_goes_back_with_one_more_beta_keeps_the_thinking_before_it(lab: OpenLab):
    """Claude Code's /compact: the list without the last answer, a text beside the last result, one more
    beta. Thinking is bound to system prompt, tools and messages; without it the cache is written again."""
    thinking = {"type": "thinking", "thinking": "It is in a.py.", "signature": "c2lnbmVk"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.py"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x = 1"}
    calls = {**message(), "content": [thinking, call], "stop_reason": "tool_use"}
    upstream = RawUpstream(reply(json.dumps(calls).encode()), reply(json.dumps(message(id="msg_2")).encode()))
    running = managed(lab, upstream)
    said: list[dict[str, Any]] = [{"role": "user", "content": "What is x?"}]
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    fields = {"model": MODEL, "max_tokens": 100, "system": "Be short.", "tools": tools}
    running.ask({**fields, "messages": said}, headers={"anthropic-beta": "future-1"})
    running.settle()
    said += [{"role": "assistant", "content": [thinking, call]}]
    asked = [*said, {"role": "user", "content": [result]}]
    running.ask({**fields, "messages": asked}, headers={"anthropic-beta": "future-1"})
    running.settle()
    summarize = {"type": "text", "text": "Sum up what was said."}
    back = [*said, {"role": "user", "content": [result, summarize]}]
    running.ask({**fields, "messages": back}, headers={"anthropic-beta": "future-1,future-2"})
    running.settle()
    sent = json.loads(upstream.seen[-1].body)["messages"]
    assert len(upstream.seen) == 3
    assert [block["type"] for block in sent[1]["content"]] == ["thinking", "tool_use"]
    assert sent[1]["content"][0] == thinking


@pytest.mark.spec("GW-6")
@pytest.mark.parametrize("status", ["429 Too Many Requests", "529 Overloaded", "500 Internal Server Error"])
def test_errors_are_relayed_unchanged_in_manage_mode(lab: OpenLab, status: str):
    body = b'{ "type":"error","error":{"type":"some_error","message":"word for word"} }'
    upstream = RawUpstream(reply(body, status, "retry-after: 9", "request-id: req_7"))
    found = managed(lab, upstream).ask(body_of(1))
    assert (found.status, found.body) == (int(status[:3]), body)
    assert (found.headers["retry-after"], found.headers["request-id"]) == ("9", "req_7")
    assert len(upstream.seen) == 1


@pytest.mark.spec("GW-8")
def test_too_long_is_compacted_and_sent_once_more_then_the_client_gets_the_error(lab: OpenLab):
    refused = {"left": 1}

    def answer(connection: Connection, seen: Seen) -> None:
        if refused["left"]:
            refused["left"] -= 1
            connection.send(reply(TOO_LONG, "400 Bad Request"))
        else:
            connection.send(OK)

    upstream = RawUpstream(answering(answer))
    running = managed(lab, upstream, overrides={"notes.enabled": False})
    found = running.ask(body_of(12))
    assert found.status == 200
    assert "sent again: too long" in found.headers["x-everturn-note"]
    sizes = [len(each.body) for each in upstream.seen if not is_summary(each)]
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]
    refused["left"] = 9
    found = running.ask(body_of(11))
    assert (found.status, found.body) == (400, TOO_LONG)


@pytest.mark.spec("GW-8")
@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_compressed_refusal_is_understood_and_relayed_as_it_came(
    lab: OpenLab, encoding: str, compress: Callable[[bytes], bytes]
):
    """Clients that do not stream accept compressed replies, and errors are replies."""
    # Compressed once: gzip writes the time.
    compressed = compress(TOO_LONG)
    refusal = reply(compressed, "400 Bad Request", f"content-encoding: {encoding}")
    refused = {"left": 1}

    def answer(connection: Connection, seen: Seen) -> None:
        refused["left"] -= 1
        connection.send(refusal if refused["left"] >= 0 else OK)

    running = managed(lab, RawUpstream(answering(answer)), overrides={"notes.enabled": False})
    found = running.ask(body_of(12), headers={"accept-encoding": encoding})
    assert (found.status, found.headers["x-everturn-note"]) == (200, "sent again: too long")
    assert running.gateway.metrics.degradations == {}
    refused["left"] = 9
    found = running.ask(body_of(11), headers={"accept-encoding": encoding})
    assert (found.status, found.body) == (400, compressed)
    assert found.headers["content-encoding"] == encoding


def test_a_compressed_error_after_an_early_start_is_an_event_that_can_be_read(lab: OpenLab):
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'

    def answer(connection: Connection, seen: Seen) -> None:
        if is_summary(seen):
            time.sleep(0.6)
            connection.send(reply(json.dumps(message(SUMMARY)).encode()))
        else:
            connection.send(reply(gzip.compress(error), "529 Overloaded", "content-encoding: gzip"))

    running = managed(lab, RawUpstream(answer), timing=Timing(quiet=0.2, ping=0.1))
    found = running.ask(body_of(12, stream=True))
    assert found.status == 200
    assert found.body.endswith(b"event: error\ndata: " + error + b"\n\n")


def test_a_prepared_request_that_is_refused_is_sent_as_the_client_spelled_it(lab: OpenLab):
    refusal = b'{"type":"error","error":{"type":"invalid_request_error","message":"unexpected breakpoint"}}'
    own = json.dumps(body_of(1)).encode()

    def answer(connection: Connection, seen: Seen) -> None:
        connection.send(OK if seen.body == own else reply(refusal, "400 Bad Request"))

    running = managed(lab, RawUpstream(answering(answer)))
    found = running.ask(own)
    assert (found.status, json.loads(found.body)) == (200, message())
    assert found.headers["x-everturn-note"] == "sent unchanged: the prepared request was refused"
    assert running.gateway.metrics.degradations == {"the API rejected the prepared request": 1}


@pytest.mark.spec("GW-5", "GW-6")
def test_a_slow_summary_is_bridged_with_pings_and_an_error_after_that_is_an_event(lab: OpenLab):
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
    answers = ["stream", "error", "error"]

    def answer(connection: Connection, seen: Seen) -> None:
        if is_summary(seen):
            time.sleep(1.2)
            connection.send(reply(json.dumps(message(SUMMARY)).encode()))
        elif answers.pop(0) == "stream":
            connection.begin_stream()
            connection.chunk(b"".join(events()))
            connection.end_stream()
        else:
            connection.send(reply(error, "529 Overloaded"))

    upstream = RawUpstream(answer)
    running = managed(lab, upstream, timing=Timing(quiet=0.4, ping=0.2))
    found = running.ask(body_of(12, stream=True))
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    assert found.body.startswith(ping * 2)
    assert found.body.replace(ping, b"") == b"".join(events()).replace(ping, b"")
    # Another conversation: the upstream refuses after the response has begun.
    other = body_of(12, stream=True)
    other["messages"][0]["content"] = "Another one. " + LONG
    found = running.ask(other)
    assert found.status == 200
    assert found.body.replace(ping, b"") == b"event: error\ndata: " + error + b"\n\n"
    # The client repeats without streaming: the same request, no second summary, and the real status.
    summaries = sum(map(is_summary, upstream.seen))
    repeated = running.ask({name: value for name, value in other.items() if name != "stream"})
    assert (repeated.status, repeated.body) == (529, error)
    assert sum(map(is_summary, upstream.seen)) == summaries


@pytest.mark.spec("GW-5")
def test_a_quick_answer_has_no_early_headers_and_a_late_summary_is_abandoned(lab: OpenLab):
    def answer(connection: Connection, seen: Seen) -> None:
        if is_summary(seen):
            connection.is_closed_within(10)
        else:
            connection.send(OK)

    upstream = RawUpstream(answer)
    running = managed(lab, upstream, timing=Timing(quiet=5, summary=0.6))
    began = time.monotonic()
    found = running.ask(body_of(8))
    assert (found.status, json.loads(found.body)) == (200, message())
    assert time.monotonic() - began < 4


@pytest.mark.spec("GW-7")
def test_a_client_that_disconnects_during_a_summary_ends_it(lab: OpenLab):
    asked, closed = threading.Event(), threading.Event()

    def answer(connection: Connection, seen: Seen) -> None:
        asked.set()
        if connection.is_closed_within(5):
            closed.set()

    running = managed(lab, RawUpstream(answer))
    sock = running.post(json.dumps(body_of(12, stream=True)).encode())
    assert asked.wait(5)
    sock.close()
    assert closed.wait(1)
    wait_until(lambda: not running.metric("open_requests"))


def test_summaries_have_caps_per_session_and_tenant(lab: OpenLab):
    for named in ("session_calls", "session_tokens", "session_dollars", "tenant_calls", "tenant_dollars"):
        upstream = RawUpstream(answering(OK))
        running = managed(lab, upstream, name=named, caps=CapSettings(**{named: 0}))
        found = running.ask(body_of(12))
        assert found.status == 200
        assert sum(map(is_summary, upstream.seen)) == 0
        assert f"no summary: the cap {named} is used up" in found.headers["x-everturn-note"]
        assert running.gateway.metrics.degradations[f"the cap {named} is used up"] == 1


PICTURE: dict[str, Any] = {
    "type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}  # fmt: skip


@pytest.mark.spec("GW-3", "GW-11")
def test_pictures_that_a_client_has_taken_out_are_not_sent_again(lab: OpenLab):
    """As browser agents do: a picture of the screen beside the newest result, and none in the past."""
    upstream = RawUpstream(OK)
    running = managed(lab, upstream)
    said: list[dict[str, Any]] = [{"role": "user", "content": "Open the page."}]
    for turn in range(5):
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "click", "input": {}}
        answer = {**message(id=f"msg_{turn}"), "content": [use], "stop_reason": "tool_use"}
        upstream.answers = [reply(json.dumps(answer).encode())]
        newest = said[-1]["content"]
        shown = [*newest, PICTURE] if isinstance(newest, list) else newest
        sent = [*said[:-1], {"role": "user", "content": shown}]
        assert running.ask(body_of(0, messages=sent)).status == 200
        running.settle()
        assert upstream.seen[-1].body.count(b'"image"') == (turn > 0)
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "Done."}
        said += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


@pytest.mark.spec("GW-3", "GW-9", "PC-16")
@pytest.mark.parametrize("thinks", [False, True])
def test_tools_that_change_within_a_tool_loop_are_sent_or_their_change_is_said_to_wait(
    lab: OpenLab, thinks: bool
):
    """With thinking in the list the API would refuse them until the loop has ended."""
    thought = [{"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmF0dXJl"}] if thinks else []
    content = [*thought, {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}]
    upstream = RawUpstream(reply(json.dumps({**message(), "content": content}).encode()), OK)
    running = managed(lab, upstream)
    search, deploy = ({"name": name, "input_schema": {"type": "object"}} for name in ("search", "deploy"))
    said: list[dict[str, Any]] = [{"role": "user", "content": "Deploy it."}]
    running.ask(body_of(0, messages=said, tools=[search]))
    running.settle()
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "deploy can be used now"}
    said += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    found = running.ask(body_of(0, messages=said, tools=[search, deploy]))
    names = [each["name"] for each in json.loads(upstream.seen[-1].body)["tools"]]
    waits = "a change of system prompt and tools waits until the tool loop has ended"
    if thinks:
        assert (names, found.headers["x-everturn-note"]) == (["search"], waits)
    else:
        assert (names, "x-everturn-note" in found.headers) == (["search", "deploy"], False)


@pytest.mark.spec("GW-6")
def test_a_refusal_that_is_cut_off_is_a_bad_gateway_and_no_defect(lab: OpenLab):
    def answer(connection: Connection, _: Seen) -> None:
        connection.send(reply(TOO_LONG, "400 Bad Request")[:-20])
        connection.sock.shutdown(socket.SHUT_RDWR)

    running = managed(lab, RawUpstream(answer))
    found = running.ask(body_of(1))
    assert (found.status, json.loads(found.body)["error"]["type"]) == (502, "everturn_upstream_invalid")
    running.settle()
    assert running.metric("degradations_total", reason="a request failed by a defect") == 0


@pytest.mark.spec("GW-9", "GW-21")
def test_the_cost_of_a_summary_is_kept_if_no_reply_follows_it(tmp_path: Path):
    refusal = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    upstream = RawUpstream(answering(reply(refusal, "529 Busy")))
    with open_lab(upstream.url, tmp_path, mode="manage", overrides=SMALL) as running:
        assert running.ask(body_of(12)).status == 529
        running.settle()
        paid = running.gateway.tenants.bill.parts["compact"].dollars
    upstream.close()
    [state] = tmp_path.rglob("*state*")
    assert json.loads(state.read_bytes())["asides"]["compact"]["dollars"] == str(paid) != "0"
