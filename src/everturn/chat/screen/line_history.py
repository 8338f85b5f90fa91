"""Line editing by the standard library's readline, where Python has it: history, and pastes of many lines."""

import os
from contextlib import suppress
from typing import Final

try:
    import readline
except ImportError:  # pragma: no cover - a Python without readline reads plain lines
    readline = None

# Lines that are kept from earlier conversations. Our choice.
MAX_HISTORY_LINES: Final = 1_000


def load_history(file: str) -> None:
    """Lines of earlier days come back. A history that cannot be read is none."""
    if readline is None:
        return
    # Answers to questions are typed in the same way and are no history.
    readline.set_auto_history(False)
    readline.parse_and_bind("set enable-bracketed-paste on")
    readline.clear_history()
    with suppress(OSError):
        readline.read_history_file(file)


def append_history(line: str, file: str) -> None:
    """One more line, for now and for the next time. What is typed may be secret: the file is its owner's."""
    if readline is None or not line.strip():
        return
    newest = readline.get_current_history_length()
    if newest and readline.get_history_item(newest) == line:
        return
    readline.add_history(line)
    readline.set_history_length(MAX_HISTORY_LINES)
    with suppress(OSError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
        readline.write_history_file(file)
