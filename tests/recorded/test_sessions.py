"""Real sessions: every file loads, every byte comes back, every request that was made is valid again."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
from message_rules import find_message_problems
from recorded.plain_count import figures, objects

from everturn.history.blocks import fields_of
from everturn.history.edits import Cleared
from everturn.history.log import Log
from everturn.history.messages import Message
from everturn.history.records import Record
from everturn.history.rounds import find_cut_points, pair_tool_calls
from everturn.history.threads import Thread, split_threads
from everturn.view.flatten import Flattener, flatten
from everturn.view.fragments.cleared import TEXT
from everturn.wire.claude_code_reader import Transcript, looks_like_a_session

Transcripts = dict[str, Transcript]

# Counted in the files themselves; a figure that moves means that the data or the reader changed.
FIGURES = {
    "files": 95,
    "calls": 3623,
    "compact_boundary": 22,
    "dangling": 16,
    "files of an agent": 35,
    "forks": 1198,
    "interleaved": 156,
    "microcompact_boundary": 6,
    "replies": 3516,
    "roots": 112,
    "split": 2848,
    "type assistant": 7906,
    "type attachment": 49,
    "type file-history-snapshot": 607,
    "type last-prompt": 7,
    "type permission-mode": 8,
    "type pr-link": 3,
    "type progress": 4444,
    "type queue-operation": 118,
    "type summary": 70,
    "type system": 670,
    "type user": 4297,
    "unanswered": 6,
}


@pytest.fixture(scope="session")
def counted(files: dict[str, bytes]) -> Counter[str]:
    return sum((figures(data) for data in files.values()), Counter())


def all_threads(transcripts: Transcripts) -> Iterator[tuple[str, Thread]]:
    for name, transcript in transcripts.items():
        found = split_threads(transcript.records)
        for thread in (found.main, *found.sidechains):
            yield name, thread


def is_reply(record: Record) -> bool:
    return record.reply is not None and not record.reply.is_synthetic and not record.api_error


def moments(thread: Thread) -> Iterator[tuple[Record, Log, Flattener]]:
    """Each call that was made: the first record of its reply, and what was there before it."""
    log, fold, seen = Log(), Flattener(), set[str]()
    for record in thread.records:
        if is_reply(record) and record.message_id not in seen:
            seen.add(record.message_id)
            yield record, log, fold
        if log.append(record) == "replaced":
            fold = Flattener(hidden=log.view.cleared)
            for shown in log.view.records:
                fold.add(shown)
        else:
            fold.add(record)


def test_the_files_hold_what_was_counted_in_them(files: dict[str, bytes], counted: Counter[str]):
    assert {"files": len(files), **counted} == FIGURES


@pytest.mark.spec("TR-6")
def test_every_file_loads_and_comes_back_byte_for_byte(files: dict[str, bytes], transcripts: Transcripts):
    assert all(looks_like_a_session(transcript.lines) for transcript in transcripts.values())
    changed = [name for name, transcript in transcripts.items() if transcript.to_bytes() != files[name]]
    assert changed == []


def test_the_only_flaws_are_comments_and_one_line_with_two_objects(transcripts: Transcripts):
    found = Counter(flaw.kind for transcript in transcripts.values() for flaw in transcript.flaws)
    assert found == {"comment": 8, "glued": 1}


@pytest.mark.spec("TR-1", "TR-7")
def test_our_reading_counts_what_plain_json_counts(transcripts: Transcripts, counted: Counter[str]):
    records = [record for transcript in transcripts.values() for record in transcript.records]
    kinds = Counter(f"type {record.kind}" for record in records)
    assert kinds == {name: counted[name] for name in kinds}
    assert sum(record.is_boundary for record in records) == counted["compact_boundary"]
    assert sum(isinstance(record.edit, Cleared) for record in records) == counted["microcompact_boundary"]
    replies = [
        len({record.message_id for record in transcript.records if is_reply(record)})
        for transcript in transcripts.values()
    ]
    assert sum(replies) == counted["replies"]
    per_file = [pair_tool_calls(transcript.records) for transcript in transcripts.values()]
    assert sum(len(each.unanswered) for each in per_file) == counted["unanswered"]
    assert sum(len(each.unanswered) + len(each.answered) for each in per_file) == counted["calls"]
    assert sum(len(each.orphans) for each in per_file) == counted["orphans"]


@pytest.mark.spec("TR-1")
def test_the_context_of_every_record_is_the_sum_in_its_line(
    files: dict[str, bytes], transcripts: Transcripts
):
    for name, transcript in transcripts.items():
        usages = [each["message"]["usage"] for each in objects(files[name]) if each["type"] == "assistant"]
        sums = [
            usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
            for usage in usages
        ]
        replies = [record.reply for record in transcript.records if record.reply]
        assert [reply.usage.context for reply in replies if reply.usage] == sums


@pytest.mark.spec("TR-11", "FLAT-8")
def test_the_view_at_every_call_of_every_thread_is_one_that_the_api_takes(transcripts: Transcripts):
    calls, empty, unfinished = 0, 0, []
    for name, thread in all_threads(transcripts):
        for reply, _, fold in moments(thread):
            messages = fold.flat().messages
            assert find_message_problems(messages) == (), (name, reply.uuid)
            calls += 1
            empty += not messages
            if messages and messages[-1].role != "user":
                unfinished.append((name, reply.uuid))
    assert (calls, empty) == (3509, 7)
    # The user's word "stop" before this call is in a queue-operation line only.
    assert unfinished == [
        ("entire-cli/7d66f047ac98-0_3a782158.jsonl", "fb639c6e-a9fe-487f-a298-f75c6a9b9f71")
    ]


@pytest.mark.spec("FLAT-8")
def test_folding_one_record_at_a_time_ends_where_flattening_the_view_does(transcripts: Transcripts):
    for name, thread in all_threads(transcripts):
        log, fold = Log(), Flattener()
        for record in thread.records:
            if log.append(record) == "replaced":
                fold = Flattener(hidden=log.view.cleared)
                for shown in log.view.records:
                    fold.add(shown)
            else:
                fold.add(record)
        assert fold.flat().messages == flatten(log.view).messages, name


@pytest.mark.spec("FLAT-8")
def test_requests_of_a_thread_extend_each_other_until_something_was_cleared_or_summarized(
    transcripts: Transcripts,
):
    for name, thread in all_threads(transcripts):
        before: tuple[Message, ...] = ()
        edits = 0
        for reply, log, fold in moments(thread):
            now = fold.flat().messages
            made = sum(record.edit is not None for record in log.records)
            if made == edits:
                last = max((at for at, message in enumerate(before) if message.role == "user"), default=0)
                assert now[:last] == before[:last], (name, reply.uuid)
            before, edits = now, made


@pytest.mark.spec("TR-5", "TR-9")
def test_the_view_after_a_boundary_begins_with_it_and_its_summary(transcripts: Transcripts):
    boundaries = 0
    for name, thread in all_threads(transcripts):
        log = Log()
        assert log.notes == []
        for record in thread.records:
            if log.append(record) != "replaced":
                continue
            boundaries += 1
            first, second = log.view.records[:2]
            assert (first.is_boundary, second.compact_summary, second.parent) == (True, True, first.uuid), (
                name
            )
            assert log.view.boundary == first
    assert boundaries == 22


@pytest.mark.spec("TR-9")
def test_a_thread_goes_on_across_its_boundaries_to_what_was_before(transcripts: Transcripts):
    for name, thread in all_threads(transcripts):
        uuids = [record.uuid for record in thread.records]
        for at, record in enumerate(thread.records):
            logical = record.edit.logical_parent if record.is_boundary else ""
            if logical and logical in uuids:
                assert logical in uuids[:at], name
            assert not record.is_boundary or at > 0, name


def test_results_that_a_micro_compaction_named_are_placeholders_in_every_later_request(
    transcripts: Transcripts,
):
    edits = 0
    for name, thread in all_threads(transcripts):
        named: set[str] = set()
        for reply, log, fold in moments(thread):
            cleared = set(log.view.cleared)
            if not cleared:
                continue
            edits += len(cleared - named) > 0
            named |= cleared
            results = [
                block for message in fold.flat().messages for block in message.blocks if block.is_result
            ]
            shown = {block.call: fields_of(block)["content"] for block in results}
            assert {shown[call] for call in cleared if call in shown} <= {TEXT}, (name, reply.uuid)
            assert not [call for call, text in shown.items() if text == TEXT and call not in cleared]
    assert edits == 6


def test_every_cut_leaves_two_halves_whose_pairs_are_whole(transcripts: Transcripts):
    for name, thread in all_threads(transcripts):
        open_calls = set(pair_tool_calls(thread.records).unanswered)
        points = find_cut_points(thread.records)
        for at in points[:: max(1, len(points) // 5)]:
            assert set(pair_tool_calls(thread.records[:at]).unanswered) <= open_calls, name
            assert pair_tool_calls(thread.records[at:]).orphans == (), name


def test_repairs_are_as_rare_as_they_were_counted(transcripts: Transcripts):
    found: Counter[str] = Counter()
    for _, thread in all_threads(transcripts):
        found.update(repair.kind for repair in flatten(Log(thread.records).view).repairs)
    assert found == {"blank_text": 34, "missing_start": 7, "missing_result": 3}


def test_notes_on_the_links_are_as_rare_as_they_were_counted(transcripts: Transcripts):
    found = Counter(note.kind for _, thread in all_threads(transcripts) for note in thread.notes)
    assert found == {"missing_parent": 15, "abandoned": 9, "duplicate_uuid": 1}


def test_an_agents_own_file_is_one_thread_with_its_name(transcripts: Transcripts, counted: Counter[str]):
    agents = [thread for _, thread in all_threads(transcripts) if thread.agent]
    assert len(agents) == counted["files of an agent"]
    assert all(record.agent == thread.agent for thread in agents for record in thread.records)


def test_snapshots_of_one_session_extend_each_other(transcripts: Transcripts):
    steps = [
        transcript.records
        for name, transcript in transcripts.items()
        if name.startswith("entire-cli-snapshots/768de5d6_step")
    ]
    assert len(steps) == 4
    for earlier, later in pairwise(steps):
        assert later[: len(earlier)] == earlier
        assert len(later) > len(earlier)
