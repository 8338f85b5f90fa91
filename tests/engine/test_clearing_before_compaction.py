"""A turn that clears first looks at what is left before it decides to compact (MC-5)."""

from datetime import timedelta

import builders as b
import pytest
from decide.conversations import text
from engine.alone import NOON, SUMMARY, Alone, summary

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionSkipped
from everturn.history.records import Record
from everturn.measure.thresholds import ThresholdLevels

FORK = CompactSettings(strategies=("fork",))


def reads(count: int, tokens: int, reported: int) -> list[Record]:
    """So many reads, then a reply that reports such a context, and a question."""
    stamp = (NOON).isoformat()
    records = [b.user("Mend the parser.", uuid="u")]
    for at in range(count):
        called = b.call(f"c{at}", "Read", file_path=f"src/c{at}.py")
        records.append(b.assistant(called, id=f"m{at}", uuid=f"a{at}", timestamp=stamp))
        records.append(b.result(f"c{at}", text(tokens, f"c{at}"), uuid=f"r{at}"))
    usage = {"input_tokens": reported - 200, "output_tokens": 200}
    records.append(b.assistant("That is all.", id="last", uuid="last", usage=usage, timestamp=stamp))
    return [*records, b.user("Go on.", uuid="next")]


@pytest.mark.spec("MC-5")
def test_what_a_clearing_freed_no_longer_counts_for_the_compaction_of_the_same_turn():
    scene = Alone(reads(21, 6_000, 172_223), under="when-cold", compact=FORK)
    made = scene.turn(timedelta(minutes=61))
    saved = 16 * (6_000 - 8)
    assert made.plan.kind == "time"
    assert (made.plan.tokens_saved, made.size.freed) == (saved, saved)
    assert made.compacted == CompactionSkipped(
        f"{made.size.next_request:,} tokens are below the automatic threshold of 167,000"
    )
    assert scene.asked == []


@pytest.mark.spec("MC-5")
def test_a_clearing_that_frees_too_little_is_followed_by_a_compaction_of_what_is_left():
    scene = Alone(reads(7, 6_000, 180_000), under="when-cold", compact=FORK, answers=[summary(SUMMARY)])
    made = scene.turn(timedelta(minutes=61))
    assert made.plan.tokens_saved == 2 * (6_000 - 8)
    assert isinstance(made.compacted, Compaction)
    assert made.compacted.tokens_before == pytest.approx(180_000 - 2 * 5_992, abs=20)


@pytest.mark.spec("MC-5")
def test_no_warning_between_a_clearing_and_the_next_reported_size():
    scene = Alone(reads(14, 6_000, 210_000), under="when-cold", compact=FORK)
    before = scene.conversation.levels
    assert (before.above_warning, before.above_error, before.above_auto) == (True, True, True)
    size = scene.turn(timedelta(minutes=61)).size.next_request
    assert 147_000 <= size < 167_000
    after = ThresholdLevels(
        percent_left=scene.conversation.levels.percent_left,
        above_warning=False,
        above_error=False,
        above_auto=False,
        at_blocking=False,
    )
    assert scene.conversation.levels == after
    usage = {"input_tokens": 150_000, "output_tokens": 10}
    scene.conversation.add(b.assistant("Seen.", id="seen", uuid="seen", usage=usage))
    assert scene.conversation.levels.above_warning
