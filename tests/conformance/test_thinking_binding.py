"""Signed thinking: what may be edited, what is bound to its prefix, and what is dropped instead."""

import pytest
from conformance.api import BINDING, FIVE, Api, Json, assistant, long, result, text, tool, user

pytestmark = pytest.mark.spec("TW-6")
BOUND = ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "claude-fable-5-2"]
BASE: Json = {
    "model": "claude-opus-5-5",
    "system": "Be kind.",
    "tools": [tool("look")],
    "thinking": {"type": "adaptive", "display": "summarized"},
}
INVALID = "Invalid `signature` in `thinking` block"
CANNOT = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)


def think(words: str = "hm") -> Json:
    return {"content": [{"type": "thinking", "thinking": words}, text("yes")]}


def talk(api: Api, turns: int, **fields: object) -> list[Json]:
    said: list[Json] = []
    for n in range(turns):
        api.script(think(f"thought {n}"))
        said.append(user(f"question {n}"))
        content = api.reply(*said, **(BASE | fields))["content"]
        assert content[0]["type"] == "thinking"
        said.append({"role": "assistant", "content": content})
    return [*said, user("and now")]


def edit(turns: list[Json], at: int, **changes: object) -> list[Json]:
    content = [{**turns[at]["content"][0], **changes}, *turns[at]["content"][1:]]
    return [*turns[:at], {**turns[at], "content": content}, *turns[at + 1 :]]


@pytest.mark.parametrize("model", [*BOUND, "claude-opus-5", "claude-sonnet-5", "claude-opus-4-8"])
def test_thinking_sent_back_unchanged_is_accepted(api: Api, model: str):
    fields = {"model": model, "thinking": {"type": "adaptive"}}
    assert api.ask(*talk(api, 3, **fields), **(BASE | fields)).status == 200


def test_edited_thinking_in_the_latest_message_is_refused(api: Api):
    turns = edit(talk(api, 2), 3, thinking="other")
    assert api.refused(*turns, **BASE) == f"messages.3.content.0: {CANNOT}"


def test_edited_thinking_elsewhere_is_an_invalid_signature(api: Api):
    turns = edit(talk(api, 2), 1, thinking="other")
    assert api.refused(*turns, **BASE).startswith(f"messages.1.content.0: {INVALID}")


@pytest.mark.parametrize("signature", ["", "nonsense", "QUJD", "é"])
def test_a_broken_signature_is_refused(api: Api, signature: str):
    turns = edit(talk(api, 2), 1, signature=signature)
    assert api.refused(*turns, **BASE).startswith(f"messages.1.content.0: {INVALID}")


def test_a_signature_of_another_block_is_refused(api: Api):
    turns = talk(api, 2)
    turns = edit(turns, 1, signature=turns[3]["content"][0]["signature"])
    assert api.refused(*turns, **BASE).startswith(f"messages.1.content.0: {INVALID}")


CHANGED_PREFIX = {
    "system": {"system": "Be cruel."},
    "tools": {"tools": [tool("look"), tool("more")]},
    "earlier message": {},
}


@pytest.mark.parametrize("change", CHANGED_PREFIX)
@pytest.mark.parametrize("model", BOUND)
def test_a_changed_prefix_is_refused_and_says_what_to_do(api: Api, change: str, model: str):
    turns = talk(api, 1, model=model)
    if change == "earlier message":
        turns[0] = user("another question")
    words = api.refused(*turns, **(BASE | {"model": model} | CHANGED_PREFIX[change]))
    assert words.startswith(
        f"messages.1.content.0: {INVALID}. The block is bound to a different conversation. Remove the block, "
        'or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the '
        "`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
    )


def test_with_the_header_the_last_sentence_is_left_out(api: Api):
    turns = talk(api, 1)
    words = api.refused(*turns, **(BASE | {"system": "other"}), betas=BINDING)
    assert "bound to a different conversation" in words
    assert "That setting requires" not in words


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-fable-5", "claude-opus-4-8"])
def test_older_models_do_not_bind(api: Api, model: str):
    fields = {"model": model, "thinking": {"type": "adaptive"}}
    turns = talk(api, 2, **fields)
    turns[0] = user("another question")
    assert api.ask(*turns, **(BASE | fields | {"system": "other"})).status == 200


def test_thinking_may_be_dropped_from_the_start(api: Api):
    turns = talk(api, 3)
    turns[1] = assistant(*turns[1]["content"][1:])
    assert api.ask(*turns, **BASE).status == 200


def test_thinking_dropped_from_the_middle_invalidates_what_follows(api: Api):
    turns = talk(api, 3)
    turns[3] = assistant(*turns[3]["content"][1:])
    assert "messages.5.content.0" in api.refused(*turns, **BASE)


def test_appending_is_fine(api: Api):
    assert api.ask(*talk(api, 2), assistant("so"), user("x"), **BASE).status == 200


def test_a_marker_moved_does_not_change_the_prefix(api: Api):
    turns = talk(api, 2)
    turns[0] = user(text("question 0", FIVE))
    assert api.ask(*turns, **BASE).status == 200


DROP: Json = {
    "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    "betas": BINDING,
}


def test_drop_block_drops_and_tells(api: Api):
    turns = talk(api, 1)
    reply = api.reply(*turns, **(BASE | {"system": "other"} | DROP))
    assert reply["input_transformations"] == [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
    ]


