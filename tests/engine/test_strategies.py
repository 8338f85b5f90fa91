"""Strategies by name, their own model, and autonomous work, as a conversation is given them."""

from collections.abc import Mapping
from typing import Any

import builders as b
import pytest
from engine.alone import DOWN, Alone, summary
from engine.working import told

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionFailed,
    CompactionRequest,
    CompactionSkipped,
)
from everturn.decide.effects import Effect, HookOutcome, ModelAnswer, ModelFailure, RunHooks
from everturn.decide.events import CompactionDone, CompactionNotDone, EventContext
from everturn.decide.extractive import summarize
from everturn.decide.notes.document import Notes, NotesState
from everturn.history.blocks import block_from_fields, text_of
from everturn.history.edits import Undone
from everturn.history.records import Usage

TALK = [
    b.user("Mend the parser. " * 2_000, uuid="u"),
    b.assistant("Done so far.", id="m", uuid="a"),
]
BY_HAND = CompactionRequest(trigger="manual")
AUTONOMOUS = "You are running autonomously"


def compacted(scene: Alone, asked: CompactionRequest = BY_HAND) -> Compaction:
    scene.conversation.notes = Notes("# Current state\n" + "The parser is mended. " * 9, NotesState("a"))
    made = scene.run(scene.conversation.compact(asked, scene.now, scene.new_id))
    assert isinstance(made, Compaction), made
    return made


def scene(way: str, **options: object) -> Alone:
    compact = CompactSettings(strategies=(way,), **options)  # type: ignore[arg-type]
    return Alone(TALK, model="claude-opus-4-6", compact=compact, answers=[summary()])


@pytest.mark.spec("CP-35")
@pytest.mark.parametrize("name", ["extract", "extractive"])
def test_the_summary_without_a_model_has_two_names_and_is_told_by_one(name):
    made = scene(name)
    assert compacted(made).attempts[-1].strategy == "extractive"
    (event,) = [each for each in made.events if isinstance(each, CompactionDone)]
    assert event.way == "extractive"
    assert event.moment == EventContext(at=made.now, source="main", model="claude-opus-4-6")


@pytest.mark.spec("CP-35")
def test_the_provider_compacts_where_it_is_named():
    made = scene("provider")
    signed = block_from_fields({"type": "compaction", "content": "All is well.", "signature": "s"})
    made.answers = [ModelAnswer((signed,), "end_turn", Usage(10, 0, 0, 5))]
    assert compacted(made).summary.blocks == (signed,)
    assert made.asked[0].request.settings["compaction"] == {"type": "summarize"}


def test_the_users_instructions_reach_the_provider():
    made = scene("provider")
    signed = block_from_fields({"type": "compaction", "content": "All is well.", "signature": "s"})
    made.answers = [ModelAnswer((signed,), "end_turn", Usage(10, 0, 0, 5))]
    compacted(made, CompactionRequest(trigger="manual", instructions="Keep the numbers."))
    (asked,) = made.asked
    asks = asked.request.settings["compaction"]
    assert (asks["type"], "Keep the numbers." in asks["instructions"]) == ("summarize", True)


@pytest.mark.spec("CP-6")
@pytest.mark.parametrize(("way", "asked"), [("direct", "claude-haiku-4-5"), ("fork", "claude-opus-4-6")])
def test_another_model_summarizes_by_a_direct_call_only(way, asked):
    """A fork shares the cache of its parent, which belongs to one model."""
    made = scene(way, summary_model="claude-haiku-4-5")
    compacted(made)
    assert [effect.request.model for effect in made.asked] == [asked]


@pytest.mark.spec("CP-11")
@pytest.mark.parametrize("way", ["notes", "fork", "direct", "extractive"])
@pytest.mark.parametrize("trigger", ["manual", "auto"])
def test_an_autonomous_conversation_is_told_to_go_on_whichever_strategy_wrote_the_summary(way, trigger):
    asked = CompactionRequest(trigger=trigger)
    assert AUTONOMOUS in told(compacted(scene(way, autonomous=True), asked))
    assert AUTONOMOUS not in told(compacted(scene(way), asked))


def failed(scene: Alone, asked: CompactionRequest = BY_HAND) -> CompactionFailed:
    outcome = scene.run(scene.conversation.compact(asked, scene.now, scene.new_id))
    assert isinstance(outcome, CompactionFailed), outcome
    return outcome


def answer(fields: dict[str, object], stop_reason: str = "end_turn") -> ModelAnswer:
    return ModelAnswer((block_from_fields(fields),), stop_reason, Usage(10, 1, 2, 5))


