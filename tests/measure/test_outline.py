"""An outline kept up to date says what one made from scratch says, and what the twin says of the bytes."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from view.talks import (
    HEAD,
    PARAMETERS,
    Talk,
    assistant,
    call,
    document,
    image,
    model,
    pictured,
    thinking,
    tool,
    user,
    web,
)

from everturn.history.blocks import Block, block_from_json, result_block, text_block
from everturn.history.messages import Message
from everturn.measure.outline import BlockLocation, CacheKeySalts, Outline, Preamble
from everturn.measure.prefix_cache import Breakpoint, PromptLayout
from everturn.twin.context_editing import drop_old_thinking
from everturn.twin.costs import TwinCosts
from everturn.twin.options import TwinOptions
from everturn.twin.parse import parse_request
from everturn.twin.request_layout import lay_out
from everturn.view.cache_key import compute_key_salts
from everturn.view.key_parameters import KeyParameters, TtlChoice, to_request_fields
from everturn.wire.anthropic import Request

OPUS = model()
seeds = st.integers(min_value=0, max_value=2**32)


def outlined(head: Preamble, messages: list[Message], **options: Any) -> Outline:
    outline = Outline(TwinCosts(OPUS), **options)
    outline.set_preamble(head)
    outline.replace_from(0, messages)
    return outline


def ours(head: Preamble, messages: list[Message], parameters: KeyParameters = PARAMETERS) -> PromptLayout:
    return outlined(head, messages).prompt(compute_key_salts(OPUS, parameters), [], minimum=0)


def theirs(head: Preamble, messages: list[Message], parameters: KeyParameters = PARAMETERS) -> PromptLayout:
    """The twin's layout of the bytes that would be sent."""
    settings = {"max_tokens": 9, **to_request_fields(parameters)}
    request = Request(
        model=OPUS.id, messages=tuple(messages), system=head.system, tools=head.tools, settings=settings
    )
    return lay_out(parse_request("messages", {}, request.to_bytes(), workspace="w"), TwinOptions()).prompt


def sizes(prompt: PromptLayout) -> tuple[list[int], list[int], int]:
    return list(prompt.ends), list(prompt.positions), prompt.total


def shared(one: PromptLayout, other: PromptLayout) -> list[bool]:
    """Which prefixes two requests have in common, block by block."""
    if one.scope != other.scope:
        return []
    return [a == b for a, b in zip(one.keys, other.keys, strict=False)]


# ── kept up to date ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("PC-8")
@given(seeds)
def test_an_outline_that_is_cut_and_grown_equals_one_made_from_scratch(seed: int):
    rng = random.Random(seed)
    talk, kept = Talk(rng), outlined(HEAD, [user("begin")])
    for _ in range(5):
        first = rng.randrange(len(talk.messages) + 1)
        del talk.messages[max(1, first) :]
        talk.grow(rng.randrange(1, 20))
        kept.replace_from(first, talk.messages[first:])
        one = kept.prompt(compute_key_salts(OPUS, PARAMETERS), [], minimum=0)
        assert (sizes(one), list(one.keys)) == (
            sizes(other := ours(HEAD, talk.messages)),
            list(other.keys),
        )


def test_looking_costs_nothing_for_blocks_that_nobody_looks_at():
    prompt = ours(HEAD, [user("a"), assistant("b"), user("c")])
    assert (len(prompt.keys), prompt.ends[-1], prompt.positions[2:4]) == (7, prompt.total - 3, [2, 3])
    with pytest.raises(IndexError):
        prompt.keys[7]


def test_another_model_counts_everything_anew():
    outline = outlined(HEAD, [user("hello " * 50)])
    haiku = model("claude-haiku-4-5")
    outline.costs = TwinCosts(haiku)
    fresh = Outline(TwinCosts(haiku))
    fresh.set_preamble(HEAD)
    fresh.replace_from(0, [user("hello " * 50)])
    assert sizes(outline.prompt(CacheKeySalts(), [], minimum=0)) == sizes(
        fresh.prompt(CacheKeySalts(), [], minimum=0)
    )


