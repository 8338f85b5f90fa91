"""The economic policy in sessions and in replays (EC)."""

import json
import time

import pytest
from click.testing import CliRunner
from surfaces.desk import call, tool

from everturn.cli import main
from everturn.measure.tokens import ROUGH

SAYS = "The token comes late. "
OPUS = {"model": "claude-opus-4-5", "policy": "economic", "compact": {"strategies": ("extractive",)}}
HOLDS = {"holds": True, "hold_share": 1.0, "hold_after": 0.02}


def grow(desk, session, logs=4):
    """The context grows to some 12,000 tokens a log."""
    for n in range(logs):
        desk.twin.script("Seen.")
        session.send(f"Log {n}: " + SAYS * 2_300)


def speak(desk, session, said="Go on."):
    desk.twin.script("Yes.")
    return session.send(said)


def wait_for_calls(desk, count):
    until = time.monotonic() + 10
    while len(desk.twin.ledger) < count and time.monotonic() < until:
        time.sleep(0.01)
    assert len(desk.twin.ledger) >= count


def wait_for_events(desk, name, count=1):
    """A call is in the twin's ledger before its answer is here."""
    until = time.monotonic() + 10
    while len(desk.heard(name)) < count and time.monotonic() < until:
        time.sleep(0.01)
    assert len(desk.heard(name)) >= count


