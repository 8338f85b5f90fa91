"""Which records are the conversation: forks, rewinds, resumes, parallel results, broken links, agents."""

from typing import Any

import builders as b
import msgspec
import pytest
from builders import compute_view

from everturn.history.edits import Cleared, Rewound, Undone
from everturn.history.records import Record
from everturn.history.threads import Thread, ThreadIssue, Threads, split_threads


def say(uuid: str, parent: str = "", **more: Any) -> Record:
    return b.user(uuid, uuid=uuid, parent=parent, **more)


def reply(uuid: str, parent: str, *blocks: Any, **more: Any) -> Record:
    return b.assistant(*(blocks or (uuid,)), id=more.pop("id", f"m-{uuid}"), uuid=uuid, parent=parent, **more)


def names(records: tuple[Record, ...]) -> list[str]:
    return [record.uuid for record in records]


def live(*records: Record) -> list[str]:
    return names(split_threads(records).main.records)


def test_a_list_is_a_thread():
    records = (say("1"), reply("2", "1"), say("3", "2"))
    assert split_threads(records) == Threads(Thread("", records))
    assert split_threads([]) == Threads(Thread("", ()))


def test_what_was_rewound_is_left_behind_and_counted():
    records = (say("1"), reply("2", "1"), say("3", "2"), reply("4", "3"), say("5", "2"))
    found = split_threads(records).main
    assert (names(found.records), names(found.abandoned)) == (["1", "2", "5"], ["3", "4"])
    left = "messages on abandoned branches (rewind, resume, fork): 2"
    assert found.notes == (ThreadIssue("abandoned", left),)


def test_what_was_attached_or_decided_on_a_branch_that_was_left_stays_there():
    records = (
        say("1"),
        reply("2", "1"),
        b.attachment("for 3", uuid="note", parent="2"),
        b.system(uuid="hook", parent="note"),
        say("3", "hook"),
        say("4", "2"),
    )
    assert live(*records) == ["1", "2", "4"]


def test_what_led_to_an_abandoned_reply_only_is_left_with_it():
    records = (
        say("1"),
        b.attachment("for 2", uuid="note", parent="1"),
        reply("2", "note"),
        say("3", "1"),
    )
    assert live(*records) == ["1", "3"]


def test_a_resumed_session_that_repeats_its_history_counts_once():
    first = (say("1"), reply("2", "1"), say("3", "2"))
    again = (say("1b"), reply("2b", "1b"), say("4", "2b"))
    assert live(*first, *again) == ["1b", "2b", "4"]


@pytest.mark.spec("TR-7", "TR-9")
def test_parallel_results_beside_the_path_belong_to_it():
    records = (
        say("1"),
        reply("2", "1", b.call("a"), id="m"),
        reply("3", "2", b.call("b"), id="m"),
        b.result("a", uuid="4", parent="2"),
        b.progress("p", parent="2"),
        b.result("b", uuid="5", parent="3"),
        reply("6", "5"),
    )
    assert live(*records) == ["1", "2", "3", "4", "p", "5", "6"]


def test_pieces_of_a_response_beside_the_path_belong_to_it_with_their_results():
    records = (
        say("1"),
        reply("2", "1", b.call("a"), id="m"),
        reply("3", "2", b.call("b"), id="m"),
        b.result("b", uuid="4", parent="3"),
        b.result("a", uuid="5", parent="2"),
        reply("6", "5"),
    )
    assert live(*records) == ["1", "2", "3", "4", "5", "6"]


def test_a_second_answer_to_the_same_call_is_an_alternative_not_an_addition():
    records = (
        say("1"),
        reply("2", "1", b.call("a")),
        b.result("a", "old", uuid="3", parent="2"),
        b.result("a", "new", uuid="4", parent="2"),
    )
    assert live(*records) == ["1", "2", "4"]


