"""What a fork for a summary reads from the cache, however large the newest results are."""

from collections.abc import Callable
from pathlib import Path

import pytest
from engine.held import words
from engine.working import Working
from presets import with_threshold

from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.history.blocks import block_from_fields, text_of
from everturn.twin.speaker import script_reply

Begin = Callable[..., Working]
SHARES = (0.005, 0.02, 0.04, 0.1, 0.3)
FILLED = 60_000
NEWEST = ("toolu_x0", "toolu_x1")


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    return lambda **how: Working(tmp_path, **how)


def compacted_with(working: Working, share: float) -> Compaction:
    """Work, then results that take such a share of the context, and a turn for which it is too full."""
    working.fill(FILLED)
    calls = [
        {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": "make"}} for name in NEWEST
    ]
    working.box.twin.speaker.add([script_reply(calls)])
    working.runner.say("Build it.")
    working.done.append(working.runner.call())
    tokens = int(FILLED * share / (1 - share))
    working.runner.answer([(name, words(tokens // len(NEWEST), "Compiled.")) for name in NEWEST])
    window = working.runner.conversation.thresholds.effective
    percent = 99 * working.runner.conversation.size.tokens / window
    working.change(options=with_threshold(working.setting.options, percent))
    working.done.append(working.runner.call())
    assert len(working.compactions) == 1, working.done[-1].turn.compacted
    working.change(options=working.setting.options)
    return working.compactions[-1]


def share_read(made: Compaction) -> float:
    usage = made.attempts[-1].usage
    return usage.cache_read_input_tokens / usage.context


@pytest.mark.spec("PC-12", "CP-6")
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5-5"])
@pytest.mark.parametrize("share", SHARES)
def test_a_fork_reads_95_percent_of_its_input_whatever_came_since(begin, model, share):
    working = begin(model=model, ways=("fork",), under="none")
    made = compacted_with(working, share)
    assert share_read(made) >= 0.95
    assert working.misses == working.breaks == working.refused == []
    list(working.work(2))
    assert working.misses == working.breaks == working.refused == []


@pytest.mark.spec("CP-10", "CP-12")
def test_what_was_not_sent_stands_word_for_word_behind_the_summary(begin):
    working = begin(ways=("fork",), under="none")
    made = compacted_with(working, 0.1)
    assert made.plan is not None
    assert (made.plan.asked.form, made.plan.asked.trigger) == ("up_to", "auto")
    kept = [block for record in made.plan.kept for block in record.blocks]
    assert [block.call for block in kept] == [*NEWEST, *NEWEST]
    messages = working.done[-1].turn.captured.messages
    shown = [block for message in messages for block in message.blocks if block.is_result]
    assert [block.call for block in shown] == [*NEWEST]
    asked = working.world.asked[-1].request
    assert not any(block.call in NEWEST for message in asked.messages for block in message.blocks)


@pytest.mark.spec("CP-37")
def test_even_results_that_fill_most_of_the_context_are_kept(begin):
    working = begin(ways=("fork",), under="none")
    made = compacted_with(working, 0.6)
    assert made.plan is not None
    kept = [block.call for record in made.plan.kept for block in record.blocks]
    assert (made.plan.asked.form, kept) == ("up_to", [*NEWEST, *NEWEST])


def test_by_hand_everything_is_summarized_that_was_asked_for(begin):
    working = begin(ways=("fork",))
    list(working.work(4))
    long_answer = block_from_fields({"type": "text", "text": words(9_000, "A long answer.")})
    working.box.twin.speaker.add([script_reply(text_of(long_answer))])
    working.runner.say("Tell me all.")
    working.done.append(working.runner.call())
    made = working.runner.compact(CompactionRequest(trigger="manual"))
    assert isinstance(made, Compaction)
    assert made.kept is None


@pytest.mark.spec("CP-26")
def test_what_was_too_long_is_not_asked_for_a_summary_again(begin):
    """The request that did not fit is the last one and something large; a fork without that fits."""
    working = begin(ways=("fork",), under="none")
    working.fill(FILLED)
    working.box.twin.speaker.add(
        [script_reply([{"type": "tool_use", "id": "toolu_x", "name": "Bash", "input": {"command": "make"}}])]
    )
    working.runner.say("Build it.")
    working.done.append(working.runner.call())
    working.runner.answer([("toolu_x", words(20_000, "Compiled."))])
    working.box.faults("prompt_too_long")
    working.done.append(working.runner.call())
    assert [entry["status"] for entry in working.box.ledger[-3:]] == [400, 200, 200]
    assert working.runner.conversation.log.view.boundary is not None
    assert share_of_ledger(working.box.ledger[-2]["usage"]) >= 0.95


def share_of_ledger(usage: dict[str, int]) -> float:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return usage["cache_read_input_tokens"] / sum(usage[name] for name in names)
