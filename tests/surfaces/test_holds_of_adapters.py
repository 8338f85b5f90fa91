"""Holds in the SDK's middleware and in the adapters for frameworks (EC-3, EC-11)."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest
from adapters.langchain.conftest import Bench as LangChainBench
from adapters.pydantic_ai.conftest import Bench as PydanticBench
from scripted_twin import scripted_options
from surfaces.desk import RULES, Desk
from surfaces.test_economy import SAYS

import everturn
from everturn.session.hold_timers import VirtualTimer
from everturn.twin.testing import TwinForTests

OPUS = "claude-opus-4-5"
HOLDS = {
    "policy": "economic",
    "economy": {"holds": True, "hold_share": 1.0},
    "compact": {"strategies": ("extractive",)},
}
SOON = {**HOLDS, "economy": {"holds": True, "hold_share": 1.0, "hold_after": 0.02}}


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "everturn"


def timer_of(twin):
    return VirtualTimer(twin.twin.clock.now, twin.twin.clock.set)


class Caller:
    """A program that keeps its own list of messages."""

    def __init__(self, desk, **options):
        self.desk, self.timer = desk, timer_of(desk.twin)
        chosen = {
            "folder": desk.folder / "kept",
            "listen": desk.events.append,
            "clock": desk.twin.twin.clock.now,
            "hold_timer": self.timer,
            **HOLDS,
            **options,
        }
        self.middleware = everturn.middleware(**chosen)
        self.client = desk.twin.client(middleware=[self.middleware, desk.recorder()], max_retries=0)
        self.messages = []

    def ask(self, words, **more):
        self.desk.twin.script("Seen.")
        self.messages.append({"role": "user", "content": words})
        made = self.client.messages.create(
            model=OPUS, max_tokens=1000, system=RULES, messages=self.messages, **more
        )
        self.messages.append({"role": "assistant", "content": [each.model_dump() for each in made.content]})
        return made


def holds(desk):
    return [body for body in desk.bodies if body["max_tokens"] == 0]


@pytest.mark.spec("EC-11")
def test_the_middleware_holds_through_a_pause_and_the_next_call_reads_the_prefix(desk):
    caller = Caller(desk)
    caller.ask("Log: " + SAYS * 2_300)
    caller.timer.advance(3_000)
    after = caller.ask("Go on.")
    [held] = holds(desk)
    assert held["messages"][-2]["content"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    first, hold, _ = (row["usage"] for row in desk.twin.ledger)
    assert hold["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    assert after.usage.cache_read_input_tokens > hold["cache_read_input_tokens"]
    parts = {name: part.calls for name, part in caller.middleware.bill.parts.items() if part.calls}
    assert parts == {"conversation": 2, "hold": 1}
    assert [event.kept for event in desk.heard("HoldChecked")] == [True]
    [overview] = caller.middleware.conversations
    assert [each.label for each in overview.decisions] == ["held", "hold checked"]


@pytest.mark.spec("EC-11")
def test_no_hold_of_the_middleware_is_sent_unless_it_is_switched_on_nor_after_close(desk):
    off = Caller(desk, economy={"holds": False})
    off.ask("Log: " + SAYS * 2_300)
    off.timer.advance(3_000)
    closed = Caller(desk)
    closed.ask("Other log: " + SAYS * 2_300)
    closed.middleware.close()
    closed.timer.advance(3_000)
    assert len(desk.twin.ledger) == 2


@pytest.mark.spec("EC-11")
def test_the_holds_of_all_conversations_stay_within_the_budget_of_a_day(desk):
    caller = Caller(desk, economy={"holds": True, "hold_share": 1.0, "day_dollars": 0.014})
    for words in ("One log: ", "Another log: "):
        caller.messages = []
        caller.ask(words + SAYS * 2_300)
    caller.timer.advance(1_000)
    assert len(holds(desk)) == 1
    assert caller.middleware.bill.parts["hold"].dollars < 0.014
    caller.ask("Go on.")
    [refused] = desk.heard("CacheNotHeld")
    assert refused.why.startswith("the holds of today have cost $0.01 of $0.01 ($0.010 to hold, expected")


@pytest.mark.spec("EC-11")
@pytest.mark.parametrize("kept_in", ["a folder", "a store"])
def test_programs_that_keep_conversations_in_one_place_share_the_budget_of_a_day(desk, kept_in):
    place = desk.folder / "shared"
    where = {"folder": place} if kept_in == "a folder" else {"store": {"url": str(place)}}
    first, second = (
        Caller(desk, economy={"holds": True, "hold_share": 1.0, "day_dollars": 0.014}, **where)
        for _ in range(2)
    )
    for caller, words in ((first, "One log: "), (second, "Another log: ")):
        caller.ask(words + SAYS * 2_300)
        caller.timer.advance(600)
    assert len(holds(desk)) == 1
    second.timer.advance(24 * 3_600)
    second.messages = []
    second.ask("A log of tomorrow: " + SAYS * 2_300)
    second.timer.advance(600)
    assert len(holds(desk)) == 2


def test_a_hold_that_cannot_be_counted_is_not_sent(desk):
    place = desk.folder / "kept"
    place.mkdir()
    (place / "counters.sqlite").write_bytes(b"not a database" * 100)
    caller = Caller(desk)
    caller.ask("Log: " + SAYS * 2_300)
    caller.timer.advance(600)
    caller.ask("Go on.")
    assert holds(desk) == []
    [refused] = desk.heard("CacheNotHeld")
    assert refused.why.startswith("what the holds of today have cost is not known: The database")


def test_a_fork_ends_the_holds_of_the_list_that_it_comes_from(desk):
    caller = Caller(desk)
    caller.ask("Log: " + SAYS * 2_300)
    caller.ask("Go on.")
    caller.messages = [*caller.messages[:2]]
    caller.ask("Or rather: stop.")
    caller.timer.advance(1_000)
    assert [body["messages"][2]["content"][0]["text"] for body in holds(desk)] == ["Or rather: stop."]


def test_a_hold_that_fails_does_not_touch_the_conversation(desk):
    caller = Caller(desk)
    caller.ask("Log: " + SAYS * 2_300)
    desk.twin.faults("overloaded")
    caller.timer.advance(1_000)
    caller.ask("Go on.")
    assert [event.why.partition(":")[0] for event in desk.heard("CacheHeld")] == ["the hold failed"]
    assert [row["status"] for row in desk.twin.ledger] == [200, 529, 200]


def wait_until_midnight(caller):
    """Until the first hold is due some seconds before midnight."""
    now = caller.desk.twin.twin.clock.now()
    caller.timer.advance(86_400 - 300 - (now - now.replace(hour=0, minute=0, second=0)).total_seconds())


def spent_by_day(caller):
    with closing(sqlite3.connect(caller.desk.folder / "kept" / "counters.sqlite")) as database:
        rows = database.execute("SELECT name, amount FROM counter").fetchall()
    return {name.split("/")[1]: micro / 1_000_000 for name, micro in rows}


@pytest.mark.spec("EC-11")
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_hold_counts_on_the_day_on_which_it_was_sent_also_if_the_answer_comes_after_midnight(
    desk, is_answered
):
    caller = Caller(desk)
    wait_until_midnight(caller)
    caller.ask("Log: " + SAYS * 2_300)
    sent_on = desk.twin.twin.clock.now().date().isoformat()
    if not is_answered:
        desk.twin.faults("overloaded")
    answered_on = []

    def pass_midnight(_):
        desk.twin.advance(60)
        answered_on.append(desk.twin.twin.clock.now().date().isoformat())

    caller.client._client.event_hooks = {"response": [pass_midnight]}
    caller.timer.advance(295)
    assert [each > sent_on for each in answered_on] == [True]
    spent = spent_by_day(caller)
    assert set(spent) == {sent_on}
    assert (spent[sent_on] > 0.009) == is_answered


@pytest.mark.spec("EC-11")
def test_a_hold_whose_answer_is_lost_may_have_been_billed_and_counts_as_if_it_was(desk):
    caller = Caller(desk)
    caller.ask("Log: " + SAYS * 2_300)
    desk.twin.faults({"kind": "timeout", "hangs_up": True, "delay_s": 0})
    caller.timer.advance(300)
    [told] = desk.heard("CacheHeld")
    assert (told.usage, told.tokens) == (None, 0)
    assert told.why.endswith(f"; it may have been billed: ${told.dollars:.3f} counted")
    assert told.dollars > 0.009
    [spent] = spent_by_day(caller).values()
    assert spent == pytest.approx(told.dollars, abs=1e-6)
    caller.ask("Go on.")
    [overview] = caller.middleware.conversations
    assert [each.sentence for each in overview.decisions] == [f"not held: {told.why}"]
    # The bill has only what the API has reported.
    assert caller.middleware.bill.parts["hold"].calls == 0


@pytest.mark.spec("EC-3")
def test_what_one_conversation_has_told_holds_for_the_others_of_the_middleware(tmp_path, data_folder):
    twin = TwinForTests(options=scripted_options(hour_survives_prefix=False))
    desk = Desk(tmp_path, twin)
    caller = Caller(desk)
    caller.ask("Log: " + SAYS * 2_300)
    caller.timer.advance(1_500)
    caller.ask("Go on.")
    caller.messages = []
    caller.ask("Another log: " + SAYS * 2_300)
    caller.timer.advance(300)
    marks = [body["messages"][-2]["content"][-1]["cache_control"] for body in holds(desk)]
    assert marks == [{"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}, {"type": "ephemeral"}]
    assert "claude-opus-4-5" in json.loads((data_folder / "holds.json").read_text())["lost"]["anthropic"]
    twin.close()


@pytest.mark.spec("EC-11")
def test_the_async_client_holds_in_a_task_that_the_next_call_cancels(desk):
    async def live():
        middleware = everturn.middleware(
            folder=None, listen=desk.events.append, clock=desk.twin.twin.clock.now, **SOON
        )
        client = desk.twin.async_client(middleware=[middleware], max_retries=0)
        messages = [{"role": "user", "content": "Log: " + SAYS * 2_300}]
        desk.twin.script("Seen.")
        made = await client.messages.create(model=OPUS, max_tokens=1000, system=RULES, messages=messages)
        for _ in range(500):
            await asyncio.sleep(0.01)
            if middleware.bill.parts["hold"].calls:
                break
        messages += [{"role": "assistant", "content": [each.model_dump() for each in made.content]}]
        messages += [{"role": "user", "content": "Go on."}]
        desk.twin.script("Seen.")
        await client.messages.create(model=OPUS, max_tokens=1000, system=RULES, messages=messages)
        middleware.close()
        return middleware.bill.parts["hold"].calls

    assert asyncio.run(live()) >= 1
    assert desk.heard("CacheHeld")[0].why.startswith("held for $0.0")


@pytest.mark.spec("EC-11")
def test_langchain_repeats_its_last_request_while_many_pauses_end_within_minutes(twin, tmp_path):
    bench = LangChainBench(twin, tmp_path / "sessions")
    timer = timer_of(twin)
    middleware = bench.middleware(**HOLDS, hold_timer=timer)
    agent = bench.agent(middleware, model=bench.model(OPUS))
    twin.script("Seen.", "Hm.", "Hm.", "Seen.")
    asked = [("user", "Log: " + SAYS * 2_300)]
    messages = agent.invoke({"messages": asked})["messages"]
    timer.advance(800)
    agent.invoke({"messages": [*messages, ("user", "Go on.")]})
    calls = twin.ledger
    assert [row["status"] for row in calls] == [200] * 4
    assert [row["usage"]["output_tokens"] for row in calls[1:3]] == [1, 1]
    written = calls[0]["usage"]["cache_creation_input_tokens"]
    assert [row["usage"]["cache_read_input_tokens"] for row in calls[1:]] == [written] * 3
    assert middleware.bill.parts["hold"].calls == 2


@pytest.mark.spec("EC-11")
def test_pydantic_ai_repeats_its_last_request_in_a_task(twin, tmp_path):
    bench = PydanticBench(twin, tmp_path / "sessions")

    async def live():
        capability = bench.capability(**SOON)
        agent = bench.agent(capability, model=bench.model(OPUS))
        twin.script("Seen.", *["Hm."] * 8)
        await agent.run("Log: " + SAYS * 2_300)
        for _ in range(500):
            await asyncio.sleep(0.01)
            if capability.bill.parts["hold"].calls:
                break
        capability.close()

    asyncio.run(live())
    first, again = (row["usage"] for row in twin.ledger[:2])
    assert again["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    assert (again["output_tokens"], again["input_tokens"]) == (1, first["input_tokens"])


@pytest.mark.spec("EC-4")
def test_a_warm_conversation_is_not_taken_for_a_cold_one_where_the_framework_places_the_breakpoints(
    twin, tmp_path
):
    bench, events = LangChainBench(twin, tmp_path / "sessions"), []
    small = {"summary_model": "claude-haiku-4-5", "strategies": ["direct", "extractive"]}
    middleware = bench.middleware(policy="economic", compact=small, listen=events.append)
    agent = bench.agent(middleware, model=bench.model(OPUS))
    messages = []
    for number in range(8):
        twin.advance(20)
        twin.script("Seen.")
        messages = agent.invoke({"messages": [*messages, ("user", f"Log {number}: " + SAYS * 1_500)]})[
            "messages"
        ]
    assert [event.why for event in events if type(event).__name__ == "CompactionDone"] == []
    assert [row["usage"]["cache_read_input_tokens"] > 0 for row in twin.ledger] == [False] + [True] * 7


@pytest.mark.spec("EC-2")
def test_where_the_caller_has_set_no_breakpoint_nothing_is_cached_and_nothing_is_held(desk):
    caller = Caller(desk, breakpoints="caller")
    caller.ask("Log: " + SAYS * 2_300)
    caller.timer.advance(3_000)
    caller.ask("Go on.")
    assert [row["usage"]["cache_read_input_tokens"] for row in desk.twin.ledger] == [0, 0]
    [refused] = desk.heard("CacheNotHeld")
    assert refused.why.startswith("nothing of the last prompt is in the cache (")


@pytest.mark.spec("EC-1")
def test_a_hold_that_is_answered_late_has_the_price_of_its_own_model(desk):
    """The caller asks another model while the hold is under way."""
    caller = Caller(desk)
    caller.ask("Log: " + SAYS * 2_300)
    plain, is_first = desk.twin.twin.messages, True

    def answer_late(headers, body):
        nonlocal is_first
        answered = plain(headers, body)
        if json.loads(body)["max_tokens"] == 0 and is_first:
            is_first = False
            desk.twin.script("Seen.")
            caller.messages.append({"role": "user", "content": "Go on."})
            caller.client.messages.create(
                model="claude-haiku-4-5", max_tokens=1000, system=RULES, messages=caller.messages
            )
        return answered

    desk.twin.twin.messages = answer_late
    caller.timer.advance(300)
    bill = caller.middleware.bill
    assert [row["model"] for row in desk.twin.ledger] == [OPUS, OPUS, "claude-haiku-4-5"]
    assert float(bill.dollars) == pytest.approx(sum(row["dollars"] for row in desk.twin.ledger))
