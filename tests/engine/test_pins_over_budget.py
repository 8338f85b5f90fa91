"""More pins than their budget holds: none is lost in silence (CP-31, CP-32, CP-34)."""

import builders as b
import pytest
from engine.alone import SUMMARY, Alone, summary
from engine.working import told

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionRequest
from everturn.decide.effects import ModelAnswer
from everturn.history.blocks import block_from_fields, text_of
from everturn.history.edits import Pinned
from everturn.history.records import Usage

PINS = [f"Pin {at}: {'keep to this rule; ' * 29}"[:560].strip() for at in range(20)]
BY_HAND = CompactionRequest(trigger="manual")


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
def test_without_a_model_every_pin_is_carried_or_quoted():
    made = scene("extractive")
    done = compacted(made)
    assert isinstance(done, Compaction)
    assert [at for at, text in enumerate(PINS) if text not in everything_shown(made)] == []
    assert all(text in told(done) for text in PINS[:6])


@pytest.mark.spec("CP-34")
def test_the_receipt_counts_and_names_pins_beyond_the_budget():
    done = compacted(scene("extractive", rules=7))
    assert isinstance(done, Compaction)
    quoted = next(line for line in done.receipt.retained if "in the summary itself" in line)
    assert quoted.startswith('6 pinned texts in the summary itself: "Pin 0: keep to this rule;')
    assert quoted.endswith("and 1 more")
    (dropped,) = [line for line in done.receipt.dropped if "over the pin budget" in line]
    assert dropped.startswith('7 older instructions over the pin budget: "Never touch file 0, ')


@pytest.mark.spec("CP-31")
@pytest.mark.parametrize("way", ["fork", "direct"])
def test_a_model_that_does_not_quote_them_is_asked_again_and_then_passed_over(way):
    made = scene(way, "extractive")
    done = compacted(made)
    assert isinstance(done, Compaction)
    assert [(each.strategy, each.problem[:23]) for each in done.attempts] == [
        (way, "it lost what was pinned"),
        ("extractive", ""),
    ]
    quoting = SUMMARY.replace("</summary>", "\n".join(PINS[:6]) + "</summary>")
    done = compacted(scene(way, answers=[summary(quoting)]))
    assert isinstance(done, Compaction)


@pytest.mark.spec("CP-31", "CP-35")
def test_a_compaction_of_the_provider_must_quote_them_too():
    signed = block_from_fields({"type": "compaction", "content": "In short, all is well.", "signature": "s"})
    answer = ModelAnswer((signed,), "end_turn", Usage(10, 0, 0, 5))
    made = scene("provider", answers=[answer])
    done = compacted(made)
    assert isinstance(done, CompactionFailed)
    assert done.attempts[0].problem.startswith("it lost what was pinned: Pin 0")
    asked = made.asked[0].request.settings["compaction"]["instructions"]
    assert all(text in asked for text in PINS[:6])
