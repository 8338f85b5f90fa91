"""Progress of long work on stderr: a bar in a terminal, plain lines otherwise.

There are at most twenty plain lines, and none for work that takes less than two seconds.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final, TextIO

from everturn.dashboard.layout import plain
from everturn.replay.parallel.replays import ProgressCallback

_LINES: Final = 20
# Seconds before the first plain line.
_QUIET: Final = 2.0


@contextmanager
def progress(
    what: str, *, to: TextIO | None = None, clock: Callable[[], float] = monotonic
) -> Generator[ProgressCallback]:
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
def _bar(what: str, stream: TextIO) -> Generator[ProgressCallback]:
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
