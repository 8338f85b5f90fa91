"""What a summary call did to the cache is known without measuring the conversation a second time."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from engine.held import Held, talk

from everturn.engine import Conversation
from everturn.engine.provider_cache import _outline_of
from everturn.history.blocks import text_block
from everturn.history.messages import Message
from everturn.measure.outline import CacheKeySalts, Outline
from everturn.view.forks import CapturedRequest


def at_hand(steps: Conversation, sent: CapturedRequest) -> Outline:
    return _outline_of(steps._tracker, steps.setting, sent)


def measured(outline: Outline, safe: CapturedRequest) -> tuple[Any, ...]:
    places = [each for each in safe.breakpoints.places if each[0].message < len(safe.messages)]
    prompt = outline.prompt(CacheKeySalts(), places, minimum=0)
    return list(prompt.keys), list(prompt.ends), list(prompt.positions), prompt.markers, prompt.total


def anew(steps: Conversation, safe: CapturedRequest) -> Outline:
    made = Outline(steps.setting.costs)
    made.set_preamble(safe.preamble)
    made.replace_from(0, safe.messages)
    return made


def held_and_captured(hold: Any) -> tuple[Conversation, CapturedRequest]:
    held: Held = hold(under="claude-code")
    held.allow("fork")
    list(talk(held, 4))
    held.runner.say("And now?")
    steps = held.runner.conversation
    ground = steps._compactor.context(steps.setting, datetime(2026, 8, 1, tzinfo=UTC))
    assert ground is not None
    return steps, ground.captured


@pytest.mark.parametrize("left_out", [0, 1, 3])
def test_the_outline_at_hand_is_what_measuring_everything_anew_would_give(hold: Any, left_out: int):
    steps, safe = held_and_captured(hold)
    sent = msgspec.structs.replace(safe, messages=safe.messages[: len(safe.messages) - left_out])
    assert measured(at_hand(steps, sent), sent) == measured(anew(steps, sent), sent)


def test_nothing_is_measured_twice_to_know_what_was_sent(hold: Any, monkeypatch: pytest.MonkeyPatch):
    steps, safe = held_and_captured(hold)
    steps._tracker.build_outline(safe.preamble, steps.setting.costs)
    measure, asked = Outline._measure, []

    def counted(outline: Outline, message: Message, *rest: Any, **more: Any) -> Any:
        asked.append(message)
        return measure(outline, message, *rest, **more)

    monkeypatch.setattr(Outline, "_measure", counted)
    at_hand(steps, safe)
    assert asked == []


def test_where_other_messages_were_sent_those_are_measured(hold: Any):
    steps, safe = held_and_captured(hold)
    other = Message("user", (text_block("Something else."),))
    sent = msgspec.structs.replace(safe, messages=(other, *safe.messages[1:]))
    assert measured(at_hand(steps, sent), sent) == measured(anew(steps, sent), sent)
