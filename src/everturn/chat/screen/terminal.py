"""The terminal itself: lines are printed, text is streamed, a person is asked. Nothing is decided here.

Three kinds of terminal are told apart once, at the start:

    live    a person at both ends and a cursor that moves: prompt, waiting line, colours
    plain   a person at both ends, nothing else is known of the terminal (TERM=dumb): prompt
    pipe    a program at one end: lines are read and answered, nobody is asked anything

A waiting line is painted over by a thread; whatever is printed wipes it away first.
"""

import io
import locale
import os
import shutil
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, TextIO

from rich.console import Console
from rich.text import Text

from everturn.chat.screen.input import is_continued, join_lines
from everturn.chat.screen.status import PATIENCE
from everturn.chat.screen.wrapping import StreamWrapper
from everturn.dashboard.layout import Screen

TerminalKind = Literal["live", "plain", "pipe"]

_ERASE: Final = "\r\x1b[K"
# Often enough for a counter of seconds to look alive.
_REPAINTS: Final = 0.25
# Below this nothing can be said; a terminal that reports less has not been asked yet.
_MIN_WIDTH: Final = 20
_SHAPES: Final = "›●✔→…"


class Terminal:
    """Where a conversation is held. `say_to` is standard output unless a program wants that for itself."""

    def __init__(self, *, say_to: TextIO | None = None, kind: TerminalKind | None = None) -> None:
        # A program that was started without them has none of its own.
        self._in, self._out = sys.stdin or io.StringIO(), say_to or sys.stdout or io.StringIO()
        self.kind: TerminalKind = kind or detect_terminal_kind(
            self._in, self._out, os.environ.get("TERM", "")
        )
        self.is_ascii = not _has_shapes(self._out)
        _replace_bad_bytes(self._in, self._out, ascii_only=self.is_ascii)
        self._console = Console(file=self._out, highlight=False, emoji=False, markup=False, soft_wrap=True)
        self._text = StreamWrapper(self._width() if self.kind == "live" else 0)
        self._lock = threading.RLock()
        self._waits_for: Callable[[float], str] | None = None
        self._since = 0.0
        self._is_painted = False
        self._painter: threading.Thread | None = None
        self._history = ""
        self._is_working = False

    @property
    def screen(self) -> Screen:
        return Screen(self._width(), self.is_ascii)

    def _width(self) -> int:
        return max(_MIN_WIDTH, shutil.get_terminal_size().columns)

    # ── saying ───────────────────────────────────────────────────────────────────────────────────

    def show(self, lines: Iterable[Text]) -> None:
        """Whole lines, on lines of their own."""
        drawn = list(lines)
        if not drawn:
            return
        with self._lock:
            self.end_text()
            for line in drawn:
                self._console.print(line)
            self._out.flush()

    def say(self, words: str, style: str = "") -> None:
        """A sentence or two; a program gets them on one line."""
        screen = self.screen
        lines = [screen.plain(words)] if self.kind == "pipe" else screen.wrapped(words)
        self.show(Text(line, style) for line in lines)

    def blank(self) -> None:
        """Air between two things; a pipe needs none."""
        if self.kind != "pipe":
            self.show([Text()])

    def stream(self, piece: str) -> None:
        """A piece of a text that goes on."""
        with self._lock:
            self.settle()
            self._out.write(self._text.feed(piece))
            self._out.flush()

    def end_text(self) -> None:
        """What comes next begins a line of its own."""
        with self._lock:
            self.settle()
            self._out.write(self._text.ended())
            self._out.flush()
            self._text = StreamWrapper(self._width() if self.kind == "live" else 0)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def wait_for(self, told: Callable[[float], str]) -> None:
        """From now on, until something is said, a line tells how long it takes already."""
        if self.kind != "live":
            return
        with self._lock:
            if self._text.column == 0:
                self._waits_for, self._since = told, time.monotonic()
        if self._painter is None:
            self._painter = threading.Thread(target=self._paint, name="waiting line", daemon=True)
            self._painter.start()

    def settle(self) -> None:
        """Nobody waits any more; what was painted is gone."""
        with self._lock:
            self._waits_for = None
            if self._is_painted:
                self._out.write(_ERASE)
                self._out.flush()
                self._is_painted = False

    def _paint(self) -> None:
        while True:
            time.sleep(_REPAINTS)
            with self._lock:
                waited = time.monotonic() - self._since
                if self._waits_for is not None and waited >= PATIENCE:
                    self._out.write(f"{_ERASE}{self._waits_for(waited)}")
                    self._out.flush()
                    self._is_painted = True

    @contextmanager
    def working(self) -> Iterator[None]:
        """Keys that are pressed meanwhile show at the next prompt, and not in the middle of an answer."""
        self._is_working = True
        self._echo("off")
        try:
            yield
        finally:
            self._is_working = False
            self._echo("on")

    def _echo(self, keys: Literal["on", "off"]) -> None:
        if self.kind != "live":
            return
        try:
            mode = termios.tcgetattr(self._in)
            mode[3] = mode[3] | termios.ECHO if keys == "on" else mode[3] & ~termios.ECHO
            termios.tcsetattr(self._in, termios.TCSADRAIN, mode)
        except (termios.error, OSError, ValueError):
            # A terminal that is gone has nobody to disturb.
            pass

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def load_line_history(self, file: str) -> None:
        """What is typed can be had again with the arrow keys, also tomorrow."""
        if self.kind == "pipe":
            return
        from everturn.chat.screen import line_history as editing

        self._history = file
        editing.load_history(file)

    def read(self) -> str:
        """What a person types, several lines where they go on. Raises EOFError at the end."""
        lines = [self._line(self._prompt())]
        while is_continued(lines[-1]):
            lines.append(self._line(self._prompt("more")))
        if self._history:
            from everturn.chat.screen import line_history as editing

            editing.append_history(join_lines(lines), self._history)
        return join_lines(lines)

    def ask(self, question: str) -> str:
        """A short answer. "" where there is nobody to ask."""
        if self.kind == "pipe":
            return ""
        self.end_text()
        return self._line(question)

    def _line(self, prompt: str) -> str:
        if self.kind != "pipe":
            self.settle()
            self._echo("on")
            try:
                return input(prompt)
            finally:
                if self._is_working:
                    self._echo("off")
        line = self._in.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    def _prompt(self, which: Literal["first", "more"] = "first") -> str:
        first, more = ("> ", ". ") if self.is_ascii else ("› ", "· ")
        sign = first if which == "first" else more
        if self.kind == "plain" or self._console.no_color:
            return sign
        # The marks around a colour tell readline that it takes no room.
        return f"\x01\x1b[1;36m\x02{sign}\x01\x1b[0m\x02"


def detect_terminal_kind(stdin: TextIO, stdout: TextIO, term: str) -> TerminalKind:
    if not (stdin.isatty() and stdout.isatty()):
        return "pipe"
    return "plain" if term in ("", "dumb", "unknown") else "live"


def _has_shapes(out: TextIO) -> bool:
    """Python speaks UTF-8 in the C locale, whatever the terminal can show; a person who chose an encoding
    for Python meant it."""
    chosen = os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8")
    names = [out.encoding or "ascii", *([] if chosen else [locale.getencoding()])]
    try:
        for name in names:
            _SHAPES.encode(name)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _replace_bad_bytes(stdin: TextIO, stdout: TextIO, *, ascii_only: bool) -> None:
    """Bytes that are no text become marks: a wrong byte in a pipe ends no conversation."""
    for stream in (stdin, stdout):
        if (change := getattr(stream, "reconfigure", None)) is not None:
            change(errors="replace")
    if ascii_only and (change := getattr(stdout, "reconfigure", None)) is not None:
        change(encoding="ascii", errors="replace")
