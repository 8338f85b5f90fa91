"""The rules between messages, with the error messages of the API."""

from typing import Any

import pytest

USER = {"role": "user", "content": "hi"}


def call(id: str, name: str = "look") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {}}


def result(id: str, content: Any = "seen") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def text(words: str = "words", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def thought(words: str = "hm") -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": "elsewhere"}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def system(*content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "system", "content": list(content), **more}


def body(*messages: Any, model: str = "claude-opus-5", **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 100, "messages": list(messages), **more}


def missing(index: int, *ids: str) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block "
        "in the next message."
    )


def orphan(index: int, at: int, id: str) -> str:
    return (
        f"messages.{index}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    )


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_x", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_x", "content": []}
PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
EMPTY = "messages: text content blocks must be non-empty"
PENDING_SEARCH = (
    "`web_search` tool use with id `srvtoolu_x` was found without a corresponding "
    "`web_search_tool_result` block"
)

CONVERSATIONS = {
    "one question": (body(USER), "accepted"),
    "two user messages in a row are one turn": (body(USER, USER), "accepted"),
    "a call and its result": (body(USER, assistant(call("t1")), user(result("t1"))), "accepted"),
    "text after the result": (body(USER, assistant(call("t1")), user(result("t1"), text())), "accepted"),
    "results over two user messages": (
        body(USER, assistant(call("t1"), call("t2")), user(result("t1")), user(result("t2"))),
        "accepted",
    ),
    "calls over two assistant messages": (
        body(USER, assistant(call("t1")), assistant(call("t2")), user(result("t1"), result("t2"))),
        "accepted",
    ),
    "a result without content": (
        body(USER, assistant(call("t1")), user({"type": "tool_result", "tool_use_id": "t1"})),
        "accepted",
    ),
    "a result with an empty string": (body(USER, assistant(call("t1")), user(result("t1", ""))), "accepted"),
    "a missing result": (body(USER, assistant(call("t1")), USER), missing(1, "t1")),
    "a missing result at the end": (body(USER, assistant(call("t1"))), missing(1, "t1")),
    "one of two results": (
        body(USER, assistant(call("t1"), call("t2")), user(result("t1"))),
        missing(1, "t2"),
    ),
    "both results missing": (
        body(USER, assistant(call("t1"), call("t2")), user(text())),
        missing(1, "t1", "t2"),
    ),
    "a result after the next answer": (
        body(
            USER, assistant(call("t1"), call("t2")), user(result("t1")), assistant(text()), user(result("t2"))
        ),
        missing(1, "t2"),
    ),
    "text before the result": (
        body(USER, assistant(call("t1")), user(text(), result("t1"))),
        missing(1, "t1"),
    ),
    "a user message between call and result": (
        body(USER, assistant(call("t1")), USER, user(result("t1"))),
        missing(1, "t1"),
    ),
    "an orphan result": (body(USER, assistant(text()), user(result("t9"))), orphan(2, 0, "t9")),
    "an orphan result in the first message": (body(user(result("t9"))), orphan(0, 0, "t9")),
    "a second, orphan result": (
        body(USER, assistant(call("t1")), user(result("t1"), result("t9"))),
        orphan(2, 1, "t9"),
    ),
    "a result one turn late": (
        body(USER, assistant(call("t1")), user(result("t1")), assistant(text()), user(result("t1"))),
        orphan(4, 0, "t1"),
    ),
    "two results for one call": (
        body(USER, assistant(call("t1")), user(result("t1"), result("t1"))),
        "messages.2.content.1: each tool_use must have a single result. "
        "Found multiple `tool_result` blocks with id: t1",
    ),
    "the same id for two calls": (
        body(USER, assistant(call("t1")), user(result("t1")), assistant(call("t1")), user(result("t1"))),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "a call by the user": (
        body(user(call("t1"))),
        "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    "a result by the assistant": (
        body(USER, assistant(call("t1")), user(result("t1")), assistant(result("t1")), USER),
        "messages.3.content.0: `tool_result` blocks can only be in `user` messages",
    ),
    "thinking by the user": (
        body(user(thought())),
        "messages.0.content.0: `thinking` blocks can only be in `assistant` messages",
    ),
    "a finished search": (body(USER, assistant(SEARCH, FOUND, text()), USER), "accepted"),
    "a paused search": (body(USER, assistant(SEARCH)), "accepted"),
    "a paused search, continued": (body(USER, assistant(SEARCH), assistant(FOUND, text()), USER), "accepted"),
    "a search pending beside a call": (
        body(USER, assistant(SEARCH, call("t1")), user(result("t1")), assistant(FOUND, text()), USER),
        "accepted",
    ),
    "a search cut off by the user": (body(USER, assistant(SEARCH), USER), PENDING_SEARCH),
    "a search pending, and text beside the result": (
        body(USER, assistant(SEARCH, call("t1")), user(result("t1"), text())),
        PENDING_SEARCH,
    ),
    "a found page nobody searched for": (
        body(USER, assistant(FOUND), USER),
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: "
        "srvtoolu_x. "
        "Each `web_search_tool_result` block must have a corresponding `server_tool_use` block before it.",
    ),
    "no message": (body(), "messages: at least one message is required"),
    "the assistant first": (
        body(assistant(text()), USER),
        'messages: first message must use the "user" role',
    ),
    "empty text": (body(user(text(""))), EMPTY),
    "empty text beside words": (body(user(text(), text(""))), EMPTY),
    "empty text of the assistant": (body(USER, assistant(text("")), USER), EMPTY),
    "empty text in a result": (body(USER, assistant(call("t1")), user(result("t1", [text("")]))), EMPTY),
    "blank text": (body(user(text(" \n"))), "messages: text content blocks must contain non-whitespace text"),
    "blank string": (
        body({"role": "user", "content": "  "}),
        "messages: text content blocks must contain non-whitespace text",
    ),
    "an empty string": (
        body({"role": "user", "content": ""}),
        "messages.0: all messages must have non-empty content except for the optional final "
        "assistant message",
    ),
    "an empty list": (
        body(USER, assistant(), USER),
        "messages.1: all messages must have non-empty content except for the optional final "
        "assistant message",
    ),
    "an empty last answer": (body(USER, assistant(), model="claude-haiku-4-5"), "accepted"),
    "prefill": (body(USER, assistant(text("The answer is"))), PREFILL),
    "prefill on 4.6": (body(USER, assistant(text("So")), model="claude-sonnet-4-6"), PREFILL),
    "prefill where it works": (body(USER, assistant(text("So")), model="claude-sonnet-4-5"), "accepted"),
    "prefill that is thinking": (
        body(USER, assistant(thought("Hm.")), model="claude-haiku-4-5"),
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    ),
    "prefill with trailing space": (
        body(USER, assistant(text("So ")), model="claude-haiku-4-5"),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    "a system message at the end": (body(USER, system(text())), "accepted"),
    "two system messages": (body(USER, system(text()), system(text()), assistant(text()), USER), "accepted"),
    "a system message on Sonnet 5": (
        body(USER, system(text()), model="claude-sonnet-5"),
        'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
        'not "system" as an input message role.',
    ),
    "a system message first": (
        body(system(text()), USER),
        "messages.0: role 'system' must follow a 'user' message or an 'assistant' message that ends in a "
        "server tool result",
    ),
    "a system message after the assistant": (
        body(USER, assistant(text()), system(text()), USER),
        "messages.2: role 'system' must follow a 'user' message or an 'assistant' message that ends in a "
        "server tool result",
    ),
    "a system message before the user": (
        body(USER, system(text()), USER),
        "messages.1: role 'system' must precede an 'assistant' message or end the array",
    ),
    "a system message after a finished search": (
        body(USER, assistant(SEARCH, FOUND), system(text()), assistant(text()), USER),
        "accepted",
    ),
    "a call in a system message": (
        body(USER, system(call("t1"))),
        "messages.1.content.0: Input tag 'tool_use' found using 'type' does not match any of the expected "
        "tags: 'text', 'tool_addition', 'tool_removal'",
    ),
    "a system message that says nothing": (
        body(USER, {"role": "system"}),
        "messages.1: a 'system' message must have content or output_config",
    ),
    "too many images": (
        body(
            user(*[{"type": "image", "source": {"type": "url", "url": "u"}}] * 101), model="claude-haiku-4-5"
        ),
        "messages: too many images: 101 > 100",
    ),
}


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("sent", "expected"), CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_errors_in_a_conversation_have_the_wording_of_the_api(verdict, sent, expected):
    assert verdict(sent) == expected


@pytest.mark.spec("TW-6")
def test_the_new_version_rejects_documents_by_the_assistant_and_citations_by_the_user(verdict):
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}
    place = {"cited_text": "c", "type": "char_location", "document_index": 0, "document_title": None}
    place |= {"start_char_index": 0, "end_char_index": 1}
    spoken = body(USER, assistant(document), USER)
    cited = body(user(text(citations=[place])))
    answered = body(USER, assistant(text(citations=[place])), USER)

    assert [verdict(sent) for sent in (spoken, cited, answered)] == ["accepted"] * 3
    new = "2026-10-21"
    assert [verdict(sent, version=new) for sent in (spoken, cited, answered)] == [
        "messages.1.content.0: `document` blocks can only be in `user` messages",
        "messages.0.content.0.text.citations: citations are not permitted on text blocks in `user` messages",
        "accepted",
    ]


@pytest.mark.spec("TW-6")
def test_fields_of_a_system_message_need_their_headers(verdict):
    cleared = body(USER, system(text(), clear_at="next_user_message"))
    eager = body(USER, system(output_config={"effort": "low"}))
    marked = body(USER, system(text(cache_control={"type": "ephemeral"}), clear_at="next_user_message"))
    clear_at = "mid-conversation-system-clear-at-2026-08-21"

    assert verdict(cleared) == "messages.1.clear_at: Extra inputs are not permitted"
    assert verdict(cleared, betas=clear_at) == "accepted"
    assert verdict(eager) == "messages.1.output_config: Extra inputs are not permitted"
    assert verdict(eager, betas="mid-conversation-output-config-2026-07-01") == "accepted"
    assert verdict(marked, betas=clear_at) == (
        "messages.1.content.0.cache_control: cache_control cannot be set on a message with `clear_at`"
    )


@pytest.mark.spec("TW-6")
def test_a_conversation_has_at_most_a_hundred_thousand_messages(verdict):
    assert verdict(body(*[USER] * 100_001)) == (
        "messages: List should have at most 100000 items after validation"
    )


@pytest.mark.spec("TW-6")
def test_a_tool_defined_in_a_message_needs_a_header_of_its_own(verdict):
    tool = {"name": "feel", "input_schema": {"type": "object"}}
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool}}
    sent = body(USER, system(added))
    changes = "mid-conversation-tool-changes-2026-07-01"
    assert verdict(sent, betas=changes) == (
        "messages.1.content.0.tool_addition.tool: Input tag 'tool_definition' found using 'type' does not "
        "match any of the expected tags: 'mcp_tool_reference', 'mcp_toolset_reference', 'tool_reference'"
    )
    assert verdict(sent, betas=f"{changes},inline-tools-2026-09-15") == "accepted"


def test_counting_tokens_accepts_a_conversation_that_ends_with_the_assistant(verdict):
    sent = body(USER, assistant(text()))
    del sent["max_tokens"]
    assert verdict(sent, endpoint="count_tokens") == "accepted"


@pytest.mark.spec("TW-6")
def test_a_turn_of_manual_thinking_must_begin_with_thinking(verdict):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    manual = {"model": "claude-haiku-4-5", "thinking": thinking}
    bare = body(USER, assistant(call("t1")), user(result("t1")), **manual) | {"max_tokens": 2000}
    thought_first = body(USER, assistant(thought(), call("t1")), user(result("t1")), **manual) | {
        "max_tokens": 2000
    }
    finished = body(USER, assistant(text()), USER, **manual) | {"max_tokens": 2000}

    assert verdict(bare).startswith(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. "
        "When `thinking` is enabled, a final `assistant` message must start with a thinking block"
    )
    assert verdict(thought_first) == "accepted"
    assert verdict(finished) == "accepted"
    assert verdict(bare | {"model": "claude-opus-5", "thinking": {"type": "adaptive"}}) == "accepted"
