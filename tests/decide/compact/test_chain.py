"""How many replies came since a compaction, and how long the chain of compactions is."""

import builders as b

from everturn.decide.compact.chain import chain_of, turns_since
from everturn.decide.compact.values import CompactionChain
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
