"""The notes of a session as a value: ten sections, and what they cover (SM-1, SM-4, SM-5, SM-7).

What the notes cover stands in the same file, in front of them: one rename writes both, so that no crash can
leave notes beside the wrong record. The fork never sees that line; it edits what comes below it.

    ---
    everturn: {"covers":"<uuid>","tokens":48211,"session":"<id>","crc32":"0c5f9ad1"}
    ---
    # Session title
    _What this session is about ..._
"""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

import msgspec

from everturn.decide.notes.settings import NotesSettings
from everturn.measure.tokens import ROUGH, rough
from everturn.view.fragments.notes import SECTIONS, NotesSection, cut_here, over_file, over_section, template

# The notes of a session stand beside its transcript.
NOTES_SUFFIX: Final = ".notes.md"
_FENCE: Final = "---\n"
_NAME: Final = "everturn: "


class NotesState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where note-taking stands: the last record covered, the context at that time, tool calls since then, and
    whose notes they are."""

    covers: str = ""
    tokens: int = 0
    calls: int = 0
    # The session's id; "" in files of earlier versions.
    session: str = ""


class _FrontLine(NotesState, frozen=True, omit_defaults=True):
    # Of the body as it was written; "" in files of earlier versions.
    crc32: str = ""


class Notes(msgspec.Struct, frozen=True):
    """`problem` says what was wrong with the line in front, where the file had one that cannot be read.
    `is_changed`: the body is not the one that was written with that line."""

    body: str
    state: NotesState = NotesState()
    problem: str = ""
    is_changed: bool = False

    @property
    def is_empty(self) -> bool:
        """The template, or less: nothing stands below any heading."""
        return not any(text.strip() for text in section_texts(self.body).values())


def new_notes() -> Notes:
    return Notes(template())


def read_notes(text: str) -> Notes:
    """A notes file. One whose first lines are damaged covers nothing that we could know of."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    if not text.startswith(_FENCE):
        return Notes(text)
    front, found, body = text[len(_FENCE) :].partition("\n" + _FENCE)
    if not found or not front.startswith(_NAME):
        return Notes(text, problem="the lines in front of the notes are not ours")
    try:
        line = msgspec.json.decode(front.removeprefix(_NAME).encode(), type=_FrontLine)
    except msgspec.MsgspecError as problem:
        return Notes(body, problem=f"the line in front of the notes cannot be read: {problem}")
    state = NotesState(line.covers, line.tokens, line.calls, line.session)
    return Notes(body, state, is_changed=line.crc32 not in ("", _checksum(body)))


def spell_notes(notes: Notes) -> str:
    state = notes.state
    line = _FrontLine(state.covers, state.tokens, state.calls, state.session, _checksum(notes.body))
    return f"{_FENCE}{_NAME}{msgspec.json.encode(line).decode()}\n{_FENCE}{notes.body}"


def _checksum(body: str) -> str:
    return f"{crc32(body.encode('utf-8', 'replace')):08x}"


def section_texts(body: str, sections: Sequence[NotesSection] = SECTIONS) -> dict[str, str]:
    """What stands below each heading, without its italic line. Only known headings divide the notes: a line
    of a shell script begins with "# " as well."""
    known = {section.heading: section for section in sections}
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in body.splitlines():
        section = known.get(line.rstrip())
        if section is not None and section.title not in found:
            lines = found.setdefault(section.title, [])
        else:
            lines.append(line)
    about = {section.title: section.description for section in sections}
    return {title: _without_first(lines, about[title]) for title, lines in found.items()}


def _without_first(lines: list[str], description: str) -> str:
    body = lines[1:] if lines and lines[0].rstrip() == description else lines
    return "\n".join(body).strip("\n")


def update_problems(before: str, after: str, sections: Sequence[NotesSection] = SECTIONS) -> tuple[str, ...]:
    """What an update must not have done; none where it may be kept (SM-1)."""
    lines = [line.rstrip() for line in after.splitlines()]
    problems = [problem for section in sections if (problem := _heading_problem(section, lines))]
    titles = [section.title for section in sections]
    found = list(section_texts(after, sections))
    if not problems and found != titles:
        problems.append("the sections are in another order")
    if not problems and Notes(after).is_empty and not Notes(before).is_empty:
        problems.append("everything that was noted is gone")
    return tuple(problems)


def _heading_problem(section: NotesSection, lines: Sequence[str]) -> str:
    places = [at for at, line in enumerate(lines) if line == section.heading]
    if len(places) != 1:
        return f'the heading "{section.title}" is there {len(places)} times'
    below = lines[places[0] + 1] if places[0] + 1 < len(lines) else ""
    is_kept = below == section.description
    return "" if is_kept else f'the italic line below "{section.title}" is not what it was'


def to_condense(body: str, settings: NotesSettings) -> tuple[str, ...]:
    """Sentences for the prompt: which sections are too long, and whether the file is (SM-4)."""
    sizes = {title: rough(text) for title, text in section_texts(body).items()}
    over = [
        over_section(title, tokens, settings.section)
        for title, tokens in sizes.items()
        if tokens > settings.section
    ]
    whole = rough(body)
    return (*over, *([over_file(whole, settings.whole)] if whole > settings.whole else ()))


def cut_notes(body: str, path: str, settings: NotesSettings) -> str:
    """The notes as a summary: empty sections left out, long ones cut with a pointer to the file (SM-7)."""
    parts = [
        f"# {title}\n{_cut(text, path, settings.section)}"
        for title, text in section_texts(body).items()
        if text.strip()
    ]
    return "\n\n".join(parts)


def _cut(text: str, path: str, limit: int) -> str:
    """Whole lines while they fit; a first line that does not is cut within."""
    if rough(text) <= limit:
        return text
    fits = int(limit * ROUGH.characters)
    kept = text[:fits]
    if text[fits] != "\n" and "\n" in kept:
        kept = kept.rpartition("\n")[0]
    return f"{kept}\n{cut_here(path)}"
