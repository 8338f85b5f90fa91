"""After a compaction the next request is accepted, whatever changes with it; and if not, the compaction is
undone (CP-38)."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import anthropic
import pytest
from surfaces.desk import HAIKU, Desk, Json, call, result, text, tool, words
from surfaces.random_compactions import RandomCaller, RandomSession, drop_replies
from surfaces.test_newest_message import Caller, document, fill

from everturn import Session, UpstreamError, UsageError
from everturn.decide.events import CompactionNotDone
from everturn.measure.model_table import add_models
from everturn.session.upstream import RawResponse
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

NAMES = ("Read", "Grep", "Bash")
SYSTEM = [text("You are an agent."), text("Be brief.")]
ENABLED = {"type": "enabled", "budget_tokens": 1_024}
WINDOW = 60_000
REFUSAL = "messages.1.content.0: something is wrong with it"
SEEDS = 400 if os.environ.get("EVERTURN_PROFILE") == "soak" else 16


def statuses(desk: Desk) -> set[int]:
    return {entry["status"] for entry in desk.twin.ledger}


def definitions(*names: str) -> list[Any]:
    return [tool(name).definition for name in names]


@pytest.fixture
def caller(desk, tmp_path):
    made = Caller(desk, tmp_path / "kept")
    yield made
    made.middleware.close()


# ── by chance ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-38")
@pytest.mark.moves_cache_prefix(reason="everything changes by chance, also in mid-session")
@pytest.mark.parametrize("kind", [RandomSession, RandomCaller])
def test_every_request_is_accepted_whatever_changes_with_it(tmp_path, kind):
    strategies: Counter[str] = Counter()
    for seed in range(SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        made = kind(seed, folder)
        made.run(10)
        refused = [entry["error"]["message"] for entry in made.twin.ledger if entry["status"] != 200]
        assert refused == [], seed
        strategies.update(event.way for event in made.events if type(event).__name__ == "CompactionDone")
        assert [event for event in made.events if type(event).__name__ == "PassedThrough"] == [], seed
    assert min(strategies[name] for name in ("fork", "direct", "extractive", "provider")) > 0, strategies


# ── changes in the request in which compaction is due ────────────────────────────────────────────


@pytest.mark.spec("CP-38")
@pytest.mark.moves_cache_prefix(reason="tools and system blocks are taken away in mid-session")
@pytest.mark.parametrize(
    "change",
    [{"tools": definitions("Read")}, {"system": SYSTEM[:1]}, {"tools": [], "system": []}],
    ids=["fewer tools", "fewer system blocks", "neither"],
)
def test_what_is_missing_from_the_request_in_which_compaction_is_due_does_not_matter(caller, change):
    usual: Json = {"tools": definitions(*NAMES), "system": SYSTEM}
    caller.fill(24_000, **usual)
    caller.say(document(6_000), **usual)
    caller.fill(24_000, **usual)
    caller.say(document(6_000), **{**usual, **change})
    caller.say("And now?", **usual)
    assert len(caller.desk.heard("CompactionDone")) == 2
    assert caller.desk.heard("PassedThrough") == []
    assert statuses(caller.desk) == {200}


@pytest.mark.spec("CP-38")
@pytest.mark.moves_cache_prefix(reason="another model has a cache of its own")
def test_another_model_in_the_request_in_which_compaction_is_due_is_asked_with_its_own_parameters(caller):
    caller.fill(22_000, model="claude-opus-5", thinking={"type": "adaptive"})
    caller.say(document(5_000), model=HAIKU, thinking=ENABLED)
    (made,) = caller.desk.heard("CompactionDone")
    assert (made.way, made.attempts) == ("fork", 2)
    assert statuses(caller.desk) == {200}
    (event,) = caller.desk.heard("SummaryUncached")
    assert event.why == f"{HAIKU} has not seen this conversation before"


# ── tool loops in thinking mode `enabled` ────────────────────────────────────────────────────────


def loop_replies(times: int) -> list[Json]:
    """A loop whose first reply thinks, and no other."""
    replies = [{"content": [call(f"toolu_{n}", file_path=f"{n}.py")]} for n in range(times)]
    replies[0]["content"].insert(0, {"type": "thinking", "thinking": "Let me begin."})
    return replies


@pytest.mark.spec("CP-38")
@pytest.mark.parametrize("model", [HAIKU, "claude-opus-4-5"])
def test_a_session_goes_on_with_a_loop_whose_thinking_was_summarized(desk, model):
    drop_replies(desk.twin)
    desk.twin.script(*loop_replies(14), "All files were read.")
    read = tool("Read", lambda given: "line of code\n" * 800)
    options: Json = {"model": model, "tools": [read], "thinking": ENABLED, "window": WINDOW}
    with desk.open(**options) as session:
        assert session.send("Go through all files.").text == "All files were read."
    assert len(desk.heard("CompactionDone")) >= 1
    assert "[Called Read; what came back follows]" in words(desk.bodies[-1])
    drop_replies(desk.twin)
    desk.twin.script("That is all.")
    with desk.open(**options) as session:
        assert session.send("What now?").text == "That is all."
    assert statuses(desk) == {200}


def test_with_thinking_an_answered_conversation_is_not_sent_again_as_it_is(desk):
    """A model with prefill goes on with its own words only while it does not think."""
    with desk.open(thinking=ENABLED) as session:
        desk.twin.script({"content": [{"type": "thinking", "thinking": "hm"}, text("Well.")]})
        session.send("Hello.")
        with pytest.raises(UsageError, match="already answered"):
            session.send()
    assert statuses(desk) == {200}


@pytest.mark.spec("CP-38")
def test_the_middleware_goes_on_with_a_loop_whose_thinking_was_summarized(caller):
    said: Any = "Go through all files."
    for reply in loop_replies(14):
        answer = caller.say(said, reply, thinking=ENABLED)
        said = [
            result(block.id, "line of code\n" * 800) for block in answer.content if block.type == "tool_use"
        ]
    caller.say(said, "All files were read.", thinking=ENABLED)
    assert len(caller.desk.heard("CompactionDone")) >= 1
    assert "[Called Read; what came back follows]" in words(caller.desk.bodies[-1])
    assert caller.desk.heard("PassedThrough") == []
    assert statuses(caller.desk) == {200}


# ── summary calls are accepted, and read the cache ───────────────────────────────────────────────


def of_summary(desk: Desk) -> Json:
    """The ledger's entry of the last request for a summary."""
    asked = [at for at, body in enumerate(desk.bodies) if "<summary>" in words(body)]
    return desk.twin.ledger[asked[-1]]


