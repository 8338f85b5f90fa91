"""Old tool results give way (MC)."""

import json

import pytest
from surfaces.desk import SUMMARY, assistant_line, call, result, text, tool, user_line

from everturn.decide.options import Options
from everturn.decide.settings import BudgetSettings, DeclarativeSettings, MicroSettings
from everturn.decide.tools import ToolKinds
from everturn.measure.capabilities import EXTENDED_TWIN, PLAIN

CLEARED = "[Old tool result content cleared]"
CODE = "line of code\n" * 400
READ = tool("Read", lambda given: CODE)
ASK = tool("AskUserQuestion", lambda given: CODE)


def results(body):
    """The results that a request carries, by the id of their call."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    return {block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"}


def cleared(body):
    return [name for name, content in results(body).items() if CLEARED in json.dumps(content)]


@pytest.mark.spec("MC-3", "MC-6", "MC-7")
def test_an_hour_of_silence_clears_all_but_the_newest_five_results(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 8)
        before = desk.path.read_bytes()
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    assert cleared(desk.bodies[-1]) == [f"toolu_Read_{n}" for n in range(3)]
    calls = [
        block["id"]
        for message in desk.bodies[-1]["messages"]
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    assert calls == [f"toolu_Read_{n}" for n in range(8)]
    assert desk.path.read_bytes().startswith(before)
    [event] = desk.heard("MicroCompacted")
    assert (event.kind, event.results) == ("time", 3)
    assert event.tokens_saved == event.tokens_before - event.tokens_after > 3_000


@pytest.mark.spec("MC-6")
def test_an_hour_exactly_clears_nothing(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_600)
        desk.talk(session, 1)
    assert cleared(desk.bodies[-1]) == []


@pytest.mark.spec("MC-6")
def test_a_sub_agent_is_not_cleared_by_time(desk):
    with desk.open(tools=[READ], source="agent:explore") as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    assert cleared(desk.bodies[-1]) == []


@pytest.mark.spec("MC-6")
@pytest.mark.parametrize("stamp", ["2027-01-01T00:00:00.000Z", "yesterday"])
def test_a_clock_that_goes_backwards_or_cannot_be_read_clears_nothing(desk, stamp):
    lines = [user_line("Read them.")]
    for n in range(8):
        lines.append(assistant_line(call(f"toolu_{n}", file_path="a"), id=f"msg_{n}", timestamp=stamp))
        lines.append(user_line([result(f"toolu_{n}", CODE)], timestamp=stamp))
    desk.write(*lines, assistant_line(text("Done."), id="msg_9", timestamp=stamp))
    assert cleared(desk.send_once(tools=[READ])) == []


@pytest.mark.spec("MC-3", "PC-17")
def test_what_was_cleared_stays_cleared_in_the_same_bytes_and_is_not_counted_again(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    first, second = ({name: results(body)[name] for name in cleared(body)} for body in desk.bodies[-2:])
    assert json.dumps(first) == json.dumps(second)
    assert len(desk.heard("MicroCompacted")) == 1


@pytest.mark.spec("MC-2")
def test_results_that_cannot_be_had_again_are_kept_and_own_tools_are_sorted_by_pattern(desk):
    own = tool("fetch_rows", lambda given: CODE)
    kinds = ToolKinds(reproducible=("fetch_*",))
    with desk.open(tools=[ASK, own], options=Options(tools=kinds)) as session:
        desk.use_tool(session, 6, "AskUserQuestion")
        desk.use_tool(session, 7, "fetch_rows")
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    assert cleared(desk.bodies[-1]) == ["toolu_fetch_rows_0", "toolu_fetch_rows_1"]


@pytest.mark.spec("MC-1", "MC-12")
def test_in_a_turn_after_an_idle_hour_nothing_is_deleted_in_the_cache(extended_desk):
    desk = extended_desk
    with desk.open(tools=[READ], capabilities=EXTENDED_TWIN) as session:
        desk.use_tool(session, 13)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
        desk.talk(session, 1)
    assert [event.kind for event in desk.heard("MicroCompacted")] == ["cached", "time"]
    # The edits of the old cache are gone with it.
    assert "cache_edits" in json.dumps(desk.bodies[-3])
    assert "cache_edits" not in json.dumps(desk.bodies[-1])
    assert len(cleared(desk.bodies[-1])) == 8


@pytest.mark.spec("MC-12")
def test_a_sub_agent_deletes_nothing_in_the_cache(extended_desk):
    with extended_desk.open(tools=[READ], capabilities=EXTENDED_TWIN, source="agent:explore") as session:
        extended_desk.use_tool(session, 14)
    assert all("cache_edits" not in json.dumps(body) for body in extended_desk.bodies)


@pytest.mark.spec("MC-12")
def test_a_compaction_ends_the_deletions(extended_desk):
    desk = extended_desk
    with desk.open(tools=[READ], capabilities=EXTENDED_TWIN) as session:
        desk.use_tool(session, 13)
        assert "cache_edits" in json.dumps(desk.bodies[-1])
        desk.twin.script(SUMMARY)
        session.compact()
        desk.use_tool(session, 2, first=20)
    assert "cache_edits" not in json.dumps(desk.bodies[-1])


@pytest.mark.spec("MC-9", "OV-4")
def test_a_provider_that_cannot_delete_is_never_asked_to(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 14)
    assert all("cache_edits" not in json.dumps(body) for body in desk.bodies)
    assert all("cache_reference" not in json.dumps(body) for body in desk.bodies)


# ── by the API itself ────────────────────────────────────────────────────────────────────────────


def test_all_thinking_is_kept_while_the_session_is_in_use(desk):
    body = desk.send_once(thinking={"type": "enabled", "budget_tokens": 2_000})
    assert body["context_management"] == {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}


@pytest.mark.spec("MC-14")
def test_tool_results_and_inputs_are_declared_with_their_numbers_each_by_its_switch(desk):
    def edits(**switches):
        micro = MicroSettings(declarative=DeclarativeSettings(thinking=False, **switches))
        body = desk.send_once(tools=[READ, tool("Write")], options=Options(micro=micro))
        return body.get("context_management", {}).get("edits", [])

    numbers = {
        "trigger": {"type": "input_tokens", "value": 180_000},
        "clear_at_least": {"type": "input_tokens", "value": 140_000},
    }
    assert edits() == []
    [only_results] = edits(tool_results=True)
    [only_inputs] = edits(tool_inputs=True)
    for edit in (only_results, only_inputs):
        assert edit["type"] == "clear_tool_uses_20250919"
        assert {name: edit[name] for name in numbers} == numbers
    assert "clear_tool_inputs" not in only_results
    assert only_inputs["clear_tool_inputs"] == ["Write"]


@pytest.mark.spec("MC-14", "OV-4")
def test_a_provider_without_context_editing_is_declared_nothing(desk):
    micro = MicroSettings(declarative=DeclarativeSettings(tool_results=True))
    body = desk.send_once(tools=[READ], options=Options(micro=micro), capabilities=PLAIN)
    assert "context_management" not in body
    assert "cache_control" not in json.dumps(body)


# ── by size ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MC-16", "OV-4")
def test_without_a_cache_results_beyond_the_budget_are_cleared_except_the_last_three(desk):
    with desk.open(tools=[READ], capabilities=PLAIN) as session:
        desk.use_tool(session, 50)
    # 1,300 tokens each: 40,000 are reached by 31, and at least 20,000 must be saved.
    events = desk.heard("MicroCompacted")
    assert {event.kind for event in events} == {"budget"}
    assert all(event.tokens_saved >= 20_000 for event in events)
    kept = [name for name in results(desk.bodies[-1]) if name not in cleared(desk.bodies[-1])]
    assert kept[-3:] == [f"toolu_Read_{n}" for n in (47, 48, 49)]
    assert cleared(desk.bodies[-1])[0] == "toolu_Read_0"


@pytest.mark.spec("MC-16", "CF-3")
def test_frugal_clears_by_size_where_claude_code_keeps_the_cache(desk):
    micro = MicroSettings(budget=BudgetSettings(tokens=8_000, save_at_least=4_000, where="everywhere"))
    with desk.open(tools=[READ], options=Options(policy="frugal", micro=micro)) as session:
        desk.use_tool(session, 12)
    assert {event.kind for event in desk.heard("MicroCompacted")} == {"budget"}


# ── large results ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MC-17")
def test_a_result_that_is_too_large_goes_to_a_file_and_stays_so(desk):
    large = tool("Bash", lambda given: "output\n" * 10_000)
    with desk.open(tools=[large]) as session:
        desk.use_tool(session, 1, "Bash")
        desk.talk(session, 1)
    [file] = [path for path in desk.folder.rglob("*") if path.is_file() and path.stat().st_size == 70_000]
    assert file.read_text() == "output\n" * 10_000
    shown = [json.dumps(results(body)["toolu_Bash_0"]) for body in desk.bodies[1:]]
    assert str(file) in shown[0]
    assert len(shown[0]) < 4_000
    assert set(shown) == {shown[0]}


@pytest.mark.spec("MC-17")
def test_results_of_one_message_share_a_limit_and_the_largest_go_first(desk):
    sizes = {"a": 49_000, "b": 48_000, "c": 47_000, "d": 46_000, "e": 45_000}
    bash = tool("Bash", lambda given: "x" * sizes[given["file_path"]])
    desk.twin.script({"content": [call(f"toolu_{name}", "Bash", file_path=name) for name in sizes]}, "Done.")
    with desk.open(tools=[bash]) as session:
        session.send("Run all of them.")
    lengths = {name: len(json.dumps(content)) for name, content in results(desk.bodies[-1]).items()}
    assert lengths["toolu_a"] < 4_000
    assert {name for name, length in lengths.items() if length > 40_000} == {f"toolu_{n}" for n in "bcde"}
