"""`everturn audit --watch`: the same figures, as long as it runs.

A file is read again only when it changed. On a terminal the figures are drawn in place; in a pipe there is
one line for each session that changed. Ctrl-C ends it, with exit code 0: there is no other way to end it.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import chain
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live

from everturn.cli.output import say
from everturn.cli.session_names import default_places
from everturn.dashboard.audit import drawn, render_changes
from everturn.dashboard.console import open_console
from everturn.dashboard.layout import Screen
from everturn.dashboard.progress import progress
from everturn.replay.audit import Audit, Auditor, SessionFacts, measure_session
from everturn.replay.sessions import ReplaySession, Unreadable, read_sessions
from everturn.web_dashboard.index import FileStamp
from everturn.web_dashboard.indexer import FileGroup, agent_of, group_files, stamp_files

if TYPE_CHECKING:
    from everturn.replay.parallel.replays import ProgressCallback

SECONDS: Final = 2.0
# At most this share of the time is spent on looking again, however many sessions there are.
_REST: Final = 5

Facts = tuple[SessionFacts | Unreadable, ...]


def watch_audit(
    list_files: Callable[[], Iterable[Path]],
    make_auditor: Callable[[], Auditor],
    choose: Callable[[Audit], Sequence[str]],
    *,
    color: bool,
    zone: tzinfo | None,
) -> None:
    """`list_files` is called again and again; `choose` names the tables."""
    states = _iter_states(list_files, make_auditor)
    console = open_console(color=color)
    try:
        if console.is_terminal:
            _draw(states, choose, console, zone)
        else:
            _print(states, zone)
    except KeyboardInterrupt:
        return


def _draw(
    states: Iterator[Audit], choose: Callable[[Audit], Sequence[str]], console: Console, zone: tzinfo | None
) -> None:
    # The progress of the first reading is shown before the screen is taken.
    first = next(states)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for state in chain([first], states):
            screen = Screen(console.width, not console.encoding.lower().startswith("utf"))
            lines = drawn(state, choose(state), screen, zone)
            live.update(Group(*lines[: max(1, console.height - 1)]), refresh=True)


def _print(states: Iterator[Audit], zone: tzinfo | None) -> None:
    before: Audit | None = None
    for state in states:
        for line in render_changes(before, state, datetime.now(zone), Screen(Console().width)):
            say(line)
        sys.stdout.flush()
        before = state


def _iter_states(
    list_files: Callable[[], Iterable[Path]], make_auditor: Callable[[], Auditor]
) -> Iterator[Audit]:
    """The audit now, and again after every change. Never ends."""
    kept = WatchedSessions(default_places().own)
    with progress("Reading sessions") as tell:
        changed = kept.update(list_files(), tell)
    began = monotonic()
    while True:
        if changed:
            auditor = make_auditor()
            for facts in kept.facts:
                auditor.add(facts)
            yield auditor.audit()
        sleep(max(SECONDS, _REST * (monotonic() - began)))
        began = monotonic()
        changed = kept.update(list_files())


class WatchedSessions:
    """What the files held when they were last read."""

    def __init__(self, own: Path) -> None:
        self._own = own
        self._stamps: dict[str, FileStamp] = {}
        self._groups: dict[str, tuple[FileGroup, Facts]] = {}
        self._is_new = True

    @property
    def facts(self) -> Iterator[SessionFacts | Unreadable]:
        return (each for _, found in self._groups.values() for each in found)

    def update(self, files: Iterable[Path], tell: "ProgressCallback | None" = None) -> bool:
        """Read what changed. True if anything did, and the first time."""
        groups = group_files(stamp_files(files), self._stamps)
        fresh: dict[str, tuple[FileGroup, Facts]] = {}
        for done, group in enumerate(groups):
            if tell:
                tell(done, len(groups), group.file.path)
            known = self._groups.get(group.file.path)
            fresh[group.file.path] = (
                known if known and known[0] == group else (group, tuple(self._read(group)))
            )
        changed = self._is_new or fresh != self._groups
        self._groups, self._is_new = fresh, False
        self._stamps = {each.path: each for group in groups for each in (group.file, *group.agents)}
        return changed

    def _read(self, group: FileGroup) -> Iterator[SessionFacts | Unreadable]:
        taken: set[str] = set()
        for found in read_sessions([Path(group.file.path)]):
            if not isinstance(found, Unreadable):
                taken |= {thread.agent for thread in found.threads}
            yield self._measure(found)
        # A sub-agent that its session does not know is a session of its own.
        alone = [Path(each.path) for each in group.agents if agent_of(each.path) not in taken]
        yield from map(self._measure, read_sessions(alone))

    def _measure(self, found: ReplaySession | Unreadable) -> SessionFacts | Unreadable:
        return found if isinstance(found, Unreadable) else measure_session(found, own=self._own)
