"""How a person names a session: not at all, by its file, by the id that we show, or by a part of its title.

Without a name it is the session of the running agent, or the newest one of the current folder. A command that
changes a session asks if there are several.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from everturn.cli.output import say
from everturn.terminal_text import printable

if TYPE_CHECKING:
    from everturn.catalog.listing import SessionFile
    from everturn.catalog.places import Places
    from everturn.replay.sessions import Unreadable

STDIN: Final = "-"
MAX_LISTED: Final = 10
_MAX_COMPLETED: Final = 30
_CURRENT: Final = "CLAUDE_CODE_SESSION_ID"


class SessionName(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  # as in period.py
    """A path, "-", a short id or a part of a title. The value stays as it is; `choose_session` finds it."""

    name = "session"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        if incomplete.startswith((".", "~", "/")) or os.sep in incomplete:
            return [CompletionItem(incomplete, type="file")]
        from everturn.catalog.listing import read_title

        ids = [each for each in _find_near(Path.cwd())[1] or _known() if each.id.startswith(incomplete)]
        named = [
            CompletionItem(each.id, help=printable(read_title(each.path))) for each in ids[:_MAX_COMPLETED]
        ]
        files = [name for name in _names_here() if name.startswith(incomplete) and name.isprintable()]
        return named + [CompletionItem(name) for name in files]


def choose_session(name: str | None, *, changes: bool = False, is_told: bool = True) -> str:
    """The path of the session. `changes`: never guess between several. `is_told`: say which one was chosen
    for somebody who named none."""
    if name is not None:
        return name if name == STDIN or _is_path(name) else str(_find(name))
    chosen = _current() or _default(changes=changes)
    if is_told:
        say(f"Session {_describe(chosen)}", err=True)
    return str(chosen.path)


def choose_paths(names: Sequence[str]) -> list[Path]:
    """Files and folders by path, id or title, for commands that read several sessions."""
    return [_existing(name) if _is_path(name) else _find(name) for name in names]


def nothing_to(
    do: str, paths: Sequence[Path], unreadable: Sequence["Unreadable"], more: str = ""
) -> click.ClickException:
    """The error of a command that found nothing in what it was given: where it looked, and why not."""
    where = f" Looked in {paths[0]}." if len(paths) == 1 else ""
    reasons = [f"  {each.path}: {each.why}" for each in unreadable[:MAX_LISTED]]
    if len(unreadable) > MAX_LISTED:
        reasons.append(f"  and {len(unreadable) - MAX_LISTED:,} more")
    return click.ClickException("\n".join((f"No session to {do}.{more}{where}", *reasons)))


def is_session(word: str) -> bool:
    """Whether a word that may also be something else is certainly a session: a session file, or an id."""
    from everturn.catalog.listing import match_sessions
    from everturn.catalog.names import ID_SHOWN

    if word == STDIN or word.endswith(".jsonl"):
        return True
    return len(word) >= ID_SHOWN and bool(match_sessions(word, _known(), lambda path: ""))


def default_places() -> "Places":
    from everturn.catalog.places import find_places

    return find_places(os.environ, home=Path.home())


def remember_paths(paths: Iterable[str]) -> None:
    """Let the ids of these sessions be known to later commands, also outside of the usual places."""
    from everturn.catalog.remembered import remember

    places = default_places()
    absolute = (Path(os.path.abspath(path)) for path in paths)
    outside = [path for path in absolute if not any(path.is_relative_to(root) for root in places.roots)]
    remember(places.cache.parent, outside)


def _is_path(name: str) -> bool:
    return os.sep in name or os.path.lexists(name)


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    # `FILE#NAME` is one of several sessions in a file.
    if os.path.lexists(path) or ("#" in path.name and os.path.lexists(name.rpartition("#")[0])):
        return path
    raise click.UsageError(f"{name} does not exist.{_did_you_mean(path.name, _names_in(path.parent))}")


def _find(name: str) -> Path:
    from everturn.catalog.listing import match_sessions

    known = _known()
    found = match_sessions(name, known)
    if len(found) == 1:
        return found[0].path
    if found:
        said = f"{len(found):,} sessions fit {name!r}. Name one by its id or path:"
        raise click.ClickException("\n".join((said, *_lines(found))))
    hint = _did_you_mean(name, [*_names_here(), *(each.id for each in known)])
    where = "no file here has this name, and no session this id or title"
    raise click.ClickException("\n".join((f"No session {name!r}: {where}.{hint}", *_newest_lines(known))))


def _default(*, changes: bool) -> "SessionFile":
    from everturn.catalog.listing import holds_messages

    here = Path.cwd()
    folder, near = _find_near(here)
    if not near:
        known = _known()
        said = f"No session of {here} was found in {_listed_roots()}."
        if known and _is_interactive():
            say(f"{said} The newest of other folders:", err=True)
            return _ask(known[:MAX_LISTED])
        lines = _newest_lines(known)
        raise click.ClickException("\n".join((f"{said} Name a file, or a session by its id.", *lines)))
    if not changes:
        # The newest file may be one that an agent has only just created.
        return next((each for each in near if holds_messages(each.path)), near[0])
    return near[0] if len(near) == 1 and folder == here else _ask(near[:MAX_LISTED])


def _ask(near: Sequence["SessionFile"]) -> "SessionFile":
    if not _is_interactive():
        said = "This command changes a session. Name it by its id, one of:"
        raise click.ClickException("\n".join((said, *_lines(near))))
    say("\n".join(_lines(near, numbered=True)), err=True)
    number = click.prompt("Which session", type=click.IntRange(1, len(near)), default=1, err=True)
    return near[number - 1]


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _current() -> "SessionFile | None":
    """The session of the agent that runs this command."""
    wanted = os.environ.get(_CURRENT, "")
    found = [each for each in _known() if each.path.stem == wanted] if wanted else []
    return found[0] if found else None


def _find_near(here: Path) -> tuple[Path, list["SessionFile"]]:
    """The sessions of this folder, or else of the nearest folder above that has some; and which it is."""
    from everturn.catalog.listing import list_folders
    from everturn.catalog.places import claude_folder, claude_projects
    from everturn.chat.sessions import project_folder

    projects = claude_projects(os.environ, Path.home())
    for folder in (here, *here.parents):
        found = list_folders(
            [claude_folder(projects, folder), project_folder(folder, os.environ, Path.home())]
        )
        if found:
            return folder, found
    return here, []


def _known() -> list["SessionFile"]:
    from everturn.catalog.listing import list_sessions, newest_first
    from everturn.catalog.remembered import load_remembered

    places = default_places()
    elsewhere = newest_first(load_remembered(places.cache.parent))
    return [*list_sessions(places), *elsewhere]


def _describe(chosen: "SessionFile") -> str:
    from everturn.catalog.listing import read_title
    from everturn.dashboard.layout import Screen

    title = read_title(chosen.path) or chosen.path.name
    return Screen(60).fitted(f"{chosen.id}: {title}") + f" ({chosen.changed_at.astimezone():%Y-%m-%d %H:%M})"


def _lines(found: Sequence["SessionFile"], *, numbered: bool = False) -> list[str]:
    from everturn.catalog.listing import read_title
    from everturn.dashboard.layout import Screen
    from everturn.dashboard.session_list import render_sessions

    rows = [(each.id, each.changed_at, read_title(each.path)) for each in found[:MAX_LISTED]]
    lines = render_sessions(rows, Screen(get_terminal_size().columns - 2), numbered=numbered)
    more = len(found) - len(rows)
    return [f"  {line}" for line in lines] + ([f"  and {more:,} more"] if more else [])


def _newest_lines(known: Sequence["SessionFile"]) -> list[str]:
    return ["The newest sessions:", *_lines(known[:MAX_LISTED])] if known else []


def _listed_roots() -> str:
    return " or ".join(map(str, default_places().roots))


def _names_here() -> list[str]:
    return _names_in(Path())


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def _did_you_mean(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f" Did you mean {near[0]}?" if near else ""


def session_argument(command: Any) -> Any:
    """The optional argument SESSION of a command that reads or changes one session."""
    return click.argument("session", required=False, type=SessionName())(command)


def sessions_argument(command: Any) -> Any:
    """The optional argument SESSIONS: files, folders, ids and titles."""
    return click.argument("sessions", nargs=-1, type=SessionName())(command)
