"""A session whose summaries all fail, for as long as somebody goes on talking: what it spends is bounded.

Every fault of the twin strikes the calls for summaries, one after the other, and only those. The process ends
and begins again in between, sometimes in the middle of such a call.
"""

from collections.abc import Callable, Sequence
from itertools import count, cycle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from message_rules import find_message_problems
from scripted_twin import scripted_options

from everturn import Session
from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionSkipped
from everturn.decide.events import BreakerClosed, BreakerOpened, CompactionDone, Event
from everturn.measure.thresholds import ThresholdSettings
from everturn.session.upstream import RawResponse, UpstreamError
from everturn.twin.faults import FAULT_VENDORS, SUMMARY_FAULT_KINDS
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220
ERRORS = ("server_error", "overloaded", "rate_limit", "request_too_large", "timeout", "garbage", "cut_stream")
FAULTS: tuple[dict[str, Any], ...] = (
    *({"kind": kind} for kind in ERRORS),
    *({"kind": kind} for kind in sorted(SUMMARY_FAULT_KINDS)),
    *({"kind": "prompt_too_long", "vendor": vendor} for vendor in FAULT_VENDORS),
)
ASKS_FOR_A_SUMMARY = b"Write a summary of"
TURNS = 500


class Stuck:
    """A session file, a twin that fails every summary, and how often it was asked for one."""

    def __init__(self, folder: Path, struck: Sequence[dict[str, Any]], **how: Any) -> None:
        self.path = folder / "session.jsonl"
        self.twin = TwinForTests(options=scripted_options())
        self.summaries = 0
        self.dies = False
        self.heard: list[Event] = []
        self._struck = cycle(struck) if struck else None
        self._ids = count(1)
        self._how = how
        self._send = make_twin_send(self.twin.twin)

    def send(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        if ASKS_FOR_A_SUMMARY in body:
            self.summaries += 1
            if self.dies:
                raise SystemExit
            if self._struck is not None:
                self.twin.faults(next(self._struck))
        return self._send(body, betas)

    def recovers(self) -> None:
        self._struck = None

    def open(self) -> Session:
        return Session.open(
            self.path,
            model="claude-haiku-4-5",
            thresholds=ThresholdSettings(auto_percent=15),
            system=RULES,
            send=self.send,
            clock=self.twin.twin.clock.now,
            new_id=lambda: f"{next(self._ids):08d}",
            listen=self.heard.append,
            fsync="never",
            **self._how,
        )

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]


@pytest.fixture
def stuck(tmp_path: Path) -> Callable[..., Stuck]:
    return lambda struck=FAULTS, **how: Stuck(tmp_path, struck, **how)


def says_much(session: Session, turn: int, words: int = 80) -> Any:
    exchange = session.send(f"Question {turn}. " + "Look closely at the parser. " * words).exchange
    assert list(find_message_problems(exchange.turn.captured.messages)) == []
    return exchange.turn.compacted


def most_calls(turns: int) -> int:
    """The calls of one compaction with its retries, and one for every half-open breaker."""
    return DEFAULTS.calls + DEFAULTS.retries + turns // DEFAULTS.retry_calls


@pytest.mark.spec("CP-22", "CP-28", "CP-39", "BY-5")
def test_every_fault_in_turn_costs_few_calls_in_500_turns_and_three_processes(stuck, record_property):
    held = stuck()
    for process in range(3):
        with held.open() as session:
            for turn in range(process * TURNS // 3, (process + 1) * TURNS // 3):
                says_much(session, turn)
    assert DEFAULTS.calls <= held.summaries <= most_calls(TURNS)
    done = held.told(CompactionDone)
    assert len(done) > 2 * DEFAULTS.calls
    assert {event.way for event in done} == {"extractive"}
    assert [event.breaker for event in held.told(BreakerOpened)] == ["summary_calls"]
    record_property("trials", f"hostile turns: {TURNS}, {len(done)} compactions, {held.summaries} calls")


@pytest.mark.spec("CP-22", "CP-9", "CP-31")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.get("vendor", fault["kind"]))
def test_without_a_way_that_needs_no_model_the_breaker_opens(stuck, fault):
    held = stuck([fault], ways=("fork", "direct"))
    outcomes: list[Any] = []
    for first in range(0, 60, 20):
        with held.open() as session:
            outcomes += [says_much(session, turn) for turn in range(first, first + 20)]
    failed = [each for each in outcomes if isinstance(each, CompactionFailed)]
    assert 1 <= len(failed) <= DEFAULTS.failures + 60 // DEFAULTS.retry_calls
    assert all(attempt.problem for each in failed for attempt in each.attempts)
    assert DEFAULTS.calls <= held.summaries <= most_calls(60)
    assert isinstance(outcomes[-1], CompactionSkipped)
    assert "calls for a summary in a row gave none" in outcomes[-1].why


