"""A real terminal: a program in tmux, keys that are typed into it, and what stands on its screen."""

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

TMUX: Final = shutil.which("tmux")
# A program that has not said it by then will not.
DEADLINE: Final = 20.0
# A pane that a test forgot goes away by itself.
LONGEST: Final = 300
_NUMBERS = itertools.count()


class Tmux:
    """One pane. `command` gets exactly this environment; when it is over, the pane says `ended: CODE`."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        *,
        columns: int = 80,
        rows: int = 40,
    ) -> None:
        self._socket = f"everturn-{os.getpid()}-{next(_NUMBERS)}"
        settings = cwd.parent / f"{self._socket}.conf"
        settings.write_text("set -g history-limit 5000\nset -s escape-time 0\n")
        given = [f"{name}={value}" for name, value in {"TERM": "screen", **environment}.items()]
        # A shell waits for it: tmux itself may overlook the end of a process while the machine is busy.
        line = f"{shlex.join(['env', '-i', *given, *command])}; echo ended: $?; exec sleep {LONGEST}"
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux("-f", str(settings), "new-session", "-d", *size, "-c", str(cwd), line)

    def _tmux(self, *words: str) -> str:
        assert TMUX is not None
        # tmux replaces what the locale cannot show, unless it is told that all can be shown.
        done = subprocess.run([TMUX, "-u", "-L", self._socket, *words], capture_output=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    @property
    def text(self) -> str:
        """All that was shown so far, the oldest line first."""
        return self._tmux("capture-pane", "-p", "-S", "-5000").rstrip()

    @property
    def screen(self) -> list[str]:
        """The lines that are on the screen now, with their color codes."""
        return self._tmux("capture-pane", "-p", "-e").splitlines()

    @property
    def whole_lines(self) -> list[str]:
        """As the program wrote them: a line that did not fit is one line here."""
        shown = self._tmux("capture-pane", "-p", "-J", "-S", "-5000").splitlines()
        return [line.rstrip() for line in shown]

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def type(self, words: str) -> None:
        self.write(words)
        self.press("Enter")

    def write(self, words: str) -> None:
        self._tmux("send-keys", "-l", words)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def paste(self, words: str) -> None:
        """As a mouse would: between the marks of a paste, where the program asked for them."""
        self._tmux("set-buffer", words)
        self._tmux("paste-buffer", "-p")

    def wait_for(self, words: str, times: int = 1) -> str:
        """Until this stands on the screen so many times; the whole text."""
        until = time.monotonic() + DEADLINE
        while (text := self.text).count(words) < times:
            if time.monotonic() > until or ("\nended: " in text and not words.startswith("ended: ")):
                pytest.fail(f"{words!r} did not appear {times} times. On the screen:\n{text}")
            time.sleep(0.04)
        return text

    def wait_for_prompt(self, number: int) -> str:
        """Until an empty prompt stands at the end and so many are on the screen; the whole text."""
        until = time.monotonic() + DEADLINE
        while True:
            text = self.text
            prompts = [line for line in text.splitlines() if line.startswith("›")]
            if len(prompts) >= number and prompts[-1].strip() == "›":
                return text
            if time.monotonic() > until:
                pytest.fail(f"Prompt {number} did not appear. On the screen:\n{text}")
            time.sleep(0.04)

    def kill(self) -> None:
        """As kill -9 does."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        (child,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        self.wait_for("ended: 137")

    def close(self) -> None:
        self._tmux("kill-server")
