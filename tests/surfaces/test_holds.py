"""Holds in sessions: who waits, what they cost, and what the first return tells (EC-1, EC-3, EC-11)."""

import asyncio
import json
import threading
from datetime import timedelta

import pytest
from scripted_twin import scripted_options
from surfaces.desk import RULES, Desk
from surfaces.test_economy import HOLDS, OPUS, SAYS, grow, speak, wait_for_calls

from everturn import AsyncSession
from everturn.engine.holds import PlannedHold
from everturn.session.hold_timers import VirtualTimer
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

VIRTUAL = {**OPUS, "economy": {"holds": True, "hold_share": 1.0}}


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "everturn"


@pytest.fixture
def losing_desk(tmp_path):
    """A provider whose entries of an hour die with the five-minute entries below them."""
    twin = TwinForTests(options=scripted_options(hour_survives_prefix=False))
    yield Desk(tmp_path, twin)
    twin.close()


def timer_of(desk):
    clock = desk.twin.twin.clock
    return VirtualTimer(clock.now, clock.set)


def kinds(session):
    return [each.label for each in session.context().decisions]


@pytest.mark.spec("EC-8")
def test_with_a_small_share_a_conversation_that_may_be_over_after_its_first_call_is_not_held(desk):
    timer = timer_of(desk)
    with desk.open(**OPUS, economy={"holds": True, "hold_share": 0.07}, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(200)
        for number in range(6):
            speak(desk, session, f"Question {number}.")
        timer.advance(2_000)
    assert "is above the limit of $" in desk.heard("CacheNotHeld")[0].why
    # Six calls later a hold is less than a twentieth of what was paid.
    assert [row["usage"]["output_tokens"] == 0 for row in desk.twin.ledger] == [False] * 7 + [True]


@pytest.mark.spec("EC-1")
def test_a_hold_and_its_terms_are_in_the_event_the_transcript_and_the_context(desk):
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(2_000)
        [held] = session.context().decisions
        cost = session.bill.parts["hold"].dollars
    [event] = desk.heard("CacheHeld")
    assert (held.kind, held.done, held.label) == ("hold", True, "held")
    assert held.why == event.why
    assert event.why == (
        f"held for ${cost:.3f}, expected saving ${held.expected:.3f}: 52% of pauses this long end within the "
        "hour"
    )
    assert (float(cost), event.usage.context) == (pytest.approx(held.cost), event.tokens)
    [line] = [each for each in desk.lines() if each.get("subtype") == "everturn_event"]
    assert line["everturnEvent"]["why"] == event.why
    printed = desk.everturn("context", desk.path, "--no-color").stdout
    assert f"Decided by price\n{event.why}\n" in printed
    told = json.loads(desk.everturn("context", desk.path, "--json").stdout)["decisions"]
    assert [(each["kind"], each["why"]) for each in told] == [("hold", event.why)]


@pytest.mark.spec("EC-1")
def test_a_decision_against_a_hold_has_its_numbers_and_is_told_once(desk):
    timer = timer_of(desk)
    with desk.open(
        **OPUS, economy={"holds": True, "hold_share": 1.0, "hold_dollars": 0.0}, hold_timer=timer
    ) as session:
        grow(desk, session, logs=1)
        speak(desk, session)
        timer.advance(2_000)
        [decision] = session.context().decisions
    [event] = desk.heard("CacheNotHeld")
    assert event.why.endswith("but not now: holds have cost $0.00 of $0.00")
    assert (decision.label, decision.done) == ("not held", False)
    assert decision.why.startswith(f"${decision.cost:.3f} to hold, expected saving ${decision.expected:.3f}")
    assert len(desk.twin.ledger) == 2


@pytest.mark.spec("EC-3")
def test_a_return_that_finds_nothing_makes_the_next_pauses_five_minute_refreshes(losing_desk, data_folder):
    desk = losing_desk
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(1_500)
        speak(desk, session)
        assert kinds(session) == ["held", "hold lost"]
        timer.advance(1_500)
        speak(desk, session)
    [checked] = desk.heard("HoldChecked")
    assert (checked.kept, checked.tokens_read) == (False, 0)
    held = [body for body in desk.bodies if body["max_tokens"] == 0]
    marks = [body["messages"][-2]["content"][-1]["cache_control"] for body in held]
    # In the second pause: while more than 8.7% of the pauses end within five minutes.
    assert marks == [{"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}, {"type": "ephemeral"}]
    remembered = json.loads((data_folder / "holds.json").read_text())["lost"]
    assert list(remembered) == ["anthropic"]
    assert list(remembered["anthropic"]) == ["claude-opus-4-5"]


@pytest.mark.spec("EC-3")
@pytest.mark.parametrize("damage", [None, "file", "state"])
def test_what_a_return_has_told_is_remembered_by_other_sessions_and_after_damage(
    losing_desk, data_folder, damage
):
    desk = losing_desk
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(1_500)
        speak(desk, session)
    if damage == "file":
        (data_folder / "holds.json").write_text('{"lost": {"anthropic": 5')
    if damage == "state":
        (desk.folder / "session.jsonl.state.json").unlink()
    if damage is None:
        desk.path = desk.folder / "other.jsonl"
    seen = len(desk.bodies)
    with desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(400)
    marks = [body["messages"][-2]["content"][-1]["cache_control"] for body in desk.bodies[seen + 1 :]]
    assert marks == [{"type": "ephemeral"}]


@pytest.mark.spec("EC-3")
def test_a_return_that_reads_the_prefix_confirms_the_hold_and_is_told_once(desk):
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        for _ in range(2):
            timer.advance(2_000)
            speak(desk, session)
        assert kinds(session) == ["held", "hold checked", "held"]
    [checked] = desk.heard("HoldChecked")
    assert checked.kept
    assert checked.tokens_read >= checked.tokens_held - 10


def test_a_return_within_five_minutes_of_the_hold_tells_nothing(losing_desk):
    timer = timer_of(losing_desk)
    with losing_desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(losing_desk, session, logs=1)
        timer.advance(500)
        speak(losing_desk, session)
    assert losing_desk.heard("HoldChecked") == []


@pytest.mark.spec("EC-11")
def test_the_holds_of_an_async_session_wait_in_a_task_and_end_with_it(desk):
    async def live():
        client = desk.twin.client(middleware=[desk.recorder()], max_retries=0)
        async with await AsyncSession.open(
            desk.path, client=client, system=RULES, clock=desk.twin.twin.clock.now, **OPUS, economy=HOLDS
        ) as session:
            desk.twin.script("Seen.")
            await session.send("Log: " + SAYS * 2_300)
            waiting = [task for task in asyncio.all_tasks() if "_sleep" in repr(task)]
            assert len(waiting) == 1
            await asyncio.to_thread(wait_for_calls, desk, 2)
            desk.twin.script("Yes.")
            await session.send("Go on.")
        seen = len(desk.twin.ledger)
        await asyncio.sleep(0.1)
        return seen, session.bill.parts["hold"].calls

    seen, holds = asyncio.run(live())
    assert len(desk.twin.ledger) == seen
    assert holds == sum(body["max_tokens"] == 0 for body in desk.bodies)


@pytest.mark.spec("EC-11")
def test_the_event_loop_of_an_async_session_ends_while_a_hold_waits_for_its_answer(desk):
    send, is_sent, may_answer = make_twin_send(desk.twin.twin), threading.Event(), threading.Event()
    answered_in_time = []

    def send_slowly(body, betas):
        if json.loads(body)["max_tokens"] == 0:
            is_sent.set()
            answered_in_time.append(may_answer.wait(10))
        return send(body, betas)

    async def live():
        async with await AsyncSession.open(
            desk.path, send=send_slowly, system=RULES, clock=desk.twin.twin.clock.now, **OPUS, economy=HOLDS
        ) as session:
            desk.twin.script("Seen.")
            await session.send("Log: " + SAYS * 2_300)
            while not is_sent.is_set():
                await asyncio.sleep(0.01)

    asyncio.run(live())
    # The hold is still under way: nobody has waited for it.
    assert answered_in_time == []
    may_answer.set()


def slow_desk_options(desk, seconds):
    """Replies take so long; holds are answered at once."""
    send, clock = make_twin_send(desk.twin.twin), desk.twin.twin.clock

    def send_slowly(body, betas):
        answered = send(body, betas)
        if json.loads(body)["max_tokens"]:
            clock.advance(seconds)
        return answered

    return {"send": send_slowly, "client": None}


@pytest.mark.spec("EC-2")
@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_a_hold_after_a_reply_that_took_long_still_reads_the_prefix(desk, ttl):
    timer = timer_of(desk)
    given = {
        **VIRTUAL,
        "cache": {"ttl": {"eligible": ttl == "1h"}},
        "economy": {**VIRTUAL["economy"], "above_dollars": 5.0},
    }
    with desk.open(**given, **slow_desk_options(desk, 30.0), hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(290 if ttl == "5m" else 3_590)
    first, *held = [row["usage"] for row in desk.twin.ledger]
    assert [each["cache_read_input_tokens"] for each in held] == [first["cache_creation_input_tokens"]]


@pytest.mark.spec("EC-2", "EC-8")
def test_nothing_is_held_once_the_cache_has_expired(desk):
    timer, asleep = timer_of(desk), timedelta()
    with desk.open(**VIRTUAL, hold_timer=timer, clock=lambda: desk.twin.twin.clock.now() + asleep) as session:
        grow(desk, session, logs=1)
        # The timers of a machine that is asleep stand still.
        asleep = timedelta(hours=2)
        timer.advance(400)
        assert kinds(session) == ["not held"]
    assert len(desk.twin.ledger) == 1
    assert desk.heard("CacheNotHeld")[0].why.startswith("the cache has expired before it could be held (")


@pytest.mark.spec("EC-11")
def test_a_hold_that_is_being_prepared_is_not_sent_once_somebody_speaks(desk, monkeypatch):
    is_due, may_go, plain = threading.Event(), threading.Event(), PlannedHold.request

    def prepare_slowly(planned):
        is_due.set()
        may_go.wait(10)
        return plain(planned)

    monkeypatch.setattr(PlannedHold, "request", prepare_slowly)
    with desk.open(**OPUS, economy={**HOLDS, "hold_after": timedelta(seconds=0.05)}) as session:
        grow(desk, session, logs=1)
        assert is_due.wait(10)
        speak(desk, session)
        monkeypatch.setattr(PlannedHold, "request", plain)
        may_go.set()
        wait_for_calls(desk, 3)
        speak(desk, session)
    # The hold of the first pause was not sent.
    assert [len(body["messages"]) for body in desk.bodies if body["max_tokens"] == 0][:1] == [5]
    assert session.bill.total.calls == len(desk.twin.ledger)
