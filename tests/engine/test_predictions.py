"""Every call reads, writes and pays what was predicted, to the token, whatever happens in between."""

import base64
import struct
from typing import Any

import pytest
from engine.held import RULES, Held, each_as_predicted, head, talk, thought, words
from presets import with_numbers

from everturn.decide.options import Options
from everturn.decide.policy import POLICIES
from everturn.decide.settings import (
    BudgetSettings,
    ClearAtSettings,
    MaskingSettings,
    MicroSettings,
    OversizeSettings,
    TimeSettings,
    WindowSettings,
)
from everturn.errors import StoreError
from everturn.history.blocks import block_from_fields
from everturn.history.edits import CacheDeleted, Offloaded
from everturn.history.records import Record
from everturn.measure.capabilities import BEDROCK, EXTENDED_TWIN, PLAIN
from everturn.session.drivers import drive
from everturn.session.effect_handler import LocalEffectHandler
from everturn.twin.options import TwinOptions
from everturn.twin.upstream import make_twin_send

pytestmark = pytest.mark.spec("PC-8")

MINUTES, HOUR = 60.0, 3600.0
# Small enough that every policy acts several times in a session of a few dozen turns.
SMALL = MicroSettings(
    time=TimeSettings(keep=2),
    budget=BudgetSettings(tokens=2_000, save_at_least=500),
    oversize=OversizeSettings(message=12_000, single=6_000, preview=200),
    masking=MaskingSettings(keep=4),
    clear_at=ClearAtSettings(trigger=9_000),
    window=WindowSettings(tokens=11_000, share=0.7),
)
EXPIRED_AND_WARM = {4: 4 * MINUTES, 8: 6 * MINUTES, 12: 59 * MINUTES, 16: 75 * MINUTES, 20: 0}


def small(name: str) -> Options:
    return with_numbers(name, SMALL)


@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_in_a_long_session_with_idle_gaps(hold, name, ttl):
    held = hold(under=small(name), ttl=ttl)
    list(talk(held, 24, EXPIRED_AND_WARM))
    held.burst(3, tokens=3_000)
    held.burst(2)
    assert each_as_predicted(held), held.verdicts
    assert bool(held.edits) == (name != "none")


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_through_the_real_sdk(hold, ttl):
    held = hold(through="sdk", under=small("claude-code"), ttl=ttl)
    list(talk(held, 18, EXPIRED_AND_WARM))
    held.change(model="claude-opus-5")
    list(talk(held, 2))
    held.restart()
    list(talk(held, 2))
    assert each_as_predicted(held), held.verdicts


@pytest.mark.parametrize("able", [None, BEDROCK], ids=["runs are one", "every block counts"])
def test_bursts_of_one_to_sixty_parallel_calls(hold, able):
    held = hold(able=able, options=TwinOptions(runs_are_one_position=False)) if able is not None else hold()
    for width in (*range(1, 61, 7), 19, 20, 21, 60):
        held.burst(width)
    assert each_as_predicted(held), held.verdicts
    # What the model saw before the burst is read again, however wide the burst was.
    assert held.reads[1:] == sorted(held.reads[1:])


def test_a_long_answer_of_many_blocks_keeps_the_last_entry_in_reach(hold):
    held = hold()
    held.ask("Say it in pieces.", *(words(20, f"Piece {at}.") for at in range(30)))
    held.ask("Go on.")
    assert each_as_predicted(held), held.verdicts
    assert held.done[-1].turn.breakpoints.why[0].startswith("this turn adds")
    assert held.reads[-1] > 0


@pytest.mark.moves_cache_prefix(reason="another model, other tools and another system prompt")
@pytest.mark.parametrize("through", ["twin", "sdk"])
def test_another_model_other_tools_another_system_prompt(hold, through):
    held = hold(through=through)
    list(talk(held, 3))
    held.change(model="claude-opus-5")
    list(talk(held, 3))
    held.change(preamble=head(tools=("Bash", "Read")))
    list(talk(held, 3))
    held.change(preamble=head(system=f"{RULES} Answer in French."))
    list(talk(held, 3))
    assert each_as_predicted(held), held.verdicts


