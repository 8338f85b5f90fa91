"""When a compaction is due or proposed, what it starts from and what it leaves, without a provider."""

from datetime import timedelta
from typing import Any

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone, summary
from engine.held import head, model_of
from engine.test_economy import EXTRACT, LARGE, economic
from presets import with_threshold

from everturn.decide.betas import required_betas
from everturn.decide.compact.breakers import CompactionBreaker
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.decide.effects import Effect, HookOutcome, RunHooks
from everturn.decide.tools import build_tool_table
from everturn.engine.conversation_state import thresholds_of
from everturn.engine.values import compaction_disabled
from everturn.history.blocks import fields_of
from everturn.history.records import Record
from everturn.wire.queued_messages import QueuedMessage

BY_HAND = CompactionRequest(trigger="manual")
FORK = CompactSettings(strategies=("fork",))


def compacted(scene: Alone) -> Compaction:
    made = scene.run(scene.conversation.compact(BY_HAND, scene.now, scene.new_id))
    assert isinstance(made, Compaction), made
    return made


@pytest.mark.spec("EC-4")
@pytest.mark.parametrize(
    ("case", "may"),
    [
        ("as it is", True),
        ("off", False),
        ("no auto", False),
        ("above", False),
        ("open", False),
        ("own", False),
    ],
)
def test_a_price_is_a_reason_only_below_the_threshold_and_where_nothing_forbids_it(case: str, may: bool):
    scene = economic(LARGE, enabled=case != "off")
    conversation = scene.conversation
    options = conversation.setting.options
    if case == "no auto":
        thresholds = msgspec.structs.replace(options.thresholds, auto_compaction=False)
        options = msgspec.structs.replace(options, thresholds=thresholds)
    if case == "above":
        options = with_threshold(options, 1.0)
    setting = msgspec.structs.replace(
        conversation.setting, options=options, source="compact:main" if case == "own" else "main"
    )
    conversation.setting = setting
    if case == "open":
        breaker = CompactionBreaker(failures=9, last="the provider is down", opened_at=NOON.timestamp())
        conversation.compaction_state.breaker = breaker
        assert breaker.is_open
    assert conversation._compactor._may_reset(setting, thresholds_of(setting)) == may


class Telling(Alone):
    """Its hooks say something after a compaction."""

    def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, RunHooks) and effect.event == "PostCompact":
            return HookOutcome(context=("Remember the tests.", " "))
        return super()._perform(effect)


@pytest.mark.spec("CP-18")
def test_what_hooks_say_after_a_compaction_stands_behind_it():
    scene = Telling(LARGE, compact=EXTRACT)
    made = compacted(scene)
    *before, last = scene.conversation.log.records
    assert [each.uuid for each in before[len(LARGE) :]] == [each.uuid for each in made.records]
    assert (last.parent, last.timestamp) == (before[-1].uuid, "2026-11-15T12:00:00.000Z")
    assert fields_of(last.blocks[0])["content"] == ["Remember the tests."]
    # What a hook says is no part of what the compaction reports.
    assert made.tokens_after < scene.conversation.size.next_request


def test_a_second_compaction_adds_its_saving_to_that_of_the_first():
    scene = economic(LARGE)
    economy = scene.conversation.economy
    first = compacted(scene)
    saved = first.tokens_before - first.tokens_after
    assert (economy.state.surplus, economy.state.boundary) == (saved, first.boundary.uuid)
    scene.conversation.add(b.user("It has many words in it. " * 9_000, uuid="u3"))
    scene.conversation.add(b.assistant("Well.", id="m3", uuid="a3"))
    scene.conversation.add(b.user("On.", uuid="u4"))
    second = compacted(scene)
    saved += second.tokens_before - second.tokens_after
    assert (economy.state.surplus, economy.state.boundary) == (saved, second.boundary.uuid)
    assert [each.boundary for each in economy.state.resets] == [first.boundary.uuid, second.boundary.uuid]


def test_a_conversation_that_is_never_compacted_says_so_to_everybody_who_asks():
    scene = Alone(LARGE)
    conversation = scene.conversation
    assert conversation.dry_run(BY_HAND, NOON) == compaction_disabled(scene.conversation.setting.options)
    assert scene.run(conversation.compact(BY_HAND, NOON, scene.new_id)) == compaction_disabled(
        scene.conversation.setting.options
    )
    assert conversation._compactor.context(conversation.setting, NOON) is None


def test_a_compaction_starts_from_all_that_is_known_of_the_conversation():
    scene = Alone(LARGE, compact=FORK, preamble=head(), transcript="sessions/one.jsonl")
    conversation, state = scene.conversation, scene.conversation._state
    queued = QueuedMessage("Also the tests.", "waiting")
    conversation.take_queued([queued])
    setting = conversation.setting
    found = conversation._compactor.context(setting, NOON)
    assert found is not None
    assert (found.view, found.counts) == (state.log.view, state.counts)
    assert (found.size, found.limits) == (conversation.size.next_request, conversation.thresholds)
    assert found.measured == state.tracker.measured()
    assert (found.model, found.capabilities) == (setting.model, setting.capabilities)
    assert found.captured.messages == state.tracker.messages(setting.preamble, setting.costs)
    assert (found.captured.preamble, found.captured.model) == (setting.preamble, setting.model.id)
    assert found.betas == required_betas(found.captured)
    assert (found.settings, found.tools) == (FORK, build_tool_table(setting.options.tools))
    assert (found.transcript, found.queued, found.keep) == ("sessions/one.jsonl", (queued,), None)
    assert (found.notes, found.notes_end_before, found.calls) == ("", "", None)


@pytest.mark.parametrize("is_same", [True, False])
def test_a_summary_shares_the_prefix_of_the_last_request_unless_another_model_is_asked(is_same: bool):
    scene = Alone(LARGE, model="claude-opus-4-6", preamble=head(), compact=FORK)
    scene.turn()
    conversation = scene.conversation
    sent = conversation.setting
    changes: dict[str, Any] = {"preamble": head("Another prompt.")}
    if not is_same:
        changes["model"] = model_of("claude-opus-4-5")
    conversation.setting = msgspec.structs.replace(sent, **changes)
    found = conversation._compactor.context(conversation.setting, NOON)
    assert found is not None
    expected = sent if is_same else conversation.setting
    assert (found.captured.preamble, found.captured.model) == (expected.preamble, expected.model.id)


CALLING = b.assistant(b.call("c1", "Bash"), id="m9", uuid="a9", timestamp="2026-11-15T12:00:00.000Z")


@pytest.mark.parametrize(
    ("records", "seconds", "expected"),
    [
        (LARGE[:1], 0, "cache_cold"),
        ([*LARGE[:1], CALLING], 300, "busy"),
        ([*LARGE[:1], CALLING], 301, "cache_cold"),
    ],
)
def test_a_conversation_is_cold_without_a_reply_and_after_the_lifetime_of_its_cache(
    records: list[Record], seconds: int, expected: str
):
    compactor = Alone(records, compact=FORK).conversation._compactor
    assert compactor._activity(NOON + timedelta(seconds=seconds)) == expected


def test_a_call_that_was_paid_counts_whatever_comes_of_it():
    scene = Alone(LARGE, compact=FORK, answers=[summary("No.")])
    before = scene.conversation.compaction_state.breaker.spent
    scene.run(scene.conversation.compact(BY_HAND, NOON, scene.new_id))
    assert scene.conversation.compaction_state.breaker.spent - before == len(scene.asked) > 0
