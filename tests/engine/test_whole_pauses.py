"""Pauses that are held, calls that are only observed, restarts, overflows and proposals, step by step.

Set EVERTURN_WRITE_GOLDEN=1 to write the files again; then read every line of the difference.
"""

from collections.abc import Iterator
from datetime import timedelta

import builders as b
import msgspec
import pytest
from decide.compact.test_whole_compactions import lines
from decide.summary.test_whole_sections import long
from decide.summary.test_whole_summaries import check
from engine.alone import Alone, summary
from engine.held import head
from engine.test_whole_turns import GOLDEN, Filing, asks, digest, says, small
from presets import with_threshold

from everturn.decide.compact.settings import CompactSettings
from everturn.engine import Conversation
from everturn.history.records import Usage


def economic(**fields: object) -> Alone:
    options = small("economic")
    economy = msgspec.structs.replace(
        options.economy, holds=True, hold_dollars=9.0, above_dollars=9.0, hold_share=9.0
    )
    return Filing(
        under=msgspec.structs.replace(options, economy=economy),
        model="claude-opus-4-6",
        preamble=head("Be brief. " * 4_000),
        **fields,
    )


def exchange(scene: Alone, at: int, *, read_share: float = 1.0) -> str:
    for record in asks(at):
        scene.conversation.add(record)
    made = scene.turn(timedelta(seconds=20))
    read = int(made.prediction.read * read_share)
    usage = Usage(3, made.prediction.total - read, read, 60)
    reply = says(at, f"{scene.now:%Y-%m-%dT%H:%M:%S}.000Z")
    found = scene.conversation.record_reply([reply], usage, scene.now)
    held = found.hold_check.why if found.hold_check else ""
    return f"{at} {digest(made)} {digest(found)} reads {made.prediction.read:,}; {found.verdict.why}; {held}"


def pause(scene: Alone, holds: int, minutes: int) -> Iterator[str]:
    """So many holds from 290 seconds on, and then the rest of the pause."""
    until = scene.now + timedelta(minutes=minutes)
    scene.now += timedelta(seconds=290)
    for _ in range(holds):
        planned = scene.conversation.plan_hold(scene.now)
        assert planned is not None
        found = planned.prediction
        usage = Usage(0, found.total - found.read, found.read, 0)
        scene.conversation.record_hold(planned, usage, scene.now)
        renewed = planned.renewed(usage)
        yield f"hold {digest(planned)} {digest(renewed)} {planned.given.form}: {planned.decision.why}"
        scene.now += timedelta(seconds=renewed.given.silence - planned.given.silence)
    scene.now = until


def ended(scene: Alone) -> Iterator[str]:
    economy = scene.conversation.economy
    yield from lines(economy.state, "state")
    yield f"lost {economy.lost_holds}"
    yield from (f"decided {each.at:%H:%M:%S} {each.sentence}" for each in economy.decisions)
    yield from (
        f"{each.kind} cost ${each.cost:.6f} against ${each.expected:.6f}" for each in economy.decisions
    )
    yield f"effects {digest(scene.effects)}"


@pytest.mark.parametrize("is_kept", [True, False])
def test_pauses_are_held_and_checked_as_recorded(is_kept):
    scene = economic()
    told = [exchange(scene, 0), exchange(scene, 1)]
    told += [*pause(scene, 1, 40), exchange(scene, 2, read_share=1.0 if is_kept else 0.1)]
    told += [exchange(scene, 3), *pause(scene, 2, 50), exchange(scene, 4), *pause(scene, 0, 90)]
    told += [exchange(scene, 5), *ended(scene)]
    check(str(GOLDEN / f"pauses_{'kept' if is_kept else 'lost'}.txt"), "\n".join([*told, ""]))


def test_a_large_context_is_reset_by_price_as_recorded():
    scene = economic(compact=CompactSettings(strategies=("fork", "extractive")), answers=[summary()])
    told = list[str]()
    for at in range(6):
        scene.conversation.add(b.user(long(90_000, f"Part {at}"), uuid=f"big{at}"))
        told.append(exchange(scene, 2 * at))
        told.append(exchange(scene, 2 * at + 1))
        told += pause(scene, at % 2, 5 + 30 * at)
    check(str(GOLDEN / "resets.txt"), "\n".join([*told, *ended(scene), ""]))


def test_calls_that_are_only_observed_are_noted_as_recorded():
    scene, told = economic(), list[str]()
    for at in range(6):
        for record in asks(at):
            scene.conversation.add_observed(record)
        scene.now += timedelta(seconds=400 if at == 3 else 30)
        scene.conversation.observe(scene.now)
        usage = Usage(3, 9_000 + at, 0 if at in (0, 3, 4) else 9_000, 60)
        reply = says(at, f"{scene.now:%Y-%m-%dT%H:%M:%S}.000Z")
        found = scene.conversation.record_observed_reply([reply], usage, scene.now)
        size = scene.conversation.size
        told.append(f"{at} {digest(found)} {digest(size)} {size.next_request:,}; {found.why}")
    check(str(GOLDEN / "observed.txt"), "\n".join([*told, *ended(scene), ""]))


def test_after_a_restart_the_log_tells_what_is_cached_as_recorded():
    scene = economic()
    told = [exchange(scene, at) for at in range(5)]
    before = scene.conversation
    for detector in (before.detector, None):
        scene.conversation = Conversation(before.setting, before.log.records, detector=detector)
        made = scene.turn(timedelta(seconds=20))
        size, metrics = scene.conversation.size, scene.conversation.metrics
        told.append(f"{digest(made)} {digest([size, metrics])} reads {made.prediction.read:,}; {made.notes}")
    check(str(GOLDEN / "restarts.txt"), "\n".join([*told, ""]))


def test_overflows_refusals_and_proposals_are_answered_as_recorded():
    options = with_threshold(small("claude-code"), 12.0)
    compact = CompactSettings(strategies=("direct", "extractive"), cold_share=0.2)
    scene = Filing(under=options, compact=compact, preamble=head("Be brief. " * 900), answers=[summary()])
    told = [exchange(scene, at) for at in range(5)]
    conversation = scene.conversation
    scene.now += timedelta(minutes=70)
    proposed = conversation.propose_compaction(scene.now)
    told.append(f"proposed {digest(proposed)} {proposed.why if proposed else ''}")
    if proposed is not None:
        deferred = scene.run(conversation.answer_proposal(proposed, "defer", scene.now, scene.new_id))
        told.append(f"deferred {digest(deferred)} {digest(conversation.propose_compaction(scene.now))}")
    told += [exchange(scene, 5)]
    made = scene.run(conversation.overflowed(scene.now, scene.new_id))
    told.append(f"overflowed {type(made).__name__} {digest(made)}")
    undone = scene.run(conversation.refused("messages.1: invalid", scene.now, scene.new_id))
    told.append(f"refused {undone} {digest(conversation.log.view.records)}")
    told += [exchange(scene, 6), f"state {digest(conversation.compaction_state.breaker)}"]
    check(str(GOLDEN / "answers.txt"), "\n".join([*told, *ended(scene), ""]))
