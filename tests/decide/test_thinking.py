"""Which thinking has to leave, from where on, when not yet, and what is left of it afterwards (PC-16)."""

import random

import msgspec
import pytest
from builders import assistant, call, edited, result, think, user
from hypothesis import given
from hypothesis import strategies as st
from view.talks import HEAD, model

from everturn.decide.thinking import ThinkingTracker
from everturn.history.blocks import text_block
from everturn.history.edits import ThinkingDropped
from everturn.history.records import Record
from everturn.measure.model_table import Model
from everturn.measure.outline import Preamble
from everturn.measure.tokens import TokenCounter

OTHER = Preamble(HEAD.tools, (text_block("another prompt"),), (0,))


class Held(msgspec.Struct, frozen=True):
    model: Model
    preamble: Preamble = HEAD


BINDING, FREE, FORGETFUL = (
    Held(model(name)) for name in ("claude-opus-5-5", "claude-opus-5", "claude-sonnet-4-5")
)


def thought(name: str, tokens: int = 10) -> Record:
    """A reply with so many tokens of thinking; none at all where that is -1."""
    words = [think("x" * 4 * tokens)] if tokens >= 0 else []
    return assistant(*words, f"said {name}", id=name, uuid=name, model=BINDING.model.id)


def ledger(*records: Record) -> ThinkingTracker:
    made = ThinkingTracker(TokenCounter())
    for record in records:
        made.add(record)
    return made


def dropped(since: str) -> Record:
    return edited(ThinkingDropped(since, "a test"), f"drop {since}")


def test_the_models_are_the_kinds_that_they_stand_for():
    kinds = [(each.model.binds_thinking, each.model.keeps_thinking) for each in (BINDING, FREE, FORGETFUL)]
    assert kinds == [(True, True), (False, True), (False, False)]


# ── when it has to go ────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("PC-16")
@pytest.mark.parametrize(
    ("now", "before", "changed", "why"),
    [
        (BINDING, BINDING, "", None),
        (BINDING, None, "", None),
        (FREE, Held(FREE.model, OTHER), "an undo", None),
        (
            BINDING,
            Held(BINDING.model, OTHER),
            "",
            "it is bound to a different system prompt or different tools",
        ),
        (BINDING, BINDING, "an undo", "it is bound to what came before it: an undo"),
        (FREE, BINDING, "", "it was written by claude-opus-5-5, and claude-opus-5 cannot read it"),
        (FORGETFUL, FORGETFUL, "", "claude-sonnet-4-5 uses only the thinking of the last turn"),
    ],
)
def test_thinking_leaves_when_what_it_is_bound_to_has_changed(now, before, changed, why):
    made = ledger(user("go"), thought("a", -1), thought("b"), user("on"), thought("c"))
    if changed:
        made.prefix_changed(changed)
    expected = ThinkingDropped("b", why) if why else None
    assert made.drop(now, before, in_loop=False) == expected
    # Asked again before the edit is part of the log, it comes out the same.
    assert made.drop(now, before, in_loop=False) == expected


@pytest.mark.spec("PC-16")
def test_inside_a_tool_loop_it_waits_and_leaves_when_the_loop_has_ended():
    made = ledger(user("go"), assistant(think("hm"), call("c"), uuid="a"))
    moved = Held(BINDING.model, OTHER)
    assert made.drop(moved, BINDING, in_loop=True) is None
    made.add(result("c"))
    made.add(thought("b", -1))
    why = "it is bound to a different system prompt or different tools"
    assert made.drop(moved, BINDING, in_loop=False) == ThinkingDropped("a", why)


@pytest.mark.spec("PC-16")
def test_what_is_bound_to_messages_that_are_gone_cannot_wait():
    made = ledger(user("go"), assistant(think("hm"), call("c"), uuid="a"))
    made.prefix_changed("an undo")
    why = "it is bound to what came before it: an undo"
    assert made.drop(BINDING, BINDING, in_loop=True) == ThinkingDropped("a", why)
    assert made.drop(FREE, FREE, in_loop=True) is None


@pytest.mark.spec("PC-16")
def test_where_only_the_prefix_of_later_records_has_changed_earlier_thinking_stays():
    made = ledger(user("go"), thought("a"), user("more"), thought("b"), thought("c"))
    made.prefix_changed("an undo", since="b")
    edit = ThinkingDropped("b", "it is bound to what came before it: an undo")
    assert made.drop(BINDING, BINDING, in_loop=False) == edit
    made.add(edited(edit, "drop"))
    assert made.drop(BINDING, BINDING, in_loop=False) is None
    assert made.tokens_after("a") == 10


@pytest.mark.spec("PC-16")
def test_a_changed_prefix_behind_which_nothing_was_thought_does_not_matter():
    made = ledger(user("go"), thought("a"), thought("b", -1))
    made.prefix_changed("an undo", since="b")
    made.add(thought("c"))
    assert made.drop(BINDING, BINDING, in_loop=False) is None


@pytest.mark.spec("PC-16")
def test_a_resumed_session_with_another_model_drops_what_that_one_cannot_read():
    made = ledger(user("go"), thought("a"))
    why = "it was written by claude-opus-5-5, and claude-opus-5 cannot read it"
    assert made.drop(FREE, None, in_loop=False) == ThinkingDropped("a", why)
    assert made.drop(BINDING, None, in_loop=False) is None


@pytest.mark.spec("PC-16")
def test_what_is_thought_after_the_change_is_bound_to_the_new_prefix_and_stays():
    made = ledger(user("go"), thought("a", -1))
    made.prefix_changed("a compaction")
    made.add(thought("b"))
    assert made.drop(BINDING, BINDING, in_loop=False) is None


