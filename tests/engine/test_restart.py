"""A conversation goes on after the end of its process: log and baselines are all that is left of it."""

import builders as b
import msgspec
import pytest
from engine.held import RULES, Held, each_as_predicted, head, model_of, talk, thought, words
from engine.test_predictions import small

from everturn.history.edits import CacheDeletionsEnded, Cleared, ThinkingDropped
from everturn.measure.capabilities import EXTENDED_TWIN
from everturn.twin.costs import TwinCosts
from everturn.twin.options import TwinOptions

MINUTES = 60.0
GUESSES = "resumed without a call of the same cache key: no read is predicted"
EDITABLE = {"able": EXTENDED_TWIN, "options": TwinOptions(extensions=frozenset({"cache_edits"}))}


@pytest.mark.spec("PC-8", "CB-7")
@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("name", ["none", "claude-code", "masking", "sliding-window"])
@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-5", "claude-fable-5-2"])
def test_every_call_is_as_predicted_across_restarts(hold, model, name, ttl):
    thinks = {"type": "enabled", "budget_tokens": 2_000} if model == "claude-haiku-4-5" else None
    held: Held = hold(model=model, thinks=thinks, under=small(name), ttl=ttl)
    for at in range(12):
        held.wait({4: 4 * MINUTES, 6: 6 * MINUTES, 9: 70 * MINUTES}.get(at, 30))
        names = held.work(2, thought(f"{at}"))
        if at % 2:
            held.restart()
        held.finish(names, thought(f"answer {at}"), "Done.", tokens=200)
        if at % 3 == 0:
            held.restart()
    assert each_as_predicted(held), held.verdicts


@pytest.mark.spec("PC-8", "MC-12")
@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_deletions_in_the_cache_are_known_again_and_end_with_it(hold, ttl):
    held: Held = hold(under="claude-code", ttl=ttl, **EDITABLE)
    for at in range(30):
        held.wait({16: 6 * MINUTES, 24: 70 * MINUTES}.get(at, 20))
        if at % 4 == 0:
            held.restart()
        held.burst(3, tokens=300)
    assert each_as_predicted(held), held.verdicts
    assert held.edits.count("CacheDeleted") >= 5
    assert "CacheDeletionsEnded" in held.edits


@pytest.mark.spec("MC-12")
@pytest.mark.parametrize("baselines", ["kept", "lost"])
def test_deletions_end_when_the_cache_expired_while_nobody_was_there(hold, baselines):
    held: Held = hold(under="claude-code", **EDITABLE)
    for _ in range(5):
        held.burst(3)
    held.restart(baselines=baselines)
    held.wait(6 * MINUTES)
    appended = held.ask("I am back.").turn.appended
    assert [record.edit for record in appended] == [
        CacheDeletionsEnded("idle for 360 s, longer than the cache lifetime")
    ]


def test_where_the_last_call_is_not_known_the_first_turn_says_that_it_guesses(hold):
    held: Held = hold()
    list(talk(held, 5))
    held.restart(baselines="lost")
    first = held.ask("Where were we?")
    assert first.turn.notes == (GUESSES,)
    assert first.settled.check is not None
    assert (first.settled.check.verdict, first.turn.prediction.read) == ("read more", 0)
    second = held.ask("Go on.")
    assert (second.turn.notes, held.verdicts[-1]) == ((), "as predicted")


@pytest.mark.spec("PC-16")
@pytest.mark.moves_cache_prefix(reason="the process comes back with another system prompt")
@pytest.mark.parametrize("model", ["claude-fable-5-2", "claude-opus-5-5", "claude-sonnet-5-5"])
@pytest.mark.parametrize("loop", ["in a tool loop", "between turns"])
def test_thinking_bound_to_the_old_prompt_leaves_even_in_a_tool_loop(hold, model, loop):
    held: Held = hold(model=model)
    held.finish(held.work(1, thought("one")), thought("two"), "Done.")
    names = held.work(1, thought("three")) if loop == "in a tool loop" else []
    held.restart(preamble=head(system=f"{RULES}Answer in French."))
    exchange = (
        held.finish(names, thought("four"), "Fait.") if names else held.ask("Go on.", thought("x"), "y")
    )
    (dropped,) = [record.edit for record in exchange.turn.appended]
    assert isinstance(dropped, ThinkingDropped)
    assert "system prompt and tools may have been different" in dropped.why
    list(talk(held, 2))
    assert set(held.verdicts[-3:]) == {"as predicted"}


@pytest.mark.spec("PC-16")
@pytest.mark.parametrize("model", ["claude-fable-5-2", "claude-opus-5-5", "claude-sonnet-5-5"])
@pytest.mark.parametrize("changed", [{"betas": ("fallback-credit-2026-06-01",)}, {"effort": "low"}])
def test_thinking_stays_when_something_else_of_the_key_than_prompt_and_tools_changed(hold, model, changed):
    held: Held = hold(model=model)
    held.finish(held.work(1, thought("one")), thought("two"), "Done.")
    parameters = held.runner.conversation.setting.parameters
    held.restart(parameters=msgspec.structs.replace(parameters, **changed))
    exchange = held.ask("Go on.", thought("three"), "Done.")
    assert exchange.turn.appended == ()
    messages = exchange.turn.captured.messages
    assert sum(block.is_thinking for message in messages for block in message.blocks) == 2
    assert {row["status"] for row in held.twin.ledger()} == {200}


