"""The head of every prompt: what tools cost that nobody calls, and deferring them (EC-10)."""

import json
from decimal import Decimal

import pytest
from surfaces.desk import call, tool

from everturn.measure.money import format_dollars

OPUS = {"model": "claude-opus-4-5", "policy": "economic", "compact": {"strategies": ("extractive",)}}
DEFER = {**OPUS, "economy": {"defer_tools": True}}
SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def large(name, times=900):
    """A tool with a definition of some thousand tokens, or of fewer."""
    made = tool(name, lambda given: "done")
    return type(made)({**made.definition, "description": f"{name} does it. " * times}, made.run)


TOOLS = (tool("Read", lambda given: "done"), large("Deploy"), large("Paint"))


def work(desk, session, calls=12):
    """`calls` replies, each second one a call of Read."""
    desk.use_tool(session, calls // 2)


def deferred(body):
    return [each["name"] for each in body["tools"] if each.get("defer_loading")]


@pytest.mark.spec("EC-10")
def test_tools_that_were_never_called_are_named_with_their_cost(desk):
    with desk.open(**OPUS, tools=TOOLS) as session:
        work(desk, session, 4)
        head = {each.name: (each.calls, each.is_unused) for each in session.context().head}
        tokens = {each.name: each.tokens for each in session.context().head}
    assert head == {"Deploy": (0, True), "Paint": (0, True), "Read": (2, False)}
    printed = desk.everturn("context", desk.path, "--no-color").stdout
    cost = tokens["Deploy"] + tokens["Paint"]
    # 50 cents for a million tokens that are read.
    dollars = format_dollars(Decimal(4 * cost) * Decimal("0.5") / 1_000_000)
    said = f"Never called: 2 tools, {cost / 1000:.1f}k tokens in every prompt, {dollars} to read them"
    assert f"{said} 4 times" in printed
    told = json.loads(desk.everturn("context", desk.path, "--json").stdout)["head"]
    assert [(each["name"], each["tokens"], each["calls"]) for each in told] == [
        ("Deploy", tokens["Deploy"], 0),
        ("Paint", tokens["Paint"], 0),
        ("Read", tokens["Read"], 2),
    ]
    audited = desk.everturn("audit", desk.path, "--no-color").stdout
    assert said in audited
    each = json.loads(desk.everturn("audit", desk.path, "--json").stdout)["unused_tools"]
    assert [(tool["tool"], tool["prompts"], tool["dollars"]) for tool in each] == [
        (name, 4, pytest.approx(4 * tokens[name] * 0.5 / 1_000_000)) for name in ("Deploy", "Paint")
    ]


@pytest.mark.spec("EC-10")
@pytest.mark.moves_cache_prefix(reason="the head changes while nothing is cached")
def test_they_are_deferred_once_when_the_cache_is_cold_and_that_is_cheaper(desk):
    with desk.open(**DEFER, tools=TOOLS) as session:
        work(desk, session)
        assert all(deferred(body) == [] for body in desk.bodies)
        before = desk.twin.ledger[-1]["usage"]
        desk.twin.advance(301)
        desk.twin.script("Well.")
        session.send("Go on.")
        [decision] = [each for each in session.context().decisions if each.kind == "tools"]
    after = desk.twin.ledger[-1]["usage"]
    assert deferred(desk.bodies[-1]) == ["Deploy", "Paint"]
    assert {**SEARCH, "cache_control": {"type": "ephemeral"}} in desk.bodies[-1]["tools"]
    saved = sum(before[each] for each in before if each.startswith("cache_") and each.endswith("_tokens"))
    assert (
        sum(after[each] for each in after if each.startswith("cache_") and each.endswith("_tokens"))
        < saved / 2
    )
    [event] = desk.heard("ToolsDeferred")
    assert (event.tools, decision.done, decision.why) == (2, True, event.why)
    [line] = [each for each in desk.lines() if each.get("subtype") == "everturn_event"]
    assert line["everturnEvent"]["why"] == event.why
    assert event.why.startswith("2 of 3 tools were not called in 12 calls: their ")
    assert decision.cost < decision.expected
    # And stays so after a restart, byte for byte.
    again = desk.send_once(**DEFER, tools=TOOLS)
    assert again["tools"] == desk.bodies[-2]["tools"]
    assert len(desk.heard("ToolsDeferred")) == 1


@pytest.mark.spec("EC-10")
@pytest.mark.moves_cache_prefix(reason="the head changes while nothing is cached")
def test_the_model_finds_a_deferred_tool_and_the_session_runs_it(desk):
    with desk.open(**DEFER, tools=TOOLS) as session:
        work(desk, session)
        desk.twin.advance(301)
        found = {"type": "tool_reference", "tool_name": "Paint"}
        search = {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": SEARCH["name"],
            "input": {"query": "p"},
        }
        result = {
            "type": "tool_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {"type": "tool_search_tool_search_result", "tool_references": [found]},
        }
        desk.twin.script(
            {"content": [search, result, call("toolu_p", "Paint", file_path="a.py")]}, "Painted."
        )
        reply = session.send("Paint it.")
        head = {each.name: each.calls for each in session.context().head}
    assert reply.text == "Painted."
    assert head["Paint"] == 1
    assert [row["status"] for row in desk.twin.ledger[-2:]] == [200, 200]


@pytest.mark.spec("EC-10")
def test_they_are_kept_where_deferring_is_dearer_and_where_it_is_not_switched_on(desk):
    small = (tool("Read", lambda given: "done"), tool("Deploy", lambda given: "done"))
    with desk.open(**DEFER, tools=small) as session:
        work(desk, session)
        desk.twin.advance(301)
        desk.use_tool(session, 1, first=20)
        [decision] = [each for each in session.context().decisions if each.kind == "tools"]
    assert (decision.label, decision.done) == ("tools not deferred", False)
    assert decision.cost > decision.expected
    desk.path = desk.folder / "other.jsonl"
    with desk.open(**OPUS, tools=TOOLS) as session:
        work(desk, session)
        desk.twin.advance(301)
        desk.use_tool(session, 1, first=40)
    assert all(deferred(body) == [] for body in desk.bodies)


@pytest.mark.spec("EC-10")
@pytest.mark.moves_cache_prefix(reason="the head changes while nothing is cached")
def test_what_was_not_worth_deferring_early_is_weighed_again_after_more_calls(desk):
    tools = (tool("Read", lambda given: "done"), *(large(name, 110) for name in ("Deploy", "Paint")))
    decided = []
    with desk.open(**DEFER, tools=tools) as session:
        for number in range(3):
            desk.use_tool(session, 6, first=10 * number)
            desk.twin.advance(301)
            desk.use_tool(session, 1, first=10 * number + 9)
            *_, decision = (each for each in session.context().decisions if each.kind == "tools")
            decided.append((decision.label, decision.cost < decision.expected))
    assert decided == [("tools not deferred", False), *[("tools deferred", True)] * 2]
    assert len(desk.heard("ToolsDeferred")) == 1
    assert deferred(desk.bodies[-1]) == ["Deploy", "Paint"]


@pytest.mark.spec("EC-10")
@pytest.mark.moves_cache_prefix(reason="the head changes while nothing is cached")
def test_a_long_conversation_with_many_tools_that_nobody_calls_is_cheaper_with_deferring(desk):
    unused = [f"Deploy{number}" for number in range(8)]
    tools = (tool("Read", lambda given: "done"), *map(large, unused))
    spent = {}
    for name, options in (("deferred", DEFER), ("kept", OPUS)):
        desk.path, before = desk.folder / f"{name}.jsonl", len(desk.twin.ledger)
        with desk.open(**options, tools=tools) as session:
            work(desk, session)
            desk.twin.advance(301)
            desk.use_tool(session, 20, first=20)
            bill = session.bill
        spent[name] = sum(row["dollars"] for row in desk.twin.ledger[before:])
        assert float(bill.dollars) == pytest.approx(spent[name])
        assert deferred(desk.bodies[-1]) == (unused if name == "deferred" else [])
        # Half an hour later the provider has forgotten the conversation before.
        desk.twin.advance(1_800)
    assert spent["deferred"] < spent["kept"] / 2