def test_dropped_thinking_costs_nothing(api: Api):
    turns = talk(api, 1)
    bare = [turns[0], assistant(*turns[1]["content"][1:]), turns[2]]
    fields = BASE | {"system": "other"}
    dropped = api.usage(*turns, **(fields | DROP))["input_tokens"]
    assert dropped == api.count(*bare, **fields)


def test_drop_block_streams_its_transformations_at_the_start(api: Api):
    turns = talk(api, 1)
    events = api.ask(*turns, stream=True, **(BASE | {"system": "other"} | DROP)).events
    assert [t["type"] for t in events[0]["message"]["input_transformations"]] == ["thinking_dropped"]


def test_drop_block_with_nothing_to_drop_is_silent(api: Api):
    reply = api.reply(*talk(api, 1), **(BASE | DROP))
    assert not reply.get("input_transformations")


def test_drop_block_needs_its_header(api: Api):
    assert "thinking" in api.refused("hi", **(BASE | DROP | {"betas": ""}))


def test_drop_block_does_not_save_a_forged_signature(api: Api):
    turns = edit(talk(api, 2), 1, signature="nonsense")
    assert api.refused(*turns, **(BASE | DROP)).startswith(f"messages.1.content.0: {INVALID}")


@pytest.mark.parametrize("behaviour", ["ignore", None, 5])
def test_an_unknown_behaviour_is_refused(api: Api, behaviour: object):
    thinking = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": behaviour}}
    answer = api.ask("hi", **(BASE | {"thinking": thinking}), betas=BINDING)
    assert (answer.status == 400) is (behaviour is not None)


def test_a_dropped_block_is_to_the_cache_as_if_never_sent(api: Api):
    turns = talk(api, 3)
    turns[3] = assistant(*turns[3]["content"][1:])
    bare = [*turns[:5], assistant(*turns[5]["content"][1:]), turns[6]]
    fields = BASE | DROP | {"system": "Be kind.", "cache_control": FIVE}
    fields["tools"] = [tool("look")]
    long_start = user(long("a"), "question 0")
    turns[0], bare[0] = long_start, long_start
    written = api.usage(*turns, **fields)["cache_creation_input_tokens"]
    assert written > 512
    assert api.usage(*bare, **fields)["cache_creation_input_tokens"] == 0


@pytest.mark.parametrize(
    ("made_by", "read_by", "kept"),
    [
        ("claude-opus-5-5", "claude-fable-5-2", True),
        ("claude-fable-5-2", "claude-opus-5-5", False),
        ("claude-opus-5-5", "claude-haiku-5-5", False),
        ("claude-haiku-5-5", "claude-opus-5-5", True),
    ],
)
def test_thinking_is_read_by_the_same_or_newer_models(api: Api, made_by: str, read_by: str, kept: bool):
    turns = talk(api, 1, model=made_by)
    reply = api.reply(*turns, **(BASE | {"model": read_by}), betas=BINDING)
    reasons = [(t["type"], t["reason"]) for t in reply["input_transformations"]]
    assert reasons == ([] if kept else [("thinking_dropped", "model_binding_mismatch")])


def test_inside_a_tool_loop_thinking_comes_back(api: Api):
    api.script(
        {
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            ]
        }
    )
    said = api.reply("go", **BASE)["content"]
    loop = [user("go"), {"role": "assistant", "content": said}, user(result("t1"))]
    assert api.ask(*loop, **BASE).status == 200
    assert (
        api.ask(*edit(loop, 1, thinking="no"), **BASE).error["message"] == f"messages.1.content.0: {CANNOT}"
    )


def test_thinking_of_another_model_is_dropped_without_error(api: Api):
    turns = talk(api, 1, model="claude-haiku-5-5")
    foreign = api.ask(*turns, **(BASE | {"model": "claude-opus-5"}))
    assert foreign.status == 200


def test_count_tokens_checks_thinking_too(api: Api):
    turns = edit(talk(api, 2), 1, thinking="other")
    assert api.counted(*turns, **BASE).status == 400
    moved = api.counted(*talk(api, 1), **(BASE | {"system": "other"}))
    assert "bound to a different conversation" in moved.error["message"]


def test_omitted_thinking_comes_back_valid(api: Api):
    api.script(think())
    fields = BASE | {"thinking": {"type": "adaptive", "display": "omitted"}}
    said = api.reply("q", **fields)["content"]
    assert said[0]["thinking"] == ""
    turns = [user("q"), {"role": "assistant", "content": said}, user("r")]
    assert api.ask(*turns, **fields).status == 200
    with_text = [
        user("q"),
        {"role": "assistant", "content": [{**said[0], "thinking": "mine"}, *said[1:]]},
        user("r"),
    ]
    assert api.count(*with_text, **fields) == api.count(*turns, **fields), (
        "text in an omitted block is ignored"
    )


def test_redacted_thinking_comes_back_valid(api: Api):
    api.script({"content": [{"type": "redacted_thinking", "data": "c2VjcmV0"}, text("yes")]})
    said = api.reply("q", **BASE)["content"]
    turns = [user("q"), {"role": "assistant", "content": said}, user("r")]
    assert api.ask(*turns, **BASE).status == 200
    turns[1]["content"][0] = {"type": "redacted_thinking", "data": "bm9wZQ=="}
    assert api.ask(*turns, **BASE).status == 400