@pytest.mark.spec("PC-16")
def test_thinking_of_another_model_leaves_when_the_loop_that_was_cut_off_has_ended(hold):
    held: Held = hold(model="claude-opus-5")
    names = held.work(1, thought("one"))
    held.change(model="claude-haiku-5-5")
    held.restart()
    assert held.finish(names, "Done.").turn.appended == ()
    (record,) = held.ask("Go on.").turn.appended
    uuid = next(r.uuid for r in held.runner.conversation.log.records if r.kind == "assistant")
    assert record.edit == ThinkingDropped(
        uuid, "it was written by claude-opus-5, and claude-haiku-5-5 cannot read it"
    )
    # The API had left it out already, and the entries that it wrote without it are found now.
    assert "more tokens were read" in held.verdicts[-1]
    assert held.ask("And on.").settled.check.verdict == "as predicted"


class Rough(TwinCosts):
    """Nobody but the twin counts exactly: whoever estimates is off by a little in every call."""

    def __init__(self) -> None:
        super().__init__(model_of("claude-opus-4-6"))
        self.trailing += 1


@pytest.mark.spec("PC-8")
@pytest.mark.moves_cache_prefix(reason="the system prompt changes before the restart")
@pytest.mark.parametrize("costs", ["exact", "rough"])
def test_a_key_that_changed_before_the_restart_is_not_mixed_up_with_today_s(hold, costs):
    held: Held = hold()
    if costs == "rough":
        held.change(costs=Rough())
    held.ask("One.")
    (name,) = held.work(1)
    held.finish([name])
    held.change(preamble=head(system=f"{RULES}Answer in French."))
    held.ask("Two.")
    held.restart()
    # Behind the cleared result nothing is found; before it nothing was ever written with this prompt.
    held.runner.add(b.edited(Cleared((name,)), "cleared"))
    check = held.ask("Three.").settled.check
    assert check is not None
    assert check.predicted.read == check.reported.read
    assert each_as_predicted(held) == (costs == "exact")


@pytest.mark.spec("PC-8")
def test_entries_that_were_found_after_a_blind_restart_are_not_taken_for_new(hold):
    held: Held = hold()
    held.ask("One.")
    held.wait(200)
    held.restart(baselines="lost")
    held.ask("Two.")
    held.wait(150)
    held.runner.add(b.boundary("b"))
    held.runner.add(b.summary("In short.", uuid="s"))
    held.ask("Three.")
    assert (held.reads[1] > 0, held.reads[2], held.verdicts[2]) == (True, 0, "as predicted")


@pytest.mark.spec("MC-12", "PC-16")
def test_deletions_stay_where_ending_them_would_cost_the_thinking_of_a_tool_loop(hold):
    held: Held = hold(model="claude-fable-5-2", under="claude-code", **EDITABLE)
    for _ in range(5):
        held.burst(3)
    names = held.work(1, thought("one"))
    held.wait(70 * MINUTES)
    # The cache that is written now knows them again.
    assert held.finish(names, "Done.").turn.appended == ()
    held.ask("Go on.")
    assert each_as_predicted(held), held.verdicts


@pytest.mark.spec("CB-8")
def test_the_provider_is_asked_about_the_last_message_before_the_restart(hold):
    held: Held = hold()
    last = held.ask("One.").response.reply.message_id
    held.restart()
    assert held.runner._last_message == last


@pytest.mark.spec("CB-5", "PC-16")
@pytest.mark.parametrize("model", ["claude-opus-5", "claude-fable-5-2"])
def test_new_thinking_behind_an_old_compaction_stays(hold, model):
    held: Held = hold(model=model)
    held.finish(held.work(2, thought("before")), "Done.")
    held.runner.add(b.boundary("b"))
    held.runner.add(b.summary(words(200, "In short."), uuid="s"))
    held.finish(held.work(2, thought("after")), thought("and more"), "Done.")
    held.restart()
    held.ask("Go on.", thought("still here"), "Yes.")
    held.ask("And on.")
    assert held.edits == ["Compacted"]
    assert each_as_predicted(held), held.verdicts


@pytest.mark.spec("PC-10")
def test_another_model_takes_the_parameters_that_it_needs_and_the_lifetime_stays(hold):
    budget = {"type": "enabled", "budget_tokens": 2_000}
    held: Held = hold(model="claude-haiku-4-5", thinks=budget, ttl="1h")
    parameters = held.runner.conversation.setting.parameters
    held.ask("One.", thought("a"), "b")
    five = msgspec.structs.replace(parameters.lifetime, ttl="5m")
    wanted = msgspec.structs.replace(parameters, thinking=None, effort="low", lifetime=five)
    held.change(model="claude-opus-5-5", parameters=wanted)
    turn = held.ask("Two.", thought("c"), "d").turn
    assert turn.captured.parameters == msgspec.structs.replace(wanted, lifetime=parameters.lifetime)
    assert turn.notes == ("lifetime stays 1h",)
    assert each_as_predicted(held), held.verdicts
