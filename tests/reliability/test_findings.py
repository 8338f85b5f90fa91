"""What trials by chance have found: each as the smallest session that shows it, and by its seeds."""

from pathlib import Path

import builders as b
import pytest
from engine.held import Held
from faults.disks import MemoryDisk, Trap
from reliability.findings import FOUND
from reliability.kinds import KINDS
from reliability.scenes import Desk
from reliability.score import check, tally

from everturn.decide.compact.values import CompactionSkipped
from everturn.errors import StoreError, UsageError
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.session.store import JsonlStore
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import encode_record


def resumed(records: list[Record]) -> list[str]:
    """The names of what is in sight after these records were written to a file and read again."""
    data = b"\n".join(encode_record(record) for record in records)
    return [
        record.uuid
        for record in Log(split_threads(parse_session_file(data).records).main.records).view.records
    ]


@pytest.mark.spec("TR-9")
def test_a_note_at_the_end_that_hangs_on_an_older_record_hides_nothing_after_a_restart(tmp_path: Path):
    held = Held(tmp_path)
    older = [
        b.user("first", uuid="1"),
        b.assistant("Yes.", uuid="2", parent="1"),
        b.user("more", uuid="3", parent="2"),
    ]
    for record in (*older, b.attachment("late", uuid="late", parent="1")):
        held.runner.add(record)
    held.ask("And now?")
    records = held.runner.conversation.log.records
    assert resumed(records) == [record.uuid for record in records]


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize("size", range(1, 20))
def test_a_first_line_of_which_a_few_bytes_were_written_is_a_session_all_the_same(tmp_path: Path, size: int):
    path = tmp_path / "session.jsonl"
    path.write_bytes(encode_record(b.user("first", uuid="1"))[:size])
    with path.open("ab") as file:
        # Once more: the next process begins a new line, and dies within it as well.
        file.write(b"\n" + encode_record(b.user("second", uuid="3"))[:size])
    with JsonlStore.open(path, fsync="never") as store:
        store.append([Record(kind="user", uuid="2")])
    with JsonlStore.open(path, fsync="never") as store:
        assert [record.uuid for record in store.records] == ["2"]


@pytest.mark.parametrize("kind", FOUND)
def test_trials_that_have_failed_once_do_not_fail_again(kind: str):
    check(tally(KINDS[kind], FOUND[kind]).row)


@pytest.mark.spec("TR-9", "TR-10")
def test_what_continues_a_segment_that_an_unfinished_compaction_kept_continues_the_segment_itself():
    """The boundary is on a branch of its own; through it, the second question and its answer were lost."""
    before = [
        b.user("first", uuid="1"),
        b.user("second", uuid="2", parent="1"),
        b.assistant("Yes.", uuid="3", parent="2"),
    ]
    unfinished = b.boundary("b", parent="1", logical="3", kept=("3", "s", "3"))
    assert resumed([*before, unfinished, b.user("third", uuid="4", parent="3")]) == ["1", "2", "3", "4"]


@pytest.mark.spec("TR-11")
def test_a_conversation_of_blank_messages_is_not_compacted_and_not_sent(tmp_path: Path):
    desk = Desk(tmp_path)
    with desk.open(fsync="never") as session:
        with pytest.raises(UsageError, match=r"There is nothing to send: .* Say something first\."):
            session.send(" \n")
        assert session.compact() == CompactionSkipped(
            "There is nothing to compact: the conversation has no messages yet."
        )
        desk.box.script("Here.")
        assert (session.send("Are you there?").text, len(desk.box.ledger)) == ("Here.", 1)


@pytest.mark.spec("TR-10")
def test_a_write_that_fails_at_its_newline_has_kept_its_record_and_the_next_one_starts_a_line():
    path, disk = "/folder/session.jsonl", MemoryDisk()
    first = b.user("first", uuid="1")
    size = len(encode_record(first))
    # The first write is that of the lock; the second one ends before its newline.
    short = Trap(disk, lambda: None, 2, "inside", size, only="write", stays_shut=False)
    store = JsonlStore.open(path, io=short, fsync="never")
    with pytest.raises(StoreError, match=f"only {size} of {size + 1} bytes were written"):
        store.append([first])
    store.close()
    with JsonlStore.open(path, io=disk, fsync="never") as again:
        again.append([b.user("second", uuid="2", parent="1")])
    with JsonlStore.open(path, io=disk, fsync="never") as again:
        assert [record.uuid for record in again.records] == ["1", "2"]
