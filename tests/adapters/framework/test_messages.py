"""What the engine shows is traced to the messages that it came from."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from everturn.adapters.framework import FrameworkMessage, TracedBlocks, make_opaque_block, trace_blocks


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "read", "input": {}}


def result(id: str, words: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": words}


def sent(*pieces: FrameworkMessage) -> list[dict[str, Any]]:
    return [{"role": piece.role, "content": list(piece.blocks)} for piece in pieces]


PIECES = [
    FrameworkMessage("user", [text("Go.")]),
    FrameworkMessage("assistant", [text("I look."), call("a"), call("b")]),
    FrameworkMessage("user", [result("a", "one")]),
    FrameworkMessage("user", [result("b", "two")]),
]

few = st.sampled_from(["yes", "no", "go on"])
pieces = st.builds(
    lambda role, words: FrameworkMessage(role, [text(each) for each in words]),
    st.sampled_from(["user", "assistant"]),
    st.lists(few, min_size=1, max_size=3),
)


@given(st.lists(pieces, max_size=8), st.integers(0, 8))
def test_what_a_compaction_kept_is_what_was_last_even_if_it_says_the_same(pieces, cut):
    kept = list(range(len(pieces)))[cut:]
    shown = trace_blocks(sent(*pieces[cut:]), pieces)
    assert [(each.source, each.is_untouched) for each in shown] == [(at, True) for at in kept]


def test_messages_that_were_put_together_come_apart_again():
    together = FrameworkMessage("user", [*PIECES[2].blocks, *PIECES[3].blocks])
    shown = trace_blocks(sent(PIECES[0], PIECES[1], together), PIECES)
    assert [(each.source, each.is_untouched) for each in shown] == [
        (0, True),
        (1, True),
        (2, True),
        (3, True),
    ]


def test_a_cleared_result_is_a_change_of_its_message_alone():
    cleared = result("a", "[cleared]")
    together = FrameworkMessage("user", [cleared, *PIECES[3].blocks])
    assert trace_blocks(sent(*PIECES[:2], together), PIECES)[2:] == [
        TracedBlocks("user", 2, (cleared,), (0,), False),
        TracedBlocks("user", 3, (result("b", "two"),), (0,), True),
    ]


def test_a_summary_comes_from_nowhere():
    summary = text("What happened so far.")
    assert trace_blocks(sent(FrameworkMessage("user", [summary])), PIECES) == [
        TracedBlocks("user", -1, (summary,), (-1,), False)
    ]


def test_a_marker_is_no_change():
    marked = {**text("Go."), "cache_control": {"type": "ephemeral"}}
    assert trace_blocks(sent(FrameworkMessage("user", [marked])), PIECES)[0].is_untouched


def test_what_is_not_known_is_known_by_its_content():
    assert make_opaque_block({"kind": "strange", "of": {1, 2}}) != make_opaque_block(
        {"kind": "strange", "of": {1, 3}}
    )
