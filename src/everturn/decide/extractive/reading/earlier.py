"""What earlier summaries carried over: their nine sections, parsed into facts.

Our own are parsed exactly: headings start at the margin and everything else is indented, so quoted text
cannot be mistaken for a heading or an entry. A model's summary has the same headings and looser entries;
those are carried over as they are. Sections 8 and 9 describe a past moment and are not carried over. A
summary without such sections, such as notes, is carried over as one text.
"""

import re
from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import Final

import msgspec

from everturn.decide.extractive.reading.facts import EarlierSummary, FileWork, QuotedText
from everturn.decide.extractive.writing import wording
from everturn.decide.extractive.writing.quoting import ITEM, split_about, unquoted
from everturn.view.fragments.escaping import SUMMARY_TAG
from everturn.view.fragments.summary_message import SUMMARY_OPENINGS

_NUMBERS: Final = wording.all_titles()
# How a summary of ours begins. A model writes what is inside of the wrapper and could say so too; a summary
# that begins like this is then refused (`decide/compact/gate.py`).
_OUR_BEGINNINGS: Final = (wording.OURS, *(opening + wording.OURS for opening in SUMMARY_OPENINGS))
_HEADING: Final = re.compile(
    rf"^(?:#+ *)?(?:\*\*)?([1-9])[.)] *(?:\*\*)?({'|'.join(_NUMBERS)})(?:\*\*)?:?(?:\*\*)? *(.*)$",
    re.IGNORECASE,
)
_WRAPPED: Final = re.compile(rf"<{SUMMARY_TAG}>\n(.*)\n</{SUMMARY_TAG}>", re.DOTALL)
# Those that are carried over.
_CARRIED: Final = range(1, 8)
_BULLET: Final = re.compile(r"^( *)(?:[-*•]|\d+[.)]) +")
_LABEL: Final = re.compile(r"^([a-z ]+): (?=\")")
_PATH: Final = re.compile(r"`([^`\s]*[./][^`\s]*)`|((?:[\w.~-]+)?(?:/[\w.@-]+)+|[\w-]+\.[A-Za-z]\w{0,7}\b)")
# A path is at the beginning of its entry; a very long word must not be searched for one.
_LOOKED_AT: Final = 300
_NONE: Final = re.compile(r"^\W*(?:\(?none\b.*|no (?:errors|pending)\b.*)?$", re.IGNORECASE)


def parse_summary(text: str) -> EarlierSummary:
    """The facts of one summary; `prose` where it has no sections."""
    sections = _sections(text)
    is_ours = text.startswith(_OUR_BEGINNINGS)
    items = {number: _items(lines, exact=is_ours) for number, lines in sections.items()}
    messages, missing = _messages(items.get(6, ()), is_ours=is_ours)
    labelled = [_labelled(item) for item in items.get(1, ())] if is_ours else []
    return EarlierSummary(
        messages=messages,
        missing=missing,
        standing=tuple(
            text for label, text in labelled if label in (wording.STANDING, wording.PINNED, wording.ANSWERED)
        ),
        corrections=tuple(text for label, text in labelled if label == wording.CORRECTED),
        files=_files(items.get(3, ())),
        concepts=_concepts(items.get(2, ())),
        items={number: tuple(map(_carried, items.get(number, ()))) for number in (4, 5, 7)},
        intent=_intent(items.get(1, ())) if is_ours else "\n".join(sections.get(1, ())).strip(),
        task=_with_label(wording.TASK, labelled),
        prose=_with_label(wording.PROSE, labelled) if is_ours else _prose(text, sections),
    )


def read_section(text: str, number: int) -> Sequence[str]:
    """The lines of one section of a summary; none if it has no such section."""
    return _sections(text).get(number, ())


def merged(before: EarlierSummary, newer: EarlierSummary) -> EarlierSummary:
    """Two generations of summaries in one view; rare, but a partial compaction can cause it."""
    return EarlierSummary(
        messages=(*before.messages, *newer.messages),
        missing=(before.missing[0] + newer.missing[0], before.missing[1] + newer.missing[1]),
        standing=tuple(dict.fromkeys((*before.standing, *newer.standing))),
        corrections=tuple(dict.fromkeys((*before.corrections, *newer.corrections))),
        files=(*before.files, *newer.files),
        concepts={
            word: before.concepts.get(word, 0) + newer.concepts.get(word, 0)
            for word in (*before.concepts, *newer.concepts)
        },
        items={n: (*before.items.get(n, ()), *newer.items.get(n, ())) for n in (4, 5, 7)},
        intent="\n".join(filter(None, (before.intent, newer.intent))),
        task=newer.task or before.task,
        prose="\n".join(filter(None, (before.prose, newer.prose))),
    )


