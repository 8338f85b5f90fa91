"""The prompt cache with complete requests: breakpoints, lookback, lifetime, the invalidation matrix."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twin.asking import FIVE, HOUR, Desk, assistant, call, result, text, tool, user

from everturn.twin.faults import InjectedFault
from everturn.twin.memo import clear_memos
from everturn.twin.options import TwinOptions
from everturn.twin.parse import parse_request
from everturn.twin.request_layout import lay_out

TOOLS = [tool("look"), tool("write", cache_control=FIVE)]
SYSTEM = [text("You help.", FIVE)]
TALK = [user("a question of some length"), assistant("an answer"), user(text("and another", FIVE))]


def base(**changes):
    return {"tools": TOOLS, "system": SYSTEM, "messages": TALK, "thinking": {"type": "adaptive"}} | changes


def section_ends(desk: Desk) -> dict[int, str]:
    """The section that was read, by its tokens: `base` has a breakpoint in each of the three."""
    desk.ask(**base(), key="measuring")
    written = desk.last()["cache"]["written"]
    return dict(
        zip(
            [0, *[entry["tokens"] for entry in written]],
            ["nothing", "tools", "system", "messages"],
            strict=True,
        )
    )


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
WEB = {"type": "web_search_20250305", "name": "web_search"}

# What changes, and the last section that is still read (api-facts 1.6).
MATRIX = [
    ("nothing", {}, "messages"),
    ("the model", {"model": "claude-opus-4-8", "thinking": {"type": "adaptive"}}, "nothing"),
    ("the speed", {"speed": "fast", "betas": "fast-mode-2026-02-01"}, "nothing"),
    ("a tool added", {"tools": [tool("look"), tool("new"), tool("write", cache_control=FIVE)]}, "nothing"),
    ("tools reordered", {"tools": [tool("write"), tool("look", cache_control=FIVE)]}, "nothing"),
    (
        "key order in a schema",
        {"tools": [tool("look", input_schema={"properties": {}, "type": "object"}), TOOLS[1]]},
        "nothing",
    ),
    ("web search on", {"tools": [WEB, *TOOLS]}, "tools"),
    ("the system text", {"system": [text("You help much.", FIVE)]}, "tools"),
    ("tool_choice none", {"tool_choice": {"type": "none"}}, "system"),
    ("parallel calls off", {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "system"),
    ("tool_choice auto spelled out", {"tool_choice": {"type": "auto"}}, "messages"),
    ("an image added", {"messages": [*TALK[:2], user(text("and another", FIVE), IMAGE)]}, "system"),
    ("thinking off", {"thinking": {"type": "disabled"}}, "system"),
    ("thinking display", {"thinking": {"type": "adaptive", "display": "omitted"}}, "messages"),
    ("thinking left out", {"thinking": None}, "messages"),
    ("effort", {"output_config": {"effort": "low"}}, "system"),
    ("effort at its default", {"output_config": {"effort": "high"}}, "messages"),
    ("output format", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, "system"),
    ("max_tokens", {"max_tokens": 17}, "messages"),
    ("stop_sequences", {"stop_sequences": ["stop"]}, "messages"),
    ("metadata", {"metadata": {"user_id": "u"}}, "messages"),
    ("service_tier", {"service_tier": "standard_only"}, "messages"),
    ("string for one text block", {"system": "You help."}, "messages"),
]


@pytest.mark.spec("TW-2")
@pytest.mark.parametrize(("what", "change", "read"), MATRIX, ids=[row[0] for row in MATRIX])
def test_a_change_invalidates_its_section_and_all_after_it(what, change, read):
    desk = Desk(TwinOptions(min_cache={"claude-opus-5": 0, "claude-opus-4-8": 0}))
    ends = section_ends(desk)
    body = {name: value for name, value in base(**change).items() if value is not None}
    first = {name: value for name, value in base().items() if value is not None}
    desk.ask(**first)
    assert ends[desk.usage(**body)[0]] == read


@pytest.mark.spec("TW-2")
def test_the_breakpoint_is_not_part_of_the_key():
    desk = Desk()
    desk.ask(messages=[user(text("first words", FIVE))])
    read, *_ = desk.usage(messages=[user("first words"), assistant("yes"), user(text("more", FIVE))])
    assert read == desk.twin.ledger()[0]["cache"]["written"][0]["tokens"]


@pytest.mark.spec("TW-2")
def test_nothing_is_cached_without_a_breakpoint_or_below_the_minimum():
    desk = Desk(TwinOptions())
    long, short = "word " * 300, "word " * 100
    assert desk.usage(messages=[user(long)])[:3] == (0, 0, 0)
    assert desk.usage(messages=[user(text(short, FIVE))])[:3] == (0, 0, 0)
    assert desk.usage(messages=[user(text(long, FIVE))])[2] > 512


@pytest.mark.spec("TW-2")
def test_the_automatic_breakpoint_is_at_the_last_block_that_can_have_one():
    desk = Desk()
    desk.script([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ok"}])
    said = desk.ask(messages=[user("hello there")], cache_control=FIVE)["content"]
    trailing = desk.twin.options.trailing_tokens
    assert desk.last()["usage"]["input_tokens"] == trailing
    read, _, written, plain = desk.usage(
        messages=[user("hello there"), {"role": "assistant", "content": said}, user("go on")],
        cache_control=HOUR,
    )
    assert (read > 0, written, plain) == (True, 0, trailing)


@pytest.mark.spec("TW-2")
@pytest.mark.parametrize(("between", "found"), [(18, True), (19, False)])
def test_twenty_positions_are_searched_the_breakpoint_included(between, found):
    desk = Desk()
    opening = user(text("opening", FIVE))
    desk.ask(messages=[opening])
    fillers = [text(f"filler {n}") for n in range(between)]
    read, *_ = desk.usage(messages=[user(text("opening"), *fillers, text("end", FIVE))])
    assert (read > 0) is found


@pytest.mark.spec("TW-2")
def test_a_run_of_calls_and_a_run_of_results_are_one_position_each():
    desk = Desk()
    desk.ask(tools=[tool("look")], messages=[user(text("go", FIVE))])
    calls = [call(f"toolu_{n}") for n in range(30)]
    results = [result(f"toolu_{n}", "found it") for n in range(30)]
    results[-1]["cache_control"] = FIVE
    talk = [user("go"), assistant(*calls), user(*results)]
    assert desk.usage(tools=[tool("look")], messages=talk)[0] > 0
    flat = Desk(TwinOptions(min_cache={"claude-opus-5": 0}, runs_are_one_position=False))
    flat.ask(tools=[tool("look")], messages=[user(text("go", FIVE))])
    assert flat.usage(tools=[tool("look")], messages=talk)[0] == 0


@pytest.mark.spec("TW-2")
def test_entries_live_for_their_ttl_from_the_start_of_the_request_and_reads_renew_them():
    desk = Desk()
    body = {"messages": [user(text("some words", FIVE))]}
    desk.ask(**body)
    for wait, hits in [(300, True), (300, True), (301, False), (300, True)]:
        desk.clock.advance(wait)
        assert (desk.usage(**body)[0] > 0) is hits
    hour = {"messages": [user(text("other words", HOUR))]}
    desk.ask(**hour)
    desk.clock.advance(3600)
    assert desk.usage(**hour)[0] > 0


@pytest.mark.spec("TW-2")
def test_workspaces_share_nothing():
    desk = Desk()
    body = {"messages": [user(text("some words", FIVE))]}
    desk.ask(**body, key="a")
    assert desk.usage(**body, key="b")[0] == 0
    assert desk.usage(**body, key="a")[0] > 0


@pytest.mark.spec("TW-2")
def test_what_is_written_can_be_read_only_once_the_response_begins():
    desk = Desk()
    body = {"messages": [user(text("some words", FIVE))]}
    desk.break_with(InjectedFault("slow_first_byte"))
    slow = desk.send(**body)
    assert desk.usage(**body)[0] == 0
    slow.on_first_byte()
    assert desk.usage(**body)[0] > 0


def test_a_lost_cache_is_lost_for_its_workspace_only():
    desk = Desk()
    body = {"messages": [user(text("some words", FIVE))]}
    desk.ask(**body)
    desk.ask(**body, key="other")
    desk.break_with(InjectedFault("lost_cache"))
    assert desk.usage(**body)[0] == 0
    assert desk.usage(**body, key="other")[0] > 0


def test_old_models_drop_thinking_at_the_next_prompt_and_lose_the_prefix_from_there():
    desk = Desk(TwinOptions(min_cache={"claude-sonnet-4-5": 0}), model="claude-sonnet-4-5")
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000}
    desk.script([{"type": "thinking", "thinking": "let me look " * 20}, call("toolu_1")])
    asked = [user(text("go", FIVE))]
    said = desk.ask(tools=[tool("look")], messages=asked, **thinking)["content"]
    loop = [
        *asked,
        {"role": "assistant", "content": said},
        user(result("toolu_1", "x" * 50, cache_control=FIVE)),
    ]
    desk.ask(tools=[tool("look")], messages=loop, **thinking)
    whole = desk.last()["cache"]["written"][-1]["tokens"]
    read, _, written, _ = desk.usage(
        tools=[tool("look")], messages=[*loop, assistant("done"), user(text("next", FIVE))], **thinking
    )
    assert read == desk.twin.ledger()[0]["cache"]["written"][0]["tokens"]
    assert read + written < whole


def test_the_counts_of_the_blocks_and_the_trailing_tokens_sum_to_the_billed_total():
    body = {"model": "claude-opus-5", "max_tokens": 10, **base(tool_choice={"type": "any"})}
    request = parse_request("messages", {}, json.dumps(body).encode(), workspace="w")
    layout = lay_out(request, TwinOptions())
    assert sum(piece.tokens for piece in layout.blocks) + layout.trailing == layout.total
    desk = Desk()
    usage = desk.usage(**base(tool_choice={"type": "any"}, thinking={"type": "disabled"}))
    assert sum(usage) == layout.total
    without = parse_request("messages", {}, json.dumps({**body, "tool_choice": None}).encode(), workspace="w")
    assert layout.total - lay_out(without, TwinOptions()).total == 406 - 286


@pytest.mark.spec("TW-2")
def test_five_breakpoints_and_1h_after_5m_are_errors():
    desk = Desk()
    five = [text(f"block {n}", FIVE) for n in range(5)]
    assert desk.refused(messages=[user(*five)]) == (
        "A maximum of 4 blocks with cache_control may be provided. Found 5."
    )
    words = desk.refused(system=[text("You help.", FIVE)], messages=[user(text("hello", HOUR))])
    assert words.startswith(
        "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after "
        "a ttl='5m' cache_control block."
    )


SHORT = {"min_cache": {"claude-opus-5": 0}}
EIGHTEEN = [text(f"filler {n}") for n in range(18)]
FIRST_OF_ALL = {"system": [text("You help.", FIVE)], "messages": [user("hello")]}
PAST_THE_SYSTEM = {"system": [text("You help.")], "messages": [user(*EIGHTEEN, text("end", FIVE))]}
TWO_MARKERS = {"system": [text("You help.", FIVE)], "messages": [user(text("hello", FIVE))]}
LAST_MARKER = {"system": [text("You help.")], "messages": [user(text("hello", FIVE))]}
WITH_BETA = {"betas": "context-management-2025-06-27"}

# An option away from its default, two requests, a third, and whether the third still reads.
OPTIONS = [
    ("lookback", {"lookback": 19}, [FIRST_OF_ALL, PAST_THE_SYSTEM], False),
    ("sections", {"lookback_crosses_sections": False}, [FIRST_OF_ALL, PAST_THE_SYSTEM], False),
    ("the defaults", {}, [FIRST_OF_ALL, PAST_THE_SYSTEM], True),
    ("rewriting off", {"rewrites_below_hit": False}, [LAST_MARKER, TWO_MARKERS, FIRST_OF_ALL], False),
    ("rewriting on", {}, [LAST_MARKER, TWO_MARKERS, {**FIRST_OF_ALL, "messages": [user("else")]}], True),
    ("betas on", {"betas_invalidate": True}, [TWO_MARKERS, TWO_MARKERS | WITH_BETA], False),
    ("betas off", {}, [TWO_MARKERS, TWO_MARKERS | WITH_BETA], True),
    (
        "effort ahead of the system",
        {"effort_invalidates": "system"},
        [TWO_MARKERS, TWO_MARKERS | {"output_config": {"effort": "low"}}],
        False,
    ),
    (
        "thinking ahead of the tools",
        {"thinking_invalidates": "tools"},
        [TWO_MARKERS, TWO_MARKERS | {"thinking": {"type": "disabled"}}],
        False,
    ),
]


@pytest.mark.parametrize(("what", "options", "requests", "reads"), OPTIONS, ids=[row[0] for row in OPTIONS])
def test_undocumented_behaviour_is_an_option(what, options, requests, reads):
    desk = Desk(TwinOptions(**SHORT, **options))
    for request in requests[:-1]:
        desk.ask(**request)
    assert (desk.usage(**requests[-1])[0] > 0) is reads


def test_thinking_can_be_left_out_of_the_positions():
    for counts, reads in ((True, False), (False, True)):
        desk = Desk(TwinOptions(**SHORT, thinking_is_a_position=counts))
        desk.script([{"type": "thinking", "thinking": f"hm {n}"} for n in range(18)] + [text("done")])
        said = desk.ask(messages=[user(text("go", FIVE))])["content"]
        talk = [user("go"), {"role": "assistant", "content": said}, user(text("on", FIVE))]
        assert (desk.usage(messages=talk)[0] > 0) is reads


TURNS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=8)


def conversation(turns) -> list[dict]:
    """One exchange per turn: a word, whether a tool is called, and whether the turn has a breakpoint."""
    messages = []
    for number, (word, calls, marked) in enumerate(turns):
        mark = FIVE if marked else None
        messages.append(user(text(f"word {word} " * 900, mark)))
        if calls:
            answer = result(f"toolu_{number}", "found", **({"cache_control": FIVE} if marked else {}))
            messages += [assistant(call(f"toolu_{number}")), user(answer)]
        messages.append(assistant(f"answer {word}"))
    return [*messages, user("go on")]


@given(st.lists(TURNS, min_size=1, max_size=4), st.booleans())
@settings(max_examples=40)
def test_what_is_reused_of_earlier_requests_changes_no_layout(conversations, marked):
    options = TwinOptions()
    shared = [turns[: len(turns) // 2 + 1] for turns in conversations]
    bodies = []
    for turns in [*conversations, *shared, *[[*head, *conversations[0]] for head in shared]]:
        system = [text("You help.", FIVE if marked and len(turns) % 2 else None)]
        body = {"model": "claude-opus-5", "max_tokens": 9, "system": system, "messages": conversation(turns)}
        bodies.append(json.dumps(body).encode())
    clear_memos()
    reused = [placed(body, options) for body in bodies]
    for body, found in zip(bodies, reused, strict=True):
        clear_memos()
        assert placed(body, options) == found


def placed(body: bytes, options: TwinOptions):
    request = parse_request("messages", {}, body, workspace="w")
    return request, lay_out(request, options)
