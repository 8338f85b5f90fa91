"""What stays in memory of conversations that are over: a number of bytes, however many and large they are."""

import gc
import json
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from everturn.adapters.tracking import PreparedCall, chain, list_memo, make_parts
from everturn.adapters.tracking.scopes import make_scope
from everturn.gateway import bodies, known_bodies
from everturn.gateway.app import Gateway, make_gateway
from everturn.gateway.limits import Limits
from everturn.gateway.server import reuse_freed_memory
from everturn.gateway.tenants import ClientRequest, RelayedReply, TenantConversations
from everturn.gateway.values import GatewaySettings, Mode
from everturn.session.upstream import RawResponse

IN_MEMORY = 4
LONG = "word " * 1000
MIB = 1 << 20
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counted in /proc")


def refuse(*_: object) -> RawResponse:
    raise AssertionError("nothing is summarized here")


def ask(
    conversations: TenantConversations, mode: Mode, at: int, messages: list[dict[str, Any]]
) -> tuple[PreparedCall, ClientRequest]:
    """A request of a session of its own."""
    body = {"model": "claude-opus-5-5", "max_tokens": 99, "messages": messages}
    given = ClientRequest(json.dumps(body).encode(), "", (), make_scope(f"session {at}", ""))
    if mode == "observe":
        call = conversations.observe(given)
    else:
        call = conversations.prepare(given, refuse, lambda *_: None)
    assert isinstance(call, PreparedCall)
    return call, given


def begin(at: int, text: str = LONG) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"Conversation {at}. {text}"}]


def take_turn(conversations: TenantConversations, mode: Mode, at: int, messages: list[dict[str, Any]]) -> str:
    """A request and its reply, and the next question. Returns the id of the conversation."""
    call, given = ask(conversations, mode, at, messages)
    content = [{"type": "text", "text": f"Answer {len(messages)}."}]
    reply = {
        "id": f"msg_{at}_{len(messages)}", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 9},
    }  # fmt: skip
    relayed = RelayedReply([json.dumps(reply).encode()], "application/json", "", "req_1", False)
    assert conversations.record(call, given, relayed) == ""
    messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "And?"}]
    return call.tracked.id


def count_held() -> tuple[int, int]:
    """Objects and descriptors of this process."""
    gc.collect()
    return len(gc.get_objects()), len(os.listdir("/proc/self/fd"))


def count_growth(mode: Mode, folder: Path) -> list[int]:
    """The growth in objects and descriptors from 20 conversations to 60."""
    list_memo.MAX_LISTS = IN_MEMORY  # type: ignore[misc]
    bodies._bodies = known_bodies.BodyMemo(max_bytes=8 * len(LONG))  # type: ignore[misc]
    parts = make_parts(None, config=None, folder=folder, **{"limits.conversations": IN_MEMORY})
    conversations = make_gateway(GatewaySettings(parts=parts, mode=mode)).tenants.find("local")
    for at in range(20):
        messages = begin(at)
        take_turn(conversations, mode, at, messages)
        take_turn(conversations, mode, at, messages)
    objects, descriptors = count_held()
    for at in range(20, 60):
        messages = begin(at)
        take_turn(conversations, mode, at, messages)
        take_turn(conversations, mode, at, messages)
    now = count_held()
    return [now[0] - objects, now[1] - descriptors]


