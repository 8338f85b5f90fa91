"""Terminal input and output: prints lines, streams text, asks questions. Contains no chat logic.

The kind of terminal is detected once, at the start:

    live    interactive, with cursor control: prompt, waiting line, colors
    plain   interactive, without cursor control (TERM=dumb): prompt only
    pipe    input or output is not a terminal: lines are read and answered, no questions

A thread redraws the waiting line; any other output erases it first.
"""

import io
import locale
import os
import shutil
import sys
import termios
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal, TextIO

from rich.console import Console
from rich.text import Text

from everturn.chat.screen.input import is_continued, join_lines
from everturn.chat.screen.status import PATIENCE
from everturn.chat.screen.wrapping import StreamWrapper
from everturn.dashboard.layout import Screen
from everturn.dashboard.terminal import QUIET

if TYPE_CHECKING:
    from everturn.chat.screen.line_editor import LineEditor

TerminalKind = Literal["live", "plain", "pipe"]

_ERASE: Final = "\r\x1b[K"
# Seconds between redraws, so that a counter of seconds looks smooth.
_REPAINTS: Final = 0.25
# Some terminals report a width of 0 at first; narrower output is unreadable anyway.
_MIN_WIDTH: Final = 20
_SHAPES: Final = "›●✔→…"
# More than a terminal keeps for a program that does not read.
_MAX_TYPED: Final = 1 << 16


