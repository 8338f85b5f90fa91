"""Commands that were left to run in the background: which still run, and how the others ended.

As Claude Code reports them. A command is over when a poll of its output or a notice says so, or when it was
stopped; what a program prints into a file that is read later is not followed.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

from everturn.decide.extractive.reading.commands import runs_in_background
from everturn.decide.extractive.reading.facts import ToolAction
from everturn.history.blocks import Block, text_of

_STARTED: Final = re.compile(r"background with ID: ([\w-]{1,80})")
_STATUS: Final = re.compile(r"<status>(\w{1,20})</status>")
_TASK: Final = re.compile(r"<task-id>([\w-]{1,80})</task-id>")
_LOOKED_AT: Final = 1_000
BackgroundEnd = Literal["completed", "failed", "killed"]
_ENDS: Final[Mapping[str, BackgroundEnd]] = {
    "completed": "completed",
    "failed": "failed",
    "killed": "killed",
    "stopped": "killed",
}


class BackgroundCommands:
    """By the id that the harness gave them."""

    def __init__(self) -> None:
        self.running: dict[str, ToolAction] = {}

    def started(self, deed: ToolAction, result: Block) -> None:
        if runs_in_background(result) and (found := _STARTED.search(text_of(result)[:_LOOKED_AT])):
            self.running[found[1]] = deed

    def polled(self, name: str, result: Block) -> tuple[ToolAction, BackgroundEnd] | None:
        """The command of this id, if this text says that it is over."""
        if name not in self.running:
            return None
        status = _STATUS.search(text_of(result)[:_LOOKED_AT])
        if status is None or status[1] not in _ENDS:
            return None
        return self.running.pop(name), _ENDS[status[1]]

    def notified(self, notice: Block) -> tuple[ToolAction, BackgroundEnd] | None:
        found = _TASK.search(text_of(notice)[:_LOOKED_AT])
        return self.polled(found[1], notice) if found else None

    def stopped(self, name: str) -> None:
        """Somebody stopped it, or tried to: if that failed, it was over."""
        self.running.pop(name, None)
