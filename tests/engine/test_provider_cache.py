"""What we take the provider's cache to hold: after calls, summary calls, holds and a restart."""

from datetime import datetime, timedelta
from typing import Any, Literal

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone
from engine.held import head, model_of

from everturn.decide.cache_breaks import Baseline, CacheBreakDetector
from everturn.engine.capture import capture_request
from everturn.engine.conversation import Conversation
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import PLAIN
from everturn.measure.outline import BlockLocation
from everturn.measure.prediction import Forecast, Prediction
from everturn.view.breakpoints import Breakpoints
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters, TtlChoice

MODEL = "claude-opus-4-6"
NOTHING = Usage(0, 0, 0, 0)
REPLY = b.assistant("Well.", id="m1", uuid="a1")


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def alone(*records: Record, ttl: str = "5m", **more: Any) -> Alone:
    key = KeyParameters(TtlChoice(ttl, "the test says so"))
    given = {"model": MODEL, "preamble": head(), "parameters": key, **more}
    return Alone(records or (b.user("Look at the parser.", uuid="u1"),), **given)


def answered(scene: Alone, reply: Record = REPLY) -> Prediction:
    """A call whose usage is what was predicted."""
    found = scene.turn().prediction
    usage = Usage(found.plain, found.write_5m + found.write_1h, found.read, 5)
    scene.conversation.record_reply([reply], usage, scene.now)
    return found


def expected(scene: Alone, at: datetime) -> Prediction:
    conversation = scene.conversation
    setting = conversation.setting
    parameters = conversation.cache.latch(setting).parameters
    return conversation.cache.look_ahead(conversation._tracker, setting, parameters, at)[1]


def cacheable(sent: Prediction) -> int:
    """All up to its last breakpoint."""
    return sent.total - sent.plain


def test_an_answered_call_settles_all_that_was_open():
    scene = alone()
    cache, tracker = scene.conversation.cache, scene.conversation._tracker
    cache.held_at, cache.doubts = NOON, ("a guess",)
    turn = scene.turn()
    assert turn.notes == ("a guess",)
    assert (cache.called_at, tracker.reached, cache.answered_breakpoints) == (None, -1, Breakpoints())
    scene.now += timedelta(seconds=7)
    scene.conversation.record_reply([REPLY], NOTHING, scene.now)
    assert (cache.called_at, cache.held_at, cache.doubts) == (NOON, None, ())
    assert tracker.reached == turn.breakpoints.reached > 0
    assert cache.answered_breakpoints == cache.breakpoints == turn.breakpoints
    # Nothing is under way: a second answer is no other call.
    cache.held_at = NOON
    cache.settle(tracker, NOTHING, after(90))
    assert (cache.called_at, cache.held_at) == (NOON, NOON)


def test_an_observed_call_settles_the_same_without_its_breakpoints():
    scene = alone()
    cache, conversation = scene.conversation.cache, scene.conversation
    answered(scene)
    cache.held_at, cache.doubts = NOON, ("a guess",)
    conversation.observe(after(60))
    assert (cache.called_at, cache.breakpoints, cache.sent) == (NOON, Breakpoints(), conversation.setting)
    conversation.record_observed_reply([b.assistant("On.", id="m2", uuid="a2")], NOTHING, after(65))
    assert (cache.called_at, cache.held_at, cache.doubts) == (after(60), None, ())
    assert cache.answered_breakpoints == Breakpoints()
    assert conversation._tracker.reached == -1
    cache.held_at = after(70)
    cache.settle_observed()
    assert (cache.called_at, cache.held_at) == (after(60), after(70))


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3_600)])
def test_a_conversation_is_idle_once_its_entries_have_expired(ttl: str, seconds: int):
    scene = alone(ttl=ttl)
    cache, setting = scene.conversation.cache, scene.conversation.setting
    assert cache.seconds_idle_beyond_ttl(setting, after(9_999)) is None
    assert cache.seconds_idle_beyond_ttl(setting, after(9_999), NOON) == 9_999
    answered(scene)
    found = [cache.seconds_idle_beyond_ttl(setting, after(each)) for each in (seconds, seconds + 1)]
    assert found == [None, seconds + 1]
    # The call of this process counts, not what the log says.
    assert cache.seconds_idle_beyond_ttl(setting, after(seconds), NOON - timedelta(days=1)) is None
    cache.held_at = after(seconds)
    assert cache.seconds_idle_beyond_ttl(setting, after(seconds + 1)) is None


@pytest.mark.spec("PC-10")
def test_the_lifetime_and_the_parameters_of_the_first_request_stay():
    scene = alone(ttl="1h")
    cache, setting = scene.conversation.cache, scene.conversation.setting
    short = msgspec.structs.replace(
        setting, parameters=KeyParameters(TtlChoice("5m", "somebody else says so"), betas=("new",))
    )
    assert cache.ttl(short) == "5m"
    answered(scene)
    assert (cache.ttl(short), cache.latch(short).parameters) == ("1h", setting.parameters)
    assert cache.summary_parameters(short) == setting.parameters
    own = msgspec.structs.replace(short.parameters, lifetime=setting.parameters.lifetime)
    other = msgspec.structs.replace(short, model=model_of("claude-haiku-4-5"))
    callers = msgspec.structs.replace(short, decides="caller")
    assert [cache.latch(each).parameters for each in (other, callers)] == [own, own]
    assert cache.summary_parameters(other) == own


