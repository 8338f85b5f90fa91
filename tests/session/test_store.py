import os
import stat
from pathlib import Path

import builders as b
import msgspec
import pytest
from builders import compute_view
from faults.disks import MemoryDisk
from faults.talks import Talk, flat, seen, talk

from everturn.errors import NotASession, SessionLocked, StoreError, UsageError
from everturn.history.blocks import text_block
from everturn.history.edits import Undone
from everturn.history.records import Record
from everturn.session.store import JsonlStore
from everturn.session.store.line_tags import FORMAT, LineTag, read_tag
from everturn.session.transcripts import open_transcript
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import LineContext


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def bare(records) -> list[Record]:
    return [msgspec.structs.replace(record, raw=b"") for record in records]


def kept(path: Path, batches) -> None:
    with JsonlStore.open(path) as store:
        for batch in batches:
            store.append(batch)


@pytest.mark.spec("TR-8", "TR-10")
def test_what_was_appended_is_there_again_when_it_is_opened(path):
    batches = talk(seed=3, length=12)
    kept(path, batches)
    with JsonlStore.open(path) as store:
        assert bare(store.records) == list(flat(batches))
        assert (store.flaws, store.notes, store.read_only_reason) == ((), (), "")


def test_lines_that_were_read_elsewhere_are_kept_byte_for_byte(path):
    line = b'{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"},"from":{"the":"future"} }'
    (record,) = parse_session_file(line).records
    kept(path, [[record]])
    assert path.read_bytes() == line + b"\n"


def test_a_record_spelled_over_several_lines_becomes_one(path):
    record = msgspec.structs.replace(b.user("hi"), raw=b'{"type":"user",\n"uuid":"hi"}')
    kept(path, [[record]])
    assert path.read_bytes() == b'{"type":"user", "uuid":"hi"}\n'


def test_every_line_says_where_the_session_runs(path):
    with JsonlStore.open(path, place=LineContext(cwd="/home/me", version="2.0", git_branch="main")) as store:
        store.append(Talk(1).say())
    assert b'"cwd":"/home/me"' in path.read_bytes()


def test_files_are_their_owner_s_alone(tmp_path):
    path = tmp_path / "new" / "deeper" / "session.jsonl"
    with JsonlStore.open(path) as store:
        store.append(Talk(1).say())
        lock = path.with_name("session.jsonl.lock")
        modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, lock, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o600, 0o700, 0o700]
    assert not lock.exists()


def test_opening_and_leaving_changes_nothing(path):
    path.write_bytes(b'{"type":"user","uuid":"u1"}\n{"torn')
    before = path.read_bytes()
    JsonlStore.open(path).close()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.spec("TR-10")
def test_a_torn_last_line_stays_aside_and_is_reported(path):
    path.write_bytes(b.line({"type": "user", "uuid": "u1", "message": {"content": "hi"}}) + b'\n{"type":"us')
    with JsonlStore.open(path) as store:
        assert store.notes == ("line 2: the last line ends in the middle (11 characters); kept, not read",)
        store.append(Talk(1).say())
    lines = path.read_bytes().split(b"\n")
    assert lines[1] == b'{"type":"us'
    with JsonlStore.open(path) as store:
        assert [record.uuid for record in store.records] == ["u1", "t1"]


def test_a_whole_last_line_without_its_line_break_is_a_record(path):
    path.write_bytes(b.line({"type": "user", "uuid": "u1", "message": {"content": "hi"}}))
    with JsonlStore.open(path) as store:
        store.append(Talk(1).say())
    with JsonlStore.open(path) as store:
        assert [record.uuid for record in store.records] == ["u1", "t1"]
        assert store.notes == ()


def test_a_second_writer_is_told_who_the_first_one_is(path):
    with JsonlStore.open(path):
        with pytest.raises(SessionLocked, match=f"written by process {os.getpid()}"):
            JsonlStore.open(path)
        JsonlStore.open(path, access="read").close()
    JsonlStore.open(path).close()


