"""Lines that were typed come back, for their owner alone."""

import asyncio
import os
from pathlib import Path

from everturn.chat.screen.line_editor import OwnerHistory


def loaded(file: Path) -> list[str]:
    async def load() -> list[str]:
        return [line async for line in OwnerHistory(str(file)).load()]

    return asyncio.run(load())


def test_lines_are_kept_once_and_come_back(tmp_path: Path):
    file = tmp_path / "history"
    history = OwnerHistory(str(file))
    for line in ("Hello", "Hello", " ", "first\nsecond"):
        history.append_string(line)
    assert file.stat().st_mode & 0o777 == 0o600
    # The newest first, as the arrow keys find them.
    assert loaded(file) == ["first\nsecond", "Hello"]


def test_a_history_that_cannot_be_written_or_is_a_pipe_is_for_now_only(tmp_path: Path):
    nowhere = OwnerHistory(str(tmp_path / "missing" / "history"))
    nowhere.append_string("Hello")
    assert nowhere.get_strings() == ["Hello"]
    os.mkfifo(tmp_path / "pipe")
    assert loaded(tmp_path / "pipe") == []
