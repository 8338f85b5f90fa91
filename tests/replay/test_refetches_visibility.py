"""What is missing under a policy: conversations whose every refetch is known."""

import pickle

import pytest
from builders import assistant, boundary, call, edited, result, summary, think, user

from everturn.history.edits import CacheDeleted, CacheDeletionsEnded, Cleared, Offloaded, ThinkingDropped
from everturn.history.log import Log, View
from everturn.history.threads import Thread
from everturn.replay.refetches import Refetch, Visibility, index_threads

OLD = "total = price * count"


def edit(name, uuid, *, old=OLD, path="src/shop.py"):
    return assistant(call(name, "Edit", file_path=path, old_string=old), id=f"m-{uuid}", uuid=uuid)


START = (
    user("Fix the price in src/shop.py.", uuid="u"),
    assistant(call("c1", "Read", file_path="src/shop.py"), id="m1", uuid="a1"),
    result("c1", f"1\t{OLD}\n2\treturn total_price", uuid="r1"),
    assistant(call("c2", "Bash", command="grep -rn parse_line"), id="m2", uuid="a2"),
    result("c2", "lib/text.py:7:def parse_line(text_to_parse):", uuid="r2"),
)
READ = Refetch("r1:0", 10, OLD, "partial", 1)


def watch(*records, seen=None):
    """A conversation and what is seen of it: everything before its last record, unless told otherwise."""
    uses = index_threads([Thread("", records)], count=lambda block: 10)
    visible = Visibility(uses)
    for record in records[:-1] if seen is None else seen:
        visible.see(record)
    return visible, uses.threads[0].numbers[records[-1].uuid]


@pytest.mark.spec("RP-6")
def test_an_edit_of_cleared_text_is_a_refetch_of_the_read():
    visible, number = watch(*START, edit("c3", "a3"))
    visible.hide(["c1"])
    assert visible.missing(number) == (READ,)
    assert visible.refetch(number) == (READ,)


@pytest.mark.spec("RP-6")
def test_what_was_fetched_is_in_sight_from_there_on():
    visible, number = watch(*START, edit("c3", "a3"))
    visible.hide(["c1"])
    assert visible.refetch(number) == (READ,)
    assert visible.refetch(number) == ()
    visible.hide(["c1"])
    assert visible.refetch(number) == ()


def test_what_was_fetched_leaves_with_the_call_that_fetched_it():
    visible, number = watch(*START, edit("c3", "a3"))
    visible.hide(["c1"])
    (refetch,) = visible.refetch(number)
    visible.fetched_as(refetch, "fetch-1")
    visible.replace(["u", "a1", "fetch-1"])
    assert visible.missing(number) == ()
    visible.hide(["fetch-1"])
    assert visible.missing(number) == (READ,)


@pytest.mark.spec("RP-6")
def test_nothing_hidden_is_nothing_missing():
    visible, number = watch(*START, edit("c3", "a3"))
    assert visible.refetch(number) == ()


@pytest.mark.spec("RP-6")
@pytest.mark.parametrize(
    "still_said",
    [user(f"I mean this:\n{OLD}", uuid="v"), assistant(f"So it is\n```\n{OLD}\n```", id="m9", uuid="v")],
)
def test_what_the_user_or_the_assistant_still_says_is_no_refetch(still_said):
    visible, number = watch(*START, still_said, edit("c3", "a3"))
    visible.hide(["c1"])
    assert visible.refetch(number) == ()
    visible.hide(["v"])
    assert [refetch.what for refetch in visible.refetch(number)] == [OLD]


THOUGHT = assistant(think(f"The line is\n{OLD}"), id="m9", uuid="t")


@pytest.mark.spec("RP-6")
def test_what_thinking_that_is_still_sent_repeats_is_no_refetch():
    visible, number = watch(*START, THOUGHT, edit("c3", "a3"))
    visible.hide(["c1"])
    assert visible.missing(number) == ()
    visible.see(edited(ThinkingDropped("t"), "e1"))
    assert visible.missing(number) == (READ,)


def test_thinking_quotes_a_line_in_the_middle_of_its_own():
    thought = assistant(think(f"We compute:```x = 1{BOTH}y = 2```, so"), id="m9", uuid="t")
    middle = f"x = 1\n{OLD}\ny = 2"
    read = result("c1", f"1\tx = 1\n2\t{OLD}\n3\ty = 2", uuid="r1")
    visible, number = watch(*START[:2], read, thought, edit("c3", "a3", old=middle))
    visible.hide(["c1"])
    assert visible.missing(number) == ()
    visible.hide(["t"])
    assert visible.missing(number) == (Refetch("r1:0", 10, OLD, "old_text", 1),)


