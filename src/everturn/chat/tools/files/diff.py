"""A unified diff of a change, for the user to review before it is made.

The common beginning and end of the texts are skipped first, so a small change in a large file is fast.
"""

import re
from difflib import unified_diff
from typing import Final

import msgspec

# Unchanged lines shown around a change.
CONTEXT_LINES: Final = 3
# The comparison is quadratic at worst; beyond this limit all old lines are removed and all new ones added.
MAX_COMPARED_LINES: Final = 2_000
_HUNK: Final = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


class FileDiff(msgspec.Struct, frozen=True):
    text: str
    added: int
    removed: int

    @property
    def counts(self) -> str:
        return f"+{self.added} -{self.removed}"


def diff_texts(name: str, old: str, new: str) -> FileDiff:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    gone, come = len(before) - start - end, len(after) - start - end
    first, last = max(0, start - CONTEXT_LINES), max(0, end - CONTEXT_LINES)
    ours, theirs = before[first : len(before) - last], after[first : len(after) - last]
    if max(gone, come) > MAX_COMPARED_LINES:
        lines = [
            f"@@ -1,{gone} +1,{come} @@\n",
            *_all(before, "-", start, end),
            *_all(after, "+", start, end),
        ]
    else:
        lines = list(unified_diff(ours, theirs, n=CONTEXT_LINES))[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    text = "".join(_ended(_moved(line, first)) for line in [f"--- {name}\n", f"+++ {name}\n", *lines])
    return FileDiff(text, added, removed)


def _shared(one: list[str], other: list[str]) -> int:
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        count += 1
    return count


def _all(lines: list[str], sign: str, start: int, end: int) -> list[str]:
    return [sign + line for line in lines[start : len(lines) - end]]


def _moved(line: str, by: int) -> str:
    """A hunk header with line numbers counted from the start of the file."""
    if not (found := _HUNK.match(line)):
        return line
    return f"@@ -{int(found[1]) + by}{found[2]} +{int(found[3]) + by}{found[4]} @@{line[found.end() :]}"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