class Terminal:
    """The terminal of the chat. `say_to` replaces standard output."""

    def __init__(self, *, say_to: TextIO | None = None, kind: TerminalKind | None = None) -> None:
        # sys.stdin and sys.stdout can be None, for example in a daemon.
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
        self._editor: LineEditor | None = None
        self._is_working = False

    @property
    def screen(self) -> Screen:
        return Screen(self._width(), self.is_ascii)

    def _width(self) -> int:
        return max(_MIN_WIDTH, shutil.get_terminal_size().columns)

    # ── output ───────────────────────────────────────────────────────────────────────────────────

    def show(self, lines: Iterable[Text]) -> None:
        """Print whole lines; a streamed text is ended first."""
        drawn = list(lines)
        if not drawn:
            return
        with self._lock:
            self.end_text()
            for line in drawn:
                self._console.print(line)
            self._out.flush()

    def say(self, words: str, style: str = "") -> None:
        """Print a message, wrapped to the screen; in a pipe on one line."""
        screen = self.screen
        lines = [screen.plain(words)] if self.kind == "pipe" else screen.wrapped(words)
        self.show(Text(line, style) for line in lines)

    def blank(self) -> None:
        """Print an empty line, but not in a pipe."""
        if self.kind != "pipe":
            self.show([Text()])

    def stream(self, piece: str) -> None:
        """Print a piece of streamed text."""
        with self._lock:
            self.stop_waiting()
            self._out.write(self._text.feed(piece))
            self._out.flush()

    def end_text(self) -> None:
        """End the streamed text, so that the next output starts on a new line."""
        with self._lock:
            self.stop_waiting()
            self._out.write(self._text.finish())
            self._out.flush()
            self._text = StreamWrapper(self._width() if self.kind == "live" else 0)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def show_waiting(self, told: Callable[[float], str]) -> None:
        """Show a waiting line until the next output; `told` makes its text from the seconds so far."""
        if self.kind != "live":
            return
        with self._lock:
            if self._text.column == 0:
                self._waits_for, self._since = told, time.monotonic()
        if self._painter is None:
            self._painter = threading.Thread(target=self._paint, name="waiting line", daemon=True)
            self._painter.start()

    def stop_waiting(self) -> None:
        """Erase the waiting line."""
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
    def working(self) -> Generator[None]:
        """Turn off the echo, so that typed keys appear at the next prompt and not inside the output."""
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
            # The terminal is gone; nothing to do.
            pass

    # ── input ────────────────────────────────────────────────────────────────────────────────────

    def start_editor(self, history: str) -> None:
        """Edit lines with a history in this file, if the terminal and the installation can."""
        if self.kind != "live":
            return
        with suppress(ModuleNotFoundError):
            from everturn.chat.screen.line_editor import LineEditor

            self._editor = LineEditor(history)

    @property
    def has_status_at_prompt(self) -> bool:
        return self._editor is not None

    def offer_command(self, command: str, listed: Callable[[], Iterable[Text]]) -> None:
        """When Esc is pressed twice at an empty prompt, show these lines and begin the command."""
        if self._editor is not None:
            self._editor.bind_double_escape(command, lambda: self.show(listed()))

    def read(self, status: Callable[[], Text] = Text) -> str:
        """Read one input; a line that ends with a backslash continues. `status` is drawn below it, again and
        again, where that is possible. Raises EOFError at the end."""
        lines = [self._typed_line("first", status)]
        while is_continued(lines[-1]):
            lines.append(self._typed_line("more", status))
        return join_lines(lines)

    def _typed_line(self, which: Literal["first", "more"], status: Callable[[], Text]) -> str:
        if self._editor is None:
            return self._line(self._prompt(which))
        self.stop_waiting()
        return self._editor.read(self._prompt(which), lambda: self._colored(status()))

    def _colored(self, line: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="")
        return captured.get()

    def ask(self, question: str) -> str:
        """Ask a question and return the answer; "" in a pipe. What was typed before the question is no
        answer to it, nor meant for what comes after: it is shown, and not used."""
        if self.kind == "pipe":
            return ""
        self.end_text()
        if early := self._take_typed().strip():
            self.say(f"Typed before this question, and not used: {early}", QUIET)
        return self._line(question)

    def _take_typed(self) -> str:
        """What was typed and not yet read, also a line without its end."""
        kept = self._editor.take_typed() if self._editor is not None else ""
        try:
            descriptor = self._in.fileno()
            mode = termios.tcgetattr(descriptor)
        except (termios.error, OSError, ValueError):
            return kept
        # Otherwise a read would wait, and would not see a line that has no end yet.
        signs = [*mode[6]]
        signs[termios.VMIN] = signs[termios.VTIME] = 0
        raw = [*mode[:3], mode[3] & ~termios.ICANON, *mode[4:6], signs]
        try:
            termios.tcsetattr(descriptor, termios.TCSANOW, raw)
            return kept + os.read(descriptor, _MAX_TYPED).decode(errors="replace")
        except (termios.error, OSError):
            return kept
        finally:
            with suppress(termios.error, OSError):
                termios.tcsetattr(descriptor, termios.TCSANOW, mode)

    def _line(self, prompt: str) -> str:
        if self.kind != "pipe":
            self.stop_waiting()
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

    def _prompt(self, which: Literal["first", "more"]) -> str:
        first, more = ("> ", ". ") if self.is_ascii else ("› ", "· ")
        sign = first if which == "first" else more
        if self.kind == "plain" or self._console.no_color:
            return sign
        return f"\x1b[1;36m{sign}\x1b[0m"


def detect_terminal_kind(stdin: TextIO, stdout: TextIO, term: str) -> TerminalKind:
    if not (stdin.isatty() and stdout.isatty()):
        return "pipe"
    return "plain" if term in ("", "dumb", "unknown") else "live"


def _has_shapes(out: TextIO) -> bool:
    """Whether the terminal can show our symbols. Python uses UTF-8 even in the C locale, so the locale is
    checked too, unless the user set an encoding for Python."""
    chosen = os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8")
    names = [out.encoding or "ascii", *([] if chosen else [locale.getencoding()])]
    try:
        for name in names:
            _SHAPES.encode(name)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _replace_bad_bytes(stdin: TextIO, stdout: TextIO, *, ascii_only: bool) -> None:
    """Replace invalid bytes: a wrong byte in a pipe must not end the conversation."""
    for stream in (stdin, stdout):
        if (change := getattr(stream, "reconfigure", None)) is not None:
            change(errors="replace")
    if ascii_only and (change := getattr(stdout, "reconfigure", None)) is not None:
        change(encoding="ascii", errors="replace")
