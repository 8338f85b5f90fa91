"""What is answered to a hook of Claude Code. Nothing, at once, for most of them.

    PreCompact              keeps a marker of what is about to be replaced; never blocks
    SessionStart (compact)  gives back what the summary may have lost (`restore.py`)
    PostToolUse             with --shrink, moves a huge result to a file (`shrink.py`)
    SessionEnd              forgets the marker

The exit code is 0, or 1 with a sentence on stderr, which Claude Code shows and passes over. It is never 2:
that would forbid the compaction or the tool.
"""

import os
import sys
import time

from everturn.adapters.claude_code.quick_json import decode, get_text

USAGE = "everturn hook [EVENT] [--shrink CHARACTERS]"


class HookInputError(Exception):
    """The call or its input is not what it should be; the words are for a person."""


def run(arguments: list[str]) -> int:
    """One hook: standard input to standard output."""
    try:
        event, limit = _parse_arguments(arguments)
        if sys.stdin is None or sys.stdin.isatty():
            raise HookInputError(
                "it is called by Claude Code, with JSON on standard input; see `everturn hook --help`."
            )
        data = sys.stdin.buffer.read()
        answer = None if _is_small(event, data, limit) else _answer(event, _payload(data), limit)
    except Exception as problem:
        # A hook stands in the way of somebody's work: whatever it is, it must not stop it.
        what = str(problem) if isinstance(problem, HookInputError) else f"{type(problem).__name__}: {problem}"
        sys.stderr.write(f"everturn hook: {what}\n")
        return 1
    if answer:
        import json

        # Escaped letters only: the locale of a hook is not known.
        sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _parse_arguments(arguments: list[str]) -> tuple[str, int]:
    """The event in plain letters, "" where only the input names it; and the limit, 0 for none."""
    match arguments:
        case [*names, "--shrink", limit] if limit.isascii() and limit.isdigit() and int(limit) > 0:
            pass
        case [*names]:
            limit = "0"
    if len(names) > 1 or any(name.startswith("-") for name in names):
        raise HookInputError(f"called as {' '.join(arguments)!r}; it must be {USAGE}.")
    return _normalize_event(names[0]) if names else "", int(limit)


def _normalize_event(event: str) -> str:
    """PreCompact and pre-compact are the same event."""
    return event.replace("-", "").replace("_", "").lower()


def _is_small(event: str, data: bytes, limit: int) -> bool:
    """Whether a tool's result is surely within the limit: then its input need not even be read."""
    return event == "posttooluse" and (limit == 0 or len(data) <= limit)


def _payload(data: bytes) -> object:
    try:
        payload = decode(data.decode())
    except ValueError as problem:
        raise HookInputError(f"the input is no JSON ({problem}); Claude Code gives a JSON object.") from None
    if not isinstance(payload, dict):
        raise HookInputError(
            f"the input is {type(payload).__name__}, not a JSON object as Claude Code gives it."
        )
    return payload


def _answer(event: str, payload: object, limit: int) -> dict[str, object] | None:
    event = event or _normalize_event(get_text(payload, "hook_event_name"))
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
        return _hook_output("SessionStart", "additionalContext", build_restored_context(payload, marker))
    elif event == "posttooluse" and limit:
        from everturn.adapters.claude_code.compaction_marker import state_folder
        from everturn.adapters.claude_code.shrink import shrink_result

        return _hook_output(
            "PostToolUse", "updatedToolOutput", shrink_result(payload, limit, state_folder(os.environ))
        )
    return None


def _hook_output(event: str, field: str, value: object) -> dict[str, object] | None:
    return {"hookSpecificOutput": {"hookEventName": event, field: value}} if value else None
