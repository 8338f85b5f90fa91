"""Holds in sessions: who waits, what they cost, and what the first return tells (EC-1, EC-3, EC-11)."""

import asyncio
import json
import shutil
import threading
from datetime import timedelta

import pytest
from scripted_twin import scripted_options
from surfaces.desk import RULES, Desk
from surfaces.test_economy import HOLDS, OPUS, SAYS, grow, speak, wait_for_calls, wait_for_events

from everturn import AsyncSession
from everturn.engine.holds import PlannedHold
from everturn.measure.model_table import add_models
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


def slow_desk_options(desk, *seconds):
    """Replies take so long, those after them no time; holds are answered at once."""
    send, clock, left = make_twin_send(desk.twin.twin), desk.twin.twin.clock, iter(seconds)

    def send_slowly(body, betas):
        answered = send(body, betas)
        if json.loads(body)["max_tokens"]:
            clock.advance(next(left, 0.0))
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
        wait_for_events(desk, "CacheHeld")
        speak(desk, session)
    # The hold of the first pause was not sent.
    assert [len(body["messages"]) for body in desk.bodies if body["max_tokens"] == 0][:1] == [5]
    assert session.bill.total.calls == len(desk.twin.ledger)


@pytest.mark.spec("EC-2")
@pytest.mark.parametrize("seconds", [0.0, 200.0])
def test_a_pause_is_counted_from_the_start_of_the_call_as_in_the_table_of_pauses(desk, seconds):
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, **slow_desk_options(desk, seconds), hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(5_000)
        assert kinds(session) == ["held", "not held"]
    assert "8% of pauses this long end within the hour" in desk.heard("CacheNotHeld")[0].why


@pytest.mark.spec("EC-8")
def test_what_expires_during_a_slow_reply_would_have_been_written_again_without_the_hold(desk):
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, **slow_desk_options(desk, 200.0), hold_timer=timer) as session:
        grow(desk, session, logs=1)
        # 310 seconds after the call, 110 after its reply.
        timer.advance(110)
        speak(desk, session)
        saved = session.context().saved
    first, held, _ = (row["usage"] for row in desk.twin.ledger)
    assert held["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    # Doing nothing pays for two writes of it.
    twice = 2 * first["cache_creation_input_tokens"] * 6.25e-6
    assert saved.unmanaged == pytest.approx(twice, rel=0.01)


@pytest.mark.spec("EC-1")
def test_a_decision_against_a_hold_has_the_time_at_which_it_was_made(desk):
    timer, begin = timer_of(desk), desk.twin.twin.clock.now()
    with desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(20_000)
        held, refused = session.context().decisions
    assert [(each.at - begin).total_seconds() for each in (held, refused)] == [290.0, 290.0 + 3_590.0]
    [told] = desk.heard("CacheNotHeld")
    assert told.moment.at == refused.at


@pytest.mark.spec("EC-1")
def test_amounts_that_differ_do_not_look_equal_in_a_decision(desk):
    timer, economy = timer_of(desk), {**VIRTUAL["economy"], "hold_dollars": 0.0102}
    with desk.open(**{**VIRTUAL, "economy": economy}, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(400)
        speak(desk, session)
        timer.advance(400)
        held, refused = (each for each in session.context().decisions if each.kind == "hold")
    assert 0.01005 < held.cost < 0.01015
    assert refused.why.endswith("but not now: holds have cost $0.0101 of $0.0102")


@pytest.mark.spec("EC-2")
def test_a_prompt_that_is_too_short_for_the_cache_is_not_held(desk):
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, system="Be brief.", hold_timer=timer) as session:
        speak(desk, session, "Log: " + SAYS * 600)
        timer.advance(3_000)
        [decision] = session.context().decisions
    assert [row["usage"]["cache_creation_input_tokens"] for row in desk.twin.ledger] == [0]
    assert decision.sentence.startswith("not held: nothing of the last prompt is in the cache (")


@pytest.mark.spec("EC-1")
def test_a_hold_of_a_killed_process_has_the_price_of_the_model_that_was_asked(desk):
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(400)
        # As if it was killed here.
        for path in desk.folder.glob("session.jsonl*"):
            shutil.copy(path, desk.folder / path.name.replace("session", "killed"))
    desk.path = desk.folder / "killed.jsonl"
    with desk.open(**{**VIRTUAL, "model": "claude-haiku-4-5"}) as session:
        bill = session.bill
    assert bill.parts["hold"].calls == 1
    assert float(bill.dollars) == pytest.approx(sum(row["dollars"] for row in desk.twin.ledger))


@pytest.mark.spec("EC-1")
@pytest.mark.parametrize("seconds", [100, 400])
def test_a_price_that_changes_before_or_after_a_hold_is_the_same_on_the_bill_and_in_its_decision(
    desk, seconds
):
    timer = timer_of(desk)
    with desk.open(**VIRTUAL, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        timer.advance(seconds)
        try:
            add_models({"claude-opus-4-5": {"input_price": 50.0, "output_price": 250.0}})
            timer.advance(500 - seconds)
            decision = session.context().decisions[-1]
            hold = session.bill.parts["hold"]
        finally:
            add_models({})
    # At the time of its answer, 290 seconds after the call; the twin has the same table.
    [event], told = desk.heard("CacheHeld"), desk.twin.ledger[-1]["dollars"]
    assert (decision.cost, event.dollars, float(hold.dollars)) == (pytest.approx(told),) * 3
    assert hold.calls == 1


@pytest.mark.spec("EC-1")
def test_a_price_that_is_given_to_an_open_session_holds_for_its_bill_and_its_decisions(desk):
    timer, economy = timer_of(desk), {**VIRTUAL["economy"], "above_dollars": 5.0}
    with desk.open(**{**VIRTUAL, "economy": economy}, hold_timer=timer) as session:
        grow(desk, session, logs=1)
        try:
            add_models({"claude-opus-4-5": {"input_price": 50.0, "output_price": 250.0}})
            grow(desk, session, logs=1)
            timer.advance(400)
            decision = session.context().decisions[-1]
            hold = session.bill.parts["hold"]
        finally:
            add_models({})
    assert hold.calls == 1
    assert decision.cost == pytest.approx(float(hold.dollars))
    usage = desk.twin.ledger[-1]["usage"]
    assert float(hold.dollars) == pytest.approx(
        usage["cache_read_input_tokens"] * 5e-6 + usage["cache_creation_input_tokens"] * 100e-6, rel=0.01
    )