@pytest.mark.spec("PC-16")
def test_once_dropped_it_is_not_dropped_again_and_new_thinking_is_whole():
    made = ledger(user("go"), thought("a"), thought("b"))
    made.prefix_changed("an undo")
    made.add(dropped("a"))
    assert made.drop(BINDING, BINDING, in_loop=False) is None
    made.add(thought("c"))
    assert made.drop(BINDING, BINDING, in_loop=False) is None
    assert made.drop(BINDING, Held(BINDING.model, OTHER), in_loop=False) == ThinkingDropped(
        "c", "it is bound to a different system prompt or different tools"
    )


@pytest.mark.spec("PC-16")
def test_what_stands_before_a_partial_drop_can_still_be_dropped_later():
    """Also where thinking counts for nothing: its words were left out, only the signature came."""
    for tokens in (0, 10):
        made = ledger(thought("a", tokens), thought("b", tokens), dropped("b"))
        assert made.drop(BINDING, Held(BINDING.model, OTHER), in_loop=False) == ThinkingDropped(
            "a", "it is bound to a different system prompt or different tools"
        )


def test_what_a_partial_drop_leaves_is_still_bound_to_what_was_replaced():
    made = ledger(thought("a"), thought("b"))
    made.prefix_changed("an undo")
    made.add(dropped("b"))
    why = "it is bound to what came before it: an undo"
    assert made.drop(BINDING, BINDING, in_loop=False) == ThinkingDropped("a", why)


def turns_of_thinking(count: int) -> ThinkingTracker:
    """So many turns, each with a loop of two replies that think."""
    made = ledger()
    for at in range(count):
        for record in (user(f"go {at}"), thought(f"a{at}"), result(f"c{at}"), thought(f"b{at}")):
            made.add(record)
    return made


@pytest.mark.spec("MC-13")
@pytest.mark.parametrize(("keep", "until"), [(0, "a2"), (1, "a2"), (2, "a1"), (3, None), (9, None)])
def test_a_cold_cache_is_a_reason_to_keep_the_last_turns_alone(keep, until):
    made = turns_of_thinking(3)
    expected = ThinkingDropped("a0", "cold", until) if until else None
    assert made.drop(BINDING, BINDING, cold="cold", keep_turns=keep, in_loop=False) == expected
    assert made.drop(BINDING, BINDING, cold="cold", keep_turns=keep, in_loop=True) is None


@pytest.mark.spec("MC-13")
def test_after_a_cold_drop_the_last_turn_is_left_and_can_leave_later():
    made = turns_of_thinking(3)
    edit = made.drop(BINDING, BINDING, cold="cold", in_loop=False)
    assert edit is not None
    assert made.tokens_dropped_by(edit) == 40
    made.add(edited(edit, "drop"))
    assert (made.tokens_after("go 0"), made.tokens_after("go 2")) == (20, 20)
    assert made.drop(BINDING, BINDING, cold="cold", in_loop=False) is None
    made.prefix_changed("an undo")
    why = "it is bound to what came before it: an undo"
    assert made.drop(BINDING, BINDING, cold="cold", in_loop=False) == ThinkingDropped("a2", why)


def test_a_view_without_thinking_has_none_to_drop():
    assert ledger(thought("a", -1)).drop(BINDING, BINDING, cold="cold", in_loop=False) is None


def test_a_drop_is_told_once():
    made = ledger(thought("a"), dropped("a"))
    assert (made.took_dropped(), made.took_dropped()) == (True, False)


# ── its price ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("PC-16")
def test_the_price_of_an_edit_is_the_thinking_from_there_on():
    made = ledger(user("go"), thought("a", 10), user("on"), thought("b", 20), thought("c", 30))
    prices = {name: made.tokens_after(name) for name in ("go", "a", "on", "b", "c", "nowhere")}
    assert prices == {"go": 60, "a": 60, "on": 50, "b": 50, "c": 30, "nowhere": 0}


class NaiveLedger:
    """Every reply in order with what it thought; a drop empties them one by one."""

    def __init__(self) -> None:
        self.thoughts: list[tuple[str, int | None]] = []

    def drop(self, since: str, until: str) -> None:
        names = [name for name, _ in self.thoughts]
        start = names.index(since) if since in names else 0
        end = names.index(until) if until else len(names)
        self.thoughts[start:end] = [(name, None) for name in names[start:end]]

    def tokens_after(self, name: str) -> int:
        names = [each for each, _ in self.thoughts]
        return sum(tokens or 0 for _, tokens in self.thoughts[names.index(name) :])

    @property
    def first(self) -> str | None:
        return next((name for name, tokens in self.thoughts if tokens is not None), None)


@pytest.mark.spec("PC-16")
@given(st.integers(0, 2**32))
def test_random_drops_leave_what_a_naive_ledger_says(seed: int):
    rng = random.Random(seed)
    made, naive = ledger(), NaiveLedger()
    for n in range(25):
        name = f"r{n}"
        if rng.random() < 0.25 and naive.thoughts:
            names = [each for each, _ in naive.thoughts]
            since = rng.choice([*names, "out of sight"])
            later = names[names.index(since) if since in names else 0 :]
            until = rng.choice(["", *later])
            made.add(edited(ThinkingDropped(since, "a test", until), f"drop {n}"))
            naive.drop(since, until)
        else:
            tokens = rng.choice((-1, 0, 5, 9))
            made.add(thought(name, tokens))
            naive.thoughts.append((name, None if tokens < 0 else tokens))
        edit = made.drop(BINDING, Held(BINDING.model, OTHER), in_loop=False)
        assert (edit.since if edit else None) == naive.first
        for each, _ in naive.thoughts:
            assert made.tokens_after(each) == naive.tokens_after(each)
