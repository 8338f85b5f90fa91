"""Which results report a failure, and in which of their lines.

A result flagged as an error always does. Of the others only the output of commands is examined
(`commands.py`): a file that was read may mention errors without being one.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec

from everturn.history.blocks import Block, text_of

# Matched line by line, and only at the beginning of a line: output may have any shape and size, and no
# pattern may take more than linear time.
_TELLING: Final = re.compile(
    r"^(?:E {3}|FAILED\b|--- FAIL|panic: |fatal: |CONFLICT \(|[\w./-]{1,200}:\d{1,9}(?::\d{1,9})?: )"
    r"|\berror(?:\[\w+\]| [A-Z]{1,8}\d{1,6})?: |(?:Error|Exception): |\b[1-9]\d{0,6} failed\b",
    re.IGNORECASE,
)
# First lines that only repeat what was run, or the name of a package.
_ECHOED: Final = re.compile(r"^(?:\[[\w:.-]{1,80}\] \$ |\$ |> |=== RUN|\? {2,}|ok\s|# \S|collect(?:ing|ed) )")
_LOOKED_AT: Final = 200
# In the bytes of a result, where a quotation mark inside of the text is escaped.
_BEGINS: Final = re.compile(
    rb'"(?:content|text)":\s?"(?:\s|\\[nt])*'
    rb'(?:error\b|\w{1,40}(?:Error|Exception): |failed to |\{\\"error\\")',
    re.IGNORECASE,
)
_WRAPPING: Final = re.compile(r"</?(?:tool_use_error|error)>")
_TAG_LINE: Final = re.compile(r"\s*</?[\w-]{1,40}>\s*$")
# What Gemini CLI prints behind the output of a command, if it says nothing.
_TRAILER: Final = re.compile(
    r"^(?:Error: \((?:none|empty)\)|Output: \(empty\)|Exit Code: 0|Signal: (?:0|\(none\))|Background PIDs: .*"
    r"|Process Group PGID: .*)$"
)
_EXIT: Final = re.compile(r"^Exit code \d+\s*$")
_RULER: Final = re.compile(r"^[\W_]*(?:test session starts)?[\W_]*$")
# How Claude Code records that a person refused, and what they said (as in recorded sessions); and how our own
# chat does (`chat/permission.py`).
_REFUSED: Final = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this",
    "User chose to stay in plan mode",
    "User rejected tool use",
    "PermissionDenied: the user said no to: ",
    # The wording in transcripts of everturn 0.1.0.
    "Refused: the user said no to: ",
)
_SAID: Final = re.compile(r"(?:the user said|reason for the rejection):\s*")
# A long output is searched from its end: that is where test runners repeat what failed.
_SEARCHED: Final = 20_000
_TELLING_LINES: Final = 4


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


def begins_with_error(block: Block) -> bool:
    """Whether the text of a result begins as an error message does. Some harnesses set no flag."""
    return _BEGINS.search(block.raw[:_LOOKED_AT]) is not None


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
    text = _WRAPPING.sub("", text_of(block))
    lines = (line.strip() for line in text[-_SEARCHED:].splitlines())
    named = [line for line in lines if _TELLING.search(line[:_LOOKED_AT])]
    first = first_line(text)
    if named and _ECHOED.match(first):
        first = ""
    # Without a line that names the failure, the end of the output is the best guess.
    ending = _last(named) or _last_lines(text, 1)
    return tuple(dict.fromkeys(line for line in (first, *ending) if line))


def _last(named: Sequence[str]) -> Sequence[str]:
    """The last lines that name failures, and among them as many failed tests as possible."""
    distinct = list(dict.fromkeys(named))
    tests = [line for line in distinct if line.startswith(("FAILED", "--- FAIL"))]
    chosen = frozenset((tests or distinct)[-_TELLING_LINES:])
    return [line for line in distinct if line in chosen]


def last_lines(block: Block, most: int) -> tuple[str, ...]:
    """The last lines of a result; separator lines and tags do not count."""
    return _last_lines(text_of(block), most)


def _last_lines(text: str, most: int) -> tuple[str, ...]:
    return tuple(reversed(_plain(reversed(text[-_SEARCHED:].splitlines()), most)))


def first_lines(block: Block, most: int) -> tuple[str, ...]:
    return _plain(text_of(block)[:_SEARCHED].splitlines(), most)


def _plain(lines: Iterable[str], most: int) -> tuple[str, ...]:
    plain = (
        line.strip()
        for line in lines
        if line.strip()
        and not _RULER.match(line[:_LOOKED_AT])
        and not _TAG_LINE.match(line)
        and not _TRAILER.match(line[:_LOOKED_AT])
    )
    return tuple(islice(plain, most))
