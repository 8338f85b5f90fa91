"""What the prompt cache reads and writes, in tokens that count_tokens confirms."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from conformance.api import (
    FIVE,
    HOUR,
    MODEL,
    Api,
    assistant,
    call,
    long,
    marked,
    result,
    text,
    tool,
    user,
)

pytestmark = pytest.mark.spec("TW-2")
TAIL = range(2, 5)
MINIMUM = {
    "claude-opus-5-5": 512,
    "claude-opus-5": 512,
    "claude-fable-5-1": 512,
    "claude-fable-5": 512,
    "claude-haiku-5-5": 512,
    "claude-fable-5-2": 512,
    "claude-opus-4-8": 1024,
    "claude-sonnet-5": 1024,
    "claude-sonnet-5-5": 1024,
    "claude-sonnet-4-6": 1024,
    "claude-sonnet-4-5": 1024,
    "claude-opus-4-7": 2048,
    "claude-opus-4-6": 4096,
    "claude-opus-4-5": 4096,
    "claude-haiku-4-5": 4096,
}


def test_nothing_is_cached_without_a_marker(api: Api):
    request = [user(long("a"))]
    for _ in range(2):
        assert api.read_write_plain(*request) == (0, 0, api.count(*request))


def test_a_prefix_is_written_once_and_then_read(api: Api):
    request = [user(long("a", marker=FIVE))]
    total = api.count(*request)
    read, written, plain = api.read_write_plain(*request)
    assert (read, written + plain) == (0, total)
    assert plain in TAIL
    assert api.read_write_plain(*request) == (written, 0, plain)


def test_the_three_parts_always_make_up_the_count(api: Api):
    request = [user(long("a", marker=FIVE), "and more"), assistant("yes"), user("go on", long("b"))]
    system = [long("s", marker=HOUR)]
    for _ in range(2):
        parts = api.read_write_plain(*request, system=system, tools=[tool()])
        assert sum(parts) == api.count(*request, system=system, tools=[tool()])


def test_what_follows_the_last_marker_is_plain_input(api: Api):
    bare = api.count("x")
    tail = api.count("x", "y" * 1000) - bare
    _, written, plain = api.read_write_plain(user(long("a", marker=FIVE), "y" * 1000))
    _, _, shorter = api.read_write_plain(user(long("b", marker=FIVE)))
    assert abs((plain - shorter) - tail) <= 4
    assert written > 512


def test_a_prefix_weighs_what_its_absence_takes_away(api: Api):
    """Tools, their hidden prompt and the system text: all of it is in the tokens at the system's marker."""
    fields = {"tools": [tool(description="d" * 3000)], "system": [long("s", marker=FIVE)]}
    written = api.usage("hi", **fields)["cache_creation_input_tokens"]
    assert written == api.count("hi", **fields) - api.count("hi")


def test_neighbours_of_one_role_are_one_message_to_the_cache(api: Api):
    written = api.usage(user(long("m"), text("b", FIVE)))["cache_creation_input_tokens"]
    assert api.read_write_plain(user(long("m")), user(text("b", FIVE)))[:2] == (written, 0)


def test_of_many_at_once_each_workspace_writes_once(api: Api):
    def ask(number: int) -> bool:
        usage = api.as_key(f"key-{number % 4}").usage(user(long("same", marker=FIVE)))
        return usage["cache_creation_input_tokens"] > 0

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(ask, range(32))) == 4
    assert len(api.ledger()) == 32


def test_a_growing_conversation_reads_what_it_read_and_wrote(api: Api):
    turns = [user(long("a"))]
    last = (0, 0)
    for n in range(6):
        read, written, _ = api.read_write_plain(*turns, cache_control=FIVE)
        assert read == sum(last)
        assert written > 0
        last = (read, written)
        turns += [assistant(f"answer {n}"), user(f"question {n}")]


@pytest.mark.parametrize(("model", "minimum"), MINIMUM.items())
def test_a_prefix_below_the_models_minimum_is_not_cached(api: Api, model: str, minimum: int):
    """The prefix is grown to lie just below, then at least at, the minimum."""

    def prefix(chars: int) -> tuple[list[dict[str, object]], int]:
        turns = [user(text("w" * chars, FIVE))]
        return turns, api.count(*turns, model=model) - 3

    low, high = 1, 40_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if prefix(middle)[1] < minimum else (low, middle)
    below, enough = prefix(low)[0], prefix(high)[0]
    assert api.read_write_plain(*below, model=model)[:2] == (0, 0)
    assert api.read_write_plain(*below, model=model)[:2] == (0, 0)
    written = api.read_write_plain(*enough, model=model)[1]
    assert written >= minimum
    assert api.read_write_plain(*enough, model=model)[0] == written


