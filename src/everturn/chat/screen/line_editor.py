"""Line editing at the prompt with prompt_toolkit: history, pasted lines, Esc twice, and a status line below.

The status line is drawn again every second, so that what it counts down is true while nobody types.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

from everturn.safe_files import open_stream, touch_file

_REFRESH_SECONDS: Final = 1.0
# By itself the toolbar is drawn in reverse video.
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse"})


class LineEditor:
    """Reads lines in a terminal that can move its cursor. `history` is the file of earlier lines."""

    def __init__(self, history: str) -> None:
        self._keys = KeyBindings()
        self._session: PromptSession[str] = PromptSession(
            history=OwnerHistory(history), key_bindings=self._keys, style=_STYLE, enable_suspend=True
        )

    def read(self, prompt: str, status: Callable[[], str] | None = None) -> str:
        """One line, or several if they were pasted. Prompt and status may hold color codes."""
        toolbar = (lambda: ANSI(status())) if status else None
        return self._session.prompt(ANSI(prompt), bottom_toolbar=toolbar, refresh_interval=_REFRESH_SECONDS)

    def take_typed(self) -> str:
        """Keys that came after the end of the line that was read; the next line does not get them."""
        return "".join(each.data for each in get_typeahead(self._session.input)).replace("\r", "\n")

    def bind_double_escape(self, command: str, show: Callable[[], None]) -> None:
        """When Esc is pressed twice on an empty line: show something above it, and begin the command."""

        def pressed(event: KeyPressEvent) -> None:
            def begin() -> None:
                show()
                event.current_buffer.insert_text(f"{command} ")

            run_in_terminal(begin)

        is_empty = Condition(lambda: not self._session.default_buffer.text)
        self._keys.add("escape", "escape", filter=is_empty)(pressed)


class OwnerHistory(FileHistory):
    """Input may contain secrets, so only the owner can read the file. One that cannot be read or written
    counts as empty."""

    def __init__(self, file: str) -> None:
        self._file = file
        super().__init__(file)

    def load_history_strings(self) -> list[str]:
        try:
            # Only checks that it is a regular file: reading a pipe would wait for ever.
            open_stream(self._file).close()
            return list(super().load_history_strings())
        except OSError:
            return []

    def append_string(self, string: str) -> None:
        if string.strip() and string != next(iter(reversed(self.get_strings())), None):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            touch_file(self._file)
            super().store_string(string)
