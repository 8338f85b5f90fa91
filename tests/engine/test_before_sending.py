"""What a turn and a compaction do before anything is sent: edits that are due, changes that wait."""

from datetime import timedelta
from typing import Any

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone, summary
from engine.held import head, model_of
from engine.test_view_edits import ANSWER, BARE_LOOP, DELETED, ENABLED, THOUGHT, thinking_loop

from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest, CompactionSkipped
from everturn.decide.micro.context import MicroContext
from everturn.decide.micro.declarative import AppliedContextEdit
from everturn.engine.compactor import _least_tokens
from everturn.history.edits import CacheDeletionsEnded, Cleared, ThinkingDropped, ToldAsText
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import EXTENDED_TWIN
from everturn.view.key_parameters import KeyParameters, TtlChoice

MODEL, OTHER, BINDING, FORGETTING = (
    "claude-opus-4-6",
    "claude-opus-4-5",
    "claude-fable-5-2",
    "claude-sonnet-4-5",
)
FORK = CompactSettings(strategies=("fork",))
BY_HAND = CompactionRequest(trigger="manual")
LATER = NOON + timedelta(seconds=400)


def key(**more: Any) -> KeyParameters:
    return KeyParameters(TtlChoice("5m", "the test says so"), **more)


def compacted(scene: Alone) -> Compaction:
    made = scene.run(scene.conversation.compact(BY_HAND, LATER, scene.new_id))
    assert isinstance(made, Compaction), made
    return made


@pytest.mark.parametrize(
    ("records", "given", "expected"),
    [
        (
            DELETED,
            {"model": MODEL, "capabilities": EXTENDED_TWIN},
            CacheDeletionsEnded("idle for 400 s, longer than the cache lifetime"),
        ),
        (
            THOUGHT,
            {"model": FORGETTING},
            ThinkingDropped("a1", f"it was written by {MODEL}, and {FORGETTING} cannot read it"),
        ),
        (
            BARE_LOOP,
            {"model": FORGETTING, "parameters": key(thinking=ENABLED)},
            ToldAsText(("c1",), "with thinking enabled, the API refuses a tool loop without thinking"),
        ),
    ],
)
def test_what_the_api_would_refuse_goes_before_a_summary_is_asked_for(
    records: list[Record], given: dict[str, Any], expected: Any
):
    scene = Alone(records, compact=FORK, answers=[summary()], **given)
    by_itself = CompactionRequest(trigger="auto")
    scene.run(scene.conversation._compactor._compact_for_request(by_itself, LATER, scene.new_id))
    edit = scene.conversation.log.records[len(records)]
    assert (edit.edit, edit.timestamp) == (expected, "2026-11-15T12:06:40.000Z")


@pytest.mark.parametrize("asked", [BY_HAND, CompactionRequest(trigger="manual", form="up_to", at="typo")])
def test_a_compaction_by_hand_that_is_not_made_changes_nothing(asked: CompactionRequest):
    thinks = {"model": FORGETTING, "parameters": key(thinking=ENABLED)}
    scene = Alone(BARE_LOOP, compact=FORK, answers=[summary()], **thinks)
    outcome = scene.run(scene.conversation.compact(asked, LATER, scene.new_id))
    assert isinstance(outcome, CompactionSkipped)
    assert list(scene.conversation.log.records) == BARE_LOOP


def looping(model: str, **more: Any) -> Alone:
    """A tool was called, and its result is to be sent."""
    scene = Alone([b.user("Look.", uuid="u1")], model=model, preamble=head(), **more)
    scene.turn()
    _, reply, last = thinking_loop(ANSWER, model)
    scene.conversation.record_reply([reply], Usage(10, 0, 0, 5), NOON)
    scene.conversation.add(last)
    return scene


def changed(scene: Alone, **fields: Any) -> None:
    scene.conversation.setting = msgspec.structs.replace(scene.conversation.setting, **fields)


WAITS = "a change of {} waits until the tool loop has ended"


@pytest.mark.spec("PC-16")
@pytest.mark.parametrize(
    ("model", "change", "waits"),
    [
        (MODEL, {"model": model_of(OTHER)}, "the model"),
        (MODEL, {"model": model_of(OTHER), "decides": "caller"}, ""),
        (MODEL, {"preamble": head("Another prompt.")}, ""),
        (BINDING, {"preamble": head("Another prompt.")}, "system prompt and tools"),
        (BINDING, {"preamble": head()}, ""),
        (MODEL, {}, ""),
    ],
)
def test_a_change_that_would_invalidate_the_thinking_of_a_tool_loop_waits_for_its_end(
    model: str, change: dict[str, Any], waits: str
):
    scene = looping(model)
    before = scene.conversation.setting
    changed(scene, **change)
    wanted = scene.conversation.setting
    turn = scene.turn()
    assert [note for note in turn.notes if "waits" in note] == ([WAITS.format(waits)] if waits else [])
    sent = before if waits else wanted
    assert (turn.captured.model, turn.captured.preamble) == (sent.model.id, sent.preamble)
    scene.conversation.record_reply([b.assistant("Seen.", id="m2", uuid="a2")], Usage(10, 0, 0, 5), NOON)
    scene.conversation.add(b.user("Go on.", uuid="u2"))
    after = scene.turn()
    assert (after.captured.model, after.captured.preamble) == (wanted.model.id, wanted.preamble)
    assert [note for note in after.notes if "waits" in note] == []


