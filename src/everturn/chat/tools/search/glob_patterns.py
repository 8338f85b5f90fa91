"""Glob patterns: `*` and `?` within a name, `**` for any number of folders, `{a,b}` for alternatives.

A pattern without a slash matches file names in any folder. Matching is linear in the length of the path.
"""

import re
from collections.abc import Callable
from fnmatch import translate
from typing import Final

# Alternatives multiply; a pattern with more than this is a mistake.
MAX_CHOICES: Final = 200
_TOO_MANY: Final = f"the braces expand to more than {MAX_CHOICES} patterns"
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_ANY_FOLDERS: Final = "**"


class TooManyChoices(ValueError):
    """The braces expand to too many patterns."""


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """A function that matches paths relative to the search folder, separated by slashes."""
    plain = [_parts(each) for each in expand_braces(pattern.removeprefix("./"))]
    return lambda path: any(_fits(path.split("/"), parts) for parts in plain)


def expand_braces(pattern: str) -> list[str]:
    """One pattern per combination of alternatives; braces without a comma are literal."""
    if pattern.count("{") > MAX_CHOICES:
        raise TooManyChoices(_TOO_MANY)
    found = next((each for each in _BRACES.finditer(pattern) if "," in each[1]), None)
    if found is None:
        return [pattern]
    made: dict[str, None] = {}
    for option in found[1].split(","):
        made |= dict.fromkeys(expand_braces(pattern[: found.start()] + option + pattern[found.end() :]))
        if len(made) > MAX_CHOICES:
            raise TooManyChoices(_TOO_MANY)
    return list(made)


def _parts(pattern: str) -> list[re.Pattern[str] | None]:
    """The path components of a pattern; None stands for `**`."""
    given = pattern.split("/") if "/" in pattern else [_ANY_FOLDERS, pattern]
    if given[-1] in ("", _ANY_FOLDERS):
        given = [*filter(None, given[:-1]), _ANY_FOLDERS, "*"]
    return [None if part == _ANY_FOLDERS else re.compile(translate(part)) for part in given]


def _fits(names: list[str], parts: list[re.Pattern[str] | None]) -> bool:
    """Walk the names once and track every position in the pattern that can be reached."""
    at = _skipping({0}, parts)
    for name in names:
        after: set[int] = set()
        for place in at:
            if place < len(parts):
                part = parts[place]
                if part is None:
                    after.add(place)
                elif part.match(name):
                    after.add(place + 1)
        at = _skipping(after, parts)
    return len(parts) in at


def _skipping(places: set[int], parts: list[re.Pattern[str] | None]) -> set[int]:
    """`**` also matches zero folders."""
    reached = set(places)
    for place in sorted(places):
        while place < len(parts) and parts[place] is None:
            place += 1
            reached.add(place)
    return reached