@pytest.mark.spec("EC-4")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")
def test_a_context_whose_cache_has_expired_is_reset_before_it_is_written_again(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        desk.twin.advance(301)
        speak(desk, session)
    done = desk.heard("CompactionDone")
    assert [event.trigger for event in done] == ["auto"]
    assert done[0].why.startswith("cold reset: ")
    written = desk.twin.ledger[-1]["usage"]["cache_creation_input_tokens"]
    assert written < done[0].tokens_before / 4


@pytest.mark.spec("EC-4")
def test_a_cold_context_that_has_hardly_grown_is_not_reset(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session, logs=1)
        desk.twin.advance(301)
        speak(desk, session)
    assert desk.heard("CompactionDone") == []


@pytest.mark.spec("EC-5")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")
@pytest.mark.parametrize(("caution", "resets"), [("frugal", 1), ("careful", 0)])
def test_a_warm_context_is_reset_once_carrying_it_has_cost_as_much(desk, caution, resets):
    economy = {"caution": caution, "above_dollars": 1.0}
    with desk.open(**OPUS, economy=economy) as session:
        grow(desk, session)
        for n in range(16):
            speak(desk, session, f"Question {n}.")
    done = desk.heard("CompactionDone")
    assert [event.why.partition(":")[0] for event in done] == ["warm reset"] * resets


@pytest.mark.spec("EC-8")
def test_a_reset_that_doing_nothing_would_not_repay_is_not_made(desk):
    economy = {"caution": "frugal", "above_dollars": 0.0, "above_share": 0.0}
    with desk.open(**OPUS, economy=economy) as session:
        grow(desk, session)
        for n in range(16):
            speak(desk, session, f"Question {n}.")
    assert desk.heard("CompactionDone") == []


@pytest.mark.spec("EC-2")
def test_a_hold_keeps_the_cache_through_a_pause_and_is_billed_apart(desk):
    with desk.open(**OPUS, economy=HOLDS) as session:
        grow(desk, session, logs=1)
        wait_for_events(desk, "CacheHeld")
        desk.twin.advance(3_000)
        speak(desk, session)
    calls = {name: part.calls for name, part in session.bill.parts.items() if part.calls}
    held = desk.bodies[1]
    assert (held["max_tokens"], held["messages"][:1]) == (0, [{**held["messages"][0]}])
    assert held["messages"][-2]["content"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert held["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "."}]}
    # After the second reply another hold may have been sent before the session was closed.
    assert calls == {"conversation": 2, "hold": sum(body["max_tokens"] == 0 for body in desk.bodies)}
    first, hold, after = (row["usage"] for row in desk.twin.ledger[:3])
    assert hold["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    assert hold["output_tokens"] == 0
    assert after["cache_read_input_tokens"] == sum(
        hold[each] for each in ("cache_read_input_tokens", "cache_creation_input_tokens")
    )
    told = desk.heard("CacheHeld")[0]
    assert told.why.endswith("52% of pauses this long end within the hour")


@pytest.mark.spec("EC-2")
def test_a_hold_while_a_tool_runs_is_a_request_that_the_api_accepts(desk):
    with desk.open(**OPUS, economy=HOLDS, tools=[tool("Read")]) as session:
        desk.twin.script({"content": [call("toolu_1", "Read", file_path="a.py")]})
        session.send(SAYS * 2_300)
        wait_for_calls(desk, 2)
    assert [row["status"] for row in desk.twin.ledger] == [200, 200]
    assert desk.bodies[1]["messages"][-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "."}
    ]


def test_no_hold_is_sent_unless_it_is_switched_on_nor_after_the_session_was_closed(desk):
    with desk.open(**OPUS, economy={"hold_after": 0.02}) as session:
        grow(desk, session, logs=1)
        time.sleep(0.1)
    with desk.open(**OPUS, economy={**HOLDS, "hold_after": 0.3}) as session:
        speak(desk, session)
    time.sleep(0.5)
    assert len(desk.twin.ledger) == 2


def test_a_hold_that_fails_is_told_and_changes_nothing(desk):
    with desk.open(**OPUS, economy=HOLDS) as session:
        desk.twin.faults({"kind": "overloaded", "after": 1})
        grow(desk, session, logs=1)
        wait_for_events(desk, "CacheHeld")
    [told] = desk.heard("CacheHeld")
    assert (told.tokens, told.why.partition(":")[0]) == (0, "the hold failed")


@pytest.mark.spec("EC-5")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")
def test_what_carrying_has_cost_is_remembered_over_a_restart(desk):
    economy = {"caution": "frugal", "above_dollars": 1.0}
    with desk.open(**OPUS, economy=economy) as session:
        grow(desk, session)
    for n in range(16):
        with desk.open(**OPUS, economy=economy) as session:
            speak(desk, session, f"Question {n}.")
    assert [event.why.partition(":")[0] for event in desk.heard("CompactionDone")] == ["warm reset"]


@pytest.mark.spec("EC-6")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")
def test_a_reset_keeps_the_last_round_and_a_recent_edit_word_for_word_and_a_short_summary(desk):
    edited = "    wait_for(token, seconds=30)"
    with desk.open(**OPUS, tools=[tool("Edit", run=lambda given: "The file was changed.")]) as session:
        grow(desk, session)
        given = {"file_path": "login.py", "old_string": "    pass", "new_string": edited}
        desk.twin.script({"content": [call("toolu_1", "Edit", **given)]}, "The login test waits now.")
        session.send("Make the login test wait.")
        desk.twin.advance(301)
        speak(desk, session, "Which line was it?")
    done = desk.heard("CompactionDone")[-1]
    assert done.why.startswith("cold reset: ")
    messages = desk.bodies[-1]["messages"]
    said = [block["text"] for each in messages for block in each["content"] if block["type"] == "text"]
    shown = next(each for each in said if edited in each)
    assert "[Edit]\nfile_path: login.py\n" in shown
    assert "The file was changed." in shown
    # The round before the question, which a summary would paraphrase.
    assert [each for each in said if each in ("The login test waits now.", "Which line was it?")] == [
        "The login test waits now.",
        "Which line was it?",
    ]
    receipt = next(each for each in said if "What the compaction did" in each)
    assert "2 messages verbatim; 1 earlier call with its result" in receipt
    assert ROUGH.text(next(each for each in said if "session-summary" in each)) < 3_500


@pytest.mark.spec("EC-13")
def test_the_command_charges_a_hold_after_the_last_call_of_a_recording(tmp_path):
    file, kept = str(tmp_path / "session.jsonl"), str(tmp_path / "kept")
    given = ["--tokens", "12000", "--seed", "1", "--sidechains", "0", "--images", "0", "--idle-gaps", "0"]
    assert CliRunner().invoke(main, ["make-session", *given, "--out", file]).exit_code == 0
    asked = [
        "replay",
        file,
        "--policy",
        "economic,claude-code",
        "--json",
        "--cache",
        kept,
        "--engine",
        "here",
    ]
    ours, other = json.loads(CliRunner().invoke(main, asked).stdout)["rows"]
    # No pause is recorded, so the only hold is the one after the end.
    assert (ours["refreshes"], other["refreshes"]) == (1, 0)
    assert float(ours["dollars"]) == pytest.approx(
        float(other["dollars"]) + float(ours["spent"]["refresh"]), abs=1e-6
    )


@pytest.mark.spec("EC-4")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose, and its undo does too")
def test_a_reset_that_was_undone_is_not_made_again_before_the_context_has_grown(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        desk.twin.advance(301)
        speak(desk, session)
        session.undo()
    # Another process knows of it too.
    with desk.open(**OPUS) as session:
        speak(desk, session)
        assert len(desk.heard("CompactionDone")) == 1
        assert session.context().decisions[-1].sentence.startswith("not reset: a compaction was undone; ")
        grow(desk, session, logs=2)
        desk.twin.advance(301)
        speak(desk, session)
    assert len(desk.heard("CompactionDone")) == 2


@pytest.mark.spec("EC-8")
@pytest.mark.moves_cache_prefix(reason="a compaction and its undo replace the context on purpose")
def test_a_compaction_that_was_undone_at_once_has_saved_nothing(desk):
    with desk.open(**OPUS) as session:
        grow(desk, session)
        session.compact()
        session.undo()
        speak(desk, session)
        saved = session.context().saved
    assert saved.unmanaged == pytest.approx(saved.spent, rel=0.001)


@pytest.mark.spec("EC-8")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")
def test_doing_nothing_is_never_reckoned_with_more_than_the_window_holds(desk):
    with desk.open(**OPUS) as session:
        for n in range(5):
            desk.twin.advance(301)
            desk.twin.script("Seen.")
            session.send(f"Log {n}: " + SAYS * 9_000)
        saved = session.context().saved
    assert saved.surplus > 100_000
    # Each of five calls writes the window of 200,000 tokens at most.
    assert saved.spent < saved.unmanaged < 5 * 200_000 * 1.25 * 5e-6


@pytest.mark.spec("EC-4")
def test_a_reset_is_not_made_for_what_it_would_have_to_keep(desk):
    with desk.open(**OPUS) as session:
        speak(desk, session, SAYS * 1_000)
        desk.twin.advance(301)
        speak(desk, session, SAYS * 9_000)
        [decision] = session.context().decisions
    assert desk.heard("CompactionDone") == []
    assert decision.sentence.startswith("not reset: a reset would free ")


@pytest.mark.spec("EC-1", "EC-8")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")
def test_without_a_cache_every_token_is_reckoned_at_the_plain_price(desk):
    with desk.open(**OPUS, provider={"name": "plain"}) as session:
        grow(desk, session)
        for n in range(5):
            speak(desk, session, f"Question {n}.")
        saved = session.context().saved
    [done] = desk.heard("CompactionDone")
    assert "tokens would be sent again at the full price for $0.32" in done.why
    sent = [row["usage"]["input_tokens"] for row in desk.twin.ledger]
    assert saved.spent == pytest.approx(sum(sent) * 5e-6)
    # Doing nothing: the largest prompt again and again.
    after = sum(size < max(sent) / 2 for size in sent[3:])
    nothing = sum(sent[:-after]) + after * max(sent)
    assert saved.unmanaged == pytest.approx(nothing * 5e-6, rel=0.03)
