"""Where markers stand, and the law that no request loses what the one before it wrote."""

import json
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from view.talks import HEAD, Talk, assistant, call, image, model, thinking, tool, user, web

from everturn.history.blocks import block_from_json, result_block, text_block
from everturn.history.messages import Message
from everturn.measure.capabilities import ANTHROPIC, BEDROCK, PLAIN, Capabilities
from everturn.measure.outline import BlockLocation, CacheKeySalts, Outline, Preamble
from everturn.measure.prefix_cache import Breakpoint, CacheLookup, PrefixCache
from everturn.twin.costs import TwinCosts
from everturn.view import breakpoints as markers
from everturn.view.breakpoints import (
    Breakpoints,
    can_carry_breakpoint,
    keep_existing,
    place_breakpoints,
    scope_at,
    with_cache_control,
    without_cache_control,
)

COSTS = TwinCosts(model())


def outline_of(messages: list[Message], head: Preamble = HEAD, able: Capabilities = ANTHROPIC) -> Outline:
    outline = Outline(COSTS, lookback=able.lookback, runs_are_one=able.runs_are_one)
    outline.set_preamble(head)
    outline.replace_from(0, messages)
    return outline


def marks_of(
    messages: list[Message], head: Preamble = HEAD, able: Capabilities = ANTHROPIC, **more
) -> Breakpoints:
    asked = {"ttl": "5m", "previous": -1, "writes": "its own", **more}
    return place_breakpoints(outline_of(messages, head, able), head, capabilities=able, **asked)


def spots(marks: Breakpoints) -> list[BlockLocation]:
    return [spot for spot, _ in marks.places]


TOOLS, STATIC, DYNAMIC = BlockLocation(-1, 1), BlockLocation(-1, 2), BlockLocation(-1, 3)


# ── one marker where it belongs ──────────────────────────────────────────────────────────────────


@pytest.mark.spec("PC-5", "PC-6")
def test_the_last_message_the_tools_and_both_parts_of_system_end_with_a_marker():
    marks = marks_of([user("a"), assistant("b"), user("c", "d")])
    assert marks == Breakpoints(
        tuple((spot, Breakpoint(-1, "5m")) for spot in (TOOLS, STATIC, DYNAMIC, BlockLocation(2, 1))),
        (),
        4 + 3,
    )


@pytest.mark.spec("PC-5")
def test_a_request_that_must_not_write_is_marked_on_the_second_to_last_message():
    messages = [user("a"), assistant("b"), user("c")]
    assert spots(marks_of(messages, writes="nothing new"))[-1] == BlockLocation(1, 0)
    assert spots(marks_of(messages[:1], writes="nothing new")) == [TOOLS, STATIC, DYNAMIC]


@pytest.mark.spec("PC-5")
@pytest.mark.parametrize(
    "unfit",
    [
        thinking("hm"),
        block_from_json(b'{"type":"redacted_thinking","data":"x"}'),
        text_block(""),
        text_block(" \n\t"),
        block_from_json(b'{"type":"cache_edits","edits":[]}'),
    ],
    ids=lambda block: f"{block.kind} {len(block.raw)}",
)
def test_a_block_that_may_not_carry_a_marker_leaves_it_to_the_one_before(unfit):
    assert spots(marks_of([user("a"), assistant("b", unfit)]))[-1] == BlockLocation(1, 0)
    assert spots(marks_of([user("a"), assistant(unfit)]))[-1] == BlockLocation(0, 0)


@pytest.mark.spec("PC-5")
@pytest.mark.parametrize("fit", [text_block("a"), image(), call("c"), result_block("c", "")])
def test_texts_images_calls_and_results_may_carry_a_marker(fit):
    assert can_carry_breakpoint(fit)


