"""Searches files for a regular expression, in a separate process that `grep.py` starts and can kill.

A regular expression can take exponential time, and only a process can be stopped. Reads the search as JSON
from standard input and prints the result as JSON. Imports only the standard library, so that it starts fast.
"""

import json
import os
import re
import stat
import sys
import warnings
from bisect import bisect_right

# Type checkers know this name; `typing` is slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BINARY_CHECK_BYTES = 8_192
MAX_LINE_CHARACTERS = 500


def main() -> None:
    asked = json.load(sys.stdin)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pattern = re.compile(asked["pattern"], asked["flags"])
    except (re.error, OverflowError, RecursionError) as problem:
        json.dump({"problem": str(problem)}, sys.stdout)
        return
    json.dump(search_files(asked, pattern), sys.stdout)


def search_files(asked: "dict[str, Any]", pattern: "re.Pattern[str]") -> "dict[str, Any]":
    """Up to `most` entries, and whether there are more."""
    found: list[str] = []
    skipped = 0
    for path, name in asked["files"]:
        text = _text(asked["root"], path, asked["largest"])
        if text is None:
            skipped += 1
            continue
        found += _entries(asked, pattern, name, text)
        if len(found) > asked["most"]:
            break
    return {"found": found[: asked["most"]], "is_more": len(found) > asked["most"], "skipped": skipped}


def _entries(asked: "dict[str, Any]", pattern: "re.Pattern[str]", name: str, text: str) -> "list[str]":
    if asked["mode"] == "files_with_matches":
        return [name] if _has(pattern, text, asked["is_multiline"]) else []
    lines = text.split("\n")
    hits = _hits(pattern, text, lines, asked["is_multiline"])
    if asked["mode"] == "count":
        return [f"{name}:{len(hits)}"] if hits else []
    return _shown(asked, name, lines, hits)


def _has(pattern: "re.Pattern[str]", text: str, is_multiline: bool) -> bool:
    if is_multiline:
        return pattern.search(text) is not None
    return any(pattern.search(line) for line in text.splitlines())


def _hits(pattern: "re.Pattern[str]", text: str, lines: "list[str]", is_multiline: bool) -> "list[int]":
    """Indexes of the matching lines, from 0."""
    if not is_multiline:
        return [at for at, line in enumerate(lines) if pattern.search(line.rstrip("\r"))]
    starts = [0]
    for line in lines[:-1]:
        starts.append(starts[-1] + len(line) + 1)
    hits: dict[int, None] = {}
    for match in pattern.finditer(text):
        first = bisect_right(starts, match.start()) - 1
        last = bisect_right(starts, max(match.start(), match.end() - 1)) - 1
        hits.update(dict.fromkeys(range(first, last + 1)))
    return sorted(hits)


def _shown(asked: "dict[str, Any]", name: str, lines: "list[str]", hits: "list[int]") -> "list[str]":
    """Matching lines with context, in grep's format; gaps are marked with `--`."""
    meant = set(hits)
    near = sorted(
        {at for hit in hits for at in range(hit - asked["before"], hit + asked["after"] + 1)}
        & set(range(len(lines)))
    )
    shown: list[str] = []
    for place, at in enumerate(near):
        if place and at != near[place - 1] + 1 and (asked["before"] or asked["after"]):
            shown.append("--")
        mark = ":" if at in meant else "-"
        number = f"{at + 1}{mark}" if asked["numbers"] else ""
        shown.append(f"{name}{mark}{number}{lines[at].rstrip(chr(13))[:MAX_LINE_CHARACTERS]}")
    return shown


def _text(root: str, path: str, largest: int) -> "str | None":
    """The text of a file; None if it is binary, too large, behind a link or unreadable."""
    try:
        fd = _opened(root, path)
    except OSError:
        return None
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > largest:
            return None
        data = file.read()
    return None if b"\0" in data[:BINARY_CHECK_BYTES] else data.decode("utf-8", "replace")


def _opened(root: str, path: str) -> int:
    """Open a file part by part from the root, without following links."""
    *between, last = path.split("/")
    if ".." in between or last in ("", ".", ".."):
        raise PermissionError(path)
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in between:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)


if __name__ == "__main__":
    main()
