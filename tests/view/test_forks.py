"""A fork reads everything that its parent wrote, writes nothing, and changes nothing of its parent."""

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin.asking import Desk, parts
from view.talks import HEAD, PARAMETERS, Talk, assistant, call, model, thinking, tool, user

from everturn.decide.cache_breaks import CacheBreakDetector
from everturn.decide.cache_key_snapshot import take_key_snapshot
from everturn.errors import UsageError
from everturn.history.blocks import block_from_json, result_block, text_block
from everturn.history.messages import Message
from everturn.history.records import Usage
from everturn.measure.capabilities import ANTHROPIC, PLAIN
from everturn.measure.outline import BlockLocation, Outline, Preamble
from everturn.measure.prediction import Forecast, Prediction
from everturn.measure.prefix_cache import Breakpoint, PrefixCache, Ttl
from everturn.twin.costs import TwinCosts
from everturn.twin.options import TwinOptions
from everturn.view.breakpoints import Breakpoints, place_breakpoints, without_cache_control
from everturn.view.cache_key import compute_key_salts
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.view.requests import build_fork_request, build_request, place_fork_breakpoints
from everturn.wire.anthropic import Request

OPUS = model()
ANYTHING = TwinOptions(min_cache={OPUS.id: 0}, foreign_signatures="accept")
SUMMARIZE = user("Now summarize.")
HOURLY = KeyParameters(TtlChoice("1h", "a test"))


def outlined(messages: list[Message], head: Preamble = HEAD) -> Outline:
    outline = Outline(TwinCosts(OPUS))
    outline.set_preamble(head)
    outline.replace_from(0, messages)
    return outline


def parent_of(
    messages: list[Message], parameters: KeyParameters = PARAMETERS, *, previous: int = -1, **settings: Any
) -> CapturedRequest:
    ttl: Ttl = parameters.lifetime.ttl
    marks = place_breakpoints(
        outlined(messages), HEAD, ttl=ttl, capabilities=ANTHROPIC, previous=previous, writes="its own"
    )
    return CapturedRequest(OPUS.id, HEAD, parameters, tuple(messages), {"max_tokens": 999, **settings}, marks)


def body(request: Request) -> dict[str, Any]:
    return json.loads(request.to_bytes())


def without_markers(request: Request) -> bytes:
    plain = [Message(m.role, tuple(map(without_cache_control, m.blocks))) for m in request.messages]
    tools, system = (
        tuple(map(without_cache_control, request.tools)),
        tuple(map(without_cache_control, request.system)),
    )
    return msgspec.structs.replace(request, messages=tuple(plain), tools=tools, system=system).to_bytes()


def common(one: bytes, other: bytes) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


TALK = [user("go"), assistant(thinking("hm"), call("a")), user(result_block("a", "one"), "more")]


# ── the same bytes ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("PC-12")
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_a_fork_shares_every_byte_with_its_parent_up_to_its_own_messages(seed: int, size: int):
    talk = Talk(random.Random(seed))
    talk.grow(size)
    parent = parent_of(talk.messages)
    mine = build_request(parent, parent.breakpoints).to_bytes()
    forked = build_fork_request(make_fork(parent, (assistant("so"), SUMMARIZE)), ANTHROPIC).to_bytes()
    # All but the end of the list of messages, and of the object.
    assert common(mine, forked) == len(mine) - len(b"]}")


@pytest.mark.spec("PC-9", "PC-12")
def test_a_fork_of_an_hourly_parent_differs_from_it_in_the_lifetime_of_markers_alone():
    parent = parent_of(TALK, HOURLY)
    mine, forked = (
        build_request(parent, parent.breakpoints),
        build_fork_request(make_fork(parent, (SUMMARIZE,)), ANTHROPIC),
    )
    assert common(without_markers(mine), without_markers(forked)) == len(without_markers(mine)) - 2
    assert [spot for spot, _ in place_fork_breakpoints(make_fork(parent, ()), ANTHROPIC).places] == [
        spot for spot, _ in parent.breakpoints.places
    ]
    assert b'"ttl"' in mine.to_bytes()
    assert b'"ttl"' not in forked.to_bytes()


@pytest.mark.spec("PC-12")
def test_everything_in_the_key_is_the_parents():
    parameters = KeyParameters(
        TtlChoice("5m", ""), betas=("b",), thinking={"type": "adaptive"}, effort="low", speed="fast"
    )
    parent = parent_of(TALK, parameters, metadata={"user_id": "u"})
    mine, forked = (
        body(build_request(parent, parent.breakpoints)),
        body(build_fork_request(make_fork(parent, (SUMMARIZE,)), ANTHROPIC)),
    )
    assert forked.pop("messages")[:3] == mine.pop("messages")
    assert forked == mine
    assert make_fork(parent, ()).parent.parameters.betas == ("b",)


