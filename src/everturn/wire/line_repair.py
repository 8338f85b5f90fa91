"""Repairs malformed lines of a session file where possible, and always reports them.

Torn writes, runs of NUL bytes, comments, invalid UTF-8 and invalid numbers occur in real session files
(faults F03-F05, F55-F58). The line itself keeps its bytes; the repair makes a readable copy, and every change
to that copy is reported.
"""

import re
from collections.abc import Sequence
from json import JSONDecoder
from typing import Literal

import msgspec

LineProblemKind = Literal[
    "torn", "glued", "hole", "comment", "not_json", "not_utf8", "surrogate", "number", "depth", "shape",
    "checksum",
]  # fmt: skip


class LineProblem(msgspec.Struct, frozen=True):
    """A problem with a line of a file, worded so that a person can find it."""

    line: int
    kind: LineProblemKind
    what: str


def describe_problems(problems: Sequence[LineProblem]) -> tuple[str, ...]:
    return tuple(f"line {each.line}: {each.what}" for each in problems)


class RepairedLine(msgspec.Struct, frozen=True):
    """The readable objects of a line (JSON bytes), and the problems found in it."""

    objects: tuple[bytes, ...]
    flaws: tuple[LineProblem, ...]


_skim = msgspec.json.Decoder(msgspec.Raw).decode
_glued = JSONDecoder(strict=False, parse_int=str)

# A surrogate pair (a whole character), a lone surrogate, or any other escape (left as it is).
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."
)
# Strings are matched whole, so that only numbers outside of strings are found. The closing quote is optional
# and the quantifiers are possessive: torn strings must not cost quadratic time.
_NOT_NUMBERS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?P<odd>NaN|-?Infinity)', re.DOTALL)
_VISIBLE = re.compile(r"\S")
_HOLE = re.compile(rb"\0+")


def repair_line(raw: bytes, number: int, *, is_last: bool) -> RepairedLine:
    """Make a malformed line readable. `number` counts from 1, as editors do."""
    if b"\0" not in raw:
        return _mend(raw, number, is_last=is_last)
    hole = LineProblem(number, "hole", f"{raw.count(0)} NUL bytes, typical after a file system crash")
    # A run of NUL bytes may have replaced a newline, so the text after it is treated as a separate line. The
    # two sides are never joined: if the run hides the end of one line and the start of another, joining them
    # would invent a record.
    pieces = [_mend(piece, number, is_last=is_last) for piece in _HOLE.split(raw)]
    objects = tuple(found for piece in pieces for found in piece.objects)
    return RepairedLine(objects, (hole, *(flaw for piece in pieces for flaw in piece.flaws)))


def is_json(raw: bytes) -> bool:
    return _problem(raw.decode(errors="replace")) is None


def too_deep(number: int) -> LineProblem:
    return LineProblem(number, "depth", "nested too deeply to be read; the line is kept and not shown")


def _mend(raw: bytes, number: int, *, is_last: bool) -> RepairedLine:
    flaws: list[LineProblem] = []
    body = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if not body:
        return RepairedLine((), ())
    if body.startswith(b"//"):
        return RepairedLine((), (*flaws, LineProblem(number, "comment", "a comment, kept and not read")))
    text = _as_text(body, number, flaws)
    problem = _problem(text)
    for repair in (_whole_characters, _plain_numbers):
        if problem:
            text = repair(text, number, flaws)
            problem = _problem(text)
    if problem is None:
        return RepairedLine((text.encode(),), tuple(flaws))
    if isinstance(problem, RecursionError):
        return RepairedLine((), (*flaws, too_deep(number)))
    return _several(text, number, flaws, is_last=is_last)


def _as_text(body: bytes, number: int, flaws: list[LineProblem]) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        flaws.append(LineProblem(number, "not_utf8", f"byte {error.start} is not UTF-8; shown as U+FFFD"))
        return body.decode(errors="replace")


def _problem(text: str) -> Exception | None:
    try:
        _skim(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        return error
    return None


def _whole_characters(text: str, number: int, flaws: list[LineProblem]) -> str:
    if "\\u" not in text:
        return text
    mended, count = _replace_named(_ESCAPES, "lone", "\\ufffd", text)
    if count:
        flaws.append(LineProblem(number, "surrogate", f"unpaired surrogates, shown as U+FFFD: {count}"))
    return mended


def _plain_numbers(text: str, number: int, flaws: list[LineProblem]) -> str:
    if "NaN" not in text and "Infinity" not in text:
        return text
    mended, count = _replace_named(_NOT_NUMBERS, "odd", '"not a number"', text)
    if count:
        flaws.append(
            LineProblem(number, "number", f"values that JSON does not allow (NaN, Infinity): {count}")
        )
    return mended


def _replace_named(pattern: re.Pattern[str], group: str, by: str, text: str) -> tuple[str, int]:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        if match[group] is None:
            return match[0]
        count += 1
        return by

    return pattern.sub(replace, text), count


def _several(text: str, number: int, flaws: list[LineProblem], *, is_last: bool) -> RepairedLine:
    """Split objects that a torn write joined on one line; the unreadable rest is reported."""
    objects: list[bytes] = []
    at = 0
    while end := _end_of_object(text, at):
        objects.append(text[at:end].encode())
        at = next((found.start() for found in _VISIBLE.finditer(text, end)), len(text))
    rest = text[at:]
    if len(objects) > 1 or (objects and rest):
        flaws.append(LineProblem(number, "glued", f"{len(objects)} objects on one line"))
    if rest:
        flaws.append(_unreadable(rest, number, is_last=is_last))
    return RepairedLine(tuple(objects), tuple(flaws))


def _end_of_object(text: str, start: int) -> int:
    """The position where the object that starts here ends; 0 if there is none."""
    if not text.startswith("{", start):
        return 0
    try:
        return _glued.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return 0


def _unreadable(rest: str, number: int, *, is_last: bool) -> LineProblem:
    size = len(rest)
    if is_last and rest.startswith("{"):
        return LineProblem(
            number, "torn", f"the last line ends in the middle ({size} characters); kept, not read"
        )
    start = f"{size} characters that are not a JSON object: {rest[:40]!r}"
    return LineProblem(number, "not_json", f"{start}; kept, not read")