@pytest.mark.spec("PC-6")
def test_the_tool_list_ends_where_the_prefix_has_it_end():
    """A deferred tool is outside the prefix, and web tools come last in it (api-facts 1.1)."""
    head = Preamble((web(), tool("Read"), tool("Zeta", defer_loading=True)), HEAD.system, (1,))
    assert spots(marks_of([user("a")], head)) == [
        BlockLocation(-1, 0),
        BlockLocation(-1, 4),
        BlockLocation(0, 0),
    ]
    deferred = Preamble((tool("Zeta", defer_loading=True),))
    assert spots(marks_of([user("a")], deferred)) == [BlockLocation(0, 0)]


def test_a_blank_part_of_system_gets_no_marker():
    head = Preamble((), (text_block("words"), text_block(" ")), (0, 1))
    assert spots(marks_of([user("a")], head)) == [BlockLocation(-1, 0), BlockLocation(0, 0)]


def test_a_provider_without_a_cache_gets_none():
    assert marks_of([user("a")], able=PLAIN) == Breakpoints(why=("the provider has no prompt cache",))


# ── out of reach ─────────────────────────────────────────────────────────────────────────────────


def texts(count: int) -> list[Message]:
    return [user(*(f"word {n}" for n in range(count)))]


@pytest.mark.spec("PC-7")
@pytest.mark.parametrize(
    ("added", "between"), [(19, []), (20, [BlockLocation(0, 19)]), (70, [BlockLocation(0, 19)])]
)
def test_an_intermediate_marker_stands_where_the_last_entry_is_just_in_reach(
    added: int, between: list[BlockLocation]
):
    """The last entry is at the first word: a marker 19 positions on still finds it, one 20 on does not."""
    marks = marks_of(texts(1 + added), previous=4)
    assert spots(marks)[-1 - len(between) :] == [*between, BlockLocation(0, added)]


@pytest.mark.spec("PC-6", "PC-7")
def test_when_markers_run_out_the_tool_list_goes_first_and_it_is_said():
    marks = marks_of(texts(60), previous=4)
    assert spots(marks) == [STATIC, DYNAMIC, BlockLocation(0, 19), BlockLocation(0, 59)]
    assert marks.why == (
        "this turn adds 59 positions, more than the 20 that are searched: an intermediate breakpoint keeps "
        "the last entry in reach",
        "no breakpoint left for tools",
    )


@pytest.mark.spec("PC-6")
@pytest.mark.parametrize("limit", range(5))
def test_the_limit_of_the_provider_is_never_exceeded(limit: int):
    able = Capabilities(caching=True, ttls=("5m",), max_breakpoints=limit)
    order = [BlockLocation(0, 59), BlockLocation(0, 19), DYNAMIC, STATIC, TOOLS]
    marks = marks_of(texts(60), able=able, previous=4)
    assert spots(marks) == sorted(order[:limit])
    assert sum(why.startswith("no breakpoint left") for why in marks.why) == 5 - limit


@pytest.mark.spec("PC-7")
def test_a_burst_of_parallel_calls_needs_an_intermediate_marker_only_where_each_is_a_position():
    talk = Talk(random.Random(0))
    start = marks_of(talk.messages).reached
    talk.burst(60)
    assert len(marks_of(talk.messages, previous=start).why) == 0
    each = marks_of(talk.messages, able=BEDROCK, previous=start)
    assert spots(each)[-2:] == [BlockLocation(1, 18), BlockLocation(2, 59)]


def test_an_earlier_entry_behind_the_end_of_a_shorter_conversation_is_nothing_to_reach():
    assert marks_of(texts(30), previous=90).why == ()


# ── the law ──────────────────────────────────────────────────────────────────────────────────────


