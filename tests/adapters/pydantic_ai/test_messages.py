"""pydantic-ai's parts as blocks, and back."""

from dataclasses import replace

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    CompactionPart,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from everturn.adapters.framework import FrameworkUsage, trace_blocks
from everturn.adapters.pydantic_ai.messages import (
    build_messages,
    collect_permanent_parts,
    convert_message,
    to_framework_reply,
)

USE = {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x.py"}}
SYSTEM = SystemPromptPart("You are Otto.")


def blocks(*parts):
    return convert_message(ModelRequest(parts=list(parts))).converted.blocks


def said(*parts):
    return convert_message(ModelResponse(parts=list(parts))).converted.blocks


def text(words):
    return {"type": "text", "text": words}


def shown(message, *content):
    """What becomes of a message where the engine shows these blocks of it."""
    source = convert_message(message)
    traces = trace_blocks([{"role": source.converted.role, "content": list(content)}], [source.converted])
    return build_messages(traces, [source])


def test_words_are_text_blocks_and_markers_are_none():
    assert blocks(UserPromptPart("Hi.")) == [text("Hi.")]
    assert blocks(UserPromptPart(["a", CachePoint(), TextContent("b")])) == [text("a"), text("b")]
    assert said(TextPart(""), TextPart("Hello.")) == [text("Hello.")]


def test_calls_thinking_and_results_are_what_the_api_calls_them():
    call = ToolCallPart("read", '{"path": "x.py"}', "a")
    thought = ThinkingPart("Hm.", signature="s")
    hidden = ThinkingPart("", id="redacted_thinking", signature="d")
    assert said(thought, hidden, call) == [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        USE,
    ]
    assert blocks(ToolReturnPart("read", {"rows": 3}, "a")) == [
        {"type": "tool_result", "tool_use_id": "a", "content": '{"rows":3}'}
    ]


def test_a_result_that_failed_says_so():
    (block,) = blocks(ToolReturnPart("read", "No.", "a", outcome="failed"))
    assert block["is_error"] is True


def test_a_picture_counts_as_one_and_its_bytes_stay_where_they_are():
    picture = BinaryContent(b"A" * 9000, media_type="image/png")
    found = blocks(UserPromptPart([picture, ImageUrl("https://example.org/a.png")]))
    assert [block["type"] for block in found] == ["image", "image"]
    assert len(str(found)) < 300
    (result,) = blocks(ToolReturnPart("look", ["Here.", picture], "a"))
    assert [part["type"] for part in result["content"]] == ["text", "image"]


def test_a_url_needs_no_ending_that_names_its_media_type():
    found = blocks(UserPromptPart([ImageUrl("https://example.org/picture?id=5")]))
    assert [block["type"] for block in found] == ["image"]


def test_what_the_system_says_is_no_block_and_outlives_its_message():
    source = convert_message(ModelRequest(parts=[SYSTEM, UserPromptPart("Hi.")]))
    assert source.converted.blocks == [text("Hi.")]
    summary = trace_blocks([{"role": "user", "content": [text("So far.")]}], [source.converted])
    assert collect_permanent_parts(summary, [source]) == [ModelRequest(parts=[SYSTEM])]
    assert (
        collect_permanent_parts(
            trace_blocks([{"role": "user", "content": [text("Hi.")]}], [source.converted]), [source]
        )
        == []
    )


def test_feedback_is_words_of_the_user():
    feedback = RetryFeedbackPart("Try again.", retry=RetryInfo(cause="model_retry"))
    (block,) = blocks(feedback)
    assert "Try again." in block["text"]


def test_a_part_of_an_unknown_kind_is_text_to_the_engine_and_itself_to_the_model():
    message = ModelResponse(parts=[CompactionPart("So far."), TextPart("Found.")])
    opaque, words = convert_message(message).converted.blocks
    assert (opaque["type"], "So far." in opaque["text"]) == ("text", True)
    (back,) = shown(message, opaque, words)
    assert back is message


def test_a_reply_that_the_provider_has_paused_is_known_as_such():
    reply = ModelResponse(parts=[SEARCH], state="suspended")
    assert to_framework_reply(reply, "claude-opus-4-8", "r1").stop_reason == "pause_turn"


SEARCH = NativeToolCallPart("web_search", {"query": "x"}, "n1", provider_name="anthropic")
FOUND = NativeToolReturnPart("web_search", [{"url": "https://example.com"}], "n1", provider_name="anthropic")
ASKED = NativeToolCallPart("mcp_server:wiki", {"tool_name": "ask", "tool_args": {}}, "m1")


@pytest.mark.spec("CP-12")
def test_calls_of_the_provider_and_their_results_have_kinds_of_their_own():
    """A compaction that parts them is refused; as text, the engine could not tell."""
    message = ModelResponse(parts=[SEARCH, FOUND, ASKED])
    search, found, asked = convert_message(message).converted.blocks
    given = {"id": "n1", "name": "web_search", "input": {"query": "x"}}
    content = [{"url": "https://example.com"}]
    assert search == {"type": "server_tool_use", **given}
    assert found == {"type": "web_search_tool_result", "tool_use_id": "n1", "content": content}
    assert (asked["type"], asked["id"]) == ("mcp_tool_use", "m1")
    (back,) = shown(message, search, found, asked)
    assert back is message


def test_a_call_of_the_provider_that_gets_no_result_any_more_is_ended_in_its_form():
    message = ModelResponse(parts=[SEARCH, ASKED])
    search, asked = convert_message(message).converted.blocks
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    lost = {"type": "web_search_tool_result", "tool_use_id": "n1", "content": error}
    silent = {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": "[lost]"}
    _, ends = shown(message, search, asked, lost, silent)
    assert [(part.tool_name, part.content, part.tool_call_id, part.provider_name) for part in ends.parts] == [
        ("web_search", error, "n1", "anthropic"),
        ("mcp_server:wiki", {"content": "[lost]", "is_error": True}, "m1", None),
    ]


def test_a_cleared_result_is_the_same_part_with_other_words():
    one, two = ToolReturnPart("read", "A long file.", "a", metadata=1), ToolReturnPart("read", "Two.", "b")
    before = ModelRequest(parts=[SYSTEM, one, two], instructions="Be brief.")
    cleared = {"type": "tool_result", "tool_use_id": "a", "content": "[cleared]"}
    (after,) = shown(before, cleared, {"type": "tool_result", "tool_use_id": "b", "content": "Two."})
    assert after == replace(before, parts=[SYSTEM, replace(one, content="[cleared]"), two])
    assert after.parts[2] is two
    assert one.content == "A long file."


def test_a_mended_call_is_the_same_part_with_other_arguments():
    call = ToolCallPart("read", {"path": 3}, "a", id="p1")
    (after,) = shown(ModelResponse(parts=[ThinkingPart("Hm."), call]), USE)
    assert after.parts == [replace(call, args={"path": "x.py"})]


def test_new_words_are_a_user_prompt_and_a_mended_pair_a_tool_return():
    calls = convert_message(ModelResponse(parts=[ToolCallPart("read", {"path": "x.py"}, "a")]))
    lost = {"type": "tool_result", "tool_use_id": "a", "content": [text("Lost.")], "is_error": True}
    content = [lost, text("So far.")]
    (made,) = build_messages(trace_blocks([{"role": "user", "content": content}], [calls.converted]), [calls])
    returned, prompt = made.parts
    assert (returned.tool_name, returned.tool_call_id, returned.content) == ("read", "a", "Lost.")
    assert returned.outcome == "failed"
    assert prompt.content == "So far."


def test_a_reply_that_is_ours_is_a_reply():
    (made,) = build_messages(trace_blocks([{"role": "assistant", "content": [text("Done."), USE]}], []), [])
    assert (made.kind, made.parts[0].content, made.parts[1].tool_call_id) == ("response", "Done.", "a")


def test_usage_is_told_apart_by_what_the_cache_did():
    usage = RequestUsage(input_tokens=100, cache_read_tokens=60, cache_write_tokens=30, output_tokens=7)
    response = ModelResponse(parts=[TextPart("Hi.")], usage=usage, provider_response_id="msg_1")
    found = to_framework_reply(response, "m", "none")
    assert (found.id, found.blocks) == ("msg_1", [text("Hi.")])
    assert found.usage == FrameworkUsage(input_tokens=100, cache_read=60, cache_written=30, output_tokens=7)
    assert to_framework_reply(ModelResponse(parts=[TextPart("Hi.")]), "m", "new").usage is None
