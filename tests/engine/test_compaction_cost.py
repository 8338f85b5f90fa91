"""What a turn costs once a conversation has been compacted: what is new in it, however long it is (OV-3)."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine.working import Working

from everturn.decide.compact.values import CompactionRequest, CompactionSkipped
from everturn.session.drivers import drive


def python_calls(run: Callable[[], Any]) -> int:
    """How many functions are called: a measure of work that no busy machine disturbs."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def cost_of_a_turn(folder: Path, tasks: int) -> int:
    folder.mkdir()
    working = Working(folder, model="claude-opus-4-6", ways=("extractive",), result_lines=20)
    list(working.work(5))
    working.runner.compact(CompactionRequest(trigger="manual"))
    list(working.work(tasks))
    working.runner.say("And now?")
    conversation, now = working.runner.conversation, working.box.twin.clock.now()
    found: list[Any] = []
    flow = conversation.turn(now, working.new_id)
    cost = python_calls(lambda: found.append(drive(flow, working.world)))
    assert isinstance(found[0].compacted, CompactionSkipped)
    return cost


@pytest.mark.spec("OV-3")
def test_a_turn_behind_a_compaction_costs_the_same_after_five_and_after_forty_tasks(tmp_path):
    short, long = cost_of_a_turn(tmp_path / "short", 5), cost_of_a_turn(tmp_path / "long", 40)
    assert long < 1.2 * short
