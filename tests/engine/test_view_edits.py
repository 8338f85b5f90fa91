"""Edits that a request needs before it is sent: when each is due, and with which reason."""

from datetime import timedelta
from typing import Any

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone

from everturn.decide.micro.cache_edit_state import CacheEditState
from everturn.decide.settings import DeclarativeSettings, MicroSettings
from everturn.engine.view_edits import drop_thinking, end_deletions, tell_unsendable
from everturn.history.edits import (
    CacheDeleted,
    CacheDeletionsEnded,
    Edit,
    ThinkingDropped,
    ToldAsText,
    Undone,
)
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import EXTENDED_TWIN
from everturn.view.key_parameters import KeyParameters, TtlChoice

AT = NOON.isoformat().replace("+00:00", "Z")
BINDING, KEEPING, FORGETTING = "claude-fable-5-2", "claude-opus-4-6", "claude-sonnet-4-5"
DELETED: list[Record] = [
    b.user("Look.", uuid="u1"),
    b.assistant(b.call("c1", path="a.py"), id="m1", uuid="a1"),
    b.result("c1", "def a(): ...", uuid="r1"),
    b.edited(CacheDeleted(("c1",), "it is old"), "d1"),
    b.assistant("Seen.", id="m2", uuid="a2", timestamp=AT),
]
LOOP = [
    b.assistant(b.call("c2", path="b.py"), id="m3", uuid="a3", timestamp=AT),
    b.result("c2", "def b(): ...", uuid="r2"),
]


def deleted(*more: Record, model: str = KEEPING) -> Alone:
    return Alone([*DELETED, *more], model=model, capabilities=EXTENDED_TWIN)


def ended(alone: Alone, seconds: float) -> Edit | None:
    conversation = alone.conversation
    return end_deletions(conversation._state, conversation.setting, NOON + timedelta(seconds=seconds))


@pytest.mark.spec("MC-12")
def test_deletions_end_when_the_cache_has_certainly_expired_and_not_before():
    alone = deleted()
    tracker = alone.conversation._tracker
    pinned = tracker.cached
    assert (ended(alone, 300), tracker.cached) == (None, pinned)
    assert pinned.pinned == (("c1",),)
    found = ended(alone, 301)
    assert found == CacheDeletionsEnded("idle for 301 s, longer than the cache lifetime")
    assert tracker.cached == CacheEditState(rests=True)
    assert ended(alone, 999) is None


@pytest.mark.spec("MC-20")
@pytest.mark.parametrize(("read", "is_lost"), [(0, True), (1, False)])
def test_deletions_end_after_a_reply_that_read_nothing_and_only_once(read: int, is_lost: bool):
    alone = deleted()
    conversation, state = alone.conversation, alone.conversation._state
    reply = b.assistant("On.", id="m4", uuid="a4", timestamp=AT)
    conversation.record_reply([reply], Usage(10, 90 - read, read, 5), NOON)
    assert state.lost_deletions == is_lost
    why = "the last request read nothing from the cache that they were made in"
    assert ended(alone, 0) == (CacheDeletionsEnded(why) if is_lost else None)
    assert (state.lost_deletions, ended(alone, 0)) == (False, None)


def test_a_reply_that_reads_nothing_ends_nothing_where_nothing_was_deleted():
    alone = Alone(DELETED[:3], model=KEEPING, capabilities=EXTENDED_TWIN)
    alone.conversation.record_reply([DELETED[-1]], Usage(10, 90, 0, 5), NOON)
    assert not alone.conversation._state.lost_deletions
    assert ended(alone, 301) is None


@pytest.mark.parametrize(
    ("model", "more", "waits"),
    [(BINDING, LOOP, True), (BINDING, [], False), (KEEPING, LOOP, False)],
)
def test_deletions_wait_for_the_end_of_a_tool_loop_whose_thinking_is_bound_to_them(
    model: str, more: list[Record], waits: bool
):
    alone = deleted(*more, model=model)
    found = ended(alone, 400)
    assert (found is None) == waits
    assert bool(alone.conversation._tracker.cached.pinned) == waits


def test_deletions_in_messages_that_were_replaced_end_at_once():
    alone = deleted()
    conversation = alone.conversation
    for record in (b.boundary("b1"), b.summary(uuid="s1", parent="b1")):
        conversation.add(record)
    assert ended(alone, 0) is None  # none is in view
    conversation.add(b.edited(Undone("b1", "the user wants it back"), "x1"))
    tracker = conversation._tracker
    tracker.cached = CacheEditState(pinned=(("c1",),))
    assert ended(alone, 0) == CacheDeletionsEnded("the messages that contained them were replaced")
    assert tracker.cached == CacheEditState()


THOUGHT: list[Record] = [
    b.user("One.", uuid="u1"),
    b.assistant(b.think("First."), "Well.", id="m1", uuid="a1", timestamp=AT),
    b.user("Two.", uuid="u2"),
    b.assistant(b.think("Second."), "Well.", id="m2", uuid="a2", timestamp=AT),
    b.user("Three.", uuid="u3"),
    b.assistant(b.think("Third."), "Well.", id="m3", uuid="a3", timestamp=AT),
]
COLD = "the cache is cold"


