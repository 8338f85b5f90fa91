"""Agents that work for hundreds of turns: the conversation never ends, and nobody is surprised.

What is said, pinned and read survives; every call is as predicted.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from engine.working import RULE, Working, restored, told

from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.history.edits import Pinned
from everturn.history.records import make_edit_record

Begin = Callable[..., Working]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    return lambda **how: Working(tmp_path, **how)


def undisturbed(working: Working) -> None:
    """What holds for every session, however long."""
    assert working.misses == []
    assert working.breaks == []
    assert working.refused == []


def left_by_the_call_before(working: Working, made: Compaction) -> int:
    """What there is to be read: all that was sent before, and nothing that came since."""
    at = next(at for at, each in enumerate(working.done) if each.turn.compacted is made)
    usage = working.done[at - 1].response.reply.usage
    assert usage is not None
    return usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def share_read(made: Compaction) -> float:
    usage = made.attempts[-1].usage
    return usage.cache_read_input_tokens / usage.context


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-haiku-4-5"])
def test_two_hundred_turns_in_a_window_of_200k(begin, model):
    working = begin(model=model)
    list(working.work(80))
    assert len(working.done) >= 200
    assert len(working.compactions) >= 3
    undisturbed(working)
    for made in working.compactions:
        assert [attempt.problem for attempt in made.attempts] == ["no usable notes found", ""]
        assert made.attempts[-1].strategy == "fork"
        assert share_read(made) >= 0.95
        assert made.attempts[-1].usage.cache_read_input_tokens == left_by_the_call_before(working, made)
        assert made.tokens_after < 0.2 * made.tokens_before


@pytest.mark.spec("CP-27")
def test_what_is_left_is_about_what_was_told(begin):
    """System prompt and tools included, which no record holds."""
    working = begin(percent=20)
    list(working.work(30))
    after = [each for each in working.done if isinstance(each.turn.compacted, Compaction)]
    assert len(after) >= 2
    for each in after:
        made = each.turn.compacted
        assert isinstance(made, Compaction)
        assert made.tokens_after == pytest.approx(each.response.reply.usage.context, rel=0.25)


def test_a_window_of_a_million_tokens(begin):
    working = begin(model="claude-opus-4-6", result_lines=2_000, under="none")
    list(working.work(42))
    assert working.compactions
    undisturbed(working)
    assert all(made.tokens_before > 900_000 for made in working.compactions)
    assert all(share_read(made) >= 0.95 for made in working.compactions)


def test_the_same_through_the_sdk(begin):
    working = begin(model="claude-opus-4-6", through="sdk", percent=5)
    list(working.work(25))
    assert len(working.compactions) >= 2
    undisturbed(working)


@pytest.mark.parametrize("way", ["fork", "direct", "extractive", "provider"])
def test_each_way_carries_a_session_alone(begin, way):
    working = begin(model="claude-opus-4-6", ways=(way,), percent=6)
    list(working.work(45))
    assert len(working.compactions) >= 3
    assert {made.attempts[-1].strategy for made in working.compactions} == {way}
    undisturbed(working)


@pytest.mark.spec("PC-16")
@pytest.mark.parametrize("way", ["fork", "provider", "direct", "extractive"])
@pytest.mark.parametrize("model", ["claude-fable-5-2", "claude-opus-5-5"])
def test_models_that_bind_their_thinking_never_refuse(begin, model, way):
    working = begin(model=model, percent=5, ways=(way,))
    list(working.work(30))
    assert len(working.compactions) >= 3
    thinking = [block for each in working.done for block in each.response.blocks if block.is_thinking]
    assert thinking
    undisturbed(working)


@pytest.mark.spec("CP-13")
def test_restored_files_are_what_is_on_disk_now(begin):
    working = begin(percent=20)
    stale = 0
    for exchange in working.work(40):
        if not isinstance(made := exchange.turn.compacted, Compaction):
            continue
        files = restored(made, "restored_file")
        # What stands in kept messages is not brought back.
        assert len(files) == 5 or made.plan.kept
        for each in files:
            now = Path(each["path"]).read_text()
            assert each["content"][1] == now
            stale += working.read_as[each["path"]] != now
    assert len(working.compactions) >= 2
    assert stale > 0
    undisturbed(working)


def test_what_people_said_survives_word_for_word_without_a_model(begin):
    """Section 6 quotes every message, also those that an earlier summary quoted."""
    working = begin(ways=("extractive",), percent=20)
    list(working.work(30))
    assert len(working.compactions) >= 2
    last = told(working.compactions[-1])
    section = last[last.index("6. ") :]
    before = [said for said in working.said if said in section]
    assert before == working.said[: len(before)]
    assert len(before) >= 15


@pytest.mark.spec("CP-32")
@pytest.mark.parametrize("way", ["fork", "direct", "extractive", "provider"])
def test_rules_and_pins_survive_twenty_compactions_in_a_row(begin, way):
    working = begin(model="claude-opus-4-6", ways=(way,))
    working.runner.say(f"Mend the parser. {RULE} Use bun.")
    conversation = working.runner.conversation
    edit = Pinned("The customer is called Ada.")
    last = conversation.log.records[-1]
    now = working.box.twin.clock.now()
    working.runner.add(make_edit_record(edit, uuid=working.new_id(), after=last, at=now))
    for _ in range(20):
        list(working.work(1))
        made = working.runner.compact(CompactionRequest(trigger="manual"))
        assert isinstance(made, Compaction)
        assert restored(made, "compaction_pins")[0]["content"][1:] == [edit.text, RULE, "Use bun."]
    list(working.work(1))
    undisturbed(working)
    shown = "\n".join(str(message) for message in working.done[-1].turn.captured.messages)
    assert all(pin in shown for pin in (edit.text, RULE, "Use bun."))


def test_ways_follow_one_another_from_summary_to_summary(begin):
    working = begin(model="claude-opus-4-6", ways=("provider",))
    for way in ("provider", "direct", "provider", "extractive", "fork", "provider", "fork", "extractive"):
        list(working.work(2))
        working.allow(way)
        made = working.runner.compact(CompactionRequest(trigger="manual"))
        assert isinstance(made, Compaction), made
        assert made.attempts[-1].strategy == way
        assert working.said[-1] in told(made)
    list(working.work(2))
    undisturbed(working)


@pytest.mark.spec("CP-35")
@pytest.mark.parametrize("way", ["direct", "extractive", "fork"])
def test_what_the_provider_signed_is_text_for_every_other_way(begin, way):
    working = begin(model="claude-opus-4-6", ways=("provider",))
    list(working.work(3))
    signed = working.runner.compact(CompactionRequest(trigger="manual"))
    assert isinstance(signed, Compaction)
    (block,) = signed.summary.blocks
    list(working.work(1))
    # Sent back first, as it came.
    assert working.done[-1].turn.request().messages[0].blocks[0] == block
    working.allow(way)
    made = working.runner.compact(CompactionRequest(trigger="manual"))
    assert isinstance(made, Compaction)
    sent = working.world.asked[-1].request.to_bytes() if way != "extractive" else told(made).encode()
    assert all(said.encode() in sent for said in working.said)
    list(working.work(1))
    undisturbed(working)


@pytest.mark.spec("CP-35")
def test_what_the_provider_used_to_compact_is_counted(begin):
    working = begin(model="claude-opus-4-6", ways=("provider",))
    list(working.work(5))
    made = working.runner.compact(CompactionRequest(trigger="manual"))
    assert isinstance(made, Compaction)
    part = working.box.ledger[-1]["usage"]["iterations"][0]
    assert made.attempts[-1].usage.cache_read_input_tokens == part["cache_read_input_tokens"] > 0
    assert working.events[-1].usage.output_tokens == part["output_tokens"] > 0
    assert share_read(made) >= 0.95