def cached(scene: Alone, tokens: int, *, id: str, read: int | None = None) -> Any:
    """A call that reads what the one before it wrote, unless told otherwise."""
    turn = scene.turn()
    found = turn.prediction.read if read is None else read
    reply = b.assistant("Well.", id=id, uuid=id)
    assessed = scene.conversation.record_reply([reply], Usage(10, tokens - found, found, 5), scene.now)
    return assessed.verdict


def talking() -> Alone:
    scene = Alone([b.user("Look.", uuid="u1")], model=MODEL, preamble=head())
    cached(scene, 9_000, id="m1")
    scene.conversation.add(b.user("Go on.", uuid="u2"))
    cached(scene, 9_000, id="m2", read=8_000)
    scene.conversation.add(b.user("And on.", uuid="u3"))
    return scene


@pytest.mark.spec("CB-6")
def test_less_is_read_for_no_reason_of_ours_and_that_is_a_break():
    assert isinstance(cached(talking(), 9_000, id="m3", read=0), DetectedBreak)


@pytest.mark.spec("MC-15")
@pytest.mark.parametrize("cleared", [1, 0])
def test_what_the_api_cleared_itself_is_no_break(cleared: int):
    scene = talking()
    scene.turn()
    reply = b.assistant("Well.", id="m3", uuid="m3")
    applied = [AppliedContextEdit("other"), AppliedContextEdit("clear_tool_uses_20250919", cleared)]
    found = scene.conversation.record_reply([reply], Usage(10, 9_000, 0, 5), scene.now, applied=applied)
    assert isinstance(found.verdict, NoBreak if cleared else DetectedBreak)
    assert found.check is not None
    assert (found.check.verdict == "cleared by the API") == bool(cleared)


def test_a_replaced_view_is_no_break_and_is_told_to_the_detector_once():
    scene = talking()
    for record in (b.boundary("b1"), b.summary(uuid="s1", parent="b1"), b.user("Go on.", uuid="u4")):
        scene.conversation.add(record)
    assert scene.conversation._tracker.is_new
    assert isinstance(cached(scene, 9_000, id="m4", read=0), NoBreak)
    assert not scene.conversation._tracker.is_new
    scene.conversation.add(b.user("And on.", uuid="u5"))
    assert isinstance(cached(scene, 9_000, id="m5", read=8_000), NoBreak)
    scene.conversation.add(b.user("And on again.", uuid="u6"))
    assert isinstance(cached(scene, 9_000, id="m6", read=0), DetectedBreak)


SIZE = {"input_tokens": 30_000, "output_tokens": 5}
LONG = [
    b.user("Mend the parser. " * 2_000, uuid="u1"),
    b.assistant("Done so far.", id="m1", uuid="a1", usage=SIZE, timestamp="2026-11-15T12:00:00.000Z"),
    b.user("And the lexer.", uuid="u2"),
]


def refused(scene: Alone) -> bool:
    return scene.run(scene.conversation.refused("messages.1: invalid", scene.now, scene.new_id))


@pytest.mark.spec("CP-38")
def test_after_a_refused_view_the_last_accepted_one_is_sent_if_it_fits():
    scene = Alone(LONG, compact=FORK, answers=[summary()])
    assert refused(scene) is False
    whole = [record.uuid for record in scene.conversation.log.view.records]
    compacted(scene)
    assert refused(scene) is True
    assert [record.uuid for record in scene.conversation.log.view.records] == whole
    outcome = scene.turn().compacted
    assert isinstance(outcome, CompactionSkipped)
    assert outcome.why.startswith("The last accepted view is sent: ")
    assert "messages.1: invalid" in outcome.why
    # An answer ends that: from then on the threshold decides again.
    scene.conversation.record_reply([b.assistant("Both.", id="m9", uuid="a9")], Usage(10, 0, 0, 5), NOON)
    scene.conversation.add(b.user("Go on.", uuid="u9"))
    again = scene.turn().compacted
    assert isinstance(again, CompactionSkipped)
    assert not again.why.startswith("The last accepted view")


@pytest.mark.spec("CP-26", "CP-38")
def test_a_view_that_was_too_long_and_whose_summary_was_refused_is_summarized_whole():
    scene = Alone(LONG, compact=FORK, answers=[summary()])
    made = scene.run(scene.conversation.overflowed(scene.now, scene.new_id))
    assert isinstance(made, Compaction)
    assert made.plan is not None
    assert made.plan.asked.is_reactive
    assert refused(scene) is True
    again = scene.turn().compacted
    assert isinstance(again, Compaction)
    assert again.plan is not None
    asked = again.plan.asked
    assert (asked.trigger, asked.is_reactive, asked.keeps_nothing) == ("auto", True, True)
    assert again.kept is None