@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("name", ["none", "claude-code", "masking"])
@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("claude-haiku-4-5", {"type": "enabled", "budget_tokens": 2_000}),
        ("claude-sonnet-4-6", {"type": "adaptive"}),
        ("claude-opus-5", {"type": "disabled"}),
        ("claude-opus-5", None),
        ("claude-fable-5-2", None),
        ("claude-opus-5-5", {"type": "adaptive"}),
        ("claude-sonnet-5-5", None),
    ],
)
def test_thinking_on_and_off_kept_dropped_and_bound(hold, model, thinks, name, ttl):
    held = hold(model=model, thinks=thinks, under=small(name), ttl=ttl)
    silent = thinks == {"type": "disabled"}
    for at in range(12):
        held.wait(90 * MINUTES if at == 6 else 6 * MINUTES if at == 9 else 30)
        first = held.work(3, *([] if silent else [thought(f"step {at}")]))
        second = [*([] if silent else [thought(f"answer {at}")]), "Done."]
        held.finish(first, *second, tokens=250)
    assert each_as_predicted(held), held.verdicts


@pytest.mark.spec("MC-9", "MC-10", "MC-12")
@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_deleting_in_the_cache_again_and_again_with_an_expiry_in_between(hold, ttl):
    options = TwinOptions(extensions=frozenset({"cache_edits"}))
    held = hold(under="claude-code", ttl=ttl, able=EXTENDED_TWIN, options=options)
    for at in range(36):
        held.wait({14: 6 * MINUTES, 25: 70 * MINUTES}.get(at, 20))
        held.burst(3, tokens=400)
    assert each_as_predicted(held), held.verdicts
    assert held.edits.count("CacheDeleted") >= 8
    assert "CacheDeletionsEnded" in held.edits


@pytest.mark.spec("MC-9")
def test_a_deletion_leaves_everything_before_it_readable(hold):
    options = TwinOptions(extensions=frozenset({"cache_edits"}))
    held = hold(under="claude-code", able=EXTENDED_TWIN, options=options)
    for _ in range(5):
        held.burst(3, tokens=400)
    at = next(
        at
        for at, exchange in enumerate(held.done)
        if any(isinstance(record.edit, CacheDeleted) for record in exchange.turn.appended)
    )
    before, after = (held.done[place].settled.check.reported for place in (at - 1, at))
    deleted = held.done[at].turn.plan.delete
    # The whole prefix that the last call wrote is read, less what was deleted in it.
    assert len(deleted) == 7
    assert before.read + before.write_5m - after.read == pytest.approx(len(deleted) * 470, rel=0.1)


def png(width: int, height: int) -> dict[str, Any]:
    header = (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x02\x00\x00\x00"
    )
    data = base64.b64encode(header + b"\0" * 40).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def test_images_in_messages_and_in_results(hold):
    held = hold()
    list(talk(held, 3))
    picture = block_from_fields(png(800, 600))
    held.runner.add(Record(kind="user", uuid="picture", blocks=(picture,)))
    held.call("A chart.")
    list(talk(held, 2))
    (name,) = held.work(1)
    shot = {"type": "tool_result", "tool_use_id": name, "content": [png(640, 480)]}
    held.runner.add(Record(kind="user", uuid="shot", blocks=(block_from_fields(shot),)))
    held.call("Seen.")
    list(talk(held, 2))
    assert each_as_predicted(held), held.verdicts


def test_where_there_is_no_cache_everything_is_paid_in_full(hold):
    held = hold(able=PLAIN)
    list(talk(held, 4))
    assert each_as_predicted(held), held.verdicts
    assert set(held.reads) == {0}


