"""Replies that cannot be recorded are counted; an access log that nobody reads stops nobody."""

import errno
import http.client
import json
import socket
import threading
from contextlib import suppress
from typing import Any

import pytest
from gateway.lab import MODEL, Connection, OpenLab, RawUpstream, Seen, events, message, reply, wait_until

from everturn.adapters.tracking import transcript_folder
from everturn.errors import StoreUnavailable
from everturn.gateway.access_log import QueuedLines
from everturn.gateway.limits import Limits
from everturn.history.blocks import fields_of
from everturn.session.store.file_system import LocalFileSystem
from everturn.wire.claude_code_reader import parse_session_file

ASK = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.spec("GW-15", "GW-21")
@pytest.mark.parametrize("mode", ["observe", "manage"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_reply_that_the_store_does_not_take_is_in_the_metrics_once(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch, mode: str, is_cut: bool
):
    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        connection.chunk(b"".join(events()[: -1 if is_cut else None]))
        connection.end_stream()

    def count_one(name: str, *, is_down: bool) -> tuple[int, float, float]:
        running = lab(RawUpstream(answer), name=name, mode=mode)
        tracker = running.gateway.tenants.find("local").tracker
        if is_down:

            def fail_after(record: Any) -> Any:
                def fail(*given: Any) -> None:
                    record(*given)
                    raise StoreUnavailable("down")

                return fail

            for each in ("record_response", "record_partial"):
                monkeypatch.setattr(tracker, each, fail_after(getattr(tracker, each)))
        assert running.ask({**ASK, "stream": True}).status == 200
        running.settle()
        metrics = running.gateway.metrics
        metrics.collect()
        assert metrics.degradations == (
            {"a reply was not recorded: the store does not answer": 1} if is_down else {}
        )
        spent = running.gateway.tenants.bill.total.dollars
        dollars = running.metric("dollars_total", purpose="conversation")
        assert dollars == pytest.approx(float(spent))
        return metrics.calls, running.metric("tokens_total", kind="input"), dollars

    assert count_one("down", is_down=True) == count_one("up", is_down=False)


NOT_KEPT = "in memory only: the transcript cannot be written"


@pytest.mark.spec("GW-9", "GW-12")
@pytest.mark.parametrize("mode", ["observe", "manage"])
@pytest.mark.parametrize("room", [0, 150])
def test_a_full_disk_is_told_with_each_response_and_the_transcript_gets_what_it_lacks(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch, mode: str, room: int
):
    """`room`: how much of a write the disk takes; the line is torn then."""
    replies = iter(range(100))
    running = lab(
        RawUpstream(
            lambda connection, _: connection.send(
                reply(json.dumps(message(f"Answer {(at := next(replies))}.", f"msg_{at}")).encode())
            )
        ),
        mode=mode,
    )
    write, is_full = LocalFileSystem.write, False

    def write_some(system: LocalFileSystem, file: int, data: bytes) -> int:
        if is_full and not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(system, file, data[:room] if is_full else data)

    monkeypatch.setattr(LocalFileSystem, "write", write_some)
    said: list[dict[str, str]] = []

    def take_turn() -> tuple[str | None, str | None]:
        said.append({"role": "user", "content": f"Question {len(said)}."})
        answer = running.ask({**ASK, "messages": said})
        running.settle()
        said.append({"role": "assistant", "content": json.loads(answer.body)["content"][0]["text"]})
        return answer.headers.get("x-everturn-session"), answer.headers.get("x-everturn-note")

    monkeypatch.setattr(transcript_folder, "RETRY_SECONDS", 1000)
    name, note = take_turn()
    assert note is None
    is_full = True
    # An observed request is written with its reply, so the response to it cannot tell.
    assert [take_turn() for _ in range(3)][1:] == [(name, NOT_KEPT)] * 2
    is_full = False
    # Not tried again at once: the file has to be read.
    assert take_turn() == (name, NOT_KEPT)
    assert running.gateway.metrics.degradations[NOT_KEPT] >= 3
    monkeypatch.setattr(transcript_folder, "RETRY_SECONDS", 0)
    (tracked,) = running.gateway.tenants.find("local").tracker
    unwritten = tracked.transcript._unwritten
    assert unwritten is not None
    unwritten._next_try = 0
    take_turn()
    assert take_turn() == (name, None)
    running.gateway.tenants.close()
    (path,) = running.transcripts()
    kept = [
        fields_of(block)["text"]
        for record in parse_session_file(path.read_bytes()).records
        for block in record.blocks
    ]
    assert kept == [each["content"] for each in said]


@pytest.mark.spec("GW-9")
def test_a_transcript_that_was_removed_is_not_made_again(lab: OpenLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transcript_folder, "RETRY_SECONDS", 0)
    running = lab(RawUpstream())
    notes: list[str | None] = []
    said = [{"role": "user", "content": "Hello"}]
    for _ in range(4):
        answer = running.ask({**ASK, "messages": said})
        running.settle()
        notes.append(answer.headers.get("x-everturn-note"))
        for path in running.transcripts():
            path.unlink()
        said += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And?"}]
    assert notes == [None, None, NOT_KEPT, NOT_KEPT]
    assert running.transcripts() == []


@pytest.mark.spec("GW-21")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (json.dumps(message()).encode()[:-9], "it is not JSON"),
        (b"<html>", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b'{"x":' * 5_000 + b"1" + b"}" * 5_000, "its JSON is nested too deep"),
    ],
)
def test_a_reply_that_cannot_be_read_is_reported_as_that(lab: OpenLab, body: bytes, why: str):
    running = lab(RawUpstream(reply(body)))
    assert running.ask(ASK).body == body
    running.settle()
    assert running.gateway.metrics.degradations == {f"a reply was not recorded: {why}": 1}
    again = running.ask(ASK)
    assert again.headers["x-everturn-note"] == f"before this: a reply was not recorded: {why}"


