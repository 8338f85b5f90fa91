"""The strings that can be traced: lines, paths and identifiers, found the same way on both sides (RP-6).

What an output needs and what a block holds are compared as whole strings, never as substrings, so both are
cut by the functions here. Where in an output to look is decided in `outputs.py`. Everything runs in one pass
over the text: no pattern starts inside a word, and what is longer than a bound is cut or left out, so that
a megabyte of base64 costs what a megabyte of prose does.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from everturn.decide.extractive.reading.sentences import identifiers as made_up_names

UseKind = Literal["line", "path", "identifier"]
NeededString = tuple[UseKind, str]

# Fewer visible characters stand in every file: "return None", "});".
MIN_LINE_CHARS: Final = 12
MIN_IDENTIFIER_CHARS: Final = 6
# A longer line is told from others by its beginning, a longer word is data.
MAX_LINE_CHARS: Final = 400
LONGEST_WORD: Final = 200
MAX_IDENTIFIER_CHARS: Final = 80

# What tools put before a line of a file: its number ("   12→", "12<tab>"), or file and number ("a.py:12:").
_NUMBER: Final = re.compile(r"^(?:[ \t]*\d{1,7}(?:→|\t)|[^\s:]{1,200}:\d{1,7}[:-])", re.MULTILINE)
_WORD: Final = re.compile(rf"[A-Za-z0-9_]{{{MIN_IDENTIFIER_CHARS},}}")
# Only whole words are tried, each once, and no rest of a pattern ("*_test.go"); one without a mark of a path
# is given up after a hundred characters.
_PATH_WORD: Final = re.compile(r"(?<![\w@+~./*-])[\w@+~-]{0,100}+(?:[./][\w@+~-]{0,100}+)++", re.ASCII)
# Hashes, booking codes, long numbers: nobody writes one without having read it.
_CODE: Final = re.compile(
    r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}|(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{6,20}|\d{8,20}"
)
_EXTENSION: Final = re.compile(r"[\w@+~-]\.[A-Za-z]\w{0,9}$", re.ASCII)
_LETTER: Final = re.compile(r"[A-Za-z]")

# A name with a dot and no slash is a file only by its ending: `self.parser` is none.
_ENDING: Final = re.compile(
    r"bat|c|cc|cfg|cpp|cs|css|csv|cts|go|gradle|h|hpp|html|ini|ipynb|java|jsx?|jsonl?|kt|lock|log|lua|md|mjs|mts"
    r"|patch|php|pl|png|proto|ps1|pyi?|rb|rs|rst|scala|sh|sql|svg|swift|tf|toml|tsx?|txt|vue|xml|ya?ml|zig"
)
# Known without having been read.
_EVERYWHERE: Final = ("/dev/", "/proc/", "/bin/", "/usr/bin/", "/usr/local/bin/")
_HOUSEHOLD: Final = re.compile(
    r"GitHub|GitLab|JavaScript|TypeScript|PostgreSQL|MySQL|SQLite|GraphQL|OpenAI|YouTube|NodeJS"
    r"|SHA\d+|UTF\d+|BASE64|ISO8601|RFC\d+|0{6,}|12345678\d*"
    # Values in the schemas of tools, which stand in the head of every request.
    r"|in_progress|files_with_matches"
)


def count_visible_chars(line: str) -> int:
    """Characters of a line that are no space."""
    return sum(map(len, line.split()))


def plain_lines(text: str) -> Iterator[str]:
    """Lines as they are compared: without indentation and without the number a tool put before them."""
    return (line.strip()[:MAX_LINE_CHARS] for line in _NUMBER.sub("", text).split("\n"))


def lines(text: str) -> Iterator[str]:
    """The lines that are long enough to be traced."""
    return (line for line in plain_lines(text) if count_visible_chars(line) >= MIN_LINE_CHARS)


def identifiers(text: str) -> list[str]:
    """Names that somebody made up, and codes that something did."""
    words = dict.fromkeys(word for word in _WORD.findall(text) if len(word) <= MAX_IDENTIFIER_CHARS)
    codes = [word for word in words if _CODE.fullmatch(word)]
    return [name for name in (*made_up_names(words), *codes) if not _HOUSEHOLD.fullmatch(name)]


def paths(text: str) -> Iterator[str]:
    """Paths by their telling end: the last folder and the name."""
    for word in dict.fromkeys(_PATH_WORD.findall(text)):
        if ends := path_suffixes(word):
            yield ends[0]


def path_suffixes(word: str) -> tuple[str, ...]:
    """The ends by which a path-like word can be named: folder and name, then the file's name alone.

    Absolute or relative, `/home/me/app/src/a.py` and `src/a.py` have one end.
    """
    if len(word) > LONGEST_WORD or word.startswith(_EVERYWHERE):
        return ()
    parts = [part for part in word.rstrip(".").split("/") if part.strip(".~")]
    # Numbers around a slash are dates, fractions and ids, not places.
    if not parts or not all(map(_LETTER.search, parts[-2:])):
        return ()
    name = parts[-1]
    is_file = (
        _EXTENSION.search(name) is not None and _ENDING.fullmatch(name.rpartition(".")[2].lower()) is not None
    )
    if len(parts) == 1:
        return (name,) if is_file else ()
    # Two words around a slash are prose: "and/or", "read/write".
    is_path = len(parts) > 2 or is_file or word.startswith(("/", "./", "../", "~/"))
    if not is_path:
        return ()
    end = f"{parts[-2]}/{name}"
    return (end, name) if is_file else (end,)


class StringMatcher:
    """Finds which of the needed strings a text holds. Costs the text, however many strings are needed."""

    def __init__(self, needed: Iterable[NeededString]) -> None:
        by_kind: dict[UseKind, set[str]] = {"line": set(), "path": set(), "identifier": set()}
        for kind, string in needed:
            by_kind[kind].add(string)
        self._lines, self._paths, self._identifiers = by_kind.values()
        # A session names the same files again and again.
        self._ends: dict[str, tuple[str, ...]] = {}

    def held(self, text: str) -> set[NeededString]:
        found: set[NeededString] = {("line", line) for line in self._lines.intersection(plain_lines(text))}
        found.update(("identifier", name) for name in self._identifiers.intersection(_WORD.findall(text)))
        found.update(("path", end) for end in self._paths.intersection(self._all_ends(text)))
        return found

    def _all_ends(self, text: str) -> Iterator[str]:
        for word in set(_PATH_WORD.findall(text)):
            ends = self._ends.get(word)
            if ends is None:
                ends = self._ends[word] = path_suffixes(word)
            yield from ends


def occurs_in(needed: NeededString, text: str) -> bool:
    """Whether a text that was written about blocks (a summary, a preview) has the string in it, as a word."""
    kind, string = needed
    if string not in text:
        return False
    if kind == "line":
        return True
    return re.search(rf"(?<![\w-]){re.escape(string)}(?!\w)", text) is not None
