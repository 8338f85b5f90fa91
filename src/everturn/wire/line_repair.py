"""Lines that are not what they should be: made readable where possible, reported always.

Torn writes, holes of NUL bytes, comments, foreign bytes and impossible numbers occur in real session
files (faults F03-F05, F55-F58). The line itself keeps its bytes; what is mended here is a readable copy,
and every change made to that copy is named.
"""

import re
from json import JSONDecoder
from typing import Literal

import msgspec

LineProblemKind = Literal[
    "torn", "glued", "hole", "comment", "not_json", "not_utf8", "surrogate", "number", "depth", "shape"
]


class LineProblem(msgspec.Struct, frozen=True):
    """Something wrong with a line of a file, said so that a person can go and look."""

    line: int
    kind: LineProblemKind
    what: str


class Mended(msgspec.Struct, frozen=True):
    """The readable objects of a line (JSON bytes), and what had to be done to read them."""

    objects: tuple[bytes, ...]
    flaws: tuple[LineProblem, ...]


_skim = msgspec.json.Decoder(msgspec.Raw).decode
_glued = JSONDecoder(strict=False, parse_int=str)

# A backslash pair that is a whole character, a lone half of one, or any other escape (left alone).
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."
)
# Strings are skipped whole, so that only numbers outside of them are seen.
# The closing quote is optional and nothing is tried twice: torn strings must not cost quadratic time.
_NOT_NUMBERS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?P<odd>NaN|-?Infinity)', re.DOTALL)
_VISIBLE = re.compile(r"\S")
_HOLE = re.compile(rb"\0+")


def repair_line(raw: bytes, number: int, *, is_last: bool) -> Mended:
    """Make a line readable that is not. `number` counts from 1, as editors do."""
    if b"\0" not in raw:
        return _mend(raw, number, is_last=is_last)
    hole = LineProblem(number, "hole", f"{raw.count(0)} NUL bytes, as a crashed file system leaves them")
    # A hole may have swallowed a newline: what stands behind it is then a line of its own. What stands on its
    # two sides is never put together: where a hole hides the end of one line and the beginning of another,
    # that would make up a record that nobody wrote.
    pieces = [_mend(piece, number, is_last=is_last) for piece in _HOLE.split(raw)]
    objects = tuple(found for piece in pieces for found in piece.objects)
    return Mended(objects, (hole, *(flaw for piece in pieces for flaw in piece.flaws)))


def is_json(raw: bytes) -> bool:
    return _problem(raw.decode(errors="replace")) is None


def too_deep(number: int) -> LineProblem:
    return LineProblem(number, "depth", "nested too deeply to be read; the line is kept and not shown")


def _mend(raw: bytes, number: int, *, is_last: bool) -> Mended:
    flaws: list[LineProblem] = []
    body = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if not body:
        return Mended((), ())
    if body.startswith(b"//"):
        return Mended((), (*flaws, LineProblem(number, "comment", "a comment, kept and not read")))
    text = _as_text(body, number, flaws)
    problem = _problem(text)
    for repair in (_whole_characters, _plain_numbers):
        if problem:
            text = repair(text, number, flaws)
            problem = _problem(text)
    if problem is None:
        return Mended((text.encode(),), tuple(flaws))
    if isinstance(problem, RecursionError):
        return Mended((), (*flaws, too_deep(number)))
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
        flaws.append(LineProblem(number, "surrogate", f"half characters, shown as U+FFFD: {count}"))
    return mended


def _plain_numbers(text: str, number: int, flaws: list[LineProblem]) -> str:
    if "NaN" not in text and "Infinity" not in text:
        return text
    mended, count = _replace_named(_NOT_NUMBERS, "odd", '"not a number"', text)
    if count:
        flaws.append(
            LineProblem(number, "number", f"values that JSON does not have (NaN, Infinity): {count}")
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


def _several(text: str, number: int, flaws: list[LineProblem], *, is_last: bool) -> Mended:
    """Objects that a torn write glued together; what cannot be read of the rest is named."""
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
    return Mended(tuple(objects), tuple(flaws))


def _end_of_object(text: str, start: int) -> int:
    """Where the object that begins here ends; 0 when none does."""
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
    start = f"{size} characters that are no JSON object: {rest[:40]!r}"
    return LineProblem(number, "not_json", f"{start}; kept, not read")
