"""Two writers, one session; and clocks that jump."""

import multiprocessing
import threading
from datetime import timedelta

import pytest
from incidents.scene import SUMMARY, Scene, goes_on, words_in_view, worked

from everturn.decide.compact.values import Compaction
from everturn.errors import SessionLocked, StoreError
from everturn.history.blocks import text_block
from everturn.history.records import Record
from everturn.session.store import JsonlStore


def _appends(path: str, name: str, begin, done) -> None:
    begin.wait(10)
    kept = 0
    for number in range(20):
        try:
            with JsonlStore.open(path, fsync="never") as store:
                big = text_block(f"{name} {number} " + "x" * 100_000)
                store.append([Record(kind="user", uuid=f"{name}{number}", session="s", blocks=(big,))])
                kept += 1
        except SessionLocked:
            continue
    done.put((name, kept))


def test_two_processes_wrote_one_transcript_and_their_lines_mixed(scene: Scene):
    """Lines of two processes were woven into each other (bounty-challenge#8950, pi#8177)."""
    context = multiprocessing.get_context("fork")
    begin, done = context.Event(), context.Queue()
    workers = [context.Process(target=_appends, args=(str(scene.path), name, begin, done)) for name in "ab"]
    for worker in workers:
        worker.start()
    begin.set()
    kept = dict(done.get(timeout=20) for _ in workers)
    for worker in workers:
        worker.join(20)
    with JsonlStore.open(scene.path, access="read") as store:
        assert store.flaws == ()
        found = [record.uuid[0] for record in store.records]
    assert {name: found.count(name) for name in "ab"} == kept


def test_another_program_appended_while_ours_was_open(scene: Scene):
    """A program that knows no lock wrote to the session between two of our turns (cc#45286,
    langgraph#8796)."""
    with scene.left(worked("c1")).open() as session:
        with scene.path.open("ab") as stranger:
            stranger.write(b'{"type":"user","uuid":"x","message":{"role":"user","content":"Me too."}}\n')
        with pytest.raises(StoreError, match="another program wrote to it"):
            session.send("Mine.")
    assert b"Mine." not in scene.path.read_bytes()
    goes_on(scene)


def test_the_clock_went_back_an_hour(scene: Scene):
    """After a change of the clock newer records sorted before older ones (juju PR#6940)."""
    now = [scene.twin.twin.clock.now()]
    with scene.open(clock=lambda: now[0]) as session:
        scene.twin.script("First.", "Second.")
        session.send("One?")
        now[0] -= timedelta(hours=1)
        session.send("Two?")
        view = words_in_view(session)
    assert view.index("One?") < view.index("First.") < view.index("Two?") < view.index("Second.")
    with scene.open() as session:
        assert words_in_view(session) == view


def test_the_index_was_locked_by_another_process(scene: Scene):
    """`database is locked` ended a turn, 28 times in one log (opencode#47566, opencode#21215,
    opencode#33320)."""
    import sqlite3

    with scene.open() as session:
        scene.talk(session, 2)
    holder = sqlite3.connect(f"{scene.path}.index.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with scene.open() as session:
            assert session.recall("Question 1")
    finally:
        holder.close()


def test_a_file_was_removed_under_an_open_session(scene: Scene):
    """A sweep removed the file of a running session; everything written afterwards went nowhere (cc#61852,
    cc#84279)."""
    with scene.left(worked("c1")).open() as session:
        scene.path.unlink()
        with pytest.raises(StoreError, match="it was removed while it was open"):
            session.send("Is anybody there?")


def test_a_hook_blocked_the_session_for_ever(scene: Scene):
    """A hook at a compaction never came back, and the session froze (cc#2423, cc#42593)."""
    from everturn.session.hooks.run import CallbackHook, Hooks

    release = threading.Event()
    stuck = CallbackHook("PreCompact", lambda _: str(release.wait(30)), seconds=0.05)
    with scene.open(hooks=Hooks((stuck,))) as session:
        scene.talk(session)
        scene.twin.script(SUMMARY)
        assert isinstance(session.compact(), Compaction)
    release.set()
