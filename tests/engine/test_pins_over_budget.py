"""What somebody pinned is carried through every strategy, however much it is (CP-31, CP-32, CP-34)."""

import builders as b
import pytest
from engine.alone import Alone, summary

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionRequest
from everturn.decide.effects import ModelAnswer
from everturn.history.blocks import block_from_fields, text_of
from everturn.history.edits import Pinned
from everturn.history.records import Usage

PINS = [f"Pin {at}: {'keep to this rule; ' * 29}"[:560].strip() for at in range(20)]
BY_HAND = CompactionRequest(trigger="manual")
SIGNED = block_from_fields({"type": "compaction", "content": "In short, all is well.", "signature": "s"})


def scene(*ways, answers=(), rules: int = 0) -> Alone:
    records = [b.user(f"Never touch file {at}, {'not at all, ' * 30}".strip()) for at in range(rules)]
    records += [b.user("Mend the parser. " * 2_000, uuid="u"), b.assistant("Done so far.", id="m", uuid="a")]
    records += [b.edited(Pinned(text), f"pin {at}") for at, text in enumerate(PINS)]
    return Alone(
        records,
        model="claude-opus-4-6",
        answers=answers or (summary(),),
        compact=CompactSettings(strategies=ways),
    )


def compacted(made: Alone) -> Compaction | CompactionFailed:
    return made.run(made.conversation.compact(BY_HAND, made.now, made.new_id))


def everything_shown(made: Alone) -> str:
    messages = made.conversation._tracker.messages(
        made.conversation.setting.preamble, made.conversation.setting.costs
    )
    return "\n".join(text_of(block) for message in messages for block in message.blocks)


@pytest.mark.spec("CP-31", "CP-32")
@pytest.mark.parametrize("strategy", ["fork", "direct", "provider", "extractive"])
def test_every_pin_is_carried_whatever_writes_the_summary(strategy):
    answers = [ModelAnswer((SIGNED,), "end_turn", Usage(10, 0, 0, 5))] if strategy == "provider" else ()
    made = scene(strategy, answers=answers)
    done = compacted(made)
    assert isinstance(done, Compaction)
    assert [at for at, text in enumerate(PINS) if text not in everything_shown(made)] == []


@pytest.mark.spec("CP-34")
def test_the_receipt_counts_pins_and_names_the_rules_for_which_there_was_no_space():
    done = compacted(scene("extractive", rules=7))
    assert isinstance(done, Compaction)
    assert "20 instructions of the user verbatim" in done.receipt.retained
    (dropped,) = [line for line in done.receipt.dropped if "over the pin budget" in line]
    assert dropped.startswith('7 older instructions over the pin budget: "Never touch file 0, ')
