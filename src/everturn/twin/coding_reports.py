"""What the coder makes of results: the paths and lines in them, and a few sentences about what was seen.

Every sentence says something that stands in a result. Which calls are made: `coding_agent.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from everturn.twin.intents import Intents
from everturn.twin.request_text import find_paths

# A line as Read numbers it.
LINE: Final = re.compile(r"^ *(\d+)\t(.*)$", re.MULTILINE)
_DEFINES: Final = re.compile(r"\s*(?:export |async |public |pub )?(?:def|class|function|func|fn) (\w+)")
# How recall introduces a hit: who said it, and what else is known. Its words follow in the next lines.
_HIT: Final = re.compile(r"^\d+\. ([^,\n]+).* record [\w-]+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ObservedResult:
    """What came of a call."""

    text: str
    failed: bool = False


def describe_hits(hits: Sequence[str], word: str) -> str:
    return f"I searched for {word} and found it in {pluralize(len(hits), 'file')}." if hits else ""


def describe_files(files: Sequence[str], seen: Sequence[ObservedResult], word: str) -> str:
    return " ".join(_about_file(path, shown, word) for path, shown in zip(files, seen, strict=False))


def _about_file(path: str, shown: ObservedResult, word: str) -> str:
    found = LINE.findall(shown.text)
    if shown.failed or not found:
        return f"{path} has no lines that I can show."
    number, line = _telling(found, word)
    names = list(dict.fromkeys(match[1] for _, each in found if (match := _DEFINES.match(each))))
    defines = f", and the file defines {join_names(names[:4])}" if names else ""
    size = pluralize(len(found), "line")
    return f"Of {path} I read {size}: line {number} is `{shorten(line.strip(), 100)}`{defines}."


def _telling(found: Sequence[tuple[str, str]], word: str) -> tuple[str, str]:
    """The line that says most: one with the word before others, one that defines something first."""

    def rank(each: tuple[str, str]) -> tuple[bool, bool, bool]:
        line = each[1]
        return not (word and word.lower() in line.lower()), not _DEFINES.match(line), not line.strip()

    return min(found, key=rank)


def describe_no_hits(words: Sequence[str]) -> str:
    return f"I searched for {join_names(words)} and found nothing." if words else ""


def describe_missing_files(wishes: Intents, found: Sequence[str]) -> str:
    names = {path.rpartition("/")[2] for path in found}
    lost = [path for path in wishes.paths if path.rpartition("/")[2] not in names]
    return f"I could not find {join_names(lost)} here." if lost and not wishes.new_file else ""


def describe_outcome(seen: ObservedResult, well: str) -> str:
    return f"That was not done: {shorten(seen.text)}" if seen.failed else well


def shorten(text: str, most: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rpartition(" ")[0] + " …"


def pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "nothing"


def parse_file_list(seen: ObservedResult) -> list[str]:
    """Paths, one to a line, as Glob and Grep list them; notes about the listing are in brackets."""
    if seen.failed or seen.text.startswith(("No file matches", "Nothing matches")):
        return []
    return [line for line in seen.text.splitlines() if line.strip() and not line.startswith("[")]


def parse_numbered_lines(shown: ObservedResult) -> list[str]:
    return [line for _, line in LINE.findall(shown.text)]


def rank_files(files: Sequence[str]) -> list[str]:
    """What says most about a project comes first."""

    def rank(path: str) -> tuple[bool, bool, int, str]:
        name = path.rpartition("/")[2].lower()
        return not name.startswith("readme"), not find_paths(path), path.count("/"), path

    return sorted(files, key=rank)


def parse_recall_hits(seen: ObservedResult) -> list[str]:
    """What people and the agent said, of what recall gave; it marks the words that were looked for."""
    _, *parts = _HIT.split(seen.text)
    said = (words for who, words in zip(parts[::2], parts[1::2], strict=True) if who in ("user", "assistant"))
    return [shorten(words.replace("«", "").replace("»", ""), 120) for words in said]
