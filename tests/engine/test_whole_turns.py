"""One long session, turn by turn, under every policy: each request, prediction, decision and assessment.

Set EVERTURN_WRITE_GOLDEN=1 to write the files again; then read every line of the difference.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import builders as b
import msgspec
import pytest
from decide.compact.test_whole_compactions import lines
from decide.summary.test_whole_sections import long
from decide.summary.test_whole_summaries import check
from engine.alone import Alone
from engine.held import head, thought
from presets import preset

from everturn.decide.effects import Effect, WriteFile
from everturn.decide.options import Options
from everturn.decide.policy import POLICIES
from everturn.history.edits import Pinned
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import ANTHROPIC

GOLDEN = Path(__file__).with_name("golden")
PAUSES = {4: 400, 7: 4_000, 11: 301, 15: 7_300}


class Filing(Alone):
    """Large results are written to files."""

    def _perform(self, effect: Effect) -> Any:
        return f"/files/{effect.name}" if isinstance(effect, WriteFile) else super()._perform(effect)


def asks(at: int) -> list[Record]:
    """What is said or answered before a turn; at odd turns the tools of the reply before it."""
    if at == 9:
        return [b.user("/compact", uuid="local"), b.edited(Pinned("Keep the names."), "pin")]
    if at % 2 == 0:
        return [b.user(long(300 + 400 * at, f"Question {at}"), uuid=f"u{at}")]
    results = [b.answer(f"c{at}-{n}", long(9_000 if at % 4 == 1 else 700, f"Result {n}")) for n in range(2)]
    return [b.user(results, uuid=f"r{at}")]


def says(at: int, when: str) -> Record:
    """A reply; at even turns it calls tools, one of them the same file as before."""
    calls = [
        b.call(f"c{at + 1}-0", "Read", file_path="/p/rows.py"),
        b.call(f"c{at + 1}-1", "Bash", command=f"make part{at}"),
    ]
    blocks = [thought(f"turn {at}"), b.say(f"Turn {at} is done.")]
    more = calls if at % 2 == 0 and at != 8 else []
    return b.assistant(*blocks, *more, id=f"m{at}", uuid=f"a{at}", timestamp=when)


def digest(value: object) -> str:
    """Of all that a value says."""
    return f"{crc32(chr(10).join(lines(value)).encode()):08x}"


def played(scene: Alone, turns: int = 18) -> Iterator[str]:
    """A line for each step: what a reader wants to know of it, and a checksum of everything."""
    conversation = scene.conversation
    for at in range(turns):
        for record in asks(at):
            conversation.add(record)
        made = scene.turn(timedelta(seconds=PAUSES.get(at, 20)))
        edits = ", ".join(type(each.edit).__name__ for each in made.appended)
        told = f"reads {made.prediction.read:,} of {made.prediction.total:,}; {edits or made.plan.why}"
        outcome = type(made.compacted).__name__
        body = digest([made.betas, made.request().to_bytes().decode()])
        yield f"{at} turn {digest(made)} {body} {told}; {outcome}"
        # The provider forgets everything once, and half of it another time.
        read = 0 if at == 13 else made.prediction.read // 2 if at == 16 else made.prediction.read
        usage = Usage(3, made.prediction.total - read, read, 50 + at)
        when = f"{scene.now:%Y-%m-%dT%H:%M:%S}.000Z"
        found = conversation.record_reply([says(at, when)], usage, scene.now)
        yield f"{at} reply {digest(found)} {found.verdict.why}"
        hold = conversation.plan_hold(scene.now + timedelta(seconds=290))
        sent = hold.request().to_bytes().decode() if hold else ""
        yield f"{at} hold {digest(hold)} {digest(sent)} {hold.decision.why if hold else 'none'}"
        state = [conversation.size, conversation.levels, conversation.last_reply, conversation.thresholds]
        yield f"{at} size {digest(state)} {conversation.size.next_request:,}"
    yield from lines([conversation.metrics, conversation.repairs, conversation.economy.state], "end")
    yield f"events {digest(scene.events)} {', '.join(type(each).__name__ for each in scene.events)}"


# Small enough for a short session to reach every limit.
NUMBERS = {
    "cached": {"trigger": 5, "keep": 2},
    "budget": {"tokens": 3_000, "keep": 1, "save_at_least": 2_000},
    "oversize": {"single": 8_000, "message": 15_000, "preview": 200},
    "masking": {"keep": 3},
    "clear_at": {"trigger": 9_000, "keep": 2},
    "window": {"tokens": 12_000},
    "declarative": {"trigger": 9_000, "target": 4_000, "tool_results": True},
}


def small(policy: str) -> Options:
    options = preset(policy)
    micro = {
        name: msgspec.structs.replace(getattr(options.micro, name), **numbers)
        for name, numbers in NUMBERS.items()
    }
    return msgspec.structs.replace(options, micro=msgspec.structs.replace(options.micro, **micro))


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-6"])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_session_under_each_policy_is_played_as_recorded(policy, model):
    options = small(policy)
    compact = msgspec.structs.replace(options.compact, strategies=("extractive",))
    scene = Filing(under=options, model=model, preamble=head("Be brief. " * 600), compact=compact)
    check(str(GOLDEN / f"{policy}_{model}.txt"), "\n".join([*played(scene), ""]))


@pytest.mark.parametrize(("name", "able"), [("editing", {"cache_edits": True}), ("bare", {"caching": False})])
def test_a_session_at_another_provider_is_played_as_recorded(name, able):
    provider = msgspec.structs.replace(ANTHROPIC, **able)
    scene = Filing(under=small("frugal"), model="claude-opus-4-6", preamble=head(), capabilities=provider)
    check(str(GOLDEN / f"{name}.txt"), "\n".join([*played(scene), ""]))
