"""A session in the middle of its life, on a real disk, and what it can be killed at, scene by scene.

The session is opened once, in the parent; each trial forks, and the child does one thing to it. So a trial
costs a fork and that one thing. What the child left is read from outside, and the folder is put back.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from engine.random_sessions import small
from scripted_twin import scripted_options

from everturn import Session, Tool
from everturn.decide.options import Options
from everturn.history.records import Record
from everturn.session.private_files import replace_file
from everturn.session.runtime import NOTES_SUFFIX
from everturn.session.store.jsonl_store import FILES_SUFFIX
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send
from everturn.wire.claude_code_reader import parse_session_file

SUMMARY = (
    "<summary>1. The login test was fixed in auth.py by waiting for the token; all of it is done.</summary>"
)
LARGE = "a line of code that is long enough\n" * 120
READ = Tool(
    {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}},
    lambda given: LARGE,
)
OPTIONS: Options = small("claude-code")


class Desk:
    """A folder with one session in it, and the twin that answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "session.jsonl"
        self.box = TwinForTests(options=scripted_options())
        self._ids = count(1)

    def open(self, path: Path | None = None, **how: Any) -> Session:
        return Session.open(
            path or self.path,
            **{
                "model": "claude-haiku-4-5",
                "options": OPTIONS,
                "tools": [READ],
                "system": "Be brief.",
                "ways": ("direct",),
                "send": make_twin_send(self.box.twin),
                "clock": self.box.twin.clock.now,
                "new_id": lambda: f"{next(self._ids):08d}",
                "roots": [self.folder],
                "fsync": "always",
                **how,
            },
        )

    def talk(self, session: Session, turns: int) -> None:
        for turn in range(turns):
            self.box.script(f"Answer {turn}: " + "as far as the results show. " * 12)
            session.send(f"Question {turn} about the login test. " + "Look closely. " * 12)

    def compact(self, session: Session) -> Any:
        self.box.script(SUMMARY)
        return session.compact()


# ── what is done in the child ────────────────────────────────────────────────────────────────────


def turn(desk: Desk, session: Session) -> None:
    desk.box.script("It waits for the token now, größer and 🚀.")
    session.send("Fix it, please: 解析器.")


def offload(desk: Desk, session: Session) -> None:
    """A result that is too large goes to a file, before its edit is written."""
    desk.box.script({"content": [{"type": "tool_use", "name": "Read", "input": {}}]}, "Seen.")
    session.send("Read it.")


def compaction(desk: Desk, session: Session) -> None:
    desk.compact(session)


def undo(desk: Desk, session: Session) -> None:
    session.undo()


def pin(desk: Desk, session: Session) -> None:
    session.pin("Never push to main.")


def notes(desk: Desk, session: Session) -> None:
    replace_file(session.path + NOTES_SUFFIX, b"# Notes\n" + b"what was learned since\n" * 40)


def end(desk: Desk, session: Session) -> None:
    session.close()


def opening(desk: Desk, session: Session) -> None:
    """Opened by the next process, with the lock that the last one left behind."""
    session._runtime.store.close()
    with desk.open() as again:
        desk.box.script("Here.")
        again.send("Are you there?")


SCENES: dict[str, Callable[[Desk, Session], None]] = {
    act.__name__: act for act in (turn, offload, compaction, undo, pin, notes, end, opening)
}


class Stage:
    """A desk with a past: turns, a compaction, more turns. `put_back` undoes what a child has done."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder)
        self.session = self.desk.open()
        self.desk.talk(self.session, 2)
        self.desk.compact(self.session)
        self.desk.talk(self.session, 1)
        replace_file(self.session.path + NOTES_SUFFIX, b"# Notes\nas they were\n")
        self.kept = self.bytes_now()

    @property
    def base(self) -> tuple[Record, ...]:
        return read_records(self.kept[self.desk.path.name])

    def bytes_now(self) -> dict[str, bytes]:
        """Every file of the folder, by its path below it."""
        return dict(_files_below(str(self.desk.folder)))

    def put_back(self, now: Mapping[str, bytes]) -> None:
        """As it was, without giving the open session another file: it is cut to its old length. `now` is what
        is there."""
        for name, data in now.items():
            path = self.desk.folder / name
            if name not in self.kept:
                path.unlink()
            elif name == self.desk.path.name:
                os.truncate(path, len(self.kept[name]))
            elif data != self.kept[name]:
                path.write_bytes(self.kept[name])
        for name in self.kept.keys() - now.keys():
            (self.desk.folder / name).write_bytes(self.kept[name])
        shutil.rmtree(f"{self.session.path}{FILES_SUFFIX}", ignore_errors=True)


def _files_below(folder: str, below: str = "") -> Iterator[tuple[str, bytes]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files_below(entry.path, f"{below}{entry.name}/")
            elif entry.is_file():
                with open(entry.path, "rb", buffering=0) as file:
                    yield below + entry.name, file.read()


def read_records(data: bytes) -> tuple[Record, ...]:
    return parse_session_file(data).records


@contextmanager
def quiet() -> Iterator[None]:
    """What is told here is told on purpose; it is counted, not logged."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