def test_another_name_for_the_same_file_is_the_same_session(path):
    link = path.with_name("link.jsonl")
    path.touch()
    link.symlink_to(path)
    with JsonlStore.open(link), pytest.raises(SessionLocked):
        JsonlStore.open(path)


def test_a_lock_file_left_by_a_dead_process_does_not_lock(path):
    path.with_name("session.jsonl.lock").write_text("4194304              \n")
    kept(path, [Talk(1).say()])
    assert path.read_bytes()


class LockGoneOnce(MemoryDisk):
    """The holder removes its lock file just after it was opened by somebody else."""

    opened = 0

    def open(self, path: str, flags: int) -> int:
        fd = super().open(path, flags)
        if path.endswith(".lock"):
            self.opened += 1
            if self.opened == 1:
                self.remove(path)
        return fd


def test_a_lock_on_a_file_that_was_just_removed_locks_nothing_and_is_taken_again():
    disk = LockGoneOnce()
    with JsonlStore.open("/folder/s.jsonl", io=disk), pytest.raises(SessionLocked):
        JsonlStore.open("/folder/s.jsonl", io=disk)
    assert disk.opened == 3


def test_lines_of_another_program_are_noticed_before_ours_are_mixed_in(path):
    made = Talk(1)
    with JsonlStore.open(path) as store:
        store.append(made.say())
        with path.open("ab") as other:
            other.write(b'{"type":"user","uuid":"foreign"}\n')
        with pytest.raises(StoreError, match="another program wrote to it"):
            store.append(made.say())
        with pytest.raises(StoreError, match="open it again"):
            store.append(made.say())


def test_a_file_that_was_removed_takes_nothing_more(path):
    with JsonlStore.open(path) as store:
        path.unlink()
        with pytest.raises(StoreError, match="it was removed"):
            store.append(Talk(1).say())


def test_a_retry_is_not_stored_twice(path):
    batch = Talk(1).work()
    kept(path, [batch, batch])
    kept(path, [batch])
    with JsonlStore.open(path) as store:
        assert bare(store.records) == list(batch)


def test_another_record_under_a_known_uuid_is_refused(path):
    first, second = Talk(1).say(), Talk(2).say()
    with JsonlStore.open(path) as store:
        store.append(first)
        with pytest.raises(UsageError, match="another record with the uuid t1"):
            store.append(second)
        store.append(Talk(3, "x").say())


def cut_off_behind_its_summary(path: Path) -> Talk:
    """A compaction with two files brought back, of which only the first reached the disk."""
    made = Talk(8)
    made.say()
    made.work()
    while len(made.compact()) < 4:
        made.batches.pop()
        made = Talk(made.random.randint(0, 1 << 30))
        made.say()
        made.work()
    kept(path, made.batches)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[: len(flat(made.batches)) - 1]) + b"\n")
    return made


def test_without_the_bytes_of_its_lines_a_store_still_knows_every_record(path):
    line = b'{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"},"from":{"the":"future"}}'
    (record,) = parse_session_file(line).records
    kept(path, [[record]])
    with JsonlStore.open(path) as store:
        store.drop_lines()
        assert store.records == (msgspec.structs.replace(record, raw=b""),)
        store.append([record])
        with pytest.raises(UsageError, match="another record with the uuid u1"):
            store.append([msgspec.structs.replace(b.user("other"), uuid="u1")])
    assert path.read_bytes() == line + b"\n"


@pytest.mark.spec("TR-10")
def test_a_compaction_cut_off_behind_its_summary_is_undone(path):
    made = cut_off_behind_its_summary(path)
    boundary = made.batches[2][0].uuid
    before = path.read_bytes()
    with JsonlStore.open(path) as store:
        assert store.notes == (
            f"the compaction {boundary} is incomplete; the conversation before it is used",
        )
        assert seen(store.records) == seen(flat(made.batches[:2]))
        assert path.read_bytes() == before
        store.append(Talk(5, "more").say())
    with JsonlStore.open(path) as store:
        assert [type(record.edit) for record in store.records].count(Undone) == 1
        assert [record.uuid for record in compute_view(store.records).records][-1] == "more1"
        assert store.notes == ()


