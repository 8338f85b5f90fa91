"""The top-level `compaction`: a summary on demand, signed, and the rules for sending it back."""

import pytest
from conformance.api import (
    COMPACT_AT,
    COMPACT_NOW,
    FIVE,
    Answer,
    Api,
    Json,
    assistant,
    call,
    long,
    result,
    text,
    tool,
    user,
)

pytestmark = pytest.mark.spec("TW-4")
NOW = {"compaction": {"type": "summarize"}, "betas": COMPACT_NOW, "max_tokens": 2000}
TALK = [user("Please fix the parser."), assistant("I did."), user("And the lexer.")]


def summary(api: Api, *messages: object, **fields: object) -> Json:
    answer = api.ask(*(messages or TALK), **(NOW | fields))
    assert answer.status == 200, answer.data
    return answer.json


def block(api: Api, **fields: object) -> Json:
    return summary(api, **fields)["content"][0]


def back(api: Api, *messages: object, **fields: object) -> Answer:
    return api.ask(*messages, **({"betas": COMPACT_NOW} | fields))


def code(answer: Answer) -> str:
    assert answer.status == 400, answer.data
    return answer.error["details"]["error_code"]


def test_the_answer_is_one_signed_block(api: Api):
    answer = summary(api)
    (only,) = answer["content"]
    assert only["type"] == "compaction"
    assert "fix the parser" in only["content"]
    assert only["signature"]
    assert answer["stop_reason"] == "compaction"


def test_usage_is_zero_at_the_top_and_billed_in_one_iteration(api: Api):
    usage = summary(api)["usage"]
    (only,) = usage["iterations"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (0, 0)
    assert only["type"] == "compaction"
    assert only["input_tokens"] >= api.count(*TALK)
    dollars = (only["input_tokens"] * 5 + only["output_tokens"] * 25) / 1e6
    assert api.ledger()[0]["dollars"] == pytest.approx(dollars)


def test_it_streams_whole_without_a_delta(api: Api):
    events = [e for e in api.ask(*TALK, stream=True, **NOW).events if e["type"] != "ping"]
    assert [e["type"] for e in events] == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[1]["content_block"]["content"]
    assert events[1]["content_block"]["signature"]
    assert events[3]["delta"]["stop_reason"] == "compaction"
    assert [i["type"] for i in events[3]["usage"]["iterations"]] == ["compaction"]


def test_it_uses_no_scripted_reply(api: Api):
    api.script("for later")
    summary(api)
    assert api.reply("hi")["content"] == [text("for later")]


@pytest.mark.parametrize("shape", ["own assistant message", "before user text", "before assistant text"])
def test_it_is_sent_back_first(api: Api, shape: str):
    it = block(api)
    turns = {
        "own assistant message": [assistant(it), assistant("Yes."), user("next")],
        "before user text": [user(it, "next")],
        "before assistant text": [assistant(it, "Yes."), user("next")],
    }[shape]
    answer = back(api, *turns)
    assert answer.status == 200, answer.data


def test_the_block_weighs_what_its_words_weigh(api: Api):
    it = block(api)
    with_it = api.count(assistant(it), user("next"), betas=COMPACT_NOW)
    assert with_it - api.count("next") >= len(it["content"]) / 5


def test_messages_before_the_block_are_refused(api: Api):
    answer = back(api, *TALK[:2], user(block(api), "next"))
    assert code(answer) == "compaction_block_misplaced"
    assert (
        "`compaction` block must be sent first, in place of the messages it summarizes"
        in answer.error["message"]
    )


def test_text_before_the_block_is_refused(api: Api):
    assert code(back(api, user("words", block(api)))) == "compaction_block_misplaced"


def test_two_blocks_are_refused(api: Api):
    it = block(api)
    assert code(back(api, assistant(it), assistant(it), user("next"))) == "compaction_block_ambiguous"


def test_changed_words_are_refused(api: Api):
    it = block(api)
    assert (
        code(back(api, assistant({**it, "content": it["content"] + "!"}), user("n")))
        == "compaction_content_mismatch"
    )


def test_a_changed_signature_is_refused(api: Api):
    it = block(api)
    assert code(back(api, assistant({**it, "signature": "AAAA" + it["signature"][4:]}), user("n"))) == (
        "compaction_signature_invalid"
    )


def test_changed_tool_changes_are_refused(api: Api):
    change = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "look"}}
    answer = back(api, assistant({**block(api), "tool_changes": [change]}), user("n"), tools=[tool()])
    assert code(answer) == "compaction_tool_changes_mismatch"


def test_the_block_without_the_header_is_refused(api: Api):
    assert "compaction" in api.refused(assistant(block(api)), user("n"))


def test_the_parameter_without_the_header_is_refused(api: Api):
    assert f"requires anthropic-beta: {COMPACT_NOW}" in api.refused(*TALK, compaction={"type": "summarize"})


