"""A break is named for what caused it, by us and by the provider; what is none is never called one."""

from typing import Any

import builders as b
import msgspec
import pytest
from engine.held import RULES, TOOLS, Held, head, talk, thought, words
from presets import with_numbers
from scripted_twin import scripted_options

from everturn.decide.cache_breaks import DetectedBreak, Diagnosis
from everturn.decide.settings import ClearAtSettings, MicroSettings, TimeSettings
from everturn.measure.capabilities import ANTHROPIC, EXTENDED_TWIN
from everturn.session.upstream import RawResponse

MOVES = pytest.mark.moves_cache_prefix(reason="the head is changed to see whether it is noticed")
MINUTES = 60.0

HEADS = {
    "system prompt changed (+17 chars)": (head(system=f"{RULES}Answer in French."), "system_changed"),
    "system prompt changed (-14 chars)": (head(system=RULES[14:]), "system_changed"),
    "tools changed (+1/-0): +WebFetch": (head(tools=(*TOOLS, "WebFetch")), "tools_changed"),
    "tools changed (+0/-1): -Grep": (
        head(tools=("Bash", "Edit", "Read", "AskUserQuestion")),
        "tools_changed",
    ),
    "tools changed (+0/-0): ~Read": (head(about={"Read": "Opens."}), "tools_changed"),
    "tools changed (+0/-0): different order": (
        msgspec.structs.replace(head(), tools=head().tools[::-1]),
        "tools_changed",
    ),
}


def provoked(held: Held, *calls: int) -> None:
    """Exactly these calls broke the cache, by their places in the session."""
    broke = [
        at for at, exchange in enumerate(held.done) if isinstance(exchange.settled.verdict, DetectedBreak)
    ]
    assert broke == list(calls)


def the_break(held: Held) -> DetectedBreak:
    (found,) = [e.settled.verdict for e in held.done if isinstance(e.settled.verdict, DetectedBreak)]
    return found


@MOVES
@pytest.mark.spec("CB-1", "CB-2", "CB-3", "CB-8")
@pytest.mark.parametrize("through", ["twin", "sdk"])
@pytest.mark.parametrize("why", HEADS)
def test_a_change_of_the_head_is_named_by_both_sides(hold, why, through):
    held: Held = hold(through=through)
    list(talk(held, 4))
    calls = len(held.done)
    changed, reason = HEADS[why]
    held.change(preamble=changed)
    list(talk(held, 4))
    provoked(held, calls)
    found = the_break(held)
    assert (found.why, found.disagreement) == (why, "")
    assert found.diagnosis is not None
    assert (found.diagnosis.reason, found.diagnosis.missed > 0) == (reason, True)
    assert found.tokens_lost == held.reads[calls - 1] - held.reads[calls]


@pytest.mark.spec("CB-1", "CB-3", "CB-8")
def test_a_change_of_the_model_is_named_by_both_sides(hold):
    held: Held = hold()
    list(talk(held, 4))
    held.change(model="claude-opus-5")
    held.ask("Who are you?")
    found = the_break(held)
    assert (found.why, found.disagreement) == ("model changed (claude-opus-4-6 -> claude-opus-5)", "")
    assert found.diagnosis is not None
    assert found.diagnosis.reason == "model_changed"


@MOVES
@pytest.mark.spec("CB-1", "CB-3")
def test_several_changes_at_once_are_all_named(hold):
    held: Held = hold()
    list(talk(held, 3))
    held.change(model="claude-opus-5", preamble=head(system="Be brief. " * 900, tools=("Read",)))
    held.ask("And now?")
    assert the_break(held).why == (
        "model changed (claude-opus-4-6 -> claude-opus-5), system prompt changed (-8160 chars), "
        "tools changed (+0/-4): -AskUserQuestion, -Bash, -Edit, -Grep"
    )


@pytest.mark.spec("CB-3")
@pytest.mark.parametrize(
    ("ttl", "minutes", "why"),
    [
        ("5m", 4.9, []),
        ("5m", 5.1, ["possible TTL expiry (idle for more than 5 minutes)"]),
        ("5m", 61, ["possible TTL expiry (idle for more than 1 hour)"]),
        ("1h", 5.1, []),
        ("1h", 59, []),
        ("1h", 61, ["possible TTL expiry (idle for more than 1 hour)"]),
    ],
)
def test_an_idle_gap_is_a_break_only_where_the_entries_are_gone(hold, ttl, minutes, why):
    held: Held = hold(ttl=ttl)
    list(talk(held, 4))
    held.wait(minutes * MINUTES)
    held.ask("I am back.")
    list(talk(held, 3))
    assert held.breaks == why


