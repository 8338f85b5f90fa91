"""A fork reads its parent's cache, writes none, and leaves no trace in the parent's next call."""

import msgspec
import pytest
from engine.held import Held, each_as_predicted, talk, thought, words

from everturn.history.blocks import text_block
from everturn.history.messages import Message
from everturn.measure.capabilities import ANTHROPIC
from everturn.twin.speaker import script_reply
from everturn.twin.upstream import make_twin_send
from everturn.view.forks import make_fork
from everturn.view.requests import build_fork_request

SUMMARIZE = Message("user", (text_block("Summarize what was done so far, in ten lines."),))


def ask_fork(held: Held) -> dict[str, int]:
    """A fork of the last request, sent past the conversation; its usage."""
    parent = held.done[-1].turn.captured
    said = Message("assistant", held.done[-1].response.blocks)
    body = build_fork_request(make_fork(parent, (said, SUMMARIZE)), ANTHROPIC).to_bytes()
    held.twin.speaker.add([script_reply("In short.")])
    answered = make_twin_send(held.twin)(body, held.done[-1].turn.betas)
    return msgspec.json.decode(answered.body)["usage"]


@pytest.mark.spec("PC-12", "PC-13")
@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-opus-5", "claude-fable-5-2"])
def test_a_fork_after_twenty_turns_pays_for_its_own_words_alone(hold, model, ttl):
    held: Held = hold(model=model, ttl=ttl, under="claude-code")
    list(talk(held, 20))
    entries = set(held.twin.cache.entries(held.twin.clock.now().timestamp()))
    usage = ask_fork(held)
    whole = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
    assert usage["cache_creation_input_tokens"] == 0
    assert usage["cache_read_input_tokens"] >= 0.95 * whole
    assert set(held.twin.cache.entries(held.twin.clock.now().timestamp())) == entries


@pytest.mark.spec("PC-12", "PC-14", "PC-8")
@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-fable-5-2"])
def test_the_parent_s_next_calls_are_as_predicted(hold, model):
    held: Held = hold(model=model, under="claude-code")
    for at in range(10):
        held.finish(held.work(2, thought(f"{at}")), thought(f"answer {at}"), words(20, "Done."))
        held.wait(40)
        ask_fork(held)
    list(talk(held, 3))
    assert each_as_predicted(held), held.verdicts
    assert held.breaks == []


@pytest.mark.spec("PC-14")
def test_a_fork_that_keeps_the_entries_warm_is_known_to_nobody_but_the_provider(hold):
    """What a fork reads lives on. The parent's picture does not know, and says so when it is surprised."""
    held: Held = hold()
    list(talk(held, 6))
    held.wait(200)
    ask_fork(held)
    held.wait(200)
    held.ask("Go on.")
    check = held.done[-1].settled.check
    assert check is not None
    assert (check.verdict, check.predicted.read) == ("read more", 0)
    held.ask("And on.")
    assert held.verdicts[-1] == "as predicted"
