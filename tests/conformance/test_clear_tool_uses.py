"""clear_tool_uses_20250919: what fires it, what it clears, and what it reports."""

import pytest
from conformance.api import EDITING, Answer, Api, Json, assistant, call, result, text, tool, user

pytestmark = pytest.mark.spec("TW-4")
KIND = "clear_tool_uses_20250919"
WORDS = "seen " * 200
PLACEHOLDER = "[cleared to save context]"


def history(n: int, names: tuple[str, ...] = ("look",), words: str = WORDS) -> list[Json]:
    """A user's wish, then `n` rounds of one call and its result; the tools take turns."""
    turns = [user("go")]
    for i in range(n):
        name = names[i % len(names)]
        turns += [assistant(call(f"t{i}", name, path="p" * 100)), user(result(f"t{i}", words))]
    return turns


def uses(n: int) -> Json:
    return {"type": "tool_uses", "value": n}


def tokens(n: int) -> Json:
    return {"type": "input_tokens", "value": n}


def ask(api: Api, turns: list[Json], tools: tuple[str, ...] = ("look",), **edit: object) -> Answer:
    return api.ask(
        *turns,
        tools=[tool(n) for n in tools],
        context_management={"edits": [{"type": KIND, **edit}]},
        betas=EDITING,
    )


def applied(api: Api, turns: list[Json], tools: tuple[str, ...] = ("look",), **edit: object) -> list[Json]:
    answer = ask(api, turns, tools, **edit)
    assert answer.status == 200, answer.data
    return answer.json["context_management"]["applied_edits"]


def cleared(api: Api, turns: list[Json], tools: tuple[str, ...] = ("look",), **edit: object) -> int:
    edits = applied(api, turns, tools, **edit)
    return edits[0]["cleared_tool_uses"] if edits else 0


def total(usage: Json) -> int:
    return usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]


def test_the_edit_needs_its_header(api: Api):
    words = api.refused("hi", context_management={"edits": [{"type": KIND}]})
    assert words.startswith("context_management: Extra inputs are not permitted") or EDITING in words


def test_without_the_header_an_answer_has_no_context_management(api: Api):
    assert api.reply("hi").get("context_management") is None


def test_below_the_trigger_nothing_is_applied(api: Api):
    assert applied(api, history(5)) == []


@pytest.mark.parametrize(("present", "fires"), [(2, False), (3, True)])
def test_the_trigger_must_be_exceeded(api: Api, present: int, fires: bool):
    """Trigger 2 uses first fires with 3 present."""
    assert cleared(api, history(present), trigger=uses(2), keep=uses(1)) == (present - 1 if fires else 0)


def test_a_token_trigger_must_be_exceeded_too(api: Api):
    turns = history(5)
    size = api.count(*turns, tools=[tool()])
    assert cleared(api, turns, trigger=tokens(size)) == 0
    assert cleared(api, turns, trigger=tokens(size - 1)) == 2


def test_the_default_trigger_is_100_000_tokens(api: Api):
    below, above = history(4, words="w" * 55_000), history(4, words="w" * 70_000)
    assert api.count(*below, tools=[tool()]) < 100_000 < api.count(*above, tools=[tool()])
    assert cleared(api, below) == 0
    assert cleared(api, above) == 1


def test_three_uses_are_kept_by_default(api: Api):
    assert cleared(api, history(8), trigger=uses(3)) == 5


@pytest.mark.parametrize("kept", [0, 1, 2, 7])
def test_keep_says_how_many_stay(api: Api, kept: int):
    assert cleared(api, history(8), trigger=uses(3), keep=uses(kept)) == 8 - kept


def test_keeping_more_than_there_are_clears_nothing(api: Api):
    assert applied(api, history(4), trigger=uses(1), keep=uses(9)) == []


def test_the_oldest_go_first_and_a_placeholder_takes_their_place(api: Api):
    """The prompt after the edit is as long as the history with the oldest results replaced by hand."""
    turns = history(5)
    by_hand = history(5)
    for i in (2, 4):
        by_hand[i] = user(result(f"t{i // 2 - 1}", PLACEHOLDER))
    answer = ask(api, turns, trigger=uses(3)).json
    assert total(answer["usage"]) == api.count(*by_hand, tools=[tool()])


def test_the_cleared_tokens_are_net_of_the_placeholders(api: Api):
    turns = history(5)
    answer = ask(api, turns, trigger=uses(3)).json
    (edit,) = answer["context_management"]["applied_edits"]
    before = api.count(*turns, tools=[tool()])
    assert edit == {
        "type": KIND,
        "cleared_tool_uses": 2,
        "cleared_input_tokens": before - total(answer["usage"]),
    }
    assert edit["cleared_input_tokens"] > 0