class Walk:
    """One conversation, request by request, against the provider's cache."""

    def __init__(self, seed: int, able: Capabilities, ttl: str = "5m") -> None:
        self.talk = Talk(random.Random(seed), pictures=0)
        self.able, self.ttl = able, ttl
        self.cache = PrefixCache()
        self.outline = outline_of([], able=able)
        self.reached = -1

    def ask(self) -> tuple[Breakpoints, CacheLookup]:
        known = len(self.outline.messages)
        self.outline.replace_from(known, self.talk.messages[known:])
        marks = place_breakpoints(
            self.outline,
            HEAD,
            ttl=self.ttl,
            capabilities=self.able,
            previous=self.reached,
            writes="its own",
        )
        self.reached = marks.reached
        outcome = self.cache.look(self.outline.prompt(CacheKeySalts(), marks.places, minimum=0), now=0)
        self.cache.refresh(outcome)
        self.cache.write(outcome, now=0)
        return marks, outcome


def walked(
    seed: int, turns: list[int], able: Capabilities, ttl: str = "5m"
) -> list[tuple[Breakpoints, CacheLookup]]:
    walk = Walk(seed, able, ttl)
    found = [walk.ask()]
    for positions in turns:
        walk.talk.grow(positions)
        found.append(walk.ask())
    return found


def lost(found: list[tuple[Breakpoints, CacheLookup]]) -> list[int]:
    """Tokens that a request read less than the one before it had read and written."""
    outcomes = [outcome for _, outcome in found]
    before = [o.read + o.write_5m + o.write_1h for o in outcomes[:-1]]
    return [had - outcome.read for had, outcome in zip(before, outcomes[1:], strict=True)]


turns = st.lists(st.integers(1, 80), min_size=1, max_size=5)
seeds = st.integers(min_value=0, max_value=2**32)
providers = st.sampled_from([ANTHROPIC, BEDROCK])


@pytest.mark.spec("PC-7")
@given(seeds, turns, providers)
@example(0, [19, 20, 21, 80], BEDROCK)
def test_every_request_reads_all_that_the_one_before_it_wrote(
    seed: int, turns: list[int], able: Capabilities
):
    assert lost(walked(seed, turns, able)) == [0] * len(turns)


@pytest.mark.spec("PC-5", "PC-6", "PC-7", "PC-11")
@given(seeds, turns, providers, st.sampled_from(["5m", "1h"]))
def test_markers_are_few_in_order_and_on_blocks_that_may_carry_one(
    seed: int, turns: list[int], able: Capabilities, ttl: str
):
    walk = Walk(seed, able, ttl)
    for positions in (0, *turns):
        walk.talk.grow(positions)
        marks, _ = walk.ask()
        places = spots(marks)
        in_messages = [spot for spot in places if spot.message >= 0]
        assert len(places) <= able.max_breakpoints
        assert places == sorted(set(places))
        assert len(in_messages) == 1 + any("intermediate" in why for why in marks.why)
        assert in_messages[-1].message == len(walk.talk.messages) - 1
        assert all(can_carry_breakpoint(walk.talk.messages[at].blocks[block]) for at, block in in_messages)
        # One lifetime for all: the longer ones come first whichever it is.
        assert {marker.ttl for _, marker in marks.places} == {ttl}


@pytest.mark.spec("PC-7")
def test_without_the_intermediate_marker_the_law_does_not_hold(monkeypatch: pytest.MonkeyPatch):
    assert lost(walked(0, [80], BEDROCK)) == [0]
    monkeypatch.setattr(markers, "_intermediate", lambda *_: None)
    (missed,) = lost(walked(0, [80], BEDROCK))
    assert missed > 0


# ── spelled ──────────────────────────────────────────────────────────────────────────────────────


def test_a_marker_is_added_to_the_bytes_and_nothing_else_changes():
    block = block_from_json(b'{ "text" : "\\u00e9" , "type":"text" }')
    assert with_cache_control(block, "5m").raw == (
        b'{ "text" : "\\u00e9" , "type":"text","cache_control":{"type":"ephemeral"}}'
    )
    assert json.loads(with_cache_control(block, "1h", "global").raw)["cache_control"] == {
        "type": "ephemeral",
        "ttl": "1h",
        "scope": "global",
    }
    assert with_cache_control(tool("Read"), "5m").kind == "tool"


