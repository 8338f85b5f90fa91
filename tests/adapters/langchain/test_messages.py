"""LangChain's messages as blocks, and back."""

from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, ToolMessage

from everturn.adapters.framework import (
    FrameworkMessage,
    FrameworkReply,
    FrameworkUsage,
    make_opaque_block,
    trace_blocks,
)
from everturn.adapters.langchain.messages import (
    build_messages,
    to_framework_message,
    to_framework_reply,
    tool_fields,
)

CALL = {"id": "a", "name": "read", "args": {"path": "x.py"}, "type": "tool_call"}
USE = {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x.py"}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


def shown(message, *blocks):
    """What becomes of a message where the engine shows these blocks of it."""
    piece = to_framework_message(message)
    return build_messages(trace_blocks([{"role": piece.role, "content": list(blocks)}], [piece]), [message])


def test_words_are_a_text_block():
    assert to_framework_message(HumanMessage("Hi.")) == FrameworkMessage(
        "user", [{"type": "text", "text": "Hi."}]
    )
    assert to_framework_message(AIMessage("Hello.")) == FrameworkMessage(
        "assistant", [{"type": "text", "text": "Hello."}]
    )


def test_a_call_is_there_once_wherever_langchain_keeps_it():
    streamed = {**USE, "input": {}, "partial_json": "{"}
    delta = {"type": "input_json_delta", "partial_json": "{"}
    assert to_framework_message(AIMessage("", tool_calls=[CALL])) == FrameworkMessage("assistant", [USE])
    assert to_framework_message(AIMessage([THOUGHT, streamed, delta], tool_calls=[CALL])) == FrameworkMessage(
        "assistant", [THOUGHT, USE]
    )


def test_a_call_that_nobody_could_read_is_seen_too():
    broken = {"id": "a", "name": "read", "args": "{", "error": None, "type": "invalid_tool_call"}
    assert to_framework_message(AIMessage("", invalid_tool_calls=[broken])).blocks == [{**USE, "input": {}}]


def test_a_result_knows_its_call_and_whether_it_failed():
    result = {"type": "tool_result", "tool_use_id": "a", "content": "No."}
    assert to_framework_message(ToolMessage("No.", tool_call_id="a")).blocks == [result]
    assert to_framework_message(ToolMessage("No.", tool_call_id="a", status="error")).blocks == [
        {**result, "is_error": True}
    ]


def test_a_picture_counts_as_one_and_its_bytes_stay_where_they_are():
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
    standard = {"type": "image", "base64": "A" * 9000, "mime_type": "image/png"}
    blocks = to_framework_message(HumanMessage([url, standard])).blocks
    assert [block["type"] for block in blocks] == ["image", "image"]
    assert len(str(blocks)) < 300
    assert blocks[0] != blocks[1]


def test_a_message_of_an_unknown_kind_is_text_to_the_engine_and_itself_to_the_model():
    strange = ChatMessage("From afar.", role="observer")
    (block,) = to_framework_message(strange).blocks
    assert block == make_opaque_block(strange.model_dump(mode="json"))
    (back,) = shown(strange, block)
    assert back is strange


def test_a_cleared_result_is_the_same_message_with_other_words():
    before = ToolMessage("A long file.", tool_call_id="a", name="read", id="m1", artifact={"rows": 3})
    cleared = {"type": "tool_result", "tool_use_id": "a", "content": "[cleared]"}
    (after,) = shown(before, cleared)
    assert after == before.model_copy(update={"content": "[cleared]"})
    assert before.content == "A long file."


def test_a_reply_without_its_thinking_is_the_same_reply_otherwise():
    before = AIMessage([THOUGHT, {"type": "text", "text": "I look."}, USE], tool_calls=[CALL], id="m2")
    (after,) = shown(before, {"type": "text", "text": "I look."}, USE)
    assert after == before.model_copy(update={"content": [{"type": "text", "text": "I look."}, USE]})


def test_new_words_are_a_human_message_and_a_mended_pair_a_tool_message():
    result = {"type": "tool_result", "tool_use_id": "b", "content": "Lost.", "is_error": True}
    summary = {"type": "text", "text": "So far."}
    assert build_messages(trace_blocks([{"role": "user", "content": [result, summary]}], []), []) == [
        ToolMessage("Lost.", tool_call_id="b", status="error"),
        HumanMessage("So far."),
    ]


def test_a_reply_that_is_ours_is_a_reply():
    said = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    assert build_messages(trace_blocks([said], []), []) == [AIMessage("Done.")]


def test_usage_is_told_apart_by_what_the_cache_did():
    usage = {
        "input_tokens": 100,
        "output_tokens": 7,
        "total_tokens": 107,
        "input_token_details": {"cache_read": 60, "cache_creation": 0, "ephemeral_5m_input_tokens": 30},
    }
    message = AIMessage(
        "Hi.", usage_metadata=usage, response_metadata={"id": "msg_1", "stop_reason": "end_turn"}
    )
    counted = FrameworkUsage(input_tokens=100, cache_read=60, cache_written=30, output_tokens=7)
    assert to_framework_reply(message, "m", "none") == FrameworkReply(
        id="msg_1",
        model="m",
        blocks=[{"type": "text", "text": "Hi."}],
        usage=counted,
        stop_reason="end_turn",
    )
    assert counted.to_fields()["input_tokens"] == 10


def test_a_reply_without_usage_is_counted_by_nobody():
    assert to_framework_reply(AIMessage("Hi."), "m", "new").usage is None
    assert to_framework_reply(AIMessage("Hi."), "m", "new").id == "new"


def test_tools_of_all_kinds_are_spelled_as_the_api_does():
    def read(path: str) -> str:
        """Reads a file."""
        return path

    server = {"type": "web_search_20250305", "name": "web_search"}
    spelled = tool_fields(read)
    assert (spelled["name"], spelled["description"]) == ("read", "Reads a file.")
    assert spelled["input_schema"]["properties"] == {"path": {"type": "string"}}
    assert tool_fields(server) == server


def test_a_reply_in_standard_content_has_the_blocks_of_the_api_and_keeps_its_parts():
    reasoning = {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "s"}}
    search = {"type": "server_tool_call", "id": "w", "name": "web_search", "args": {"query": "x"}}
    kind = "web_search_tool_result"
    found = {"type": "server_tool_result", "tool_call_id": "w", "output": [], "extras": {"block_type": kind}}
    hidden = {"type": "redacted_thinking", "data": "d"}
    said = {"type": "text", "text": "I look."}
    before = AIMessage(
        [reasoning, {"type": "non_standard", "value": hidden}, search, found, said, CALL],
        tool_calls=[CALL],
        response_metadata={"output_version": "v1"},
    )
    use = {"type": "server_tool_use", "id": "w", "name": "web_search", "input": {"query": "x"}}
    result = {"type": kind, "tool_use_id": "w", "content": []}
    assert to_framework_message(before).blocks == [THOUGHT, hidden, use, result, said, USE]
    (after,) = shown(before, use, result, said, USE)
    assert after == before.model_copy(update={"content": [search, found, said, USE]})
    # LangChain reads standard content as a list, also where one text is left of it.
    (short,) = shown(before, said)
    assert (short.content, short.tool_calls) == ([said], [])


def test_a_file_that_is_in_no_message_any_more_is_named_and_one_that_is_keeps_its_bytes():
    picture = {"type": "image", "base64": "A" * 9000, "mime_type": "image/png"}
    words = {"type": "text", "text": "What is this?"}
    (reference,) = to_framework_message(HumanMessage([picture])).blocks
    sent = [{"role": "user", "content": [words, reference]}]
    (gone,) = build_messages(trace_blocks(sent, []), [])
    assert gone == HumanMessage([words, {"type": "text", "text": "[image]"}])
    (kept,) = shown(HumanMessage([{"type": "text", "text": "Before."}, words, picture]), words, reference)
    assert kept == HumanMessage([words, picture])
