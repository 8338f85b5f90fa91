"""The content block types and their fields.

Taken from the parameter types of the official SDK 2.8, stable and beta; tests compare the two. `betas.py`
lists the types that need a beta header, `messages.py` has the rules between blocks.
"""

from everturn.twin.validate.grammar import Grammar, text

CACHE_CONTROL_FIELD = "cache_control cache_control?"
_CALLED = f"{CACHE_CONTROL_FIELD}, caller caller?"
_ANSWER = f"tool_use_id! server_id, {CACHE_CONTROL_FIELD}"

SHAPES = {
    "citations_switch": "enabled bool",
    "image_transformations": "oversized_image 'downsize'/'error'",
    "tab": "tab_id! str, title! str, url! str, active bool",
    "fallback_model": "model! str",
    "mcp_tool": "input_schema! object, name! str, description str?",
    "output_file": "file_id! str, type! 'code_execution_output'",
    "bash_output_file": "file_id! str, type! 'bash_code_execution_output'",
    "web_result": "encrypted_content! str, title! str, type! 'web_search_result', url! str, page_age str?",
    "web_error": "error_code! str, type! 'web_search_tool_result_error'",
    "cache_deletion": "type! 'delete', cache_reference! str",
}

FAMILIES = {
    "cache_control": {"ephemeral": "ttl '5m'/'1h'"},
    "caller": {
        "direct": "",
        "code_execution_20250825": "tool_id! str",
        "code_execution_20260120": "tool_id! str",
    },
    "citation": {
        "char_location": "cited_text! str, document_index! int, document_title! str?, end_char_index! int, "
        "start_char_index! int, file_id str?",
        "page_location": "cited_text! str, document_index! int, document_title! str?, end_page_number! int, "
        "start_page_number! int, file_id str?",
        "content_block_location": "cited_text! str, document_index! int, document_title! str?, "
        "end_block_index! int, start_block_index! int, file_id str?",
        "web_search_result_location": "cited_text! str, encrypted_index! str, title! str?, url! str",
        "search_result_location": "cited_text! str, end_block_index! int, search_result_index! int, "
        "source! str, start_block_index! int, title! str?",
    },
    "image_source": {
        "base64": "data! filled, media_type! 'image/jpeg'/'image/png'/'image/gif'/'image/webp'",
        "url": "url! str",
        "file": "file_id! str",
    },
    "document_source": {
        "base64": "data! filled, media_type! 'application/pdf'",
        "text": "data! str, media_type! 'text/plain'",
        "content": "content! str/[document_part]",
        "url": "url! str",
        "file": "file_id! str",
    },
    "browser_change": {
        "tab_opened": "tab_id! str",
        "download_started": "download_id! str, url! str",
        "download_completed": "download_id! str, url! str, path str?, size_bytes int?",
        "download_failed": "download_id! str, url! str, error str?",
    },
    "web_fetched": {
        "web_fetch_tool_result_error": "error_code! str",
        "web_fetch_result": "content! fetched_document, url! str, retrieved_at str?",
    },
    "code_output": {
        "code_execution_tool_result_error": "error_code! str",
        "code_execution_result": "content! [output_file], return_code! int, stderr! str, stdout! str",
        "encrypted_code_execution_result": "content! [output_file], encrypted_stdout! str, return_code! int, "
        "stderr! str",
    },
    "bash_output": {
        "bash_code_execution_tool_result_error": "error_code! str",
        "bash_code_execution_result": "content! [bash_output_file], return_code! int, stderr! str, "
        "stdout! str",
    },
    "editor_output": {
        "text_editor_code_execution_tool_result_error": "error_code! str, error_message str?",
        "text_editor_code_execution_view_result": "content! str, file_type! 'text'/'image'/'pdf', "
        "num_lines int?, start_line int?, total_lines int?",
        "text_editor_code_execution_create_result": "is_file_update! bool",
        "text_editor_code_execution_str_replace_result": "lines [str]?, new_lines int?, new_start int?, "
        "old_lines int?, old_start int?",
    },
    "tool_search_output": {
        "tool_search_tool_result_error": "error_code! str, error_message str?",
        "tool_search_tool_search_result": "tool_references! [tool_reference_block]",
    },
    "advice": {
        "advisor_tool_result_error": "error_code! str",
        "advisor_result": "text! str, stop_reason str?",
        "advisor_redacted_result": "encrypted_content! str, stop_reason str?",
    },
    "changed_tool": {
        "tool_reference": "name! str",
        "mcp_tool_reference": "name! str, server_name! str",
        "mcp_toolset_reference": "server_name! str",
        "tool_definition": "definition! tool",
    },
    "removed_tool": {
        "tool_reference": "name! str",
        "mcp_tool_reference": "name! str, server_name! str",
        "mcp_toolset_reference": "server_name! str",
    },
}

