"""Sections 2 and 3: the names that were mentioned most, and what was done to each file.

Section 2 only counts, and shows its counts: an automatic ranking should not look like a judgement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from everturn.decide.extractive.reading.facts import Facts, FileWork, QuotedText
from everturn.decide.extractive.reading.sentences import identifiers, long_words, sentence_naming
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing import wording
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import INSIDE, clipped, escaped, one_line, prefix_lines, quote

_LANGUAGES: Final[Mapping[str, str]] = {
    "c": "C", "cpp": "C++", "cs": "C#", "css": "CSS", "go": "Go", "html": "HTML", "java": "Java",
    "js": "JavaScript", "jsx": "JavaScript", "kt": "Kotlin", "md": "Markdown", "php": "PHP", "py": "Python",
    "rb": "Ruby", "rs": "Rust", "sh": "shell", "sql": "SQL", "swift": "Swift", "toml": "TOML",
    "ts": "TypeScript", "tsx": "TypeScript", "yaml": "YAML", "yml": "YAML",
}  # fmt: skip
_TOP: Final = 6
_NAMED_TWICE: Final = 2
_MIN_REASON: Final = 24
# Depth of folders that is examined: a path may have any origin and length.
_DEEPEST: Final = 40


def concepts(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    entries: list[SummaryEntry] = []
    if names := _ranked(_names(facts), settings.concepts):
        entries.append(
            SummaryEntry(
                "; ".join(f"{name} ({count:,}×)" for name, count in names),
                short="; ".join(f"{name} ({count:,}×)" for name, count in names[:_TOP]),
            )
        )
    if languages := _ranked(_languages(facts), _TOP):
        entries.append(
            SummaryEntry("files: " + ", ".join(f"{name} ×{count:,}" for name, count in languages), 1)
        )
    if commands := _ranked(_commands(facts), _TOP):
        entries.append(
            SummaryEntry("commands: " + ", ".join(f"{name} ×{count:,}" for name, count in commands), 2)
        )
    return entries


def _names(facts: Facts) -> Counter[str]:
    found = Counter({word: facts.words[word] for word in identifiers(facts.words)})
    for file in facts.files.values():
        for word in identifiers(long_words(file.path)):
            found[word] += max(1, file.read + file.changed)
    for word, count in facts.earlier.concepts.items():
        found[word] += count
    return Counter({word: count for word, count in found.items() if count >= _NAMED_TWICE})


def _languages(facts: Facts) -> Counter[str]:
    ends = (path.rpartition(".")[2].lower() for path in facts.files)
    return Counter(_LANGUAGES[end] for end in ends if end in _LANGUAGES)


def _commands(facts: Facts) -> Counter[str]:
    runs = (deed.target.split(maxsplit=1)[0] for deed in facts.deeds if deed.verb == "ran" and deed.target)
    return Counter(clipped(name, 40) for name in runs if name != "cd")


def _ranked(counted: Counter[str], most: int) -> list[tuple[str, int]]:
    """Most frequent first; equal counts in alphabetical order, so that the order is deterministic."""
    return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:most]


def files(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    """Changed files before those that were only read; in both groups, the last used first."""
    newest = list(facts.files.values())[::-1]
    ordered = [file for file in newest if file.changed] + [file for file in newest if not file.changed]
    root = shared_root(facts.files)
    entries = [
        _entry(file, root, rank, facts.statements if rank < settings.files else (), settings)
        for rank, file in enumerate(ordered)
    ]
    return [SummaryEntry(wording.root(root), rank=-1), *entries] if root else entries


def shared_root(paths: Iterable[str]) -> str:
    """The folder, with its slash, whose abbreviation saves the most characters; "" for none."""
    folders: Counter[str] = Counter()
    for path in paths:
        end = 0
        for _ in range(_DEEPEST if path.startswith("/") else 0):
            if (end := path.find("/", end + 1)) < 0:
                break
            folders[path[: end + 1]] += 1
    worth = {folder: (times - 1) * len(folder) for folder, times in folders.items() if times > 1}
    return max(worth, key=lambda folder: (worth[folder], folder), default="")


def _entry(
    file: FileWork, root: str, rank: int, statements: Sequence[QuotedText], settings: SummarySettings
) -> SummaryEntry:
    head = _head(file, root)
    lines = [head]
    if file.by_user:
        lines.append(f"{INSIDE}changed by the user or a linter since it was last read or written here")
    if why := _why(file, statements, settings.sentence):
        lines.append(f"{INSIDE}why: {quote(why)}")
    if file.new_text:
        lines += [f"{INSIDE}last change:", *_snippet(file.new_text, settings)]
    elif file.notes and not why:
        lines.append(_notes(file.notes, settings))
    return SummaryEntry("\n".join(lines), rank, short=head if len(lines) > 1 else "")


def _head(file: FileWork, root: str) -> str:
    done = ((wording.READ, file.read), (wording.EDITED, file.edited), (wording.WROTE, file.wrote))
    counts = ", ".join(f"{verb} {count:,}×" for verb, count in done if count)
    shown = wording.BELOW + file.path.removeprefix(root) if root and file.path.startswith(root) else file.path
    path = one_line(shown)
    return f"{path} ({counts})" if counts else path


def _why(file: FileWork, statements: Sequence[QuotedText], most: int) -> str:
    name = file.path.replace("\\", "/").rpartition("/")[2]
    if not name:
        return ""
    for said in reversed(statements):
        if name in said.text:
            found = clipped(sentence_naming(said.text, name), most)
            # A heading or a table cell that only repeats the path explains nothing.
            return found if len(found) >= len(name) + _MIN_REASON and " " in found else ""
    return ""


def _snippet(text: str, settings: SummarySettings) -> list[str]:
    """The beginning of what was written, and how much more there is."""
    lines = text.splitlines()
    shown: list[str] = []
    room = settings.snippet
    for line in lines[: settings.snippet_lines]:
        if len(line) > room:
            break
        shown.append(line)
        room -= len(line)
    return [*filter(None, (prefix_lines(shown),)), *_more_lines(len(lines) - len(shown))]


def _notes(notes: str, settings: SummarySettings) -> str:
    """What an earlier summary said about a file; ours is indented already, a model's is indented now."""
    counted, lines = 0, list[str]()
    for line in escaped(notes).splitlines():
        # Lines that the earlier summary had left out stay counted; its remark is not one of them.
        if found := wording.MORE_LINES.match(line.strip()):
            counted += int(found[1].replace(",", ""))
        else:
            lines.append(line if line.startswith(INSIDE) else INSIDE + line)
    shown = lines[: settings.snippet_lines]
    return "\n".join((*shown, *_more_lines(counted + len(lines) - len(shown))))


def _more_lines(left_out: int) -> list[str]:
    return [INSIDE + wording.more_lines(left_out)] if left_out else []
