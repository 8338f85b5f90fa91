"""What a fork takes over from its parent."""

import msgspec
import pytest
from builders import assistant, call, result, user

from everturn.adapters.tracking.fork_records import take_shared_records
from everturn.history.edits import Compacted, KeptSegment
from everturn.history.log import Log
from everturn.history.records import Record, ReplyMeta

FIRST, REPLY, NEWEST = (
    user("Read the parser."),
    assistant("I have read it."),
    user("Now change the writer, not the reader."),
)


def boundary(kept):
    return Record(kind="system", uuid="b", subtype="compact_boundary", edit=Compacted(kept=kept))


def summary(words="The parser was read."):
    return Record(
        kind="user",
        uuid="s",
        parent="b",
        blocks=user(words).blocks,
        compact_summary=True,
        transcript_only=True,
    )


def compacted(kept, words="The parser was read."):
    return [FIRST, REPLY, NEWEST, boundary(kept), summary(words), assistant("Done.")]


NEWEST_KEPT = KeptSegment(NEWEST.uuid, "s", NEWEST.uuid)


def test_a_compaction_of_what_is_shared_is_kept_though_it_came_later():
    shared = take_shared_records(compacted(NEWEST_KEPT), 2)
    assert [record.uuid for record in Log([*shared, user("Other.", uuid="o")]).view.records] == [
        "b",
        "s",
        "o",
    ]


def test_the_part_of_the_kept_messages_that_is_shared_stays_kept():
    kept = KeptSegment(REPLY.uuid, "s", NEWEST.uuid)
    shared = take_shared_records(compacted(kept), 2)
    assert [record.uuid for record in Log(shared).view.records] == ["b", "s", REPLY.uuid]


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (compacted(None), "the newest message was summarized too"),
        (compacted(KeptSegment(FIRST.uuid, "b", NEWEST.uuid)), "the end was summarized, not the beginning"),
        (compacted(NEWEST_KEPT, "They want: change the writer, not the reader."), "the summary quotes it"),
        (compacted(NEWEST_KEPT)[:4], "it has no summary"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_another_compaction_stays_with_the_parent(records, why):
    assert take_shared_records(records, 2) == [FIRST, REPLY], why


def test_a_fork_behind_the_compaction_has_it_as_it_is():
    records = compacted(NEWEST_KEPT)
    assert take_shared_records(records, 5) == records[:5]


QUESTION, CALL, RESULT = (
    user("Which line is wrong?"),
    assistant(call("t1")),
    result("t1", "line 9"),
)


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize(
    ("cut", "first_kept", "open_end"),
    [(3, CALL, "the question asked again"), (4, RESULT, "the call whose result comes again")],
)
def test_a_compaction_that_summarized_what_the_fork_has_yet_to_answer_stays_with_the_parent(
    cut, first_kept, open_end
):
    said = [FIRST, REPLY, QUESTION, CALL, RESULT]
    kept = KeptSegment(first_kept.uuid, "s", RESULT.uuid)
    records = [*said, boundary(kept), summary(), assistant("Line 9.")]
    assert take_shared_records(records, cut) == said[:cut], open_end


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize(
    "meta", [None, ReplyMeta("m8", "claude-opus-4-6", "pause_turn")], ids=["begun", "paused"]
)
def test_a_reply_that_the_model_went_on_with_does_not_answer_the_question_of_the_fork(meta):
    begun = msgspec.structs.replace(assistant("Sure:"), reply=meta)
    said = [FIRST, REPLY, QUESTION, begun, CALL, RESULT]
    kept = KeptSegment(CALL.uuid, "s", RESULT.uuid)
    records = [*said, boundary(kept), summary(), assistant("Line 9.")]
    assert take_shared_records(records, 4) == said[:4]
    # One that the user's next message followed was complete.
    complete = [*said[:4], NEWEST, boundary(NEWEST_KEPT), summary(), assistant("Done.")]
    assert [record.uuid for record in take_shared_records(complete, 4)[4:]] == ["b", "s"]
