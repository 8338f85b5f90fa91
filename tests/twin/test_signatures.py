"""Thinking sent back to the twin: unchanged, and in the conversation it is bound to."""

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin.asking import Desk

from everturn.measure.model_table import MODELS, find_model
from everturn.twin.options import TwinOptions
from everturn.twin.parse import parse_request
from everturn.twin.signature_format import decode_signature, sign
from everturn.twin.signatures import check_thinking, sign_compaction, sign_reply
from everturn.twin.values import ApiError, ParsedRequest

STRICT = TwinOptions()
CONTROLS = "thinking-binding-controls-2026-08-01"
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
OPUS_5, OPUS_5_5, FABLE_5_1, FABLE_5_2 = (
    "claude-opus-5",
    "claude-opus-5-5",
    "claude-fable-5-1",
    "claude-fable-5-2",
)
MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the "
    'block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
HEADER = f" That setting requires the `{CONTROLS}` value in the `anthropic-beta` header."


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


def request(messages: list[Any], model: str = OPUS_5, betas: str = "", **more: Any) -> ParsedRequest:
    body = {"model": model, "max_tokens": 100, "messages": messages, **more}
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": betas}
    return parse_request("messages", headers, json.dumps(body).encode(), workspace="w")


def thought(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": ""}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def talk(turns: int, model: str = OPUS_5, **more: Any) -> list[Any]:
    """A conversation with the twin, up to the next user prompt."""
    messages: list[Any] = [user("q0")]
    for turn in range(turns):
        checked = check_thinking(request(messages, model, **more), STRICT).request
        reply = sign_reply([thought(f"t{turn}"), text(f"a{turn}")], checked)
        messages += [{"role": "assistant", "content": list(reply)}, user(f"q{turn + 1}")]
    return messages


def verdict(sent: ParsedRequest, options: TwinOptions = STRICT) -> str:
    try:
        check_thinking(sent, options)
    except ApiError as refusal:
        return refusal.message
    return "accepted"


def error_code(sent: ParsedRequest) -> str | None:
    try:
        check_thinking(sent, STRICT)
    except ApiError as refusal:
        return refusal.error_code
    return None


def test_a_signature_has_a_realistic_length_and_is_deterministic():
    model = find_model(OPUS_5)
    signature = sign("hm", model=model, workspace="w")
    assert signature == sign("hm", model=model, workspace="w")
    assert signature != sign("hmm", model=model, workspace="w")
    assert len(signature) > 200
    assert decode_signature(signature).model is model


@given(st.integers(0, 295), st.sampled_from("ABCxyz019+/"))
def test_a_signature_with_one_changed_character_is_invalid(position, character):
    signature = sign("hm", model=find_model(OPUS_5), workspace="w")
    changed = signature[:position] + character + signature[position + 1 :]
    assert (decode_signature(changed) is None) == (changed != signature)


@given(st.text())
def test_decoding_any_text_never_fails(words):
    assert decode_signature(words) is None


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize("model", [model.id for model in MODELS])
def test_thinking_that_is_sent_back_unchanged_is_accepted(model):
    sent = request(talk(3, model), model)
    assert check_thinking(sent, STRICT).request is sent


@pytest.mark.spec("TW-6")
def test_thinking_with_a_foreign_signature_is_refused_unless_foreign_ones_are_accepted():
    messages = talk(2)
    messages[1]["content"][0]["signature"] = "EqQBCgIYAhIM"
    sent = request(messages)
    assert verdict(sent) == "messages.1.content.0: Invalid `signature` in `thinking` block"
    assert verdict(sent, replace(STRICT, foreign_signatures="accept")) == "accepted"


@pytest.mark.spec("TW-6")
def test_edited_thinking_cannot_be_modified_in_the_latest_message_and_is_invalid_elsewhere():
    for index, expected in ((3, MODIFIED), (1, "Invalid `signature` in `thinking` block")):
        messages = talk(2)
        messages[index]["content"][0]["thinking"] = "other"
        assert verdict(request(messages)) == f"messages.{index}.content.0: {expected}"


@pytest.mark.spec("TW-6")
def test_thinking_in_another_order_is_modified():
    first = request([user("q")])
    one, two, answer = sign_reply([thought("one"), thought("two"), text("a")], first)
    sent = request([user("q"), {"role": "assistant", "content": [two, one, answer]}, user("next")])
    assert verdict(sent) == f"messages.1.content.1: {MODIFIED}"


@pytest.mark.spec("TW-6")
def test_redacted_thinking_is_signed_in_its_data():
    first = request([user("q")])
    hidden, answer = sign_reply([{"type": "redacted_thinking", "data": ""}, text("a")], first)
    messages = [user("q"), {"role": "assistant", "content": [hidden, answer]}, user("next")]
    assert verdict(request(messages)) == "accepted"
    messages[1]["content"] = [hidden | {"data": "EmwKAhgB"}, answer]
    assert verdict(request(messages)) == "messages.1.content.0: Invalid `data` in `redacted_thinking` block"


@pytest.mark.spec("TW-6")
def test_text_put_into_an_omitted_block_is_ignored():
    omitted = {"type": "adaptive", "display": "omitted"}
    block, answer = sign_reply(
        [thought("secret"), text("a")], request([user("q")], thinking=omitted), omitted=True
    )
    assert block["thinking"] == ""
    for words in ("", "guess"):
        content = [block | {"thinking": words}, answer]
        assert (
            verdict(request([user("q"), {"role": "assistant", "content": content}, user("n")])) == "accepted"
        )


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize("model", [FABLE_5_1, OPUS_5_5, "claude-sonnet-5-5", FABLE_5_2])
def test_thinking_is_bound_to_the_conversation_before_it(model):
    messages = talk(2, model)
    messages[0] = user("another question")
    assert verdict(request(messages, model)) == f"messages.1.content.0: {BOUND}{HEADER}"
    assert verdict(request(messages, model, CONTROLS)) == f"messages.1.content.0: {BOUND}"
    assert verdict(request(talk(2, model), model, system="another role")) == (
        f"messages.1.content.0: {BOUND}{HEADER}"
    )


def test_thinking_is_not_bound_on_older_models():
    messages = talk(2, OPUS_5)
    messages[0] = user("another question")
    assert verdict(request(messages, OPUS_5, system="another role")) == "accepted"


def test_neither_breakpoints_nor_the_form_of_content_change_what_thinking_is_bound_to():
    messages = talk(2, OPUS_5_5)
    marked = text("q0") | {"cache_control": {"type": "ephemeral"}}
    messages[0] = {"role": "user", "content": [marked]}
    answer = messages[1]["content"][1]
    messages[1]["content"][1] = {"citations": None, "text": answer["text"], "type": "text"}
    assert verdict(request(messages, OPUS_5_5)) == "accepted"


@pytest.mark.spec("TW-6")
def test_thinking_may_be_removed_from_the_start_of_the_history_but_not_from_its_middle():
    from_start, from_middle = talk(3, OPUS_5_5), talk(3, OPUS_5_5)
    del from_start[1]["content"][0]
    del from_middle[3]["content"][0]
    assert verdict(request(from_start, OPUS_5_5)) == "accepted"
    assert verdict(request(from_middle, OPUS_5_5)) == f"messages.5.content.0: {BOUND}{HEADER}"


@pytest.mark.spec("TW-6")
def test_bound_thinking_can_be_dropped_instead_and_each_drop_is_reported():
    messages = talk(2, OPUS_5_5)
    messages[2] = user("another question")
    checked = check_thinking(request(messages, OPUS_5_5, CONTROLS, thinking=DROP), STRICT)
    assert checked.transformations == (
        {"type": "thinking_dropped", "path": "messages.3.content.0", "reason": "prefix_binding_mismatch"},
    )
    kinds = [[block.kind for block in message.blocks] for message in checked.request.messages]
    assert kinds == [["text"], ["thinking", "text"], ["text"], ["text"], ["text"]]


@pytest.mark.spec("TW-6")
def test_a_dropped_block_takes_the_rest_of_its_run_with_it():
    start = request([user("q")], OPUS_5_5)
    reply = sign_reply([thought("one"), thought("two"), text("a")], start)
    messages = [user("other"), {"role": "assistant", "content": list(reply)}, user("n")]
    checked = check_thinking(request(messages, OPUS_5_5, CONTROLS, thinking=DROP), STRICT)
    assert [entry["path"] for entry in checked.transformations] == [
        "messages.1.content.0",
        "messages.1.content.1",
    ]


def test_a_conversation_continues_after_a_drop():
    messages = talk(2, OPUS_5_5)
    messages[0] = user("another question")
    checked = check_thinking(request(messages, OPUS_5_5, CONTROLS, thinking=DROP), STRICT)
    reply = sign_reply([thought("new"), text("a")], checked.request)
    messages += [{"role": "assistant", "content": list(reply)}, user("on")]
    again = check_thinking(request(messages, OPUS_5_5, CONTROLS, thinking=DROP), STRICT)
    assert [entry["path"] for entry in again.transformations] == [
        "messages.1.content.0",
        "messages.3.content.0",
    ]


@pytest.mark.spec("TW-6")
def test_an_old_account_gets_a_report_of_mismatches_except_on_5_2():
    old = replace(STRICT, account_created=date(2026, 8, 30))
    messages = talk(1, FABLE_5_1)
    messages[0] = user("another question")
    checked = check_thinking(request(messages, FABLE_5_1), old)
    assert checked.transformations == (
        {
            "type": "thinking_mismatch_allowed",
            "path": "messages.1.content.0",
            "reason": "prefix_binding_mismatch",
        },
    )
    messages = talk(1, FABLE_5_2)
    messages[0] = user("another question")
    assert verdict(request(messages, FABLE_5_2), old) == f"messages.1.content.0: {BOUND}{HEADER}"


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(
    ("made_by", "reader", "shown"),
    [
        (OPUS_5, "claude-sonnet-5", False),
        ("claude-haiku-4-5", OPUS_5, False),
        (FABLE_5_1, FABLE_5_2, True),
        (FABLE_5_2, FABLE_5_1, False),
        ("claude-haiku-5-5", OPUS_5, True),
        (OPUS_5_5, "claude-haiku-5-5", False),
    ],
)
def test_thinking_of_another_model_is_shown_only_where_it_can_be_read(made_by, reader, shown):
    checked = check_thinking(request(talk(1, made_by), reader), STRICT)
    dropped = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "model_binding_mismatch"}
    assert checked.transformations == (() if shown else (dropped,))