_TEXT = f"text! str, {CACHE_CONTROL_FIELD}, citations [citation]?"
_IMAGE = f"source! image_source, {CACHE_CONTROL_FIELD}, transformations image_transformations?"
_DOCUMENT = (
    f"source! document_source, {CACHE_CONTROL_FIELD}, citations citations_switch?, context str?, title str?"
)
_SEARCH_RESULT = (
    f"content! [text_block], source! str, title! str, {CACHE_CONTROL_FIELD}, citations citations_switch"
)
_TOOL_REFERENCE = f"tool_name! str, {CACHE_CONTROL_FIELD}"

# Inside a tool_result's list (api-facts 7).
RESULT_PARTS = {
    "text": _TEXT,
    "image": _IMAGE,
    "document": _DOCUMENT,
    "search_result": _SEARCH_RESULT,
    "tool_reference": _TOOL_REFERENCE,
    "browser_state": f"tabs! [tab], {CACHE_CONTROL_FIELD}, state_changes [browser_change]?",
}

BLOCKS = {
    "text": _TEXT,
    "image": _IMAGE,
    "document": _DOCUMENT,
    "search_result": _SEARCH_RESULT,
    "thinking": "signature! str, thinking! str",
    "redacted_thinking": "data! str",
    "tool_use": f"id! tool_id, input! object, name! called_name, {_CALLED}, toolset_name str?",
    "tool_result": f"tool_use_id! tool_id, {CACHE_CONTROL_FIELD}, content str/[result_part]?, "
    "is_error bool?, toolset_name str?",
    "server_tool_use": f"id! server_id, input! object, name! server_tool, {_CALLED}",
    "web_search_tool_result": f"content! [web_result]/web_error, {_ANSWER}, caller caller?",
    "web_fetch_tool_result": f"content! web_fetched, {_ANSWER}, caller caller?",
    "code_execution_tool_result": f"content! code_output, {_ANSWER}",
    "bash_code_execution_tool_result": f"content! bash_output, {_ANSWER}",
    "text_editor_code_execution_tool_result": f"content! editor_output, {_ANSWER}",
    "tool_search_tool_result": f"content! tool_search_output, {_ANSWER}",
    "advisor_tool_result": f"content! advice, {_ANSWER}",
    "mcp_tool_use": f"id! str, input! object, name! str, server_name! str, {CACHE_CONTROL_FIELD}",
    "mcp_tool_result": f"tool_use_id! str, {CACHE_CONTROL_FIELD}, content str/[text_block], is_error bool",
    "mcp_tool_listing": "mcp_server_name! str, tools! [mcp_tool]",
    "container_upload": f"file_id! str, {CACHE_CONTROL_FIELD}",
    "compaction": f"{CACHE_CONTROL_FIELD}, content summary?, encrypted_content str?, signature str?, "
    "tool_changes [tool_change]?",
    "tool_addition": f"tool! changed_tool, {CACHE_CONTROL_FIELD}",
    "tool_removal": f"tool! removed_tool, {CACHE_CONTROL_FIELD}",
    "fallback": "from! fallback_model, to! fallback_model, trigger any",
}

# Outside the public API (api-facts 9): an extension of the twin, off by default.
CACHE_EDITS_BLOCK = "edits! [cache_deletion]"
REFERABLE = "cache_reference str?"

SERVER_TOOLS = {
    "web_search": "web_search_tool_result",
    "web_fetch": "web_fetch_tool_result",
    "code_execution": "code_execution_tool_result",
    "bash_code_execution": "bash_code_execution_tool_result",
    "text_editor_code_execution": "text_editor_code_execution_tool_result",
    "tool_search_tool_regex": "tool_search_tool_result",
    "tool_search_tool_bm25": "tool_search_tool_result",
    "advisor": "advisor_tool_result",
}
SERVER_RESULTS = frozenset((*SERVER_TOOLS.values(), "mcp_tool_result"))
SYSTEM_MESSAGE_BLOCKS = frozenset(("text", "tool_addition", "tool_removal"))


def add_blocks(grammar: Grammar) -> None:
    """Define the shapes of all content blocks."""
    grammar.define("tool_id", text(pattern="^[a-zA-Z0-9_-]+$"))
    grammar.define("server_id", text(pattern="^srvtoolu_[a-zA-Z0-9_]+$"))
    grammar.define("called_name", text(at_least=1, at_most=200))
    grammar.define("server_tool", grammar.kind("/".join(f"'{name}'" for name in SERVER_TOOLS)))
    grammar.define("filled", text(at_least=1))
    grammar.define("summary", text(at_least=1))
    grammar.shapes(SHAPES)
    for name, members in FAMILIES.items():
        grammar.family(name, members)
    grammar.family("result_part", RESULT_PARTS)
    grammar.family("document_part", {"text": _TEXT, "image": _IMAGE})
    grammar.shapes(
        {
            "text_block": f"type! 'text', {_TEXT}",
            "fetched_document": f"type! 'document', {_DOCUMENT}",
            "tool_reference_block": f"type! 'tool_reference', {_TOOL_REFERENCE}",
        }
    )
    grammar.family("tool_change", {kind: BLOCKS[kind] for kind in ("tool_addition", "tool_removal")})
