"""What a context holds beside its records, from the first usage that was reported."""

import builders as b
import pytest

from everturn.history.edits import (
    Cleared,
    Compacted,
    Edit,
    KeptSegment,
    Offloaded,
    Pinned,
    Rewound,
    Trimmed,
    Undone,
)
from everturn.history.records import Record
from everturn.measure.calibration import Calibration
from everturn.measure.overhead import estimate_overhead, is_conversation_start
from everturn.measure.tokens import TokenCounter

OPUS = "claude-opus-4-6"


def usage(tokens: int) -> dict[str, int]:
    return {"input_tokens": tokens, "output_tokens": 1}


def overhead(*records: Record) -> int | None:
    return estimate_overhead(records, TokenCounter(), Calibration(), OPUS)


def test_the_overhead_is_the_first_usage_without_the_records_before_it():
    asked = b.user("word " * 100, uuid="u1")
    tokens = TokenCounter().of(asked).whole.total
    first = b.assistant("Yes.", id="m1", usage=usage(5_000))
    second = b.assistant("No.", id="m2", usage=usage(90_000))
    assert tokens > 0
    assert overhead(asked, first, second) == 5_000 - tokens
    assert overhead(first) == 5_000


def test_a_call_of_another_model_says_nothing_and_a_usage_below_the_records_gives_none():
    asked = b.user("word " * 100, uuid="u1")
    small = b.assistant("Title.", id="m0", model="claude-haiku-4-5", usage=usage(7))
    assert overhead(asked, small) is None
    assert overhead(asked, b.assistant("Yes.", id="m1", usage=usage(3))) == 0
    first = b.assistant("Yes.", id="m1", usage=usage(5_000))
    before = sum(TokenCounter().of(each).whole.total for each in (asked, small))
    assert overhead(asked, small, first) == 5_000 - before


def edited(edit: Edit) -> Record:
    return Record(kind="system", uuid="e", edit=edit)


@pytest.mark.parametrize(("kept", "counted"), [(None, 0), (KeptSegment("u1", "s", "u1"), 40)])
def test_after_a_compaction_the_first_usage_of_another_model_is_without_what_was_summarized(kept, counted):
    before = [
        b.user("word " * 9_000, uuid="u1"),
        b.assistant("Yes.", model="claude-opus-5", usage=usage(9_000)),
    ]
    boundary = edited(Compacted(kept=kept, tokens_kept=counted))
    after = [b.summary("in short", uuid="s"), b.assistant("No.", usage=usage(5_000))]
    tokens = TokenCounter().of(after[0]).whole.total
    assert overhead(*before, boundary, *after) == 5_000 - counted - tokens


@pytest.mark.parametrize(
    ("edit", "is_known"),
    [
        (Pinned("Never push."), True),
        (Rewound("u1"), True),
        (Cleared(("c1",)), False),
        (Offloaded("c1", "/tmp/c1", "p", 9), False),
        (Undone("b"), False),
        (Trimmed("u2"), False),
        (Compacted(kept=KeptSegment("u1", "s", "u1")), False),
    ],
)
def test_a_usage_behind_an_edit_that_hides_something_tells_nothing(edit, is_known):
    asked, reply = b.user("word " * 100, uuid="u1"), b.assistant("Yes.", usage=usage(5_000))
    found = overhead(asked, edited(edit), reply)
    assert (found is not None) is is_known
    # A view begins with the boundary, and lists what was kept behind it.
    assert overhead(edited(edit), asked, reply) == 5_000 - TokenCounter().of(asked).whole.total


@pytest.mark.parametrize(
    ("records", "starts"),
    [
        ([b.user("x")], True),
        ([b.user("x", parent="p")], False),
        ([b.boundary()], False),
        ([], False),
    ],
)
def test_a_conversation_starts_with_a_record_that_follows_nothing(records, starts):
    assert is_conversation_start(records) is starts
