"""What conversations by chance have found, each as the smallest session that shows it."""

from pathlib import Path

import builders as b
import pytest
from engine.held import Held

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