def test_an_extra_field_is_refused_by_its_path(api: Api):
    words = api.refused(user({**block(api), "citations": None}, "next"), betas=COMPACT_NOW)
    assert words == "messages.0.content.0.compaction.citations: Extra inputs are not permitted"


@pytest.mark.parametrize(
    "more",
    [
        {"context_management": {"edits": []}, "betas": f"{COMPACT_NOW},context-management-2025-06-27"},
        {"stop_sequences": ["x"]},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {"tool_choice": {"type": "any"}, "tools": [tool()]},
        {"tool_choice": {"type": "tool", "name": "look"}, "tools": [tool()]},
    ],
    ids=["context_management", "stop_sequences", "format", "any", "tool"],
)
def test_it_is_not_combined_with(api: Api, more: Json):
    words = api.refused(*TALK, **(NOW | more))
    assert "compaction" in words


def test_the_threshold_edit_cannot_run_over_a_signed_block(api: Api):
    edits = {"edits": [{"type": "compact_20260112"}]}
    answer = back(
        api, assistant(block(api)), user("n"), context_management=edits, betas=f"{COMPACT_NOW},{COMPACT_AT}"
    )
    assert answer.status == 400


def test_an_unanswered_call_is_an_incomplete_turn(api: Api):
    answer = api.ask(user("go"), assistant(call("t1")), tools=[tool()], **NOW)
    assert code(answer) == "compaction_incomplete_turn"


def test_an_answered_call_is_fine(api: Api):
    turns = [user("go"), assistant(call("t1")), user(result("t1"))]
    assert summary(api, *turns, tools=[tool()])["stop_reason"] == "compaction"


def test_a_conversation_may_end_with_the_assistant(api: Api):
    assert summary(api, *TALK[:2])["stop_reason"] == "compaction"


def test_nothing_to_summarize_is_refused(api: Api):
    answer = back(api, assistant(block(api)), compaction={"type": "summarize"})
    assert code(answer) == "compaction_nothing_to_summarize"


def test_a_summary_of_a_summary_works(api: Api):
    it = block(api)
    again = summary(api, assistant(it), user("Then the tests."), assistant("Done."), user("Good."))
    assert "Then the tests." in again["content"][0]["content"]
    assert again["content"][0]["signature"] != it["signature"]


@pytest.mark.parametrize(("length", "status"), [(16_384, 200), (16_385, 400)])
def test_instructions_have_a_limit(api: Api, length: int, status: int):
    compaction = {"type": "summarize", "instructions": "i" * length}
    assert api.ask(*TALK, betas=COMPACT_NOW, compaction=compaction).status == status


@pytest.mark.parametrize(
    "compaction", [{"type": "shorten"}, {}, "summarize", {"type": "summarize", "more": 1}], ids=str
)
def test_a_wrong_parameter_is_refused(api: Api, compaction: object):
    assert api.refused(*TALK, betas=COMPACT_NOW, compaction=compaction).startswith("compaction")


@pytest.mark.spec("TW-10")
@pytest.mark.parametrize(
    ("kind", "stop"),
    [("empty_summary", "end_turn"), ("refusing_summary", "refusal"), ("tool_calling_summary", "tool_use")],
)
def test_without_a_summary_the_answer_is_empty_and_billed(api: Api, kind: str, stop: str):
    api.fault(kind, endpoint="compaction")
    answer = summary(api)
    assert (answer["content"], answer["stop_reason"]) == ([], stop)
    assert api.ledger()[-1]["dollars"] > 0


@pytest.mark.spec("TW-10")
def test_compaction_can_be_unavailable(api: Api):
    api.fault("compaction_unavailable", endpoint="compaction")
    answer = api.ask(*TALK, **NOW)
    assert (answer.status, answer.error["details"]["error_code"]) == (529, "compaction_unavailable")


def test_the_summary_reads_the_cache_of_the_conversation(api: Api):
    turns = [user(long("a", marker=FIVE)), assistant("ok"), user("next")]
    written = api.usage(*turns)["cache_creation_input_tokens"]
    (iteration,) = summary(api, *turns)["usage"]["iterations"]
    assert iteration["cache_read_input_tokens"] == written


def test_count_tokens_ignores_the_parameter(api: Api):
    fields = {"compaction": {"type": "summarize"}, "betas": COMPACT_NOW}
    assert api.count(*TALK, **fields) == api.count(*TALK)


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-haiku-5-5"])
def test_models_without_compaction_refuse_it(api: Api, model: str):
    assert api.ask(*TALK, model=model, **NOW).status == 400


def test_thinking_in_the_kept_tail_stays_valid(api: Api):
    """The prefix that thinking is bound to restarts at a compaction block."""
    model = {"model": "claude-opus-5-5"}
    it = block(api, **model)
    api.script({"content": [{"type": "thinking", "thinking": "hm"}, text("yes")]})
    head = [assistant(it), user("q")]
    said = back(api, *head, **model).json["content"]
    answer = back(api, *head, {"role": "assistant", "content": said}, user("r"), **model)
    assert answer.status == 200, answer.data
