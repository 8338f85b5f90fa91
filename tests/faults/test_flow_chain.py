"""Whatever goes wrong while a summary is made: the view is valid, the reason is named, the session goes on.

Every fault of the twin strikes the summary, first once, then for as long as it takes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine.held import words
from engine.working import LINE, Working, low, restored, told

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionRequest, CompactionSkipped
from everturn.decide.effects import AskModel, HookOutcome, ModelFailure, RunHooks
from everturn.decide.events import BreakerClosed, BreakerOpened, CompactionNotDone
from everturn.decide.notes.document import Notes, NotesState
from everturn.history.blocks import text_of
from everturn.session.upstream import UpstreamError
from everturn.twin.faults import FAULT_VENDORS
from everturn.twin.speaker import script_reply

Begin = Callable[..., Working]
BY_HAND = CompactionRequest(trigger="manual")
MODEL_WAYS = ("fork", "direct", "extractive")

# Each with words that must stand in the reason.
ERRORS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"kind": "server_error"}, "Internal server error"),
    ({"kind": "overloaded"}, "Overloaded"),
    ({"kind": "rate_limit"}, "rate limit"),
    ({"kind": "request_too_large"}, "maximum size"),
    ({"kind": "timeout"}, "timed out"),
    ({"kind": "timeout", "hangs_up": True}, "not a message"),
    ({"kind": "garbage"}, "not a message"),
    ({"kind": "cut_stream"}, "not a message"),
    ({"kind": "stream_error"}, "Overloaded"),
    *(({"kind": "prompt_too_long", "vendor": vendor}, "") for vendor in FAULT_VENDORS),
)
SPOILED = (
    ("empty_summary", "it is empty"),
    ("refusing_summary", "the model refused"),
    ("tool_calling_summary", "it called Bash and said nothing"),
)


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    return lambda **how: Working(tmp_path, **how)


def goes_on(working: Working) -> None:
    """Two more tasks, as if nothing had happened."""
    before = len(working.refused)
    list(working.work(2))
    assert working.misses == []
    assert working.breaks == []
    assert len(working.refused) == before


def tried(made: object) -> list[tuple[str, bool]]:
    assert isinstance(made, Compaction | CompactionFailed), made
    return [(attempt.strategy, not attempt.problem) for attempt in made.attempts]


def summary_calls(working: Working) -> int:
    """As the provider counts them."""
    return len(working.box.ledger) - len(working.done)


# ── the chain ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-28")
@pytest.mark.parametrize(("fault", "says"), ERRORS)
def test_an_error_on_one_way_leads_to_the_next(begin, fault, says):
    working = begin(ways=MODEL_WAYS)
    list(working.work(5))
    working.box.faults(fault)
    made = working.runner.compact(BY_HAND)
    assert tried(made) == [("fork", False), ("direct", True)]
    assert says in made.attempts[0].problem
    goes_on(working)


@pytest.mark.spec("CP-28")
@pytest.mark.parametrize(("fault", "says"), ERRORS)
def test_a_provider_that_only_fails_ends_at_the_way_without_a_model(begin, fault, says):
    working = begin(ways=MODEL_WAYS)
    list(working.work(5))
    working.box.faults(fault | {"times": 99})
    made = working.runner.compact(BY_HAND)
    assert tried(made) == [("fork", False), ("direct", False), ("extractive", True)]
    # A fork, a direct call, and where that is too long its retries.
    calls = 2 + 3 if fault["kind"] == "prompt_too_long" else 2
    assert summary_calls(working) == calls
    working.box.twin.faults.clear()
    goes_on(working)


@pytest.mark.spec("CP-31")
@pytest.mark.parametrize(("kind", "says"), SPOILED)
def test_a_spoiled_summary_is_repaired_once_on_the_same_way(begin, kind, says):
    working = begin(ways=MODEL_WAYS)
    list(working.work(5))
    working.box.faults(kind)
    made = working.runner.compact(BY_HAND)
    assert tried(made) == [("fork", True)]
    assert summary_calls(working) == 2
    asked = text_of(working.world.asked[-1].request.messages[-1].blocks[-1])
    assert says in asked
    goes_on(working)


@pytest.mark.spec("CP-31")
@pytest.mark.parametrize(("kind", "says"), SPOILED)
def test_what_cannot_be_repaired_is_left_for_the_next_way(begin, kind, says):
    working = begin(ways=MODEL_WAYS)
    list(working.work(5))
    working.box.faults({"kind": kind, "times": 2})
    made = working.runner.compact(BY_HAND)
    assert tried(made) == [("fork", False), ("direct", True)]
    assert made.attempts[0].problem == says
    assert made.attempts[0].usage.output_tokens >= 0
    goes_on(working)


@pytest.mark.spec("CP-9")
def test_a_direct_call_that_is_too_long_loses_its_oldest_rounds(begin):
    working = begin(ways=MODEL_WAYS)
    list(working.work(8))
    working.box.faults({"kind": "prompt_too_long", "times": 4, "vendor": "vertex"})
    made = working.runner.compact(BY_HAND)
    assert tried(made) == [("fork", False), ("direct", True)]
    lengths = [len(effect.request.messages) for effect in working.world.asked if effect.strategy == "direct"]
    assert lengths == sorted(set(lengths), reverse=True)
    assert len(lengths) == 4
    goes_on(working)


@pytest.mark.spec("CP-9")
def test_the_end_of_all_retries_says_what_the_user_can_do(begin):
    working = begin(ways=("fork", "direct"))
    list(working.work(8))
    working.box.faults({"kind": "prompt_too_long", "times": 99, "vendor": "vertex"})
    made = working.runner.compact(BY_HAND)
    assert isinstance(made, CompactionFailed)
    assert made.why.endswith(
        "; direct: the conversation is still too long to be summarized after 3 retries. Nothing was changed. "
        "You can compact with another strategy (`extractive` needs no model), compact a part of the "
        "conversation (`everturn compact --up-to`), rewind to an earlier message, or start again with /clear."
    )


@pytest.mark.parametrize(
    ("model", "named", "thinking"),
    [
        ("claude-sonnet-4-5", "", None),
        ("claude-opus-5", "", {"type": "disabled"}),
        ("claude-sonnet-4-5", "claude-opus-5", {"type": "disabled"}),
        # Cannot be told not to think.
        ("claude-opus-5-5", "", None),
    ],
)
def test_a_direct_call_has_its_own_prompt_a_cap_and_no_thinking(begin, model, named, thinking):
    compact = CompactSettings(summary_model=named)
    working = begin(model=model, ways=("direct",), compact=compact)
    list(working.work(2))
    assert tried(working.runner.compact(BY_HAND)) == [("direct", True)]
    request = working.world.asked[-1].request
    assert request.model == (named or model)
    assert request.tools == ()
    assert (request.settings["max_tokens"], request.settings.get("thinking")) == (20_000, thinking)
    goes_on(working)


@pytest.mark.spec("CP-35")
def test_a_provider_that_cannot_compact_now_is_passed_over(begin):
    working = begin(model="claude-opus-4-6", ways=("provider", "fork"))
    list(working.work(3))
    working.box.faults("compaction_unavailable")
    made = working.runner.compact(BY_HAND)
    assert tried(made) == [("provider", False), ("fork", True)]
    working.box.faults("empty_summary")
    list(working.work(1))
    made = working.runner.compact(BY_HAND)
    assert tried(made) == [("provider", False), ("fork", True)]
    assert "gave no summary" in made.attempts[0].problem
    goes_on(working)


@pytest.mark.spec("CP-21")
def test_a_result_over_the_mark_is_a_failure_of_its_way(begin):
    working = begin(ways=("fork", "direct"), under=low(7, "none"))
    working.box.twin.speaker.add([script_reply("Hello.")])
    list(working.task("Hello."))
    working.runner.say(words(40_000, "A long story."))
    large = "<summary>\n1. Primary request and intent: " + words(6_000, "all of it") + "\n</summary>"
    working.box.twin.speaker.add([script_reply(large, when="Write a summary")])
    list(working.task("Go on."))
    made = working.compactions[0]
    assert tried(made) == [("fork", False), ("direct", True)]
    assert "at or over the threshold of 12,600" in made.attempts[0].problem
    assert made.tokens_after < 12_600
    assert working.misses == []


def test_restored_files_give_way_where_there_is_no_room(begin):
    working = begin(ways=("fork",), under=low(14, "none"))
    list(working.work(3))
    for file in working.files:
        file.write_text(LINE * 400)
    working.runner.say(words(40_000, "A long story."))
    before = len(working.compactions)
    list(working.task("Go on."))
    made = working.compactions[before]
    assert restored(made, "restored_file") == []
    assert "it did not fit into the context" in str(restored(made, "restored_files_left_out"))
    assert working.misses == []


@pytest.mark.spec("CP-21")
def test_notes_stand_for_what_they_cover(begin):
    working = begin(ways=("notes", "fork"))
    list(working.work(12))
    conversation = working.runner.conversation
    covers = conversation.log.view.records[-30].uuid
    state = "The tokenizer is done and tested. " * 20
    body = f"# Session title\nMending the parser\n\n# Current state\n{state}"
    conversation.notes = Notes(body, NotesState(covers=covers))
    made = working.runner.compact(BY_HAND)
    assert tried(made) == [("notes", True)]
    assert summary_calls(working) == 0
    assert "The tokenizer is done and tested." in told(made)
    assert made.kept is not None
    shown = {record.uuid for record in conversation.log.view.records}
    assert {record.uuid for record in made.plan.kept} <= shown
    goes_on(working)


# ── breakers ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-22", "CP-28")
def test_three_failures_open_the_breaker_and_it_is_told(begin):
    working = begin(ways=("fork",), percent=20)
    working.world._do = failing_model(working)  # type: ignore[method-assign]
    working.fill(40_000)
    list(working.work(3))
    outcomes = [each.turn.compacted for each in working.done]
    failed = [each for each in outcomes if isinstance(each, CompactionFailed)]
    assert len(failed) == 3
    opened = [event for event in working.events if isinstance(event, BreakerOpened)]
    assert [(event.breaker, event.count) for event in opened] == [("failures", 3)]
    assert len([event for event in working.events if isinstance(event, CompactionNotDone)]) == 3
    last = outcomes[-1]
    assert isinstance(last, CompactionSkipped)
    assert "3 compactions in a row have failed" in last.why
    assert "the line is dead" in last.why
    assert len(working.world.asked) == 3
    del working.world._do
    assert isinstance(working.runner.compact(BY_HAND), Compaction)
    assert any(isinstance(event, BreakerClosed) for event in working.events)
    goes_on(working)


def failing_model(working: Working) -> Callable[[Any], Any]:
    do = working.world._do

    def instead(effect: Any) -> Any:
        if isinstance(effect, AskModel):
            working.world.effects.append(effect)
            return ModelFailure("api_error", "the line is dead")
        return do(effect)

    return instead


def flooded(working: Working, *, times: int) -> None:
    for _ in range(times):
        working.runner.say(words(45_000, "Here is the whole log again."))
        working.done.append(working.runner.call())
        settle(working)


@pytest.mark.spec("CP-23", "CP-26")
def test_a_context_that_refills_at_once_stops_after_three_summaries(begin):
    working = begin(ways=("fork",), under=low(20, "none"))
    # The first flood has nothing before it that could be summarized.
    flooded(working, times=5)
    assert len(working.compactions) == 3
    assert summary_calls(working) == 3
    stopped = working.done[-1].turn.compacted
    assert isinstance(stopped, CompactionSkipped)
    opened = [event for event in working.events if isinstance(event, BreakerOpened)]
    assert [(event.breaker, event.count) for event in opened] == [("rapid_refill", 3)]
    assert "What fills it: human" in opened[0].detail == stopped.why


def settle(working: Working) -> None:
    """Whatever the agent called is answered with nothing much, and nothing more is asked."""
    used = [block for block in working.done[-1].response.blocks if block.is_call]
    if used:
        working.runner.answer([(block.call, "ok") for block in used])


@pytest.mark.spec("CP-23", "CP-26")
def test_a_stuck_session_spends_three_summaries_however_often_it_is_asked(begin):
    working = begin(ways=("fork",), under=low(20, "none"))
    flooded(working, times=5)
    assert summary_calls(working) == 3
    working.runner.say(words(240_000, "And here is everything."))
    for _ in range(5):
        with pytest.raises(UpstreamError, match="too long"):
            working.runner.call()
    assert len(working.world.asked) == 3


def test_compactions_by_hand_are_no_loop(begin):
    working = begin(ways=("fork",), under=low(20, "none"))
    for _ in range(4):
        working.runner.say(words(20_000, "A story."))
        working.done.append(working.runner.call())
        settle(working)
        assert isinstance(working.runner.compact(BY_HAND), Compaction)
    flooded(working, times=2)
    assert isinstance(working.done[-1].turn.compacted, Compaction)


@pytest.mark.spec("CP-26")
def test_a_way_without_calls_makes_room_even_then(begin):
    working = begin(ways=("fork", "extractive"), under=low(20, "none"))
    flooded(working, times=5)
    working.runner.say(words(240_000, "And here is everything."))
    working.done.append(working.runner.call())
    assert len(working.world.asked) == 3
    assert working.misses == []


# ── too long for the provider ────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-26")
@pytest.mark.parametrize("vendor", FAULT_VENDORS)
def test_a_request_that_is_too_long_is_withheld_compacted_and_repeated(begin, vendor):
    working = begin(ways=("fork",))
    list(working.work(4))
    working.box.faults({"kind": "prompt_too_long", "vendor": vendor})
    list(working.work(1))
    statuses = [entry["status"] for entry in working.box.ledger]
    assert statuses.count(400) == 1
    at = statuses.index(400)
    assert statuses[at + 1 : at + 3] == [200, 200]
    assert len(working.world.asked) == 1
    assert working.runner.conversation.log.view.boundary is not None
    goes_on(working)


@pytest.mark.spec("CP-26")
def test_a_second_refusal_reaches_the_caller_and_nothing_is_lost(begin):
    working = begin(ways=("fork",))
    list(working.work(4))
    working.box.faults("prompt_too_long", {"kind": "prompt_too_long", "after": 1})
    working.runner.say("And now?")
    with pytest.raises(UpstreamError, match="too long"):
        working.runner.call()
    assert len(working.world.asked) == 1
    assert [entry["status"] for entry in working.box.ledger[-3:]] == [400, 200, 400]
    working.done.append(working.runner.call())
    settle(working)
    goes_on(working)


@pytest.mark.spec("CP-26")
def test_what_did_not_fit_is_smaller_afterwards_even_far_below_the_mark(begin):
    """A small view whose files have grown since: bringing them back would make it larger than it was."""
    working = begin(ways=("fork",))
    list(working.work(3))
    for file in working.files:
        file.write_text(LINE * 400)
    before = working.runner.conversation.size.tokens
    working.box.faults("prompt_too_long")
    working.runner.say("And now?")
    working.done.append(working.runner.call())
    assert working.runner.conversation.log.view.boundary is not None
    assert working.runner.conversation.size.tokens < before


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────


def hooked(working: Working, answers: dict[str, HookOutcome]) -> None:
    do = working.world._do

    def instead(effect: Any) -> Any:
        if isinstance(effect, RunHooks):
            working.world.effects.append(effect)
            return answers.get(effect.event, HookOutcome())
        return do(effect)

    working.world._do = instead  # type: ignore[method-assign]


@pytest.mark.spec("CP-3")
def test_hooks_run_first_and_their_instructions_follow_the_user_s(begin):
    working = begin(ways=("fork",))
    list(working.work(2))
    hooked(working, {"PreCompact": HookOutcome(instructions=("Name the open tickets.",))})
    working.runner.compact(CompactionRequest(trigger="manual", instructions="Be brief about tests."))
    effects = working.world.effects
    assert [type(effect).__name__ for effect in effects[:2]] == ["RunHooks", "AskModel"]
    assert effects[0].payload == {"trigger": "manual", "custom_instructions": "Be brief about tests."}
    asked = text_of(effects[1].request.messages[-1].blocks[-1])
    assert "Be brief about tests.\n\nName the open tickets." in asked


@pytest.mark.spec("CP-3")
def test_a_hook_can_forbid_a_compaction(begin):
    working = begin(ways=("fork",))
    list(working.work(2))
    hooked(working, {"PreCompact": HookOutcome(blocked="a release is running")})
    found = working.runner.compact(BY_HAND)
    assert found == CompactionSkipped("a PreCompact hook does not allow it: a release is running")
    assert working.world.asked == []
    goes_on(working)


@pytest.mark.spec("CP-18")
def test_what_hooks_say_afterwards_joins_the_view(begin):
    working = begin(ways=("fork",))
    list(working.work(2))
    hooked(
        working,
        {
            "SessionStart": HookOutcome(context=("The build is red.",)),
            "PostCompact": HookOutcome(context=("Ada has been told.",)),
        },
    )
    assert isinstance(working.runner.compact(BY_HAND), Compaction)
    _, started, done = (each for each in working.world.effects if isinstance(each, RunHooks))
    assert (started.event, started.payload) == ("SessionStart", {"source": "compact"})
    assert done.event == "PostCompact"
    goes_on(working)
    shown = working.done[-1].turn.request().to_bytes()
    assert b"The build is red." in shown
    assert b"Ada has been told." in shown


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-28")
def test_a_summary_that_is_cancelled_changes_nothing(begin):
    working = begin(ways=("fork", "direct", "extractive"))
    list(working.work(3))
    conversation = working.runner.conversation
    before = list(conversation.log.records)

    def interrupted(body: bytes, betas: Any) -> Any:
        raise KeyboardInterrupt

    world = working.world._world
    send, world._send = world._send, interrupted
    found = working.runner.compact(BY_HAND)
    assert tried(found) == [("fork", False)]
    assert conversation.log.records == before
    assert working.events[-1].reason == "cancelled"
    assert conversation.compaction_state.breaker.failures == 0
    world._send = send
    goes_on(working)


def test_settings_of_a_session_hold_for_its_breakers(begin):
    working = begin(ways=("fork",), percent=20, compact=CompactSettings(failures=1))
    working.world._do = failing_model(working)  # type: ignore[method-assign]
    working.fill(40_000)
    list(working.work(1))
    assert len(working.world.asked) == 1
