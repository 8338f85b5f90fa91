"""What holds for every view that is flattened, whatever was recorded."""

import builders as b
import pytest
from builders import compute_view
from hypothesis import given
from hypothesis import strategies as st
from message_rules import find_message_problems
from random_logs import broken_logs, sound_logs, words_of

from everturn.history.blocks import block_from_fields, text_block
from everturn.history.edits import ThinkingDropped
from everturn.history.log import Log
from everturn.history.messages import Message
from everturn.history.records import Record
from everturn.view.flatten import Flattener, flatten, is_sent
from everturn.wire.anthropic import MessagePieces

any_log = st.one_of(broken_logs(), sound_logs())


def bytes_of(messages: tuple[Message, ...]) -> bytes:
    return b"".join(MessagePieces().update(messages))


@pytest.mark.spec("TR-11", "FLAT-8")
@given(st.one_of(broken_logs(edits=True), sound_logs()))
def test_every_view_at_every_moment_is_one_that_the_api_takes(records: list[Record]):
    for end in range(len(records) + 1):
        assert find_message_problems(flatten(compute_view(records[:end])).messages) == ()


@given(sound_logs())
def test_a_sound_log_needs_no_repair_once_its_last_call_is_answered(records: list[Record]):
    assert flatten(compute_view(records)).repairs == ()


@pytest.mark.spec("FLAT-8")
@given(st.one_of(broken_logs(edits=True), sound_logs()))
def test_equal_views_give_equal_bytes_and_one_record_at_a_time_gives_the_same(records: list[Record]):
    fold, log = Flattener(), Log()
    for record in records:
        fold.add(record)
        log.append(record)
        at_once = flatten(log.view)
        assert fold.flat().messages == at_once.messages
        assert bytes_of(flatten(log.view).messages) == bytes_of(at_once.messages)


@given(broken_logs())
def test_asking_for_the_messages_changes_nothing(records: list[Record]):
    asked, unasked = Flattener(), Flattener()
    for record in records:
        asked.add(record)
        asked.flat()
        unasked.add(record)
    assert asked.flat() == unasked.flat()


def splits_a_message(records: list[Record], end: int) -> bool:
    names = [{record.message_id for record in part} - {""} for part in (records[:end], records[end:])]
    return bool(names[0] & names[1])


@pytest.mark.spec("FLAT-8")
@given(any_log)
def test_what_stands_before_the_last_user_message_is_sent_again_byte_for_byte(records: list[Record]):
    whole = flatten(compute_view(records)).messages
    for end in range(len(records)):
        if splits_a_message(records, end):
            continue
        short = flatten(compute_view(records[:end])).messages
        last = max((at for at, message in enumerate(short) if message.role == "user"), default=0)
        assert bytes_of(short[:last]) == bytes_of(whole[:last])


@pytest.mark.spec("TR-11")
@given(any_log)
def test_no_word_of_a_sent_record_is_lost(records: list[Record]):
    flat = flatten(compute_view(records))
    said = bytes_of(flat.messages).decode()
    # The one thing left out by rule: a last message of thinking alone (FLAT-6).
    if any(repair.kind == "trailing_thinking" for repair in flat.repairs):
        return
    expected = [word for record in records if is_sent(record) for word in words_of(record)]
    assert [word for word in expected if word not in said] == []


@pytest.mark.spec("FLAT-1")
@given(broken_logs())
def test_no_word_of_an_unsent_record_gets_out(records: list[Record]):
    said = bytes_of(flatten(compute_view(records)).messages).decode().split('"')
    unsent = [word for record in records if not is_sent(record) for word in words_of(record)]
    assert [word for word in unsent if word in said] == []


@pytest.mark.spec("TR-2", "FLAT-6")
@given(sound_logs())
def test_untouched_blocks_leave_with_the_bytes_they_came_with(records: list[Record]):
    sent = {block.raw for message in flatten(compute_view(records)).messages for block in message.blocks}
    came = {block.raw for record in records for block in record.blocks if record.kind != "attachment"}
    assert came - sent == set()


@given(sound_logs(), st.data())
def test_dropped_thinking_is_gone_from_the_record_named_and_kept_before_it(records: list[Record], data):
    records = records[: data.draw(st.integers(1, len(records)))]
    at = data.draw(st.integers(0, len(records) - 1))
    dropped = b.edited(ThinkingDropped(records[at].uuid), "dropped")
    messages = flatten(compute_view([*records, dropped])).messages
    left = [block.raw for message in messages for block in message.blocks if block.is_thinking]
    # In a response everything was said before any of it was answered.
    before = {record.message_id for record in records[:at]} if records[at].kind != "assistant" else set()
    before |= {record.message_id for record in records[:at]} - {records[at].message_id}
    kept = [r.blocks[0].raw for r in records if r.message_id in before and r.blocks[0].is_thinking]
    assert left == kept
    assert find_message_problems(messages) == ()


