"""Broken turns: what is put in, what is renamed, what is shown as text, and that each is reported."""

import pytest

from everturn.history.blocks import Block, block_from_fields, result_block, text_block
from everturn.history.repair import NO_RESULT, Repair, distinct_calls, end_server_calls, pair_results


def call(name: str, **inputs: object) -> Block:
    return block_from_fields({"type": "tool_use", "id": name, "name": "N", "input": inputs})


def test_calls_with_ids_of_their_own_are_left_alone():
    repairs: list[Repair] = []
    blocks = [text_block("x"), call("a"), call("b")]
    assert distinct_calls(blocks, {}, repairs) == blocks
    assert repairs == []


@pytest.mark.spec("TR-11")
def test_a_call_id_that_was_used_before_gets_a_derived_one():
    repairs: list[Repair] = []
    used = {"a": 1, "a-2": 1}
    assert distinct_calls([call("a"), call("")], used, repairs) == [call("a-3"), call("toolu_unnamed-2")]
    assert [(repair.kind, repair.where) for repair in repairs] == [
        ("repeated_call", "a"),
        ("repeated_call", ""),
    ]


def test_the_same_call_recorded_twice_is_one_call():
    repairs: list[Repair] = []
    found = distinct_calls([call("a", x=1), call("a", x=2), call("a", x=1)], {}, repairs)
    assert found == [call("a", x=1), call("a-2", x=2)]
    assert [repair.kind for repair in repairs] == ["repeated_call", "repeated_block"]


@pytest.mark.spec("TR-11")
def test_every_call_gets_exactly_one_result_and_the_rest_is_text():
    repairs: list[Repair] = []
    given = [
        result_block("b", "B"),
        result_block("b", "again"),
        result_block("z", "lost"),
        result_block("", "?"),
    ]
    results, strays = pair_results([call("a"), call("b")], given, ["a", "b"], repairs)
    assert results == [result_block("b", "B"), result_block("a", NO_RESULT, is_error=True)]
    assert strays == [
        text_block("[A second result of tool call b]\nagain"),
        text_block("[A result without tool call z]\nlost"),
        text_block("[A result without tool call (no id)]\n?"),
    ]
    assert repairs == [
        Repair("repeated_result", "b", "a second result of its call is shown as text"),
        Repair("orphan_result", "z", "a result without its call is shown as text"),
        Repair("orphan_result", "", "a result without its call is shown as text"),
        Repair("missing_result", "a", "a call without a result got a placeholder"),
    ]


def test_results_of_renamed_calls_find_them_by_position():
    results, strays = pair_results(
        [call("a"), call("a-2")], [result_block("a", "first"), result_block("a", "second")], ["a", "a"], []
    )
    assert (results, strays) == ([result_block("a", "first"), result_block("a-2", "second")], [])


def test_calls_of_the_provider_s_tools_without_a_result_get_an_error_before_calls_of_ours():
    def server(name: str, tool: str, kind: str = "server_tool_use") -> Block:
        return block_from_fields({"type": kind, "id": name, "name": tool, "input": {}})

    def ended(name: str, kind: str) -> Block:
        error = {"type": f"{kind}_error", "error_code": "unavailable"}
        return block_from_fields({"type": kind, "tool_use_id": name, "content": error})

    search, find = server("s1", "web_search"), server("s2", "tool_search_tool_regex")
    remote = server("s3", "ask", "mcp_tool_use")
    answered = [server("s4", "web_fetch"), ended("s4", "web_fetch_tool_result")]
    failed = {"type": "mcp_tool_result", "tool_use_id": "s3", "is_error": True, "content": NO_RESULT}
    repairs: list[Repair] = []
    assert end_server_calls([search, find, remote, *answered, call("a"), call("b")], repairs) == [
        search,
        find,
        remote,
        *answered,
        ended("s1", "web_search_tool_result"),
        ended("s2", "tool_search_tool_result"),
        block_from_fields(failed),
        call("a"),
        call("b"),
    ]
    what = "a call of the provider's own tool without a result got an error"
    assert repairs == [Repair("server_call", name, what) for name in ("s1", "s2", "s3")]
    assert end_server_calls([*answered, call("a")], repairs) == [*answered, call("a")]
    assert end_server_calls([text_block("x"), search], []) == [
        text_block("x"), search, ended("s1", "web_search_tool_result"),
    ]  # fmt: skip


def test_a_result_without_its_call_is_told_with_its_pictures_and_what_else_it_holds():
    parts = [
        {"type": "text", "text": "seen"},
        {"type": "image", "source": {}},
        {"type": "tool_reference", "tool_name": "N"},
        {"type": "document", "source": {}},
        {"type": "search_result", "title": "t"},
    ]
    stray = block_from_fields({"type": "tool_result", "tool_use_id": "z", "content": parts})
    results, strays = pair_results([], [stray, result_block("y", "")], [], [])
    told = '[A result without tool call z]\nseen\n{"type":"tool_reference","tool_name":"N"}'
    assert results == []
    assert strays == [
        text_block(told),
        *(block_from_fields(parts[at]) for at in (1, 3, 4)),
        text_block("[A result without tool call y]"),
    ]


def test_repeated_calls_are_numbered_and_each_repair_says_the_new_id():
    repairs: list[Repair] = []
    used: dict[str, int] = {}
    first = distinct_calls([call("a"), text_block("x")], used, repairs)
    second = distinct_calls([call("a", n=1), call("a", n=2), call("a", n=1), call("", n=1)], used, repairs)
    third = distinct_calls([call("a"), call("", n=2)], used, repairs)
    assert first == [call("a"), text_block("x")]
    assert second == [call("a-2", n=1), call("a-3", n=2), call("toolu_unnamed-2", n=1)]
    assert third == [call("a-4"), call("toolu_unnamed-3", n=2)]
    assert repairs == [
        Repair("repeated_call", "a", "a second call with this id is now a-2"),
        Repair("repeated_call", "a", "a second call with this id is now a-3"),
        Repair("repeated_block", "a", "the same call was recorded twice"),
        Repair("repeated_call", "", "a second call with this id is now toolu_unnamed-2"),
        Repair("repeated_call", "a", "a second call with this id is now a-4"),
        Repair("repeated_call", "", "a second call with this id is now toolu_unnamed-3"),
    ]


def test_a_call_of_the_provider_s_tool_without_id_and_name_gets_an_error_too():
    bare = block_from_fields({"type": "server_tool_use"})
    repairs: list[Repair] = []
    error = {"type": "_tool_result_error", "error_code": "unavailable"}
    ended = {"type": "_tool_result", "tool_use_id": "", "content": error}
    assert end_server_calls([bare], repairs) == [bare, block_from_fields(ended)]
    assert [(each.kind, each.where) for each in repairs] == [("server_call", "")]
