"""Duplicate and missing ids: of calls, of messages, of records."""

from incidents.scene import Scene, blocks_of, call, file_of, goes_on, said, text, worked
from small_session import SmallSession

from everturn.decide.events import Repaired
from everturn.errors import UsageError
from everturn.history.blocks import text_block
from everturn.history.records import Record
from everturn.session.store import JsonlStore


def test_two_calls_in_one_history_had_the_same_id(scene: Scene):
    """A resumed session used a call id again, and the API refused the whole history (cc#28515, cc#29779,
    opencode#1150)."""
    session = worked("c1").human("Again.")
    session.reply("m2", call("c1", "Read", file_path="/src/other.py"), plain=100).result(
        "c1", "the other file"
    )
    view = goes_on(scene.left(session))
    ids = [each["id"] for each in blocks_of(scene.messages, "tool_use")]
    assert (len(ids), len(set(ids))) == (2, 2)
    assert "what c1 holds" in view
    assert "the other file" in view


def test_parallel_calls_came_with_one_id_for_all(scene: Scene):
    """A gateway gave all parallel calls of a reply one id; results belong to them by position (cc#21317,
    claux#40)."""
    session = SmallSession(model="claude-haiku-4-5").human("Read both.")
    session.reply(
        "m1", call("same", "Read", file_path="a.py"), call("same", "Read", file_path="b.py"), plain=100
    )
    session.result("same", "content of a").result("same", "content of b")
    goes_on(scene.left(session))
    by_call = {each["tool_use_id"]: each["content"] for each in blocks_of(scene.messages, "tool_result")}
    paths = {each["id"]: each["input"]["file_path"] for each in blocks_of(scene.messages, "tool_use")}
    assert {paths[name]: content for name, content in by_call.items()} == {
        "a.py": "content of a",
        "b.py": "content of b",
    }


def test_a_call_had_no_id_at_all(scene: Scene):
    """A model behind a gateway called a tool with an empty id (orca-agent#67)."""
    session = SmallSession(model="claude-haiku-4-5").human("Read.")
    session.reply("m1", call("", "Read", file_path="a.py"), plain=100).result("", "content of a")
    goes_on(scene.left(session))
    (named,) = blocks_of(scene.messages, "tool_use")
    (result,) = blocks_of(scene.messages, "tool_result")
    assert named["id"] == result["tool_use_id"] != ""


def test_a_resumed_session_wrote_its_history_a_second_time(scene: Scene):
    """On resuming, every earlier line was appended again under its old uuid; the history seemed twice as
    long (cc#40487, cc#40027)."""
    session = said(worked("c1"), "And then?")
    goes_on(scene.left(file_of(*session.lines, *session.lines)))
    body = scene.sent[-1]
    assert [body.count(words) for words in (b'"Fix the login test."', b'"And then?"', b"what c1 holds")] == [
        1,
        1,
        1,
    ]


def test_a_retry_after_a_lost_acknowledgement_stored_the_turn_twice(scene: Scene):
    """The turn was on disk when the process died, and the client sent it again (cc#40487)."""
    turn = Record(kind="user", uuid="u1", session="s", blocks=(text_block("Once."),))
    with JsonlStore.open(scene.path, fsync="never") as store:
        store.append([turn])
    with JsonlStore.open(scene.path, fsync="never") as store:
        store.append([turn])
        try:
            store.append([Record(kind="user", uuid="u1", session="s", blocks=(text_block("Other."),))])
            problem = ""
        except UsageError as refused:
            problem = str(refused)
    assert scene.path.read_bytes().count(b"Once.") == 1
    assert "already holds another record with the uuid u1" in problem


def test_pieces_of_one_reply_were_taken_for_replies_of_their_own(scene: Scene):
    """One response was recorded in several lines with one message id, and was sent as several assistant
    messages in a row (cc#45286, claux#40)."""
    session = SmallSession(model="claude-haiku-4-5").human("Read.")
    session.reply("m1", text("I will."), plain=100).reply("m1", call("c1", "Read", file_path="a"), plain=100)
    session.result("c1", "ok").reply("m1", call("c2", "Read", file_path="b"), plain=100).result("c2", "ok")
    goes_on(scene.left(session))
    assert [each["role"] for each in scene.messages] == ["user", "assistant", "user"]
    assert scene.told(Repaired) == []
