"""The economic policy in a session whose view changes: rewinds, undos, forks and restarts; and with prices
that differ by lifetime, or are not known (EC)."""

import re
from datetime import timedelta

import pytest
from surfaces.desk import call, tool
from surfaces.test_economy import OPUS, SAYS, grow, speak
from surfaces.test_holds_of_adapters import Caller

from everturn.decide.compact.values import CompactionFailed, CompactionSkipped
from everturn.history.blocks import text_of
from everturn.session.state_file import decode_state
from everturn.twin.upstream import make_twin_send

UNKNOWN = {**OPUS, "model": "nobody-knows-1"}
LIFETIMES = {"5m": {}, "1h": {"ttl": {"eligible": True, "sources": ("*",)}}}
moves = pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")


def last_reply(session, text):
    return next(
        each.uuid
        for each in session.conversation.log.records
        if each.kind == "assistant" and any(text_of(block) == text for block in each.blocks)
    )


def states(caller):
    """What each conversation of the middleware has written down."""
    files = sorted((caller.desk.folder / "kept").rglob("*state*"))
    return [decode_state(file.read_bytes()).economy for file in files]


def counted_from(session):
    state = session.conversation.economy.state
    return state.base, state.surplus, state.carry


# ── prices by lifetime ───────────────────────────────────────────────────────────────────────────


@moves
@pytest.mark.spec("EC-1", "EC-4")
@pytest.mark.parametrize(("ttl", "price"), [("5m", 6.25e-6), ("1h", 10e-6)])
def test_a_cold_reset_is_compared_with_what_a_write_of_this_lifetime_costs(desk, ttl, price):
    with desk.open(**OPUS, cache=LIFETIMES[ttl]) as session:
        grow(desk, session)
        desk.twin.advance(3_601)
        speak(desk, session)
    [done] = desk.heard("CompactionDone")
    found = re.match(r"cold reset: ([\d,]+) of [\d,]+ tokens .* for \$(\S+), a reset costs \$(\S+)", done.why)
    tokens, again, costs = (float(each.replace(",", "")) for each in found.groups())
    assert again == pytest.approx(tokens * price, abs=0.001)
    assert costs == pytest.approx(16_000 * price, abs=0.001)


@moves
@pytest.mark.spec("EC-8")
def test_doing_nothing_writes_with_the_lifetime_of_the_conversation_too(desk):
    with desk.open(**OPUS, cache=LIFETIMES["1h"]) as session:
        grow(desk, session)
        desk.twin.advance(3_601)
        speak(desk, session)
        before = session.context().saved.unmanaged
        desk.twin.advance(3_601)
        speak(desk, session)
        after = session.context().saved.unmanaged
    context = sum(
        desk.twin.ledger[-1]["usage"][each] for each in ("input_tokens", "cache_creation_input_tokens")
    )
    surplus = session.conversation.economy.state.surplus
    assert after - before == pytest.approx((context + surplus) * 10e-6, rel=0.01)


@pytest.mark.spec("EC-2")
def test_with_entries_of_an_hour_the_first_hold_is_due_after_an_hour_at_the_chance_of_such_a_pause(desk):
    with desk.open(**OPUS, cache=LIFETIMES["1h"], economy={"holds": True, "hold_share": 1.0}) as session:
        grow(desk, session, logs=1)
        economy = session.conversation.economy
        assert economy.first_wait == timedelta(seconds=3_590)
        planned = economy.plan_hold(desk.twin.twin.clock.now() + economy.first_wait)
    # 52% of pauses of 290 seconds end within an hour, 8% of those of 3,880.
    assert 0.08 < planned.decision.chance < 0.13
    size = session.conversation.economy.state.prompt + session.conversation.economy.state.output
    assert planned.decision.expected == pytest.approx(planned.decision.chance * (2.0 - 0.1) * size * 5e-6)


# ── rewinds, undos, forks, restarts ──────────────────────────────────────────────────────────────


