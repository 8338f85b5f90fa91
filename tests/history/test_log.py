"""The view of a log, scene by scene. What holds for all logs: `tests/laws/test_log.py`."""

import builders as b
import pytest
from builders import compute_view

from everturn.history.edits import Cleared, Compacted, KeptSegment, Offloaded, Pinned, Trimmed, Undone
from everturn.history.log import Log, RecordPrefix, View
from everturn.history.threads import ThreadIssue

ONE, TWO, THREE, FOUR = (b.user(text) for text in ("one", "two", "three", "four"))


def shown(log: Log) -> list[str]:
    return [record.uuid for record in log.view.records]


@pytest.mark.spec("TR-5")
def test_without_a_boundary_everything_is_seen():
    assert compute_view([ONE, TWO]) == View([ONE, TWO], {})
    assert compute_view([]) == View([], {})
    assert compute_view([]).boundary is None


@pytest.mark.spec("TR-5")
def test_a_summary_that_was_summarized_again_is_part_of_what_the_next_one_replaces():
    log = Log([ONE, b.boundary("b1"), b.summary(uuid="s1"), TWO])
    assert shown(log) == ["b1", "s1", "two"]
    log.append(b.boundary("b2"))
    log.append(b.summary(uuid="s2"))
    assert shown(log) == ["b2", "s2"]
    assert [[record.uuid for record in past.records] for past in log.views_before] == [
        ["one"],
        ["b1", "s1", "two"],
    ]


def test_a_boundary_takes_force_with_its_summary():
    log = Log([ONE])
    assert log.append(b.boundary()) == "extended"
    assert shown(log) == ["one"]
    assert log.append(b.summary()) == "replaced"
    assert log.view.boundary == b.boundary()
    assert log.append(TWO) == "extended"
    assert shown(log) == ["b", "s", "two"]


@pytest.mark.parametrize("second", [TWO, b.assistant("no summary", uuid="two")])
def test_a_boundary_without_its_summary_leaves_the_view_standing_and_is_noted(second):
    log = Log([ONE, b.boundary()])
    assert log.append(second) == "extended"
    assert shown(log) == ["one", "two"]
    assert log.notes == [
        ThreadIssue("half_compaction", "boundary b has no summary; the view before it stays in force")
    ]
    assert log.records == [ONE, b.boundary(), second]


def test_a_compaction_that_was_tried_again_counts_once():
    log = Log([ONE, b.boundary("b1"), b.boundary("b2"), b.summary(), TWO])
    assert shown(log) == ["b2", "s", "two"]
    assert [note.kind for note in log.notes] == ["half_compaction"]


def test_what_stands_between_a_boundary_and_its_summary_is_behind_the_boundary():
    hook = b.attachment("from a hook", uuid="hook")
    log = Log([ONE, b.boundary(), hook, b.summary(), TWO])
    assert shown(log) == ["b", "hook", "s", "two"]
    log.append(b.edited(Undone("b"), "undo"))
    assert shown(log) == ["one", "hook", "two"]


@pytest.mark.spec("TR-9")
@pytest.mark.parametrize(
    ("anchor", "expected"), [("s", ["b", "s", "two", "three"]), ("b", ["b", "two", "three", "s"])]
)
def test_a_kept_segment_follows_its_anchor_and_its_usage_is_stale(anchor: str, expected: list[str]):
    log = Log([ONE, TWO, THREE, b.boundary(kept=("two", anchor, "three")), b.summary(), FOUR])
    assert shown(log) == [*expected, "four"]
    assert log.view.stale == {"two", "three"}


@pytest.mark.parametrize("kept", [("gone", "s", "two"), ("one", "s", "gone"), ("two", "s", "one")])
def test_a_segment_that_is_not_there_is_noted_and_the_compaction_stands(kept: tuple[str, str, str]):
    log = Log([ONE, TWO, b.boundary(kept=kept), b.summary()])
    assert shown(log) == ["b", "s"]
    assert [note.kind for note in log.notes] == ["lost_segment"]


def test_an_undo_brings_back_what_was_there_and_keeps_what_was_said_since():
    kept = b.boundary(kept=("two", "s", "two"))
    restored = b.attachment("a file", uuid="restored")
    log = Log([ONE, TWO, kept, b.summary(), restored, THREE])
    assert shown(log) == ["b", "s", "two", "restored", "three"]
    assert log.append(b.edited(Undone("b", "wanted back"), "undo")) == "replaced"
    assert shown(log) == ["one", "two", "three"]
    assert log.view.stale == frozenset()