def test_breakpoints_that_were_written_are_those_of_the_last_answered_request_with_this_key():
    scene = alone()
    conversation, cache = scene.conversation, scene.conversation.cache

    def written(answered: int, **changes: Any) -> Breakpoints:
        setting = conversation.setting
        asked = msgspec.structs.replace(setting, **changes) if changes else setting
        return cache.written_breakpoints(conversation._tracker, asked, answered)

    turn = scene.turn()
    # Sent by another process, as far as is known: where they would have been placed.
    head_only = turn.breakpoints.places[:-1]
    assert written(0) == Breakpoints(head_only)
    assert written(1) == turn.breakpoints
    conversation.record_reply([REPLY], NOTHING, NOON)
    conversation.add(b.user("Go on.", uuid="u2"))
    assert written(3) == turn.breakpoints
    assert written(1, source="other") == Breakpoints(why=("no request with this key is known",))
    cache.forget_view()
    places = [spot for spot, _ in written(3).places]
    assert places == [*(spot for spot, _ in head_only), BlockLocation(2, 0)]


def summary_call(scene: Alone, strategy: Literal["fork", "provider"], at: datetime) -> CapturedRequest:
    conversation, cache = scene.conversation, scene.conversation.cache
    tracker, setting = conversation._tracker, conversation.setting
    messages = tracker.messages(setting.preamble, setting.costs)
    captured = capture_request(setting, setting.parameters, messages, cache.answered_breakpoints)
    found = expected(scene, at)
    usage = Usage(found.total - found.read, 0, found.read, 300)
    cache.note_summary_call(tracker, setting, captured, strategy, usage, at)
    return captured


@pytest.mark.parametrize("strategy", ["fork", "provider"])
def test_a_summary_call_renews_what_it_reads(strategy: Literal["fork", "provider"]):
    scene = alone()
    cached = cacheable(answered(scene))
    scene.conversation.add(b.user("Go on.", uuid="u2"))
    assert expected(scene, after(299)).read == cached
    assert expected(scene, after(301)).read == 0
    summary_call(scene, strategy, after(200))
    assert expected(scene, after(499)).read == cached
    assert expected(scene, after(501)).read == 0


@pytest.mark.parametrize(("strategy", "lasts"), [("fork", 300), ("provider", 3_600)])
def test_a_summary_call_writes_what_had_expired_at_the_breakpoints_it_was_sent_with(
    strategy: Literal["fork", "provider"], lasts: int
):
    scene = alone(ttl="1h")
    cached = cacheable(answered(scene))
    scene.conversation.add(b.user("Go on.", uuid="u2"))
    assert expected(scene, after(4_000)).read == 0
    summary_call(scene, strategy, after(4_000))
    assert expected(scene, after(4_000 + lasts - 1)).read == cached
    assert expected(scene, after(4_000 + lasts + 1)).read == 0


def test_a_summary_call_leaves_nothing_where_there_is_no_cache():
    scene = alone(capabilities=PLAIN)
    answered(scene)
    scene.conversation.add(b.user("Go on.", uuid="u2"))
    summary_call(scene, "fork", NOON)
    assert expected(scene, after(1)).read == 0


@pytest.mark.parametrize(("lasts", "seconds"), [("5m", 300), ("1h", 3_600)])
def test_a_hold_keeps_the_cache_for_as_long_as_it_asked_for(lasts: Any, seconds: int):
    scene = alone()
    cache = scene.conversation.cache
    cache.settle_hold(NOTHING, after(200), lasts=lasts)
    assert cache.held_at is None  # none was planned
    answered(scene)
    assert scene.conversation.plan_hold(after(200)) is not None
    cache.settle_hold(NOTHING, after(200), lasts=lasts)
    assert cache.held_at == after(200)
    assert [cache.is_held(after(200 + each)) for each in (seconds, seconds + 1)] == [True, False]


def restarted(scene: Alone, baselines: dict[str, Baseline] | None, **changes: Any) -> Conversation:
    before = scene.conversation
    setting = msgspec.structs.replace(before.setting, **changes)
    return Conversation(setting, before.log.records, detector=CacheBreakDetector(baselines=baselines or {}))


def told(scene: Alone, reply: Record, at: str) -> Prediction:
    """An answered call whose reply has its usage and its time."""
    found = scene.turn().prediction
    usage = {
        "input_tokens": found.plain,
        "cache_creation_input_tokens": found.write_5m + found.write_1h,
        "cache_read_input_tokens": found.read,
        "output_tokens": 5,
    }
    reply = b.assistant("Well.", id=reply.message_id, uuid=reply.uuid, usage=usage, timestamp=at)
    scene.conversation.record_reply(
        [reply], Usage(found.plain, found.write_5m + found.write_1h, found.read, 5), scene.now
    )
    return found


