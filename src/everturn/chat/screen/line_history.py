"""Line editing with readline, if Python has it: input history and multi-line paste."""

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
