"""The strings that can be traced: lines, paths and identifiers, extracted the same way on both sides (RP-6).

What an output needs and what a block contains are compared as whole strings, never as substrings, so both are
split by the functions here. Where to look in an output is decided in `outputs.py`. Everything is one pass
over the text: no pattern starts inside a word, and overlong words are cut or left out, so a megabyte of
base64 costs as much as a megabyte of prose.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from everturn.decide.extractive.reading.sentences import identifiers as coined_names

UseKind = Literal["line", "path", "identifier"]
NeededString = tuple[UseKind, str]

# Shorter lines occur in every file: "return None", "});".
MIN_LINE_CHARS: Final = 12
MIN_IDENTIFIER_CHARS: Final = 6
# A longer line is identified by its start; a longer word is data.
MAX_LINE_CHARS: Final = 400
LONGEST_WORD: Final = 200
MAX_IDENTIFIER_CHARS: Final = 80

# What tools put before a line of a file: its number ("   12→", "12<tab>"), or file and number ("a.py:12:").
_NUMBER: Final = re.compile(r"^(?:[ \t]*\d{1,7}(?:→|\t)|[^\s:]{1,200}:\d{1,7}[:-])", re.MULTILINE)
_WORD: Final = re.compile(rf"[A-Za-z0-9_]{{{MIN_IDENTIFIER_CHARS},}}")
# Only whole words are tried, each once, and no parts of a pattern ("*_test.go"). A word without a slash or
# dot is given up after a hundred characters.
_PATH_WORD: Final = re.compile(r"(?<![\w@+~./*-])[\w@+~-]{0,100}+(?:[./][\w@+~-]{0,100}+)++", re.ASCII)
# Hashes, booking codes, long numbers: nobody writes one without having read it.
_CODE: Final = re.compile(
    r"(?=[a-f]{0,39}\d)(?=\d{0,39}[a-f])[0-9a-f]{7,40}|(?=[A-Z]{0,19}\d)(?=\d{0,19}[A-Z])[A-Z0-9]{6,20}|\d{8,20}"
)
_EXTENSION: Final = re.compile(r"[\w@+~-]\.[A-Za-z]\w{0,9}$", re.ASCII)
_LETTER: Final = re.compile(r"[A-Za-z]")

# A name with a dot and no slash is a file only with a known extension: `self.parser` is not one.
_ENDING: Final = re.compile(
    r"bat|c|cc|cfg|cpp|cs|css|csv|cts|go|gradle|h|hpp|html|ini|ipynb|java|jsx?|jsonl?|kt|lock|log|lua|md|mjs|mts"
    r"|patch|php|pl|png|proto|ps1|pyi?|rb|rs|rst|scala|sh|sql|svg|swift|tf|toml|tsx?|txt|vue|xml|ya?ml|zig"
)
# Known without having been read.
_EVERYWHERE: Final = ("/dev/", "/proc/", "/bin/", "/usr/bin/", "/usr/local/bin/")
_COMMON_NAMES: Final = re.compile(
    r"GitHub|GitLab|JavaScript|TypeScript|PostgreSQL|MySQL|SQLite|GraphQL|OpenAI|YouTube|NodeJS"
    r"|SHA\d+|UTF\d+|BASE64|ISO8601|RFC\d+|0{6,}|12345678\d*"
    # Values in tool schemas, which are part of every preamble.
    r"|in_progress|files_with_matches"
)


def count_visible_chars(line: str) -> int:
    """The number of characters of a line that are not whitespace."""
    return sum(map(len, line.split()))


def plain_lines(text: str) -> Iterator[str]:
    """Lines in comparable form: without indentation and without the line number that a tool added."""
    return (line.strip()[:MAX_LINE_CHARS] for line in _NUMBER.sub("", text).split("\n"))


def lines(text: str) -> Iterator[str]:
    """The lines that are long enough to be traced."""
    return (line for line in plain_lines(text) if count_visible_chars(line) >= MIN_LINE_CHARS)


def identifiers(text: str) -> list[str]:
    """Identifiers and generated codes."""
    words = dict.fromkeys(word for word in _WORD.findall(text) if len(word) <= MAX_IDENTIFIER_CHARS)
    codes = [word for word in words if _CODE.fullmatch(word)]
    return [name for name in (*coined_names(words), *codes) if not _COMMON_NAMES.fullmatch(name)]


def paths(text: str) -> Iterator[str]:
    """Paths, identified by their last folder and file name."""
    for word in dict.fromkeys(_PATH_WORD.findall(text)):
        if ends := path_suffixes(word):
            yield ends[0]


def path_suffixes(word: str) -> tuple[str, ...]:
    """The suffixes that identify a path-like word: folder and name, then the file name alone.

    `/home/me/app/src/a.py` and `src/a.py` have the same suffixes.
    """
    if len(word) > LONGEST_WORD or word.startswith(_EVERYWHERE):
        return ()
    parts = [part for part in word.rstrip(".").split("/") if part.strip(".~")]
    # Numbers around a slash are dates, fractions and ids, not paths.
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
    """Finds which needed strings a text contains. The cost depends on the length of the text only."""

    def __init__(self, needed: Iterable[NeededString]) -> None:
        by_kind: dict[UseKind, set[str]] = {"line": set(), "path": set(), "identifier": set()}
        for kind, string in needed:
            by_kind[kind].add(string)
        self._lines, self._paths, self._identifiers = by_kind.values()
        # A session names the same files many times.
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
    """Whether a text about blocks (a summary, a preview) contains the string as a word."""
    kind, string = needed
    if string not in text:
        return False
    if kind == "line":
        return True
    return re.search(rf"(?<![\w-]){re.escape(string)}(?!\w)", text) is not None
