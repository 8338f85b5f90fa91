"""A cache key that keeps changing is counted and priced."""

import pytest
from view.talks import tool

from everturn.decide.cache_breaks import BreakSettings, CacheBreakDetector
from everturn.decide.cache_key_snapshot import take_key_snapshot
from everturn.history.blocks import text_block
from everturn.history.records import CacheCreation, Usage
from everturn.measure.outline import Preamble
from everturn.session.key_change_watch import KeyChangeWatch
from everturn.view.breakpoints import Breakpoints
from everturn.view.key_parameters import KeyParameters, TtlChoice

SETTINGS = BreakSettings()
TOOLS = (tool("read"), tool("write"))


def price(usage):
    by_ttl = usage.cache_creation or CacheCreation(usage.cache_creation_input_tokens, 0)
    written = 1.25 * by_ttl.ephemeral_5m_input_tokens + 2 * by_ttl.ephemeral_1h_input_tokens
    return usage.input_tokens + written + 0.1 * usage.cache_read_input_tokens


class Calls:
    """Calls of one conversation, a minute apart."""

    def __init__(self):
        self.detector, self.watch, self.now = CacheBreakDetector(SETTINGS), KeyChangeWatch(SETTINGS), 0.0

    def make(self, usage, *system, tools=(), model="sonnet", pause=60.0, **parameters):
        self.now += pause
        preamble = Preamble(tools, tuple(map(text_block, system)))
        key = take_key_snapshot(
            model, preamble, KeyParameters(TtlChoice("5m", ""), **parameters), Breakpoints()
        )
        self.detector.before_call("main", key, preamble, self.now)
        told = self.watch.after_call(self.detector.baselines.get("main"), preamble, usage, price)
        self.detector.after_call("main", usage)
        return told


def written(tokens, read=0, plain=0):
    return Usage(input_tokens=plain, cache_creation_input_tokens=tokens, cache_read_input_tokens=read)


@pytest.mark.spec("CB-3")
def test_the_third_call_with_a_changed_block_is_told_with_the_price_of_all_three():
    calls = Calls()
    assert [calls.make(written(10_000), "rules", f"now {number}") for number in range(3)] == [None] * 3
    told = calls.make(written(10_000), "rules", "now 3")
    assert (told.changed, told.calls, told.parts, told.tokens_lost) == (3, 4, ("system",), 30_000)
    assert told.what == "block 2 of 2 of the system prompt"
    assert told.dollars == pytest.approx(30_000 * 1.15)
    assert told.is_new
    again = calls.make(written(10_000), "rules", "now 4")
    assert (again.changed, again.calls, again.is_new) == (4, 5, False)
    assert again.text.startswith("4 of 5 calls")


@pytest.mark.spec("CB-3")
@pytest.mark.parametrize(
    ("change", "usage"),
    [
        # Another model has a cache of its own.
        (lambda number: {"model": f"model {number}"}, written(10_000)),
        # The cache has expired anyway.
        (lambda number: {"pause": 301.0}, written(10_000)),
        # Nothing is cached by whoever sends this.
        (lambda number: {}, written(0, plain=10_000)),
        # Most of it was read.
        (lambda number: {}, written(1_000, read=9_000)),
    ],
)
def test_what_has_cost_nothing_or_has_another_cause_is_not_told(change, usage):
    calls = Calls()
    assert [calls.make(usage, f"now {number}", **change(number)) for number in range(6)] == [None] * 6


@pytest.mark.spec("CB-3")
def test_three_changes_within_more_than_ten_calls_are_not_told():
    calls = Calls()
    assert [calls.make(written(10_000), f"now {number // 5}") for number in range(40)] == [None] * 40


@pytest.mark.spec("CB-3")
def test_entries_of_an_hour_are_missed_after_ten_minutes_and_cost_twice_the_input():
    calls, usage = Calls(), Usage(cache_creation_input_tokens=10_000, cache_creation=CacheCreation(0, 10_000))
    told = [calls.make(usage, f"now {number}", pause=600.0) for number in range(4)][-1]
    assert told.dollars == pytest.approx(30_000 * 1.9)


@pytest.mark.spec("CB-3")
def test_tools_in_another_order_are_named():
    calls = Calls()
    told = [calls.make(written(10_000), tools=TOOLS[:: 1 - number % 2 * 2]) for number in range(4)][-1]
    assert (told.parts, told.what) == (("tools",), "the order of the tools, from 'write' at position 1 on")
    added = calls.make(written(10_000), tools=TOOLS[:1])
    assert added.what == "tools changed (+0/-1): -write"


@pytest.mark.spec("CB-3")
def test_a_schema_of_the_caller_is_not_told():
    calls = Calls()
    told = [calls.make(written(10_000), extra={"schema": f"secret {number}"}) for number in range(4)][-1]
    assert (told.parts, told.what) == (("extra",), "another output format")
    assert "secret" not in told.text