def test_a_deleted_result_keeps_its_place_in_every_key_and_costs_nothing():
    messages = [user("go"), assistant(call("c")), user(result_block("c", "found it"))]
    outline = outlined(HEAD, messages)
    before = outline.prompt(CacheKeySalts(), [], minimum=0)
    keys, total = list(before.keys), before.total
    outline.deleted = {"c"}
    outline.replace_from(2, messages[2:])
    after = outline.prompt(CacheKeySalts(), [], minimum=0)
    cost = TwinCosts(OPUS).block(messages[2].blocks[0])
    assert (list(after.keys), after.total) == (keys, total - cost)


def test_a_result_whose_deletion_has_ended_costs_what_it_did():
    messages = [user("go"), assistant(call("c")), user(result_block("c", "found it"))]
    outline = outlined(HEAD, messages)
    before = sizes(outline.prompt(CacheKeySalts(), [], minimum=0))
    for deleted in ({"c"}, set[str]()):
        outline.deleted = deleted
        outline.replace_from(1, messages[1:])
    assert sizes(outline.prompt(CacheKeySalts(), [], minimum=0)) == before


def test_messages_that_stay_are_not_measured_again(monkeypatch: pytest.MonkeyPatch):
    messages = [user("go"), assistant(call("c")), user(result_block("c", "found it"))]
    outline = outlined(HEAD, messages)
    measure, asked = Outline._measure, []

    def counted(outline: Outline, message: Message, *rest: Any, **more: Any) -> Any:
        asked.append(message)
        return measure(outline, message, *rest, **more)

    monkeypatch.setattr(Outline, "_measure", counted)
    equal = [Message(message.role, message.blocks) for message in messages]
    outline.replace_from(1, [*equal[1:], assistant("done")])
    assert asked == [assistant("done")]


def test_without_the_rule_for_runs_every_block_is_a_position():
    messages = [
        user("go"),
        assistant(call("a"), call("b")),
        user(result_block("a", "1"), result_block("b", "2")),
    ]
    runs = outlined(Preamble(), messages).prompt(CacheKeySalts(), [], minimum=0)
    single = outlined(Preamble(), messages, runs_are_one=False).prompt(CacheKeySalts(), [], minimum=0)
    assert (list(runs.positions), list(single.positions)) == ([0, 1, 1, 2, 2], [0, 1, 2, 3, 4])
    # A shorter copy has the same rule for what is added to it.
    shorter = outlined(Preamble(), messages, runs_are_one=False).up_to(1)
    shorter.replace_from(1, messages[1:])
    grown = shorter.prompt(CacheKeySalts(), [], minimum=0)
    assert list(grown.positions) == list(single.positions)
    assert (
        outlined(Preamble(), messages, lookback=7).up_to(1).prompt(CacheKeySalts(), [], minimum=0).lookback
        == 7
    )


def test_spots_and_places_in_the_prefix_are_the_same_blocks():
    head = Preamble((web(), tool("Late", defer_loading=True), tool("Read")), HEAD.system)
    outline = outlined(head, [user("a", "b"), assistant("c")])
    spots = [
        BlockLocation(-1, 2),
        BlockLocation(-1, 0),
        BlockLocation(-1, 4),
        BlockLocation(0, 1),
        BlockLocation(1, 0),
    ]
    marked = outline.prompt(
        CacheKeySalts(), [(spot, Breakpoint(-1, "5m")) for spot in reversed(spots)], minimum=0
    )
    assert [marker.index for marker in marked.markers] == [0, 1, 3, 5, 6]
    assert outline.last_tool == BlockLocation(-1, 0)
    assert [outline.position_of(spot) for spot in spots] == [0, 1, 3, 5, 6]


