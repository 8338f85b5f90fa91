"""Breakers in words, options that depend on each other, and what cannot be read."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from decide.compact.bench import SUMMARY, Bench, manual, turns

from everturn.decide.compact.breakers import CompactionBreaker
from everturn.decide.compact.call_index import is_one_of, mapping
from everturn.decide.compact.gate import check_gate
from everturn.decide.compact.provider import build_compaction_request
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.economy.trust import HoldCheck
from everturn.decide.events import EventContext, HoldChecked, make_hold_checked
from everturn.decide.extractive.reading.earlier import parse_summary
from everturn.decide.extractive.writing import wording
from everturn.decide.extractive.writing.quoting import shortened
from everturn.decide.options import Options
from everturn.history.blocks import text_block
from everturn.history.messages import Message
from everturn.measure.outline import Preamble
from everturn.measure.tokens import rough
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters, TtlChoice

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CLOSED = CompactionBreaker(limit=3, calls=2, retry_after=600.0, retry_calls=20)
NEXT = "a compaction by hand is possible at any time."


def changed(**fields):
    return msgspec.structs.replace(CLOSED, **fields)


@pytest.mark.parametrize(
    ("breaker", "words"),
    [
        (CLOSED, ""),
        (changed(spent=1), ""),
        (
            changed(failures=1, last="no answer"),
            "The last compaction failed because: no answer.",
        ),
        (
            changed(spent=2, opened_at=NOON.timestamp(), calls_since=5),
            "2 calls for a summary in a row gave none: no model is asked for one. "
            f"The next try is at 12:10 UTC, or after 15 more calls; {NEXT}",
        ),
        (
            changed(failures=3, last="no answer", opened_at=NOON.timestamp(), calls_since=20),
            "3 compactions in a row have failed, the last one because: no answer. "
            f"Automatic compaction is off. The next try is now; {NEXT}",
        ),
    ],
)
def test_a_breaker_says_what_has_happened_and_when_the_next_try_is(breaker, words):
    assert breaker.describe() == words


@pytest.mark.parametrize(
    ("seconds", "calls", "state"),
    [(0, 0, "open"), (599.9, 19, "open"), (600, 0, "half-open"), (0, 20, "half-open"), (-1, 0, "half-open")],
)
def test_an_open_breaker_allows_a_try_after_its_time_or_its_calls(seconds, calls, state):
    breaker = changed(failures=3, opened_at=NOON.timestamp(), calls_since=calls)
    assert breaker.state(NOON + timedelta(seconds=seconds)) == state
    assert CLOSED.state(NOON) == "closed"


def test_a_breaker_opens_with_the_failure_that_is_one_too_many():
    breaker, opened = changed(failures=1), NOON.timestamp()
    breaker = breaker.after_failure("a", NOON)
    assert (breaker.is_open, breaker.opened_at, breaker.after_reply()) == (False, 0.0, breaker)
    breaker = breaker.after_failure("b", NOON)
    assert (breaker.is_open, breaker.opened_at, breaker.last) == (True, opened, "b")
    later = breaker.after_reply().after_failure("c", NOON + timedelta(seconds=9))
    assert (later.opened_at, later.calls_since, later.failures) == (opened, 1, 4)
    assert later.after_success("extractive") == changed(opened_at=opened, calls_since=1)
    spent = changed(spent=1).before_call(NOON)
    assert (spent.calls_left, spent.is_tripped, spent.opened_at) == (0, True, opened)
    assert spent.after_success("notes").spent == 2
    assert spent.after_success("direct") == CLOSED


def test_a_summary_that_claims_to_be_extracted_by_us_is_refused():
    planned = Bench(turns(3)).planned(manual())
    claimed = f"{wording.OURS}\n{SUMMARY}"
    assert check_gate(claimed, planned, estimate=rough) not in ("", check_gate("", planned, estimate=rough))


@pytest.mark.parametrize("on", [("enabled",), ("economy",), ("holds",), ()])
def test_calls_of_our_own_and_deferred_tools_need_every_switch(on):
    all_on = {"enabled", "economy", "holds"} - set(on)
    economy = EconomySettings(
        enabled="economy" in all_on, holds="holds" in all_on, defer_tools="holds" in all_on
    )
    options = Options(enabled="enabled" in all_on, economy=economy)
    assert (options.holds_cache, options.defers_tools) == (not on, not on)


def test_a_checked_hold_is_told_with_its_figures():
    check, moment = HoldCheck(kept=True, read=9, held=10, seconds=600.0), EventContext(at=NOON)
    assert make_hold_checked(check, moment) == HoldChecked(
        moment=moment, kept=True, tokens_read=9, tokens_held=10, why=check.why
    )


def test_messages_that_an_earlier_summary_left_out_stay_counted():
    text = (
        f'{wording.PREFACE}\n\n6. All user messages:\n   - {wording.missing(1_234, 56_789)}\n   - "Go on."\n'
    )
    found = parse_summary(text)
    assert (found.missing, [said.text for said in found.messages]) == ((1_234, 56_789), ["Go on."])


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("a" * 50, 50, "a" * 50),
        # A note that is as long as what it replaces says nothing.
        ("a" * 60, 50, "a" * 60),
        ("abc " * 100, 40, "abc abc abc abc abc abc ab [… 360 characters left out …] c abc abc abc "),
    ],
)
def test_a_text_is_shortened_only_where_that_makes_it_shorter(text, limit, shown):
    assert shortened(text, limit) == shown


def test_what_is_not_a_mapping_has_no_fields():
    assert (mapping({"a": 1}), mapping([1]), mapping(None)) == ({"a": 1}, {}, {})
    assert (is_one_of("mcp__a", ["x", "mcp__*"]), is_one_of("a", [])) == (True, False)


@pytest.mark.parametrize(
    ("instructions", "asks"),
    [
        ("", {"type": "summarize"}),
        ("Keep the rules.", {"type": "summarize", "instructions": "Keep the rules."}),
    ],
)
def test_a_compaction_by_the_provider_asks_with_the_instructions_and_without_what_excludes_it(
    instructions, asks
):
    said = Message("user", (text_block("hi"),))
    beside = {"context_management": {}, "stop_sequences": ["x"], "output_format": {}}
    parameters = KeyParameters(TtlChoice("5m", "a test"))
    captured = CapturedRequest("m", Preamble(), parameters, (said,), {"max_tokens": 9, **beside})
    request = build_compaction_request(captured, instructions)
    assert (request.settings, request.messages) == ({"max_tokens": 9, "compaction": asks}, (said,))
