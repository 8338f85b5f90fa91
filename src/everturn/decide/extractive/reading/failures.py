"""Which results report a failure, and in which of their lines.

A result flagged as an error always does. Of the others only the output of commands is examined, for patterns
that test runners and compilers print: a file that was read may mention errors without being one.
"""

import re
from typing import Final

import msgspec

from everturn.history.blocks import Block, text_of

_MARKS: Final = (b"Traceback (most recent", b"--- FAIL", b"FAILED", b"panic: ", b"error[E", b": error: ")
# Matched line by line, and only at the beginning of a line: output may have any shape and size, and no
# pattern may take more than linear time.
_TELLING: Final = re.compile(
    r"^(?:E {3}|FAILED\b|--- FAIL|panic: |fatal: )|\berror(?:\[\w+\])?: |(?:Error|Exception): ", re.IGNORECASE
)
_LOOKED_AT: Final = 200
_WRAPPING: Final = re.compile(r"</?(?:tool_use_error|error)>")
_EXIT: Final = re.compile(r"^Exit code \d+\s*$")
_RULER: Final = re.compile(r"^[\W_]*(?:test session starts)?[\W_]*$")
# How Claude Code records that a person refused, and what they said (as in recorded sessions); and how our own
# chat does (`chat/permission.py`).
_REFUSED: Final = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this",
    "PermissionDenied: the user said no to: ",
    # The wording in transcripts of everturn 0.1.0.
    "Refused: the user said no to: ",
)
_SAID: Final = re.compile(r"(?:the user said|reason for the rejection):\s*")
# A long output is searched from its end: that is where test runners repeat what failed.
_SEARCHED: Final = 20_000
_TELLING_LINES: Final = 3


class _Flag(msgspec.Struct):
    is_error: bool = False


_read_flag = msgspec.json.Decoder(_Flag).decode


def is_error(block: Block) -> bool:
    """Checks only the flag, not the text; most results have none and are not parsed."""
    if b'"is_error"' not in block.raw:
        return False
    try:
        return _read_flag(block.raw).is_error
    except msgspec.DecodeError:
        return False


def prints_failure(block: Block) -> bool:
    """Whether the output of a command contains a failure pattern."""
    return any(mark in block.raw for mark in _MARKS)


def was_refused(text: str) -> bool:
    return text.startswith(_REFUSED)


def words_of_refusal(text: str) -> str:
    found = _SAID.search(text)
    return text[found.end() :].strip() if found else ""


def first_line(text: str) -> str:
    """The first line with content; an exit code or a separator line does not count."""
    for line in _WRAPPING.sub("", text).splitlines():
        if line.strip() and not _EXIT.match(line) and not _RULER.match(line[:_LOOKED_AT]):
            return line.strip()
    return ""


def telling_lines(block: Block) -> tuple[str, ...]:
    """The first line, and those that name the failure; fewer if they are the same."""
    text = text_of(block)
    lines = (line.strip() for line in text[-_SEARCHED:].splitlines())
    named = [line for line in lines if _TELLING.search(line[:_LOOKED_AT])]
    found = [line for line in (first_line(text), *named[-_TELLING_LINES:]) if line]
    return tuple(dict.fromkeys(found))