def test_a_prefix_below_the_minimum_is_not_cached_until_it_is_long_enough(hold):
    held = hold(model="claude-opus-4-6", top=head(system="Be brief.", tools=("Read",)))
    for _ in range(8):
        held.burst(2, tokens=900)
    assert each_as_predicted(held), held.verdicts
    assert held.reads[0] == held.reads[1] == 0
    assert held.reads[-1] > 4_096


@pytest.mark.spec("CB-3")
def test_lost_entries_are_explained_and_the_next_call_is_right_again(hold):
    held = hold()
    list(talk(held, 6))
    held.box.faults("lost_cache")
    held.ask("Are you still there?")
    list(talk(held, 6))
    wrong = [at for at, verdict in enumerate(held.verdicts) if verdict != "as predicted"]
    assert len(wrong) == 1
    check = held.done[wrong[0]].settled.check
    assert check is not None
    assert (check.verdict, check.reported.read, check.missed) == ("read less", 0, check.predicted.read)
    assert check.why.endswith("the entry was evicted early")
    assert held.breaks == ["likely server-side (prompt unchanged, gap under 5 min)"]


@pytest.mark.parametrize("kind", ["overloaded", "rate_limit", "server_error", "timeout"])
def test_a_call_that_failed_and_is_made_again_is_as_predicted(hold, kind):
    held: Held = hold(under=small("claude-code"))
    list(talk(held, 4))
    names = held.work(30)
    held.runner.answer([(name, words(60, name)) for name in names])
    held.box.faults({"kind": kind, "times": 2})
    for _ in range(2):
        with pytest.raises(Exception, match="error"):
            held.runner.call()
    held.wait(10)
    held.call("There you are.")
    list(talk(held, 2))
    assert each_as_predicted(held), held.verdicts


def test_a_turn_that_is_asked_for_twice_comes_out_the_same(hold, tmp_path):
    held: Held = hold(under=small("claude-code"))
    names = held.work(25, *({"type": "text", "text": words(20, f"b{at}")} for at in range(25)))
    held.runner.answer([(name, words(3_000, name)) for name in names])
    conversation, ids = held.runner.conversation, iter("abcdefghijklmnopqrstuvwxyz")
    world = LocalEffectHandler(make_twin_send(held.twin), tmp_path)
    asked = [drive(conversation.turn(held.twin.clock.now(), lambda: next(ids)), world) for _ in range(2)]
    first, second = asked
    assert first.request().to_bytes() == second.request().to_bytes()
    assert (first.prediction, first.changes, first.size) == (second.prediction, second.changes, second.size)
    assert first.breakpoints.why[0].startswith("this turn adds")
    assert {type(record.edit) for record in first.appended} == {Offloaded}
    assert second.appended == ()


def test_a_file_that_cannot_be_written_leaves_the_log_as_it_was(hold, tmp_path):
    held: Held = hold(under=small("claude-code"))
    (name,) = held.work(1, tool="Bash")
    held.runner.answer([(name, words(3_000, name))])
    before = list(held.runner.conversation.log.records)
    (tmp_path / f"{name}.txt").mkdir()
    with pytest.raises(StoreError, match=name):
        held.runner.call()
    assert held.runner.conversation.log.records == before
    (tmp_path / f"{name}.txt").rmdir()
    held.call("Seen.")
    assert held.edits == ["Offloaded"]
    assert each_as_predicted(held), held.verdicts


@pytest.mark.spec("MC-11")
def test_the_saving_of_each_deletion_is_what_the_provider_counts_since_the_one_before(hold):
    options = TwinOptions(extensions=frozenset({"cache_edits"}))
    held = hold(under="claude-code", able=EXTENDED_TWIN, options=options)
    for _ in range(9):
        held.burst(3, tokens=400)
    saved = [each.settled.deletion_saved for each in held.done]
    deletes = [bool(each.turn.plan.delete) for each in held.done]
    assert [bool(tokens) for tokens in saved] == deletes
    assert deletes.count(True) >= 2
    assert sum(saved) == held.box.ledger[-1]["usage"]["cache_deleted_input_tokens"]