def test_the_minimum_counts_the_whole_prefix(api: Api):
    """A short system text is cacheable when the tools before it are long."""
    tools = [tool(description="d" * 3000)]
    system = [text("Be brief.", FIVE)]
    written = api.read_write_plain("hi", system=system, tools=tools)[1]
    assert written > 512
    assert api.read_write_plain("ho", system=system, tools=tools)[0] == written


def test_tools_come_before_system_and_system_before_messages(api: Api):
    tools = [tool(description="d" * 3000, cache_control=FIVE)]
    system = [long("s", marker=FIVE)]
    turns = [user(long("m", marker=FIVE))]
    api.usage(*turns, tools=tools, system=system)
    written = {e["tokens"] for e in api.ledger()[-1]["cache"]["written"]}
    only_tools = api.read_write_plain("other", tools=tools, system=[long("z", marker=FIVE)])[0]
    tools_and_system = api.read_write_plain("other", tools=tools, system=system)[0]
    everything = api.read_write_plain(*turns, tools=tools, system=system)[0]
    assert only_tools < tools_and_system < everything
    assert {only_tools, tools_and_system, everything} == written


def test_a_marker_is_not_part_of_the_key(api: Api):
    api.usage(user(long("a", marker=FIVE)))
    turns = [user(long("a"), text("more", FIVE))]
    assert api.read_write_plain(*turns)[0] > 0


def test_string_content_is_one_text_block(api: Api):
    words = "word " * 800
    api.usage({"role": "user", "content": words}, assistant("ok"), user(text("q", FIVE)))
    assert api.read_write_plain(user(text(words)), assistant("ok"), user(text("q", FIVE)))[1] == 0


def test_a_string_system_is_one_text_block(api: Api):
    words = "word " * 800
    api.usage(user(text("q", FIVE)), system=words)
    assert api.read_write_plain(user(text("q", FIVE)), system=[text(words)])[1] == 0


def test_one_changed_byte_is_a_miss(api: Api):
    api.usage(user(text("w" * 3000 + "a", FIVE)))
    assert api.read_write_plain(user(text("w" * 3000 + "b", FIVE)))[0] == 0


def test_the_key_order_of_a_tools_input_matters(api: Api):
    def turns(input: dict[str, int]) -> list[object]:
        used = {"type": "tool_use", "id": "t1", "name": "look", "input": input}
        return [user(long("a", marker=FIVE)), assistant(used), user(marked(result("t1")))]

    first = api.usage(*turns({"a": 1, "b": 2}), tools=[tool()])
    again = api.read_write_plain(*turns({"b": 2, "a": 1}), tools=[tool()])
    assert 0 < again[0] < first["cache_creation_input_tokens"]


def test_the_response_is_not_cached_until_it_is_sent_back(api: Api):
    api.script("An answer of many words. " * 40)
    turns = [user(long("a"))]
    first = api.reply(*turns, cache_control=FIVE)
    turns += [{"role": "assistant", "content": first["content"]}, user("next")]
    read, written, _ = api.read_write_plain(*turns, cache_control=FIVE)
    assert read == first["usage"]["cache_creation_input_tokens"]
    assert written > 200


# The lookback


def blocks_to(n: int, marked_at: int) -> list[object]:
    """One user message of `n` blocks, the first of them long, with a marker on one (counted from 1)."""
    blocks = [long("start")] + [text(f"block {i}") for i in range(2, n + 1)]
    blocks[marked_at - 1] = marked(blocks[marked_at - 1])
    return [{"role": "user", "content": blocks}]


@pytest.mark.parametrize(("second", "hits"), [(34, True), (35, False), (15, True), (20, True), (50, False)])
def test_an_entry_at_15_is_seen_from_34_and_not_from_35(api: Api, second: int, hits: bool):
    written = api.usage(*blocks_to(15, 15))["cache_creation_input_tokens"]
    read = api.read_write_plain(*blocks_to(second, second))[0]
    assert read == (written if hits else 0)


def test_a_second_marker_has_a_window_of_its_own(api: Api):
    written = api.usage(*blocks_to(15, 15))["cache_creation_input_tokens"]
    turns = blocks_to(50, 50)
    turns[0]["content"][29] = marked(turns[0]["content"][29])
    assert api.read_write_plain(*turns)[0] == written


def test_positions_between_markers_have_no_entries(api: Api):
    api.usage(*blocks_to(30, 30))
    assert api.read_write_plain(*blocks_to(20, 20))[0] == 0


def calls_and_results(n: int, label: str = "t") -> list[object]:
    ids = [f"{label}{i}" for i in range(n)]
    return [assistant(*[call(i) for i in ids]), user(*[result(i) for i in ids])]


@pytest.mark.parametrize("calls", [1, 19, 40])
def test_a_run_of_tool_calls_and_of_results_is_one_position_each(api: Api, calls: int):
    head = [user(long("a", marker=FIVE))]
    written = api.usage(*head, tools=[tool()])["cache_creation_input_tokens"]
    turns = [user(long("a")), *calls_and_results(calls), assistant("so"), user(text("next", FIVE))]
    assert api.read_write_plain(*turns, tools=[tool()])[0] == written


