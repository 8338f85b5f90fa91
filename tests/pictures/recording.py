"""A recording of `everturn chat` with the twin, as an animated SVG: `make pictures`.

    PYTHONPATH=tests python -m pictures.recording FILE.svg

A compaction happens in the middle of a task, which then goes on. tmux is the terminal, so it shows what a
person would see.
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from chat.tmux import Tmux

from pictures.animation import Frame, draw_animation

COLUMNS, ROWS = 84, 30
NAMES = (
    "app", "auth", "cache", "clock", "form", "index", "mail", "menu",
    "money", "page", "query", "route", "search", "store", "token", "view",
)  # fmt: skip
# Seconds between two looks at the screen.
_EVERY = 0.08
# Nobody sees a screen that is shown shorter, and a longer wait shows nothing new.
_SHORTEST, _LONGEST = 0.15, 1.5
_LAST = 4.0


class Camera:
    """Looks at the screen again and again, in a thread of its own, and keeps what has changed."""

    def __init__(self, terminal: Tmux) -> None:
        self._terminal = terminal
        self._seen: list[tuple[float, tuple[str, ...]]] = []
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._stops.wait(_EVERY):
            lines = tuple(self._terminal.screen)
            if not self._seen or lines != self._seen[-1][1]:
                self._seen.append((time.monotonic(), lines))

    def stop(self) -> list[Frame]:
        self._stops.set()
        self._thread.join()
        ends = [at for at, _ in self._seen[1:]]
        waits = [
            max(_SHORTEST, min(_LONGEST, end - at)) for (at, _), end in zip(self._seen, ends, strict=False)
        ]
        return [Frame(lines, wait) for (_, lines), wait in zip(self._seen, [*waits, _LAST], strict=True)]


def type_slowly(terminal: Tmux, words: str) -> None:
    for letter in words:
        terminal.write(letter)
        time.sleep(0.06)
    time.sleep(0.4)
    terminal.press("Enter")


def record(folder: Path) -> list[Frame]:
    project = folder / "harbour"
    (project / "src").mkdir(parents=True)
    for name in NAMES:
        body = (f"def {name}_{number}(value):\n    return take(value, {number})\n" for number in range(60))
        (project / "src" / f"{name}.py").write_text("\n".join(body))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TERM": "screen-256color",
    }
    command = [sys.executable, "-m", "everturn", "chat", "--twin", "--window", "32000"]
    terminal = Tmux(command, environment, project, columns=COLUMNS, rows=ROWS)
    try:
        terminal.wait_for_prompt(1)
        camera = Camera(terminal)
        time.sleep(1)
        type_slowly(terminal, "Read all files")
        terminal.wait_for_prompt(2)
        time.sleep(2.5)
        type_slowly(terminal, "/cost")
        terminal.wait_for_prompt(3)
        time.sleep(2)
        type_slowly(terminal, "/quit")
        terminal.wait_for("To go on with this conversation")
        time.sleep(0.3)
        frames = camera.stop()
    finally:
        terminal.close()
    # What the shell says at the end is not of the chat.
    return [
        Frame(tuple(line for line in each.lines if "ended: " not in line), each.seconds) for each in frames
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        frames = record(Path(folder))
    drawn = draw_animation(frames, columns=COLUMNS, rows=ROWS, title="everturn chat")
    Path(sys.argv[1]).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