@pytest.mark.spec("CP-35")
@pytest.mark.parametrize(
    ("answers", "attempt"),
    [
        pytest.param(
            DOWN, Attempt(strategy="provider", problem=DOWN.message, failure=DOWN), id="it does not answer"
        ),
        pytest.param(
            answer({"type": "text", "text": "No."}, "max_tokens"),
            Attempt(
                strategy="provider",
                problem="the provider gave no summary (stop reason max_tokens)",
                usage=Usage(10, 1, 2, 5),
            ),
            id="it answers without a summary",
        ),
    ],
)
def test_a_provider_that_gives_no_summary_is_reported_with_what_it_said(answers, attempt):
    made = scene("provider")
    made.answers = [answers]
    assert failed(made).attempts == (attempt,)


@pytest.mark.spec("CP-35")
def test_a_model_that_the_provider_does_not_compact_is_not_asked():
    compact = CompactSettings(strategies=("provider",))
    made = Alone(TALK, model="claude-haiku-4-5", compact=compact, answers=[summary()])
    assert failed(made).attempts == (
        Attempt(strategy="provider", problem="the provider cannot compact this"),
    )
    assert made.asked == []


@pytest.mark.spec("CP-9")
def test_an_answer_that_the_gate_refuses_is_asked_for_once_more_with_the_reason():
    made = scene("direct")
    made.answers = [answer({"type": "text", "text": "Too short."}), summary()]
    found = compacted(made).attempts
    assert [(each.strategy, each.problem, each.usage) for each in found] == [
        ("direct", "", Usage(1_010, 1, 2, 305))
    ]
    first, again = made.asked
    said, told_why = again.request.messages[-2:]
    assert again.request.messages[:-2] == first.request.messages
    assert (said.role, [text_of(block) for block in said.blocks]) == ("assistant", ["Too short."])
    assert told_why.role == "user"
    assert (first.is_overflow_retry, again.is_overflow_retry) == (False, False)


@pytest.mark.spec("CP-9")
def test_a_refused_answer_without_words_is_repeated_as_a_placeholder():
    made = scene("direct")
    made.answers = [answer({"type": "tool_use", "id": "c", "name": "Read", "input": {}}), summary()]
    compacted(made)
    (said,) = made.asked[1].request.messages[-2].blocks
    assert said.kind == "text"


@pytest.mark.spec("CP-9")
def test_two_refused_answers_are_the_end_of_a_strategy_and_both_are_paid():
    made = scene("direct")
    made.answers = [answer({"type": "text", "text": "Too short."})]
    (attempt,) = failed(made).attempts
    assert (len(made.asked), attempt.text, attempt.usage) == (2, "", Usage(20, 2, 4, 10))
    assert attempt.problem != ""


@pytest.mark.spec("CP-9")
def test_a_failure_after_a_refused_answer_tells_both_reasons():
    made = scene("direct")
    made.answers = [answer({"type": "text", "text": "Too short."}), DOWN]
    (attempt,) = failed(made).attempts
    short, down = attempt.problem.split("; ")
    assert (short != "", down, attempt.failure, attempt.usage) == (
        True,
        DOWN.message,
        DOWN,
        Usage(10, 1, 2, 5),
    )


@pytest.mark.spec("CP-22")
def test_calls_that_are_spent_are_not_made_and_the_next_strategy_is_tried():
    compact = CompactSettings(strategies=("direct", "fork", "extractive"), calls=1)
    made = Alone(TALK, model="claude-opus-4-6", compact=compact, answers=[DOWN])
    found = compacted(made)
    spent = "no model is asked again: the calls for this summary (1) are spent"
    assert [(each.strategy, each.problem) for each in found.attempts] == [
        ("direct", DOWN.message),
        ("fork", spent),
        ("extractive", ""),
    ]
    assert len(made.asked) == 1


@pytest.mark.spec("CP-9")
def test_a_direct_request_that_is_too_long_is_sent_again_without_its_oldest_rounds():
    talk = [
        each
        for at in range(9)
        for each in (
            b.user(f"Question {at}. " + "Mend it. " * 900, uuid=f"u{at}"),
            b.assistant(f"Answer {at}.", id=f"m{at}", uuid=f"a{at}"),
        )
    ]
    too_long = ModelFailure("too_long", "prompt is too long")
    compact = CompactSettings(strategies=("direct",), calls=1)
    made = Alone(talk, model="claude-opus-4-6", compact=compact, answers=[too_long, too_long, summary()])
    compacted(made)
    sizes = [len(each.request.messages) for each in made.asked]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3
    assert [each.is_overflow_retry for each in made.asked] == [False, True, True]
    made = Alone(talk[:2], model="claude-opus-4-6", compact=compact, answers=[too_long])
    (attempt,) = failed(made).attempts
    assert (attempt.failure, len(made.asked)) == (too_long, 2)
    assert attempt.problem != too_long.message


@pytest.mark.spec("CP-6")
@pytest.mark.parametrize(
    ("model", "thinking"),
    [("claude-haiku-5-5", {"type": "disabled"}), ("claude-opus-5-5", None), ("claude-haiku-4-5", None)],
)
def test_a_direct_call_switches_thinking_off_where_it_is_on_and_can_be(model, thinking):
    made = scene("direct", summary_model=model, max_output=9_000)
    compacted(made)
    settings = made.asked[0].request.settings
    assert (settings.get("thinking"), settings["max_tokens"]) == (thinking, 9_000)


