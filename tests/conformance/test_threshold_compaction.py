"""compact_20260112: a summary in the middle of a request that has grown too long."""

import pytest
from conformance.api import COMPACT_AT, FIVE, Api, Json, assistant, long, text, tool, user

pytestmark = pytest.mark.spec("TW-4")
KIND = "compact_20260112"
LEAST = 50_000


def compact(**fields: object) -> Json:
    return {"edits": [{"type": KIND, **fields}]}


def at(n: int) -> Json:
    return {"type": "input_tokens", "value": n}


def reply(api: Api, *messages: object, **fields: object) -> Json:
    answer = api.ask(*messages, **({"betas": COMPACT_AT} | fields))
    assert answer.status == 200, answer.data
    return answer.json


def big(label: str = "a", chars: int = 150_000) -> Json:
    return user(long(label, chars))


SMALL_TRIGGER = {"context_management": compact(trigger=at(LEAST))}


def test_below_the_trigger_there_is_one_message_iteration(api: Api):
    answer = reply(api, "hi", **SMALL_TRIGGER)
    assert [i["type"] for i in answer["usage"]["iterations"]] == ["message"]
    assert answer["context_management"] == {"applied_edits": []}
    assert answer["usage"]["iterations"][0]["input_tokens"] == answer["usage"]["input_tokens"]


def test_above_the_trigger_the_answer_begins_with_a_compaction(api: Api):
    api.script("The answer.")
    answer = reply(api, big(), **SMALL_TRIGGER)
    assert [b["type"] for b in answer["content"]] == ["compaction", "text"]
    assert answer["content"][0]["content"].strip()
    assert answer["stop_reason"] == "end_turn"
    assert answer["context_management"] == {"applied_edits": []}


def test_the_trigger_is_reached_at_exactly_its_size(api: Api):
    turns = [big()]
    size = api.count(*turns)
    there = reply(api, *turns, context_management=compact(trigger=at(size)))
    beyond = reply(api, *turns, context_management=compact(trigger=at(size + 1)))
    assert there["content"][0]["type"] == "compaction"
    assert beyond["content"][0]["type"] != "compaction"


def test_the_default_trigger_is_150_000_tokens(api: Api):
    below, above = [big(chars=300_000)], [big(chars=420_000)]
    assert api.count(*below) < 150_000 < api.count(*above)
    assert reply(api, *below, context_management=compact())["content"][0]["type"] != "compaction"
    assert reply(api, *above, context_management=compact())["content"][0]["type"] == "compaction"


def test_usage_lists_both_iterations_and_counts_only_the_message(api: Api):
    usage = reply(api, big(), **SMALL_TRIGGER)["usage"]
    first, second = usage["iterations"]
    assert (first["type"], second["type"]) == ("compaction", "message")
    assert first["input_tokens"] >= LEAST
    assert first["output_tokens"] > 0
    assert second["input_tokens"] < 10_000
    for field in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"):
        assert usage[field] == second[field]


@pytest.mark.spec("TW-3")
def test_the_bill_is_the_sum_of_the_iterations(api: Api):
    usage = reply(api, big(), **SMALL_TRIGGER)["usage"]
    tokens_in = sum(i["input_tokens"] for i in usage["iterations"])
    tokens_out = sum(i["output_tokens"] for i in usage["iterations"])
    assert api.ledger()[-1]["dollars"] == pytest.approx((tokens_in * 5 + tokens_out * 25) / 1e6)


def test_a_system_marker_is_read_by_both_iterations(api: Api):
    system = [long("s", marker=FIVE)]
    written = reply(api, "hi", system=system)["usage"]["cache_creation_input_tokens"]
    iterations = reply(api, big(), system=system, **SMALL_TRIGGER)["usage"]["iterations"]
    assert [i["cache_read_input_tokens"] for i in iterations] == [written, written]


def test_with_a_pause_only_the_block_comes_back(api: Api):
    api.script("not yet")
    paused = reply(api, big(), context_management=compact(trigger=at(LEAST), pause_after_compaction=True))
    assert [b["type"] for b in paused["content"]] == ["compaction"]
    assert paused["stop_reason"] == "compaction"
    resumed = reply(
        api, big(), {"role": "assistant", "content": paused["content"]}, user("go on"), **SMALL_TRIGGER
    )
    assert resumed["content"] == [text("not yet")]