def test_every_block_of_every_message_has_the_position_that_its_layout_says():
    calls = assistant(call("a"), call("b"))
    outline = outlined(HEAD, [calls, user(result_block("a", "1"), result_block("b", "2")), assistant("done")])
    spots = [BlockLocation(0, 0), BlockLocation(0, 1), *(BlockLocation(1, at) for at in (0, 1))]
    first = len(HEAD.tools) + len(HEAD.system)
    found = [outline.position_of(spot) - first for spot in (*spots, BlockLocation(2, 0))]
    assert found == [0, 0, 1, 1, 2]
    layout = outline.prompt(CacheKeySalts(), [], minimum=0)
    assert [layout.positions[first + at] - first for at in range(5)] == found
    assert (layout.positions[-1], layout.positions[-5:-3]) == (first + 2, [first, first])


# ── as the twin sees it ──────────────────────────────────────────────────────────────────────────

CITED = [user("read", document(cited=True))]
HEADS = {
    "plain": HEAD,
    "empty": Preamble(),
    "no tools": Preamble((), HEAD.system),
    "no system": Preamble(HEAD.tools),
    "a web tool in the middle": Preamble((tool("A"), web(), tool("B")), HEAD.system),
    "web tools alone": Preamble((web(), web("other")), HEAD.system),
    "a deferred tool": Preamble((tool("A", defer_loading=True), tool("B"), web()), HEAD.system),
    "deferred tools alone": Preamble((tool("A", defer_loading=True),), HEAD.system),
    "deferred tools alone, no system": Preamble((tool("A", defer_loading=True),)),
}


@pytest.mark.spec("PC-8")
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_tokens_and_positions_are_those_of_the_twin(head: Preamble):
    messages = [
        user("go", image()),
        assistant(thinking("hm"), "so", call("a"), call("b")),
        user(pictured("a"), result_block("b", "two"), "and now?", document(cited=False)),
    ]
    assert sizes(ours(head, messages)) == sizes(theirs(head, messages))


@pytest.mark.spec("PC-8")
@given(seeds)
def test_random_conversations_are_counted_as_the_twin_counts_them(seed: int):
    rng = random.Random(seed)
    talk = Talk(rng)
    talk.grow(rng.randrange(1, 40))
    head = rng.choice(list(HEADS.values()))
    assert sizes(ours(head, talk.messages)) == sizes(theirs(head, talk.messages))


def changed(**fields: Any) -> KeyParameters:
    return KeyParameters(TtlChoice("5m", "a test"), **fields)