def is_warm(entry: Json) -> bool:
    usage = entry["usage"]
    return usage["cache_read_input_tokens"] > 10 * (usage["input_tokens"] + 1)


@pytest.mark.spec("PC-12")
@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "after a restart"])
def test_a_fork_reads_the_cache_also_after_a_restart(caller, restarts):
    caller.fill(25_000)
    if restarts:
        caller.restart()
    caller.say(document(4_000))
    assert is_warm(of_summary(caller.desk))
    assert caller.desk.heard("SummaryUncached") == []


def _compact(desk: Desk, session: Session, **options: Any) -> Session:
    session.compact()
    return session


def _reopen(desk: Desk, session: Session, **options: Any) -> Session:
    session.close()
    return _compact(desk, desk.open(**options))


def _reopen_without_tools(desk: Desk, session: Session, **options: Any) -> Session:
    session.close()
    return _compact(desk, desk.open(**{**options, "tools": []}))


def _undo(desk: Desk, session: Session, **options: Any) -> Session:
    session.compact()
    desk.twin.script("Well.")
    session.send("More.")
    session.undo()
    return _compact(desk, session)


CASES = {"same process": _compact, "reopened": _reopen, "undone": _undo}


@pytest.mark.spec("CP-38", "PC-12")
@pytest.mark.parametrize(
    "act", [*CASES.values(), _reopen_without_tools], ids=[*CASES, "reopened, other tools"]
)
def test_with_bound_thinking_a_fork_is_accepted_whatever_came_before_it(desk, act):
    read = tool("Read", lambda given: "line of it\n" * 60)
    options: Json = {"model": "claude-opus-5-5", "tools": [read]}
    session = desk.open(**options)
    for n in range(6):
        thought = {"type": "thinking", "thinking": f"Thought {n}."}
        desk.twin.script({"content": [thought, call(f"toolu_{n}", file_path=f"{n}.py")]}, f"Read {n}.")
        session.send(f"Read file {n}. " + "log line " * 300)
    drop_replies(desk.twin)
    session = act(desk, session, **options)
    desk.twin.script("Well.")
    session.send("Go on.")
    session.close()
    assert statuses(desk) == {200}
    assert {event.way for event in desk.heard("CompactionDone")} == {"fork"}
    assert is_warm(of_summary(desk)) == (act in CASES.values())
    assert bool(desk.heard("SummaryUncached")) == (act not in CASES.values())


