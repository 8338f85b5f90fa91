"""What a fork is made of whose caller has rewritten a message of what is summarized."""

from typing import Any

import msgspec
import pytest
from builders import assistant, user

from everturn.adapters.tracking.caller_request import CallerRequest, read_request
from everturn.adapters.tracking.respelling import Rewriting, Segment
from everturn.adapters.tracking.rewriting import MAX_CHARACTERS, RewrittenRecords, rewrite_records
from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.edits import Compacted
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.view.flatten import flatten

OLD = "Notes so far: the reader of part one is done."
NEW = "Notes so far: the writer of part two is done."
REPLY, LAST = assistant("I have read it.", uuid="a"), user("Go on.", uuid="l")
ATTACHED = f"The user has changed a message that is summarized above. It now says:\n\n{NEW}"


def summary(words: str) -> list[Record]:
    boundary = Record(kind="system", uuid="b", subtype="compact_boundary", edit=Compacted())
    told = Record(
        kind="user",
        uuid="s",
        parent="b",
        blocks=user(words).blocks,
        compact_summary=True,
        transcript_only=True,
    )
    return [boundary, told]


def log(words: str = "Something was read.", *first: Record) -> list[Record]:
    return [*(first or (user(OLD, uuid="f"),)), REPLY, *summary(words), LAST]


def asking(*content) -> CallerRequest:
    made = read_request({"model": "m", "messages": list(content)})
    assert isinstance(made, CallerRequest)
    return made


def rewrite(records: list[Record], content: Any = NEW, count: int = 1) -> RewrittenRecords | None:
    """The records after their first messages were written anew."""
    request = asking({"role": "user", "content": content})
    segment = Segment(is_reply=False, records=list(enumerate(records[:count])))
    return rewrite_records(records, request, Rewriting(segment, 0, len(request.chain)))


def shown(records: list[Record]) -> str:
    messages = flatten(Log(records).view).messages
    return "\n".join(text_of(block) for message in messages for block in message.blocks)


def test_the_message_as_it_is_now_stands_at_its_place_and_is_attached_to_the_newest_one():
    made = rewrite(log())
    assert made is not None
    first, *same, attachment = made.records
    assert (first.uuid, [text_of(block) for block in first.blocks]) == ("f", [NEW])
    assert same == log()[1:]
    assert fields_of(attachment.blocks[0]) == {"type": "queued_command", "prompt": NEW, "content": ATTACHED}
    assert (attachment.kind, attachment.parent, made.changed) == ("attachment", "l", "")
    assert shown(made.records).count(NEW) == 1


def test_what_was_attached_before_is_shown_no_more_and_the_first_change_in_view_is_known():
    before = rewrite(log(), OLD.replace("one", "three"))
    assert before is not None
    made = rewrite(before.records)
    assert made is not None
    assert "three" not in shown(made.records)
    assert shown(made.records).count(NEW) == 1
    assert made.changed == before.records[-1].uuid
    uuids = [record.uuid for record in made.records]
    assert len(set(uuids)) == len(uuids)


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("It began.\nThey said: the reader of part one is done.\nIt went on.", "It began.\n{}\nIt went on."),
        # A quotation over two lines, and two in a row.
        ("It began.\n- the reader of\n  part one is\n- done.\nSo.", "It began.\n{}\n- done.\nSo."),
        # The message as it is now has this too.
        ("Notes so far: the plan.", "Notes so far: the plan."),
    ],
)  # fmt: skip
def test_what_the_summary_quotes_of_the_message_as_it_was_is_left_out(words, left):
    made = rewrite(log(words))
    assert made is not None
    (told,) = [record for record in made.records if record.compact_summary]
    expected = left.format("[A quotation of a message that was changed since is left out.]")
    assert [text_of(block) for block in told.blocks] == [expected]
    assert made.changed == ("" if expected == words else "s")


def test_words_that_another_message_of_the_list_still_has_may_be_quoted():
    records = log("They said: the reader of part one is done.")
    records[-1] = user("As I said, the reader of part one is done.", uuid="l")
    made = rewrite(records)
    assert made is not None
    assert made.records[2:4] == records[2:4]


def test_each_of_several_messages_keeps_its_record():
    first = [user(OLD, uuid="f"), user("Go through all parts.", uuid="g")]
    made = rewrite(
        log("Read.", *first), [{"type": "text", "text": NEW}, {"type": "text", "text": "Stop."}], 2
    )
    assert made is not None
    assert [text_of(record.blocks[0]) for record in made.records[:2]] == [NEW, "Stop."]
    assert rewrite(log("Read.", *first), NEW, 2) is None


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
QUOTES = "the reader of part one is done. " * 9


def attached(words: str) -> Record:
    payload = msgspec.json.encode({"type": "restored", "content": [{"type": "text", "text": words}]})
    return Record(kind="attachment", uuid="x", parent="l", blocks=(Block("attachment", payload),))


@pytest.mark.parametrize(
    ("records", "content"),
    [
        (log(), [{"type": "text", "text": NEW}, IMAGE]),
        (log(), NEW * (MAX_CHARACTERS // len(NEW) + 1)),
        (log(f"Read.\n{QUOTES}"), NEW),
        ([*log(), attached(QUOTES)], NEW),
    ],
    ids=[
        "a picture",
        "a long text",
        "a summary that is nearly all quotation",
        "an attachment that quotes it",
    ],
)
def test_otherwise_the_compaction_is_not_kept(records, content):
    assert rewrite(records, content) is None
