"""A process that was forked has a copy of an open session: the lock stays with the process that took it."""

import os
from pathlib import Path

import pytest
from reliability.crashes import forked
from reliability.scenes import Desk

from everturn.errors import SessionLocked


def test_a_forked_process_that_closes_its_copy_leaves_the_lock_to_the_one_that_opened_it(tmp_path: Path):
    desk = Desk(tmp_path)

    def close_copy(pipe: int) -> None:
        session.close()
        os.write(pipe, b"closed")
        os._exit(0)

    with desk.open() as session:
        desk.talk(session, 1)
        assert forked(close_copy) == (b"closed", 0)
        with pytest.raises(SessionLocked, match=f"is being written by process {os.getpid()}"):
            desk.open()
        desk.box.script("I am.")
        assert session.send("Are you still there?").text == "I am."
    desk.open().close()
    assert not Path(f"{desk.path}.lock").exists()
