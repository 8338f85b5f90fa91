"""Context editing: what is cleared, what is reported, and the effect on the cache."""

import pytest
from twin.asking import EDITING, FIVE, Desk, assistant, call, result, text, tool, user

from everturn.twin.options import TwinOptions

TOOLS = [tool("look"), tool("write")]
OPTIONS = TwinOptions(min_cache={"claude-opus-5": 0}, cleared_placeholder="gone")


def talk(uses: int, size: int = 250) -> list:
    """A prompt, then one call and one result per step of the tool loop."""
    messages = [user("go")]
    for n in range(uses):
        messages += [assistant(call(f"toolu_{n}", "write" if n % 2 else "look", path="x" * 50))]
        messages += [user(result(f"toolu_{n}", "y" * size))]
    return messages


def edit(**fields) -> dict:
    fields = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 2}} | fields
    return {"context_management": {"edits": [fields]}, "betas": EDITING, "tools": TOOLS}


def applied(desk: Desk, **body) -> list:
    return desk.ask(**body)["context_management"]["applied_edits"]


# 250 characters at 2.5 per token, against "gone".
SAVED = 100 - 2


@pytest.mark.spec("TW-4")
@pytest.mark.parametrize(
    ("fields", "cleared", "tokens"),
    [
        ({"keep": {"type": "tool_uses", "value": 1}}, 4, 4 * SAVED),
        ({}, 2, 2 * SAVED),
        ({"trigger": {"type": "tool_uses", "value": 5}}, None, None),
        ({"trigger": {"type": "tool_uses", "value": 4}}, 2, 2 * SAVED),
        ({"trigger": {"type": "input_tokens", "value": 100_000}}, None, None),
        ({"trigger": {"type": "input_tokens", "value": 100}}, 2, 2 * SAVED),
        ({"exclude_tools": ["look"]}, 1, SAVED),
        ({"exclude_tools": ["look", "write"]}, None, None),
        ({"clear_at_least": {"type": "input_tokens", "value": 2 * SAVED}}, 2, 2 * SAVED),
        ({"clear_at_least": {"type": "input_tokens", "value": 2 * SAVED + 1}}, None, None),
        # `{"path":"xx..."}` is 61 characters, `{}` is 2.
        ({"clear_tool_inputs": True}, 2, 2 * (SAVED + 25 - 1)),
        ({"clear_tool_inputs": ["write"]}, 2, 2 * SAVED + 25 - 1),
    ],
)
def test_old_tool_results_are_cleared(fields, cleared, tokens):
    told = applied(Desk(OPTIONS), messages=talk(5), **edit(**fields))
    wanted = {
        "type": "clear_tool_uses_20250919",
        "cleared_tool_uses": cleared,
        "cleared_input_tokens": tokens,
    }
    assert told == ([] if cleared is None else [wanted])


@pytest.mark.spec("TW-4")
def test_the_defaults_are_100_000_tokens_and_three_uses():
    options = TwinOptions(counter=lambda block, model: 20_000 if block.kind == "tool_result" else 0)
    body = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}, "betas": EDITING}
    assert applied(Desk(options), messages=talk(4), tools=TOOLS, **body) == []
    # The four other blocks of five uses and the hidden prompt push it over 100,000.
    assert applied(Desk(options), messages=talk(5), tools=TOOLS, **body)[0]["cleared_tool_uses"] == 2


@pytest.mark.spec("TW-4")
def test_clearing_breaks_the_cache_from_the_first_cleared_block():
    desk = Desk(OPTIONS)
    messages = talk(3)
    messages[0] = user(text("go", FIVE))
    messages[-1]["content"][0]["cache_control"] = FIVE
    desk.ask(messages=messages, tools=TOOLS)
    opening, whole = (entry["tokens"] for entry in desk.last()["cache"]["written"])
    read, _, written, _ = desk.usage(messages=messages, **edit(keep={"type": "tool_uses", "value": 1}))
    assert (read, written) == (opening, whole - opening - 2 * SAVED)
    assert desk.last()["applied_edits"][0]["cleared_tool_uses"] == 2
    # The same edit gives the same prompt, so the cache entry is read.
    assert desk.usage(messages=messages, **edit(keep={"type": "tool_uses", "value": 1}))[0] == read + written


@pytest.mark.spec("TW-4")
def test_count_tokens_reports_the_size_before_and_after_the_edits():
    desk = Desk(OPTIONS)
    plain = desk.ask(endpoint="count_tokens", messages=talk(5), tools=TOOLS)["input_tokens"]
    assert desk.ask(endpoint="count_tokens", messages=talk(5), **edit()) == {
        "input_tokens": plain - 2 * SAVED,
        "context_management": {"original_input_tokens": plain},
    }


def thinking_talk(desk: Desk, turns: int) -> list:
    """Turns of a prompt and a reply with thinking, as signed by the twin."""
    messages = []
    for n in range(turns):
        messages.append(user(f"question {n}"))
        desk.script([{"type": "thinking", "thinking": "t" * 100}, text(f"answer {n}")])
        said = desk.ask(messages=messages, thinking={"type": "adaptive", "display": "summarized"})["content"]
        messages.append({"role": "assistant", "content": said})
    return [*messages, user("and now")]


@pytest.mark.spec("TW-4")
@pytest.mark.parametrize(
    ("keep", "cleared"),
    [
        ({"type": "thinking_turns", "value": 1}, 2),
        ({"type": "thinking_turns", "value": 2}, 1),
        ({"type": "thinking_turns", "value": 9}, 0),
        ({"type": "all"}, 0),
        ("all", 0),
        (None, 0),
    ],
)
def test_old_thinking_is_cleared_except_in_the_last_turns(keep, cleared):
    desk = Desk(OPTIONS)
    messages = thinking_talk(desk, 3)
    fields = {"type": "clear_thinking_20251015"} | ({} if keep is None else {"keep": keep})
    told = applied(
        desk,
        messages=messages,
        thinking={"type": "adaptive"},
        betas=EDITING,
        context_management={"edits": [fields]},
    )
    wanted = {
        "type": "clear_thinking_20251015",
        "cleared_thinking_turns": cleared,
        "cleared_input_tokens": cleared * 40,
    }
    assert told == ([wanted] if cleared else [])


@pytest.mark.spec("TW-4")
def test_both_edits_run_thinking_first_and_are_reported_in_that_order():
    desk = Desk(OPTIONS)
    messages = thinking_talk(desk, 2)
    loop = [assistant(call("toolu_a")), user(result("toolu_a", "z" * 250))]
    loop += [assistant(call("toolu_b")), user(result("toolu_b", "z" * 250))]
    edits = [
        {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}},
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "tool_uses", "value": 1},
            "keep": {"type": "tool_uses", "value": 1},
        },
    ]
    told = applied(
        desk,
        messages=[*messages, *loop],
        tools=TOOLS,
        thinking={"type": "adaptive"},
        betas=EDITING,
        context_management={"edits": edits},
    )
    assert told == [
        {"type": "clear_thinking_20251015", "cleared_thinking_turns": 1, "cleared_input_tokens": 40},
        {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 1, "cleared_input_tokens": SAVED},
    ]
