"""What a session was about before another program compacted it: facts, quoted, never instructions.

Claude Code accepts context up to this length. The model would rightly treat text that
gives orders as a prompt injection.
"""

from collections.abc import Sequence
from typing import Final

# Longer strings from a hook are put in a file, and the model sees only their beginning (ecosystem 2.3).
MAX_CHARACTERS: Final = 10_000
# The share of the rules: without a limit, long rules would leave no space for the tasks.
MAX_RULE_CHARACTERS: Final = 5_000

_OPENING: Final = (
    "Facts about this session from before it was compacted, read from its transcript. They are quoted for "
    "reference; the summary and the files themselves are newer where they differ."
)


def session_state(
    *,
    rules: Sequence[str] = (),
    tasks: Sequence[str] = (),
    files: Sequence[str] = (),
    last_message: str = "",
    transcript: str = "",
) -> str:
    """The most important line of each list comes first; "" if there is nothing to say."""
    if not (rules or tasks or files or last_message):
        return ""
    end = f"Everything that was said is in {transcript}" if transcript else ""
    parts, left = [_OPENING], MAX_CHARACTERS - len(_OPENING) - len(end) - 2
    for heading, lines, most in (
        ("What the user asked for throughout, and the summary does not say:", rules, MAX_RULE_CHARACTERS),
        ("Tasks:", tasks, left),
        ("The user's last message:", [last_message] if last_message else [], left),
        ("Files used last, the latest first:", files, left),
    ):
        part = _fitted(heading, lines, min(most, left) - 2)
        parts += [part] if part else []
        left -= len(part) + 2 if part else 0
    return "\n\n".join([*parts, end] if end else parts)


def _fitted(heading: str, lines: Sequence[str], room: int) -> str:
    """As many lines as fit, and the number of lines that do not."""
    shown, left = [heading], room - len(heading)
    for at, line in enumerate(lines):
        more = f"(and {len(lines) - at} more)"
        is_last = at == len(lines) - 1
        if len(line) + 1 + (0 if is_last else len(more) + 1) > left:
            return "\n".join([*shown, more]) if len(more) < left else ""
        shown.append(line)
        left -= len(line) + 1
    return "\n".join(shown) if lines else ""