# ── reads everything, writes nothing ─────────────────────────────────────────────────────────────


def forecast(
    cache: PrefixCache, safe: CapturedRequest, marks: Any, more: tuple[Message, ...] = ()
) -> Prediction:
    """One call against a cache: looked up, answered as predicted."""
    outline = outlined([*safe.messages, *more])
    own = Forecast(cache)
    found = own.predict(
        outline.prompt(compute_key_salts(OPUS, safe.parameters), marks.places, minimum=0), now=0
    )
    usage = Usage(
        input_tokens=found.plain,
        cache_creation_input_tokens=found.write_5m + found.write_1h,
        cache_read_input_tokens=found.read,
    )
    own.settle(usage, now=0)
    return found


@pytest.mark.spec("PC-12", "PC-13")
@given(st.integers(0, 2**32), st.integers(1, 80), st.sampled_from([PARAMETERS, HOURLY]))
def test_a_fork_reads_all_that_its_parent_wrote_and_writes_nothing(
    seed: int, size: int, parameters: KeyParameters
):
    talk = Talk(random.Random(seed), pictures=0)
    cache = PrefixCache()
    first = parent_of(talk.messages, parameters)
    forecast(cache, first, first.breakpoints)
    talk.grow(size)
    parent = parent_of(talk.messages, parameters, previous=first.breakpoints.reached)
    paid = forecast(cache, parent, parent.breakpoints)
    entries = {(entry.key, entry.ttl, entry.tokens) for entry in cache.entries(0)}
    child = make_fork(parent, (assistant("so"), *([user("x" * 99), assistant("y")] * 30), SUMMARIZE))
    marks = place_fork_breakpoints(child, ANTHROPIC)
    found = forecast(cache, parent, marks, child.messages)
    assert (found.read, found.write_5m, found.write_1h) == (paid.read + paid.write_5m + paid.write_1h, 0, 0)
    assert {(entry.key, entry.ttl, entry.tokens) for entry in cache.entries(0)} == entries


@pytest.mark.spec("PC-12", "PC-13")
@pytest.mark.parametrize("parameters", [PARAMETERS, HOURLY], ids=["5m", "1h"])
@pytest.mark.parametrize(
    "own", [(SUMMARIZE,), (assistant("so"), SUMMARIZE)], ids=["a prompt", "reply and prompt"]
)
def test_the_twin_bills_only_the_forks_own_messages_as_new(parameters, own):
    desk = Desk(ANYTHING)
    parent = parent_of(TALK, parameters)
    read, hourly, short, plain = desk.usage(**body(build_request(parent, parent.breakpoints)))
    written = len(desk.twin.cache.entries(desk.clock.now().timestamp()))
    told = desk.ask(**body(build_fork_request(make_fork(parent, own), ANTHROPIC)))
    tokens = outlined([*TALK, *own]).prompt(compute_key_salts(OPUS, parameters), [], minimum=0).total
    assert parts(told["usage"]) == (hourly + short, 0, 0, tokens - hourly - short)
    assert len(desk.twin.cache.entries(desk.clock.now().timestamp())) == written
    assert (read, plain) == (0, 3)


def test_where_there_is_no_cache_a_fork_has_no_markers():
    parent = parent_of(TALK)
    assert b"cache_control" not in build_fork_request(make_fork(parent, (SUMMARIZE,)), PLAIN).to_bytes()


# ── what a fork may do ───────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("PC-13")
def test_an_output_limit_is_refused_where_it_would_change_the_thinking():
    budget = KeyParameters(TtlChoice("5m", ""), thinking={"type": "enabled", "budget_tokens": 4000})
    parent = parent_of(TALK, budget)
    for limit in (1, 4000):
        with pytest.raises(UsageError, match=f"An output limit of {limit} is not above the thinking budget"):
            make_fork(parent, (SUMMARIZE,), max_output=limit)
    assert make_fork(parent, (SUMMARIZE,), max_output=4001).settings == {"max_tokens": 4001}
    assert make_fork(parent, (SUMMARIZE,)).settings == {"max_tokens": 999}
    assert make_fork(parent_of(TALK), (SUMMARIZE,), max_output=1).settings == {"max_tokens": 1}


