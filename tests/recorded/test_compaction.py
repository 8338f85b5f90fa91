"""Recorded sessions, compacted in every form: the view is valid, undo restores it, loading finds it again."""

from collections.abc import Iterator

import builders as b
import msgspec
import pytest
from decide.compact.bench import Bench, manual
from message_rules import find_message_problems

from everturn.decide.compact.chain import plan_undo
from everturn.decide.compact.prepare import prepare_messages
from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.compact.values import CompactionPlan
from everturn.decide.effects import FileRead
from everturn.history.edits import Undone
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.view.flatten import flatten
from everturn.wire.claude_code_reader import Transcript, parse_session_file
from everturn.wire.claude_code_writer import encode_record

FORMS = ("full", "from", "up_to")


def planned(transcripts: dict[str, Transcript]) -> Iterator[tuple[str, Bench, CompactionPlan]]:
    """Every session in every form, divided two thirds on."""
    for name, transcript in transcripts.items():
        records = split_threads(transcript.records).main.records
        shown = Log(records).view.records
        for form in FORMS if shown else ():
            bench = Bench(records)
            plan = bench.plan(manual(form=form, at=shown[len(shown) * 2 // 3].uuid))
            if isinstance(plan, CompactionPlan):
                yield f"{name} {form}", bench, plan


def next_word(after: Record) -> Record:
    """What the user says next, in the same conversation."""
    said = b.user("go on", uuid="next-word")
    return msgspec.structs.replace(
        said, parent=after.uuid, agent=after.agent, sidechain=after.sidechain, session=after.session, raw=b""
    )


@pytest.mark.spec("CP-10", "CP-12", "CP-30")
def test_recorded_sessions_compact_into_valid_views_that_load_again_and_can_be_undone(
    transcripts: dict[str, Transcript],
):
    done = 0
    for name, bench, plan in planned(transcripts):
        before = bench.shown
        files = [FileRead(path, "as it is now\n") for path in plan.restoration.files]
        for record in bench.finished(plan, files=files).records:
            bench.log.append(record)
        bench.log.append(next_word(bench.log.records[-1]))
        assert bench.log.notes == [], name
        assert find_message_problems(flatten(bench.log.view).messages) == (), name
        loaded = parse_session_file(b"\n".join(encode_record(record) for record in bench.log.records)).records
        assert [each.uuid for each in Log(split_threads(loaded).main.records).view.records] == bench.shown, (
            name
        )
        undone = plan_undo(bench.log.view)
        assert isinstance(undone, Undone)
        bench.log.append(b.edited(undone, "undo"))
        assert bench.shown == [*before, "next-word"], name
        done += 1
    assert done > 200


@pytest.mark.spec("CP-2")
def test_what_is_sent_of_recorded_sessions_to_be_summarized_is_valid(transcripts: dict[str, Transcript]):
    sent = [
        (name, prepare_messages(bench.log.view, plan.summarized, DEFAULTS))
        for name, bench, plan in planned(transcripts)
    ]
    assert [
        (name, find_message_problems(messages)) for name, messages in sent if find_message_problems(messages)
    ] == []
    kinds = {block.kind for _, messages in sent for message in messages for block in message.blocks}
    assert kinds & {"image", "document", "thinking", "redacted_thinking"} == set()
