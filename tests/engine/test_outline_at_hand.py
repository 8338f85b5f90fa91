"""What a summary call did to the cache is known without measuring the conversation a second time."""

from typing import Any

import msgspec
from engine.held import Held, talk

from everturn.decide.compact.ground import CompactionStyle
from everturn.engine.steps import Steps
from everturn.measure.outline import Outline, Salts
from everturn.view.forks import CacheSafe


def measured(outline: Outline, safe: CacheSafe) -> tuple[Any, ...]:
    prompt = outline.prompt(Salts(), safe.marks.places, minimum=0)
    return list(prompt.keys), list(prompt.ends), list(prompt.positions), prompt.markers, prompt.total


def anew(steps: Steps, safe: CacheSafe) -> Outline:
    made = Outline(steps.setting.costs)
    made.set_head(safe.head)
    made.replace_from(0, safe.messages)
    return made


def held_and_captured(hold: Any) -> tuple[Steps, CacheSafe]:
    held: Held = hold(under="claude-code")
    held.change(compaction=CompactionStyle(ways=("fork",)))
    list(talk(held, 4))
    held.live.say("And now?")
    steps = held.live.conversation
    ground = steps._ground(steps.setting, held.twin.clock.now())
    assert ground is not None
    return steps, ground.safe


def test_the_outline_at_hand_is_what_measuring_everything_anew_would_give(hold: Any):
    steps, safe = held_and_captured(hold)
    found = steps._outline_of(safe)
    assert found is steps._follows.outline
    assert measured(found, safe) == measured(anew(steps, safe), safe)


def test_where_other_messages_were_sent_those_are_measured(hold: Any):
    steps, safe = held_and_captured(hold)
    shorter = msgspec.structs.replace(safe, messages=safe.messages[:-1])
    found = steps._outline_of(shorter)
    assert found is not steps._follows.outline
    assert measured(found, shorter) == measured(anew(steps, shorter), shorter)
