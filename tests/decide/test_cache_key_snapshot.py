"""What is noted of a call, and how a difference between two of them reads."""

from typing import Any

import msgspec
import pytest
from view.talks import HEAD, tool

from everturn.decide.cache_key_snapshot import (
    CacheKeyChange,
    CacheKeySnapshot,
    diff_key_snapshots,
    prompt_text,
    take_key_snapshot,
)
from everturn.history.blocks import text_block
from everturn.measure.outline import BlockLocation, Preamble
from everturn.measure.prefix_cache import Breakpoint
from everturn.view.breakpoints import Breakpoints
from everturn.view.key_parameters import KeyParameters, TtlChoice

SYSTEM = HEAD.system
MARKS = Breakpoints(
    ((BlockLocation(-1, 1), Breakpoint(-1, "5m")), (BlockLocation(0, 0), Breakpoint(-1, "5m")))
)
HOURLY = Breakpoints(tuple((spot, Breakpoint(-1, "1h")) for spot, _ in MARKS.places))


def noted(
    model: str = "a", head: Preamble = HEAD, breakpoints: Breakpoints = MARKS, **parameters: Any
) -> CacheKeySnapshot:
    return take_key_snapshot(model, head, KeyParameters(TtlChoice("5m", ""), **parameters), breakpoints)


def shared(head: Preamble, *scopes: Any) -> Preamble:
    return msgspec.structs.replace(head, scopes=scopes)


CASES: dict[str, tuple[CacheKeySnapshot, str, str]] = {
    "model": (noted("b"), "model", "model changed (a -> b)"),
    "system grows": (
        noted(head=Preamble(HEAD.tools, (*SYSTEM, text_block("x" * 142)), HEAD.marked)),
        "system",
        "system prompt changed (+142 chars)",
    ),
    "system shrinks": (
        noted(head=Preamble(HEAD.tools, SYSTEM[:1], HEAD.marked)),
        "system",
        "system prompt changed (-16 chars)",
    ),
    "system says another thing": (
        noted(head=Preamble(HEAD.tools, (SYSTEM[0], text_block("the dynamic heap")), HEAD.marked)),
        "system",
        "system prompt changed (+0 chars)",
    ),
    "a tool more": (
        noted(head=Preamble((*HEAD.tools, tool("Write")), SYSTEM, HEAD.marked)),
        "tools",
        "tools changed (+1/-0): +Write",
    ),
    "tools come, go and change": (
        noted(head=Preamble((tool("Bash", strict=True), tool("Write"), tool("Zip")), SYSTEM, HEAD.marked)),
        "tools",
        "tools changed (+2/-1): +Write, +Zip, -Read, ~Bash",
    ),
    "a tool is defined otherwise": (
        noted(head=Preamble((tool("Bash"), tool("Read", strict=True)), SYSTEM, HEAD.marked)),
        "tools",
        "tools changed (+0/-0): ~Read",
    ),
    "tools in another order": (
        noted(head=Preamble(HEAD.tools[::-1], SYSTEM, HEAD.marked)),
        "tools",
        "tools changed (+0/-0): different order",
    ),
    "another lifetime": (noted(breakpoints=HOURLY), "markers", "breakpoints changed (scope or TTL)"),
    "another scope": (
        noted(head=shared(HEAD, "global", "org")),
        "markers",
        "breakpoints changed (scope or TTL)",
    ),
    "another part marked": (
        noted(head=Preamble(HEAD.tools, SYSTEM, (1,))),
        "markers",
        "breakpoints changed (scope or TTL)",
    ),
    "betas": (noted(betas=("y", "x")), "betas", "betas changed (+x, +y)"),
    "speed": (noted(speed="fast"), "speed", "speed changed (unset -> fast)"),
    "thinking": (
        noted(thinking={"type": "adaptive"}),
        "thinking",
        'thinking changed (unset -> {"type":"adaptive"})',
    ),
    "effort": (noted(effort="low"), "effort", "effort changed (unset -> low)"),
    "tool choice": (
        noted(tool_choice={"type": "none"}),
        "tool_choice",
        'tool_choice changed (unset -> {"type":"none"})',
    ),
    "extra": (noted(extra={"b": 1, "a": 2}), "extra", 'extra changed (unset -> {"a":2,"b":1})'),
}


@pytest.mark.spec("CB-1", "CB-3")
@pytest.mark.parametrize("case", CASES)
def test_each_thing_in_the_key_is_noticed_and_named(case: str):
    after, part, what = CASES[case]
    assert diff_key_snapshots(noted(), after) == (CacheKeyChange(part, what),)


@pytest.mark.spec("CB-1", "CB-3")
def test_pictures_and_citations_count_where_both_calls_were_read():
    plain, unread = msgspec.structs.replace(noted(), pictures=1, cites=True), noted()
    assert diff_key_snapshots(plain, unread) == diff_key_snapshots(unread, plain) == ()
    assert diff_key_snapshots(plain, msgspec.structs.replace(noted(), pictures=3, cites=False)) == (
        CacheKeyChange("citations", "citations switched off"),
        CacheKeyChange("pictures", "pictures added"),
    )


@pytest.mark.spec("CB-1")
def test_nothing_changed_is_nothing_said_however_the_same_is_spelled():
    one = noted(betas=("x", "y"), thinking={"type": "enabled", "budget_tokens": 1})
    other = noted(betas=("y", "x"), thinking={"budget_tokens": 1, "type": "enabled"})
    assert diff_key_snapshots(one, other) == ()
    moved = Breakpoints((*MARKS.places[:1], (BlockLocation(7, 3), Breakpoint(-1, "5m"))))
    assert diff_key_snapshots(noted(), noted(breakpoints=moved)) == ()


@pytest.mark.spec("CB-3")
def test_several_changes_come_in_a_fixed_order():
    after = noted(
        "b",
        Preamble(HEAD.tools[:1], SYSTEM[:1], (0,)),
        HOURLY,
        betas=("x",),
        speed="fast",
        thinking={"type": "disabled"},
        effort="low",
        tool_choice={"type": "any"},
        extra={"a": 1},
    )
    assert [change.part for change in diff_key_snapshots(noted(), after)] == [
        "model",
        "system",
        "tools",
        "markers",
        "betas",
        "speed",
        "thinking",
        "effort",
        "tool_choice",
        "extra",
    ]


def test_a_value_that_goes_away_is_shown_as_unset():
    (change,) = diff_key_snapshots(noted(effort="low", betas=("x",)), noted(betas=("x",)))
    assert change.what == "effort changed (low -> unset)"
    (gone,) = diff_key_snapshots(noted(betas=("x",)), noted())
    assert gone.what == "betas changed (-x)"


@pytest.mark.spec("CB-1", "CB-7")
def test_a_snapshot_survives_json_and_holds_no_prompt():
    made = noted(betas=("x",), head=shared(HEAD, "global", "org"))
    kept = msgspec.json.encode(made)
    assert msgspec.json.decode(kept, type=CacheKeySnapshot) == made
    assert b"static part" not in kept


@pytest.mark.spec("CB-1")
def test_the_text_that_is_compared_has_system_first_and_every_tool_on_lines_of_its_own():
    lines = prompt_text(Preamble((tool("Read"),), (text_block("one\ntwo"),))).splitlines()
    assert lines[:3] == ["one", "two", "{"]
    assert '"name": "Read",' in [line.strip() for line in lines]
