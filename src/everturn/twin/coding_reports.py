"""What the rule-based coding agent says about the results of its tool calls."""

import re
from collections.abc import Sequence
from typing import Final

from everturn.twin.client_tools import ObservedResult, parse_numbered_lines

_DEFINES: Final = re.compile(r"\s*(?:export |async |public |pub )?(?:def|class|function|func|fn) (\w+)")


def describe_hits(hits: Sequence[str], word: str) -> str:
    return f"I searched for {word} and found it in {pluralize(len(hits), 'file')}." if hits else ""


def describe_files(files: Sequence[str], seen: Sequence[ObservedResult], word: str) -> str:
    return " ".join(_describe_file(path, shown, word) for path, shown in zip(files, seen, strict=False))


def _describe_file(path: str, shown: ObservedResult, word: str) -> str:
    found = parse_numbered_lines(shown)
    if shown.failed or not found:
        return f"I could not read any line of {path}."
    number, line = _most_relevant(found, word)
    names = list(dict.fromkeys(match[1] for _, each in found if (match := _DEFINES.match(each))))
    defines = f", and the file defines {join_names(names[:4])}" if names else ""
    size = pluralize(len(found), "line")
    return f"Of {path} I read {size}: line {number} is `{shorten(line.strip(), 100)}`{defines}."


def _most_relevant(found: Sequence[tuple[str, str]], word: str) -> tuple[str, str]:
    """The most relevant line: one with the word, then one with a definition."""

    def rank(each: tuple[str, str]) -> tuple[bool, bool, bool]:
        line = each[1]
        return not (word and word.lower() in line.lower()), not _DEFINES.match(line), not line.strip()

    return min(found, key=rank)


def describe_no_hits(words: Sequence[str]) -> str:
    return f"I searched for {join_names(words)} and found nothing." if words else ""


def describe_outcome(seen: ObservedResult, success: str) -> str:
    return f"That failed: {shorten(seen.text)}" if seen.failed else success


def shorten(text: str, max_chars: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[:max_chars].rpartition(" ")[0] + " …"


def pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "nothing"
