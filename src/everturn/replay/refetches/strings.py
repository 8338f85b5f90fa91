"""The strings that can be traced: lines, files, names and ids, extracted the same way on both sides (RP-14).

What an output needs and what a block contains are compared as whole strings, so both are split by the
functions here. Two kinds are searched as substrings: the first and last line of a replaced text, which may be
parts of lines, and ids, which may be shortened. Where to look in an output is decided in `outputs.py`.
Everything is one pass over the text: no pattern starts inside a word, and overlong words are cut or left out,
so a megabyte of base64 costs as much as a megabyte of prose.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from everturn.decide.extractive.reading.sentences import identifiers as coined_names

# old_text: a line that an edit replaces, or context of a patch. partial: its first or last line, which may be
# part of a line. quoted: a line that a reply quotes or its thinking repeats. copied: a line of written
# content. id: a hash or generated id in a tool's input. argument: the file that a call reads or edits.
# file, name: mentioned anywhere.
UseKind = Literal["old_text", "partial", "quoted", "copied", "id", "argument", "file", "name"]
NeededString = tuple[UseKind, str]

# Not traced to what the agent wrote itself: a report on its own work, or a name that it coined. To replace or
# repeat its own text it still needs it word for word.
NEVER_OWN: Final[tuple[UseKind, ...]] = ("quoted", "argument", "file", "name")

# Shorter lines occur in every file: "return None", "});".
MIN_LINE_CHARS: Final = 12
MIN_IDENTIFIER_CHARS: Final = 6
# A longer line is identified by its start; a longer word is data.
MAX_LINE_CHARS: Final = 400
LONGEST_WORD: Final = 200
MAX_IDENTIFIER_CHARS: Final = 80

# What tools put before a line of a file: its number ("   12→", "12<tab>", "12:", "12-" in the context of a
# match), or file and number ("a.py:12:"). Times and dates begin with two numbers.
_NUMBER: Final = re.compile(
    r"^(?:[ \t]*\d{1,7}(?:→|\t)|\d{1,7}[:-](?!\d)|[^\s:]{1,200}:\d{1,7}[:-])", re.MULTILINE
)
# A line that a search shows behind the name of its file, without a number.
_FOUND_LINE: Final = re.compile(r"^([^\s:]{1,200}+):(?!\d)(.+)", re.MULTILINE)
_WORD: Final = re.compile(rf"[A-Za-z0-9_]{{{MIN_IDENTIFIER_CHARS},}}")
# Only whole words are tried, each once, and no parts of a pattern ("*_test.go"). A word without a slash or
# dot is given up after a hundred characters.
_PATH_WORD: Final = re.compile(r"(?<![\w@+~./*-])[\w@+~-]{0,100}+(?:[./][\w@+~-]{0,100}+)++", re.ASCII)
# Hashes and booking codes: nobody writes one without having read it. Numbers alone can be computed.
_CODE: Final = re.compile(
    r"(?=[a-f]{0,39}\d)(?=\d{0,39}[a-f])[0-9a-f]{7,40}|(?=[A-Z]{0,19}\d)(?=\d{0,19}[A-Z])[A-Z0-9]{6,20}"
)
# Names after a dot belong to a library or an object: `os.MkdirAll`.
_QUALIFIED: Final = re.compile(r"[A-Za-z_)\]]\.([A-Za-z0-9_]{6,80})")
# Names that an output declares itself.
_DECLARED: Final = re.compile(
    r"\b(?:func|def|class|type|struct|interface|enum|trait|fn|const|let|var|function)\s+(?:\([^)]{0,80}\)\s*)?([A-Za-z0-9_]{6,80})"
    r"|\b([A-Za-z0-9_]{6,80})\s*:?="
)
_EXTENSION: Final = re.compile(r"[\w@+~-]\.[A-Za-z]\w{0,9}$", re.ASCII)
_LETTER: Final = re.compile(r"[A-Za-z]")
# A line that only imports something: known to whoever knows the package.
_IMPORT: Final = re.compile(
    r"(?:import|from|use|using|include|#include|require|package|export \* from)\b.{0,300}"
    r"|(?:[\w.]{1,80} )?[\"'][\w@./~-]{1,200}[\"'],?",
    re.ASCII,
)

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
    # Values in tool schemas and names of tools, which are part of every preamble.
    r"|in_progress|files_with_matches|MultiEdit|NotebookEdit|NotebookRead|TodoRead|TodoWrite|WebFetch|WebSearch"
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


def found_lines(text: str) -> Iterator[str]:
    """Lines in comparable form that a search shows as `a.py:line`, without the name of the file."""
    found = _FOUND_LINE.finditer(text)
    return (each[2].strip()[:MAX_LINE_CHARS] for each in found if is_file_name(each[1]))


def is_import(line: str) -> bool:
    """Whether a line does nothing but import."""
    return _IMPORT.fullmatch(line) is not None


def names(text: str) -> list[str]:
    """Names with an underscore or a capital inside, in comparable form: variants by case are one name.
    Qualified names and names that the text declares are left out.
    """
    # In code, an escaped line break is not the first letter of a word.
    text = text.replace("\\n", " ")
    words = dict.fromkeys(word for word in _WORD.findall(text) if len(word) <= MAX_IDENTIFIER_CHARS)
    known = {*_QUALIFIED.findall(text), *(one or other for one, other in _DECLARED.findall(text))}
    coined = (name for name in coined_names(words) if not _COMMON_NAMES.fullmatch(name))
    return list(dict.fromkeys(name.casefold() for name in coined if name not in known))


def ids(text: str) -> list[str]:
    """Hashes and generated ids."""
    words = dict.fromkeys(word for word in _WORD.findall(text) if len(word) <= MAX_IDENTIFIER_CHARS)
    return [word for word in words if _CODE.fullmatch(word) and not _COMMON_NAMES.fullmatch(word)]


def files(text: str) -> Iterator[str]:
    """Files, identified by their last folder and name. Folders and import paths are not files."""
    for word in dict.fromkeys(_PATH_WORD.findall(text)):
        ends = path_suffixes(word)
        if ends and is_file_name(ends[0]):
            yield ends[0]


def is_file_name(path: str) -> bool:
    name = path.rpartition("/")[2]
    return _EXTENSION.search(name) is not None and _ENDING.fullmatch(_ending(name)) is not None


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower()


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
    is_file = is_file_name(name)
    if len(parts) == 1:
        return (name,) if is_file else ()
    # Two words around a slash are prose: "and/or", "read/write".
    is_path = len(parts) > 2 or is_file or word.startswith(("/", "./", "../", "~/"))
    if not is_path:
        return ()
    end = f"{parts[-2]}/{name}"
    return (end, name) if is_file else (end,)


_LINES: Final[tuple[UseKind, ...]] = ("old_text", "quoted", "copied")
_PARTS: Final[tuple[UseKind, ...]] = ("partial", "id")
_PATHS: Final[tuple[UseKind, ...]] = ("argument", "file")


class StringMatcher:
    """Finds which needed strings a text contains. The cost depends on the length of the text, and on the
    number of strings that are searched as parts.
    """

    def __init__(self, needed: Iterable[NeededString]) -> None:
        # For each string, the kinds under which it is needed.
        self._lines: dict[str, list[UseKind]] = {}
        self._paths: dict[str, list[UseKind]] = {}
        self._names: dict[str, list[UseKind]] = {}
        self._parts: dict[str, list[UseKind]] = {}
        for kind, string in dict.fromkeys(needed):
            self._table(kind).setdefault(string, []).append(kind)
        # A session names the same files many times.
        self._ends: dict[str, tuple[str, ...]] = {}
        # The needed paths of each file name.
        self._by_name: dict[str, list[str]] = {}
        for path in self._paths:
            if "/" in path:
                self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def _table(self, kind: UseKind) -> dict[str, list[UseKind]]:
        if kind in _LINES:
            return self._lines
        if kind in _PATHS:
            return self._paths
        return self._parts if kind in _PARTS else self._names

    def held(self, text: str, beside: str = "") -> set[NeededString]:
        """`beside` is the call that a result answers: a list of names is read together with its folder."""
        found: set[NeededString] = set()
        words = {word.casefold() for word in _WORD.findall(text)}
        for table, held in (
            (self._lines, self._lines.keys() & {*plain_lines(text), *found_lines(text)}),
            (self._names, self._names.keys() & words),
            (self._paths, self._held_paths(text, beside)),
            (self._parts, [part for part in self._parts if part in text]),
        ):
            found.update((kind, string) for string in held for kind in table[string])
        return found

    def _held_paths(self, text: str, beside: str) -> set[str]:
        found: set[str] = set()
        for word in set(_PATH_WORD.findall(text)):
            ends = self._ends.get(word)
            if ends is None:
                ends = self._ends[word] = path_suffixes(word)
            found.update(self._paths.keys() & ends)
            if len(ends) == 1 and ends[0] in self._by_name:
                # A name alone, and its folder in the same list or in the call that asked for it.
                paths = (path for path in self._by_name[ends[0]] if path not in found)
                found.update(
                    path for path in paths if _names_folder(path, text) or _names_folder(path, beside)
                )
        return found


def _names_folder(path: str, *texts: str) -> bool:
    folder = path.partition("/")[0]
    named = (text for text in texts if folder in text)
    return any(re.search(rf"(?<![\w-]){re.escape(folder)}(?![\w-])", text) for text in named)


def occurs_in(needed: NeededString, text: str) -> bool:
    """Whether a text about blocks (a summary, a preview) contains the string."""
    kind, string = needed
    if kind == "name":
        return re.search(rf"(?<![\w-]){re.escape(string)}(?!\w)", text, re.IGNORECASE) is not None
    if string not in text:
        return False
    if kind not in _PATHS:
        return True
    return re.search(rf"(?<![\w-]){re.escape(string)}(?!\w)", text) is not None
