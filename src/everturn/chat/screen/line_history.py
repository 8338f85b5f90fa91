"""Line editing with readline, if Python has it: input history, multi-line paste, and Esc pressed twice."""

import locale
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from everturn.safe_files import open_stream, touch_file

try:
    import readline
except ImportError:  # pragma: no cover - without readline, plain lines are read
    readline = None

# How many lines of history are kept. Our choice.
MAX_HISTORY_LINES: Final = 1_000


def load_history(file: str) -> None:
    """Load the saved history. An unreadable file counts as empty."""
    if readline is None:
        return
    # Answers to permission questions must not enter the history.
    readline.set_auto_history(False)
    readline.parse_and_bind("set enable-bracketed-paste on")
    readline.clear_history()
    with suppress(OSError):
        # Only checks that it is a regular file: reading a pipe would wait for ever.
        open_stream(file).close()
        readline.read_history_file(file)


def append_history(line: str, file: str) -> None:
    """Add a line and save it. Input may contain secrets, so only the owner can read the file."""
    if readline is None or not line.strip():
        return
    newest = readline.get_current_history_length()
    if newest and readline.get_history_item(newest) == line:
        return
    readline.add_history(line)
    readline.set_history_length(MAX_HISTORY_LINES)
    with suppress(OSError):
        touch_file(file)
        readline.write_history_file(file)


def bind_double_escape(pressed: Callable[[], str]) -> None:
    """Call `pressed` when Esc is pressed twice on an empty line, and put the text it returns on the line.

    Readline calls us for completions only, so the two keys ask for one. They must be bound as a meta key: the
    inputrc of many systems has longer sequences that begin with them, and then a quoted binding waits for a
    third key. Only GNU readline with the keys of Emacs: in vi mode Esc has a meaning already.
    """
    if readline is None or "libedit" in (readline.__doc__ or ""):  # pragma: no cover - depends on the build
        return
    editor = readline

    def complete(text: str, state: int) -> str | None:
        return pressed() or None if state == 0 and not editor.get_line_buffer() else None

    editor.set_completer(complete)
    # Readline itself turns this off in every locale but C, where bytes above 127 are letters.
    is_plain = locale.setlocale(locale.LC_CTYPE) in ("C", "POSIX")
    after = "set convert-meta on" if is_plain else "set convert-meta off"
    for line in ("$if mode=emacs", "set convert-meta on", "Meta-Escape: complete", after, "$endif"):
        editor.parse_and_bind(line)
