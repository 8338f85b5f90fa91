"""A hook or a tool may pin in a thread of its own, while the session's speaker waits for it or goes on."""

import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from reliability.scenes import SUMMARY, Desk

from everturn import Session
from everturn.history.blocks import text_of
from everturn.session.hooks.run import CallbackHook, Hooks

PIN = "Never push to main."


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


class Beside:
    """Runs something in another thread, the first time that an id is needed after `is_due` was set."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.is_due = False
        self._act = act
        self._ids = count(1)
        self._threads: list[threading.Thread] = []

    def new_id(self) -> str:
        if self.is_due:
            self.is_due = False
            self._threads.append(threading.Thread(target=self._act))
            self._threads[0].start()
            # Long enough for whoever does not wait for the record that gets this id.
            self._threads[0].join(0.3)
        return f"{next(self._ids):08d}"

    def join(self) -> None:
        self._threads[0].join(10)
        assert not self._threads[0].is_alive()


def kept(session: Session) -> tuple[list[str], list[str]]:
    """What is said in the view, and the pins."""
    view = session.conversation.log.view
    said = [text_of(block) for record in view.records for block in record.blocks]
    return said, [pin.text for pin in view.pins]


@pytest.mark.parametrize("before", ["", "Zero."])
def test_a_pin_of_another_thread_while_a_message_gets_its_place_is_there_after_reopening(desk, before):
    beside = Beside(lambda: session.pin(PIN))
    with desk.open(new_id=beside.new_id) as session:
        desk.box.script(*(["Nothing yet."] if before else []), "One.")
        if before:
            session.send(before)
        beside.is_due = True
        session.send("First.")
        beside.join()
        live = kept(session)
    said = [before, "Nothing yet."] if before else []
    assert live == ([*said, "First.", "One."], [PIN])
    with desk.open() as session:
        assert kept(session) == live


def test_a_pin_of_another_thread_during_a_rewind_is_there_after_it(desk):
    beside = Beside(lambda: session.pin(PIN))
    with desk.open(new_id=beside.new_id) as session:
        desk.box.script("One.", "Two.")
        session.send("First.")
        session.send("Second.")
        beside.is_due = True
        session.rewind([each.uuid for each in session.conversation.log.records if each.kind == "user"][-1])
        beside.join()
        live = kept(session)
    assert live == (["First.", "One."], [PIN])
    with desk.open() as session:
        assert kept(session) == live


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreCompact", "PostCompact"])
def test_a_hook_may_pin_while_the_session_waits_for_it(desk, event):
    with desk.open(hooks=Hooks((CallbackHook(event, lambda _: session.pin(PIN), seconds=5),))) as session:
        desk.talk(session, 4)
        desk.box.script(SUMMARY)
        session.compact()
        assert (kept(session)[1][:1], session.remarks[2:]) == ([PIN], [])