def test_an_undoing_is_written_once(path):
    cut_off_behind_its_summary(path)
    for name in ("first", "second"):
        kept(path, [Talk(5, name).pin()])
    with JsonlStore.open(path) as store:
        assert [type(record.edit) for record in store.records].count(Undone) == 1
        assert store.notes == ()


def test_a_cut_off_compaction_that_somebody_went_on_from_stays(path):
    cut_off_behind_its_summary(path)
    line = b.line({"type": "user", "uuid": "later", "message": {"content": "go on"}})
    path.write_bytes(path.read_bytes() + line + b"\n")
    with JsonlStore.open(path) as store:
        assert store.notes == ()
        assert compute_view(store.records).boundary is not None


def test_the_same_compaction_cannot_be_completed_later(path):
    made = cut_off_behind_its_summary(path)
    with JsonlStore.open(path) as store, pytest.raises(UsageError, match="holds a part of this compaction"):
        store.append(made.batches[2])


def test_lines_of_a_compaction_are_numbered_and_others_are_not(path):
    made = Talk(8)
    made.say()
    made.work()
    made.compact()
    kept(path, made.batches)
    with JsonlStore.open(path) as store:
        marks = [read_tag(record) for record in store.records]
    count = len(made.batches[2])
    numbered = [LineTag(FORMAT if n == 1 else 0, n, count) for n in range(1, count + 1)]
    assert marks == [LineTag(FORMAT), LineTag(FORMAT), LineTag(), *numbered]


def test_a_file_of_a_newer_everturn_opens_for_reading_only(path):
    fields = {"type": "user", "uuid": "u1", "message": {"content": "hi"}, "everturnStore": {"format": 9}}
    path.write_bytes(b.line(fields) + b"\n")
    with JsonlStore.open(path) as store:
        assert [record.uuid for record in store.records] == ["u1"]
        assert "format 9, this one knows 1" in store.notes[0]
        with pytest.raises(StoreError, match="update everturn"):
            store.append(Talk(1).say())
    assert os.listdir(path.parent) == [path.name]


def test_a_tool_that_was_given_a_newer_format_does_not_lock_the_file(path):
    inner = {"type": "tool_use", "id": "c", "name": "Write", "input": {"everturnStore": {"format": 9}}}
    fields = {"type": "assistant", "uuid": "a1", "message": {"content": [inner]}}
    path.write_bytes(b.line(fields) + b"\n")
    with JsonlStore.open(path) as store:
        assert store.read_only_reason == ""


def test_what_is_no_session_is_not_appended_to(path):
    path.write_bytes(b"\x89PNG\r\n\x1a\n not a session")
    with pytest.raises(NotASession):
        JsonlStore.open(path)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("how", ["removed", "replaced by another file"])
def test_a_file_that_was_removed_or_replaced_is_called_what_it_is(path, how):
    first, second = talk(seed=3, length=12)[:2]
    with JsonlStore.open(path) as store:
        store.append(first)
        path.unlink()
        if how != "removed":
            path.touch()
        with pytest.raises(StoreError) as raised:
            store.append(second)
    expected = f"it was {how} while it was open. Open the session again to go on with what is there now."
    assert str(raised.value) == f"The last append to {path} failed: {expected}"


def test_reading_what_is_not_there_is_said_in_words(path, tmp_path):
    with pytest.raises(StoreError, match="The file does not exist"):
        JsonlStore.open(path, access="read")
    with pytest.raises(StoreError, match="It is a folder"):
        JsonlStore.open(tmp_path)
    path.touch()
    with pytest.raises(StoreError, match="a file, not a folder"):
        JsonlStore.open(path / "below")


def test_a_store_that_was_closed_or_opened_for_reading_takes_nothing(path):
    store = JsonlStore.open(path)
    store.close()
    with pytest.raises(StoreError, match="it was closed"):
        store.append(Talk(1).say())
    with JsonlStore.open(path, access="read") as store, pytest.raises(StoreError, match="for reading only"):
        store.append(Talk(1).say())


