"""Events in words for whoever sits in front."""

from datetime import UTC, datetime

import pytest

from everturn.chat.screen.event_lines import format_compaction, format_event, format_progress
from everturn.dashboard.layout import Screen
from everturn.decide.compact.values import CompactionChain
from everturn.decide.events import (
    BreakerOpened,
    CacheBroken,
    CacheHeld,
    Compacting,
    CompactionDone,
    CompactionNotDone,
    EventContext,
    HoldChecked,
    HookTrouble,
    KeyChangesRepeated,
    MicroCompacted,
    NotesRejected,
    PredictionMissed,
    PriceUnknown,
    Repaired,
)
from everturn.history.records import Usage
from everturn.view.fragments.receipt import receipt

AT = EventContext(at=datetime(2026, 11, 15, tzinfo=UTC))
DONE = CompactionDone(
    moment=AT, trigger="auto", form="full", way="fork", tokens_before=42_100, tokens_after=8_300, attempts=1,
    usage=Usage(), chain=CompactionChain(),
)  # fmt: skip


def not_done(**fields: str) -> CompactionNotDone:
    known = {
        "moment": AT,
        "trigger": "auto",
        "form": "full",
        "ways": (),
        "tokens_before": 1,
        "usage": Usage(),
    }
    return CompactionNotDone(**known, chain=CompactionChain(), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            MicroCompacted(
                moment=AT, kind="time", results=3, tokens_before=9_000, tokens_after=7_000, tokens_saved=2_000
            ),
            "Cleared 3 old results from the context: 2.0k tokens.",
        ),
        (not_done(reason="cancelled"), "Compaction cancelled; nothing changed."),
        (
            CacheHeld(moment=AT, at=AT.at, tokens=9, why="held for $0.041, expected saving $0.190: 63%"),
            "Cache held for $0.041, expected saving $0.190: 63%.",
        ),
        (
            CacheHeld(moment=AT, at=AT.at, tokens=0, why="the hold failed: Overloaded"),
            "Cache not held: the hold failed: Overloaded.",
        ),
        (
            HoldChecked(moment=AT, kept=False, tokens_read=0, tokens_held=9, why="0 of 9 tokens were read"),
            "Hold lost: 0 of 9 tokens were read.",
        ),
        (
            PriceUnknown(moment=AT, why="no price is known for 'small', which writes summaries"),
            "No price is known for 'small', which writes summaries.",
        ),
        (
            not_done(reason="api_error", detail="fork: Overloaded"),
            "Not compacted: fork: Overloaded.",
        ),
        (not_done(reason="no_summary"), "Not compacted: no summary."),
        (
            CacheBroken(
                moment=AT, cause="expiry", why="5 minutes idle", parts=(), tokens_lost=1_200, idle=301.0
            ),
            "Cache miss: 5 minutes idle. 1.2k tokens are billed again.",
        ),
        (
            KeyChangesRepeated(
                moment=AT,
                changed=3,
                calls=4,
                parts=("system",),
                what="block 2",
                tokens_lost=9_000,
                dollars=0.1,
            ),
            "The cache key keeps changing (block 2): 3 calls had to write 9.0k tokens again.",
        ),
        (
            BreakerOpened(moment=AT, breaker="failures", count=3),
            "Automatic compaction is paused: it failed 3 times in a row. /clear starts a new conversation.",
        ),
        (
            Repaired(moment=AT, kinds={"missing_result": 2, "orphan_result": 1}),
            "Repaired the end of the last run: 2 open calls got a result, 1 orphan result.",
        ),
        (
            HookTrouble(moment=AT, hook="PreCompact", problems=1, is_blocked=False, details=("it was late",)),
            "Problem in a PreCompact hook: it was late.",
        ),
        (NotesRejected(moment=AT, why="they are old"), "Notes not used: they are old."),
    ],
)
def test_an_event_is_one_sentence(event, words):
    assert [line.plain for line in format_event(event, Screen(200))] == [words]


def test_what_a_person_cannot_use_is_not_told():
    missed = PredictionMissed(
        moment=AT, verdict="missed", predicted_read=1, reported_read=0, missed=1, why="it was not there"
    )
    assert format_event(missed, Screen(80)) == []
    assert format_event(DONE, Screen(80)) == []


def test_a_compaction_says_what_it_kept_and_what_can_be_had_again():
    words = receipt(
        ("1 instruction of the user verbatim", "files as they are now: app.py"),
        ("12 summarized messages in /data/one.jsonl",),
        (),
    )
    lines = [line.plain for line in format_compaction(DONE, words, "/data/one.jsonl", Screen(80))]
    assert lines == [
        "Compacted: 42.1k → 8.3k tokens",
        "  summary by  a model, reading the session from its cache",
        "  kept        1 instruction of the user verbatim; files as they are now: app.py.",
        "  recallable  12 summarized messages in the transcript.",
    ]


def test_a_receipt_fits_a_narrow_screen_without_shapes():
    words = receipt(
        ("1 instruction of the user verbatim",), ("12 summarized messages in /data/one.jsonl",), ()
    )
    lines = [
        line.plain for line in format_compaction(DONE, words, "/data/one.jsonl", Screen(40, ascii_only=True))
    ]
    assert lines == [
        "Compacted: 42.1k -> 8.3k tokens",
        "  summary by  a model, reading the",
        "              session from its cache",
        "  kept        1 instruction of the user",
        "              verbatim.",
        "  recallable  12 summarized messages in",
        "              the transcript.",
    ]


def test_progress_tells_how_far_a_summary_is():
    event = Compacting(moment=AT, way="direct", seconds=3.0, characters=1_234)
    assert format_progress(event) == "compacting: a model, 1,234 characters"
