"""How many replies came since a compaction, and how long the chain of compactions is."""

import builders as b

from everturn.decide.compact.chain import (
    chain_fields,
    chain_of,
    plan_undo,
    plan_undo_after_refusal,
    turns_since,
)
from everturn.decide.compact.values import CompactionChain, CompactionSkipped
from everturn.history.edits import Undone
from everturn.history.log import Log

COMPACTED = [
    b.user("go", uuid="u1"),
    b.assistant("kept", id="m1", uuid="a1"),
    b.boundary("b1", kept=("a1", "s1", "a1")),
    b.summary(uuid="s1", parent="b1"),
]


def test_before_the_first_compaction_there_is_no_chain():
    view = Log(COMPACTED[:2]).view
    assert chain_of(view, threshold=9, source="main") == CompactionChain(threshold=9, source="main")


def test_replies_since_are_counted_by_their_id_or_their_record_and_kept_ones_are_from_before():
    since = [
        b.assistant("one", id="m2", uuid="a2"),
        b.assistant("more of it", id="m2", uuid="a3"),
        b.assistant("two", id="", uuid="a4"),
        b.assistant("three", id="", uuid="a5"),
        b.user("on", uuid="u2"),
    ]
    view = Log([*COMPACTED, *since]).view
    assert turns_since(view) == 3
    assert chain_of(view, threshold=9, source="main") == CompactionChain(
        follows="b1", turns_since=3, length=2, threshold=9, source="main"
    )


def test_the_last_compaction_is_undone_and_without_one_nothing_is():
    assert plan_undo(Log(COMPACTED).view) == Undone("b1", "asked for by the user")
    assert plan_undo(Log(COMPACTED).view, why="a test") == Undone("b1", "a test")
    assert plan_undo(Log(COMPACTED[:2]).view) == CompactionSkipped(
        "No compaction found to undo: the view goes back to the beginning."
    )


def test_a_compaction_whose_view_was_refused_is_undone_unless_a_reply_followed_it():
    view = Log(COMPACTED).view
    why = "the API refused the compacted view: 400"
    assert plan_undo_after_refusal(view, "400") == Undone("b1", why)
    asked = Log([*COMPACTED, b.user("on", uuid="u2")]).view
    assert plan_undo_after_refusal(asked, "400") == Undone("b1", why)
    answered = Log([*COMPACTED, b.user("on", uuid="u2"), b.assistant("yes", id="m2", uuid="a2")]).view
    assert plan_undo_after_refusal(answered, "400") is None
    assert plan_undo_after_refusal(Log(COMPACTED[:2]).view, "400") is None


def test_a_chain_is_told_field_by_field():
    chain = CompactionChain(follows="b1", turns_since=3, length=2, threshold=9, source="main")
    assert chain_fields(chain) == {
        "follows": "b1", "turns_since": 3, "length": 2, "threshold": 9, "source": "main",
    }  # fmt: skip