def test_nothing_to_append_writes_nothing(path):
    kept(path, [()])
    assert path.read_bytes() == b""


def test_a_writer_whose_lock_was_removed_does_not_remove_that_of_the_next_one(tmp_path: Path):
    path, lock = tmp_path / "session.jsonl", tmp_path / "session.jsonl.lock"
    first = JsonlStore.open(path, fsync="never")
    lock.unlink()
    with JsonlStore.open(path, fsync="never"):
        first.close()
        assert lock.exists()
        with pytest.raises(SessionLocked):
            JsonlStore.open(path, fsync="never")


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("TR-10")
def test_a_line_that_was_changed_on_disk_is_named_when_the_session_is_opened(tmp_path: Path):
    path = tmp_path / "session.jsonl"
    with JsonlStore.open(path, fsync="never") as store:
        store.append([Record(kind="user", uuid="1", blocks=(text_block("the port is 8080"),))])
        store.append([Record(kind="user", uuid="2", parent="1")])
    path.write_bytes(path.read_bytes().replace(b"8080", b"8081"))
    with JsonlStore.open(path, fsync="never") as store:
        assert store.notes == (
            "line 1: this line is not as written: something was changed, lost, doubled or moved here "
            "(the checksum differs)",
        )
        # Continued, the rest of the file is checked as before.
        store.append([Record(kind="user", uuid="3", parent="2")])
    with JsonlStore.open(path, fsync="never") as store:
        assert ([flaw.line for flaw in store.flaws], len(store.records)) == ([1], 3)


def test_a_format_number_that_was_damaged_does_not_close_the_session(tmp_path: Path):
    path = tmp_path / "session.jsonl"
    with JsonlStore.open(path, fsync="never") as store:
        store.append([Record(kind="user", uuid="1")])
    path.write_bytes(path.read_bytes().replace(b'{"format":1,', b'{"format":9,'))
    with JsonlStore.open(path, fsync="never") as store:
        assert ([flaw.kind for flaw in store.flaws], store.read_only_reason) == (["checksum"], "")


@pytest.mark.spec("TR-10")
def test_lines_that_are_missing_at_the_end_are_noticed_by_the_state_beside_the_file(tmp_path: Path):
    path = tmp_path / "session.jsonl"
    with JsonlStore.open(path, fsync="never") as store:
        store.append([Record(kind="user", uuid="1")])
        store.append([Record(kind="user", uuid="2", parent="1")])
        assert (store.write_state(b'{"asides":{}}'), store.write_state(b"{}")) == ("", "")
    whole = path.read_bytes()
    first = whole.splitlines(keepends=True)[0]
    path.write_bytes(first)
    with JsonlStore.open(path, fsync="never") as store:
        sizes = f"it has {len(first)} bytes, and had {len(whole)} when its state was written"
        assert store.notes == (f"line 1: the end of the file is missing: {sizes}",)
    assert [flaw.what for flaw in open_transcript(path).flaws] == [f"the end of the file is missing: {sizes}"]
    path.write_bytes(whole[:-1])
    with JsonlStore.open(path, fsync="never") as store:
        assert store.notes == ()
    path.write_bytes(whole.replace(b'"uuid":"2"', b'"uuid":"9"').replace(b"everturnStore", b"everturnStone"))
    with JsonlStore.open(path, fsync="never") as store:
        assert store.notes == ("line 2: the last lines are not as written: their checksum differs",)


def test_a_line_of_ours_that_is_copied_into_another_session_is_no_damage_there(tmp_path: Path):
    with JsonlStore.open(tmp_path / "one.jsonl", fsync="never") as store:
        store.append([Record(kind="user", uuid="1"), Record(kind="user", uuid="2", parent="1")])
    with JsonlStore.open(tmp_path / "one.jsonl", fsync="never", access="read") as store:
        copied = store.records[1:]
    with JsonlStore.open(tmp_path / "other.jsonl", fsync="never") as store:
        store.append(copied)
    with JsonlStore.open(tmp_path / "other.jsonl", fsync="never") as store:
        assert ([record.uuid for record in store.records], store.notes) == (["2"], ())