def read_rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_growth(size: int, count: int, folder: Path) -> list[int]:
    """The growth in bytes of this process from a third of the conversations to all of them."""
    list_memo.MAX_CHARACTERS = 4 * MIB  # type: ignore[misc]
    chain._DigestMemo.MAX_CHARACTERS = 4 * MIB  # type: ignore[misc]
    bodies._bodies = known_bodies.BodyMemo(max_bytes=4 * MIB)  # type: ignore[misc]
    conversations = open_gateway(folder, 8 * MIB).tenants.find("local")
    text = "word " * (size // 5)
    before = 0
    for at in range(count):
        take_turn(conversations, "observe", at, begin(at, text))
        if at == count // 3:
            before = read_rss()
    return [read_rss() - before]


def open_gateway(folder: Path, memory_bytes: int) -> Gateway:
    """Only bytes limit its memory."""
    parts = make_parts(None, config=None, folder=folder, **{"limits.conversations": 10_000})
    return make_gateway(GatewaySettings(parts=parts, limits=Limits(memory_bytes=memory_bytes)))


def count_page_faults(*, with_reuse: bool) -> list[int]:
    """Pages that this process gets from the system for fifty bodies, each longer than the one before."""
    if with_reuse:
        reuse_freed_memory()
    counts: list[int] = []
    for kilobytes in range(1900, 2001):
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        _ = b"word " * (kilobytes * 200)
    return [counts[-1] - counts[-51]]


def run_apart(*arguments: object) -> list[int]:
    """In a process of its own: the test run keeps objects too."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


@NEEDS_PROC
@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_a_gateway_whose_caches_are_full_keeps_nothing_of_further_conversations(mode: Mode, tmp_path: Path):
    objects, descriptors = run_apart("objects", mode, tmp_path)
    assert descriptors == 0
    # One object for each conversation would be 40.
    assert abs(objects) < 10


# `make soak-tests` has 1,000 conversations.
MANY = 1000 if os.environ.get("EVERTURN_PROFILE") == "soak" else 150


@NEEDS_PROC
@pytest.mark.parametrize(("size", "count"), [(200_000, MANY), (4_000_000, 15)])
def test_memory_stays_the_same_with_many_conversations_and_with_large_ones(
    size: int, count: int, tmp_path: Path
):
    (grown,) = run_apart("bytes", size, count, tmp_path)
    # What came after the third of them is 13 MB and more.
    assert grown < 8 * MIB


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
def test_a_body_that_is_longer_than_the_one_before_is_kept_in_the_memory_of_that_one():
    (plain,), (reusing,) = (run_apart("faults", each) for each in ("plain", "reusing"))
    pages = 50 * 1_950_000 // resource.getpagesize()
    assert plain > pages // 2
    # About what they are longer by, and what other allocations move.
    assert reusing < pages // 10


def test_the_conversations_that_were_used_last_stay_in_memory(tmp_path: Path):
    gateway = open_gateway(tmp_path, 60_000)
    tenants = [gateway.tenants.find(name) for name in ("a", "b")]
    # 5,000 bytes each, and 1,000 for each of their two records.
    names = [take_turn(tenants[at % 2], "observe", at, begin(at)) for at in range(20)]
    kept = [{each.id for each in tenant.tracker} for tenant in tenants]
    held = gateway.metrics.registry.get_sample_value("everturn_gateway_conversation_bytes")
    assert (kept[0] | kept[1]) == set(names[-len(kept[0]) - len(kept[1]) :])
    assert 50_000 < held <= 60_000
    assert len(kept[0]) + len(kept[1]) == gateway.metrics.registry.get_sample_value(
        "everturn_gateway_conversations"
    )
    gateway.tenants.close()


@pytest.mark.spec("GW-20")
def test_conversations_in_memory_leave_descriptors_for_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # 60 descriptors: 10 conversations, however many tenants have them and however small they are.
    monkeypatch.setattr(resource, "getrlimit", lambda _: (60, 60))
    gateway = open_gateway(tmp_path, 1 << 30)
    tenants = [gateway.tenants.find(name) for name in ("a", "b", "c")]
    names = [take_turn(tenants[at % 3], "observe", at, begin(at)) for at in range(40)]
    kept = {each.id for tenant in tenants for each in tenant.tracker}
    assert 9 <= len(kept) <= 10
    assert kept == set(names[-len(kept) :])
    gateway.tenants.close()


@NEEDS_PROC
@pytest.mark.spec("GW-20")
def test_a_gateway_uses_the_descriptors_that_the_administrator_allows():
    code = "from everturn.gateway.descriptors import allow_many; allow_many(); allow_many()"
    code += "; print(open('/proc/self/limits').read())"

    def find_limits(soft: int, hard: int) -> list[str]:
        command = [
            "sh",
            "-c",
            f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec $0 -c "$1"',
            sys.executable,
            code,
        ]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        (line,) = (each for each in said.splitlines() if each.startswith("Max open files"))
        return line.split()[3:5]

    assert [find_limits(*each) for each in ((256, 1000), (900, 900))] == [["1000", "1000"], ["900", "900"]]


@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_a_conversation_that_was_removed_from_memory_goes_on_in_its_transcript(mode: Mode, tmp_path: Path):
    gateway = open_gateway(tmp_path, 1)
    conversations = gateway.tenants.find("local")
    lists = {at: begin(at) for at in (1, 2, 3)}
    ids = [[take_turn(conversations, mode, at, lists[at]) for at in lists] for _ in range(3)]
    assert len(list(conversations.tracker)) == 1
    gateway.tenants.close()
    assert ids == [ids[0]] * 3
    # Three turns each: nothing was lost, doubled or forked.
    assert [len(path.read_text().splitlines()) for path in tmp_path.rglob("*.jsonl")] == [6, 6, 6]


def test_conversations_whose_requests_were_refused_do_not_fill_the_memory(tmp_path: Path):
    gateway = open_gateway(tmp_path, 60_000)
    conversations = gateway.tenants.find("local")
    for at in range(100):
        # No reply is recorded: the API has refused it.
        ask(conversations, "observe", at, begin(at))
    held = gateway.metrics.registry.get_sample_value("everturn_gateway_conversation_bytes")
    assert 60_000 < held <= 120_000
    gateway.tenants.close()


if __name__ == "__main__":
    what, first, *rest = sys.argv[1:]
    if what == "objects":
        print(json.dumps(count_growth("manage" if first == "manage" else "observe", Path(rest[0]))))
    elif what == "faults":
        print(json.dumps(count_page_faults(with_reuse=first == "reusing")))
    else:
        print(json.dumps(measure_growth(int(first), int(rest[0]), Path(rest[1]))))