@pytest.mark.spec("PC-14")
def test_what_a_fork_does_leaves_its_parent_as_it_was():
    parent = parent_of(TALK, metadata={"user_id": "u"})
    before = msgspec.json.encode(parent)
    detector = CacheBreakDetector()
    note = take_key_snapshot(parent.model, parent.preamble, parent.parameters, parent.breakpoints)
    detector.before_call("main", note, parent.preamble, 0.0)
    detector.after_call("main", Usage(cache_read_input_tokens=90_000))
    baseline = detector.baselines["main"]
    build_fork_request(make_fork(parent, (SUMMARIZE,), max_output=5), ANTHROPIC)
    # A fork is a source of its own: its low reads are not a break of the parent's cache.
    detector.before_call("fork:summary", note, parent.preamble, 1.0)
    detector.after_call("fork:summary", Usage())
    detector.compacted("fork:summary")
    assert msgspec.json.encode(parent) == before
    assert detector.baselines == {"main": baseline}


def test_a_scope_is_spelled_where_system_says_so():
    head = Preamble((tool("Read"),), (text_block("shared"), text_block("own")), (0, 1), ("global", "org"))
    outline = outlined(TALK, head)
    marks = place_breakpoints(outline, head, ttl="1h", capabilities=ANTHROPIC, previous=-1, writes="its own")
    sent = body(build_request(CapturedRequest(OPUS.id, head, HOURLY, tuple(TALK), {}), marks))
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert [part["cache_control"] for part in sent["system"]] == [{**hour, "scope": "global"}, hour]
    assert [part["cache_control"] for part in sent["tools"]] == [hour]
    assert sent["messages"][2]["content"][1]["cache_control"] == hour


def test_a_marker_that_came_with_a_block_is_not_counted_twice():
    marked = block_from_json(b'{"type":"text","text":"more","cache_control":{"type":"ephemeral"}}')
    parent = parent_of([user("go"), assistant("ok"), user(marked)])
    assert build_request(parent, parent.breakpoints).to_bytes().count(b"cache_control") == 4


@pytest.mark.parametrize(
    ("thinking", "limit", "is_allowed"),
    [
        (None, 1, True),
        ({"type": "adaptive"}, 1, True),
        ({"type": "enabled", "budget_tokens": 1_024}, 1_024, False),
        ({"type": "enabled", "budget_tokens": 1_024}, 1_025, True),
        ({"type": "enabled", "budget_tokens": "many"}, 1, True),
    ],
)
def test_an_output_limit_of_a_fork_is_above_the_thinking_budget(thinking, limit, is_allowed):
    parent = parent_of(TALK, KeyParameters(TtlChoice("5m", ""), thinking=thinking), metadata={"a": 1})
    if is_allowed:
        assert make_fork(parent, (), max_output=limit).settings == {"max_tokens": limit, "metadata": {"a": 1}}
    else:
        with pytest.raises(UsageError, match=f"An output limit of {limit} is not above the thinking budget"):
            make_fork(parent, (), max_output=limit)
    assert make_fork(parent, ()).settings == parent.settings


def test_a_request_is_built_with_its_settings_its_parameters_and_each_breakpoint_in_its_place():
    system = (text_block("a"), text_block("b"))
    head = Preamble((tool("Read"),), system, (0, 1), ("global", "org"))
    parameters = KeyParameters(
        TtlChoice("1h", ""), effort="low", speed="fast", extra={"output_config": {"format": 1}, "x": 2}
    )
    places = [BlockLocation(-1, 0), BlockLocation(-1, 1), BlockLocation(-1, 2), BlockLocation(1, 0)]
    marks = Breakpoints(tuple((spot, Breakpoint(-1, "1h")) for spot in places))
    safe = CapturedRequest("m", head, parameters, (user("u"),), {"max_tokens": 9, "speed": "standard"}, marks)
    made = build_request(safe, marks, (assistant("v", "w"),))
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert body(made) == {
        "model": "m",
        "max_tokens": 9,
        "speed": "fast",
        "x": 2,
        "output_config": {"format": 1, "effort": "low"},
        "tools": [{**json.loads(tool("Read").raw), "cache_control": hour}],
        "system": [
            {"type": "text", "text": "a", "cache_control": {**hour, "scope": "global"}},
            {"type": "text", "text": "b", "cache_control": hour},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "v", "cache_control": hour},
                    {"type": "text", "text": "w"},
                ],
            },
        ],
    }


def test_a_fork_has_the_breakpoints_of_its_parent_for_five_minutes_and_none_without_a_cache():
    spot = BlockLocation(0, 0)
    marks = Breakpoints(((spot, Breakpoint(3, "1h")),), ("why",), 7)
    parent = msgspec.structs.replace(parent_of(TALK), breakpoints=marks)
    fork = make_fork(parent, (SUMMARIZE,))
    assert place_fork_breakpoints(fork, ANTHROPIC) == Breakpoints(
        ((spot, Breakpoint(-1, "5m")),), ("why",), 7
    )
    assert place_fork_breakpoints(fork, PLAIN) == Breakpoints(why=("the provider has no prompt cache",))
    assert fork.all_messages == (*TALK, SUMMARIZE)
