"""What a command prints and writes: words for a terminal, JSON for programs, files for their owner."""

import errno
import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click

from everturn.terminal_text import printable

# Control characters of eight bits, and marks that change the order of letters.
_CONTROLS: Final = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text; names and values in it come from anywhere."""
    click.echo(printable(text, keeps_lines=True), err=err, nl=nl)


def warn_of_damage(file: str, problems: Sequence[str]) -> None:
    """Say on stderr what a session file has lost. Whoever reads its content must know that it is not all."""
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        say(f"Warning: {file} is damaged: {problems[0]}{more}", err=True)


def say_json(data: bytes) -> None:
    """Print JSON. As bytes: JSON is UTF-8 in any locale. The encoder escapes only the control characters that
    JSON forbids."""
    click.echo(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", data.decode()).encode())


def write_output(path: Path, data: bytes) -> None:
    """Write a file that the user named. It holds parts of sessions, so it is the owner's alone."""
    from everturn.safe_files import replace_file

    with _explained(path):
        replace_file(path, data, may_replace_links=False)


@contextmanager
def open_output(path: Path) -> Generator[BinaryIO]:
    """The same for a file that is written bit by bit; it appears when it is complete."""
    from everturn.safe_files import AtomicFile

    with _explained(path), AtomicFile(path, may_replace_links=False) as file:
        yield file


@contextmanager
def _explained(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as problem:
        why = problem.strerror or os.strerror(problem.errno or errno.EIO)
        raise click.ClickException(f"Cannot write {path}: {why}.") from None