def test_runs_count_once_in_the_window_and_not_for_free(api: Api):
    """Nine rounds are 18 positions, 20 with both ends: found. Ten rounds are too far."""
    head = [user(long("a", marker=FIVE))]
    written = api.usage(*head, tools=[tool()])["cache_creation_input_tokens"]

    def rounds(n: int) -> list[object]:
        turns = [user(long("a"))]
        for i in range(n):
            turns += calls_and_results(3, f"r{i}x")
        return turns

    nine = rounds(9)
    nine += [assistant(text("done", FIVE)), user("next")]
    ten = rounds(10)
    ten += [assistant(text("done", FIVE)), user("next")]
    assert api.read_write_plain(*nine, tools=[tool()])[0] == written
    api.control("reset", {})
    assert api.usage(*head, tools=[tool()])["cache_creation_input_tokens"] == written
    assert api.read_write_plain(*ten, tools=[tool()])[0] == 0


def test_a_thinking_block_is_a_position(api: Api):
    """An entry 20 positions back is found; with a thinking block between it is 21 and is not."""

    def turns(replied: list[object]) -> list[object]:
        fill = [text(f"f{i}") for i in range(17)]
        return [user(long("a")), {"role": "assistant", "content": replied}, user(*fill, text("end", FIVE))]

    api.script({"content": [{"type": "thinking", "thinking": "hm"}, text("yes")]})
    first = api.reply(user(long("a", marker=FIVE)))
    written = first["usage"]["cache_creation_input_tokens"]
    assert api.read_write_plain(*turns([text("yes")]))[0] == written
    api.control("reset", {})
    api.usage(user(long("a", marker=FIVE)))
    assert api.read_write_plain(*turns(first["content"]))[0] == 0


def test_the_search_goes_from_messages_into_system_and_tools(api: Api):
    tools = [tool(description="d" * 3000, cache_control=FIVE)]
    written = api.usage("hi", tools=tools)["cache_creation_input_tokens"]
    unmarked = [{k: v for k, v in tools[0].items() if k != "cache_control"}]
    read = api.read_write_plain(user(text("q", FIVE)), system=[text("s")], tools=unmarked)[0]
    assert read == written


def test_an_entry_inside_a_run_of_results_is_found(api: Api):
    ids = [f"t{i}" for i in range(6)]
    results = [result(i) for i in ids]
    head = [user(long("a")), assistant(*[call(i) for i in ids])]
    written = api.usage(*head, user(*results[:3], marked(results[3]), *results[4:]), tools=[tool()])
    read = api.read_write_plain(*head, user(*results[:5], marked(results[5])), tools=[tool()])[0]
    assert read == written["cache_creation_input_tokens"]


# Isolation


def test_a_key_sees_only_its_own_entries(api: Api):
    request = [user(long("a", marker=FIVE))]
    written = api.read_write_plain(*request)[1]
    assert api.as_key("key-b").read_write_plain(*request)[:2] == (0, written)
    assert api.read_write_plain(*request)[0] == written


def test_the_same_key_in_the_other_header_is_the_same_workspace(api: Api):
    body = {"model": MODEL, "max_tokens": 10, "messages": [user(long("a", marker=FIVE))]}
    api.send("POST", "/v1/messages", body)
    headers = {"authorization": "Bearer key-a", "anthropic-version": "2023-06-01"}
    usage = api.send("POST", "/v1/messages", body, headers=headers).json["usage"]
    assert usage["cache_read_input_tokens"] > 0


def test_a_model_sees_only_its_own_entries(api: Api):
    request = [user(long("a", 12_000, marker=FIVE))]
    api.usage(*request, model="claude-opus-5")
    assert api.read_write_plain(*request, model="claude-opus-4-8")[0] == 0
    assert api.read_write_plain(*request, model="claude-opus-5")[0] > 0


def test_speeds_share_nothing(api: Api):
    fast = {"speed": "fast", "betas": "fast-mode-2026-02-01"}
    request = [user(long("a", marker=FIVE))]
    api.usage(*request)
    assert api.read_write_plain(*request, **fast)[0] == 0
    assert api.read_write_plain(*request, **fast)[0] > 0
    assert api.usage(*request, **fast)["speed"] == "fast"


def test_count_tokens_neither_reads_nor_writes(api: Api):
    request = [user(long("a", marker=FIVE))]
    api.count(*request)
    assert api.read_write_plain(*request)[0] == 0


def test_a_refused_request_writes_nothing(api: Api):
    api.refused(user(long("a", marker=FIVE)), model="claude-opus-5", top_k="no")
    assert api.read_write_plain(user(long("a", marker=FIVE)))[0] == 0
