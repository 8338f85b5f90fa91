"""Formats tool calls (one line with input and result), permission requests and the todo list.

All functions are pure: they take values and return lines that fit the screen.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from rich.cells import cell_len, chop_cells
from rich.text import Text

from everturn.chat.permission import PermissionRequest
from everturn.chat.tools.todo import Todo
from everturn.dashboard.layout import GAP, Screen, counted
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.terminal_text import visible
from everturn.view.fragments.unchanged import OPENING as UNCHANGED

CallStatus = Literal["well", "wrong"]

# The input fields that describe a call best, in order of preference.
_SUMMARY_FIELDS: Final = (
    "command",
    "pattern",
    "file_path",
    "path",
    "query",
    "record",
    "description",
    "prompt",
    "url",
)
# A longer diff is cut; the user can ask for all of it.
MAX_DETAIL_LINES: Final = 24
_DIFFS: Final = ("edit", "guarded edit")
# The first matching prefix counts. The header of a diff is dimmed: the file name was shown already.
_DETAIL_STYLES: Final = (
    ("--- ", QUIET),
    ("+++ ", QUIET),
    ("@@", QUIET),
    ("+", "green"),
    ("-", "red"),
)
_TODO_MARKS: Final[Mapping[str, tuple[str, str, str]]] = {
    "completed": ("✔", "x", QUIET),
    "in_progress": ("▸", ">", HEAD),
    "pending": ("○", "-", ""),
}
# How the result of a failed command starts (`tools/bash.py`).
_ENDINGS: Final = ("Exit code", "Ended by signal")


def format_call(
    tool: str, given: Mapping[str, Any], result: str, went: CallStatus, screen: Screen, *, deep: int = 0
) -> Text:
    """`● Read src/app.py  42 lines`. Calls of a sub-agent are indented by `deep` levels."""
    mark = "*" if screen.ascii_only else "●"
    name = screen.plain(tool)
    before = " " * (GAP * deep)
    room = screen.width - cell_len(f"{before}{mark} {name} ") - GAP
    about = summarize_input(given)
    # A result often starts with the same words as the input; do not repeat them.
    said = summarize_result(result, went).removeprefix(f"{about} ")
    asked, came_out = _side_by_side(about, said, max(0, room), screen)
    line = Text.assemble(before, (mark, "green" if went == "well" else "red"), " ", (name, HEAD))
    line.append(f" {asked}" if asked else "")
    line.append(" " * GAP + came_out if came_out else "", QUIET if went == "well" else "red")
    line.truncate(screen.width)
    return line


def _side_by_side(asked: str, came_out: str, room: int, screen: Screen) -> tuple[str, str]:
    """Both in full if they fit; otherwise each gets half of the width, plus what the other leaves."""
    half = room // 2
    wanted = min(cell_len(screen.plain(asked)), max(half, room - cell_len(screen.plain(came_out))))
    first = screen._replace(width=wanted).fitted(asked)
    return first, screen._replace(width=room - cell_len(first)).fitted(came_out)


def format_running_call(tool: str, given: Mapping[str, Any]) -> str:
    """The call in the waiting line."""
    return " ".join(filter(None, (tool, summarize_input(given))))


def summarize_input(given: Mapping[str, Any]) -> str:
    """The most descriptive fields of the input, on one line."""
    said = [" ".join(str(given[name]).split()) for name in _SUMMARY_FIELDS if given.get(name)]
    if "pattern" in given and len(said) > 1:
        return f"{said[0]} in {said[1]}"
    return said[0] if said else ""


def summarize_result(result: str, went: CallStatus) -> str:
    """A result in a few words: the line itself, or the number of lines."""
    lines = [line for line in result.splitlines() if line.strip()]
    if not lines:
        return "no output"
    if lines[0].startswith(UNCHANGED):
        return "unchanged"
    if went == "wrong" or len(lines) == 1 or lines[0].startswith(_ENDINGS):
        return " ".join(lines[0].split())
    return counted(len(lines), "line")


def format_permission_request(
    request: PermissionRequest, screen: Screen, *, whole: bool = False
) -> list[Text]:
    """What the user must see before allowing it, hidden characters escaped. A command or a path is shown in
    full, a diff is cut after some lines unless `whole` is set."""
    named = f"{request.tool}: {visible(request.what)}"
    head, detail = Text(screen.fitted(named), HEAD), _detail(request, screen)
    if len(detail) == 1 and detail[0] in request.what and cell_len(named) <= screen.width:
        return [head]
    is_whole = whole or request.kind not in _DIFFS
    lines = [head]
    for line in detail if is_whole else detail[:MAX_DETAIL_LINES]:
        style = next((style for sign, style in _DETAIL_STYLES if line.startswith(sign)), "")
        folded = _folded(line, screen) if is_whole else [_indented(line, screen)]
        lines += (Text(each, style) for each in folded)
    if not is_whole and len(detail) > MAX_DETAIL_LINES:
        lines.append(
            Text(screen.fitted(f"  ({counted(len(detail) - MAX_DETAIL_LINES, 'line')} more)"), QUIET)
        )
    return lines


def is_shortened(request: PermissionRequest, screen: Screen) -> bool:
    """Whether the first display of a request is cut."""
    detail = _detail(request, screen)
    is_cut = len(detail) > MAX_DETAIL_LINES or any(cell_len(line) > screen.width - GAP for line in detail)
    return request.kind in _DIFFS and is_cut


def _detail(request: PermissionRequest, screen: Screen) -> list[str]:
    return [screen.plain(line.expandtabs(4)) for line in visible(request.detail).splitlines()]


def _folded(line: str, screen: Screen) -> list[str]:
    """Wrapped at the screen width, spaces kept."""
    return [" " * GAP + part for part in chop_cells(line, max(1, screen.width - GAP)) or [""]]


def format_question(request: PermissionRequest, screen: Screen) -> str:
    """The question with its possible answers, as detailed as the width allows."""
    always = f"a always for {screen.plain(visible(request.key))}"
    more = ", s show all" if is_shortened(request, screen) else ""
    for asked in (f"Allow? y once, {always}{more}, n no: ", f"Allow? y once, a always{more}, n no: "):
        if cell_len(asked) < screen.width - 1:
            return asked
    return "Allow? y/a/s/n: " if more else "Allow? y/a/n: "


def format_todos(todos: Sequence[Todo], screen: Screen) -> list[Text]:
    lines: list[Text] = []
    for todo in todos:
        shape, letter, style = _TODO_MARKS.get(todo.status, _TODO_MARKS["pending"])
        mark = letter if screen.ascii_only else shape
        lines.append(Text(_indented(f"{mark} {todo.content}", screen), style))
    return lines


def _indented(line: str, screen: Screen) -> str:
    return "  " + screen._replace(width=max(1, screen.width - 2)).fitted(line)