@pytest.mark.spec("CB-8")
def test_an_expiry_is_no_change_of_the_prompt_and_the_provider_says_nothing(hold):
    held: Held = hold()
    list(talk(held, 4))
    held.wait(6 * MINUTES)
    held.ask("I am back.")
    assert (the_break(held).diagnosis, the_break(held).disagreement) == (None, "")


@pytest.mark.spec("PC-10", "CB-3")
def test_what_is_latched_stays_and_breaks_nothing(hold):
    held: Held = hold(model="claude-opus-5", effort="high", betas=("one",))
    list(talk(held, 4))
    wanted = msgspec.structs.replace(
        held.runner.conversation.setting.parameters, effort="low", betas=("one", "two")
    )
    held.change(parameters=wanted)
    turn = held.ask("Think less.").turn
    assert turn.notes == ("betas stays ('one',)", "effort stays high")
    assert (turn.changes, held.breaks) == ((), [])


@pytest.mark.spec("CB-1", "CB-3", "CB-7")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"effort": "low"}, "effort changed (unset -> low)"),
        ({"thinking": {"type": "disabled"}}, 'thinking changed (unset -> {"type":"disabled"})'),
        ({"tool_choice": {"type": "none"}}, 'tool_choice changed (unset -> {"type":"none"})'),
        ({"speed": "fast"}, "speed changed (unset -> fast)"),
        ({"betas": ("two",)}, "betas changed (+two)"),
    ],
)
def test_after_a_restart_nothing_is_latched_and_the_change_is_named(hold, fields, why):
    held: Held = hold(model="claude-opus-5", options=scripted_options(betas_invalidate=True))
    held.burst(3, tokens=1_500)
    held.ask("And?")
    parameters = held.runner.conversation.setting.parameters
    held.restart(parameters=msgspec.structs.replace(parameters, **fields))
    held.ask("Where were we?")
    assert the_break(held).why == why


@pytest.mark.spec("CB-7")
@pytest.mark.parametrize("baselines", ["kept", "lost"])
def test_a_break_across_a_restart_is_seen_where_the_baselines_were_kept(hold, baselines):
    held: Held = hold()
    list(talk(held, 4))
    held.restart(baselines=baselines)
    held.wait(6 * MINUTES)
    held.ask("Where were we?")
    kept = ["possible TTL expiry (idle for more than 5 minutes)"]
    assert held.breaks == (kept if baselines == "kept" else [])


@pytest.mark.spec("CB-3")
def test_lost_entries_are_the_provider_s_doing(hold):
    held: Held = hold()
    list(talk(held, 5))
    held.box.faults("lost_cache")
    held.ask("Hello?")
    list(talk(held, 4))
    assert held.breaks == ["likely server-side (prompt unchanged, gap under 5 min)"]
    assert the_break(held).diagnosis is None


@MOVES
@pytest.mark.spec("CB-3")
def test_a_change_is_still_named_when_the_first_call_with_it_failed(hold):
    held: Held = hold()
    list(talk(held, 4))
    held.change(preamble=head(tools=("Read",)))
    held.box.faults({"kind": "overloaded", "times": 2})
    held.runner.say("And now?")
    for _ in range(2):
        with pytest.raises(Exception, match="Overloaded"):
            held.runner.call()
    held.call("Here.")
    assert the_break(held).why == "tools changed (+0/-4): -AskUserQuestion, -Bash, -Edit, -Grep"


# ── what is no break ─────────────────────────────────────────────────────────────────────────────


def compact(held: Held, name: str, kept: tuple[str, str] | None = None) -> None:
    """A boundary and its summary, as a compaction appends them."""
    segment = (kept[0], f"s{name}", kept[1]) if kept else None
    held.runner.add(b.boundary(f"b{name}", kept=segment))
    held.runner.add(b.summary(words(400, f"In short, {name}."), uuid=f"s{name}", parent=f"b{name}"))


@pytest.mark.spec("CB-5")
@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-fable-5-2", "claude-sonnet-4-5"])
@pytest.mark.parametrize("able", [ANTHROPIC, EXTENDED_TWIN], ids=["public", "extended"])
def test_a_compaction_never_raises_an_alarm(hold, model, able):
    extensions = frozenset({"cache_edits"}) if able is EXTENDED_TWIN else frozenset[str]()
    held: Held = hold(
        model=model, under="claude-code", able=able, options=scripted_options(extensions=extensions)
    )
    for at in range(18):
        held.burst(3, tokens=300)
        if at % 6 == 5:
            compact(held, str(at))
    first_calls = [e.settled.verdict for e in held.done if e.settled.verdict.why.startswith("the first call")]
    assert held.breaks == []
    assert len(first_calls) == 3
    assert set(held.verdicts) == {"as predicted"}


