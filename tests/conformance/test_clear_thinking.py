"""clear_thinking_20251015: which turns of thinking stay, and where the edit must stand."""

import pytest
from conformance.api import EDITING, FIVE, Api, Json, long, text, user

pytestmark = pytest.mark.spec("TW-4")
KIND = "clear_thinking_20251015"
TOOLS = "clear_tool_uses_20250919"


def thoughtful(api: Api, turns: int, **fields: object) -> list[Json]:
    """A conversation of that many assistant turns, each with thinking the server has signed."""
    said: list[Json] = []
    for n in range(turns):
        api.script({"content": [{"type": "thinking", "thinking": f"thought {n} " * 60}, text(f"answer {n}")]})
        said.append(user(f"question {n}"))
        reply = api.reply(*said, max_tokens=3000, **fields)
        assert reply["content"][0]["type"] == "thinking"
        said.append({"role": "assistant", "content": reply["content"]})
    return [*said, user("and now")]


def edited(api: Api, turns: list[Json], *edits: Json, **fields: object) -> Json:
    answer = api.ask(*turns, context_management={"edits": list(edits)}, betas=EDITING, **fields)
    assert answer.status == 200, answer.data
    return answer.json


def clear(**fields: object) -> Json:
    return {"type": KIND, **fields}


def turns_kept(n: int) -> Json:
    return {"type": "thinking_turns", "value": n}


@pytest.mark.parametrize(("kept", "gone"), [(1, 3), (2, 2), (3, 1), (4, 0), (9, 0)])
def test_the_last_turns_are_kept(api: Api, kept: int, gone: int):
    edits = edited(api, thoughtful(api, 4), clear(keep=turns_kept(kept)))["context_management"][
        "applied_edits"
    ]
    assert [e["cleared_thinking_turns"] for e in edits] == ([gone] if gone else [])


def test_the_tokens_cleared_are_those_missing_from_the_prompt(api: Api):
    turns = thoughtful(api, 3)
    before = api.count(*turns)
    reply = edited(api, turns, clear(keep=turns_kept(1)))
    (edit,) = reply["context_management"]["applied_edits"]
    assert edit == {
        "type": KIND,
        "cleared_thinking_turns": 2,
        "cleared_input_tokens": before - reply["usage"]["input_tokens"],
    }
    assert edit["cleared_input_tokens"] > 0


@pytest.mark.parametrize("keep", ["all", {"type": "all"}])
def test_all_keeps_all(api: Api, keep: object):
    assert edited(api, thoughtful(api, 3), clear(keep=keep))["context_management"]["applied_edits"] == []


def test_without_keep_a_model_that_keeps_all_keeps_all(api: Api):
    assert edited(api, thoughtful(api, 3), clear())["context_management"]["applied_edits"] == []


def test_it_must_be_the_first_edit(api: Api):
    words = api.refused("hi", context_management={"edits": [{"type": TOOLS}, clear()]}, betas=EDITING)
    assert KIND in words
    assert "first" in words
    assert edited(api, [user("hi")], clear(), {"type": TOOLS})["context_management"] == {"applied_edits": []}


def test_it_is_only_for_requests_that_think(api: Api):
    words = api.refused(
        "hi", context_management={"edits": [clear()]}, betas=EDITING, thinking={"type": "disabled"}
    )
    assert KIND in words
    assert "thinking" in words


@pytest.mark.parametrize(
    "keep", [turns_kept(0), turns_kept(-1), "none", {"type": "some"}, {"type": "thinking_turns"}, 3], ids=str
)
def test_a_wrong_keep_is_refused(api: Api, keep: object):
    words = api.refused("hi", context_management={"edits": [clear(keep=keep)]}, betas=EDITING)
    assert words.startswith("context_management.edits.0")


def test_clearing_invalidates_the_cache_from_there(api: Api):
    turns = thoughtful(api, 3)
    turns[0] = user(text("question 0"))
    head = [user(long("a", marker=FIVE)), {"role": "assistant", "content": [text("ok")]}]
    api.script({"content": [{"type": "thinking", "thinking": "thought " * 60}, text("so")]})
    first = api.reply(*head, user("q"), max_tokens=3000)["content"]
    api.script({"content": [{"type": "thinking", "thinking": "thought " * 60}, text("so")]})
    middle = [*head, user("q"), {"role": "assistant", "content": first}, user("r")]
    second = api.reply(*middle, max_tokens=3000)["content"]
    whole = [*middle, {"role": "assistant", "content": second}, user(text("s", FIVE))]
    written = api.usage(*whole)["cache_creation_input_tokens"]
    usage = edited(api, whole, clear(keep=turns_kept(1)))["usage"]
    assert 0 < usage["cache_read_input_tokens"] < written + usage["cache_read_input_tokens"]
    assert usage["cache_creation_input_tokens"] > 0


def test_count_tokens_sees_the_edit(api: Api):
    turns = thoughtful(api, 3)
    edits = {"edits": [clear(keep=turns_kept(1))]}
    body = api.counted(*turns, context_management=edits, betas=EDITING).json
    assert body["context_management"]["original_input_tokens"] == api.count(*turns)
    assert body["input_tokens"] < api.count(*turns)


def test_old_models_drop_earlier_thinking_by_themselves(api: Api):
    fields = {"model": "claude-haiku-4-5", "thinking": {"type": "enabled", "budget_tokens": 1024}}
    turns = thoughtful(api, 3, **fields)
    bare = [
        {**t, "content": [b for b in t["content"] if b["type"] != "thinking"]}
        if t["role"] == "assistant"
        else t
        for t in turns
    ]
    assert api.count(*turns, **fields) == api.count(*bare, **fields)
    kept = {"type": KIND, "keep": "all"}
    body = api.counted(*turns, **fields, context_management={"edits": [kept]}, betas=EDITING).json
    assert body["input_tokens"] > api.count(*turns, **fields)
