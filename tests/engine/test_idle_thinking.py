"""After an idle hour only the thinking of the last turns is sent again (MC-13)."""

import msgspec
import pytest
from engine.held import thought, words

from everturn.decide.events import MicroCompacted
from everturn.decide.policy import get_policy
from everturn.decide.settings import DeclarativeSettings, MicroSettings
from everturn.history.blocks import fields_of

HOUR = 3_601


def keeping(turns: int):
    micro = MicroSettings(declarative=DeclarativeSettings(thinking_turns=turns))
    return msgspec.structs.replace(get_policy("claude-code").options, micro=micro)


def think_and_wait(held) -> None:
    """Three turns with thinking, the last of them with a tool loop, and a long pause."""
    for at in range(2):
        held.ask(f"Question {at}.", thought(f"question {at}"), words(30, "Well."))
    names = held.work(1, thought("the loop"), text="Question 2.")
    held.finish(names, thought("its end"), words(30, "Seen."))
    held.wait(HOUR)


def thoughts_sent(held) -> list[str]:
    messages = held.done[-1].turn.captured.messages
    blocks = [block for message in messages for block in message.blocks if block.is_thinking]
    return [fields_of(block)["thinking"].split(".")[0] for block in blocks]


@pytest.mark.spec("MC-13")
@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-opus-5-5"])
@pytest.mark.parametrize("turns", [1, 2])
def test_the_last_turns_keep_their_thinking_and_the_api_accepts_what_is_left(hold, model, turns):
    held = hold(model=model, under=keeping(turns))
    think_and_wait(held)
    held.ask("Go on.")
    said = ["I think about question 0", "I think about question 1"]
    last = ["I think about the loop", "I think about its end"]
    assert thoughts_sent(held) == [*said[3 - turns :], *last]
    held.ask("And on.")
    assert held.verdicts[-2:] == ["as predicted", "as predicted"]


@pytest.mark.spec("MC-13", "TL-1")
def test_thinking_that_leaves_after_an_idle_hour_is_told(hold):
    held = hold(under=keeping(1))
    told = []
    held.runner.handler._listen = told.append
    think_and_wait(held)
    held.ask("Go on.")
    (event,) = [each for each in told if isinstance(each, MicroCompacted)]
    assert (event.kind, event.results, event.why) == ("thinking", 0, "the cache is cold")
    assert event.tokens_saved == event.tokens_before - event.tokens_after > 20