def test_a_missing_parent_is_replaced_by_the_record_before_and_noted():
    records = (say("1"), reply("2", "1"), say("3", "gone"), reply("4", "3"))
    found = split_threads(records).main
    assert names(found.records) == ["1", "2", "3", "4"]
    assert found.notes == (ThreadIssue("missing_parent", "3 continues gone, which is not in the file"),)


def unlinked(uuid: str, **more: Any) -> Record:
    """A line without the key of its parent."""
    return b.record({"type": "user", "uuid": uuid, "message": {"role": "user", "content": uuid}, **more})


ROOT = b.record(
    {"type": "user", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": "1"}}
)


@pytest.mark.spec("TR-9")
def test_a_line_that_lost_its_link_continues_the_one_before_it_and_is_noted():
    found = split_threads((ROOT, reply("2", "1"), unlinked("3"), reply("4", "3"))).main
    assert names(found.records) == ["1", "2", "3", "4"]
    assert found.records[2].parent == "2"
    assert found.notes == (
        ThreadIssue("missing_parent", "3 does not say what it continues; it is read behind 2"),
    )


@pytest.mark.spec("TR-9")
def test_an_agent_keeps_a_line_that_lost_its_link():
    side: dict[str, Any] = {"isSidechain": True}
    records = (msgspec.structs.replace(ROOT, sidechain=True), reply("2", "1", **side), unlinked("3", **side))
    assert names(split_threads(records).main.records) == ["1", "2", "3"]


def test_a_line_without_a_link_that_was_written_twice_is_nothing_new():
    again = (ROOT, reply("2", "1"), unlinked("3"), unlinked("3"), reply("4", "3"))
    assert live(*again) == ["1", "2", "3", "4"]


def test_where_roots_are_written_without_the_key_a_line_without_it_is_one():
    assert live(unlinked("1"), reply("2", "1"), unlinked("3"), reply("4", "3")) == ["3", "4"]
    assert live(unlinked("1"), unlinked("2")) == ["2"]


def test_a_boundary_without_the_key_is_a_root_as_ever():
    boundary = b.record({"type": "system", "uuid": "b", "subtype": "compact_boundary"})
    found = split_threads((ROOT, boundary, b.summary(), say("2", "s"))).main
    assert (names(found.records), found.notes) == (["1", "b", "s", "2"], ())


def test_a_parent_that_comes_after_its_child_is_found():
    records = (say("1"), say("3", "2"), reply("2", "1"), reply("4", "3"))
    assert live(*records) == ["1", "3", "2", "4"]


@pytest.mark.parametrize(
    "records",
    [
        (say("1", "3"), reply("2", "1"), say("3", "2")),
        (say("1", "1"), reply("2", "1"), say("3", "2")),
        (say("0"), say("1", "3"), reply("2", "1"), say("3", "2")),
    ],
)
def test_a_circle_of_links_is_opened_and_noted(records: tuple[Record, ...]):
    found = split_threads(records).main
    assert found.records == records
    assert [note.kind for note in found.notes] == ["cycle"]


def test_of_equal_uuids_the_newest_is_continued_and_all_are_noted():
    records = (say("1"), reply("2", "1"), b.user("again", uuid="1"), reply("3", "1"))
    found = split_threads(records).main
    assert names(found.records) == ["1", "3"]
    assert found.records[0] == records[2]
    assert ThreadIssue("duplicate_uuid", "records with the uuid of an earlier one: 1") in found.notes


@pytest.mark.spec("TR-9")
@pytest.mark.parametrize("logical", ["2", "", "gone"])
def test_a_thread_goes_on_behind_a_boundary_through_its_logical_parent(logical: str):
    records = (say("1"), reply("2", "1"), b.boundary(logical=logical), b.summary(), reply("3", "s"))
    found = split_threads(records).main
    assert found == Thread("", records)
    assert names(tuple(compute_view(found.records).records)) == ["b", "s", "3"]


@pytest.mark.spec("TR-9")
@pytest.mark.parametrize(
    ("anchor", "summary_parent", "expected"),
    [
        ("s", "b", ["b", "s", "2", "3", "4"]),
        ("b", "b", ["b", "2", "3", "s", "4"]),
        ("b", "3", ["b", "2", "3", "s", "4"]),
    ],
)
@pytest.mark.parametrize("continues", ["tail", "summary"])
def test_a_kept_segment_is_relinked_behind_its_boundary(
    anchor: str, summary_parent: str, expected: list[str], continues: str
):
    parent = {"tail": "3", "summary": "s"}[continues] if anchor == "s" else "s"
    records = (
        say("1"),
        reply("2", "1"),
        say("3", "2"),
        b.boundary(logical="3", kept=("2", anchor, "3")),
        b.summary(parent=summary_parent),
        reply("4", parent),
    )
    found = split_threads(records).main
    assert found == Thread("", records)
    assert names(tuple(compute_view(found.records).records)) == expected


def test_a_boundary_whose_summary_was_never_written_leaves_the_thread_and_is_noted():
    half = ThreadIssue("half_compaction", "boundary b has no summary; the view before it stays in force")
    before = (say("1"), reply("2", "1"))
    killed = split_threads([*before, b.boundary(logical="2")]).main
    assert (killed.records, killed.notes) == (before, (half,))
    resumed = split_threads([*before, b.boundary(logical="2"), say("3", "2")]).main
    assert (names(resumed.records), resumed.notes) == (["1", "2", "3"], (half,))


def test_an_edit_belongs_to_the_branch_that_it_was_made_on():
    records = (
        say("1"),
        reply("2", "1", b.call("c")),
        b.result("c", uuid="3", parent="2"),
        b.edited(Cleared(("c",)), "edit", "3"),
    )
    assert live(*records) == ["1", "2", "3", "edit"]
    assert live(*records, say("4", "edit"), say("5", "3")) == ["1", "2", "3", "5"]
    assert live(*records, say("4", "1")) == ["1", "4"]


@pytest.mark.spec("TR-9")
def test_inline_sidechains_from_before_agent_ids_are_told_apart_by_where_they_begin():
    side = {"isSidechain": True}
    records = (
        say("1"),
        reply("2", "1", b.call("t", "Task")),
        say("a1", **side),
        say("b1", **side),
        reply("a2", "a1", **side),
        reply("b2", "b1", **side),
        b.result("t", uuid="3", parent="2"),
    )
    found = split_threads(records)
    assert names(found.main.records) == ["1", "2", "3"]
    assert [(each.agent, names(each.records)) for each in found.sidechains] == [
        ("a1", ["a1", "a2"]),
        ("b1", ["b1", "b2"]),
    ]


@pytest.mark.spec("TR-9")
def test_sidechains_with_agent_ids_are_told_apart_by_them():
    one, two = ({"isSidechain": True, "agentId": name} for name in ("x", "y"))
    records = (say("1"), say("a", **one), say("b", **two), reply("c", "a", **one), reply("2", "1"))
    found = split_threads(records)
    assert names(found.main.records) == ["1", "2"]
    assert [(each.agent, names(each.records)) for each in found.sidechains] == [
        ("x", ["a", "c"]),
        ("y", ["b"]),
    ]


@pytest.mark.spec("TR-9")
def test_a_file_of_one_agent_alone_is_its_main_thread():
    side = {"isSidechain": True, "agentId": "x"}
    records = (say("a", **side), reply("b", "a", **side))
    assert split_threads(records) == Threads(Thread("x", records))


def test_a_thread_of_a_hundred_thousand_records_takes_time_in_proportion():
    record = say("0")
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    many = [
        Record(**{**fields, "uuid": str(at), "parent": str(at - 1) if at else ""}) for at in range(100_000)
    ]
    assert len(split_threads(many).main.records) == 100_000


def test_a_line_that_was_written_twice_is_nothing_new():
    """As the last line of a file it would be the newest message, and all that came since be left."""
    records = (say("1"), reply("2", "1"), say("3", "2"), reply("4", "3"), reply("2", "1"))
    found = split_threads(records).main
    assert (names(found.records), names(found.abandoned)) == (["1", "2", "3", "4"], ["2"])
    assert found.notes == (ThreadIssue("duplicate_uuid", "records with the uuid of an earlier one: 1"),)
    assert live(*records, say("5", "4")) == ["1", "2", "3", "4", "5"]


def test_another_record_under_the_name_of_a_kept_one_is_continued_itself():
    kept = b.boundary("b", logical="2", kept=("2", "s", "2"))
    old = (say("1"), reply("2", "1"), kept, b.summary(uuid="s", parent="b"), say("3", "s"))
    assert live(*old, say("2", "3"), reply("4", "2")) == ["1", "2", "b", "s", "3", "2", "4"]


@pytest.mark.spec("TR-9")
def test_a_boundary_behind_a_kept_segment_follows_the_compaction_that_kept_it():
    first = (b.boundary("b", logical="2", kept=("2", "s", "2")), b.summary(uuid="s", parent="b"))
    again = (b.boundary("c", logical="2"), b.summary(uuid="t", parent="c"))
    records = (say("1"), reply("2", "1"), *first, *again, say("3", "t"))
    assert live(*records) == ["1", "2", "b", "s", "c", "t", "3"]


@pytest.mark.spec("TR-10")
def test_a_summary_whose_boundary_was_lost_stays_out_of_sight():
    stray = (b.summary(uuid="s", parent="lost"), b.attachment("restored", uuid="r", parent="s"))
    records = (say("1"), reply("2", "1"), *stray)
    assert names(split_threads(records).main.records) == ["1", "2"]
    assert live(*records, say("3", "2")) == ["1", "2", "3"]
    # Alone at the beginning it stands for a session in another file.
    assert live(stray[0], say("3", "s")) == ["s", "3"]


@pytest.mark.spec("TR-9", "CP-30")
def test_a_boundary_behind_a_segment_whose_compaction_was_undone_follows_the_record_itself():
    first = (b.boundary("b", logical="2", kept=("2", "s", "2")), b.summary(uuid="s", parent="b"))
    undone = b.edited(Undone("b"), "undone", parent="s")
    again = (b.boundary("c", logical="2"), b.summary(uuid="t", parent="c"))
    records = (say("1"), reply("2", "1"), *first, undone, *again, say("3", "t"))
    assert live(*records) == ["1", "2", "c", "t", "3"]


def test_a_log_without_messages_is_a_thread_of_what_there_is():
    records = [b.system(uuid="s1"), b.attachment("x", uuid="x1", parent="s1")]
    assert split_threads(records).main.records == tuple(records)


def test_another_reply_to_the_same_message_is_left_behind():
    assert live(say("1"), reply("2", "1"), reply("3", "1"), say("4", "3")) == ["1", "3", "4"]


def test_records_before_the_ones_they_continue_are_counted():
    records = (reply("4", "3"), say("3", "2"), reply("2", "1"), say("1"))
    late = "records that stand before the one they continue, so their order may be wrong: 3"
    assert ThreadIssue("late_parent", late) in split_threads(records).main.notes


def noted(*records: Record) -> list[tuple[str, str]]:
    return [(each.kind, each.what) for each in split_threads(records).main.notes]


def test_one_record_before_the_one_it_continues_is_no_reason_for_a_note_and_two_are():
    one = (say("1"), say("3", "2"), reply("2", "1"), reply("4", "3"))
    assert noted(*one) == []
    late = "records that stand before the one they continue, so their order may be wrong: 2"
    two = (say("1"), reply("4", "3"), say("3", "2"), reply("2", "1"), say("5", "4"))
    assert noted(*two) == [("late_parent", late)]


def test_a_circle_is_named_by_the_record_that_closes_it():
    records = (say("1", "3"), reply("2", "1"), say("3", "2"))
    assert noted(*records) == [("cycle", "1 is linked in a circle")]


def test_a_thread_goes_on_from_a_rewind_behind_the_newest_message():
    records = (say("1"), reply("2", "1"), say("3", "2"), reply("4", "3"))
    rewound = b.edited(Rewound("2"), "back", parent="2")
    found = split_threads([*records, rewound]).main
    assert (names(found.records), names(found.abandoned)) == (["1", "2", "back"], ["3", "4"])
    left = "messages on abandoned branches (rewind, resume, fork): 2"
    assert found.notes == (ThreadIssue("abandoned", left),)


def test_what_was_written_twice_or_is_no_message_does_not_count_as_abandoned():
    records = (
        say("1"),
        reply("2", "1"),
        b.attachment("for 3", uuid="note", parent="2"),
        say("3", "note"),
        say("3", "note"),
        say("4", "2"),
    )
    found = split_threads(records).main
    assert (names(found.records), names(found.abandoned)) == (["1", "2", "4"], ["note", "3", "3"])
    assert [each.what for each in found.notes] == [
        "records with the uuid of an earlier one: 1",
        "messages on abandoned branches (rewind, resume, fork): 1",
    ]


@pytest.mark.spec("TR-9")
def test_a_record_whose_parent_was_lost_stays_in_the_file_of_its_agent():
    side = {"isSidechain": True}
    records = (say("a", **side), reply("c", "b", **side), say("d", "c", **side))
    found = split_threads(records)
    assert (found.main.agent, names(found.main.records), found.sidechains) == ("a", ["a", "c", "d"], ())
    # Beside a main conversation it may be one of any agent.
    found = split_threads((say("1"), *records))
    assert [(each.agent, names(each.records)) for each in found.sidechains] == [
        ("a", ["a"]),
        ("c", ["c", "d"]),
    ]


def test_several_agents_without_a_main_conversation_are_sidechains():
    one, two = ({"isSidechain": True, "agentId": name} for name in ("x", "y"))
    records = (say("a", **one), say("b", **two))
    assert split_threads(records) == Threads(
        Thread("", ()), (Thread("x", records[:1]), Thread("y", records[1:]))
    )


def test_a_boundary_that_follows_nothing_follows_the_record_before_it():
    records = (say("1"), b.boundary(), b.summary(), say("2", "s"))
    assert split_threads(records).main == Thread("", records)
    # Any other record that follows nothing begins a conversation.
    assert live(say("1"), say("2"), reply("3", "2")) == ["2", "3"]


def test_each_boundary_without_a_summary_is_noted_and_one_with_a_summary_elsewhere_is_not():
    half = "boundary {} has no summary; the view before it stays in force"
    records = (
        say("1"),
        b.boundary("b1", logical="1"),
        b.boundary("b2", logical="1"),
        b.summary(uuid="s2", parent="b2"),
        reply("2", "s2"),
        b.boundary("b3", logical="2"),
        say("3", "1"),
    )
    found = split_threads(records).main
    assert names(found.records) == ["1", "3"]
    assert [each.what for each in found.notes if each.kind == "half_compaction"] == [
        half.format("b1"),
        half.format("b3"),
    ]


def test_bookkeeping_beside_the_path_belongs_to_it_and_so_does_what_hangs_on_that():
    records = (
        say("1"),
        b.system(uuid="hook", parent="1"),
        b.progress("bar", parent="hook"),
        b.attachment("x", uuid="note", parent="bar"),
        reply("2", "1"),
        b.system(uuid="orphan", parent="gone"),
    )
    assert live(*records) == ["1", "hook", "bar", "note", "2"]


def test_results_beside_the_path_belong_to_it_if_they_answer_an_open_call_of_it():
    records = (
        say("1"),
        reply("2", "1", b.call("a"), b.call("b")),
        b.result("a", uuid="ra", parent="2"),
        b.result("zz", uuid="rz", parent="2"),
        b.result("b", "old", uuid="rb", parent="2"),
        b.user([b.answer("a"), b.answer("b", "new")], uuid="both", parent="2"),
        b.result("a", "end", uuid="last", parent="2"),
    )
    found = split_threads(records).main
    assert (names(found.records), names(found.abandoned)) == (["1", "2", "rb", "last"], ["ra", "rz", "both"])


def test_a_boundary_that_only_other_records_continue_has_no_summary():
    records = (say("1"), b.boundary("b1", logical="1"), say("2", "b1"), say("3", "1"))
    found = split_threads(records).main
    assert names(found.records) == ["1", "3"]
    half = "boundary b1 has no summary; the view before it stays in force"
    assert ThreadIssue("half_compaction", half) in found.notes


def test_without_messages_the_last_record_and_what_it_continues_are_the_thread():
    records = (b.system(uuid="s1"), b.system(uuid="s2"), b.attachment("x", uuid="x1", parent="s2"))
    found = split_threads(records).main
    assert (names(found.records), names(found.abandoned)) == (["s2", "x1"], ["s1"])
    alone = split_threads(records[:2]).main
    assert (names(alone.records), names(alone.abandoned)) == (["s2"], ["s1"])


def test_another_record_under_the_name_of_a_segment_that_waits_for_its_summary_is_continued_itself():
    kept = b.boundary("b", logical="2", kept=("2", "s", "2"))
    other = b.user("other", uuid="2", parent="1")
    records = (say("1"), reply("2", "1"), kept, other, b.summary(uuid="s", parent="b"), reply("3", "2"))
    assert live(*records) == ["1", "2", "3"]
    assert split_threads(records).main.records[1] == records[3]


def test_attachments_that_lead_to_both_a_live_and_a_left_message_stay():
    records = (
        say("1"),
        b.attachment("x", uuid="shared", parent="1"),
        b.system(uuid="own", parent="shared"),
        reply("2", "own"),
        say("3", "2"),
        b.attachment("y", uuid="way", parent="shared"),
        b.attachment("z", uuid="further", parent="way"),
        reply("4", "further"),
        reply("5", "shared"),
    )
    found = split_threads(records).main
    assert (names(found.records), names(found.abandoned)) == (
        ["1", "shared", "5"],
        ["own", "2", "3", "way", "further", "4"],
    )


def test_a_summary_behind_attachments_completes_the_compaction_before_them():
    kept = b.boundary("b", logical="3", kept=("3", "s", "3"))
    start = (say("1"), reply("2", "1"), say("3", "2"), kept)
    between = (b.attachment("x", uuid="x", parent="b"), b.system(uuid="h", parent="x"))
    summed = b.summary(uuid="s", parent="h")
    assert live(*start, *between, summed, reply("4", "3")) == ["1", "2", "3", "b", "x", "h", "s", "4"]
    # Behind a message it completes none, and what names the segment continues the record itself.
    apart = (say("m", "x"), b.summary(uuid="s", parent="m"))
    assert live(*start, between[0], *apart, reply("4", "3")) == ["1", "2", "3", "4"]


def test_what_leads_only_to_a_result_that_was_left_behind_is_left_with_it():
    """Both records of bookkeeping continue the call; only the second one leads to what goes on."""
    call = b.call("toolu_1")
    records = (
        say("1"), reply("2", "1", call), b.edited(Rewound("2"), uuid="3", parent="2"),
        b.result("toolu_1", "left", uuid="4", parent="3"), reply("5", "4"),
        b.edited(Rewound("2"), uuid="6", parent="2"),
    )  # fmt: skip
    assert live(*records) == ["1", "2", "6"]
    assert live(*records, say("7", "6")) == ["1", "2", "6", "7"]