def test_everything_before_the_last_block_is_ignored(api: Api):
    block = reply(api, big(), **SMALL_TRIGGER)["content"][:1]
    after = [{"role": "assistant", "content": block}, user("go on")]
    with_it, without = [big(), *after], after
    assert api.count(*with_it, betas=COMPACT_AT) == api.count(*without, betas=COMPACT_AT)
    assert reply(api, *with_it, **SMALL_TRIGGER)["content"][0]["type"] != "compaction"


def test_of_two_blocks_the_last_counts(api: Api):
    one = assistant({"type": "compaction", "content": "first summary " * 50})
    two = assistant({"type": "compaction", "content": "second"})
    both = api.count(big(), one, user("x"), two, user("y"), betas=COMPACT_AT)
    assert both == api.count(two, user("y"), betas=COMPACT_AT)


def test_a_block_without_content_does_nothing(api: Api):
    failed = assistant({"type": "compaction", "content": None}, text("so"))
    assert api.count("a", failed, "b", betas=COMPACT_AT) == api.count("a", assistant("so"), "b")


def test_an_empty_summary_is_refused(api: Api):
    block = assistant({"type": "compaction", "content": ""}, text("so"))
    assert api.refused("a", block, "b", betas=COMPACT_AT).startswith("messages.1.content.0")


def test_a_marker_may_sit_on_the_block(api: Api):
    block = assistant({"type": "compaction", "content": "summary " * 500, "cache_control": FIVE})
    written = api.read_write_plain(block, user("x"), betas=COMPACT_AT)[1]
    assert written > 512
    assert api.read_write_plain(block, user("y"), betas=COMPACT_AT)[0] == written


def test_the_smallest_trigger_is_50_000(api: Api):
    words = api.refused("hi", context_management=compact(trigger=at(LEAST - 1)), betas=COMPACT_AT)
    assert words.startswith("context_management.edits.0")
    assert "50000" in words.replace(",", "")


@pytest.mark.parametrize(
    "edit",
    [
        {"trigger": {"type": "tool_uses", "value": 60_000}},
        {"pause_after_compaction": "yes"},
        {"instructions": 5},
        {"more": 1},
    ],
    ids=str,
)
def test_a_wrong_edit_is_refused(api: Api, edit: Json):
    words = api.refused("hi", context_management=compact(**edit), betas=COMPACT_AT)
    assert words.startswith("context_management.edits.0")


def test_the_edit_needs_its_header(api: Api):
    assert api.ask("hi", context_management=compact()).status == 400
    assert api.ask("hi", context_management=compact(), betas="context-management-2025-06-27").status == 400


def test_the_block_needs_a_header(api: Api):
    words = api.refused("a", assistant({"type": "compaction", "content": "so"}), "b")
    assert "compaction" in words


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-haiku-5-5", "claude-opus-4-5"])
def test_models_without_compaction_refuse_it(api: Api, model: str):
    assert api.ask("hi", model=model, context_management=compact(), betas=COMPACT_AT).status == 400


def test_count_tokens_never_triggers(api: Api):
    body = api.counted(big(), **SMALL_TRIGGER, betas=COMPACT_AT).json
    assert body["input_tokens"] == api.count(big())


def test_a_failed_summary_is_null_and_the_answer_goes_on(api: Api):
    api.fault("tool_calling_summary", endpoint="compaction")
    answer = reply(api, big(), tools=[tool()], **SMALL_TRIGGER)
    assert (answer["content"][0]["type"], answer["content"][0]["content"]) == ("compaction", None)
    assert len(answer["content"]) > 1


def test_edits_for_tool_uses_and_compaction_go_together(api: Api):
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}, {"type": KIND, "trigger": at(LEAST)}]}
    betas = f"context-management-2025-06-27,{COMPACT_AT}"
    answer = reply(api, big(), context_management=edits, betas=betas)
    assert answer["content"][0]["type"] == "compaction"