GUESS = ("resumed without a call of the same cache key: no read is predicted",)


@pytest.mark.spec("CB-7")
@pytest.mark.parametrize(
    ("changes", "continues", "keeps"),
    [
        ({}, True, True),
        ({"parameters": KeyParameters(TtlChoice("5m", "so"), betas=("x",))}, False, True),
        ({"preamble": head("Another prompt.")}, False, False),
        ({"model": model_of("claude-haiku-4-5")}, False, False),
        ({"source": "other"}, False, False),
    ],
)
def test_after_a_restart_the_cache_is_known_if_the_last_call_had_the_same_key(
    changes: dict[str, Any], continues: bool, keeps: bool
):
    scene = alone(b.user("Look at the parser.", uuid="u1", timestamp="2026-11-15T12:00:00.000Z"))
    cached = cacheable(told(scene, REPLY, "2026-11-15T12:00:09.000Z"))
    baselines = scene.conversation.detector.baselines
    resumed = restarted(scene, baselines, **changes)
    cache = resumed.cache
    assert cache.continues_last_call(resumed.setting) == continues
    assert cache.keeps_preamble(resumed.setting) == keeps
    assert cache.doubts == (() if continues else GUESS)
    assert (cache.sent is resumed.setting) == continues
    # The request began with the last record before its reply; without it, the reply is all that is known.
    assert cache.called_at == (NOON if continues else after(9))
    scene.conversation = resumed
    resumed.add(b.user("Go on.", uuid="u2"))
    assert expected(scene, after(299)).read == (cached if continues else 0)
    assert expected(scene, after(301)).read == 0


def test_without_a_known_call_nothing_is_known_of_the_cache():
    scene = alone()
    told(scene, REPLY, "2026-11-15T12:00:09.000Z")
    resumed = restarted(scene, None)
    assert not resumed.cache.continues_last_call(resumed.setting)
    assert not resumed.cache.keeps_preamble(resumed.setting)
    assert resumed.cache.doubts == GUESS


@pytest.mark.parametrize(("more", "is_kept"), [(0, True), (1, False)])
def test_a_replayed_call_of_another_size_makes_all_that_was_known_before_it_unusable(
    more: int, is_kept: bool
):
    scene = alone()
    conversation, cache = scene.conversation, scene.conversation.cache
    tracker, setting = conversation._tracker, conversation.setting
    # Without a call before it nothing is known, and the first one is replayed as it is.
    first = expected(scene, NOON)
    cache.replay_call(tracker, setting, Usage(first.plain, first.write_5m, 0, 5), NOON)
    assert (cache.called_at, tracker.reached > 0) == (NOON, True)
    conversation.add(REPLY)
    conversation.add(b.user("Go on.", uuid="u2"))
    known, second = cache.forecast, expected(scene, after(60))
    assert second.read == cacheable(first)
    usage = Usage(second.plain + more, second.write_5m, second.read, 5)
    cache.replay_call(tracker, setting, usage, after(60))
    assert (cache.forecast is known, cache.called_at) == (is_kept, after(60))
    conversation.add(b.assistant("On.", id="m2", uuid="a2"))
    conversation.add(b.user("And on.", uuid="u3"))
    assert expected(scene, after(359)).read == cacheable(second)


def parts(model: str = MODEL) -> list[Record]:
    """A question, and a reply in two records with the same usage."""
    usage = {"input_tokens": 5_000, "output_tokens": 5}
    said = [("Well.", "a1", "12:00:09"), ("It works.", "a2", "12:00:11")]
    return [
        b.user("Look at the parser.", uuid="u1", timestamp="2026-11-15T12:00:00.000Z"),
        *(
            b.assistant(text, id="m1", uuid=uuid, usage=usage, model=model, timestamp=f"2026-11-15T{at}.000Z")
            for text, uuid, at in said
        ),
    ]


@pytest.mark.parametrize(
    ("records", "forecast", "called_at"),
    [
        (parts(), None, NOON),
        # Of another model, which has a cache of its own.
        (parts("claude-haiku-4-5"), None, None),
        # Known already.
        (parts(), Forecast(), None),
        # Nobody knows when it was asked for.
        ([b.user("Look at the parser.", uuid="u1"), *parts()[1:2]], None, None),
        (parts()[1:2], None, None),
    ],
)
def test_a_reply_of_an_earlier_process_is_replayed_once_from_when_it_was_asked_for(
    records: list[Record], forecast: Forecast | None, called_at: datetime | None
):
    scene = alone()
    answered(scene)
    detector = CacheBreakDetector(baselines=scene.conversation.detector.baselines)
    resumed = Conversation(scene.conversation.setting, records, forecast=forecast, detector=detector)
    assert resumed.cache.sent is resumed.setting
    assert (resumed.cache.called_at, resumed._tracker.reached >= 0) == (called_at, called_at is not None)