def test_compactions_are_undone_one_after_the_other_the_last_one_first():
    log = Log(
        [ONE, b.boundary("b1"), b.summary(uuid="s1"), TWO, b.boundary("b2"), b.summary(uuid="s2"), THREE]
    )
    log.append(b.edited(Undone("b1"), "too early"))
    assert shown(log) == ["b2", "s2", "three"]
    assert log.notes == [ThreadIssue("idle_undo", "b1 is not the boundary in force; nothing was undone")]
    log.append(b.edited(Undone("b2"), "undo 2"))
    assert shown(log) == ["b1", "s1", "two", "three"]
    log.append(b.edited(Undone("b1"), "undo 1"))
    assert shown(log) == ["one", "two", "three"]


def test_what_was_answered_behind_an_undone_compaction_tells_of_a_smaller_context():
    told, told_later = b.assistant("yes", uuid="small"), b.assistant("no", uuid="smaller")
    log = Log([ONE, b.boundary("b1"), b.summary(uuid="s1"), told, b.boundary("b2"), b.summary(uuid="s2")])
    log.append(told_later)
    log.append(b.edited(Undone("b2"), "undo 2"))
    assert log.view.shrunk == {"smaller"}
    log.append(b.edited(Undone("b1"), "undo 1"))
    assert log.view.shrunk == {"small", "smaller"}
    for record in (b.boundary("b3"), b.summary(uuid="s3")):
        log.append(record)
    assert log.view.shrunk == frozenset()
    log.append(b.edited(Undone("b3"), "undo 3"))
    assert log.view.shrunk == {"small", "smaller"}


def test_pins_and_hidden_results_outlive_a_compaction():
    cleared, pinned = Cleared(("c1",), "old"), Pinned("the port is 8080", "one")
    offloaded = Offloaded("c2", "a/file", "begins", 90_000)
    edits = [b.edited(edit, f"edit {at}") for at, edit in enumerate((cleared, pinned, offloaded))]
    log = Log([ONE, *edits, b.boundary(), b.summary()])
    assert log.view == View([b.boundary(), b.summary()], {"c1": cleared}, {"c2": offloaded}, pins=(pinned,))


def test_a_trim_leaves_what_follows_and_can_be_undone():
    log = Log([ONE, TWO, THREE])
    trimmed = b.edited(Trimmed("two", "window"), "trim")
    assert log.append(trimmed) == "replaced"
    assert shown(log) == ["trim", "two", "three"]
    assert log.view.stale == {"two", "three"}
    log.append(FOUR)
    log.append(b.edited(Undone("trim"), "undo"))
    assert shown(log) == ["one", "two", "three", "four"]


@pytest.mark.spec("TR-4")
def test_everything_a_boundary_says_is_on_it():
    record = b.boundary(logical="one", kept=("h", "a", "t"), messagesSummarized=4, userContext="c")
    assert record.edit == Compacted("auto", 155_000, 4, "c", "one", (), KeptSegment("h", "a", "t"))


def test_a_window_is_a_sequence_that_does_not_grow():
    items = [ONE, TWO]
    window = RecordPrefix(items, 2)
    items.append(THREE)
    assert (len(window), list(window), window[-1], window[0:5]) == (2, [ONE, TWO], TWO, [ONE, TWO])
    assert window == [ONE, TWO]
    assert window != [ONE]
    assert THREE not in window
    for at in (2, -3):
        with pytest.raises(IndexError):
            window[at]


def test_the_tip_is_the_newest_message_or_what_hangs_below_it():
    log = Log()
    assert log.tip is None
    tips = []
    for record in (
        b.user("1", uuid="1"),
        b.user("2", uuid="2", parent="1"),
        b.system(uuid="below", parent="2"),
        b.system(uuid="beside", parent="1"),
        b.attachment("late", uuid="late", parent="1"),
    ):
        log.append(record)
        assert log.tip is not None
        tips.append(log.tip.uuid)
    assert tips == ["1", "2", "below", "below", "below"]


@pytest.mark.parametrize("edit", [Trimmed("u2"), Undone("nobody"), Compacted()])
def test_an_edit_behind_a_boundary_without_a_summary_gives_that_boundary_up(edit):
    log = Log([b.user("1", uuid="u1"), b.user("2", uuid="u2"), b.boundary("b1"), b.edited(edit, "e1")])
    told = "boundary b1 has no summary; the view before it stays in force"
    assert [note.what for note in log.notes if note.kind == "half_compaction"] == [told]
    log.append(b.user("3", uuid="u3"))
    assert log.view.records[-1].uuid == "u3"


