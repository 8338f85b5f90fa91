"""Find the imports in a memory file: `@path`, except in code (NM-1).

All steps take linear time, because a memory file may be hostile.
"""

import re
from collections.abc import Iterator
from typing import Final

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_TICKS: Final = re.compile(r"`+")
# Not inside a word, so that an e-mail address is not an import; a backslash escapes a space in a name.
_MENTION: Final = re.compile(r"(?:^|(?<=[\s(\[*_\"']))@((?:\\ |[^\s\\`\"'<>|*?\0])+)", re.MULTILINE)
_ENDS_A_SENTENCE: Final = ".,;:!)]}_"


def find_imports(text: str) -> tuple[str, ...]:
    """The paths as written, in order, each once."""
    found: dict[str, None] = {}
    for match in _MENTION.finditer(without_code(text)):
        path = match[1].rstrip(_ENDS_A_SENTENCE).replace("\\ ", " ")
        if path:
            found.setdefault(path)
    return tuple(found)


def without_code(text: str) -> str:
    """The text without fenced code blocks and code spans."""
    return "\n".join(_without_spans(part) for part in _outside_fences(text))


def _outside_fences(text: str) -> Iterator[str]:
    """The parts between fenced blocks. A block that is never closed extends to the end."""
    outside: list[str] = []
    fence = ""
    for line in text.splitlines():
        opened = _FENCE.match(line)
        if not fence and opened:
            fence = opened[1]
            yield "\n".join(outside)
            outside = []
        elif not fence:
            outside.append(line)
        elif opened and opened[1].startswith(fence) and not line.strip(" \t" + fence[0]):
            fence = ""
    yield "\n".join(outside)


def _without_spans(text: str) -> str:
    """Remove code spans: a run of backticks opens one, the next run of the same length closes it. A run
    without a matching one is ordinary text."""
    runs = [match.span() for match in _TICKS.finditer(text)]
    closing: dict[int, int] = {}
    newest: dict[int, int] = {}
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        closing[at] = newest.get(length, -1)
        newest[length] = at
    parts: list[str] = []
    done = at = 0
    while at < len(runs):
        end = closing[at]
        if end < 0:
            at += 1
            continue
        parts += [text[done : runs[at][0]], " "]
        done, at = runs[end][1], end + 1
    return "".join(parts) + text[done:]
