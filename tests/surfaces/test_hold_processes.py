"""Processes that end while they hold the cache: killed, told to end, or simply finished (EC-11)."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from scripted_twin import scripted_options
from surfaces.test_economy import OPUS

from everturn import Session
from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin
from everturn.twin.control import read_faults
from everturn.twin.upstream import make_twin_send

# Without the SDK, which takes seconds to import. After SIGTERM it ends like a program that has finished.
PROGRAM = """
import signal, sys, time, urllib.request
from everturn.session.session import Session
from everturn.session.upstream import RawResponse

path, url, after = sys.argv[1:]

def send(body, betas):
    headers = {"x-api-key": "test-key", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/messages", body, headers)) as answer:
        return RawResponse(answer.read())

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
session = Session.open(
    path, send=send, config=None, model="claude-opus-4-5", policy="economic",
    compact={"strategies": ("extractive",)},
    economy={"holds": True, "hold_share": 1.0, "hold_after": float(after)},
)
session.send("Log: " + "The token comes late. " * 2_300)
print("answered", flush=True)
time.sleep(60)
"""


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    twin = build_twin(clock="real", options=scripted_options())
    with serve_twin(twin) as url:
        yield twin, url


@contextmanager
def program(path, url, *, after):
    given = [sys.executable, "-c", PROGRAM, str(path), url, str(after)]
    process = subprocess.Popen(given, stdout=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "answered\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_until(condition):
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


def resumed(path, twin):
    """The session in the file, opened by another process."""
    return Session.open(path, send=make_twin_send(twin, api_key="test-key"), config=None, **OPUS)


@pytest.mark.spec("EC-11")
def test_a_process_that_is_killed_during_a_hold_loses_nothing_and_sends_nothing_twice(served, tmp_path):
    twin, url = served
    path = tmp_path / "work.jsonl"
    slow = {"kind": "slow_first_byte", "after": 1, "delay_s": 5}
    twin.faults.add(read_faults({"faults": [slow]}).faults or ())
    with program(path, url, after=0.05) as process:
        wait_until(lambda: len(twin.ledger()) == 2)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    said = [json.loads(line)["type"] for line in path.read_text().splitlines()]
    with resumed(path, twin) as session:
        assert session.damage == ()
        session.send("Go on.")
        calls = {name: part.calls for name, part in session.bill.parts.items() if part.calls}
    assert said == ["user", "assistant"]
    assert calls == {"conversation": 2}
    assert [row["usage"]["output_tokens"] == 0 for row in twin.ledger()] == [False, True, False]


@pytest.mark.spec("EC-11")
def test_a_hold_that_was_answered_before_the_process_was_killed_is_on_the_bill(served, tmp_path):
    twin, url = served
    path = tmp_path / "work.jsonl"
    with program(path, url, after=0.05) as process:
        wait_until(lambda: "cache_held" in path.read_text())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with resumed(path, twin) as session:
        first = session.bill.parts["hold"]
        spent = session.conversation.economy.state.held
    with resumed(path, twin) as session:
        again = session.bill.parts["hold"]
    assert first.calls == 1
    assert float(first.dollars) == pytest.approx(spent)
    assert again == first


@pytest.mark.spec("EC-11")
def test_no_hold_is_sent_after_a_process_was_told_to_end(served, tmp_path):
    twin, url = served
    with program(tmp_path / "work.jsonl", url, after=2.0) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert len(twin.ledger()) == 1