def test_a_trim_before_a_record_that_is_not_there_hides_nothing():
    log = Log([ONE, TWO])
    assert log.append(b.edited(Trimmed("gone"), "trim")) == "replaced"
    assert (shown(log), log.view.stale) == (["trim", "one", "two"], {"one", "two"})


def test_a_log_is_compacting_from_a_boundary_to_its_summary():
    log = Log([ONE])
    seen = []
    for record in (b.boundary(), b.attachment("x", uuid="x"), b.summary(), b.boundary("b2"), TWO):
        log.append(record)
        seen.append(log.is_compacting)
    assert seen == [True, True, False, True, False]


def test_views_that_were_replaced_know_what_is_hidden_now_and_what_was_stale_then():
    log = Log([ONE, TWO, b.boundary("b1", kept=("two", "s1", "two")), b.summary(uuid="s1"), THREE])
    log.append(b.boundary("b2"))
    log.append(b.summary(uuid="s2"))
    cleared, offloaded = Cleared(("c1",)), Offloaded("c2", "f", "p", 9)
    log.append(b.edited(cleared, "e1"))
    log.append(b.edited(offloaded, "e2"))
    first, second = log.views_before
    assert (first, second) == (
        View([ONE, TWO], {"c1": cleared}, {"c2": offloaded}),
        View(
            [b.boundary("b1", kept=("two", "s1", "two")), b.summary(uuid="s1"), TWO, THREE],
            {"c1": cleared},
            {"c2": offloaded},
            frozenset({"two"}),
        ),
    )


def test_a_view_that_was_given_out_does_not_change_when_more_is_hidden_or_pinned():
    log = Log([ONE])
    before = log.view
    for at, edit in enumerate((Cleared(("c1",)), Offloaded("c2", "f", "p", 9), Pinned("x"))):
        log.append(b.edited(edit, f"e{at}"))
    assert before == View([ONE], {})
    assert (list(log.view.cleared), list(log.view.offloaded), log.view.pins) == (
        ["c1"],
        ["c2"],
        (Pinned("x"),),
    )


def test_a_segment_that_is_not_there_is_named_with_its_boundary():
    log = Log([ONE, TWO, b.boundary("b9", kept=("two", "s", "one")), b.summary()])
    what = "boundary b9 keeps two..one, which is not in the view"
    assert log.notes == [ThreadIssue("lost_segment", what)]


def test_a_kept_segment_may_be_the_whole_view_or_a_single_record_of_it():
    for kept, expected in ((("one", "s", "three"), ["one", "two", "three"]), (("one", "s", "one"), ["one"])):
        log = Log([ONE, TWO, THREE, b.boundary(kept=kept), b.summary()])
        assert shown(log) == ["b", "s", *expected]
        assert log.notes == []


def test_an_undo_drops_what_was_restored_before_anything_was_said_and_keeps_what_was_said():
    restored = [b.attachment(each, uuid=each) for each in ("r1", "r2")]
    log = Log([ONE, b.boundary(), b.summary(), *restored, TWO, b.attachment("later", uuid="r3")])
    log.append(b.edited(Undone("b"), "undo"))
    assert shown(log) == ["one", "two", "r3"]
    silent = Log([ONE, b.boundary(), b.summary(), *restored])
    silent.append(b.edited(Undone("b"), "undo"))
    assert (shown(silent), silent.view.shrunk) == (["one"], frozenset())


def test_a_window_takes_places_from_both_ends_and_slices_with_steps():
    window = RecordPrefix([ONE, TWO, THREE, FOUR], 3)
    assert [window[at] for at in (-3, -1, 0, 2)] == [ONE, THREE, ONE, THREE]
    assert (window[::-1], window[1:], window[-1:]) == ([THREE, TWO, ONE], [TWO, THREE], [THREE])
    assert window != 7
    assert window == RecordPrefix([ONE, TWO, THREE], 3)
    with pytest.raises(IndexError, match="record index 3 is out of range: the view has 3 records"):
        window[3]


def test_the_boundary_of_a_view_is_its_first_record_and_no_other():
    assert View([b.boundary()], {}).boundary == b.boundary()
    assert View([ONE, b.boundary()], {}).boundary is None
