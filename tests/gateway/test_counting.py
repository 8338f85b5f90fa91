"""`count_tokens` in manage mode counts what everturn would send, and changes nothing."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway.lab import MODEL, Connection, Lab, OpenLab, RawUpstream, Reply, Seen, message, reply, wait_until
from gateway.test_identity import Client
from gateway.test_manage import TOO_LONG, body_of, is_summary
from surfaces.desk import SUMMARY

from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.errors import StoreUnavailable
from everturn.gateway.bodies import drop_thinking
from everturn.gateway.limits import Limits
from everturn.gateway.tenants import MAX_COUNT_BYTES, ClientRequest, NotUnderstood
from everturn.gateway.tokens import add_token, load_tokens
from everturn.gateway.values import Timing
from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin
from everturn.twin.service import Twin

PATH = "/v1/messages/count_tokens"
SMALL = {"window": 40_000, "max_tokens": 2000, "notes.enabled": False}
COUNTED = reply(b'{ "input_tokens" : 7 }', "200 OK", "request-id: req_7")
REFUSAL = b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}'
REFUSED = reply(REFUSAL, "400 Bad Request", "request-id: req_8")
NEXT = {"role": "user", "content": "Go on."}
# Not as a library would write it.
LIST = b'[ {"role":"user" ,"content":"Who are you?"} ]'
OWN = b'{ "model" : "%b", "messages": %b, "zzz": 1.50 }' % (MODEL.encode(), LIST)


@pytest.fixture
def twin() -> Twin:
    return build_twin(clock="real")


@pytest.fixture
def url(twin: Twin) -> Iterator[str]:
    with serve_twin(twin) as address:
        yield address


def talk(lab: Lab, questions: int = 14, session: str = "", agent: str = "") -> Client:
    """A client that was compacted, whose list ends with a question."""
    client = Client(lab, session, agent, model=MODEL, max_tokens=2000)
    for number in range(questions):
        client.ask(f"Question {number}: " + f"word{number} " * 2_000)
    lab.settle()
    client.messages.append(NEXT)
    return client


def count(client: Client, **changes: Any) -> Reply:
    fields = {"model": MODEL, "system": client.fields["system"], "messages": client.messages, **changes}
    return client.lab.ask(fields, path=f"{PATH}?beta=true", headers=client.headers)


def tokens(found: Reply) -> int:
    assert found.status == 200, found.body
    return json.loads(found.body)["input_tokens"]


def prompt_of_last_call(twin: Twin) -> int:
    usage = twin.ledger()[-1]["usage"]
    return sum(
        usage[name] for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )


def read_files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def conversations(lab: Lab) -> list[TrackedConversation]:
    return list(lab.gateway.tenants.find("local").tracker)


@pytest.mark.spec("GW-3")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_count_after_a_compaction_is_that_of_the_request_that_follows(
    lab: OpenLab, twin: Twin, url: str, restarts: bool
):
    running = lab(url, mode="manage", overrides=SMALL)
    client = talk(running, session="s1")
    # The API refuses the client's own list.
    assert running.gateway.tenants.bill.parts["compact"].calls > 0
    own = running.ask({"model": MODEL, "messages": client.messages}, path=PATH, address=url)
    assert own.status == 400
    if restarts:
        for each in conversations(running):
            running.gateway.tenants.find("local").tracker.evict(each, even_awaiting=True)
        assert conversations(running) == []
    found = count(client)
    assert found.headers["x-everturn-mode"] == "manage"
    assert "x-everturn-note" not in found.headers
    client.ask()
    assert tokens(found) == prompt_of_last_call(twin)


def test_a_count_records_nothing_and_costs_nothing(lab: OpenLab, url: str):
    running = lab(url, mode="manage", overrides=SMALL)
    client = talk(running)

    def take_state() -> Any:
        metrics = running.gateway.metrics
        return (
            read_files(running.folder),
            [(each.id, len(each.records), each.users) for each in conversations(running)],
            running.gateway.tenants.bill,
            running.gateway.tenants.find("local").tracker.unsupported,
            (metrics.calls, metrics.saved, dict(metrics.passed_through), dict(metrics.degradations)),
        )

    before = take_state()
    tokens(count(client))
    client.messages = [*client.messages[:-3], {"role": "user", "content": "Another question."}]
    tokens(count(client))
    tokens(count(client, messages=[NEXT]))
    running.settle()
    assert take_state() == before


def test_a_first_count_makes_no_file(lab: OpenLab):
    running = lab(RawUpstream(COUNTED), mode="manage")
    assert running.ask(OWN, path=PATH).status == 200
    running.settle()
    assert read_files(running.folder) == {}
    assert conversations(running) == []


def test_thinking_that_was_bound_elsewhere_is_not_counted(lab: OpenLab, url: str):
    client = talk(lab(url, mode="manage", overrides=SMALL))
    managed = tokens(count(client))
    client.lab = lab(url, "elsewhere", mode="manage", overrides=SMALL)
    found = count(client)
    assert tokens(found) > managed
    assert found.headers["x-everturn-note"] == "counted without thinking"


@pytest.mark.spec("GW-10")
def test_each_session_counts_its_own_conversation(lab: OpenLab):
    """Equal lists. That of the second session was compacted."""

    def answer(connection: Connection, seen: Seen) -> None:
        if PATH in seen.line:
            connection.send(COUNTED)
        elif is_summary(seen):
            connection.send(reply(json.dumps(message(SUMMARY, "msg_summary")).encode()))
        elif seen.header("x-claude-code-session-id") == "s2" and len(seen.body) > 80_000:
            connection.send(reply(TOO_LONG, "400 Bad Request"))
        else:
            connection.send(reply(json.dumps(message()).encode()))

    upstream = RawUpstream(answer)
    running = lab(upstream, mode="manage", overrides={"notes.enabled": False})
    sent = body_of(12)
    sessions = [{"x-claude-code-session-id": each} for each in ("s1", "s2")]
    for headers in sessions:
        assert running.ask(sent, headers=headers).status == 200
        running.settle()
    said = [*sent["messages"], {"role": "assistant", "content": "Hello."}, NEXT]
    texts = []
    for headers in sessions:
        running.ask({"model": MODEL, "messages": said}, path=PATH, headers=headers)
        texts.append(upstream.seen[-1].body.decode())
    assert ["Read part 0." in each for each in texts] == [True, False]
    assert ["Go on." in each for each in texts] == [True, True]


@pytest.mark.spec("GW-10")
def test_each_tenant_counts_its_own_conversations(lab: OpenLab, tmp_path: Path):
    names = ("team-a", "team-b")
    tokens = [add_token(tmp_path / "tokens.json", name, "", name[-1] * 43) for name in names]
    upstream = answering(COUNTED, COUNTED)
    running = lab(upstream, mode="manage", tokens=load_tokens(tmp_path / "tokens.json"))
    said = known_list(running, {"x-everturn-token": tokens[0]})
    body = json.dumps({"model": MODEL, "messages": said}, indent=1).encode()
    for token in tokens:
        assert running.ask(body, path=PATH, headers={"x-everturn-token": token}).status == 200
    assert [each.body == body for each in upstream.seen[1:]] == [False, True]


@pytest.mark.spec("GW-3")
def test_observe_mode_relays_the_same_bytes(lab: OpenLab):
    upstream = RawUpstream(COUNTED)
    running = lab(upstream, mode="manage")
    for body in (OWN, b"no JSON"):
        found = running.ask(body, path=f"{PATH}?beta=true", headers={"x-everturn-mode": "observe"})
        assert (found.status, found.body) == (200, b'{ "input_tokens" : 7 }')
        assert found.headers["x-everturn-mode"] == "observe"
        assert "x-everturn-note" not in found.headers
        assert (upstream.seen[-1].line, upstream.seen[-1].body) == (f"POST {PATH}?beta=true HTTP/1.1", body)


@pytest.mark.spec("GW-4")
@pytest.mark.parametrize(
    ("body", "note"),
    [
        pytest.param(OWN, None, id="an unknown list"),
        pytest.param(b"no JSON", "counted as it came: it is not JSON", id="no JSON"),
        pytest.param(b"[1]", "counted as it came: it is not a JSON object", id="no object"),
        pytest.param(b'{"model": 1}', "counted as it came: it is not supported", id="no list"),
        pytest.param(b'{"model": "', "counted as it came: it is not JSON", id="cut off"),
        pytest.param(
            b'{"messages":%b%b}' % (b"[" * 5_000, b"]" * 5_000),
            "counted as it came: its JSON is nested too deep",
            id="deep",
        ),
        pytest.param(
            OWN.replace(b'"zzz": 1.50', b'"thread": {"type": "begin"}'),
            "counted as it came: it counts in a thread",
            id="a thread",
        ),
    ],
)
def test_what_is_not_known_is_counted_as_it_came(lab: OpenLab, body: bytes, note: str | None):
    upstream = RawUpstream(COUNTED)
    running = lab(upstream, mode="manage")
    sent = {"anthropic-beta": "future-1", "accept-encoding": "br, zstd", "x-new": "1"}
    found = running.ask(body, path=f"{PATH}?beta=true", headers=sent)
    assert (found.status, found.body) == (200, b'{ "input_tokens" : 7 }')
    assert (found.headers["request-id"], found.headers.get("x-everturn-note")) == ("req_7", note)
    [seen] = upstream.seen
    assert (seen.line, seen.body) == (f"POST {PATH}?beta=true HTTP/1.1", body)
    assert {name: seen.header(name) for name in sent} == sent
    assert running.gateway.metrics.passed_through == {}


def known_list(lab: Lab, headers: dict[str, str] | None = None) -> list[Any]:
    """A list that the gateway has seen, with thinking in it."""
    thinking = {"type": "thinking", "thinking": "Who asks?", "signature": "c2lnbmVk"}
    first = json.loads(LIST)
    found = lab.ask({"model": MODEL, "max_tokens": 100, "messages": first}, headers=headers)
    assert found.status == 200
    lab.settle()
    return [*first, {"role": "assistant", "content": [thinking, {"type": "text", "text": "I am."}]}, NEXT]


def answering(*counts: bytes) -> RawUpstream:
    """An upstream that answers requests with thinking, and counts with these."""
    left = list(counts)
    content = [
        {"type": "thinking", "thinking": "Who asks?", "signature": "c2lnbmVk"},
        {"type": "text", "text": "I am."},
    ]
    made = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": content,
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip

    def answer(connection: Connection, seen: Seen) -> None:
        is_count = PATH in seen.line
        connection.send(left.pop(0) if is_count else reply(json.dumps(made).encode()))

    return RawUpstream(answer)


def sent_kinds(seen: Seen) -> list[str]:
    return [block["type"] for block in json.loads(seen.body)["messages"][1]["content"]]


def test_a_refused_count_is_sent_without_thinking_and_then_as_it_came(lab: OpenLab):
    upstream = answering(REFUSED, COUNTED, REFUSED, REFUSED, REFUSED)
    running = lab(upstream, mode="manage")
    body = json.dumps({"model": MODEL, "messages": known_list(running)}, indent=1).encode()
    found = running.ask(body, path=PATH)
    assert (found.status, found.body) == (200, b'{ "input_tokens" : 7 }')
    assert found.headers["x-everturn-note"] == "counted without thinking"
    assert list(map(sent_kinds, upstream.seen[1:])) == [["thinking", "text"], ["text"]]
    found = running.ask(body, path=PATH)
    assert (found.status, found.body, found.headers["request-id"]) == (400, REFUSAL, "req_8")
    assert "x-everturn-note" not in found.headers
    assert list(map(sent_kinds, upstream.seen[3:])) == [
        ["thinking", "text"],
        ["text"],
        ["thinking", "text"],
    ]
    assert [each.body == body for each in upstream.seen[3:]] == [False, False, True]


def test_a_refused_list_that_is_not_known_is_not_sent_twice(lab: OpenLab):
    upstream = RawUpstream(REFUSED)
    found = lab(upstream, mode="manage").ask(OWN, path=PATH)
    assert (found.status, found.body, found.headers["request-id"]) == (400, REFUSAL, "req_8")
    assert [each.body == OWN for each in upstream.seen] == [True, False]
    other = OWN.replace(MODEL.encode(), b"claude-haiku-4-5")
    upstream = RawUpstream(REFUSED)
    assert lab(upstream, mode="manage").ask(other, path=PATH).status == 400
    assert [each.body for each in upstream.seen] == [other]


@pytest.mark.spec("GW-6")
@pytest.mark.parametrize("status", ["429 Too Many Requests", "529 Overloaded", "500 Internal Server Error"])
def test_other_errors_are_relayed_and_not_tried_again(lab: OpenLab, status: str):
    upstream = answering(reply(b'{ "error": 1 }', status, "retry-after: 9"))
    running = lab(upstream, mode="manage")
    found = running.ask({"model": MODEL, "messages": known_list(running)}, path=PATH)
    assert (found.status, found.body) == (int(status[:3]), b'{ "error": 1 }')
    assert found.headers["retry-after"] == "9"
    assert len(upstream.seen) == 2


def test_a_compressed_count_keeps_the_bytes_of_its_other_fields(lab: OpenLab):
    upstream = answering(COUNTED)
    running = lab(upstream, mode="manage")
    messages = json.dumps(known_list(running), indent=1).encode()
    text = b'{ "model" : "%b", "messages": %b, "zzz": {"a" : 1.50, "b":12345678901234567890123}}'
    packed = gzip.compress(text % (MODEL.encode(), messages))
    assert running.ask(packed, path=PATH, headers={"content-encoding": "gzip"}).status == 200
    seen = upstream.seen[-1]
    assert seen.header("content-encoding") is None
    assert seen.body.endswith(b',"zzz":{"a" : 1.50, "b":12345678901234567890123}}')
    assert [each["role"] for each in json.loads(seen.body)["messages"]] == ["user", "assistant", "user"]


def test_compressed_bodies_that_cannot_be_read_are_relayed(lab: OpenLab):
    upstream = RawUpstream(COUNTED)
    running = lab(upstream, mode="manage")
    for encoding, why in (
        ("br", "its content-encoding br cannot be read"),
        ("gzip", "its compressed content is damaged"),
    ):
        found = running.ask(OWN, path=PATH, headers={"content-encoding": encoding})
        assert found.headers["x-everturn-note"] == f"counted as it came: {why}"
        seen = upstream.seen[-1]
        assert (seen.body, seen.header("content-encoding")) == (OWN, encoding)


@pytest.mark.spec("GW-20")
def test_counts_have_the_limits_of_messages(lab: OpenLab):
    upstream = RawUpstream(COUNTED)
    running = lab(upstream, mode="manage", limits=Limits(body_bytes=200, decompressed_bytes=300, messages=1))
    packed = gzip.compress(b" " * 1_000)
    assert running.ask(b" " * 201, path=PATH).status == 413
    assert running.ask(packed, path=PATH, headers={"content-encoding": "gzip"}).status == 413
    assert upstream.seen == []
    two = {"model": MODEL, "messages": [NEXT, NEXT]}
    found = running.ask(two, path=PATH)
    assert found.headers["x-everturn-note"] == "counted as it came: it has more messages than the limit"
    assert json.loads(upstream.seen[-1].body) == two


@pytest.mark.spec("GW-9")
def test_a_count_does_not_wait_long_for_a_conversation_that_somebody_works_on(lab: OpenLab):
    upstream = answering(*[COUNTED] * 100)
    running = lab(upstream, mode="manage", timing=Timing(session=10.0, prepare=60.0, count=0.1))
    body = json.dumps({"model": MODEL, "messages": known_list(running)}, indent=1).encode()
    [tracked] = conversations(running)
    with tracked.lock.acquire():
        for _ in range(8):
            found = running.ask(body, path=PATH)
            assert (found.status, found.headers["x-everturn-mode"]) == (200, "observe")
            assert found.headers["x-everturn-note"] in (
                "counted as it came: its conversation is busy",
                "counted as it came: it could not be prepared in time",
            )
            assert upstream.seen[-1].body == body
        # Threads do not go on waiting after that: a summary may take minutes.
        workers = [each for each in threading.enumerate() if each.name.startswith("everturn-gateway-")]
        assert len(workers) < 5
    assert sum(running.gateway.metrics.degradations.values()) == 8
    wait_until(lambda: running.ask(body, path=PATH).headers["x-everturn-mode"] == "manage")
    assert upstream.seen[-1].body != body


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (StoreUnavailable("down"), "the store does not answer"),
        (RuntimeError("broken"), "everturn failed"),
        (TimeoutError(), "everturn failed"),
    ],
)
def test_a_count_is_relayed_as_it_came_if_everturn_fails(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch, problem: Exception, why: str
):
    def fail(*_: Any, **__: Any) -> None:
        raise problem

    upstream = RawUpstream(COUNTED)
    running = lab(upstream, mode="manage")
    monkeypatch.setattr(running.gateway.tenants.find("local").tracker, "plan_count", fail)
    found = running.ask(OWN, path=PATH)
    assert (found.status, found.headers["x-everturn-mode"]) == (200, "observe")
    assert found.headers["x-everturn-note"] == f"counted as it came: {why}"
    assert [each.body for each in upstream.seen] == [OWN]
    assert running.gateway.metrics.degradations == {f"a list was counted as it came: {why}": 1}


def test_the_event_loop_never_plans_a_count(lab: OpenLab, monkeypatch: pytest.MonkeyPatch):
    running = lab(RawUpstream(COUNTED), mode="manage")
    names: list[str] = []
    tracker = running.gateway.tenants.find("local").tracker
    monkeypatch.setattr(tracker, "plan_count", lambda *_, **__: names.append(threading.current_thread().name))
    running.ask(OWN, path=PATH)
    assert [name.startswith("everturn-gateway-") for name in names] == [True]


@pytest.mark.spec("GW-9")
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_list_that_a_busy_conversation_cannot_count_is_counted_without_thinking_after_a_refusal(
    lab: OpenLab, is_packed: bool
):
    upstream = answering(REFUSED, COUNTED, REFUSED, REFUSED)
    running = lab(upstream, mode="manage", timing=Timing(session=10.0, prepare=60.0, count=0.5))
    said = known_list(running)
    body = json.dumps({"zzz": 1.50, "model": MODEL, "messages": said}, indent=1).encode()
    sent = gzip.compress(body) if is_packed else body
    [tracked] = conversations(running)
    with tracked.lock.acquire():
        found, refused = (
            running.ask(sent, path=PATH, headers={"content-encoding": "gzip"} if is_packed else {})
            for _ in range(2)
        )
    assert (found.status, found.body, found.headers["x-everturn-mode"]) == (
        200, b'{ "input_tokens" : 7 }', "observe",
    )  # fmt: skip
    assert found.headers["x-everturn-note"] in (
        "counted as it came: its conversation is busy; counted without thinking",
        "counted as it came: it could not be prepared in time; counted without thinking",
    )
    assert (refused.status, refused.body) == (400, REFUSAL)
    own, changed = upstream.seen[1:3]
    assert (own.body, changed.header("content-encoding")) == (sent, None)
    without = {**said[1], "content": said[1]["content"][1:]}
    assert json.loads(changed.body) == {"zzz": 1.50, "model": MODEL, "messages": [said[0], without, said[2]]}
    assert [each.body for each in upstream.seen[3:]] == [sent, changed.body]


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        pytest.param('[ {"role":"user","content":"thinking\\""} ]', None, id="a word"),
        pytest.param('[{"role":"a","content":[{"type":"thinking"}]}]', None, id="nothing else"),
        pytest.param('["thinking", 1]', None, id="no messages"),
        pytest.param(
            '[{"content" : 1.50}, {"content":[{"type":"redacted_thinking"},{"type":"text"}]}]',
            '[{"content" : 1.50},{"content":[{"type":"text"}]}]',
            id="one of two",
        ),
    ],
)
def test_thinking_is_dropped_and_all_other_bytes_stay(messages: str, kept: str | None):
    body = f'{{ "messages" : {messages}, "zzz": 1.50 }}'.encode()
    expected = None if kept is None else f'{{"messages":{kept},"zzz":1.50}}'.encode()
    assert drop_thinking(body) == expected


@pytest.mark.spec("GW-20")
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
def test_a_count_that_is_too_large_is_relayed_as_it_came_and_not_planned(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch, is_packed: bool
):
    upstream = RawUpstream(COUNTED)
    running = lab(upstream, mode="manage")
    planned: list[Any] = []
    monkeypatch.setattr(
        running.gateway.tenants.find("local").tracker, "plan_count", lambda *_, **__: planned.append(1)
    )
    body = OWN + b" " * MAX_COUNT_BYTES
    sent = gzip.compress(body) if is_packed else body
    found = running.ask(sent, path=PATH, headers={"content-encoding": "gzip"} if is_packed else {})
    assert (found.status, found.headers["x-everturn-mode"]) == (200, "observe")
    assert found.headers["x-everturn-note"] == "counted as it came: it is too large"
    assert ([each.body == sent for each in upstream.seen], planned) == ([True], [])


@pytest.mark.spec("GW-9", "GW-20")
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
def test_counts_are_planned_within_a_budget_and_those_that_do_not_fit_in_time_are_relayed(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch
):
    upstream = RawUpstream(COUNTED)
    running = lab(upstream, mode="manage", timing=Timing(count=0.3))
    may_end, planned = threading.Event(), list[int]()

    def plan(*_: Any, **__: Any) -> None:
        planned.append(1)
        may_end.wait(20)

    monkeypatch.setattr(running.gateway.tenants.find("local").tracker, "plan_count", plan)
    large = OWN + b" " * (MAX_COUNT_BYTES // 2)
    replies: list[Reply] = []
    asking = [threading.Thread(target=lambda: replies.append(running.ask(large, path=PATH))) for _ in "1234"]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    # The first one keeps its room when nobody waits for it any more.
    assert [(each.status, each.headers["x-everturn-note"]) for each in replies] == [
        (200, "counted as it came: it could not be prepared in time")
    ] * 4
    assert planned == [1]
    may_end.set()
    wait_until(lambda: running.ask(OWN, path=PATH).headers["x-everturn-note"].endswith("it is not supported"))
    assert [each.body == large for each in upstream.seen[:4]] == [True] * 4


def test_a_count_that_nobody_waits_for_any_more_is_given_up_before_its_next_step(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch
):
    running = lab(RawUpstream(COUNTED), mode="manage")
    found = running.gateway.tenants.find("local")
    planned: list[Any] = []
    monkeypatch.setattr(found.tracker, "plan_count", lambda *_, **__: planned.append(1))
    given = ClientRequest(OWN, "", (), "")
    late = NotUnderstood("it could not be prepared in time", is_failure=True)
    assert found.plan_count(given, time.monotonic() - 1) == late
    assert planned == []
    assert found.plan_count(given, time.monotonic() + 60) == NotUnderstood("it is not supported")