def refuse(made: Alone, why: str = "400") -> bool:
    return made.run(made.conversation.refused(why, made.now, made.new_id))


@pytest.mark.spec("CP-38")
def test_a_compaction_that_no_reply_followed_is_undone_when_the_api_refuses_its_view():
    made = scene("extractive")
    before = made.conversation.log.view.records
    compacted(made)
    assert refuse(made)
    assert made.conversation.log.view.records == before
    undone = made.conversation.log.records[-1].edit
    assert undone == Undone(undone.boundary, "the API refused the compacted view: 400")
    (told_of,) = [each for each in made.events if isinstance(each, CompactionNotDone)]
    assert (told_of.reason, told_of.detail) == ("view_refused", undone.why)
    assert made.turn().compacted == CompactionSkipped(f"The last accepted view is sent: {undone.why}")


@pytest.mark.spec("CP-38")
def test_a_view_that_was_accepted_or_never_compacted_is_not_undone():
    made = scene("extractive")
    assert not refuse(made)
    compacted(made)
    made.conversation.add(b.assistant("Accepted.", id="m9", uuid="a9"))
    records = made.conversation.log.records
    assert not refuse(made)
    assert made.conversation.log.records == records


@pytest.mark.spec("CP-38")
def test_after_an_overflow_the_refused_view_is_summarized_whole():
    made = scene("extractive")
    compacted(made)
    refuse(made)
    made.run(made.conversation.overflowed(made.now, made.new_id))
    refuse(made)
    again = made.turn().compacted
    assert isinstance(again, Compaction)
    assert again.plan is not None
    assert again.plan.asked == CompactionRequest(trigger="auto", is_reactive=True, keeps_nothing=True)
    assert again.kept is None


class Hooked(Alone):
    """With hooks that answer."""

    outcomes: Mapping[str, HookOutcome] = {}

    def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, RunHooks):
            return self.outcomes.get(effect.event, HookOutcome())
        return super()._perform(effect)


def hooked(**outcomes: HookOutcome) -> Hooked:
    compact = CompactSettings(strategies=("direct", "extractive"))
    made = Hooked(TALK, model="claude-opus-4-6", compact=compact, answers=[summary()])
    made.outcomes = outcomes
    return made


def test_a_hook_that_does_not_allow_a_compaction_is_told_with_its_reason():
    made = hooked(PreCompact=HookOutcome(blocked="not on Fridays"))
    outcome = made.run(made.conversation.compact(BY_HAND, made.now, made.new_id))
    assert outcome == CompactionSkipped("a PreCompact hook does not allow it: not on Fridays")
    assert (made.asked, made.conversation.log.view.boundary) == ([], None)


@pytest.mark.spec("CP-18")
def test_what_hooks_say_before_and_after_reaches_the_summary_and_the_view():
    made = hooked(
        PreCompact=HookOutcome(instructions=("Keep the numbers.", " ")),
        PostCompact=HookOutcome(context=("Mind the tests.",)),
    )
    found = compacted(made, CompactionRequest(trigger="manual", instructions="Be brief."))
    assert found.plan is not None
    assert found.plan.asked.instructions == "Be brief.\n\nKeep the numbers."
    last = made.conversation.log.view.records[-1]
    assert "Mind the tests." in text_of(last.blocks[0]) or b"Mind the tests." in last.blocks[0].raw
    assert last not in found.records


def test_a_cancelled_call_is_the_end_and_no_other_strategy_is_tried():
    made = hooked()
    made.answers = [ModelFailure("cancelled", "stopped by the user")]
    found = failed(made)
    assert [(each.strategy, each.problem) for each in found.attempts] == [("direct", "stopped by the user")]


@pytest.mark.spec("CP-39")
def test_an_open_breaker_stops_a_compaction_before_anything_is_asked():
    compact = CompactSettings(strategies=("direct",), failures=1)
    made = Alone(TALK, model="claude-opus-4-6", compact=compact, answers=[DOWN])
    automatic = CompactionRequest(trigger="auto", is_reactive=True)
    failed(made, automatic)
    asked = len(made.asked)
    outcome = made.run(made.conversation.compact(automatic, made.now, made.new_id))
    assert outcome == CompactionSkipped(made.conversation.compaction_state.breaker.describe())
    assert len(made.asked) == asked


@pytest.mark.spec("CP-35")
def test_a_provider_s_summary_that_begins_as_ours_do_is_refused():
    ours = summarize([b.user("x", uuid="x")]).text
    made = scene("provider")
    made.answers = [answer({"type": "compaction", "content": ours, "signature": "s"})]
    (attempt,) = failed(made).attempts
    assert (attempt.problem != "", attempt.usage, attempt.text) == (True, Usage(10, 1, 2, 5), "")
