"""Compaction at a threshold and on demand: blocks, usage, and the block sent back later."""

import pytest
from twin.asking import COMPACT_AT, COMPACT_NOW, FIVE, Desk, assistant, call, parts, text, tool, user

from everturn.twin.faults import InjectedFault
from everturn.twin.options import TwinOptions

LONG = [user("a " * 70_000), assistant("b"), user("and now?")]
SYSTEM = [text("You help people with many things.", FIVE)]
NOTHING = (0, 0, 0, 0)


def at_threshold(**fields) -> dict:
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}} | fields
    return {"context_management": {"edits": [edit]}, "betas": COMPACT_AT, "system": SYSTEM}


def now(**fields) -> dict:
    return {"compaction": {"type": "summarize", **fields}, "betas": COMPACT_NOW, "system": SYSTEM}


@pytest.mark.spec("TW-4")
def test_above_the_threshold_the_reply_follows_a_summary():
    desk = Desk()
    desk.script("the reply")
    told = desk.ask(messages=LONG, cache_control=FIVE, **at_threshold())
    summary, reply = told["content"]
    assert (summary["type"], reply, told["stop_reason"]) == ("compaction", text("the reply"), "end_turn")
    assert told["context_management"] == {"applied_edits": []}
    compaction, message = told["usage"]["iterations"]
    assert (compaction["type"], message["type"]) == ("compaction", "message")
    assert {name: message[name] for name in message if name != "type"} == {
        name: told["usage"][name] for name in message if name != "type"
    }
    # The summary call wrote the system prompt, the reply reads it and writes only the summary.
    system = desk.last()["cache_iterations"][0]["written"][0]["tokens"]
    assert parts(message)[0] == system
    assert parts(compaction)[2] > 50_000 > parts(message)[2] > 0
    assert parts(compaction)[3] == desk.twin.options.trailing_tokens + 45


@pytest.mark.spec("TW-4")
def test_compaction_dollars_are_the_sum_of_the_iterations():
    desk = Desk()
    desk.ask(messages=LONG, **at_threshold())
    entry = desk.last()
    assert {line["iteration"] for line in entry["lines"]} == {"compaction", "message"}
    assert entry["dollars"] == pytest.approx(sum(line["dollars"] for line in entry["lines"]))
    assert entry["lines"][0]["dollars"] > 0.25


@pytest.mark.spec("TW-4")
def test_below_the_threshold_nothing_happens_but_iterations_are_reported():
    told = Desk().ask(messages=[user("hi")], **at_threshold())
    assert [block["type"] for block in told["content"]].count("compaction") == 0
    assert [part["type"] for part in told["usage"]["iterations"]] == ["message"]


@pytest.mark.spec("TW-4")
def test_the_threshold_itself_triggers():
    desk = Desk(TwinOptions(counter=lambda block, model: len(block.body.get("text", "")) or 10))
    frame = 4 + desk.twin.options.trailing_tokens
    body = at_threshold() | {"system": []}
    below = desk.ask(messages=[user("x" * (50_000 - frame - 1))], **body)
    at = desk.ask(messages=[user("x" * (50_000 - frame))], **body)
    assert [len(told["usage"]["iterations"]) for told in (below, at)] == [1, 2]


@pytest.mark.spec("TW-4")
def test_a_pause_returns_the_block_alone_and_everything_before_it_is_ignored_later():
    desk = Desk()
    told = desk.ask(messages=LONG, **at_threshold(pause_after_compaction=True))
    assert (told["stop_reason"], [block["type"] for block in told["content"]]) == (
        "compaction",
        ["compaction"],
    )
    assert parts(told["usage"]) == NOTHING
    block = {"role": "assistant", "content": told["content"]}
    resumed = desk.ask(messages=[*LONG, block, user("go on")], **at_threshold())
    shortened = desk.ask(messages=[block, user("go on")], **at_threshold())
    assert sum(parts(resumed["usage"])) == sum(parts(shortened["usage"])) < 2_000


@pytest.mark.spec("TW-4")
def test_a_failed_summary_is_null_and_the_reply_continues_with_all_messages():
    desk = Desk()
    desk.break_with(InjectedFault("tool_calling_summary"))
    desk.script("the reply")
    told = desk.ask(messages=LONG, **at_threshold())
    assert told["content"] == [{"type": "compaction", "content": None}, text("the reply")]
    assert sum(parts(told["usage"])) > 50_000
    again = [*LONG, {"role": "assistant", "content": told["content"]}, user("on")]
    assert sum(desk.usage(messages=again, system=SYSTEM, betas=COMPACT_AT)) > 50_000


@pytest.mark.spec("TW-4")
def test_on_demand_the_summary_is_the_whole_reply_and_signed():
    desk = Desk()
    told = desk.ask(messages=[user("my name is Ada"), assistant("hello Ada")], **now())
    (block,) = told["content"]
    assert set(block) == {"type", "content", "signature"}
    assert (told["stop_reason"], parts(told["usage"]), told["usage"]["output_tokens"]) == (
        "compaction",
        NOTHING,
        0,
    )
    assert [part["type"] for part in told["usage"]["iterations"]] == ["compaction"]
    follow = {"messages": [assistant(block), user("who am I?")], "system": SYSTEM, "betas": COMPACT_NOW}
    assert desk.ask(**follow)["stop_reason"] == "end_turn"
    forged = {**follow, "messages": [assistant({**block, "content": "other"}), user("who am I?")]}
    assert desk.send(**forged).status == 400


@pytest.mark.spec("TW-4")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [("empty_summary", "end_turn"), ("refusing_summary", "refusal"), ("tool_calling_summary", "tool_use")],
)
def test_on_demand_a_failed_summary_is_an_empty_reply_that_is_billed(fault, reason):
    desk = Desk()
    desk.break_with(InjectedFault(fault))
    told = desk.ask(messages=[user("my name is Ada"), assistant("hello Ada")], **now())
    assert (told["content"], told["stop_reason"]) == ([], reason)
    assert desk.last()["dollars"] > 0


def test_on_demand_a_summary_longer_than_max_tokens_fails():
    told = Desk().ask(messages=[user("my name is Ada"), assistant("hello Ada")], max_tokens=5, **now())
    assert (told["content"], told["stop_reason"]) == ([], "max_tokens")
    assert told["usage"]["iterations"][0]["output_tokens"] == 5


def test_count_tokens_never_compacts():
    desk = Desk()
    counted = desk.ask(endpoint="count_tokens", messages=LONG, **at_threshold())
    assert counted["input_tokens"] > 50_000


def test_thinking_after_a_summary_is_accepted_when_it_is_sent_back():
    desk = Desk(TwinOptions(), model="claude-opus-5-5")
    desk.script([{"type": "thinking", "thinking": "hm"}, call("toolu_1")])
    told = desk.ask(messages=LONG, tools=[tool("look")], **at_threshold())
    assert [block["type"] for block in told["content"]] == ["compaction", "thinking", "tool_use"]
    done = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    again = [*LONG, {"role": "assistant", "content": told["content"]}, user(done)]
    assert desk.ask(messages=again, tools=[tool("look")], **at_threshold())["type"] == "message"