BASE = [user("go"), assistant("yes", call("a")), user(result_block("a", "one"), "more")]
REQUESTS: dict[str, tuple[Preamble, list[Message], KeyParameters]] = {
    "base": (HEAD, BASE, PARAMETERS),
    "longer": (HEAD, [*BASE, assistant("ok"), user("next")], PARAMETERS),
    "another last word": (HEAD, [*BASE[:2], user(result_block("a", "one"), "less")], PARAMETERS),
    "another first word": (HEAD, [user("stop"), *BASE[1:]], PARAMETERS),
    "another speaker": (HEAD, [assistant("go"), *BASE[1:]], PARAMETERS),
    "one message as two": (HEAD, [user("go"), assistant("yes"), assistant(call("a")), BASE[2]], PARAMETERS),
    "an image later": (HEAD, [*BASE, assistant("ok"), user(image())], PARAMETERS),
    "an image in a result": (HEAD, [*BASE[:2], user(pictured("a"))], PARAMETERS),
    "citations later": (HEAD, [*BASE, assistant("ok"), *CITED], PARAMETERS),
    "another tool": (Preamble((tool("Bash"), tool("Write")), HEAD.system), BASE, PARAMETERS),
    "another system prompt": (Preamble(HEAD.tools, (*HEAD.system[:1], text_block("new"))), BASE, PARAMETERS),
    "a web tool": (Preamble((*HEAD.tools, web()), HEAD.system), BASE, PARAMETERS),
    "a deferred tool": (
        Preamble((tool("Aaa", defer_loading=True), *HEAD.tools), HEAD.system),
        BASE,
        PARAMETERS,
    ),
    "a forced choice": (HEAD, BASE, changed(tool_choice={"type": "tool", "name": "Read"})),
    "auto, spelled out": (HEAD, BASE, changed(tool_choice={"type": "auto"})),
    "no parallel calls": (
        HEAD,
        BASE,
        changed(tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
    ),
    "more effort": (HEAD, BASE, changed(effort="max")),
    "the usual effort, spelled out": (HEAD, BASE, changed(effort=OPUS.default_effort)),
    "no thinking": (HEAD, BASE, changed(thinking={"type": "disabled"})),
    "the usual thinking, spelled out": (HEAD, BASE, changed(thinking={"type": "adaptive"})),
    "fast": (HEAD, BASE, changed(speed="fast")),
    "another format": (HEAD, BASE, changed(extra={"output_config": {"format": {"type": "json_schema"}}})),
}


@pytest.mark.spec("PC-8")
@pytest.mark.parametrize("name", REQUESTS)
def test_two_requests_share_the_prefixes_that_they_share_at_the_twin(name: str):
    mine, twins = ours(*REQUESTS[name]), theirs(*REQUESTS[name])
    assert sizes(mine) == sizes(twins)
    for other in REQUESTS.values():
        assert shared(mine, ours(*other)) == shared(twins, theirs(*other))


def test_an_image_is_found_however_its_json_is_spaced():
    spaced: Block = block_from_json(
        b'{ "type" : "tool_result" , "tool_use_id":"a", "content" : [ {"type" : "image"}, {"type":"text"} ] }'
    )
    with_one = ours(HEAD, [*BASE[:2], user(spaced)])
    with_none = ours(HEAD, [*BASE[:2], user("spaced")])
    assert with_one.keys[4] != with_none.keys[4]


def test_content_that_the_api_would_refuse_is_no_image_and_cites_nothing():
    odd = [block_from_json(b'{"type":"tool_result","tool_use_id":"a","content":[1,"image"]}')]
    odd.append(block_from_json(b'{"type":"document","citations":7}'))
    assert ours(HEAD, [user("go", *odd)]).keys[4] == ours(HEAD, [user("go")]).keys[4]


@given(seeds)
def test_thinking_that_the_twin_strips_costs_nothing_and_is_in_no_key(seed: int) -> None:
    """Message by message, also where results come with a new prompt."""
    old = model("claude-sonnet-4-5")
    rng = random.Random(seed)
    messages: list[Message] = []
    kept = Outline(TwinCosts(old))
    for number in range(rng.randint(2, 7)):
        asked = [text_block(f"prompt {number}")] if not messages or rng.random() < 0.4 else []
        open_call = messages[-1].calls if messages else ()
        blocks = [result_block(name, "done") for name in open_call]
        messages.append(Message("user", (*blocks, *(asked if asked or blocks else [text_block("Go on.")]))))
        messages.append(Message("assistant", (thinking(f"thought {number}"), call(f"toolu_{number}"))))
        kept.replace_from(len(messages) - 2, messages[-2:])
    count = rng.randint(1, len(messages))
    for found, shown in ((kept, messages), (kept.up_to(count), messages[:count])):
        request = Request(model=old.id, messages=tuple(shown), settings={"max_tokens": 9})
        parsed = parse_request("messages", {}, request.to_bytes(), workspace="w")
        billed = lay_out(drop_old_thinking(parsed), TwinOptions()).prompt
        assert found.prompt(CacheKeySalts(), [], minimum=0).total == billed.total
        fresh = Outline(TwinCosts(old))
        fresh.replace_from(0, shown)
        assert list(found.prompt(CacheKeySalts(), [], minimum=0).keys) == list(
            fresh.prompt(CacheKeySalts(), [], minimum=0).keys
        )
