"""Progress of long work on stderr: a bar in a terminal, otherwise a plain line every few seconds.

The plain lines come from a thread, so that a long step does not look like a hung program. There is none for
work that takes less than two seconds.
"""

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from everturn.dashboard.layout import plain

if TYPE_CHECKING:
    from everturn.replay.parallel.replays import ProgressCallback

# Seconds before the first plain line, and between two.
QUIET: Final = 2.0
BETWEEN: Final = 5.0

# Waits that many seconds; True ends the lines.
Wait = Callable[[float], bool]


@contextmanager
def progress(
    what: str, *, to: TextIO | None = None, wait: Wait | None = None
) -> Generator["ProgressCallback"]:
    """`with progress("Replaying") as tell: tell(done, of, about)`."""
    stream = to or sys.stderr
    if stream.isatty():
        with _bar(what, stream) as tell:
            yield tell
        return
    ended = threading.Event()
    lines = _Lines(what, stream)
    thread = threading.Thread(target=lines.run, args=(wait or ended.wait,), daemon=True)
    thread.start()
    try:
        yield lines.tell
    finally:
        ended.set()
        thread.join(timeout=1)


class _Lines:
    """What was told last, and one line about it for each time that passes."""

    def __init__(self, what: str, stream: TextIO) -> None:
        self._what, self._stream = what, stream
        self._told: tuple[int, int, str] | None = None

    def tell(self, done: int, of: int, about: str) -> None:
        self._told = done, of, about

    def run(self, wait: Wait) -> None:
        passed = QUIET
        ends = wait(QUIET)
        while not ends:
            try:
                print(self._line(passed), file=self._stream, flush=True)
            except (OSError, ValueError):
                # Nobody reads it any more.
                return
            passed += BETWEEN
            ends = wait(BETWEEN)

    def _line(self, passed: float) -> str:
        if self._told is None:
            return f"{self._what}: {passed:.0f} s"
        done, of, about = self._told
        named = f" ({_name(about, self._stream)})" if about else ""
        return f"{self._what}: {done:,} of {of:,}{named}, {passed:.0f} s"


@contextmanager
def _bar(what: str, stream: TextIO) -> Generator["ProgressCallback"]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[about]}"),
    )
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(what, total=None, about="")

        def tell(done: int, of: int, about: str) -> None:
            # Brackets in a file name are not markup.
            bar.update(task, completed=done, total=of, about=_name(about, stream).replace("[", r"\["))

        yield tell


def _name(path: str, stream: TextIO) -> str:
    """File names may contain control characters, which must not reach a terminal."""
    spells_all = "utf" in (stream.encoding or "").lower()
    return plain(Path(path).name, ascii_only=not spells_all)
