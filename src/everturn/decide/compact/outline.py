"""What a reset by price remembers of the files that it takes out of sight: a line for each, with the names
that it defines (EC-6).

A path or a name that was seen once is often used later, without reading the file again, and a line costs a
hundredth of its file. Paths that only a search has shown have a line too. The newest come first.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from everturn.decide.compact.call_index import Called, CallIndex, text
from everturn.measure.tool_table import ToolPurpose

OUTLINE: Final = "restored_outline"
# Our choices: names of one file, paths that only searches have shown, and characters of a text that are
# searched. A result of megabytes must not slow down a compaction.
_MAX_NAMES: Final = 24
_MAX_PATHS: Final = 500
_MAX_SEARCHED: Final = 100_000
_SHOW_FILES: Final[tuple[ToolPurpose, ...]] = ("reads", "edits", "writes")
_SHOW_PATHS: Final[tuple[ToolPurpose, ...]] = ("searches", "lists", "runs", "runs_agent", "collects_agent")

# A line that defines something, in the words of most languages, behind a line number or not. It begins with
# the end of the line before: a literal at the start is found several times faster than `^`.
_DEFINITION: Final = re.compile(
    r"\n(?:[ \t]{0,8}\d{1,6}(?:→|\t|: ?))?[ \t]{0,8}"
    r"(?:(?:export|default|public|private|protected|internal|abstract|static|async|pub)[ \t]{1,4}){0,3}"
    r"(?:func|def|class|type|fn|function|interface|struct|enum|trait|const|var)[ \t]{1,4}"
    r"(?:\([^()\n]{0,60}\)[ \t]{0,4})?(\w{3,60})",
    re.ASCII,
)
_PATH: Final = re.compile(
    r"(?<![\w./@-])(/?(?:[\w.@-]{1,60}/){1,15}[\w.@-]{1,60}\.\w{1,8})(?![\w/])", re.ASCII
)


class FileOutline(msgspec.Struct, frozen=True):
    """Files by path with names that each defines, newest first. `root` is left out of paths below it."""

    root: str = ""
    lines: tuple[str, ...] = ()


def outline_files(index: CallIndex, estimate: Callable[[str], int], max_tokens: int) -> FileOutline:
    shown: dict[str, list[Called]] = {}
    mentioned: dict[str, None] = {}
    for each in reversed(index.every()):
        does = index.tools.find(each.tool).does
        if does in _SHOW_FILES and not each.failed and (path := _path(each, index)):
            shown.setdefault(path, []).append(each)
        elif does in _SHOW_PATHS and len(mentioned) < _MAX_PATHS:
            mentioned |= dict.fromkeys(_PATH.findall(each.answer[:_MAX_SEARCHED])[:_MAX_PATHS])
    carried = _carried(index)
    known = shown | carried
    own = tuple(known)
    # Searches show paths below some folder; the same file is not named twice.
    new = (path for path in mentioned if path not in known and not _is_end_of(path, own))
    paths = (*own, *new)
    root = _root(paths)
    left = max_tokens
    lines: list[str] = []
    for path in paths:
        line = path.removeprefix(root)
        # Names are looked for only where there is room: that reads whole files.
        if estimate(line) > left:
            continue
        if names := _first_names(shown.get(path, ()), carried.get(path, ())):
            line += f": {', '.join(names)}"
        if (tokens := estimate(line)) <= left:
            left -= tokens
            lines.append(line)
    return FileOutline(root, tuple(lines))


def _first_names(calls: Iterable[Called], carried: Iterable[str]) -> tuple[str, ...]:
    """What a file defines, by its newest calls first, then what was known before."""
    found: dict[str, None] = {}
    for name in chain(chain.from_iterable(map(_names, calls)), carried):
        found[name] = None
        if len(found) == _MAX_NAMES:
            break
    return tuple(found)


def _names(call: Called) -> Iterator[str]:
    """What the file defines, as far as the call shows it: in the result of a read, in the text of an edit."""
    given = (each for each in call.given.values() if isinstance(each, str))
    for shown in (*given, call.answer):
        yield from (found[1] for found in _DEFINITION.finditer("\n" + shown[:_MAX_SEARCHED]))


def _path(call: Called, index: CallIndex) -> str:
    """The file of a call; "" for a path of several lines, which no file of a project has."""
    names = index.tools.find(call.tool).path
    path = next((path for name in names if (path := text(call.given.get(name)))), "")
    return path if path.splitlines() == [path] else ""


def _carried(index: CallIndex) -> dict[str, dict[str, None]]:
    """What earlier resets have outlined."""
    found: dict[str, dict[str, None]] = {}
    for each in index.attached(OUTLINE):
        root = text(each.payload.get("root"))
        for line in each.parts[1:]:
            path, _, names = line.partition(": ")
            whole = path if path.startswith("/") else root + path
            found.setdefault(whole, {}).update(dict.fromkeys(name for name in names.split(", ") if name))
    return found


def _is_end_of(path: str, known: Sequence[str]) -> bool:
    return any(each.endswith(f"/{path}") for each in known)


def _root(paths: Sequence[str]) -> str:
    """The folder of most absolute paths, with its last slash; "" if there are none."""
    folders: list[list[str]] = [path.rpartition("/")[0].split("/") for path in paths if path.startswith("/")]
    shared: list[str] = []
    while folders:
        level = len(shared)
        heads: Counter[str] = Counter(each[level] for each in folders if len(each) > level)
        [(best, count)] = heads.most_common(1) or [("", 0)]
        if count * 4 < len(folders) * 3:
            break
        shared.append(best)
        folders = [each for each in folders if each[: level + 1] == shared]
    return "/".join(shared) + "/" if len(shared) > 1 else ""
