"""What a conversation says about itself, and what waits until a tool loop has ended."""

import builders as b
import msgspec
import pytest
from engine.alone import Alone, summary
from engine.held import model_of

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.engine import Turn
from everturn.engine.values import compaction_disabled
from everturn.history.blocks import text_block
from everturn.history.edits import ThinkingDropped, ToldAsText
from everturn.measure.accounting import accounts_of
from everturn.measure.outline import Preamble
from everturn.measure.tokens import TokenCounter, rough
from everturn.view.key_parameters import KeyParameters, TtlChoice

ASKED = b.user("Mend the parser, please.", uuid="u1")
LOOP = [
    ASKED,
    b.assistant(b.think("Hm."), b.call("c1", "Read", file_path="a"), id="m1", uuid="a1"),
    b.result("c1", "one", uuid="r1", parent="a1"),
]


def thoughts(scene: Alone) -> int:
    messages = scene.turn().captured.messages
    return sum(block.is_thinking for message in messages for block in message.blocks)


def waiting(turn: Turn) -> tuple[str, ...]:
    return tuple(note for note in turn.notes if "waits" in note)


def test_texts_and_records_are_estimated_as_the_counter_does():
    scene = Alone(LOOP)
    assert scene.conversation.estimate_text("Mend the parser, please.") == rough("Mend the parser, please.")
    whole = sum(TokenCounter().of(each).whole.total for each in LOOP)
    assert scene.conversation.estimate_tokens(LOOP) == whole > 0
    assert scene.conversation.metrics == accounts_of(scene.conversation.log.view).metrics()


@pytest.mark.spec("PC-16")
@pytest.mark.parametrize(("model", "sent"), [("claude-opus-5-5", 0), ("claude-opus-4-6", 1)])
def test_thinking_that_may_be_bound_to_another_prefix_is_not_sent_where_that_is_checked(model, sent):
    def talked() -> Alone:
        scene = Alone([ASKED], model=model)
        scene.turn()
        scene.conversation.add(b.assistant(b.think("Hm."), "Done.", id="m1", uuid="a1", model=model))
        scene.conversation.add(b.user("Thanks.", uuid="u2"))
        return scene

    assert thoughts(talked()) == 1
    distrusted = talked()
    distrusted.conversation.distrust_thinking("opened elsewhere", "a1")
    assert thoughts(distrusted) == sent


@pytest.mark.spec("PC-16")
def test_another_model_waits_until_the_tool_loop_has_ended():
    scene = Alone(LOOP[:1], model="claude-opus-4-6")
    scene.turn()
    for record in LOOP[1:]:
        scene.conversation.add(record)
    other = model_of("claude-sonnet-4-5")
    scene.conversation.setting = msgspec.structs.replace(scene.conversation.setting, model=other)
    within = scene.turn()
    assert (within.captured.model, waiting(within)) == (
        "claude-opus-4-6",
        ("a change of the model waits until the tool loop has ended",),
    )
    scene.conversation.add(b.assistant("Done.", id="m2", uuid="a2"))
    scene.conversation.add(b.user("Thanks.", uuid="u2"))
    after = scene.turn()
    assert (after.captured.model, waiting(after)) == ("claude-sonnet-4-5", ())


@pytest.mark.spec("PC-16")
@pytest.mark.parametrize(("model", "waits"), [("claude-opus-5-5", True), ("claude-opus-4-6", False)])
def test_another_prompt_waits_where_thinking_is_bound_to_the_prefix(model, waits):
    scene = Alone(LOOP[:1], model=model)
    scene.turn()
    for record in LOOP[1:]:
        scene.conversation.add(record)
    preamble = Preamble(system=(text_block("Be brief."),))
    scene.conversation.setting = msgspec.structs.replace(scene.conversation.setting, preamble=preamble)
    turn = scene.turn()
    assert (turn.captured.preamble == preamble) is not waits
    told = ("a change of system prompt and tools waits until the tool loop has ended",)
    assert waiting(turn) == (told if waits else ())


@pytest.mark.spec("CP-38")
def test_a_tool_loop_without_its_thinking_is_told_as_text_where_the_api_demands_thinking():
    talk = [ASKED, b.assistant(b.call("c1", "Read", file_path="a"), id="m1", uuid="a1"), LOOP[2]]
    thinking = KeyParameters(TtlChoice("5m", "test"), thinking={"type": "enabled", "budget_tokens": 2_000})
    scene = Alone(talk, model="claude-sonnet-4-5", parameters=thinking)
    kinds = {block.kind for message in scene.turn().captured.messages for block in message.blocks}
    assert kinds == {"text"}
    edits = [record.edit for record in scene.conversation.log.records if record.edit is not None]
    assert edits == [
        ToldAsText(("c1",), "with thinking enabled, the API refuses a tool loop without thinking")
    ]


@pytest.mark.spec("CP-38", "PC-16")
def test_a_summary_request_is_sent_without_the_thinking_that_the_api_would_refuse():
    scene = Alone(
        [b.user("Mend it. " * 2_000, uuid="u1")],
        model="claude-opus-5-5",
        compact=CompactSettings(strategies=("fork",)),
        answers=[summary()],
    )
    scene.turn()
    scene.conversation.add(
        b.assistant(b.think("Hm."), "Done so far.", id="m1", uuid="a1", model="claude-opus-5-5")
    )
    scene.conversation.distrust_thinking("opened elsewhere", "a1")
    asked = CompactionRequest(trigger="manual")
    made = scene.run(scene.conversation.compact(asked, scene.now, scene.new_id))
    assert isinstance(made, Compaction)
    (sent,) = scene.asked
    assert [
        block.kind for message in sent.request.messages for block in message.blocks if block.is_thinking
    ] == []
    assert any(isinstance(record.edit, ThinkingDropped) for record in scene.conversation.log.records)


def test_a_conversation_that_may_not_compact_says_so():
    scene = Alone(LOOP)
    asked = CompactionRequest(trigger="manual")
    outcome = scene.run(scene.conversation.compact(asked, scene.now, scene.new_id))
    assert (
        outcome
        == scene.conversation.dry_run(asked, scene.now)
        == compaction_disabled(scene.conversation.setting.options)
    )
    assert scene.effects == []