@pytest.mark.spec("TW-6")
def test_thinking_after_a_summary_stays_bound_to_what_the_summary_replaced():
    betas = "compact-2026-09-04"
    messages = talk(3, OPUS_5_5)
    head, tail = messages[:4], messages[4:]
    summary = {"type": "compaction", "content": "so far"}
    asked = request(head, OPUS_5_5, betas, compaction={"type": "summarize"})
    block = sign_compaction(summary, asked)
    assert verdict(request([{"role": "assistant", "content": [block]}, *tail], OPUS_5_5, betas)) == "accepted"
    tail[0] = user("another question")
    assert verdict(request([{"role": "assistant", "content": [block]}, *tail], OPUS_5_5, betas)) == (
        f"messages.2.content.0: {BOUND}{HEADER}"
    )


@pytest.mark.spec("TW-6")
def test_thinking_after_a_threshold_summary_is_bound_from_the_summary_on():
    betas = "compact-2026-01-12"
    long = [user("q0"), {"role": "assistant", "content": [text("a0")]}, user("q1")]
    summary = {"type": "compaction", "content": "so far"}
    reply = sign_reply([summary, thought("t"), text("a1")], request(long, OPUS_5_5, betas))
    answer = {"role": "assistant", "content": list(reply)}
    assert verdict(request([*long, answer, user("n")], OPUS_5_5, betas)) == "accepted"
    assert verdict(request([answer, user("n")], OPUS_5_5, betas)) == "accepted"