def test_a_marker_that_a_block_came_with_is_replaced():
    came = block_from_json(b'{"type":"text","cache_control":{"type":"ephemeral","ttl":"1h"},"text":"a"}')
    assert (
        with_cache_control(came, "5m").raw
        == b'{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}'
    )
    assert without_cache_control(came) == text_block("a")
    quoted = text_block('"cache_control"')
    assert without_cache_control(quoted) is quoted


def test_breakpoints_of_an_earlier_request_stay_where_their_block_still_is():
    preamble = Preamble(tools=(text_block("t"),), system=(text_block("s1"), text_block("s2")))
    messages = [Message("user", (text_block("a"), text_block("b")))]
    spots = [
        BlockLocation(-1, 2),
        BlockLocation(-1, 3),
        BlockLocation(0, 1),
        BlockLocation(0, 2),
        BlockLocation(1, 0),
    ]
    earlier = Breakpoints(tuple((spot, Breakpoint(at, "5m")) for at, spot in enumerate(spots)), ("why",), 7)
    kept = keep_existing(earlier, preamble, messages)
    assert kept == Breakpoints((earlier.places[0], earlier.places[2]), ("why",), 7)


def test_an_entry_is_shared_as_the_part_of_system_says_and_elsewhere_within_the_organization():
    parts = (text_block("a"), text_block("b"), text_block("c"))
    head = Preamble((tool("Read"),), parts, (0, 2), ("global", "org"))
    spots = [BlockLocation(-1, at) for at in range(4)]
    assert [scope_at(head, spot) for spot in spots] == ["org", "global", "org", "org"]
    assert scope_at(head, BlockLocation(0, 1)) == "org"
    unscoped = Preamble((tool("Read"),), parts, (0, 2))
    assert [scope_at(unscoped, spot) for spot in spots] == ["org"] * 4


def test_a_block_at_the_limit_of_reach_is_passed_over_if_it_may_not_carry_a_breakpoint():
    messages = [user("word 0"), assistant(*(thinking(f"t{at}") for at in range(18)), "said"), user("and")]
    messages += [assistant(thinking("more"), *(f"w{at}" for at in range(5))), user("end")]
    found = marks_of(messages, previous=4)
    assert spots(found)[-2:] == [BlockLocation(1, 18), BlockLocation(4, 0)]
    silent = [user("word 0"), assistant(*(thinking(f"t{at}") for at in range(30))), user("end")]
    assert spots(marks_of(silent, previous=4)) == [STATIC, DYNAMIC, BlockLocation(0, 0), BlockLocation(2, 0)]
    later = marks_of(silent, previous=5)
    assert (spots(later), later.why) == ([TOOLS, STATIC, DYNAMIC, BlockLocation(2, 0)], ())


def test_without_messages_only_the_preamble_is_marked_and_nothing_is_reached():
    assert marks_of([]) == Breakpoints(
        tuple((spot, Breakpoint(-1, "5m")) for spot in (TOOLS, STATIC, DYNAMIC))
    )
    assert marks_of([], Preamble()) == Breakpoints()


@pytest.mark.parametrize(
    ("ttl", "scope", "control"),
    [
        ("5m", "org", b'{"type":"ephemeral"}'),
        ("1h", "org", b'{"type":"ephemeral","ttl":"1h"}'),
        ("5m", "global", b'{"type":"ephemeral","scope":"global"}'),
        ("1h", "global", b'{"type":"ephemeral","ttl":"1h","scope":"global"}'),
    ],
)
def test_a_breakpoint_is_spelled_without_the_defaults_of_the_api(ttl, scope, control):
    marked = with_cache_control(text_block("a"), ttl, scope)
    assert marked.raw == b'{"type":"text","text":"a","cache_control":' + control + b"}"