@pytest.mark.spec("RP-14")
@pytest.mark.parametrize(
    ("line", "is_seen"),
    [("total = sum(item.price * item.count for item in items)", True), ("total = price * count", False)],
)
def test_a_long_line_inside_a_line_of_a_visible_call_is_no_refetch_and_a_short_one_is(line, is_seen):
    read = result("c1", f"1\tx = 1\n2\t{line}\n3\ty = 2", uuid="r1")
    script = assistant(call("c2", "Bash", command=f"old = '    {line}'"), id="m2", uuid="s")
    visible, number = watch(*START[:2], read, script, edit("c3", "a3", old=f"x = 1\n{line}\ny = 2"))
    visible.hide(["c1"])
    missing = (Refetch("r1:0", 10, line, "old_text", 1),)
    assert visible.missing(number) == (() if is_seen else missing)
    visible.hide(["s"])
    assert visible.missing(number) == missing


@pytest.mark.parametrize(
    ("dropped", "found"),
    [
        (ThinkingDropped(""), (READ,)),
        (ThinkingDropped("", until="t"), ()),
        (ThinkingDropped("not in view"), (READ,)),
        (ThinkingDropped("r1", until="later"), (READ,)),
        (ThinkingDropped("later"), ()),
    ],
)
def test_thinking_is_gone_from_where_an_edit_drops_it_up_to_where_it_keeps_it(dropped, found):
    later = assistant(think("And now the edit."), id="m10", uuid="later")
    visible, number = watch(*START, THOUGHT, later, edit("c3", "a3"))
    visible.hide(["c1"])
    visible.see(edited(dropped, "e1"))
    assert visible.missing(number) == found


def test_thinking_of_a_view_is_dropped_by_the_edits_in_that_view_alone():
    gone = edited(ThinkingDropped(""), "e1")
    visible, number = watch(*START, THOUGHT, edit("c3", "a3"))
    visible.hide(["c1"])
    visible.see(gone)
    # An undo brings the thinking back that was dropped after what it undid.
    visible.show(View((*START, THOUGHT), cleared={}))
    assert visible.missing(number) == ()
    # What was thought after the edit is not dropped by it.
    visible.show(View((*START, gone, THOUGHT), cleared={}))
    assert visible.missing(number) == ()
    visible.show(View((*START, THOUGHT, gone), cleared={}))
    assert visible.missing(number) == (READ,)


def test_thinking_is_visible_and_nothing_is_traced_to_it():
    own = assistant(think(f"I would write\n{OLD}"), id="m1", uuid="t")
    visible, number = watch(user("Go.", uuid="u"), own, edit("c3", "a3"))
    visible.replace([])
    assert visible.missing(number) == ()


@pytest.mark.spec("RP-6")
def test_the_most_recent_block_that_held_it_is_missing():
    again = (
        assistant(call("c3", "Read", file_path="src/shop.py"), id="m3", uuid="a3"),
        result("c3", f"1\t{OLD}", uuid="r3"),
    )
    visible, number = watch(*START, *again, edit("c4", "a4"))
    visible.hide(["c3"])
    assert visible.missing(number) == ()
    visible.hide(["c1"])
    assert visible.missing(number) == (Refetch("r3:0", 10, OLD, "partial", 1),)


@pytest.mark.spec("RP-6")
def test_many_uses_of_one_block_are_one_refetch_and_blocks_are_told_apart():
    both = assistant(
        call("c3", "Edit", file_path="src/shop.py", old_string=f"{OLD}\nreturn total_price"),
        call("c4", "Bash", command="sed -i s/text_to_parse/text/ lib/text.py"),
        id="m3",
        uuid="a3",
    )
    visible, number = watch(*START, both)
    visible.hide(["c1", "c2"])
    assert visible.refetch(number) == (READ, Refetch("r2:0", 10, "lib/text.py", "file", 2))


@pytest.mark.spec("RP-14")
def test_two_names_from_one_block_are_a_probable_refetch_and_one_is_none():
    for said, found in (
        ("It is `text_to_parse`.", ()),
        ("It is `text_to_parse` in lib/text.py.", (Refetch("r2:0", 10, "lib/text.py", "file", 2),)),
    ):
        visible, number = watch(*START, assistant(said, id="m3", uuid="a3"))
        visible.hide(["c2"])
        assert visible.refetch(number) == found