def _sections(text: str) -> Mapping[int, Sequence[str]]:
    """Lines by section; if a heading occurs twice (a draft before the summary), the last one counts."""
    found: dict[int, list[str]] = {}
    current: list[str] | None = None
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        if heading and _NUMBERS[heading[2].lower()] == int(heading[1]):
            current = found[int(heading[1])] = [heading[3]] if heading[3] else []
        elif current is not None:
            current.append(line)
    return found


def _prose(text: str, sections: Mapping[int, Sequence[str]]) -> str:
    if any(number in sections for number in _CARRIED):
        return ""
    wrapped = _WRAPPED.search(text)
    return (wrapped[1] if wrapped else text).strip()


def _intent(items: Sequence[str]) -> str:
    found = (item for item in items if item.startswith(wording.INTENT))
    return next(found, "").removeprefix(wording.INTENT)


def _with_label(label: str, labelled: Sequence[tuple[str, str]]) -> str:
    return next((text for found, text in labelled if found == label), "")


def _items(lines: Sequence[str], *, exact: bool) -> tuple[str, ...]:
    """Entries of a section without their bullets. `exact`: entries begin exactly as ours do."""
    if exact:
        starts = [at for at, line in enumerate(lines) if line.startswith(ITEM)]
    else:
        bullets = {at: found for at, line in enumerate(lines) if (found := _BULLET.match(line))}
        edge = min((len(found[1]) for found in bullets.values()), default=0)
        # Prose without bullets is one entry.
        starts = [at for at, found in bullets.items() if len(found[1]) == edge] or [0]
    spans = zip(starts, (*starts[1:], len(lines)), strict=False)
    found = ("\n".join(lines[start:stop]).rstrip() for start, stop in spans)
    items = (_BULLET.sub("", item, count=1) for item in found)
    return tuple(item for item in items if item.startswith('"') or not _NONE.match(item))


def _labelled(item: str) -> tuple[str, str]:
    words, _ = split_about(item)
    label = _LABEL.match(words)
    return (label[1], unquoted(words[label.end() :])) if label else ("", words)


def _messages(items: Sequence[str], *, is_ours: bool) -> tuple[tuple[QuotedText, ...], tuple[int, int]]:
    found: list[QuotedText] = []
    missing = (0, 0)
    for item in items:
        words, about = split_about(item)
        if gone := wording.MISSING.match(item):
            missing = (_number(gone[1]), _number(gone[2]))
        elif text := unquoted(words.removeprefix(wording.REPORTED)).strip():
            is_reported = not is_ours or words.startswith(wording.REPORTED)
            found.append(QuotedText(text, about=about, is_reported=is_reported))
    return tuple(found), missing


def _files(items: Sequence[str]) -> tuple[FileWork, ...]:
    """Files in the order of use, the last used last: a section lists them in reverse."""
    root = next((found[1] for item in items if (found := wording.ROOT.match(item))), "")
    files = [_file(item) for item in items if _path_in(item) and not wording.ROOT.match(item)]
    return tuple(
        msgspec.structs.replace(file, path=root + file.path.removeprefix(wording.BELOW))
        if root and file.path.startswith(wording.BELOW)
        else file
        for file in reversed(files)
    )


def _path_in(item: str) -> str:
    first = item.split("\n", 1)[0]
    if ours := wording.COUNTS.match(first):
        return ours["path"]
    found = _PATH.search(first[:_LOOKED_AT])
    return (found[1] or found[2]) if found else ""


def _file(item: str) -> FileWork:
    first, _, notes = item.partition("\n")
    counted = wording.COUNTS.match(first)
    if counted is None:
        return FileWork(_path_in(item), notes=_inner(first, notes))
    counts = dict(part.removesuffix("×").rsplit(" ", 1) for part in counted["counts"].split(", "))
    read, edited, wrote = (
        _number(counts.get(verb, "0")) for verb in (wording.READ, wording.EDITED, wording.WROTE)
    )
    return FileWork(counted["path"], read, edited, wrote, notes=notes)


def _inner(first: str, notes: str) -> str:
    """What a model wrote about a file, without the path if that is on a line of its own."""
    named = _PATH.search(first[:_LOOKED_AT])
    said = first if named is None or len(first) > len(named[0]) + len("****:") else ""
    return "\n".join(filter(None, (said.strip(), dedent(notes).strip("\n"))))


def _concepts(items: Sequence[str]) -> Mapping[str, int]:
    found = (wording.MENTIONED.match(part) for item in items for part in item.split("; "))
    return {match["word"]: _number(match[2]) for match in found if match}


def _carried(item: str) -> str:
    return item.removeprefix(wording.HANDED_DOWN)


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