@pytest.mark.spec("PC-12", "TL-1")
def test_a_fork_that_reads_little_says_why(desk):
    with desk.open() as session:
        desk.talk(session, 3, size=300)
        drop_replies(desk.twin)
        desk.twin.advance(301)
        session.compact()
    (event,) = desk.heard("SummaryUncached")
    assert (event.read, event.why) == (0, EXPIRED.replace("310", "301"))
    assert event.prompt > 8_000


@pytest.mark.spec("PC-12", "TL-1")
@pytest.mark.moves_cache_prefix(reason="the tools are others after the restart")
def test_a_fork_after_a_restart_with_other_tools_names_them(desk):
    """What the last process sent before its messages is not kept, so nobody can read its entries."""
    with desk.open(tools=[tool("Read")]) as session:
        desk.talk(session, 3, size=300)
    with desk.open(tools=[tool("Read"), tool("Write")]) as session:
        session.compact()
    (event,) = desk.heard("SummaryUncached")
    assert (event.read, event.why) == (0, "since the restart: tools changed (+1/-0): +Write")


EXPIRED = "the cache had probably expired: the last known call that shares it was 310 s ago"
LOST = "the provider no longer had the entries of the last request"
FORGETS = f"{HAIKU} keeps the thinking of a tool loop only until the next question"
REMOVED = f"thinking of the last request was removed: {HAIKU} uses only the thinking of the last turn"


@pytest.mark.spec("PC-12", "TL-1")
@pytest.mark.parametrize(
    ("thinks_in", "newest", "why"),
    [
        ((), "a result", LOST),
        ((), "a question", LOST),
        ((0,), "a result", FORGETS),
        ((0,), "a question", REMOVED),
        # The newest reply was in no request: that its thinking is left out changes no prefix.
        ((6,), "a result", LOST),
        ((7,), "a question", LOST),
    ],
    ids=str,
)
def test_thinking_is_only_blamed_for_an_uncached_summary_if_the_last_request_had_it(
    caller, thinks_in, newest, why
):
    """A tool loop of seven calls and an answer, whose entries the provider loses."""
    said: Any = "Go through all files."
    for number in range(8):
        thought = {"type": "thinking", "thinking": "Let me see."} if number in thinks_in else None
        spoken = call(f"toolu_{number}", file_path=f"{number}.py") if number < 7 else text("Done.")
        if number == 7 and newest == "a result":
            break
        caller.say(said, {"content": [block for block in (thought, spoken) if block]})
        said = [result(f"toolu_{number}", "line of code\n" * 800)] if number < 7 else "And now?"
    caller.desk.twin.faults("lost_cache")
    if newest == "a result":
        caller.say([result("toolu_6", document(8_000))])
    else:
        caller.say("And now? " + document(6_000))
    assert [event.why for event in caller.desk.heard("SummaryUncached")] == [why]


@pytest.mark.spec("PC-12", "TL-1")
@pytest.mark.parametrize(
    ("pause", "fault", "whys"),
    [
        (110, [], []),
        (110, ["lost_cache"], [LOST]),
        (310, [], [EXPIRED]),
    ],
    ids=["warm", "lost", "expired"],
)
def test_a_fork_whose_summary_reads_little_counts_the_calls_of_its_parent(caller, pause, fault, whys):
    caller.fill(22_000)
    before = list(caller.messages)
    caller.desk.twin.advance(200)
    caller.say("And this?")
    caller.desk.twin.advance(pause)
    caller.desk.twin.faults(*fault)
    caller.messages = before
    caller.say("Something else. " + document(9_000))
    assert len(caller.middleware.conversations) == 2
    assert [event.way for event in caller.desk.heard("CompactionDone")] == ["fork"]
    assert [event.why for event in caller.desk.heard("SummaryUncached")] == whys


@pytest.mark.spec("PC-12", "TL-1")
@pytest.mark.moves_cache_prefix(reason="the other worker may have tools of its own")
@pytest.mark.parametrize(
    ("more", "why"), [({}, LOST), ({"tools": []}, EXPIRED)], ids=["same tools", "others"]
)
def test_a_worker_counts_the_calls_of_another_one_that_share_its_cache(caller, more, why):
    other = Caller(caller.desk, caller.folder)
    caller.fill(22_000)
    caller.desk.twin.advance(200)
    other.messages = caller.messages
    other.say("And this?", **more)
    caller.desk.twin.advance(110)
    caller.desk.twin.faults("lost_cache")
    caller.say("Something else. " + document(9_000))
    assert [event.why for event in caller.desk.heard("SummaryUncached")] == [why]
    other.middleware.close()


@pytest.mark.spec("CP-34")
def test_without_a_transcript_none_is_promised(desk):
    caller = Caller(desk, None)
    caller.fill(25_000)
    caller.say(document(4_000))
    sent = words(desk.bodies[-1])
    assert "read the transcript" not in sent
    assert "in this process only: no transcript is kept" in sent
    caller.middleware.close()