LINES = ["if err := store.Save(state); err != nil {", "total := sumOf(prices) + shipping(prices)"]
LINES += ["return fmt.Errorf(total, errors.New(text))"]


@pytest.mark.spec("RP-14")
@pytest.mark.parametrize(("count", "tiers"), [(1, []), (2, [2]), (3, [1])])
def test_two_copied_lines_are_a_probable_refetch_and_three_are_certain(count, tiers):
    copied = call("c3", "Write", file_path="b.go", content="\n".join(LINES[:count]))
    visible, number = watch(
        user("Go.", uuid="u"),
        assistant(call("c1", "Read", file_path="a.go"), id="m1", uuid="a1"),
        result("c1", "\n".join(LINES), uuid="r1"),
        assistant(copied, id="m3", uuid="a3"),
    )
    visible.hide(["c1"])
    assert [each.tier for each in visible.missing(number)] == tiers


@pytest.mark.spec("RP-14")
def test_what_one_block_leaves_has_to_count_by_itself():
    """The first block brings three names; the fourth is then a single name."""
    visible, number = watch(
        user("Go.", uuid="u"),
        assistant(call("c1", "Bash", command="x"), id="m1", uuid="a1"),
        result("c1", "parse_line read_line write_line", uuid="r1"),
        assistant(call("c2", "Bash", command="y"), id="m2", uuid="a2"),
        result("c2", "write_line close_line", uuid="r2"),
        assistant("See parse_line, read_line, write_line and close_line.", id="m3", uuid="a3"),
    )
    visible.hide(["c1", "c2"])
    assert [each.block for each in visible.missing(number)] == ["r1:0"]


@pytest.mark.spec("RP-14")
def test_what_a_certain_fetch_brings_does_not_make_a_probable_one():
    """The quoted line has to be fetched and has one of two names, so the other one is a single name."""
    line = "options = [*given, *make_default_options(linter)]"
    said = f"It calls make_default_options of ArgumentTable:\n```\n{line}\n```"
    visible, number = watch(
        user("Go.", uuid="u"),
        assistant(call("c1", "Bash", command="x"), id="m1", uuid="a1"),
        result("c1", "from base import make_default_options, ArgumentTable", uuid="r1"),
        assistant(call("c2", "Bash", command="y"), id="m2", uuid="a2"),
        result("c2", line, uuid="r2"),
        assistant(said, id="m3", uuid="a3"),
    )
    visible.hide(["c1", "c2"])
    assert visible.missing(number) == (Refetch("r2:0", 10, line, "quoted", 1),)


@pytest.mark.spec("RP-6")
def test_a_summary_holds_what_stands_in_it():
    visible, number = watch(*START, edit("c3", "a3"))
    visible.replace([])
    assert [refetch.block for refetch in visible.missing(number)] == ["r1:0"]
    visible.see(summary(f"We were in src/shop.py at `{OLD}`.", uuid="s"))
    assert visible.missing(number) == ()
    visible.replace(["other"])
    assert [refetch.block for refetch in visible.missing(number)] == ["r1:0"]


def test_a_restored_file_is_seen_like_any_record_and_hidden_by_its_name():
    visible, number = watch(*START, edit("c3", "a3"))
    visible.hide(["c1"])
    visible.see(result("again", f"7\t{OLD}", uuid="restored"))
    assert visible.missing(number) == ()
    visible.hide(["again"])
    assert visible.missing(number) == (READ,)


def test_a_call_without_a_number_misses_nothing():
    visible, _ = watch(*START, edit("c3", "a3"))
    visible.replace([])
    assert (visible.refetch(0), visible.refetch(99)) == ((), ())


def test_edits_of_single_results_are_followed():
    visible, number = watch(*START, edit("c3", "a3"))
    visible.see(edited(CacheDeleted(("c1",)), "e1"))
    assert visible.missing(number) == (READ,)
    visible.see(edited(CacheDeletionsEnded(), "e2"))
    assert visible.missing(number) == ()
    visible.see(edited(Cleared(("c1",)), "e3"))
    assert visible.missing(number) == (READ,)


def test_an_offloaded_result_is_seen_by_its_preview_alone():
    visible, number = watch(*START, edit("c3", "a3", old=f"{OLD}\nreturn total_price"))
    visible.see(edited(Offloaded("c1", "out.txt", f"1\t{OLD} ...", 99), "e1"))
    assert visible.missing(number) == (Refetch("r1:0", 10, "return total_price", "partial", 1),)
    visible.see(edited(Cleared(("c1",)), "e2"))
    assert visible.missing(number) == (READ,)