@pytest.mark.spec("CB-5", "PC-16")
@pytest.mark.parametrize("model", ["claude-opus-5", "claude-fable-5-2", "claude-opus-5-5"])
def test_a_compaction_that_keeps_a_segment_in_the_middle_of_a_tool_loop(hold, model):
    held: Held = hold(model=model, under="claude-code")
    for at in range(3):
        held.finish(held.work(2, thought(f"{at}")), thought(f"again {at}"), "Done.")
    names = held.work(2, thought("the loop"))
    said = [record.uuid for record in held.runner.conversation.log.records][-2:]
    compact(held, "now", kept=(said[0], said[1]))
    held.finish(names, thought("after"), "Done.")
    held.finish(held.work(1, thought("next")), "Done.")
    assert (held.breaks, set(held.verdicts)) == ([], {"as predicted"})


@pytest.mark.spec("CB-5")
@pytest.mark.parametrize("restarts", ["before the call", "after the call"])
def test_a_restart_around_a_compaction_is_neither_an_alarm_nor_a_first_call_twice(hold, restarts):
    held: Held = hold()
    list(talk(held, 5))
    compact(held, "x")
    if restarts == "before the call":
        held.restart()
    held.ask("Go on.")
    assert held.done[-1].settled.verdict.why == "the first call of this source"
    if restarts == "after the call":
        held.restart()
    assert held.ask("And on.").settled.verdict.why.startswith("read ")
    list(talk(held, 2))
    assert held.breaks == []


CLEARING: dict[str, Any] = {
    "masking": MicroSettings(),
    "clear-keep-3": MicroSettings(clear_at=ClearAtSettings(trigger=8_000)),
    "when-cold": MicroSettings(time=TimeSettings(keep=1)),
}


@pytest.mark.spec("CB-5")
@pytest.mark.parametrize("name", CLEARING)
def test_a_clearing_never_raises_an_alarm(hold, name):
    held: Held = hold(under=with_numbers(name, CLEARING[name]), ttl="1h")
    for at in range(14):
        held.wait(62 * MINUTES if at in (6, 10) else 30)
        held.burst(2, tokens=900)
    cleared = [e.settled.verdict for e in held.done if e.turn.plan.kind not in ("none", "waits")]
    assert len(cleared) >= 2
    assert all(verdict.why == "the context was made smaller on purpose" for verdict in cleared)
    calm = [e for e in held.done if e.turn.plan.kind == "none" and e.settled.verdict not in cleared]
    idle = {"possible TTL expiry (idle for more than 1 hour)"} if name != "when-cold" else set[str]()
    assert {e.settled.verdict.why for e in calm if isinstance(e.settled.verdict, DetectedBreak)} <= idle


@pytest.mark.spec("CB-8")
def test_where_the_provider_names_another_cause_both_are_shown(hold):
    held: Held = hold()
    list(talk(held, 4))
    say_it_was_the_model(held)
    held.wait(6 * MINUTES)
    held.ask("Hello?")
    found = the_break(held)
    assert found.why == "possible TTL expiry (idle for more than 5 minutes)"
    assert found.diagnosis == Diagnosis("model_changed", 5)
    assert found.disagreement == "the provider says model_changed, our snapshots differ in nothing in the key"


def say_it_was_the_model(held: Held) -> None:
    """From now on the provider's diagnosis is this one, whatever happened."""
    real = held.runner._send

    def send(body: bytes, betas: Any) -> RawResponse:
        answer = msgspec.json.decode(real(body, betas).body)
        reason = {"type": "model_changed", "cache_missed_input_tokens": 5}
        return RawResponse(msgspec.json.encode({**answer, "diagnostics": {"cache_miss_reason": reason}}))

    held.runner._send = send


def test_an_answer_with_fields_of_another_shape_is_not_lost(hold):
    held: Held = hold()
    real = held.runner._send

    def send(body: bytes, betas: Any) -> RawResponse:
        answer = msgspec.json.decode(real(body, betas).body)
        return RawResponse(msgspec.json.encode({**answer, "diagnostics": ["new"], "context_management": 3}))

    held.runner._send = send
    exchange = held.ask("Hello?", "Hello.")
    assert exchange.response.reply.usage is not None
    assert held.runner.conversation.log.records[-1].blocks == exchange.response.blocks