def test_a_failed_summary_replaces_nothing():
    betas = "compact-2026-01-12"
    failed = {"type": "compaction", "content": None}
    reply = sign_reply([failed, thought("t"), text("a")], request([user("q0")], OPUS_5_5, betas))
    answer = {"role": "assistant", "content": list(reply)}
    assert verdict(request([user("q0"), answer, user("n")], OPUS_5_5, betas)) == "accepted"
    assert verdict(request([user("other"), answer, user("n")], OPUS_5_5, betas)) == (
        f"messages.1.content.1: {BOUND}{HEADER}"
    )


def test_a_breakpoint_inside_a_result_does_not_change_what_thinking_is_bound_to():
    call = {"type": "tool_use", "id": "t1", "name": "n", "input": {}}
    part = text("r")
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [part]}
    messages = [user("q"), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    reply = sign_reply([thought("t"), text("a")], request(messages, OPUS_5_5))
    messages += [{"role": "assistant", "content": list(reply)}, user("n")]
    part["cache_control"] = {"type": "ephemeral"}
    assert verdict(request(messages, OPUS_5_5)) == "accepted"


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, None),
        ({"content": "other"}, "compaction_content_mismatch"),
        ({"signature": "AAAA"}, "compaction_signature_invalid"),
        (
            {"tool_changes": [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "t"}}]},
            "compaction_tool_changes_mismatch",
        ),
    ],
)
def test_a_signed_summary_must_be_sent_back_unchanged(change, code):
    asked = request([user("q")], compaction={"type": "summarize"})
    block = sign_compaction({"type": "compaction", "content": "so far"}, asked) | change
    sent = request([{"role": "assistant", "content": [block]}, user("n")], betas="compact-2026-09-04")
    assert error_code(sent) == code


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(
    ("model", "thinking", "display", "is_omitted"),
    [
        ("claude-opus-4-6", {"type": "adaptive"}, "by_model", False),
        ("claude-sonnet-4-6", {"type": "adaptive"}, "by_model", False),
        ("claude-mythos-preview", {"type": "adaptive"}, "by_model", True),
        ("claude-opus-4-7", {"type": "adaptive"}, "by_model", True),
        ("claude-opus-5-5", None, "by_model", True),
        ("claude-opus-5-5", {"type": "adaptive", "display": "summarized"}, "by_model", False),
        ("claude-opus-4-6", {"type": "adaptive", "display": "omitted"}, "by_model", True),
        ("claude-opus-5-5", None, "summarized", False),
        ("claude-opus-4-6", {"type": "adaptive"}, "omitted", True),
    ],
)
def test_the_text_of_thinking_is_omitted_by_the_request_else_the_option_else_the_model(
    model, thinking, display, is_omitted
):
    desk = Desk(TwinOptions(thinking_display=display), model=model)
    desk.script([thought("my thoughts"), text("answer")])
    fields = {} if thinking is None else {"thinking": thinking}
    block = desk.ask(messages=[user("q")], **fields)["content"][0]
    assert block["thinking"] == ("" if is_omitted else "my thoughts")
    assert block["signature"]
