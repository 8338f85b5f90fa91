"""How far long work is, on stderr: a bar where a person watches, plain lines where a file does.

Plain lines are few however much there is to do: one for each twentieth of the work, and none at all for work
that is done before anybody would ask.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final, TextIO

from everturn.dashboard.layout import plain

ProgressCallback = Callable[[int, int, str], None]
_LINES: Final = 20
# Seconds of silence in a pipe.
_QUIET: Final = 2.0


@contextmanager
def progress(
    what: str, *, to: TextIO | None = None, clock: Callable[[], float] = monotonic
) -> Iterator[ProgressCallback]:
    """`with progress("Replaying") as tell: tell(done, of, about)`."""
    stream = to or sys.stderr
    if stream.isatty():
        with _bar(what, stream) as tell:
            yield tell
    else:
        yield _lines(what, stream, clock)


def _lines(what: str, stream: TextIO, clock: Callable[[], float]) -> ProgressCallback:
    said, start = 0, clock()

    def tell(done: int, of: int, about: str) -> None:
        nonlocal said
        part = done * _LINES // max(1, of)
        if (part > said or done == of) and clock() - start > _QUIET:
            said = part
            print(f"{what}: {done:,} of {of:,} ({_name(about, stream)})", file=stream, flush=True)

    return tell


@contextmanager
def _bar(what: str, stream: TextIO) -> Iterator[ProgressCallback]:
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
            # Brackets in a name are no markup of ours.
            bar.update(task, completed=done, total=of, about=_name(about, stream).replace("[", r"\["))

        yield tell


def _name(path: str, stream: TextIO) -> str:
    """Names come from a disk: what is no text is not sent to a terminal."""
    spells_all = "utf" in (stream.encoding or "").lower()
    return plain(Path(path).name, ascii_only=not spells_all)
