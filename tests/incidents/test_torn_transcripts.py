"""Transcripts that were cut, mixed, overwritten or linked wrongly, and what of them was lost."""

import json
import os

import pytest
from incidents.scene import SUMMARY, Scene, file_of, goes_on, said, words_in_view, worked
from small_session import SmallSession, text

from everturn.decide.compact.values import Compaction
from everturn.errors import EverturnError, InputError
from everturn.session.store import JsonlStore


def test_the_last_line_was_torn_and_the_file_refused_to_open(scene: Scene):
    """A crash cut the last record in two, and the session could not be opened (cc#52387,
    copilot-cli#4098)."""
    whole = said(worked("c1"), "More?").to_bytes()
    view = goes_on(scene.left(whole[:-40]))
    assert "what c1 holds" in view
    assert scene.path.read_bytes().startswith(whole[:-40] + b"\n")


def test_the_next_append_fused_with_a_torn_record(scene: Scene):
    """The disk was full for a moment; 41 hours later a new record was written onto the torn one, and both
    were lost (oh-my-pi#8596)."""
    scene.left(worked("c1").to_bytes() + b'{"type":"user","uuid":"torn","message":{"role":"us')
    goes_on(scene, "Do you read me?")
    lines = scene.path.read_bytes().splitlines()
    assert [json.loads(line)["type"] for line in lines[-2:]] == ["user", "assistant"]
    with scene.open() as session:
        assert "Do you read me?" in words_in_view(session)


def test_a_hole_of_zeros_silently_ended_the_history(scene: Scene):
    """A power cut left a block of NUL bytes in the file, and everything behind it was gone without a word
    (cc#49876)."""
    lines = said(worked("c1"), "Before the hole.", "Behind the hole.").lines
    scene.left(file_of(*lines[:-2], b"\0" * 700, *lines[-2:]))
    view = goes_on(scene)
    assert "Behind the hole." in view
    with scene.open() as session:
        assert any("NUL" in remark for remark in session.remarks)


def test_a_parent_was_missing_and_hours_of_work_were_invisible(scene: Scene):
    """A compaction wrote a link to a record that was not there; the recent hours could not be seen
    (cc#46603, cc#92849)."""
    session = said(worked("c1"), "An early word.", "A late word.")
    session.lines[-2]["parentUuid"] = "never-written"
    view = goes_on(scene.left(session))
    assert "An early word." in view
    assert "A late word." in view


def test_links_that_ran_in_a_circle_hung_the_reader(scene: Scene):
    """Two records named each other as their parents (cc#40027)."""
    session = said(worked("c1"), "One.", "Two.")
    session.lines[0]["parentUuid"] = session.lines[-1]["uuid"]
    assert "Two." in goes_on(scene.left(session))


def test_reopening_overwrote_57_turns(scene: Scene):
    """Opening a session and leaving it wrote an older state over the file (cc#58361, gemini-cli#27368,
    gemini-cli#29198)."""
    session = SmallSession(model="claude-haiku-4-5")
    for turn in range(57):
        session.human(f"Turn {turn}.").reply(f"m{turn}", text(f"Done {turn}. " * 20), plain=100)
    before = scene.left(session).path.read_bytes()
    for access in ("read", "write", "write"):
        with scene.open(access=access):
            pass
        assert scene.path.read_bytes() == before
    with scene.open() as opened:
        scene.twin.script(SUMMARY)
        assert isinstance(opened.compact(), Compaction)
    assert scene.path.read_bytes().startswith(before)


def test_sessions_older_than_thirty_days_were_deleted(scene: Scene):
    """A sweep deleted 950 files because their time was old or in the future (cc#84279, cc#85466,
    cc#90667)."""
    neighbours = [scene.folder / f"{name}.jsonl" for name in ("old", "future")]
    for path, when in zip(neighbours, (0, 4_102_444_800), strict=True):
        path.write_bytes(worked("c1").to_bytes())
        os.utime(path, (when, when))
    goes_on(scene.left(worked("c1")))
    os.utime(scene.path, (0, 0))
    goes_on(scene)
    assert [path.read_bytes() for path in neighbours] == [worked("c1").to_bytes()] * 2


def test_an_ignored_write_error_made_the_client_believe_it_was_kept(scene: Scene, monkeypatch):
    """The disk refused a write, nobody looked, and the turn was gone after the restart (codex#35385)."""
    from everturn.session.store.file_system import LocalFileSystem

    with scene.open() as session:
        scene.talk(session, 1)

        def full(self: LocalFileSystem, fd: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(LocalFileSystem, "write", full)
        with pytest.raises(EverturnError, match=r"No space left on device. Free some disk space"):
            session.send("Is this kept?")
        monkeypatch.undo()
        with pytest.raises(EverturnError, match="open it again"):
            session.send("And this?")
    assert b"Is this kept?" not in scene.path.read_bytes()
    goes_on(scene)


def test_the_index_was_damaged_and_the_sessions_seemed_gone(scene: Scene):
    """The database beside the transcripts was corrupt, and a new empty one took its place (opencode#37821,
    hermes-agent#72046)."""
    with scene.open() as session:
        scene.talk(session, 2)
        assert session.recall("Question 1")
    index = scene.folder / "session.jsonl.index.sqlite"
    data = bytearray(index.read_bytes())
    data[100:9_000] = os.urandom(8_900)
    index.write_bytes(bytes(data))
    with scene.open() as session:
        assert session.recall("Question 1")


def test_the_index_was_out_of_step_with_the_transcript(scene: Scene):
    """What was said after the index had been built was in the file and not in the index (cc#59736,
    codex#38792)."""
    with scene.open() as session:
        scene.talk(session, 1)
        assert session.recall("Question 0")
        scene.twin.script("The port is 8472.")
        session.send("Which port does the staging proxy use?")
        assert [hit.source for hit in session.recall("staging proxy")] == ["user"]


def test_two_records_stood_on_one_line(scene: Scene):
    """Two writes met without a line break between them, and both records were lost (copilot-cli#2649)."""
    lines = [json.dumps(line).encode() for line in said(worked("c1"), "More?").lines]
    view = goes_on(
        scene.left(b"\n".join(lines[:2]) + b"\n" + b"".join(lines[2:4]) + b"\n" + lines[4] + b"\n")
    )
    assert "what c1 holds" in view
    assert "More?" in view


def test_a_session_of_a_newer_version_was_rewritten_by_an_older_one(scene: Scene):
    """An older program opened a newer session and wrote it back without what it did not know (goose#3200,
    omnigent PR#6364)."""
    lines = worked("c1").lines
    mark = b'"everturnStore":{"format":99}'
    newer = json.dumps({**lines[-1], "uuid": "n1"}).encode()[:-1] + b"," + mark + b"}\n"
    before = scene.left(file_of(*lines, newer)).path.read_bytes()
    with scene.open(access="read") as session:
        assert "what c1 holds" in words_in_view(session)
    with JsonlStore.open(scene.path) as store:
        assert "a newer everturn wrote it" in store.read_only_reason
    assert scene.path.read_bytes() == before


def test_resuming_a_name_that_is_not_there_began_a_new_session(scene: Scene):
    """A mistyped id opened an empty session under the old name (gemini-cli#18593, gemini-cli#19947)."""
    scene.left(worked("c1"))
    wrong = scene.folder / "sesion.jsonl"
    from everturn.session.recorded import open_session

    with pytest.raises(InputError, match=r"session\.jsonl"):
        open_session(wrong)
    assert not wrong.exists()
