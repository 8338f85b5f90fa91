"""The format of the lines of a synthetic session: key order and shapes of Claude Code 2.1.x files.

Values in, dictionaries out. Which line is written when, and under which parent: `transcript_writer.py`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from everturn.replay.synthetic.workspace.tools import SyntheticToolCall

VERSION = "2.1.20"
SHORT = 160  # characters of each string in a short display copy
FEW = 4  # items of each list in a short display copy
REMINDER = "\n\n<system-reminder>\nJudge this file before you extend it.\n</system-reminder>"


def stamp_of(now_ms: int) -> str:
    moment = datetime.fromtimestamp(now_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{now_ms % 1000:03d}Z"


def envelope(*, parent: str | None, agent: str, cwd: str, session: str, slug: str) -> dict[str, Any]:
    line: dict[str, Any] = {
        "parentUuid": parent,
        "isSidechain": bool(agent),
        "userType": "external",
        "cwd": cwd,
        "sessionId": session,
        "version": VERSION,
        "gitBranch": "main",
    }
    if agent:
        line["agentId"] = agent
    return line | {"slug": slug}


def usage(seen: Mapping[str, int], *, lifetime: str, output: int) -> dict[str, Any]:
    written = {"5m": 0, "1h": 0} | {lifetime: seen["write"]}
    return {
        "input_tokens": seen["input"],
        "cache_creation_input_tokens": seen["write"],
        "cache_read_input_tokens": seen["read"],
        "cache_creation": {f"ephemeral_{name}_input_tokens": size for name, size in written.items()},
        "output_tokens": output,
        "service_tier": "standard",
    }


def message(model: str, message_id: str, block: dict[str, Any], used: dict[str, Any]) -> dict[str, Any]:
    """One block of a reply. `stop_reason` is empty, as in most recorded lines."""
    return {
        "model": model,
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "content": [block],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": used,
    }


def result_block(step: SyntheticToolCall, call: str, *, reminds: bool) -> dict[str, Any]:
    """A tool result. Failures have a different key order than successes, as in recorded files."""
    if step.is_error:
        return {"type": "tool_result", "content": step.content, "is_error": True, "tool_use_id": call}
    content = step.content
    if reminds and step.tool == "Read" and isinstance(content, str):
        content += REMINDER
    block: dict[str, Any] = {"tool_use_id": call, "type": "tool_result", "content": content}
    return block | ({"is_error": False} if step.tool == "Bash" else {})


def bash_progress(second: int) -> dict[str, Any]:
    return {
        "type": "bash_progress",
        "output": "",
        "fullOutput": "",
        "elapsedTimeSeconds": second,
        "totalLines": 0,
    }


def hook_progress(tool: str) -> dict[str, Any]:
    name = f"PostToolUse:{tool}"
    return {
        "type": "hook_progress",
        "hookEvent": "PostToolUse",
        "hookName": name,
        "command": "make after-tool",
    }


def start_hook(tool_id: str) -> dict[str, Any]:
    return {
        "type": "hook_success",
        "hookName": "SessionStart:startup",
        "toolUseID": tool_id,
        "hookEvent": "SessionStart",
        "content": "",
        "stdout": "",
        "stderr": "",
        "exitCode": 0,
        "command": "make session-start",
        "durationMs": 84,
    }


def stop_hook(tool_id: str) -> dict[str, Any]:
    return {
        "hookCount": 1,
        "hookInfos": [{"command": "make after-turn"}],
        "hookErrors": [],
        "preventedContinuation": False,
        "stopReason": "",
        "hasOutput": False,
        "level": "suggestion",
        "toolUseID": tool_id,
    }


def compaction(*, trigger: str, tokens: int) -> dict[str, Any]:
    metadata = {"trigger": trigger, "preTokens": tokens}
    return {
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": metadata,
    }


def microcompaction(*, tokens: int, saved: int, calls: Sequence[str]) -> dict[str, Any]:
    metadata = {
        "trigger": "auto",
        "preTokens": tokens,
        "tokensSaved": saved,
        "compactedToolIds": list(calls),
        "clearedAttachmentUUIDs": [],
    }
    return {
        "content": "Context microcompacted",
        "isMeta": False,
        "level": "info",
        "microcompactMetadata": metadata,
    }


def snapshot(
    message_id: str, prompt_id: str, files: Mapping[str, Any], stamp: str, *, updates: bool
) -> dict[str, Any]:
    taken = {"messageId": prompt_id, "trackedFileBackups": dict(files), "timestamp": stamp}
    line = {"type": "file-history-snapshot", "messageId": message_id, "snapshot": taken}
    return line | {"isSnapshotUpdate": updates}


def shortened(value: Any) -> Any:
    """A copy with shortened strings and lists, which keeps example files small."""
    match value:
        case str():
            return value[:SHORT]
        case dict():
            return {key: shortened(item) for key, item in cast(dict[str, Any], value).items()}
        case list():
            return [shortened(item) for item in cast(list[Any], value)[:FEW]]
        case _:
            return value
