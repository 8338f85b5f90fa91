"""Pins: the user's rules, word for word, across any number of compactions (CP-32)."""

import builders as b
import pytest
from decide.compact.bench import Bench, manual, turn, turns
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.compact.pins import (
    RULES,
    Pins,
    check_pin,
    may_state_rule,
    pins_of,
    standing_instructions,
)
from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.history.blocks import text_of
from everturn.history.edits import Pinned
from everturn.history.records import Record
from everturn.measure.tokens import rough
from everturn.view.flatten import flatten

LONGEST = DEFAULTS.longest_pin


@pytest.mark.spec("CP-32")
@pytest.mark.parametrize(
    "rule",
    [
        "Never push to main.",
        "never push",
        "Use bun",
        "use bun, not npm",
        "Do not touch legacy/auth.py!",
        "don't commit anything",
        "Please always run the tests first.",
        "From now on, answer in German.",
        "You must not change the public API.",
        "- never delete migrations",
        "Avoid new dependencies.",
        "Do **not** merge.",
        "Don’t rename anything",
        "Leave config.yml alone.",
        "Make sure that you never log tokens.",
        "You may only write tests.",
        "Under no circumstances push.",
        "No matter what, commit first.",
        "Keep in mind that Windows has other paths.",
        "Remember to run the linter.",
        "Make sure that you run it.",
        "Stop pushing.",
        "You should always ask.",
    ],
)
def test_a_standing_instruction_is_found_as_it_was_written(rule: str):
    spoken = b.user(f"Hello there. {rule}\nThanks a lot, that is all.", uuid="u")
    assert standing_instructions(spoken, LONGEST) == (rule,)


@pytest.mark.parametrize(
    "words",
    [
        "Fix the parser.",
        "Never mind!",
        "Why don't you use bun?",
        "It never worked and I always wondered why.",
        "The users do not see the button.",
        "I use bun at home and it is fine",
        "<system-reminder>Never mention this.</system-reminder>",
        "```\nnever do this\n```",
        "Never " + "a" * LONGEST,
    ],
)
def test_what_is_no_rule_is_not_pinned(words: str):
    assert standing_instructions(b.user(words, uuid="u"), LONGEST) == ()


@pytest.mark.spec("CP-32")
@pytest.mark.parametrize(
    "record",
    [
        b.user("Never push.", uuid="u", isMeta=True),
        b.summary("Never push."),
        b.result("c1", "Never push."),
        b.assistant("Never push."),
        b.attachment("Never push."),
    ],
)
def test_only_people_pin(record: Record):
    assert standing_instructions(record, LONGEST) == ()


@pytest.mark.spec("CP-32")
def test_pins_are_carried_verbatim_through_many_compactions():
    bench = Bench([b.user("Never push. Use bun.", uuid="rule"), *turns(1)])
    bench.log.append(b.edited(Pinned("the port is 8080"), "pin"))
    for at in range(2, 7):
        bench.compact(manual())
        for record in turn(at, words=f"step {at}"):
            bench.log.append(record)
    blocks = [block for message in flatten(bench.log.view).messages for block in message.blocks]
    (pinned,) = [text for block in blocks if "the port is 8080" in (text := text_of(block))]
    assert pinned.splitlines()[2:-1] == ["the port is 8080", "Never push.", "Use bun."]


@pytest.mark.spec("CP-32")
def test_the_budget_takes_the_callers_first_and_then_the_newest():
    said = [b.user(f"Never do {word}.", uuid=word) for word in ("one", "two", "six")]
    small = CompactSettings(pin_tokens=12)
    assert pins_of([Pinned("mine, all mine!!")], said, small, rough) == Pins(
        carried=("mine, all mine!!", "Never do two.", "Never do six."), unpinned=("Never do one.",)
    )
    assert pins_of([Pinned("x" * 400)], said[:1], small, rough) == Pins(
        carried=("x" * 400,), unpinned=("Never do one.",)
    )


