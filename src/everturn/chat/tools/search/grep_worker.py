"""Searches files for a regular expression, in a process of its own: a pattern may need longer than anybody
lives, and only a process can be ended. Reads what to do from its input and prints what it found, as JSON.

Nothing but the standard library is imported, so that it starts quickly. Who starts it: `grep.py`.
"""

import json
import os
import re
import stat
import sys
import warnings
from bisect import bisect_right

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


def search_files(asked: dict, pattern: "re.Pattern[str]") -> dict:
    """What was found, up to `most` entries and one more, so that there being more can be told."""
    found: list = []
    skipped = 0
    for way, name in asked["files"]:
        text = _text(asked["root"], way, asked["largest"])
        if text is None:
            skipped += 1
            continue
        found += _entries(asked, pattern, name, text)
        if len(found) > asked["most"]:
            break
    return {"found": found[: asked["most"]], "is_more": len(found) > asked["most"], "skipped": skipped}


def _entries(asked: dict, pattern: "re.Pattern[str]", name: str, text: str) -> list:
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


def _hits(pattern: "re.Pattern[str]", text: str, lines: list, is_multiline: bool) -> list:
    """Numbers of the lines that match, from 0."""
    if not is_multiline:
        return [at for at, line in enumerate(lines) if pattern.search(line.rstrip("\r"))]
    starts = [0]
    for line in lines[:-1]:
        starts.append(starts[-1] + len(line) + 1)
    hits: dict = {}
    for match in pattern.finditer(text):
        first = bisect_right(starts, match.start()) - 1
        last = bisect_right(starts, max(match.start(), match.end() - 1)) - 1
        hits.update(dict.fromkeys(range(first, last + 1)))
    return sorted(hits)


def _shown(asked: dict, name: str, lines: list, hits: list) -> list:
    """Lines with those around them, as grep prints them; a gap is marked."""
    meant = set(hits)
    near = sorted(
        {at for hit in hits for at in range(hit - asked["before"], hit + asked["after"] + 1)}
        & set(range(len(lines)))
    )
    shown: list = []
    for place, at in enumerate(near):
        if place and at != near[place - 1] + 1 and (asked["before"] or asked["after"]):
            shown.append("--")
        mark = ":" if at in meant else "-"
        number = f"{at + 1}{mark}" if asked["numbers"] else ""
        shown.append(f"{name}{mark}{number}{lines[at].rstrip(chr(13))[:MAX_LINE_CHARACTERS]}")
    return shown


def _text(root: str, way: str, largest: int) -> "str | None":
    """None for what is no text, too large, behind a link, or cannot be read."""
    try:
        fd = _opened(root, way)
    except OSError:
        return None
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > largest:
            return None
        data = file.read()
    return None if b"\0" in data[:BINARY_CHECK_BYTES] else data.decode("utf-8", "replace")


def _opened(root: str, way: str) -> int:
    """Down from the root part by part, following no link."""
    *between, last = way.split("/")
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
