"""One session, several threads: nothing that is answered may end up where nobody sees it."""

import threading

import pytest
from surfaces.desk import call, tool

from everturn import UsageError


def test_a_second_thread_is_refused_and_nothing_of_its_call_is_kept_or_sent(desk):
    is_running, may_end = threading.Event(), threading.Event()

    def read_slowly(given):
        is_running.set()
        may_end.wait(10)
        return "read"

    with desk.open(tools=[tool("Read", read_slowly)]) as session:
        desk.twin.script({"content": [call("toolu_1", file_path="a.py")]}, "I have read it.")
        thread = threading.Thread(target=lambda: session.send("Read a.py."))
        thread.start()
        assert is_running.wait(10)
        sent = len(desk.bodies)
        for act in (
            lambda: session.send("Meanwhile."),
            lambda: next(session.stream("Meanwhile.")),
            session.compact,
            session.undo,
            lambda: session.rewind("0"),
        ):
            with pytest.raises(UsageError, match="Another thread is using this session"):
                act()
        assert len(desk.bodies) == sent
        may_end.set()
        thread.join(10)
        desk.twin.script("Now it is your turn.")
        assert session.send("And now?").text == "Now it is your turn."
        view = [record.uuid for record in session.conversation.log.view.records]
    with desk.open() as again:
        assert [record.uuid for record in again.conversation.log.view.records] == view
    assert "Meanwhile." not in str(desk.bodies)


def test_a_tool_may_use_the_session_that_called_it(desk):
    with desk.open(tools=[tool("Read", lambda given: type(session.undo()).__name__)]) as session:
        desk.twin.script({"content": [call("toolu_1", file_path="a.py")]}, "Done.")
        assert session.send("Read a.py.").text == "Done."
    assert "CompactionSkipped" in str(desk.bodies[-1])


def test_a_stream_that_is_left_lets_other_threads_speak(desk):
    with desk.open() as session:
        desk.twin.script("One two three.")
        pieces = session.stream("Count.")
        next(pieces)
        pieces.close()
        said = []
        thread = threading.Thread(target=lambda: said.append(session.send("Go on.").text))
        thread.start()
        thread.join(10)
    # The twin keeps a reply that nobody has read to its end for the next request.
    assert said == ["One two three."]
