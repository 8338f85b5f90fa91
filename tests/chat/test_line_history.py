"""Lines that were typed come back, for their owner alone."""

from pathlib import Path

import pytest

from everturn.chat.screen import line_history as editing


@pytest.mark.skipif(editing.readline is None, reason="this Python has no readline")
def test_lines_are_kept_once_and_come_back(tmp_path: Path):
    file = tmp_path / "history"
    editing.load_history(str(file))
    for line in ("Hello", "Hello", " ", "Good bye"):
        editing.append_history(line, str(file))
    assert file.read_text().splitlines() == ["Hello", "Good bye"]
    assert file.stat().st_mode & 0o777 == 0o600
    editing.load_history(str(file))
    assert editing.readline is not None
    assert [editing.readline.get_history_item(at) for at in (1, 2, 3)] == ["Hello", "Good bye", None]


@pytest.mark.skipif(editing.readline is None, reason="this Python has no readline")
def test_a_history_that_cannot_be_written_is_for_now_only(tmp_path: Path):
    nowhere = str(tmp_path / "missing" / "history")
    editing.load_history(nowhere)
    editing.append_history("Hello", nowhere)
    assert editing.readline is not None
    assert editing.readline.get_history_item(1) == "Hello"
    editing.readline.clear_history()
