"""Answers Claude Code's hooks; most events return nothing immediately.

    PreCompact              saves a marker of what is about to be replaced; never blocks
    SessionStart (compact)  restores what the summary may have lost (`restore.py`), and names lost pins
    PostToolUse             with --shrink, moves a large result to a file (`shrink.py`)
    SessionEnd              deletes the marker

The exit code is 0, or 1 with one line on stderr, which Claude Code shows before it continues. It is never 2:
that would block the compaction or the tool.
"""

import os
import sys
import time

from everturn.adapters.claude_code.quick_json import decode, get_text, is_object
from everturn.terminal_text import printable

USAGE = "everturn hook [EVENT] [--shrink CHARACTERS]"


class HookInputError(Exception):
    """The arguments or the input are invalid; the message is for the user."""


def run(arguments: list[str]) -> int:
    """Run one hook: standard input to standard output."""
    try:
        event, limit = _parse_arguments(arguments)
        if sys.stdin is None or sys.stdin.isatty():
            raise HookInputError(
                "Claude Code calls this command, with JSON on standard input; see `everturn hook --help`."
            )
        data = sys.stdin.buffer.read()
        answer = None if _is_small(event, data, limit) else _answer(event, _payload(data), limit)
    except Exception as problem:
        # A hook must never block the user's work.
        what = str(problem) if _is_for_users(problem) else f"{type(problem).__name__}: {problem}"
        sys.stderr.write(f"everturn hook: {printable(what)}\n")
        return 1
    if answer:
        import json

        # ASCII only: the locale of a hook is unknown.
        sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _is_for_users(problem: Exception) -> bool:
    from everturn.errors import EverturnError

    return isinstance(problem, HookInputError | EverturnError)


def _parse_arguments(arguments: list[str]) -> tuple[str, int]:
    """The normalized event, "" if only the input names it, and the limit, 0 for none."""
    match arguments:
        case [*names, "--shrink", limit] if limit.isascii() and limit.isdigit() and int(limit) > 0:
            pass
        case [*names]:
            limit = "0"
    if len(names) > 1 or any(name.startswith("-") for name in names):
        raise HookInputError(f"invalid arguments {' '.join(arguments)!r}; usage: {USAGE}.")
    return _normalize_event(names[0]) if names else "", int(limit)


def _normalize_event(event: str) -> str:
    """PreCompact and pre-compact are the same event."""
    return event.replace("-", "").replace("_", "").lower()


def _is_small(event: str, data: bytes, limit: int) -> bool:
    """Whether a result is certainly within the limit, so that its input need not be parsed. What does not
    look like an object is parsed, to say what is wrong with it."""
    looks_whole = data[:1] == b"{" and data.rstrip()[-1:] == b"}"
    return looks_whole and event == "posttooluse" and (limit == 0 or len(data) <= limit)


def _payload(data: bytes) -> object:
    if not data.strip():
        raise HookInputError("the input is empty; expected the JSON object that Claude Code sends.")
    try:
        payload = decode(data.decode())
    except ValueError as problem:
        raise HookInputError(
            f"the input is not valid JSON ({problem}); expected the JSON object that Claude Code sends."
        ) from None
    if not is_object(payload):
        raise HookInputError(
            f"the input is a JSON {type(payload).__name__}; expected the JSON object that Claude Code sends."
        )
    return payload


def _answer(event: str, payload: object, limit: int) -> dict[str, object] | None:
    event = event or _normalize_event(get_text(payload, "hook_event_name"))
    if not event:
        raise HookInputError("the input has no hook_event_name; expected what Claude Code sends to hooks.")
    if event == "precompact":
        from everturn.adapters.claude_code.compaction_marker import state_folder, write_marker

        write_marker(payload, state_folder(os.environ), time.time())
    elif event == "sessionend":
        from everturn.adapters.claude_code.compaction_marker import delete_marker, state_folder

        delete_marker(payload, state_folder(os.environ))
    elif event == "sessionstart" and get_text(payload, "source") == "compact":
        from everturn.adapters.claude_code.compaction_marker import read_marker, state_folder
        from everturn.adapters.claude_code.restore import build_restored_context

        marker = read_marker(payload, state_folder(os.environ))
        restored = build_restored_context(payload, marker)
        answer = _hook_output("SessionStart", "additionalContext", restored.text) or {}
        # Claude Code shows it to the user; of what ends well, stderr is not shown.
        return answer | ({"systemMessage": printable(restored.problem)} if restored.problem else {})
    elif event == "posttooluse" and limit:
        from everturn.adapters.claude_code.compaction_marker import state_folder
        from everturn.adapters.claude_code.shrink import shrink_result

        return _hook_output(
            "PostToolUse", "updatedToolOutput", shrink_result(payload, limit, state_folder(os.environ))
        )
    return None


def _hook_output(event: str, field: str, value: object) -> dict[str, object] | None:
    return {"hookSpecificOutput": {"hookEventName": event, field: value}} if value else None