# The judge judged: every way of breaking a valid list of messages must be noticed (F53).


def drop(messages: list[Message], at: int, which: int) -> list[Message]:
    blocks = messages[at].blocks
    return _with(messages, at, (*blocks[:which], *blocks[which + 1 :]))


def _with(messages: list[Message], at: int, blocks: tuple) -> list[Message]:
    return [*messages[:at], Message(messages[at].role, blocks), *messages[at + 1 :]]


def places_of(messages: list[Message], kind: str) -> list[tuple[int, int]]:
    return [
        (at, which)
        for at, message in enumerate(messages)
        for which, block in enumerate(message.blocks)
        if block.kind == kind
    ]


@pytest.mark.spec("TR-11")
@given(sound_logs(), st.randoms(use_true_random=False))
def test_the_judge_objects_to_every_broken_pair(records: list[Record], random):
    messages = list(flatten(compute_view(records)).messages)
    results = places_of(messages, "tool_result")
    if not results:
        return
    at, which = random.choice(results)
    stray = messages[at].blocks[which]
    assert find_message_problems(drop(messages, at, which)) != ()
    assert find_message_problems(_with(messages, at, (*messages[at].blocks, stray))) != ()
    assert find_message_problems(_with(messages, at, (text_block("first"), *messages[at].blocks))) != ()
    asked = next(place for place in places_of(messages, "tool_use") if place[0] == at - 1)
    assert find_message_problems(drop(messages, *asked)) != ()
    twin = messages[asked[0]].blocks[asked[1]]
    assert find_message_problems(_with(messages, at - 1, (*messages[at - 1].blocks, twin))) != ()
    assert find_message_problems(messages[:at]) != ()
    elsewhere = Message("user", (stray,))
    assert find_message_problems([*messages, elsewhere]) != ()


@pytest.mark.spec("TR-11")
@given(sound_logs(), st.randoms(use_true_random=False))
def test_the_judge_objects_to_roles_and_content_out_of_order(records: list[Record], random):
    messages = list(flatten(compute_view(records)).messages)
    at = random.randrange(len(messages))
    other = "assistant" if messages[at].role == "user" else "user"
    blank, thought = text_block(" "), block_from_fields({"type": "thinking", "thinking": "hm"})
    assert find_message_problems(messages) == ()
    assert find_message_problems(_with(messages, at, ())) != ()
    assert find_message_problems(_with(messages, at, (*messages[at].blocks, blank))) != ()
    assert (
        find_message_problems([*messages[:at], Message(other, messages[at].blocks), *messages[at + 1 :]])
        != ()
    )
    assert find_message_problems([*messages[: at + 1], *messages[at:]]) != ()
    assert find_message_problems(messages[1:]) != ()
    assert find_message_problems(_with(messages, 0, (*messages[0].blocks, thought))) != ()


TOOL_NAMES = ("Read", "Bash", "Edit", "TodoWrite")
SCHEMAS = st.dictionaries(
    st.sampled_from(TOOL_NAMES),
    st.sampled_from(
        [
            {"properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
            {"properties": {"file_path": {"type": "integer"}, "n": {"type": "integer"}}},
            {"additionalProperties": False},
        ]
    ),
)


@pytest.mark.spec("FLAT-5", "FLAT-8")
@given(st.one_of(broken_logs(edits=True), sound_logs()), st.lists(SCHEMAS, min_size=1, max_size=3), st.data())
def test_tools_that_change_give_what_the_last_ones_would_have_given_from_the_start(records, tools, data):
    view = compute_view(records)
    fold = Flattener(hidden=view.cleared, offloaded=view.offloaded)
    at = data.draw(st.integers(0, len(view.records)))
    known: list[Message] = []
    for number, record in enumerate(view.records):
        fold.add(record)
        if number == at:
            for each in tools:
                fold.set_tools(each)
        # Who takes the changes one at a time has the same messages.
        first = fold.take_changes()
        known[first:] = fold.since(first)
    fold.set_tools(tools[-1])
    first = fold.take_changes()
    known[first:] = fold.since(first)
    assert fold.flat() == flatten(view, tools[-1])
    assert tuple(known) == fold.flat().messages
