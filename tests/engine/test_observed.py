"""Observed calls: nothing is decided, the view is there when somebody asks for it, breaks are explained."""

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
from builders import answer, assistant, boundary, call, edited, result, summary, think, user
from engine.alone import NOON, Alone
from engine.held import head, model_of

from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.decide.economy.state import EconomyState
from everturn.history.edits import Cleared, Undone
from everturn.history.records import Record, Usage

MODEL = "claude-opus-4-6"


def usage(tokens: int) -> dict[str, int]:
    return {"input_tokens": 10, "cache_read_input_tokens": tokens, "output_tokens": 20}


SAID: list[Record] = [
    user("Look at the parser. " * 40, uuid="u1"),
    assistant(think("I read it."), call("a", path="parser.py"), id="m1", usage=usage(900)),
    result("a", "def parse(): ... " * 200),
    assistant("It drops a token.", call("b", path="lexer.py"), id="m2", usage=usage(1_800)),
    user([answer("b", "def lex(): ... " * 100), {"type": "text", "text": "And now?"}], uuid="u2"),
    edited(Cleared(("a",), tokens_saved=800, why="it is old"), "c1"),
    assistant(" ", id="m3", usage=usage(2_500)),
    user("Mend it.", uuid="u3"),
    boundary(uuid="b1"),
    summary(uuid="s1", parent="b1"),
    assistant("Done.", id="m4", usage=usage(700)),
    user("Thanks.", uuid="u4"),
    edited(Undone("b1", "the user wants it back"), "x1"),
    user("Go on.", uuid="u5"),
]


@pytest.mark.parametrize("count", range(1, len(SAID) + 1))
def test_an_observed_conversation_has_the_view_of_any_other_once_it_is_asked_for(count: int):
    one, other = Alone(model=MODEL), Alone(model=MODEL)
    for record in SAID[:count]:
        one.conversation.add(record)
        other.conversation.add_observed(record)
    found = [
        (it.size, it.metrics, it.calibration, it.repairs, it.log.records, it.estimate_tokens(SAID[:count]))
        for it in (one.conversation, other.conversation)
    ]
    assert found[0] == found[1]
    sent, sent_later = one.turn(), other.turn()
    assert sent_later.captured == sent.captured
    assert sent_later.appended == sent.appended
    assert sent_later.prediction == sent.prediction


def observe(alone: Alone, read: int, *, id: str) -> object:
    alone.conversation.observe(alone.now)
    reply = assistant("Yes.", id=id, usage=usage(read))
    said = Usage(10, 0, read, 20)
    return alone.conversation.record_observed_reply([reply], said, alone.now)


def change_system(alone: Alone) -> None:
    conversation = alone.conversation
    conversation.setting = msgspec.structs.replace(conversation.setting, preamble=head("Another prompt."))


def change_model(alone: Alone) -> None:
    conversation = alone.conversation
    conversation.setting = msgspec.structs.replace(conversation.setting, model=model_of("claude-haiku-4-5"))


def compact(alone: Alone) -> None:
    for record in (boundary(uuid="b1"), summary(uuid="s1", parent="b1")):
        alone.conversation.add_observed(record)


def undo_compaction(alone: Alone) -> None:
    compact(alone)
    alone.conversation.add_observed(edited(Undone("b1", "the user wants it back"), "x1"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (change_system, "system prompt changed"),
        (lambda _: None, "likely server-side (prompt unchanged, gap under 5 min)"),
    ],
)
def test_a_cache_break_of_an_observed_conversation_is_explained(change: Callable[[Alone], None], why: str):
    alone = Alone(model=MODEL, preamble=head())
    alone.conversation.add_observed(user("Begin."))
    observe(alone, 9_000, id="m1")
    change(alone)
    alone.conversation.add_observed(user("Go on."))
    verdict = observe(alone, 0, id="m2")
    assert isinstance(verdict, DetectedBreak)
    assert verdict.why.startswith(why)
    assert (verdict.tokens_lost, alone.now) == (9_000, NOON)


@pytest.mark.parametrize("change", [lambda _: None, change_system, change_model, compact, undo_compaction])
@pytest.mark.parametrize("calls", [1, 3, 40])
def test_the_bill_of_observed_replies_is_the_same_whenever_somebody_asks_for_it(
    change: Callable[[Alone], None], calls: int
):
    """40 calls are more than wait at once."""
    asking, silent = (Alone(model=MODEL, preamble=head(), under="economic") for _ in range(2))
    bills: list[EconomyState] = []
    for at in range(2 * calls):
        for alone in (asking, silent):
            alone.conversation.add_observed(user(f"Question {at}. " * 30, uuid=f"u{at}"))
            observe(alone, 900 * at, id=f"m{at}")
            alone.now += timedelta(minutes=3)
        bills.append(asking.conversation.economy.state)
        if at == calls - 1:
            change(asking)
            change(silent)
    assert silent.conversation.economy.state == bills[-1]
    assert bills[-1].spent > bills[0].spent > 0
    assert silent.conversation.size == asking.conversation.size


def test_a_compaction_explains_that_little_is_read_afterwards():
    alone = Alone(model=MODEL, preamble=head())
    alone.conversation.add_observed(user("Begin."))
    observe(alone, 9_000, id="m1")
    assert alone.conversation.size.next_request > 0  # somebody asked: the view is there
    for record in (boundary(uuid="b1"), summary(uuid="s1", parent="b1"), user("Go on.")):
        alone.conversation.add_observed(record)
    assert alone.conversation.size.next_request > 0
    assert isinstance(observe(alone, 0, id="m2"), NoBreak)
    alone.conversation.add_observed(user("And on."))
    assert isinstance(observe(alone, 9_000, id="m3"), NoBreak)
    alone.conversation.add_observed(user("And on again."))
    assert isinstance(observe(alone, 0, id="m4"), DetectedBreak)


def test_nothing_is_decided_for_an_observed_call():
    alone = Alone(model="claude-sonnet-4-5")
    records = [user("Begin."), assistant(think("Well."), "Yes.", id="m1", usage=usage(10)), user("Go on.")]
    for record in records:
        alone.conversation.add_observed(record)
    observe(alone, 100, id="m2")
    # A request of our own would leave out the thinking, and record that.
    assert [each.uuid for each in alone.conversation.log.records[:3]] == [each.uuid for each in records]
    assert len(alone.conversation.log.records) == 4
    assert alone.effects == []


def test_a_reply_belongs_to_the_source_that_was_observed_or_to_the_setting():
    alone = Alone(model=MODEL, preamble=head(), source="one")
    conversation, said = alone.conversation, Usage(10, 0, 9_000, 20)
    # Of a call that nobody observed, only the setting is known.
    assert isinstance(conversation.record_observed_reply([], said, alone.now), NoBreak)
    conversation.observe(alone.now)
    conversation.setting = msgspec.structs.replace(conversation.setting, source="two")
    conversation.record_observed_reply([], said, alone.now)
    baselines = conversation.detector.baselines
    assert {name for name, known in baselines.items() if known.answered is not None} == {"one"}


def test_what_another_process_recorded_is_in_view_before_and_after_our_own_first_request():
    scene = Alone([user("Hi.", uuid="u1")])
    conversation = scene.conversation
    conversation.add_from_elsewhere([assistant("Hello.", id="m1", uuid="a1")], {})
    conversation.add(user("Go on.", uuid="u2"))
    scene.turn()
    conversation.add_from_elsewhere([assistant("Gladly.", id="m2", uuid="a2")], {})
    assert [record.uuid for record in conversation.log.view.records] == ["u1", "a1", "u2", "a2"]