@pytest.mark.parametrize(("wanted", "fires"), [(100, True), (100_000, False)])
def test_clear_at_least_skips_the_edit_where_too_little_would_go(api: Api, wanted: int, fires: bool):
    edits = applied(api, history(6), trigger=uses(3), clear_at_least=tokens(wanted))
    assert bool(edits) is fires


def test_clear_at_least_is_met_by_exactly_that_many(api: Api):
    (edit,) = applied(api, history(6), trigger=uses(3))
    exact = edit["cleared_input_tokens"]
    assert applied(api, history(6), trigger=uses(3), clear_at_least=tokens(exact)) == [edit]
    assert applied(api, history(6), trigger=uses(3), clear_at_least=tokens(exact + 1)) == []


def test_excluded_tools_are_never_cleared(api: Api):
    names = ("look", "keepme")
    assert (
        cleared(api, history(8, names), names, trigger=uses(3), keep=uses(2), exclude_tools=["keepme"]) == 3
    )


def test_keep_counts_excluded_uses_too(api: Api):
    """Of six uses by turns the last three are kept, whoever made them."""
    names = ("keepme", "look")
    edits = {"trigger": uses(2), "keep": uses(3), "exclude_tools": ["keepme"]}
    assert cleared(api, history(6, names), names, **edits) == 1
    assert cleared(api, history(6, ("look", "keepme")), names, **edits) == 2


def test_inputs_stay_unless_asked_for(api: Api):
    plain = total(ask(api, history(6), trigger=uses(3)).json["usage"])
    shorter = total(ask(api, history(6), trigger=uses(3), clear_tool_inputs=True).json["usage"])
    assert shorter < plain


def test_inputs_are_cleared_for_the_tools_named(api: Api):
    names = ("look", "find")
    sizes = [
        total(ask(api, history(7, names), names, trigger=uses(3), clear_tool_inputs=which).json["usage"])
        for which in (False, [], ["find"], ["look", "find"], True)
    ]
    assert sizes[0] == sizes[1] > sizes[2] > sizes[3] == sizes[4]


def test_the_edit_fires_again_on_every_request(api: Api):
    first = applied(api, history(6), trigger=uses(3))
    assert applied(api, history(6), trigger=uses(3)) == first
    assert cleared(api, history(7), trigger=uses(3)) == 4


def test_parallel_calls_are_single_uses(api: Api):
    ids = [f"t{i}" for i in range(6)]
    turns = [user("go"), assistant(*[call(i) for i in ids]), user(*[result(i, WORDS) for i in ids])]
    assert cleared(api, turns, trigger=uses(5)) == 3


def test_count_tokens_counts_before_and_after(api: Api):
    turns = history(6)
    fields = {"tools": [tool()], "betas": EDITING}
    edits = {"edits": [{"type": KIND, "trigger": uses(3)}]}
    body = api.counted(*turns, **fields, context_management=edits).json
    answer = ask(api, turns, trigger=uses(3)).json
    assert body == {
        "input_tokens": total(answer["usage"]),
        "context_management": {"original_input_tokens": api.count(*turns, tools=[tool()])},
    }


def test_count_tokens_without_edits_says_nothing_of_them(api: Api):
    assert list(api.counted("hi").json) == ["input_tokens"]


@pytest.mark.parametrize(
    "edit",
    [
        {"type": "clear_everything"},
        {"type": KIND, "trigger": {"type": "output_tokens", "value": 5}},
        {"type": KIND, "trigger": {"type": "input_tokens", "value": "many"}},
        {"type": KIND, "keep": {"type": "input_tokens", "value": 5}},
        {"type": KIND, "keep": {"type": "tool_uses", "value": -1}},
        {"type": KIND, "clear_at_least": {"type": "tool_uses", "value": 5}},
        {"type": KIND, "exclude_tools": "look"},
        {"type": KIND, "clear_tool_inputs": "yes"},
        {"type": KIND, "surprise": 1},
        "clear",
    ],
    ids=str,
)
def test_a_wrong_edit_is_refused(api: Api, edit):
    words = api.refused("hi", context_management={"edits": [edit]}, betas=EDITING)
    assert words.startswith("context_management.edits.0")


def test_null_fields_are_defaults(api: Api):
    edits = applied(
        api, history(5), trigger=uses(3), clear_at_least=None, exclude_tools=None, clear_tool_inputs=None
    )
    assert edits[0]["cleared_tool_uses"] == 2


def test_the_history_that_is_sent_back_may_stay_whole(api: Api):
    api.script(text("fine")["text"])
    answer = ask(api, history(6), trigger=uses(3)).json
    turns = [*history(6), {"role": "assistant", "content": answer["content"]}, user("on")]
    assert cleared(api, turns, trigger=uses(3)) == 3