BOTH = f"{OLD}\nreturn total_price"
AWAY = Offloaded("c1", "out.txt", f"1\t{OLD} ...", 99)
REST = Refetch("r1:0", 10, "return total_price", "partial", 1)


def test_a_view_shows_the_preview_of_what_was_offloaded():
    visible, number = watch(*START, edit("c3", "a3", old=BOTH), seen=())
    # The view has the result, and no longer the record of the edit.
    visible.show(View(START, cleared={}, offloaded={"c1": AWAY}))
    assert visible.missing(number) == (REST,)


def test_a_preview_stays_as_long_as_the_record_of_its_result():
    visible, number = watch(*START, edit("c3", "a3", old=BOTH))
    visible.see(edited(AWAY, "e1"))
    visible.replace(["u", "r1"])
    assert visible.missing(number) == (REST,)
    visible.replace(["u"])
    assert visible.missing(number) == (READ,)


def test_what_was_offloaded_and_then_cleared_has_no_preview_in_any_view():
    visible, number = watch(*START, edit("c3", "a3", old=BOTH))
    edits = (edited(AWAY, "e1"), edited(Cleared(("c1",)), "e2"))
    for record in edits:
        visible.see(record)
    visible.show(Log((*START, *edits)).view)
    assert visible.missing(number) == (READ,)


def test_a_result_that_is_hidden_already_does_not_come_into_sight():
    visible, number = watch(*START, edit("c3", "a3"))
    visible.hide(["c1", "again"])
    visible.see(result("again", f"7\t{OLD}", uuid="restored"))
    assert visible.missing(number) == (READ,)


def test_a_view_that_is_shown_again_and_again_grows_nothing():
    visible, _ = watch(*START, edit("c3", "a3"))
    view = Log((*START, user("Restored: src/shop.py", uuid="restored"))).view
    visible.show(view)
    once = len(pickle.dumps(visible))
    for _ in range(5):
        visible.show(view)
    assert len(pickle.dumps(visible)) == once


@pytest.mark.spec("RP-6")
def test_a_view_after_a_compaction_is_what_is_in_sight():
    compacted = (boundary("b"), summary(f"We read src/shop.py: {OLD}", uuid="s"))
    uses = index_threads([Thread("", (*START, *compacted, edit("c3", "a3")))], count=lambda block: 10)
    visible, log = Visibility(uses), Log()
    for record in (*START, *compacted):
        visible.see(record)
        if log.append(record) == "replaced":
            visible.show(log.view)
    # The recorded agent had it in its summary; a policy without that summary has to fetch it.
    assert visible.refetch(3) == ()
    visible.hide(["s"])
    assert visible.refetch(3) == (READ,)


def test_a_view_with_cleared_results_is_without_them_though_it_lacks_the_edit():
    visible, number = watch(*START, edit("c3", "a3"))
    visible.replace([])
    visible.show(View(START, cleared={"c1": Cleared(("c1",))}))
    assert visible.missing(number) == (READ,)


def test_the_working_folder_is_always_in_sight():
    records = (
        user("Go to /home/me/app.", uuid="u", cwd="/home/me/app"),
        assistant("In /home/me/app now.", id="m1", uuid="a1"),
    )
    visible, number = watch(*records)
    visible.replace([])
    assert visible.missing(number) == ()


def test_a_long_use_is_shown_short():
    long_line = "x = " + "one + " * 50
    visible, number = watch(
        START[0], START[1], result("c1", long_line, uuid="r1"), edit("c3", "a3", old=long_line)
    )
    visible.hide(["c1"])
    assert [refetch.what for refetch in visible.refetch(number)] == [long_line[:80]]


def test_a_file_is_in_sight_while_its_folder_is_listed():
    listed = (
        user("What is in src?", uuid="u"),
        assistant(call("c1", "Bash", command="ls -1 src"), id="m1", uuid="a1"),
        result("c1", "shop.py\ntext.py", uuid="r1"),
        assistant(call("c2", "Read", file_path="/app/src/shop.py"), id="m2", uuid="a2"),
    )
    visible, number = watch(*listed)
    assert visible.missing(number) == ()
    visible.hide(["c1"])
    assert visible.missing(number) == (Refetch("r1:0", 10, "src/shop.py", "argument", 2),)
