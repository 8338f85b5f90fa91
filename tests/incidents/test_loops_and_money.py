"""Compaction that ran for ever, and what it cost."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from incidents.scene import ASKS_FOR_A_SUMMARY, SUMMARY, Scene, calls, tool

from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.compact.values import Compaction, CompactionSkipped
from everturn.decide.events import BreakerOpened, CompactionDone, CompactionNotDone
from everturn.decide.options import Options
from everturn.measure.thresholds import ThresholdSettings
from everturn.session.upstream import UpstreamError

SMALL = Options(thresholds=ThresholdSettings(auto_percent=15))
MODELS_ONLY = ("fork", "direct")


def refuses(scene: Scene, status: int, kind: str, message: str) -> None:
    """Every call for a summary is answered with this error; the conversation's own calls pass."""

    def before(body: bytes) -> None:
        if ASKS_FOR_A_SUMMARY in body:
            raise UpstreamError(status, kind, message)

    scene.before = before


def most_calls(turns: int) -> int:
    """The calls of one compaction, and one for every half-open breaker (CP-39)."""
    return DEFAULTS.calls + turns // DEFAULTS.retry_calls


def keep_talking(scene: Scene, turns: Sequence[int], **how: object) -> list[object]:
    with scene.open(options=SMALL, **how) as session:
        say = "Look closely at the parser. " * 80
        return [session.send(f"Question {turn}. {say}").exchange.turn.compacted for turn in turns]


def test_the_compactor_alone_made_thousands_of_requests_overnight(scene: Scene):
    """Nobody was there, and the compactor went on asking: 4,246 requests in a night (cc#22758, cc#41198)."""
    refuses(scene, 529, "overloaded_error", "Overloaded")
    keep_talking(scene, range(120), ways=MODELS_ONLY)
    assert DEFAULTS.calls <= scene.asked_for_summaries <= most_calls(120)


def test_a_failure_counter_existed_and_was_never_read(scene: Scene):
    """3,272 failures in a row were counted and stopped nothing (cc#42055)."""
    refuses(scene, 500, "api_error", "Internal server error")
    last = keep_talking(scene, range(60), ways=MODELS_ONLY)[-1]
    assert isinstance(last, CompactionSkipped)
    assert "no model is asked" in last.why or "Automatic compaction is off" in last.why
    assert [event.breaker for event in scene.told(BreakerOpened)]


def test_a_restart_forgot_that_compacting_had_failed(scene: Scene):
    """The breaker lived in memory; each new process tried again from nothing (cc#13379, cc#35166)."""
    refuses(scene, 500, "api_error", "Internal server error")
    for process in range(6):
        keep_talking(scene, range(process * 20, process * 20 + 20), ways=MODELS_ONLY)
    assert DEFAULTS.calls <= scene.asked_for_summaries <= most_calls(6 * 20)


def test_a_forbidden_compaction_still_consumed_usage(scene: Scene):
    """A compaction ended with 403 each time and was paid for each time (cc#85125)."""
    refuses(scene, 403, "permission_error", "Your account may not use this model.")
    keep_talking(scene, range(60))
    done = scene.told(CompactionDone)
    assert {event.way for event in done} == {"extractive"}
    assert sum(event.usage.context for event in done) == 0
    assert scene.asked_for_summaries == DEFAULTS.calls


def test_every_turn_refilled_the_context_and_was_compacted_again(scene: Scene):
    """A huge result came back each turn, and each turn was compacted, without end (cc#85668, cc#60600,
    gemini-cli#6563, OpenHands#8630, kilocode#13317)."""
    huge = tool("Read", lambda _: "x = 1  # a line of code\n" * 1_200, "file_path")
    opened = {"window": 40_000, "tools": [huge], "system": "Be brief."}
    for process in range(3):
        with scene.open(**opened) as session:
            for number in range(6):
                scene.twin.script(calls("Read", file_path=f"{process}-{number}.py"))
                session.send(f"Read {number}.", rounds=1)
    # 18 turns of two requests each: the loop stops after three, and 20 requests later one attempt is made.
    assert scene.asked_for_summaries == DEFAULTS.refills + 1
    told = scene.told(BreakerOpened)
    assert {event.breaker for event in told} == {"rapid_refill"}
    assert all("results of Read" in event.detail for event in told)
    assert len(told) <= 2


def test_a_laptop_slept_for_ten_hours_and_woke_to_a_burst(scene: Scene):
    """After ten hours of sleep, queued compactions ran one after the other (cc#22758, cc#9579)."""
    with scene.open(options=SMALL) as session:
        scene.talk(session, 6, words=400)
        before = scene.asked_for_summaries
        scene.twin.advance(timedelta(hours=10).total_seconds())
        session.send("Good morning.")
    assert scene.asked_for_summaries - before <= 1


def test_the_error_of_a_failed_summary_named_nobody(scene: Scene):
    """Compacting failed, and neither the reason nor the cost reached the person (codex#17392,
    codex#20160)."""
    refuses(scene, 429, "rate_limit_error", "You have used your limit for this hour.")
    with scene.open(options=SMALL, ways=MODELS_ONLY) as session:
        scene.talk(session, 3)
        assert "You have used your limit for this hour." in session.compact().why
    (event,) = scene.told(CompactionNotDone)
    assert (event.trigger, event.reason) == ("manual", "api_error")


def test_a_second_compaction_came_right_after_the_first(scene: Scene):
    """The tokens of the old view were still the last number known, and compacting was due again
    (infinity#64, synergy PR#353)."""
    with scene.open(options=SMALL) as session:
        while not scene.told(CompactionDone):
            scene.talk(session, 1, words=400)
        compacted = session.send("And now?").exchange.turn.compacted
    assert isinstance(compacted, CompactionSkipped)
    assert len(scene.told(CompactionDone)) == 1


@pytest.mark.parametrize("again", ["at once", "after a restart"])
def test_the_number_before_a_compaction_triggered_the_next_one(scene: Scene, again: str):
    """Usage that was reported before a boundary was read as the size of the view behind it
    (synergy PR#353, hermes-agent PR#93394)."""
    with scene.open() as session:
        scene.talk(session, 6, words=600)
        full = session.context().size.tokens
        scene.twin.script(SUMMARY)
        made = session.compact()
        assert isinstance(made, Compaction)
        now = session.context().size.tokens
    if again == "after a restart":
        with scene.open() as session:
            now = session.context().size.tokens
    assert now < full / 2


def test_a_breaker_that_had_opened_never_closed_again(scene: Scene):
    """After a few failures compaction was off for the rest of the session, though the provider had long
    recovered (hermes-agent PR#93394)."""
    refuses(scene, 500, "api_error", "Internal server error")
    keep_talking(scene, range(40), ways=MODELS_ONLY)
    scene.before = lambda _: None
    with scene.open(options=SMALL, ways=MODELS_ONLY) as session:
        assert isinstance(session.compact(), Compaction)
    before = len(scene.told(CompactionDone))
    keep_talking(scene, range(40, 60), ways=MODELS_ONLY)
    assert len(scene.told(CompactionDone)) > before
