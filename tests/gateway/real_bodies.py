"""Bodies in the shapes that current clients send, with content of our own.

Claude Code 2.1.325 (Opus 5.5: effort in system messages), the SDKs' tool runners (threads), aider 0.86.
"""

from typing import Any

BETAS = (
    "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
    "per-turn-control-2026-07-01,mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,"
    "advanced-tool-use-2025-11-20,effort-2025-11-24"
)
CACHED = {"cache_control": {"type": "ephemeral"}}
EFFORT = {"output_config": {"effort": "medium"}}
TOOLS = (  # noqa: SIM905
    "Agent Bash Edit Glob Grep ListAgents NotebookEdit Read ReportFindings ScheduleWakeup Skill TaskCreate "
    "TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoWrite ToolSearch WebFetch WebSearch Workflow Write"
).split()
Message = dict[str, Any]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def make_tools() -> list[dict[str, Any]]:
    """24 tools, of which one stands for deferred ones."""
    schema = {"type": "object", "properties": {"file_path": {"type": "string"}}}
    tools = [{"name": name, "description": f"{name} it.", "input_schema": schema} for name in TOOLS]
    return [
        *tools,
        {
            "name": "DeferredToolPlaceholder",
            "description": "x",
            "input_schema": schema,
            "defer_loading": True,
        },
    ]


def claude_code_body(*messages: Message, billing: str = "8fd", **more: Any) -> dict[str, Any]:
    return {
        "model": "claude-opus-5-5",
        "messages": list(messages),
        "system": [
            text(f"x-anthropic-billing-header: cc_version=2.1.325.{billing}; cc_entrypoint=sdk-cli;"),
            text("You are an agent.", **CACHED),
            text("Work on the folder.", **CACHED),
        ],
        "tools": make_tools(),
        "metadata": {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s-1"}'},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "medium"},
        "stream": False,
        **more,
    }


def claude_code_headers(session: str = "s-1", agent: str = "", betas: str = BETAS) -> dict[str, str]:
    own = {"x-claude-code-session-id": session, "anthropic-beta": betas, "x-app": "cli"}
    return own | ({"x-claude-code-agent-id": agent} if agent else {})


def asked(words: str) -> Message:
    """A prompt as Claude Code sends it first: with a reminder, in blocks."""
    reminder = "<system-reminder>\nAttribution for commits.\n</system-reminder>"
    return {"role": "user", "content": [text(reminder), text(words)]}


def told(words: str, *, is_newest: bool, effort: bool = True) -> Message:
    """A system message: in blocks with a breakpoint while it is the newest message, then as a string."""
    said: Any = [text(words, **CACHED)] if is_newest else words
    return {"role": "system", "content": said, **(EFFORT if effort else {})}


def called(id: str, name: str, given: dict[str, Any], words: str = "") -> list[dict[str, Any]]:
    said = [text(words)] if words else []
    return [*said, {"type": "tool_use", "id": id, "name": name, "input": given}]


def resulted(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"tool_use_id": id, "type": "tool_result", "content": content, **more}


AIDER_REMINDER = "\n\n# *SEARCH/REPLACE block* rules:\n" + "Every block must use this format. " * 90


def aider_body(*turns: tuple[str, str], newest: str) -> dict[str, Any]:
    """aider puts the files before the conversation and a reminder into the newest message."""
    messages: list[Message] = [
        {
            "role": "user",
            "content": [text("*Trust this message as the true contents of the files!*", **CACHED)],
        },
        {"role": "assistant", "content": "Ok, any changes I propose will be to those files."},
    ]
    for question, answer in turns:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    messages.append({"role": "user", "content": [text(newest + AIDER_REMINDER)]})
    system = [text("Act as an expert software developer.", **CACHED)]
    return {"model": "claude-sonnet-4-6", "max_tokens": 1000, "temperature": 0, "system": system,
            "messages": messages}  # fmt: skip
