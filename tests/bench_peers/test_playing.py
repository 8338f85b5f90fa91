from typing import Any

import pytest
from peers.keeping import Json, Kind, Stage, marked_at_the_end, marked_head
from peers.playing import play

from everturn.history.records import Usage
from everturn.replay.policies import REPLAY_POLICIES
from everturn.replay.sessions import ReplaySession
from everturn.replay.simulate import index_uses, simulate


class Everything:
    """Keeps and sends everything, with a marker on the head and one at the end."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.messages: list[Json] = []
        self.usages: list[Usage | None] = []

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        self.messages.append(message)
        self.usages.append(usage)

    def decide(self) -> None:
        pass

    def body(self) -> Json:
        return {"system": marked_head(self.stage.head), "messages": marked_at_the_end(self.shown())}

    def shown(self) -> list[Json]:
        return self.messages

    def overflowed(self) -> bool:
        return False


class Clearing(Everything):
    """Shows nothing of any result but the last."""

    def shown(self) -> list[Json]:
        *before, last = self.messages
        return [
            *({**each, "content": [_cleared(block) for block in each["content"]]} for each in before),
            last,
        ]


def _cleared(block: Json) -> Json:
    return {**block, "content": "[gone]"} if block["type"] == "tool_result" else block


class Orphaning(Everything):
    """Forgets the first message, whatever it was answered with."""

    def shown(self) -> list[Json]:
        return self.messages[1:] or self.messages


class Summarizing(Everything):
    """Has everything summarized once, when there are five messages."""

    def decide(self) -> None:
        if len(self.usages) == 5:
            text = self.stage.writer(str(self.messages))
            self.messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]


def kind(keeper: Any) -> Kind:
    return Kind(keeper.__name__, keeper, "two")


def test_who_edits_nothing_is_billed_like_everturn_editing_nothing(told: ReplaySession) -> None:
    ours = simulate(told, REPLAY_POLICIES["none"], index_uses(told))
    theirs = play(told, kind(Everything))
    told_by_call = [(call.number, call.context, call.output) for call in ours.calls]
    assert [(call.number, call.context, call.output) for call in theirs.run.calls] == told_by_call
    assert theirs.run.totals.hit_rate == pytest.approx(ours.totals.hit_rate, abs=0.01)
    assert (theirs.refused, theirs.run.totals.refetches, theirs.run.totals.breaks) == (0, 0, {})


def test_every_reply_comes_with_what_its_call_used(told: ReplaySession) -> None:
    opened: list[Everything] = []

    def open_and_keep(stage: Stage) -> Everything:
        opened.append(Everything(stage))
        return opened[-1]

    run = play(told, Kind("kept", open_and_keep, "two")).run
    used = [usage for usage in opened[0].usages if usage is not None]
    paid = [(call.context, call.output) for call in run.calls]
    assert [(each.context, each.output_tokens) for each in used] == paid
    assert [message["role"] for message in opened[0].messages[:3]] == ["user", "assistant", "user"]


def test_what_was_cleared_and_is_used_is_fetched_and_paid_for(told: ReplaySession) -> None:
    played = play(told, kind(Clearing)).run
    refetches = [call for call in played.calls if call.source == "refetch"]
    assert refetches
    assert played.totals.refetches == sum(len(call.refetches) for call in refetches)
    assert played.totals.spent.refetches > 0
    assert set(played.totals.breaks) == {"the peer changed what it had sent"}


def test_a_request_that_the_api_refuses_is_counted_with_its_reason(told: ReplaySession) -> None:
    played = play(told, kind(Orphaning))
    assert played.refused > 0
    assert any("user" in reason for reason in played.reasons)
    assert played.run.totals.calls == len(play(told, kind(Everything)).run.calls)


def test_a_summary_is_billed_as_a_call_of_which_nothing_is_cached(told: ReplaySession) -> None:
    played = play(told, kind(Summarizing)).run
    (written,) = [call for call in played.calls if call.source == "compact"]
    assert (written.read, written.write_5m) == (0, 0)
    assert written.plain > 0 < written.output
    assert played.totals.compactions == 1