# ── a refused view ───────────────────────────────────────────────────────────────────────────────


def is_compacted(body: Any) -> bool:
    return "<session-summary>" in str(body)


class Refusing(anthropic.Middleware):
    """An API that does not accept compacted views, so many times."""

    def __init__(self, desk: Desk, times: int = 1) -> None:
        self.times = times
        self._client = desk.twin.client(max_retries=0)

    def refuses(self, body: Any) -> bool:
        self.times -= is_compacted(body)
        return is_compacted(body) and self.times >= 0

    def handle(self, request: Any, call_next: Any) -> Any:
        return call_next(_broken(request) if self.refuses(request.json) else request)

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        return await call_next(_broken(request) if self.refuses(request.json) else request)


def _broken(request: Any) -> Any:
    """What the twin refuses with 400, and not for its length."""
    return request.copy(body={**request.json, "temperature": 7})


class MadeUpRefusal(UpstreamError):
    """Not of the API: the request is a good one."""

    is_on_purpose = True

    def __init__(self) -> None:
        super().__init__(400, "invalid_request_error", REFUSAL)


def refusing(desk: Desk, times: int) -> tuple[Callable[[bytes, Sequence[str]], RawResponse], list[bool]]:
    """The same for a session: a `send`, and which requests it got, compacted or not."""
    send, seen = make_twin_send(desk.twin.twin), []

    def refuse(body: bytes, betas: Sequence[str]) -> RawResponse:
        seen.append(is_compacted(body))
        if seen[-1] and seen.count(True) <= times:
            raise MadeUpRefusal
        return send(body, betas)

    return refuse, seen


@pytest.mark.spec("CP-38", "CP-30")
def test_a_session_undoes_a_compaction_that_the_api_refuses_and_sends_the_last_accepted_view(desk):
    send, seen = refusing(desk, 1)
    drop_replies(desk.twin)
    with desk.open(window=WINDOW, client=None, send=send) as session:
        fill_until_due(desk, session)
        seen.clear()
        desk.twin.script("Well.")
        assert session.send("The question. " + document(3_000)).text == "Well."
        shown = [record for record in session.conversation.log.records if record.edit is not None]
        breaker = session.conversation.compaction_state.breaker
    # The fork, the refused request, and the accepted one.
    assert seen == [False, True, False]
    assert [type(record.edit).__name__ for record in shown] == ["Compacted", "Undone"]
    assert shown[-1].edit.why == f"the API refused the compacted view: {REFUSAL}"
    assert (breaker.failures, breaker.last) == (1, shown[-1].edit.why)
    (failed,) = (event for event in desk.events if isinstance(event, CompactionNotDone))
    assert (failed.reason, failed.detail) == ("view_refused", shown[-1].edit.why)


@pytest.mark.spec("CP-38", "CP-22")
def test_views_that_are_refused_again_and_again_open_the_breaker(desk):
    send, seen = refusing(desk, 9)
    drop_replies(desk.twin)
    with desk.open(window=WINDOW, client=None, send=send) as session:
        fill_until_due(desk, session)
        for n in range(5):
            desk.twin.script("Well.")
            assert session.send(f"Question {n}. " + document(100 if n else 3_000)).text == "Well."
    assert seen.count(True) == 3
    assert [event.breaker for event in desk.heard("BreakerOpened")] == ["failures"]


@pytest.mark.spec("CP-38")
def test_a_refused_view_whose_original_does_not_fit_is_summarized_whole(desk):
    """After "too long" the last accepted view is known not to fit: it is not sent again."""
    send, seen = refusing(desk, 1)
    drop_replies(desk.twin)
    with desk.open(window=WINDOW, client=None, send=send) as session:
        fill(desk, session, 10_000)
        desk.twin.faults("prompt_too_long")
        desk.twin.script("It fits now.")
        seen.clear()
        assert session.send("The question.").text == "It fits now."
        kinds = [type(each.edit).__name__ for each in session.conversation.log.records if each.edit]
        kept = session.conversation.log.view.stale
    # Too long, a fork, the refused view, another summary, and the accepted view.
    assert seen == [False, False, True, False, True]
    assert kinds == ["Compacted", "Undone", "Compacted"]
    assert kept == frozenset()