@moves
@pytest.mark.spec("EC-5", "EC-8")
def test_a_rewind_to_before_a_reset_leaves_its_base_and_its_saving_and_coming_back_finds_them(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        desk.twin.advance(301)
        speak(desk, session, "Which token?")
        desk.twin.script("The last one.")
        session.send("Are you sure?")
        with_reset = counted_from(session)
        assert with_reset[1] > 30_000
        later, earlier = last_reply(session, "The last one."), last_reply(session, "Seen.")
        session.rewind(earlier)
        assert counted_from(session) == (None, 0, 0.0)
    with desk.open(**OPUS) as session:
        assert counted_from(session) == (None, 0, 0.0)
        session.rewind(later)
        assert counted_from(session)[:2] == with_reset[:2]
    with desk.open(**OPUS) as session:
        assert counted_from(session)[:2] == with_reset[:2]


@moves
@pytest.mark.spec("EC-8")
def test_after_a_rewind_doing_nothing_costs_what_is_paid(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        desk.twin.advance(301)
        speak(desk, session)
        session.rewind(last_reply(session, "Seen."))
        before = session.context().saved
        speak(desk, session, "Only the first log.")
        after = session.context().saved
    assert after.spent - before.spent > 0.01
    # Without the reset the entries would still be there, so no saving is claimed.
    assert after.unmanaged - before.unmanaged <= after.spent - before.spent


@moves
@pytest.mark.spec("EC-8")
def test_a_rewind_within_a_view_is_reckoned_with_what_is_left_of_the_prompt(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        desk.twin.advance(301)
        speak(desk, session, "Which token?")
        kept = last_reply(session, "Yes.")
        grow(desk, session, logs=1)
        session.rewind(kept)
        before, surplus = session.context().saved, session.conversation.economy.state.surplus
        speak(desk, session)
        after = session.context().saved
    read = desk.twin.ledger[-1]["usage"]["cache_read_input_tokens"]
    assert read > 5_000
    # The same is read, and the surplus; what is new is written.
    most = (after.spent - before.spent) + 1.3 * surplus * 0.1 * 5e-6
    assert after.unmanaged - before.unmanaged < most


@moves
@pytest.mark.spec("EC-5")
def test_an_undo_counts_from_the_compaction_before_it(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        session.compact()
        speak(desk, session)
        first = counted_from(session)[:2]
        grow(desk, session, logs=3)
        session.compact()
        assert counted_from(session)[:2] != first
        session.undo()
        assert counted_from(session) == (*first, 0.0)
        session.undo()
        assert counted_from(session) == (None, 0, 0.0)


@moves
@pytest.mark.spec("EC-5")
def test_a_large_message_that_a_reset_keeps_is_not_in_the_size_to_count_from(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        desk.twin.advance(301)
        speak(desk, session, SAYS * 5_000)
        [done] = desk.heard("CompactionDone")
        base = session.conversation.economy.state.base
        # The next reset can free it: carrying it is counted from the first call on.
        carried = session.conversation.economy.state.carry
    assert done.tokens_after > 40_000
    assert base < done.tokens_after - 15_000
    assert carried == pytest.approx(
        0.1 * (desk.twin.ledger[-1]["usage"]["cache_creation_input_tokens"] + 3 - base)
    )


@moves
@pytest.mark.spec("CP-27", "CP-22")
def test_a_compaction_by_hand_that_gains_nothing_is_refused_with_both_numbers_and_is_no_failure(desk):
    with desk.open(
        **OPUS, system="Be brief.", tools=[tool("Read", run=lambda given: "line\n" * 9)]
    ) as session:
        for number in range(12):
            desk.twin.script(
                {"content": [call(f"toolu_{number}", "Read", file_path=f"{number}.py")]}, "Read."
            )
            session.send(f"Look at file {number} and say what it does there.")
        outcomes = [session.compact()]
        for _ in range(4):
            speak(desk, session, "And then?")
            outcomes.append(session.compact())
        failures = session.conversation.compaction_state.breaker.failures
    refused = [each for each in outcomes if isinstance(each, CompactionSkipped)]
    assert {type(each).__name__ for each in outcomes} <= {"Compaction", "CompactionSkipped"}
    assert failures == 0
    numbers = re.compile(
        r"has ([\d,]+) tokens, and would have ([\d,]+) with a|from ([\d,]+) to at least ([\d,]+)"
    )
    for each in refused:
        before, after = (
            int(number.replace(",", "")) for number in numbers.search(each.why).groups() if number
        )
        assert before <= after
    assert refused


# ── a model without a known price ────────────────────────────────────────────────────────────────


@pytest.mark.spec("EC-1")
def test_without_a_known_price_only_the_thresholds_decide_and_that_is_said_once(desk):
    send = make_twin_send(desk.twin.twin)

    def send_known(body, betas):
        return send(body.replace(b"nobody-knows-1", b"claude-opus-5-5"), betas)

    for _ in range(2):
        with desk.open(
            **UNKNOWN,
            client=None,
            send=send_known,
            economy={"holds": True, "hold_share": 1.0, "hold_after": 0.01},
        ) as session:
            grow(desk, session)
            desk.twin.advance(301)
            speak(desk, session)
            decisions, saved = session.context().decisions, session.context().saved
    [said] = desk.heard("PriceUnknown")
    assert said.why == (
        "no price is known for 'nobody-knows-1', so only the thresholds decide; "
        "give it one in the configuration, under `models`"
    )
    assert [each.sentence for each in decisions if each.kind == "reset"] == [f"not reset: {said.why}"]
    assert (saved, desk.heard("CompactionDone"), desk.heard("CacheHeld")) == (None, [], [])
    assert {event.why for event in desk.heard("CacheNotHeld")} == {said.why}


@moves
@pytest.mark.parametrize("name", ["us.anthropic.claude-opus-4-5-v1:0", "anthropic/claude-opus-4.5"])
def test_a_model_under_the_name_of_another_provider_has_its_price(desk, name):
    with desk.open(**{**OPUS, "model": name}) as session:
        assert session.conversation.economy.is_on


def send_known(desk, unknown, known):
    send = make_twin_send(desk.twin.twin)
    return lambda body, betas: send(body.replace(unknown, known), betas)


@moves
@pytest.mark.spec("EC-1")
def test_a_summary_model_without_a_known_price_is_said_once_and_reckoned_as_the_own_model(desk):
    compact = {"strategies": ("direct", "extractive"), "summary_model": "nobody-knows-1"}
    for _ in range(2):
        with desk.open(
            **{**OPUS, "compact": compact},
            client=None,
            send=send_known(desk, b"nobody-knows-1", b"claude-haiku-4-5"),
        ) as session:
            grow(desk, session, logs=2)
            speak(desk, session)
            decisions = session.context().decisions
    [said] = desk.heard("PriceUnknown")
    assert said.why == (
        "no price is known for 'nobody-knows-1', which writes summaries: they are reckoned as dear as those "
        "of 'claude-opus-4-5'; give it one in the configuration, under `models`"
    )
    assert [each.sentence for each in decisions if each.kind == "price"] == [said.why]


@pytest.mark.parametrize("name", ["claude-haiku-4-5", "us.anthropic.claude-haiku-4-5-v1:0", ""])
def test_nothing_is_said_of_a_summary_model_whose_price_is_known(desk, name):
    compact = {"strategies": ("direct", "extractive"), "summary_model": name}
    with desk.open(**{**OPUS, "compact": compact}) as session:
        speak(desk, session)
    assert desk.heard("PriceUnknown") == []


# ── what is not known, and what was for nothing ──────────────────────────────────────────────────


@moves
@pytest.mark.spec("EC-8")
@pytest.mark.parametrize("kept", [2, 8])
def test_a_fork_claims_no_saving_of_a_compaction_that_its_parent_has_made(desk, kept):
    caller = Caller(desk, economy={"holds": False})
    for number in range(4):
        caller.ask(f"Log {number}: " + SAYS * 2_300)
    desk.twin.advance(301)
    caller.ask("Which token?")
    [parent] = states(caller)
    assert parent.surplus > 30_000
    # In front of the compaction, or behind it: then the fork keeps it, without its numbers.
    caller.messages = caller.messages[:kept]
    caller.ask("Or rather: which log?")
    [fork] = [each for each in states(caller) if each != parent]
    assert (fork.base, fork.surplus, fork.resets) == (None, 0, ())
    assert fork.unmanaged <= fork.spent


@moves
@pytest.mark.spec("EC-8")
def test_a_compaction_whose_numbers_were_not_written_before_a_kill_claims_no_saving(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        [file] = [each for each in desk.folder.iterdir() if each != desk.path and "state" in each.name]
        older = file.read_bytes()
        desk.twin.advance(301)
        speak(desk, session, "Which token?")
        assert session.conversation.economy.state.surplus > 30_000
    file.write_bytes(older)
    with desk.open(**OPUS) as session:
        assert counted_from(session) == (None, 0, 0.0)
        before = session.context().saved
        speak(desk, session)
        after = session.context().saved
    assert after.unmanaged - before.unmanaged <= after.spent - before.spent


@moves
@pytest.mark.spec("EC-8")
def test_summaries_that_were_paid_and_not_used_count_as_spent(desk):
    compact = {"strategies": ("direct",), "summary_model": "claude-haiku-4-5"}
    with desk.open(**{**OPUS, "compact": compact}) as session:
        grow(desk, session, logs=2)
        before = session.context().saved
        # Refused by the gate: there is no summary in them.
        desk.twin.script(*["No."] * 8)
        outcome = session.compact()
        after = session.context().saved
        parts = session.bill.parts
    assert isinstance(outcome, CompactionFailed)
    assert float(parts["compact"].dollars) > 0.01
    assert after.spent - before.spent == pytest.approx(float(parts["compact"].dollars))
    assert after.unmanaged == before.unmanaged