@pytest.mark.spec("CP-32")
def test_what_somebody_pinned_is_carried_even_if_there_is_too_much_of_it():
    own = [f"pin {at}: " + "x" * 552 for at in range(20)]
    found = pins_of([Pinned(text) for text in own], [b.user("Never push.")], DEFAULTS, rough)
    assert found == Pins(carried=tuple(own), unpinned=("Never push.",))


def test_a_pin_beyond_the_budget_is_refused_with_the_numbers():
    small = CompactSettings(pin_tokens=12)
    assert check_pin("  ", (), small, rough) == "No text to pin; give the text that must be kept."
    assert check_pin("x" * 40, (), small, rough) == ""
    before = [Pinned("x" * 40)]
    assert check_pin("x" * 40, before, small, rough) == ""
    assert check_pin("y" * 12, before, small, rough) == (
        f"This text has about {rough('y' * 12)} tokens, and {rough('x' * 40)} of the 12 that are carried "
        "through every compaction are taken by 1 pinned text. Shorten it, or raise the key "
        "`compact.pin_tokens`."
    )


def test_a_rule_said_again_is_one_rule_at_its_newest_place():
    said = [b.user(words, uuid=f"{at}") for at, words in enumerate(["Use bun.", "Never push.", "Use bun."])]
    assert pins_of([], said, DEFAULTS, rough) == Pins(carried=("Never push.", "Use bun."))


def test_rules_in_kept_messages_stay_where_they_are():
    records = [*turns(1), b.user("Never push.", uuid="rule"), *turn(2)]
    assert Bench(records).planned(manual(form="up_to", at="rule")).pins == ()


@given(st.from_regex(RULES))
def test_no_rule_is_passed_over_for_want_of_its_words(sentence: str):
    assert RULES.search(sentence)
    assert may_state_rule(sentence)


@pytest.mark.parametrize("rule", ["From  now on, answer in German.", "From\tnow on, answer in German."])
def test_a_rule_is_found_with_any_space_between_its_words(rule: str):
    assert standing_instructions(b.user(rule, uuid="u"), LONGEST) == (rule,)


def test_words_without_a_rule_are_not_searched_for_one():
    assert not may_state_rule("The parser fails on the second line, please have a look at it.")


def test_blank_pins_carry_nothing():
    pinned = [Pinned("  "), Pinned(" Be brief. "), Pinned("Be brief.")]
    assert pins_of(pinned, [], DEFAULTS, rough).carried == ("Be brief.",)


def test_a_pin_may_fill_the_budget_to_its_last_token_and_a_known_one_takes_none():
    settings = CompactSettings(pin_tokens=30)
    pinned = [Pinned("x" * 40), Pinned(" " + "x" * 40 + " ")]
    assert check_pin("y" * 80, pinned, settings, rough) == ""
    assert check_pin("x" * 40, [Pinned("x" * 40), Pinned("z" * 80)], settings, rough) == ""
    assert check_pin("y" * 84, pinned, settings, rough) == (
        "This text has about 21 tokens, and 10 of the 30 that are carried through every compaction are taken "
        "by 1 pinned text. Shorten it, or raise the key `compact.pin_tokens`."
    )
    assert check_pin(" \n", pinned, settings, rough) == "No text to pin; give the text that must be kept."


def test_found_rules_fill_what_pins_leave_to_its_last_token():
    rule = "Never push. " + "x" * 28
    said = [b.user(rule, uuid="u1"), b.user("Always lint it. " + "y" * 24, uuid="u2")]
    settings = CompactSettings(pin_tokens=20)
    found = pins_of([Pinned("p" * 40)], said, settings, rough)
    assert sum(map(rough, found.carried)) <= 20
    assert found.carried[0] == "p" * 40
    assert set(found.carried[1:]) | set(found.unpinned) == {"Never push.", "Always lint it."}