def test_a_reply_that_is_cut_off_is_reported_as_that(lab: OpenLab):
    """Not as something that is no JSON: somebody would look for a page of a proxy."""
    whole = json.dumps(message()).encode()

    def answer(connection: Connection, _: Seen) -> None:
        connection.send(reply(whole)[:-9])
        connection.sock.shutdown(socket.SHUT_RDWR)

    running = lab(RawUpstream(answer))
    with suppress(http.client.IncompleteRead):
        running.ask(ASK)
    running.settle()
    assert running.gateway.metrics.degradations == {"a reply was not recorded: it was cut off": 1}


def test_a_reply_above_the_limit_is_reported(lab: OpenLab):
    why = "a reply was not recorded: it is larger than the limit reply_bytes"
    long = reply(json.dumps(message("long " * 400)).encode())
    running = lab(RawUpstream(long), limits=Limits(reply_bytes=1000))
    assert running.ask(ASK).status == 200
    running.settle()
    assert running.gateway.metrics.degradations == {why: 1}
    assert running.ask(ASK).headers["x-everturn-note"] == f"before this: {why}"


# ── the access log ───────────────────────────────────────────────────────────────────────────────────


def test_lines_beyond_the_queue_are_lost_counted_and_told_when_it_works_again():
    written: list[str] = []
    told: list[str] = []
    lost: list[int] = []
    is_read = threading.Event()

    def write(line: str) -> None:
        is_read.wait(20)
        written.append(line)

    lines = QueuedLines(write, warn=told.append, say_resumed=told.append, max_lines=4)
    lines.on_lost = lambda: lost.append(1)
    lines.put("a")
    # The thread has taken the first one.
    wait_until(lambda: lines.is_empty)
    for line in "bcdefgh":
        lines.put(line)
    lines.close(0.05)
    warning = (
        "Warning: the access log cannot be written: nobody reads it, or its disk does not answer. Requests "
        "are served and not logged until it can be written again."
    )
    assert (written, told, len(lost)) == ([], [warning], 3)
    is_read.set()
    lines.close()
    assert (written, told) == (
        ["a", "b", "c", "d", "e"],
        [warning, "The access log is written again. Lines that are missing in it: 3."],
    )


def test_a_line_that_cannot_be_written_is_told_once_and_the_next_ones_are_tried():
    written: list[str] = []
    told: list[str] = []

    def write(line: str) -> None:
        if line in "bc":
            raise OSError(28, "No space left on device")
        written.append(line)

    lines = QueuedLines(write, warn=told.append, say_resumed=told.append)
    for line in "abcd":
        lines.put(line)
    lines.close()
    assert (written, told) == (
        ["a", "d"],
        [
            "Warning: the access log cannot be written: No space left on device. Requests are served and not "
            "logged until it can be written again.",
            "The access log is written again. Lines that are missing in it: 2.",
        ],
    )