@pytest.mark.spec("CP-38")
@pytest.mark.moves_cache_prefix(reason="thinking is switched on in mid-session")
def test_a_fork_never_ends_in_a_tool_loop_that_was_sent_without_thinking_once_thinking_is_demanded(caller):
    desk = caller.desk
    caller.say("Read a.py. " + document(3_000), {"content": [call("toolu_1", file_path="a.py")]})
    caller.say([result("toolu_1", document(3_000))], "It says: " + document(600))
    drop_replies(desk.twin)
    # The last request that was answered ends with the result; now the API demands thinking before that.
    desk.twin.faults("prompt_too_long")
    assert caller.say("And b.py?", "There is none.", thinking=ENABLED).content[-1].text == "There is none."
    refused = [entry["error"]["message"] for entry in desk.twin.ledger if entry["status"] != 200]
    assert refused == ["prompt is too long: 200123 tokens > 200000 maximum"]
    assert [event.way for event in desk.heard("CompactionDone")] == ["fork"]


@pytest.mark.spec("CP-38")
def test_a_request_that_is_refused_without_a_compaction_is_not_changed(desk):
    asked = []

    def refuse(body: bytes, betas: Sequence[str]) -> RawResponse:
        asked.append(body)
        raise MadeUpRefusal

    with desk.open(client=None, send=refuse) as session, pytest.raises(UpstreamError, match="wrong with it"):
        session.send("Hello.")
    assert len(asked) == 1


def fill_until_due(desk: Desk, session: Session) -> None:
    fill_to = session.context().limits.auto - 2_500
    while session.context().size.tokens < fill_to:
        desk.twin.script("Well.")
        session.send(document(2_000))


@pytest.mark.spec("CP-38")
@pytest.mark.parametrize("how", ["sync", "async"])
def test_the_middleware_undoes_a_compaction_that_the_api_refuses(caller, how):
    caller.fill(25_000)
    desk = caller.desk
    chain = [caller.middleware, desk.recorder(), Refusing(desk)]
    desk.bodies.clear()
    question: Any = [*caller.messages, {"role": "user", "content": "The question. " + document(3_000)}]
    request: Json = {"model": HAIKU, "max_tokens": 4_000, "tools": definitions("Read"), "messages": question}
    drop_replies(desk.twin)
    desk.twin.script("Well.")
    if how == "sync":
        answer = desk.twin.client(middleware=chain, max_retries=0).messages.create(**request)
    else:
        chain = [caller.middleware, Refusing(desk)]
        client = desk.twin.async_client(middleware=chain, max_retries=0)
        answer = asyncio.run(client.messages.create(**request))
    assert answer.content[0].text == "Well."
    assert [entry["status"] for entry in desk.twin.ledger[-3:]] == [200, 400, 200]
    assert desk.heard("PassedThrough") == []
    assert [event.reason for event in desk.heard("CompactionNotDone")] == ["view_refused"]
    # The reply belongs to the same conversation.
    assert len(caller.middleware.conversations) == 1


@pytest.mark.spec("CP-38")
def test_a_list_that_is_known_to_be_too_long_is_never_sent_instead(desk, tmp_path):
    """Much was compacted and accepted. Then the API refuses every request: the caller gets that refusal."""
    caller = Caller(desk, tmp_path / "kept")
    for _ in range(12):
        caller.fill(24_000)
        caller.say(document(6_000))
    sizes = [len(str(message)) for message in caller.messages]
    assert sum(sizes) > 4 * WINDOW
    desk.bodies.clear()
    client = desk.twin.client(
        middleware=[caller.middleware, desk.recorder(), Refusing(desk, 9)], max_retries=0
    )
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(
            model=HAIKU, max_tokens=4_000, tools=definitions("Read"),
            messages=[*caller.messages, {"role": "user", "content": "And now?"}],
        )  # fmt: skip
    assert [len(body["messages"]) < len(caller.messages) for body in desk.bodies] == [True]
    caller.middleware.close()


@pytest.mark.spec("CP-26")
@pytest.mark.parametrize("policy", ["claude-code", "economic", "clear-keep-3"])
def test_an_agent_goes_on_in_a_window_whose_threshold_is_smaller_than_a_summary(tmp_path, policy):
    """A model of 8,000 tokens: compactions begin at 2,000, and a summary with its receipt has more."""
    read = tool("Read", lambda given: "word line\n" * 800)
    add_models({HAIKU: {"window": 8_000, "max_output": 4_000}})
    try:
        desk = Desk(tmp_path, TwinForTests())
        with desk.open(tools=[read], system="Be kind.", max_tokens=2_000, policy=policy) as session:
            for at in range(12):
                desk.twin.script({"content": [call(f"toolu_{at}", file_path=f"{at}.py")]}, f"Answer {at}.")
                assert session.send(f"Question {at}. " + "Look at it. " * 40).text == f"Answer {at}."
    finally:
        add_models({})