def test_how_small_a_context_can_be_counted_is_scaled_to_the_model_that_will_count_it():
    scene = Alone(
        [
            b.user("Look.", uuid="u1"),
            b.assistant(b.call("c1", path="a.py"), id="m0", uuid="a0", usage={"input_tokens": 9_000}),
            b.result("c1", "def a(): ... " * 900, uuid="r1"),
            b.assistant("Well.", id="m1", uuid="a1", usage={"input_tokens": 30_000, "output_tokens": 0}),
            b.user("And the lexer.", uuid="u2"),
        ],
        model=MODEL,
        compact=FORK,
    )
    conversation = scene.conversation

    def least(model: str) -> tuple[int, int]:
        changed(scene, model=model_of(model))
        found = _least_tokens(conversation.size, conversation.log.view, conversation.setting)
        return found.sent, found.unsent

    tail = conversation.size.rough_tail
    assert least(MODEL) == (30_000, tail)
    own, other = model_of(MODEL).chars_per_token, model_of(BINDING).chars_per_token
    assert least(BINDING) == (round(30_000 * own / other), tail)
    assert own != other
    conversation.add(b.edited(Cleared(("c1",), tokens_saved=10, why="it is old"), "e1"))
    freed = conversation.size.freed
    assert freed > 0
    assert least(MODEL) == (30_000 - freed, tail)
    for record in (b.boundary("b1"), b.summary(uuid="s1", parent="b1")):
        conversation.add(record)
    size = conversation.size
    assert least(MODEL) == (size.reported, size.rough_tail)


def test_a_summary_call_has_the_breakpoints_of_the_last_request_that_its_model_was_sent():
    scene = Alone([b.user("Look.", uuid="u1")], model=MODEL, preamble=head(), compact=FORK)
    conversation = scene.conversation

    def captured(model: str = MODEL) -> Any:
        setting = msgspec.structs.replace(conversation.setting, model=model_of(model))
        found = conversation._compactor.context(setting, NOON)
        assert found is not None
        return found.captured.breakpoints.places, found.answered.places

    assert captured() == ((), ())
    first = scene.turn().breakpoints.places
    # Sent and not answered: its breakpoints are there, and what they wrote is not known.
    assert captured() == (first, first[:-1])
    conversation.record_reply([b.assistant("Well.", id="m1", uuid="a1")], Usage(10, 0, 0, 5), NOON)
    conversation.add(b.user("Go on.", uuid="u2"))
    assert captured() == (first, first)
    second = scene.turn().breakpoints.places
    assert captured() == (second, first)
    assert captured(OTHER) == ((), ())


@pytest.mark.parametrize(
    ("records", "answered"),
    [
        ([], 0),
        ([b.user("One.", uuid="u1")], 0),
        ([b.user("One.", uuid="u1"), b.assistant("Well.", id="m1", uuid="a1")], 1),
        (THOUGHT, 5),
        ([*THOUGHT, b.user("Four.", uuid="u4")], 5),
        ([*THOUGHT, b.boundary("b1"), b.summary(uuid="s1", parent="b1")], 0),
    ],
)
def test_how_many_messages_the_last_answered_request_had(records: list[Record], answered: int):
    conversation = Alone(records, model=MODEL).conversation
    assert conversation._compactor._answered_messages(conversation._state) == answered


def test_a_micro_compaction_is_planned_from_all_that_is_known_of_the_view():
    scene = looping(BINDING)
    conversation, tracker = scene.conversation, scene.conversation._tracker
    changed(scene, source="agent")
    setting, now = conversation.setting, NOON + timedelta(seconds=30)
    assert conversation._micro_context(setting, now) == MicroContext(
        results=tracker.results,
        options=setting.options,
        source="agent",
        now=now,
        last_reply=NOON,
        size=conversation.size.tokens,
        capabilities=setting.capabilities,
        in_tool_loop=True,
        binds_thinking=True,
        thinking_tokens_after=tracker.thinking.tokens_after,
        cached=tracker.cached,
        records=conversation.log.view.records,
        counts=conversation._state.counts,
    )


@pytest.mark.spec("MC-11")
def test_what_a_deletion_saved_is_told_once_as_the_provider_counts_it():
    scene = Alone(DELETED, model=MODEL, capabilities=EXTENDED_TWIN)
    conversation = scene.conversation
    tracker = conversation._tracker
    tracker.cached = msgspec.structs.replace(tracker.cached, awaits_report=True, baseline=100)

    def replied(id: str, deleted: int | None) -> int:
        record = b.assistant("Well.", id=id, uuid=id)
        assert record.reply is not None
        reply = msgspec.structs.replace(record.reply, deleted_tokens=deleted)
        record = msgspec.structs.replace(record, reply=reply)
        return conversation.record_reply([record], Usage(10, 0, 90, 5), NOON).deletion_saved

    assert [replied("m5", None), replied("m6", 900), replied("m7", 900)] == [0, 800, 0]
    assert (tracker.cached.reported, tracker.cached.awaits_report) == (900, False)