@pytest.mark.spec("MC-13")
@pytest.mark.parametrize(
    ("declare", "given", "seconds", "expected"),
    [
        (True, {}, 3_601, ThinkingDropped("a1", COLD, "a3")),
        (True, {}, 3_600, None),
        (True, {"thinking_turns": 2}, 3_601, ThinkingDropped("a1", COLD, "a2")),
        (True, {"idle": timedelta(seconds=60)}, 61, ThinkingDropped("a1", COLD, "a3")),
        (True, {"thinking": False}, 3_601, None),
        (False, {}, 3_601, None),
    ],
)
def test_old_thinking_is_dropped_when_the_cache_is_cold(
    declare: bool, given: dict[str, Any], seconds: float, expected: Edit | None
):
    alone = Alone(THOUGHT, model=KEEPING)
    conversation = alone.conversation
    micro = MicroSettings(declare=declare, declarative=DeclarativeSettings(**given))
    options = msgspec.structs.replace(conversation.setting.options, micro=micro)
    setting = msgspec.structs.replace(conversation.setting, options=options)
    assert drop_thinking(conversation._state, setting, None, NOON + timedelta(seconds=seconds)) == expected


def test_thinking_is_not_cold_while_a_hold_keeps_the_cache_alive():
    alone = Alone(THOUGHT, model=KEEPING, under="claude-code")
    conversation, state = alone.conversation, alone.conversation._state
    now = NOON + timedelta(seconds=7_000)
    conversation.cache.held_at = now - timedelta(seconds=3_600)
    assert state.last_use(now) == now
    assert drop_thinking(state, conversation.setting, None, now) is None
    late = now + timedelta(seconds=1)
    assert state.last_use(late) == NOON
    assert drop_thinking(state, conversation.setting, None, late) == ThinkingDropped("a1", COLD, "a3")


ENABLED = {"type": "enabled", "budget_tokens": 1_024}


def thinking_loop(last: Record, model: str = KEEPING) -> list[Record]:
    said = b.think("Where?"), b.call("c1", path="a.py")
    reply = b.assistant(*said, id="m1", uuid="a1", timestamp=AT, model=model)
    return [b.user("Look.", uuid="u1"), reply, last]


ANSWER = b.result("c1", "def a(): ...", uuid="r1")
ANSWER_AND_PROMPT = b.user([b.answer("c1", "def a(): ..."), b.say("And now?")], uuid="r1")


@pytest.mark.parametrize(
    ("model", "thinking", "last", "is_dropped"),
    [
        (FORGETTING, None, ANSWER_AND_PROMPT, True),
        (FORGETTING, None, ANSWER, False),
        (FORGETTING, ENABLED, ANSWER_AND_PROMPT, False),
        (KEEPING, None, ANSWER_AND_PROMPT, False),
    ],
)
def test_the_thinking_of_a_tool_loop_goes_only_where_the_model_is_not_shown_it_anyway(
    model: str, thinking: dict[str, Any] | None, last: Record, is_dropped: bool
):
    key = KeyParameters(TtlChoice("5m", "the test says so"), thinking=thinking)
    alone = Alone(thinking_loop(last, model), model=model, parameters=key)
    conversation = alone.conversation
    why = f"{model} uses only the thinking of the last turn"
    found = drop_thinking(conversation._state, conversation.setting, conversation.setting, NOON)
    assert found == (ThinkingDropped("a1", why) if is_dropped else None)


BARE_LOOP = [
    b.user("Look.", uuid="u1"),
    b.assistant(b.call("c1", path="a.py"), id="m1", uuid="a1", timestamp=AT),
    ANSWER,
]
TOLD = ToldAsText(("c1",), "with thinking enabled, the API refuses a tool loop without thinking")
COMPACTED = [b.boundary("b1"), b.summary(uuid="s1", parent="b1"), *BARE_LOOP]


@pytest.mark.spec("CP-38")
@pytest.mark.parametrize(
    ("records", "thinking", "decides", "expected"),
    [
        (BARE_LOOP, ENABLED, "engine", TOLD),
        (BARE_LOOP, ENABLED, "caller", None),
        (COMPACTED, ENABLED, "caller", TOLD),
        (BARE_LOOP, None, "engine", None),
        (thinking_loop(ANSWER), ENABLED, "engine", None),
        ([*BARE_LOOP, b.assistant("Done.", id="m2", uuid="a2")], ENABLED, "engine", None),
    ],
)
def test_a_tool_loop_without_thinking_is_told_as_text_where_the_api_would_refuse_it(
    records: list[Record], thinking: dict[str, Any] | None, decides: str, expected: Edit | None
):
    key = KeyParameters(TtlChoice("5m", "the test says so"), thinking=thinking)
    alone = Alone(records, model=FORGETTING, parameters=key, decides=decides)
    conversation = alone.conversation
    assert tell_unsendable(conversation._state, conversation.setting, key) == expected
    # The parameters that are sent decide, not those that are wanted.
    without = msgspec.structs.replace(key, thinking=None)
    assert tell_unsendable(conversation._state, conversation.setting, without) is None