@pytest.mark.spec("CP-22")
def test_a_process_that_dies_in_every_summary_is_not_given_new_calls(stuck):
    held = stuck([], ways=("fork", "direct"))
    held.dies = True
    replies = 0
    for _ in range(10):
        with held.open() as session:
            for turn in range(25):
                try:
                    says_much(session, turn)
                except SystemExit:
                    break
                replies += 1
    assert DEFAULTS.calls < held.summaries <= DEFAULTS.calls + replies // DEFAULTS.retry_calls


@pytest.mark.spec("CP-22")
def test_a_compaction_by_hand_that_gets_a_summary_lets_models_be_asked_again(stuck):
    held = stuck()
    with held.open() as session:
        for turn in range(200):
            says_much(session, turn)
        held.recovers()
        made = session.compact()
        assert isinstance(made, Compaction)
        assert made.attempts[-1].strategy == "fork"
        assert [event.breaker for event in held.told(BreakerClosed)] == ["summary_calls"]
        outcomes = [says_much(session, turn) for turn in range(200, 260)]
    made = [each for each in outcomes if isinstance(each, Compaction)]
    assert {each.attempts[-1].strategy for each in made} == {"fork"}


def test_summaries_that_cannot_be_repaired_cost_three_calls_and_the_reason_is_named(stuck):
    held = stuck([{"kind": "empty_summary"}])
    with held.open() as session:
        for turn in range(5):
            says_much(session, turn, words=500)
        made = session.compact()
    assert isinstance(made, Compaction)
    problems = {attempt.strategy: attempt.problem for attempt in made.attempts}
    limit = "no model is asked again: the calls for this summary (3) are spent"
    assert problems["direct"] == f"it is empty; {limit}"
    assert held.summaries == DEFAULTS.calls


@pytest.mark.spec("CP-9")
def test_retries_of_a_call_that_is_too_long_come_on_top_of_the_calls(stuck):
    held = stuck([{"kind": "prompt_too_long", "vendor": "anthropic"}])
    with held.open() as session:
        for turn in range(5):
            says_much(session, turn, words=500)
        made = session.compact()
    assert isinstance(made, Compaction)
    problems = {attempt.strategy: attempt.problem for attempt in made.attempts}
    assert problems["extractive"] == ""
    assert problems["direct"] == "the conversation is still too long to be summarized after 3 retries"
    # A fork, a direct call, and its retries.
    assert held.summaries == 2 + DEFAULTS.retries


@pytest.mark.spec("CP-22", "CP-39")
def test_an_outage_passes_and_models_are_asked_again_by_themselves(stuck):
    """Ten minutes after the breaker opened one call is made, and its summary closes it."""
    held = stuck([{"kind": "server_error"}])
    with held.open() as session:
        outcomes = [says_much(session, turn) for turn in range(40)]
        while not session.conversation.compaction_state.breaker.opened_at:
            outcomes.append(says_much(session, len(outcomes)))
        assert session.conversation.compaction_state.breaker.state(held.twin.twin.clock.now()) == "open"
    held.recovers()
    held.twin.advance(DEFAULTS.retry_after.total_seconds())
    with held.open() as session:
        breaker = session.conversation.compaction_state.breaker
        assert breaker.state(held.twin.twin.clock.now()) == "half-open"
        made = None
        while not isinstance(made, Compaction):
            made = says_much(session, len(outcomes))
        assert made.attempts[-1].strategy == "fork"
        assert session.conversation.compaction_state.breaker.describe() == ""
    assert [event.breaker for event in held.told(BreakerClosed)] == ["summary_calls"]


def test_a_cancelled_summary_counts_for_nobody(stuck):
    held = stuck()
    interrupts = iter([True] * 5)

    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        if ASKS_FOR_A_SUMMARY in body and next(interrupts, False):
            raise KeyboardInterrupt
        return held._send(body, betas)

    held.send = send  # type: ignore[method-assign]
    with held.open() as session:
        for turn in range(100):
            try:
                says_much(session, turn)
            except KeyboardInterrupt:
                assert session.conversation.compaction_state.breaker.spent == 0
        made = held.told(CompactionDone)
    assert {event.way for event in made} == {"fork"}
    written = msgspec.json.decode((held.path.parent / "session.jsonl.state.json").read_bytes())
    assert "spent" not in written.get("breaker", {})


def test_an_answer_that_is_no_message_is_not_the_end(stuck):
    """Errors on the conversation's own calls are raised, and cost no call for a summary."""
    held = stuck([])
    with held.open() as session:
        held.twin.faults("server_error")
        with pytest.raises(UpstreamError):
            session.send("Hello.")
        says_much(session, 1)
    assert held.summaries == 0
