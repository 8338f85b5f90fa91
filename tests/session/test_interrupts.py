"""A call that is ended halfway, by Ctrl-C or an error: the session goes on with what its file holds."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from reliability.scenes import LARGE, Desk

from everturn import AsyncSession, Session
from everturn.errors import StoreError
from everturn.history.blocks import text_of
from everturn.measure.tokens import LocalTokenizer
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.session.store.lock import TranscriptLock
from everturn.session.store.record_lines import RecordLines
from everturn.twin.upstream import make_twin_send


class Strike:
    """A tokenizer of the program that raises these errors at its next calls, or at those with a text."""

    def __init__(self, at: str = "") -> None:
        self.coming: list[BaseException] = []
        self._at = at
        self.estimator = LocalTokenizer(self._count)

    def _count(self, text: str) -> list[int]:
        if self.coming and self._at in text:
            raise self.coming.pop()
        return [0] * max(1, len(text) // 4)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def words(session: Session) -> list[str]:
    """What was said, message by message."""
    records = session.conversation.log.view.records
    return [text_of(block) for record in records for block in record.blocks]


def reopened(desk: Desk) -> list[str]:
    with desk.open() as session:
        return words(session)


def says(desk: Desk, session: Session, text: str, answer: str) -> None:
    desk.box.script(answer)
    assert session.send(text).text == answer


def newest_question(session: Session) -> str:
    return [each.uuid for each in session.conversation.log.records if each.kind == "user"][-1]


@pytest.mark.parametrize("does", ["rewinds", "goes on after an interrupt"])
def test_a_session_that_reads_its_file_again_keeps_its_remarks(desk, does):
    with desk.open() as session:
        says(desk, session, "One.", "First.")
        says(desk, session, "Two.", "Second.")
        in_the_way = Path(f"{session.path}.state.json.new")
        in_the_way.mkdir()
        before = session.remarks.copy()
        says(desk, session, "Three.", "Third.")
        why = f"{session.path}.state.json could not be written: Is a directory"
        assert session.remarks == [*before, why]
        in_the_way.rmdir()
        if does == "rewinds":
            for left in (2, 4):
                session.rewind(newest_question(session))
                branches = f"messages on abandoned branches (rewind, resume, fork): {left}"
                assert session.remarks == [branches, *before, why]
        else:
            session._current._is_torn = True
            says(desk, session, "Four.", "Fourth.")
            assert session.remarks == [*before, why]


def test_an_interrupt_when_the_lock_is_about_to_be_released_leaves_a_session_that_goes_on(desk, monkeypatch):
    with desk.open() as session:
        says(desk, session, "One.", "First.")
        says(desk, session, "Two.", "Second.")
        interrupts, release = [KeyboardInterrupt()], TranscriptLock.release

        def interrupted(lock):
            if interrupts:
                raise interrupts.pop()
            release(lock)

        monkeypatch.setattr(TranscriptLock, "release", interrupted)
        # What is raised is kept, with all that its traceback holds.
        with pytest.raises(KeyboardInterrupt) as kept:
            session.rewind(newest_question(session))
        says(desk, session, "Three.", "Third.")
        assert (words(session), session.damage) == (["One.", "First.", "Three.", "Third."], ())
    assert kept.value.__traceback__ is not None
    assert reopened(desk) == ["One.", "First.", "Three.", "Third."]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_append_that_is_ended_behind_its_write_is_not_taken_for_damage(desk, monkeypatch, error):
    with desk.open() as session:
        says(desk, session, "One.", "First.")
        with monkeypatch.context() as patch:
            patch.setattr(RecordLines, "commit", lambda *_: (_ for _ in ()).throw(error()))
            with pytest.raises(error):
                session.send("Two.")
        says(desk, session, "Three.", "Third.")
        assert (words(session), session.damage) == (["One.", "First.", "Two.", "Three.", "Third."], ())
    with desk.open() as session:
        assert (words(session), session.damage) == (["One.", "First.", "Two.", "Three.", "Third."], ())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("times", [1, 2])
def test_a_rewind_that_is_ended_while_it_reads_the_file_leaves_a_session_that_goes_on(desk, error, times):
    strike = Strike()
    with desk.open(estimator=strike.estimator) as session:
        says(desk, session, "First.", "One.")
        says(desk, session, "Second.", "Two.")
        uuid = newest_question(session)
        strike.coming = [error() for _ in range(times)]
        with pytest.raises(error):
            session.rewind(uuid)
        for _ in range(times - 1):
            with pytest.raises(error):
                session.send("Not heard.")
        says(desk, session, "Third.", "Three.")
        assert words(session) == ["First.", "One.", "Third.", "Three."]
    assert reopened(desk) == ["First.", "One.", "Third.", "Three."]


def test_a_second_interrupt_after_the_first_one_leaves_a_session_that_goes_on(desk):
    strike = Strike()
    with desk.open(estimator=strike.estimator) as session:
        says(desk, session, "First.", "One.")
        strike.coming = [KeyboardInterrupt(), KeyboardInterrupt()]
        for call in (lambda: session.send("Second."), session.context):
            with pytest.raises(KeyboardInterrupt):
                call()
        says(desk, session, "Third.", "Three.")
        live = words(session)
    assert (live[:2], live[-2:]) == (["First.", "One."], ["Third.", "Three."])
    assert reopened(desk) == live


@pytest.mark.parametrize("store", ["file", "sqlite"])
def test_a_session_that_was_interrupted_while_it_read_its_file_can_be_closed_and_opened(desk, store):
    strike = Strike()
    in_database = {"path": Path("work"), "store": {"url": f"sqlite:{desk.folder}/all.sqlite"}}
    how: dict[str, Any] = in_database if store == "sqlite" else {}
    session = desk.open(estimator=strike.estimator, **how)
    says(desk, session, "First.", "One.")
    says(desk, session, "Second.", "Two.")
    strike.coming = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        session.rewind(newest_question(session))
    session.close()
    session.close()
    with pytest.raises(StoreError, match="it was closed"):
        session.send("Nobody is there.")
    with desk.open(**how) as again:
        says(desk, again, "Third.", "Three.")
        assert words(again) == ["First.", "One.", "Third.", "Three."]


@pytest.mark.parametrize("error", [MemoryError, RuntimeError, KeyboardInterrupt])
def test_a_result_that_was_kept_and_could_not_be_counted_is_what_the_model_gets(desk, error):
    strike = Strike(at=LARGE)
    with desk.open(estimator=strike.estimator) as session:
        strike.coming = [error()]
        desk.box.script({"content": [{"type": "tool_use", "name": "Read", "input": {}}]})
        with pytest.raises(error):
            session.send("Read it.")
        says(desk, session, "Go on.", "Seen.")
        assert words(session) == ["Read it.", "", LARGE, "Go on.", "Seen."]
        live = words(session)
    assert reopened(desk) == live


def test_an_open_that_is_cancelled_closes_the_session_that_nobody_gets(desk):
    heard: list[str] = []
    began, may_go_on = threading.Event(), threading.Event()

    def hear(payload: Mapping[str, Any]) -> None:
        heard.append(payload["hook_event_name"])
        began.set()
        assert may_go_on.wait(10)

    hooks = Hooks((CallbackHook("SessionStart", hear), CallbackHook("SessionEnd", hear)))

    async def program() -> str:
        how: dict[str, Any] = {
            "model": "claude-haiku-4-5",
            "config": None,
            "send": make_twin_send(desk.box.twin),
        }
        opening = asyncio.create_task(AsyncSession.open(desk.path, hooks=hooks, **how))
        assert await asyncio.to_thread(began.wait, 10)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        may_go_on.set()
        while desk.path.with_name("session.jsonl.lock").exists():
            await asyncio.sleep(0.01)
        desk.box.script("One.")
        async with await AsyncSession.open(desk.path, **how) as session:
            return (await session.send("First.")).text

    assert asyncio.run(asyncio.wait_for(program(), 20)) == "One."
    assert heard == ["SessionStart", "SessionEnd"]
