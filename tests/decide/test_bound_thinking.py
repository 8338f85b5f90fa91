"""Edits on models that bind thinking to what came before it."""

import pytest
from decide.conversations import LATE, Bench, finished, reads
from presets import with_numbers

from everturn.decide.settings import MicroSettings
from everturn.history.edits import Cleared, ThinkingDropped, Trimmed

BOUND = {"binds_thinking": True}


def priced(tokens: int, **more):
    return BOUND | {"thinking_tokens_after": lambda since: tokens} | more


@pytest.mark.spec("PC-16")
def test_an_edit_takes_the_thinking_behind_it_along_and_says_the_price():
    asked: list[str] = []

    def price(since: str) -> int:
        asked.append(since)
        return 1_234

    bench = Bench(finished(reads(7, thought="hm")))
    plan = bench.decide(LATE, binds_thinking=True, thinking_tokens_after=price)
    assert [type(edit) for edit in plan.edits] == [Cleared, ThinkingDropped]
    assert plan.edits[1].since == "a-c2"
    assert asked == ["a-c2"]
    assert "drops 1,234 tokens of thinking" in plan.why
    bench.apply(plan)
    thinking = [
        at for at, message in enumerate(bench.flat().messages) if any(b.is_thinking for b in message.blocks)
    ]
    assert thinking == [1]


@pytest.mark.spec("PC-16")
def test_while_the_tool_loop_runs_the_edit_waits():
    plan = Bench(reads(7)).decide(LATE, in_tool_loop=True, **BOUND)
    assert (plan.kind, plan.edits) == ("waits", ())
    assert "waits for the tool loop to end" in plan.why


@pytest.mark.spec("PC-16")
def test_an_edit_that_saves_less_than_the_thinking_is_worth_does_not_happen():
    bench = Bench(finished(reads(7, 1_008)))
    kinds = [bench.decide(LATE, **priced(tokens)).kind for tokens in (0, 1_999, 2_000)]
    assert kinds == ["time", "time", "none"]
    assert "2,000 tokens of thinking are worth more" in bench.decide(LATE, **priced(2_000)).why


@pytest.mark.spec("PC-16")
def test_what_thinking_is_worth_is_a_setting():
    careless = with_numbers("when-cold", MicroSettings(thinking_worth=0))
    assert Bench(finished(reads(7)), careless).decide(LATE, **priced(900_000)).kind == "time"


@pytest.mark.spec("PC-16")
def test_models_that_do_not_bind_thinking_lose_none_and_wait_for_nothing():
    plan = Bench(reads(7)).decide(LATE, in_tool_loop=True, thinking_tokens_after=lambda since: 9_999)
    assert [type(edit) for edit in plan.edits] == [Cleared]


@pytest.mark.spec("PC-16")
def test_a_window_drops_the_thinking_of_everything_that_stays():
    plan = Bench(finished(reads(8, 15_000)), "sliding-window").decide(**priced(10))
    assert [type(edit) for edit in plan.edits] == [Trimmed, ThinkingDropped]
    assert plan.edits[1].since == plan.edits[0].before
